//! Files: models as safetensors, those of other programs, and the reading and writing under both.
//!
//! [`Model::save`](crate::Model::save), [`Model::load`](crate::Model::load),
//! [`Model::import`](crate::Model::import) and [`Bundle`] are what a user of models calls. The
//! functions here are what they call: files written atomically, and read within limits, for
//! programs that write files of their own next to a model's.

#[cfg(feature = "std")]
pub(crate) mod atomic;
pub(crate) mod bundle;
pub mod checksum;
pub(crate) mod file;
pub(crate) mod format;
pub(crate) mod half_precision;
pub(crate) mod import;
pub(crate) mod imported;
pub(crate) mod limits;
#[cfg(not(feature = "std"))]
mod memory;
#[cfg(feature = "torch-files")]
mod npz;
#[cfg(feature = "onnx")]
mod onnx;
#[cfg(feature = "std")]
pub(crate) mod read;
pub(crate) mod tensors;
mod torch;
pub(crate) mod write;
#[cfg(feature = "torch-files")]
mod zip;

#[cfg(feature = "std")]
pub use atomic::{sync_folder, write_atomically};
pub use bundle::{Bundle, Table as BundleTable};
pub use file::Precision;
pub use format::Format;
pub use import::{Import, Part};
pub use imported::Imported;
pub use limits::MAX_STREAM;
#[cfg(feature = "std")]
pub use read::{open_file, read_file, read_model_file};
