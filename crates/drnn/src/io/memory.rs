//! Writing without std: to memory alone, by the few names of `std::io` that the writers of models use.

use alloc::vec::Vec;

/// The header is the only thing that can fail to be written.
pub type Error = serde_json::Error;
/// Shorthand.
pub type Result<T> = core::result::Result<T, Error>;

/// What bytes are written to.
pub trait Write {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()>;
}

impl Write for Vec<u8> {
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}
