//! A team of threads of the system.

use super::{Barrier, Member, spin_until};
use crate::cpu::denormals::FlushDenormals;
use core::any::Any;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, TryLockError};
use std::thread::JoinHandle;

/// How often a member looks for the next job before it sleeps: some tenths of a millisecond.
const SPINS: usize = 20_000;

type Job<'a> = dyn Fn(usize) + Sync + 'a;

struct Board {
    /// Number of the current job; a change is the starting signal.
    number: AtomicU32,
    job: UnsafeCell<Option<*const Job<'static>>>,
    /// Members that have not finished it.
    running: AtomicUsize,
    stop: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    sleeping: Mutex<usize>,
    wake: Condvar,
}

// SAFETY: `job` is written only by the holder of `Team::caller` while no member runs, and read by
// members only between the starting signal and their decrement of `running`.
unsafe impl Send for Board {}
// SAFETY: as above.
unsafe impl Sync for Board {}

/// A fixed number of threads, the caller included.
pub struct Team {
    board: Arc<Board>,
    members: Vec<JoinHandle<()>>,
    /// Held for the length of a job.
    caller: Mutex<()>,
}

impl Team {
    /// A team of `threads`, at least one; fewer where the system gives no more.
    pub fn new(threads: usize) -> Team {
        let board = Arc::new(Board {
            number: AtomicU32::new(0),
            job: UnsafeCell::new(None),
            running: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            panic: Mutex::new(None),
            sleeping: Mutex::new(0),
            wake: Condvar::new(),
        });
        let more = if cfg!(target_family = "wasm") { 0 } else { threads.saturating_sub(1) };
        let members = (1..=more)
            .map_while(|index| {
                let board = board.clone();
                std::thread::Builder::new()
                    .name(format!("drnn-{index}"))
                    .spawn(move || attend(&board, index))
                    .ok()
            })
            .collect();
        Team { board, members, caller: Mutex::new(()) }
    }

    /// Members, the caller included.
    pub fn threads(&self) -> usize {
        self.members.len() + 1
    }

    /// Calls `f(i)` once for each i in 0..items, shared out in that order as members get free.
    pub fn each(&self, items: usize, f: impl Fn(usize) + Sync) {
        let next = AtomicUsize::new(0);
        let work = |_| {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= items {
                    break;
                }
                f(i);
            }
        };
        if items < 2 || !self.start(&work) {
            let _flush = FlushDenormals::on();
            work(0);
        }
    }

    /// Calls `f` once on every member at the same time; they may [`Member::wait`] for each other.
    /// There may be one member only. A panic before a barrier leaves the others waiting: `f` must
    /// not panic.
    pub fn parallel_region(&self, f: impl Fn(&Member) + Sync) {
        let barrier = Barrier::default();
        let count = self.threads();
        if !self.start(&|index| f(&Member { index, count, barrier: &barrier })) {
            let _flush = FlushDenormals::on();
            f(&Member { index: 0, count: 1, barrier: &barrier });
        }
    }

    /// Runs `job` on all members; false, and nothing done, where the team is busy or just one.
    fn start(&self, job: &Job<'_>) -> bool {
        if self.members.is_empty() {
            return false;
        }
        let _caller = match self.caller.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let board = &*self.board;
        // SAFETY: no job is running (we hold `caller`), so nobody reads the cell; the lifetime is
        // erased, but this function does not return or unwind before `running` is back to zero.
        unsafe {
            *board.job.get() =
                Some(core::mem::transmute::<*const Job<'_>, *const Job<'static>>(job));
        }
        board.running.store(self.members.len(), Ordering::Relaxed);
        {
            let sleeping = lock(&board.sleeping);
            board.number.fetch_add(1, Ordering::Release);
            if *sleeping > 0 {
                board.wake.notify_all();
            }
        }
        let mine = catch_unwind(AssertUnwindSafe(|| {
            let _flush = FlushDenormals::on();
            job(0);
        }));
        spin_until(|| board.running.load(Ordering::Acquire) == 0);
        let theirs = lock(&board.panic).take();
        if let Some(panic) = mine.err().or(theirs) {
            resume_unwind(panic);
        }
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The life of a member: wait for a number, do the job, report.
fn attend(board: &Board, index: usize) {
    let _flush = FlushDenormals::on();
    let mut done = 0;
    loop {
        let mut spins = 0;
        while board.number.load(Ordering::Acquire) == done {
            spins += 1;
            if spins < SPINS {
                core::hint::spin_loop();
                continue;
            }
            let mut sleeping = lock(&board.sleeping);
            *sleeping += 1;
            while board.number.load(Ordering::Acquire) == done {
                sleeping = board.wake.wait(sleeping).unwrap_or_else(|p| p.into_inner());
            }
            *sleeping -= 1;
        }
        done = board.number.load(Ordering::Acquire);
        if board.stop.load(Ordering::Relaxed) {
            return;
        }
        // SAFETY: the starting signal was given after the cell was written, and the caller keeps
        // the job alive until `running` is zero.
        let job = unsafe { (*board.job.get()).map(|job| &*job) };
        if let Some(job) = job
            && let Err(panic) = catch_unwind(AssertUnwindSafe(|| job(index)))
        {
            *lock(&board.panic) = Some(panic);
        }
        board.running.fetch_sub(1, Ordering::Release);
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.board.stop.store(true, Ordering::Relaxed);
        {
            let _sleeping = lock(&self.board.sleeping);
            self.board.number.fetch_add(1, Ordering::Release);
            self.board.wake.notify_all();
        }
        for member in self.members.drain(..) {
            let _ = member.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_once_whatever_the_team() {
        for threads in [1, 2, 3, 7] {
            let team = Team::new(threads);
            for items in [0, 1, 2, 5, 100] {
                let counts: Vec<AtomicUsize> = (0..items).map(|_| AtomicUsize::new(0)).collect();
                team.each(items, |i| {
                    counts[i].fetch_add(1, Ordering::Relaxed);
                });
                assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn barriers_hold() {
        let team = Team::new(3);
        let (sum, wrong) = (AtomicUsize::new(0), AtomicUsize::new(0));
        team.parallel_region(|member| {
            for round in 0..1000 {
                sum.fetch_add(1, Ordering::Relaxed);
                member.wait();
                if sum.load(Ordering::Relaxed) != (round + 1) * member.count {
                    wrong.fetch_add(1, Ordering::Relaxed);
                }
                member.wait();
            }
        });
        assert_eq!(wrong.into_inner(), 0);
    }

    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "no threads")]
    fn nested_and_concurrent_jobs_run_on_their_callers() {
        let team = Team::new(2);
        let count = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        team.each(4, |_| {
                            team.each(3, |_| {
                                count.fetch_add(1, Ordering::Relaxed);
                            });
                        });
                    }
                });
            }
        });
        assert_eq!(count.load(Ordering::Relaxed), 4 * 50 * 12);
    }

    #[test]
    #[cfg_attr(target_family = "wasm", ignore = "no unwinding")]
    fn a_panic_reaches_the_caller_and_the_team_lives_on() {
        let team = Team::new(2);
        for bad in 0..6 {
            let result = catch_unwind(AssertUnwindSafe(|| {
                team.each(6, |i| assert_ne!(i, bad, "as planned"));
            }));
            assert!(result.is_err());
        }
        team.each(6, |_| {});
    }
}
