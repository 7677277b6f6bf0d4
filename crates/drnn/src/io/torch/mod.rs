//! Files of `torch.save` (`.pt`), read without executing what they hold.

#[cfg(feature = "torch-files")]
mod pickle;
#[cfg(feature = "torch-files")]
mod state_dict;
#[cfg(feature = "torch-files")]
mod zip;

#[cfg(feature = "torch-files")]
pub(crate) use state_dict::tensors;

/// How a file of PyTorch 1.6 and later begins: it is a zip archive.
const ZIP: &[u8] = b"PK\x03\x04";
/// How a file of PyTorch before 1.6 begins: a pickle of this number.
const OLD: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

/// Whether this is a file of `torch.save`, as far as its first bytes show.
pub(crate) fn is_pt(bytes: &[u8]) -> bool {
    bytes.starts_with(ZIP) || bytes.starts_with(OLD)
}

/// All tensors of such a file, which this build cannot read.
#[cfg(not(feature = "torch-files"))]
pub(crate) fn tensors(_: &[u8]) -> crate::Result<super::tensors::Tensors<'_>> {
    Err(super::file::refuse(
        "is a file of PyTorch (.pt), which drnn reads only if built with its feature `torch-files`",
    ))
}
