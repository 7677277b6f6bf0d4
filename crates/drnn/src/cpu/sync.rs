//! What is shared between threads, with std and without.
//!
//! Without std nothing here waits: a microcontroller has no scheduler that would let another task go
//! on, and an interrupt that waited for the code it interrupted would wait forever.

#[cfg(not(feature = "std"))]
pub(crate) use alone::{OnceLock, Pool};
#[cfg(feature = "std")]
pub(crate) use {shared::Pool, std::sync::OnceLock};

#[cfg(feature = "std")]
mod shared {
    use std::sync::{Mutex, MutexGuard};

    /// Things that were used and may be used again.
    pub(crate) struct Pool<T>(Mutex<Vec<T>>);

    impl<T> Pool<T> {
        fn lock(&self) -> MutexGuard<'_, Vec<T>> {
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        /// One of them, if there is one.
        pub fn take(&self) -> Option<T> {
            self.lock().pop()
        }

        /// Adds one for later.
        pub fn put(&self, item: T) {
            self.lock().push(item);
        }
    }

    impl<T> Default for Pool<T> {
        fn default() -> Pool<T> {
            Pool(Mutex::default())
        }
    }
}

#[cfg(any(test, not(feature = "std")))]
#[cfg_attr(feature = "std", allow(dead_code, reason = "only tests use it where there is std"))]
mod alone {
    use alloc::boxed::Box;
    use core::marker::PhantomData;
    use core::ptr::null_mut;
    use core::sync::atomic::{AtomicPtr, Ordering};

    /// A value that is made once. Where several make it at the same time, one is kept and the others
    /// are dropped.
    pub(crate) struct OnceLock<T> {
        /// Null, or a box of its own that stays until this is dropped.
        value: AtomicPtr<T>,
        owns: PhantomData<Box<T>>,
    }

    // SAFETY: as for std's: `&OnceLock` hands out `&T`, and whichever thread made the value or drops
    // it had it sent there.
    unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

    impl<T> OnceLock<T> {
        pub const fn new() -> OnceLock<T> {
            OnceLock { value: AtomicPtr::new(null_mut()), owns: PhantomData }
        }

        pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
            let mut value = self.value.load(Ordering::Acquire);
            if value.is_null() {
                let made = Box::into_raw(Box::new(make()));
                let exchanged = self.value.compare_exchange(
                    null_mut(),
                    made,
                    Ordering::AcqRel,
                    Ordering::Acquire,
                );
                value = exchanged.map_or_else(
                    |first| {
                        // SAFETY: `made` came from a box, and nobody else has seen it.
                        drop(unsafe { Box::from_raw(made) });
                        first
                    },
                    |_| made,
                );
            }
            // SAFETY: not null, so it is the box that was stored first, complete before it was stored
            // (release and acquire), and never changed or freed while `self` is borrowed.
            unsafe { &*value }
        }
    }

    impl<T> Default for OnceLock<T> {
        fn default() -> OnceLock<T> {
            OnceLock::new()
        }
    }

    impl<T> Drop for OnceLock<T> {
        fn drop(&mut self) {
            let value = *self.value.get_mut();
            if !value.is_null() {
                // SAFETY: the box that `get_or_init` stored; no borrow of it outlives `self`.
                drop(unsafe { Box::from_raw(value) });
            }
        }
    }

    /// At most one thing that was used and may be used again. Where two take it at the same time,
    /// one gets nothing.
    pub(crate) struct Pool<T> {
        /// Null, or a box of its own.
        item: AtomicPtr<T>,
        owns: PhantomData<Box<T>>,
    }

    // SAFETY: an item is swapped in and out as a whole, so it is only ever sent, never shared.
    unsafe impl<T: Send> Sync for Pool<T> {}

    impl<T> Pool<T> {
        fn swap(&self, item: *mut T) -> Option<Box<T>> {
            let before = self.item.swap(item, Ordering::AcqRel);
            // SAFETY: a box that was swapped out is ours alone; `put` made it.
            (!before.is_null()).then(|| unsafe { Box::from_raw(before) })
        }

        /// It, if it is there.
        pub fn take(&self) -> Option<T> {
            self.swap(null_mut()).map(|item| *item)
        }

        /// Adds one for later; one that is there already is dropped.
        pub fn put(&self, item: T) {
            drop(self.swap(Box::into_raw(Box::new(item))));
        }
    }

    impl<T> Default for Pool<T> {
        fn default() -> Pool<T> {
            Pool { item: AtomicPtr::new(null_mut()), owns: PhantomData }
        }
    }

    impl<T> Drop for Pool<T> {
        fn drop(&mut self) {
            drop(self.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::alone;
    use alloc::sync::Arc;

    #[test]
    fn a_value_is_made_once_and_freed() {
        let value = Arc::new(());
        let once = alone::OnceLock::new();
        let first: *const Arc<()> = once.get_or_init(|| value.clone());
        assert!(core::ptr::eq(first, once.get_or_init(|| unreachable!())));
        assert_eq!(Arc::strong_count(&value), 2);
        drop(once);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "no threads")]
    fn threads_see_the_same_value() {
        let (once, made) = (alone::OnceLock::new(), Arc::new(()));
        let seen: Vec<usize> = std::thread::scope(|scope| {
            let get = || core::ptr::from_ref(once.get_or_init(|| made.clone())).addr();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(get)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(seen.iter().all(|&at| at == seen[0]));
        assert_eq!(Arc::strong_count(&made), 2);
    }

    #[test]
    fn a_pool_gives_back_what_it_was_given() {
        let item = Arc::new(());
        let pool = alone::Pool::default();
        assert!(pool.take().is_none());
        pool.put(item.clone());
        pool.put(item.clone());
        assert_eq!(Arc::strong_count(&item), 2);
        assert!(pool.take().is_some() && pool.take().is_none());
        pool.put(item.clone());
        drop(pool);
        assert_eq!(Arc::strong_count(&item), 1);
    }
}
