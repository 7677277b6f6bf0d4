//! Files of `torch.save` (`.pt`) and `torch.jit.save`, read without executing what they hold.

#[cfg(feature = "torch-files")]
mod archive;
#[cfg(feature = "torch-files")]
mod old;
#[cfg(feature = "torch-files")]
mod pickle;
#[cfg(feature = "torch-files")]
mod walk;

#[cfg(feature = "torch-files")]
pub(crate) use {archive::read_zip, old::read_old};

#[cfg(not(feature = "torch-files"))]
mod absent {
    use crate::error::Result;
    use crate::io::file::refuse;
    use crate::io::tensors::Contents;

    /// An archive, which this build cannot read.
    pub(crate) fn read_zip(_: &[u8]) -> Result<Contents<'_>> {
        Err(refuse(
            "is a zip archive (a .pt file of PyTorch, or .npz of NumPy), which drnn reads only if \
             built with its feature `torch-files`",
        ))
    }

    /// A file of PyTorch before 1.6, which this build cannot read.
    pub(crate) fn read_old(_: &[u8]) -> Result<Contents<'_>> {
        Err(refuse(
            "is a file of PyTorch (.pt), which drnn reads only if built with its feature \
             `torch-files`",
        ))
    }
}

#[cfg(not(feature = "torch-files"))]
pub(crate) use absent::{read_old, read_zip};
