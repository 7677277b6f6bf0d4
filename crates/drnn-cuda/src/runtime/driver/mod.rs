//! All calls into CUDA that allocate, copy or submit work.
//!
//! `cuda` calls the real driver through cudarc. In this crate's unit tests `recorder` replaces it:
//! functions of the same names that need no GPU, record every call, and reject calls that cannot be
//! right, such as a kernel argument that reaches beyond its buffer.

#[cfg_attr(test, allow(dead_code, unused_imports))]
mod cuda;
#[cfg(test)]
pub(crate) mod recorder;

#[cfg(not(test))]
pub(crate) use cuda::*;
#[cfg(test)]
pub(crate) use recorder::calls::*;
