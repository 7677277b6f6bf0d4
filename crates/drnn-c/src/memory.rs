//! The caller's memory: checked before it is read or written.

use crate::status::drnn_status::{DRNN_ERROR_ARGUMENT, DRNN_ERROR_BUFFER};
use crate::status::{Failure, Result, fail};
use std::ffi::{CStr, c_char};

/// The `len` values at `pointer`. NULL is allowed where there are none.
///
/// # Safety
/// NULL, or that many values that nobody changes while they are used.
#[inline]
pub(crate) unsafe fn values<'a, T>(pointer: *const T, len: usize, name: &str) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    check(pointer, len, name)?;
    // SAFETY: neither NULL nor misaligned, not longer than memory is; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(pointer, len) })
}

/// A buffer of the caller's for outputs. It is written by copying, and never a Rust slice: the caller
/// need not have initialised it.
#[derive(Clone, Copy)]
pub(crate) struct Buffer<T> {
    pointer: *mut T,
    len: usize,
}

impl<T: Copy> Buffer<T> {
    /// # Safety
    /// NULL, or memory for `len` values that nobody else uses during the call.
    #[inline]
    pub unsafe fn new(pointer: *mut T, len: usize, needed: usize, name: &str) -> Result<Buffer<T>> {
        if len < needed {
            return fail(
                DRNN_ERROR_BUFFER,
                format!("`{name}` has {len} elements, at least {needed} are needed"),
            );
        }
        if needed > 0 {
            check(pointer, len, name)?;
        }
        Ok(Buffer { pointer, len })
    }

    /// Copies values to a place in the buffer.
    ///
    /// # Panics
    /// If they go beyond its end.
    #[inline]
    pub fn write(&self, at: usize, values: &[T]) {
        let fits = at <= self.len && values.len() <= self.len - at;
        assert!(fits, "{} values at {at} of {}", values.len(), self.len);
        if !values.is_empty() {
            // SAFETY: within the buffer, which `new` has checked; the values are the library's own.
            unsafe {
                self.pointer.add(at).copy_from_nonoverlapping(values.as_ptr(), values.len());
            }
        }
    }
}

/// A place for one result. NULL if the caller does not want it.
///
/// # Safety
/// NULL, or memory for a value.
#[inline]
pub(crate) unsafe fn set<T>(pointer: *mut T, value: T, name: &str) -> Result<()> {
    if pointer.is_null() {
        return Ok(());
    }
    check(pointer, 1, name)?;
    // SAFETY: neither NULL nor misaligned; the rest is the caller's promise.
    unsafe { pointer.write(value) }
    Ok(())
}

/// A place for one result that the caller must want: a handle.
///
/// # Safety
/// As [`set`].
pub(crate) unsafe fn set_required<T>(pointer: *mut T, value: T, name: &str) -> Result<()> {
    check(pointer, 1, name)?;
    // SAFETY: the caller's promise.
    unsafe { set(pointer, value, name) }
}

/// Text that ends with NUL.
///
/// # Safety
/// NULL, or such a text.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a CStr> {
    check(pointer, 1, name)?;
    // SAFETY: not NULL; the rest is the caller's promise.
    Ok(unsafe { CStr::from_ptr(pointer) })
}

/// The same as UTF-8.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn utf8<'a>(pointer: *const c_char, name: &str) -> Result<&'a str> {
    // SAFETY: the caller's promise.
    let text = unsafe { text(pointer, name)? };
    text.to_str().map_err(|error| Failure {
        status: DRNN_ERROR_ARGUMENT,
        message: format!("`{name}` is not UTF-8: {error}"),
    })
}

#[inline]
fn check<T>(pointer: *const T, len: usize, name: &str) -> Result<()> {
    let fits = len.checked_mul(size_of::<T>()).is_some_and(|bytes| bytes <= isize::MAX as usize);
    if !pointer.is_null() && pointer.is_aligned() && fits {
        return Ok(());
    }
    refuse(pointer.is_null(), fits, len, name, align_of::<T>())
}

#[cold]
fn refuse(null: bool, fits: bool, len: usize, name: &str, align: usize) -> Result<()> {
    let why = match (null, fits) {
        (true, _) => format!("`{name}` is NULL, expected a pointer to {len} elements"),
        (_, false) => format!("`{name}` has {len} elements, more than memory can hold"),
        _ => format!("`{name}` is not aligned to {align} bytes"),
    };
    fail(DRNN_ERROR_ARGUMENT, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn pointers_are_checked() {
        let x = [1.0f32, 2.0];
        let at = |pointer: *const f32, len| {
            // SAFETY: two floats, or what is refused before it is read.
            unsafe { values(pointer, len, "x") }.map_err(|f| f.message)
        };
        assert_eq!(at(x.as_ptr(), 2).unwrap(), x);
        assert!(at(ptr::null(), 0).unwrap().is_empty());
        assert!(at(ptr::null(), 1).unwrap_err().contains("NULL"));
        assert!(at(x.as_ptr(), usize::MAX / 2).unwrap_err().contains("memory"));
        let odd = x.as_ptr().cast::<u8>().wrapping_add(1).cast();
        assert!(at(odd, 1).unwrap_err().contains("aligned"));
    }

    #[test]
    fn a_buffer_is_written_within_its_bounds() {
        let mut y = [0.0f32; 3];
        let pointer = y.as_mut_ptr();
        // SAFETY: three floats.
        let buffer = |needed| unsafe { Buffer::new(pointer, 3, needed, "y") };
        assert_eq!(buffer(4).err().unwrap().status, DRNN_ERROR_BUFFER);
        let whole = buffer(3).unwrap();
        whole.write(1, &[1.0, 2.0]);
        let beyond = std::panic::catch_unwind(|| whole.write(2, &[1.0, 2.0]));
        assert!(beyond.is_err());
        assert_eq!(y, [0.0, 1.0, 2.0]);
        // SAFETY: nothing is written.
        assert!(unsafe { Buffer::<f32>::new(ptr::null_mut(), 0, 0, "y") }.is_ok());
        // SAFETY: refused.
        assert!(unsafe { Buffer::<f32>::new(ptr::null_mut(), 2, 1, "y") }.is_err());
    }
}
