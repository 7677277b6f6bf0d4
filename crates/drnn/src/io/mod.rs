//! Model files: our own (safetensors), those of several networks, and PyTorch's.

pub(crate) mod bundle;
pub mod checksum;
pub(crate) mod file;
pub(crate) mod import;
pub(crate) mod limits;
pub(crate) mod read;
pub(crate) mod tensors;
mod torch;
