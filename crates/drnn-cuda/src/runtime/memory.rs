//! Device memory, and page-locked host memory that the GPU copies from directly.

use crate::error::Result;
use crate::runtime::device::Device;
use crate::runtime::driver::{self, stream};
use std::marker::PhantomData;

/// Plain old data: numbers for which every bit pattern is a value.
pub(crate) trait Pod: Copy + Default {}
impl Pod for u8 {}
impl Pod for u16 {}
impl Pod for u32 {}
impl Pod for u64 {}
impl Pod for f32 {}
impl Pod for f64 {}

/// Waits for the default stream, which synchronous copies use; learners' streams do not wait for
/// it.
fn wait() -> Result<()> {
    // SAFETY: the default stream always exists.
    Ok(unsafe { stream::synchronize(stream::null()) }?)
}

/// An array in device memory: allocated, and freed on drop, or a part of memory that someone else
/// owns.
#[derive(Debug)]
pub(crate) struct Buffer<T: Pod> {
    device: Device,
    address: u64,
    len: usize,
    owned: bool,
    values: PhantomData<T>,
}

impl<T: Pod> Buffer<T> {
    /// `len` zeros.
    pub fn zeros(device: &Device, len: usize) -> Result<Buffer<T>> {
        Buffer::filled(device, len, 0)
    }

    /// `len` values, every byte of which is `byte`.
    pub fn filled(device: &Device, len: usize, byte: u8) -> Result<Buffer<T>> {
        let _guard = device.no_capture_guard()?;
        // SAFETY: freed once, by `drop`.
        let address = unsafe { driver::filled::<T>(len, byte) }?;
        Ok(Buffer { device: device.clone(), address, len, owned: true, values: PhantomData })
    }

    /// `len` values from `address` on, whose memory someone else owns and keeps for as long as the
    /// device works with it.
    pub fn borrowed(device: &Device, address: u64, len: usize) -> Result<Buffer<T>> {
        driver::borrow::<T>(address, len)?;
        Ok(Buffer { device: device.clone(), address, len, owned: false, values: PhantomData })
    }

    /// A copy of `values`.
    pub fn from(device: &Device, values: &[T]) -> Result<Buffer<T>> {
        let buffer = Buffer::zeros(device, values.len())?;
        buffer.set(values)?;
        Ok(buffer)
    }

    /// Overwrites the whole array and waits for the copy.
    pub fn set(&self, values: &[T]) -> Result<()> {
        assert_eq!(values.len(), self.len, "one value per element");
        let _guard = self.device.no_capture_guard()?;
        // SAFETY: the lengths are equal.
        unsafe { driver::memcpy_htod_sync(self.address, values) }?;
        wait()
    }

    /// Overwrites elements from `from` on and waits for the copy. Streams that use them must have
    /// been synchronised: the copy waits for none.
    pub fn put(&self, from: usize, values: &[T]) -> Result<()> {
        assert!(from + values.len() <= self.len, "the range lies in the array");
        let _guard = self.device.no_capture_guard()?;
        // SAFETY: the lengths fit.
        unsafe { driver::memcpy_htod_sync(self.at(from), values) }?;
        wait()
    }

    /// `len` elements from `from` on. Streams that write them must have been synchronised: the copy
    /// waits for none.
    pub fn get(&self, from: usize, len: usize) -> Result<Vec<T>> {
        assert!(from + len <= self.len, "the range lies in the array");
        let _guard = self.device.no_capture_guard()?;
        let mut values = vec![T::default(); len];
        // SAFETY: the lengths fit.
        unsafe { driver::memcpy_dtoh_sync(&mut values, self.at(from)) }?;
        Ok(values)
    }

    /// Device address of element `at`.
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

impl<T: Pod> Drop for Buffer<T> {
    fn drop(&mut self) {
        if !self.owned {
            return driver::end_borrow(self.address);
        }
        // SAFETY: allocated by `filled`, freed once; the driver waits for work that still uses it.
        let _ =
            self.device.no_capture_guard().map(|_guard| unsafe { driver::free_sync(self.address) });
    }
}

/// Page-locked 32-bit words in host memory, for asynchronous copies to the device.
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
        let _guard = device.no_capture_guard()?;
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
        let _ = self
            .device
            .no_capture_guard()
            .map(|_guard| unsafe { driver::free_host(self.words.cast()) });
    }
}
