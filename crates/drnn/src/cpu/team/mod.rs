//! Threads that start together and meet at barriers.
//!
//! A recurrence is a chain of short steps. Where several threads share one step they must all be
//! running, or the barrier after it waits for the scheduler; a work-stealing pool gives no such
//! promise. A [`Team`] does: its members take part in every job, the caller is one of them, and a
//! job that comes while the team is busy (another thread's, or a nested one) runs on its caller
//! alone. Results never depend on the number of members, so this changes only the speed.
//!
//! | file | what |
//! |---|---|
//! | `threads` | a team of threads of the system |
//! | `alone` | the same interface without std: the caller's thread alone |

#[cfg(not(feature = "std"))]
mod alone;
#[cfg(feature = "std")]
mod threads;

#[cfg(not(feature = "std"))]
pub use alone::Team;
#[cfg(feature = "std")]
pub use threads::Team;

use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

/// How often one looks before it lets other threads of the system run, in case there are more of them
/// than cores and the one waited for is among them.
const PATIENCE: usize = 2_000;

/// One thread's place in a job.
pub struct Member<'a> {
    /// 0 is the caller.
    pub index: usize,
    /// Members in all.
    pub count: usize,
    barrier: &'a Barrier,
}

impl Member<'_> {
    /// Waits until all members have come this far.
    pub fn wait(&self) {
        self.barrier.wait(self.count);
    }

    /// This member's share of 0..n, for thing `number` of several: where each is too small to be shared
    /// they fall to all members in turn.
    pub fn share(&self, n: usize, number: usize) -> Range<usize> {
        share(n, (self.index + number) % self.count, self.count)
    }
}

/// Part `part` of `parts` of 0..n.
pub(crate) fn share(n: usize, part: usize, parts: usize) -> Range<usize> {
    n * part / parts..n * (part + 1) / parts
}

/// The same in whole vectors of `width`; the last part has the tail.
pub(crate) fn share_vectors(n: usize, width: usize, part: usize, parts: usize) -> Range<usize> {
    let vectors = share(n.div_ceil(width), part, parts);
    (vectors.start * width).min(n)..(vectors.end * width).min(n)
}

#[derive(Default)]
struct Barrier {
    arrived: AtomicUsize,
    round: AtomicUsize,
}

impl Barrier {
    fn wait(&self, count: usize) {
        let round = self.round.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == count {
            self.arrived.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::Release);
        } else {
            spin_until(|| self.round.load(Ordering::Acquire) != round);
        }
    }
}

/// Waits for another thread that is running.
pub(crate) fn spin_until(ready: impl Fn() -> bool) {
    let mut spins = 0;
    while !ready() {
        spins += 1;
        if spins < PATIENCE {
            core::hint::spin_loop();
        } else {
            #[cfg(feature = "std")]
            std::thread::yield_now();
        }
    }
}
