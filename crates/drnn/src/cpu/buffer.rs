//! Memory for kernels: aligned to cache lines, made once, grown when a larger batch comes.

use crate::prelude::*;
use core::cell::UnsafeCell;

/// A cache line.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([f32; 16]);

/// Aligned floats. New memory is zero; where [`Buffer::reserve`] finds enough, what was there stays,
/// and where it has to grow, nothing is kept.
///
/// Threads of a job write rows of one buffer through [`Buffer::shared`], hence the cells.
#[derive(Default)]
pub(crate) struct Buffer {
    lines: Vec<UnsafeCell<Line>>,
}

// SAFETY: plain floats; code that writes through `shared` sees to it that nobody else uses those rows.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Reserves memory for `len` floats.
    pub fn reserve(&mut self, len: usize) {
        let lines = len.div_ceil(16);
        if lines > self.lines.len() {
            // Cleared first: a reallocation would copy what nobody needs.
            self.lines = Vec::new();
            self.lines.resize_with(lines, || UnsafeCell::new(Line([0.0; 16])));
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }

    /// To read.
    pub fn ptr(&self) -> *const f32 {
        self.lines.as_ptr().cast()
    }

    /// To write, each thread its own rows.
    pub fn shared(&self) -> Shared {
        Shared(UnsafeCell::raw_get(self.lines.as_ptr()).cast())
    }

    /// The first `len` floats. Nobody writes them meanwhile.
    pub fn slice(&self, len: usize) -> &[f32] {
        assert!(len <= self.lines.len() * 16);
        // SAFETY: a line is 16 floats without padding, and the length was checked.
        unsafe { core::slice::from_raw_parts(self.ptr(), len) }
    }

    /// The first `len` floats.
    pub fn slice_mut(&mut self, len: usize) -> &mut [f32] {
        assert!(len <= self.lines.len() * 16);
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.shared().0, len) }
    }

    /// All of its memory as numbers of 16 bits.
    pub fn halves_mut(&mut self) -> &mut [u16] {
        // SAFETY: a line is 32 numbers of 16 bits, of any value, and the borrow is exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.shared().0.cast(), self.lines.len() * 32) }
    }

    /// All of its memory as bytes.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: a line is 64 bytes, of any value, and the borrow is exclusive.
        unsafe { core::slice::from_raw_parts_mut(self.shared().0.cast(), self.lines.len() * 64) }
    }
}

/// A pointer that several threads use, each on rows of its own. The code that makes one says why those
/// rows are disjoint.
#[derive(Clone, Copy)]
pub(crate) struct Shared(pub *mut f32);

// SAFETY: only the address moves between threads; each use states why its accesses are disjoint.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// `offset` floats further on.
    ///
    /// # Safety
    /// The result lies within the same allocation.
    pub unsafe fn at(self, offset: usize) -> *mut f32 {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(offset) }
    }
}

/// One element of a slice for each item of a job.
pub(crate) struct Slots<T>(*mut T);

// SAFETY: elements go to one item each, and T may be sent there.
unsafe impl<T: Send> Send for Slots<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Slots<T> {}

impl<T> Slots<T> {
    pub fn new(items: &mut [T]) -> Slots<T> {
        Slots(items.as_mut_ptr())
    }

    /// # Safety
    /// `i` is below the slice's length, the slice is still borrowed, and only one item takes it.
    #[allow(clippy::mut_from_ref, reason = "each element is taken once")]
    pub unsafe fn get(&self, i: usize) -> &mut T {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.0.add(i) }
    }

    /// # Safety
    /// As [`Slots::get`], for all of `first..first + count`.
    #[allow(clippy::mut_from_ref, reason = "each element is taken once")]
    pub unsafe fn some(&self, first: usize, count: usize) -> &mut [T] {
        // SAFETY: the caller's promise.
        unsafe { core::slice::from_raw_parts_mut(self.0.add(first), count) }
    }
}
