//! Limits of what is read from model files, and why they are where they are.
//!
//! A model of this program has a dozen tensors per layer, a PyTorch checkpoint with its optimiser
//! some hundreds; the limits lie far above that, and far below what makes a reader slow.

/// Tensors of a file, and other entries of a safetensors header.
pub(crate) const MAX_TENSORS: usize = 10_000;
/// Bytes of a tensor's name.
pub(crate) const MAX_TENSOR_NAME: usize = 1_000;
/// Entries of an archive, `.pt` or `.npz`: one for each tensor's memory, and some more.
#[cfg(feature = "torch-files")]
pub(crate) const MAX_ARCHIVE_ENTRIES: u64 = 2 * MAX_TENSORS as u64;
/// Bytes of a pickle; a tensor takes about a hundred of them.
#[cfg(feature = "torch-files")]
pub(crate) const MAX_PICKLE: usize = 1 << 26;
/// Values of a pickle: a loss history of millions of numbers may lie next to the tensors.
#[cfg(feature = "torch-files")]
pub(crate) const MAX_PICKLE_VALUES: usize = 1 << 22;
/// Keys and objects of a checkpoint that are named as not read.
#[cfg(feature = "torch-files")]
pub(crate) const MAX_OTHERS: usize = 100;
/// Bytes that all compressed entries of an archive may have together: this, or a multiple of the
/// file. Trained weights hardly compress.
#[cfg(feature = "torch-files")]
pub(crate) const MAX_UNPACKED: usize = 1 << 26;
/// That multiple.
#[cfg(feature = "torch-files")]
pub(crate) const MAX_UNPACKED_RATIO: usize = 16;
/// Dictionaries within dictionaries.
#[cfg(feature = "torch-files")]
pub(crate) const MAX_PICKLE_DEPTH: usize = 32;
/// Dimensions of a tensor: a shape is written once and may be used again and again.
#[cfg(feature = "torch-files")]
pub(crate) const MAX_DIMENSIONS: usize = 16;
/// Bytes that are read from what is no regular file, and so does not say how long it is: a pipe.
pub const MAX_STREAM: u64 = 1 << 28;
