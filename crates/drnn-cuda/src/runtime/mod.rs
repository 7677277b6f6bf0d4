//! CUDA at run time: libraries, the device, compiled kernels, memory, streams and matrix products.

pub(crate) mod arena;
pub(crate) mod compile;
pub(crate) mod device;
pub(crate) mod driver;
pub(crate) mod gemm;
pub(crate) mod kernel;
pub(crate) mod library;
pub(crate) mod load_once;
pub(crate) mod memory;
pub(crate) mod stream;
