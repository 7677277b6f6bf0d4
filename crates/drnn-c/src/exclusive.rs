//! A handle that one thread may use at a time.

use crate::status::drnn_status::{DRNN_ERROR_ARGUMENT, DRNN_ERROR_BUSY, DRNN_ERROR_INTERNAL};
use crate::status::{Result, fail};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU8, Ordering};

const FREE: u8 = 0;
const BUSY: u8 = 1;
/// A panic has interrupted a call, so the value may be half changed.
const BROKEN: u8 = 2;

/// The value of a handle. Two threads that use it at once are a mistake of the caller's: the second
/// one gets an error, and no data race. It costs one atomic exchange, some nanoseconds.
pub(crate) struct Exclusive<T> {
    state: AtomicU8,
    value: UnsafeCell<T>,
}

// SAFETY: `value` is reached only by the thread that has changed `state` from FREE to BUSY.
unsafe impl<T: Send> Sync for Exclusive<T> {}

/// Sets the next state when it is dropped, also when the stack unwinds.
struct Leave<'a> {
    state: &'a AtomicU8,
    next: u8,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.state.store(self.next, Ordering::Release);
    }
}

impl<T> Exclusive<T> {
    pub fn new(value: T) -> Exclusive<T> {
        Exclusive { state: AtomicU8::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Calls `body` with the value, unless another thread is doing so or a panic broke it.
    #[inline]
    pub fn with<R>(&self, body: impl FnOnce(&mut T) -> Result<R>) -> Result<R> {
        let entered = self.state.compare_exchange(FREE, BUSY, Ordering::Acquire, Ordering::Relaxed);
        if let Err(state) = entered {
            return refuse(state);
        }
        let mut leave = Leave { state: &self.state, next: BROKEN };
        // SAFETY: this thread has changed the state from FREE to BUSY; nobody else has the value until
        // `leave` is dropped.
        let result = body(unsafe { &mut *self.value.get() });
        leave.next = FREE;
        result
    }
}

#[cold]
fn refuse<R>(state: u8) -> Result<R> {
    match state {
        BUSY => fail(
            DRNN_ERROR_BUSY,
            "the handle is in use by another thread; give each thread its own",
        ),
        _ => fail(
            DRNN_ERROR_INTERNAL,
            "an internal error has interrupted an earlier call with this handle; free it",
        ),
    }
}

/// The value of a handle that C passed.
///
/// # Safety
/// NULL, or what the library returned as such a handle and has not freed.
#[inline]
pub(crate) unsafe fn handle<'a, T>(pointer: *const T, name: &str) -> Result<&'a T> {
    // SAFETY: the caller's promise.
    match unsafe { pointer.as_ref() } {
        Some(handle) => Ok(handle),
        None => fail(DRNN_ERROR_ARGUMENT, format!("`{name}` is NULL, expected a handle")),
    }
}

/// Frees a handle that C passed; NULL is none. No panic leaves it.
///
/// # Safety
/// As [`handle`], and no other thread is using it.
pub(crate) unsafe fn free<T>(pointer: *mut T) {
    if !pointer.is_null() {
        crate::status::guard(|| {
            // SAFETY: the library made it with `Box::into_raw`, and the caller gives it up.
            drop(unsafe { Box::from_raw(pointer) });
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn one_user_at_a_time_and_none_after_a_panic() {
        let value = Exclusive::new(1);
        let inner = value.with(|x| {
            *x += 1;
            let second = value.with(|_| Ok(()));
            assert_eq!(second.unwrap_err().status, DRNN_ERROR_BUSY);
            Ok(*x)
        });
        assert_eq!(inner.unwrap(), 2);
        assert!(value.with(|_| fail::<()>(DRNN_ERROR_ARGUMENT, "no")).is_err());
        assert_eq!(value.with(|x| Ok(*x)).unwrap(), 2, "an error breaks nothing");
        let panic = catch_unwind(AssertUnwindSafe(|| value.with(|_| -> Result<()> { panic!() })));
        assert!(panic.is_err());
        assert_eq!(value.with(|_| Ok(())).unwrap_err().status, DRNN_ERROR_INTERNAL);
    }

    #[test]
    fn threads_that_compete_lose_nothing() {
        let value = Exclusive::new(0);
        let done: usize = std::thread::scope(|scope| {
            let count = || {
                let add = |_: &usize| {
                    let added = value.with(|x| {
                        *x += 1;
                        Ok(())
                    });
                    added.is_ok()
                };
                (0..10_000).filter(add).count()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(value.with(|x| Ok(*x)).unwrap(), done);
    }
}
