//! Collects the jobs of lanes on many threads, so that they run together.
//!
//! A lane that submits a job waits until every lane has submitted one; then one of the threads runs
//! all of them as a batch. No lane waits for others longer than [`MAX_WAIT`]; a job that arrives later
//! is part of the next batch. A job's result does not depend on the other jobs of its batch.

use drnn_train::{Error, Result};
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long a batch waits for lanes that have not submitted a job.
const MAX_WAIT: Duration = Duration::from_millis(100);

/// Jobs of type `J` with results of type `R`.
pub(crate) struct Rendezvous<J, R> {
    state: Mutex<RendezvousState<J, R>>,
    changed: Condvar,
}

struct RendezvousState<J, R> {
    /// Lanes that have joined.
    lanes: usize,
    /// Lanes that wait, and their jobs.
    pending: Vec<(usize, J)>,
    /// Results that their lanes have not fetched yet.
    results: HashMap<usize, Result<R>>,
    /// Whether a thread runs a batch.
    running: bool,
    /// When the latest job was submitted, or the latest batch ended, whose lanes are expected back.
    latest: Instant,
}

impl<J, R> Rendezvous<J, R> {
    pub fn new() -> Rendezvous<J, R> {
        let state = RendezvousState {
            lanes: 0,
            pending: Vec::new(),
            results: HashMap::new(),
            running: false,
            latest: Instant::now(),
        };
        Rendezvous { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, RendezvousState<J, R>> {
        self.state.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Adds a lane that batches wait for.
    pub fn join(&self) {
        self.state().lanes += 1;
    }

    /// Removes a lane.
    pub fn leave(&self) {
        self.state().lanes -= 1;
        self.changed.notify_all();
    }

    /// Submits a lane's job and waits for its result. `run` is called by one of the waiting threads with
    /// all pending jobs, and returns a result for each, in their order.
    pub fn submit(
        &self,
        lane: usize,
        job: J,
        run: impl FnOnce(&[(usize, J)]) -> Vec<Result<R>>,
    ) -> Result<R> {
        let mut state = self.state();
        state.results.remove(&lane); // of a batch that has panicked
        state.pending.push((lane, job));
        state.latest = Instant::now();
        loop {
            if let Some(result) = state.results.remove(&lane) {
                return result;
            }
            // The batch that runs notifies its lanes when it ends; other lanes wait for the next one.
            if state.running {
                state = self.changed.wait(state).unwrap_or_else(|p| p.into_inner());
                continue;
            }
            let waited = state.latest.elapsed();
            if state.pending.len() >= state.lanes || waited >= MAX_WAIT {
                break;
            }
            let waiting = self.changed.wait_timeout(state, MAX_WAIT - waited);
            state = waiting.unwrap_or_else(|p| p.into_inner()).0;
        }
        state.running = true;
        let jobs = std::mem::take(&mut state.pending);
        drop(state);
        // If `run` panics, the other lanes get an error and do not wait for ever.
        let mut end = BatchEnd {
            rendezvous: self,
            lanes: jobs.iter().map(|(lane, _)| *lane).collect(),
            results: None,
        };
        end.results = Some(run(&jobs));
        drop(end);
        self.state().results.remove(&lane).expect("a result for each job")
    }
}

/// Publishes the results of a batch when it is dropped, even by a panic.
struct BatchEnd<'m, J, R> {
    rendezvous: &'m Rendezvous<J, R>,
    lanes: Vec<usize>,
    results: Option<Vec<Result<R>>>,
}

impl<J, R> Drop for BatchEnd<'_, J, R> {
    fn drop(&mut self) {
        let mut state = self.rendezvous.state();
        let failed =
            || Error::Device("the batch of jobs that this lane took part in has failed".into());
        let mut results = self.results.take().unwrap_or_default().into_iter();
        for lane in &self.lanes {
            state.results.insert(*lane, results.next().unwrap_or_else(|| Err(failed())));
        }
        state.running = false;
        state.latest = Instant::now();
        self.rendezvous.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn jobs_of_all_lanes_run_as_one_batch() {
        let (rendezvous, batches) = (Rendezvous::<usize, usize>::new(), AtomicUsize::new(0));
        (0..8).for_each(|_| rendezvous.join());
        std::thread::scope(|scope| {
            for lane in 0..8 {
                let (rendezvous, batches) = (&rendezvous, &batches);
                scope.spawn(move || {
                    // Lanes end one after another.
                    for i in 0..20 + lane {
                        let found = rendezvous.submit(lane, i, |jobs| {
                            batches.fetch_add(1, Ordering::Relaxed);
                            jobs.iter().map(|(lane, i)| Ok(100 * lane + i)).collect()
                        });
                        assert_eq!(found, Ok(100 * lane + i));
                    }
                    rendezvous.leave();
                });
            }
        });
        // A thread that is not scheduled for a tenth of a second causes one more.
        assert!((27..60).contains(&batches.into_inner()));
    }

    /// The next batch waits for lanes whose batch was not complete.
    #[test]
    fn late_lanes_are_in_the_next_batch() {
        let rendezvous = Rendezvous::<usize, usize>::new();
        (0..6).for_each(|_| rendezvous.join());
        let full = std::thread::scope(|scope| {
            let lane = |lane: usize| {
                let rendezvous = &rendezvous;
                move || {
                    if lane < 3 {
                        std::thread::sleep(2 * MAX_WAIT); // too late for the first batch
                    }
                    let batch = |i| {
                        rendezvous.submit(lane, i, |jobs| {
                            std::thread::sleep(2 * MAX_WAIT);
                            jobs.iter().map(|_| Ok(jobs.len())).collect()
                        })
                    };
                    let full = (0..5).filter(|i| batch(*i) == Ok(6)).count();
                    rendezvous.leave();
                    full
                }
            };
            let threads: Vec<_> = (0..6).map(|i| scope.spawn(lane(i))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).min()
        });
        assert!(full >= Some(4), "{full:?} of 5 batches");
    }

    #[test]
    fn no_lane_waits_for_ever() {
        let rendezvous = Rendezvous::<(), usize>::new();
        (0..2).for_each(|_| rendezvous.join());
        assert_eq!(rendezvous.submit(0, (), |jobs| vec![Ok(jobs.len())]), Ok(1));
        // Nor for a batch that panics.
        std::thread::scope(|scope| {
            let both = [0, 1].map(|lane| {
                let rendezvous = &rendezvous;
                scope.spawn(move || rendezvous.submit(lane, (), |_| panic!("in a batch")))
            });
            let ends = both.map(|thread| thread.join());
            assert!(ends.iter().any(|end| end.is_err()));
            assert!(ends.iter().any(|end| matches!(end, Ok(Err(_)))));
        });
        assert_eq!(rendezvous.submit(0, (), |jobs| vec![Ok(jobs.len())]), Ok(1));
    }
}
