//! Memory of the GPU, and memory of this machine that it can copy from by itself.

use crate::error::Result;
use crate::runtime::device::Device;
use crate::runtime::driver::{self, stream};
use std::marker::PhantomData;

/// What a copy may move: plain numbers, any bits of which are values.
pub(crate) trait Plain: Copy + Default {}
impl Plain for u8 {}
impl Plain for u16 {}
impl Plain for u32 {}
impl Plain for f32 {}
impl Plain for f64 {}

/// Waits for the stream that plain copies go through: those of learners do not.
fn wait() -> Result<()> {
    // SAFETY: the stream that every context has.
    Ok(unsafe { stream::synchronize(stream::null()) }?)
}

/// An array on the GPU.
#[derive(Debug)]
pub(crate) struct Buffer<T: Plain> {
    device: Device,
    address: u64,
    len: usize,
    kind: PhantomData<T>,
}

impl<T: Plain> Buffer<T> {
    /// `len` zeros.
    pub fn zeros(device: &Device, len: usize) -> Result<Buffer<T>> {
        Buffer::filled(device, len, 0)
    }

    /// `len` values, all bytes of which are the same.
    pub fn filled(device: &Device, len: usize, byte: u8) -> Result<Buffer<T>> {
        let _quiet = device.quiet()?;
        // SAFETY: freed once, by `drop`.
        let address = unsafe { driver::filled::<T>(len, byte) }?;
        Ok(Buffer { device: device.clone(), address, len, kind: PhantomData })
    }

    /// A copy of `values`.
    pub fn from(device: &Device, values: &[T]) -> Result<Buffer<T>> {
        let buffer = Buffer::zeros(device, values.len())?;
        buffer.set(values)?;
        Ok(buffer)
    }

    /// Copies values there, and waits.
    pub fn set(&self, values: &[T]) -> Result<()> {
        assert_eq!(values.len(), self.len, "as many values as there is room for");
        let _quiet = self.device.quiet()?;
        // SAFETY: the lengths are equal.
        unsafe { driver::memcpy_htod_sync(self.address, values) }?;
        wait()
    }

    /// Copies values to `from` and behind, and waits. Whoever uses them must have finished.
    pub fn put(&self, from: usize, values: &[T]) -> Result<()> {
        assert!(from + values.len() <= self.len, "no more than there is");
        let _quiet = self.device.quiet()?;
        // SAFETY: the lengths fit.
        unsafe { driver::memcpy_htod_sync(self.at(from), values) }?;
        wait()
    }

    /// `len` values from `from` on. Whoever writes them must have finished: a copy waits for no stream.
    pub fn get(&self, from: usize, len: usize) -> Result<Vec<T>> {
        assert!(from + len <= self.len, "no more than there is");
        let _quiet = self.device.quiet()?;
        let mut values = vec![T::default(); len];
        // SAFETY: the lengths fit.
        unsafe { driver::memcpy_dtoh_sync(&mut values, self.at(from)) }?;
        Ok(values)
    }

    /// Address of value `at`.
    pub fn at(&self, at: usize) -> u64 {
        debug_assert!(at <= self.len, "{at} of {}", self.len);
        self.address + (at * size_of::<T>()) as u64
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }
}

impl<T: Plain> Drop for Buffer<T> {
    fn drop(&mut self) {
        // SAFETY: allocated by `zeros`, freed once; the driver waits for what still uses it.
        let _ = self.device.quiet().map(|_quiet| unsafe { driver::free_sync(self.address) });
    }
}

/// Words of this machine that copies to the GPU read without the processor's help.
#[derive(Debug)]
pub(crate) struct Pinned {
    device: Device,
    words: *mut u32,
    len: usize,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Pinned {}

impl Pinned {
    /// `len` zeros.
    pub fn zeros(device: &Device, len: usize) -> Result<Pinned> {
        let _quiet = device.quiet()?;
        // SAFETY: freed once, by `drop`; written before it is read; the driver aligns to pages.
        let words = unsafe {
            let words = driver::malloc_host((len * size_of::<u32>()).max(16), 0)?.cast::<u32>();
            words.write_bytes(0, len);
            words
        };
        Ok(Pinned { device: device.clone(), words, len })
    }

    pub fn as_slice(&self) -> &[u32] {
        // SAFETY: `len` initialised words.
        unsafe { std::slice::from_raw_parts(self.words, self.len) }
    }

    pub fn as_mut_slice(&mut self) -> &mut [u32] {
        // SAFETY: as above, and borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.words, self.len) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: allocated by `zeros`, freed once.
        let _ = self.device.quiet().map(|_quiet| unsafe { driver::free_host(self.words.cast()) });
    }
}
