//! Arrays one after another in one piece of device memory. The same code measures and places them.

use crate::error::Result;
use crate::runtime::device::Device;
use crate::runtime::memory::{Buffer, Pod};

/// Bytes of which the addresses of arrays are multiples, if the memory's is.
pub(crate) const ALIGNMENT: usize = 256;

/// A piece of memory, and how much of it is taken.
#[derive(Debug)]
pub(crate) struct Arena {
    /// Address of the memory; `None` to measure only.
    base: Option<u64>,
    used: usize,
}

impl Arena {
    /// The memory from `base` on; without an address, arrays are measured only.
    pub fn new(base: Option<u64>) -> Arena {
        Arena { base, used: 0 }
    }

    /// The next `len` values.
    pub fn take<T: Pod>(&mut self, device: &Device, len: usize) -> Result<Buffer<T>> {
        if len == 0 {
            return Buffer::borrowed(device, 0, 0);
        }
        let from = self.used.next_multiple_of(ALIGNMENT);
        self.used = from + len * size_of::<T>();
        match self.base {
            Some(base) => Buffer::borrowed(device, base + from as u64, len),
            None => Buffer::borrowed(device, 0, 0),
        }
    }

    /// Bytes taken so far.
    pub fn used(&self) -> usize {
        self.used
    }
}
