//! Collects the jobs of lanes on many threads, so that they run together.
//!
//! A lane that submits a job waits until every lane has submitted one; then one of the threads runs
//! all of them as a batch. No lane waits for others longer than a limit; a job that arrives later
//! is part of the next batch. A job's result does not depend on the other jobs of its batch.

use drnn_train::{Error, Result};
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Jobs of type `J` with results of type `R`.
pub(crate) struct Rendezvous<J, R> {
    state: Mutex<RendezvousState<J, R>>,
    changed: Condvar,
    max_wait: Duration,
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
    /// Without lanes. A batch waits at most `max_wait` for lanes that have not submitted a job,
    /// counted from the latest submission or the end of the latest batch.
    pub fn new(max_wait: Duration) -> Rendezvous<J, R> {
        let state = RendezvousState {
            lanes: 0,
            pending: Vec::new(),
            results: HashMap::new(),
            running: false,
            latest: Instant::now(),
        };
        Rendezvous { state: Mutex::new(state), changed: Condvar::new(), max_wait }
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

    /// Submits a lane's job and waits for its result. `run` is called by one of the waiting threads
    /// with all pending jobs, and returns a result for each, in their order.
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
            // The batch that runs notifies its lanes when it ends; other lanes wait for the next
            // one.
            if state.running {
                state = self.changed.wait(state).unwrap_or_else(|p| p.into_inner());
                continue;
            }
            let waited = state.latest.elapsed();
            if state.pending.len() >= state.lanes || waited >= self.max_wait {
                break;
            }
            let waiting = self.changed.wait_timeout(state, self.max_wait - waited);
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
    use std::sync::mpsc;

    /// Longer than any thread is delayed.
    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn jobs_of_all_lanes_run_as_one_batch() {
        let (rendezvous, batches) = (Rendezvous::<usize, usize>::new(LONG), AtomicUsize::new(0));
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
        assert_eq!(batches.into_inner(), 27);
    }

    /// A lane that has waited for the end of a batch then waits for the lanes of that batch,
    /// however long the batch took.
    #[test]
    fn late_lanes_are_in_the_next_batch() {
        let max_wait = Duration::from_secs(3);
        let rendezvous = Rendezvous::<(), usize>::new(max_wait);
        rendezvous.join();
        let (started, late) = mpsc::channel();
        let sizes = std::thread::scope(|scope| {
            let rendezvous = &rendezvous;
            let first = scope.spawn(move || {
                let size = rendezvous.submit(0, (), |jobs| {
                    rendezvous.join();
                    started.send(()).unwrap();
                    while rendezvous.state().pending.is_empty() {
                        std::thread::yield_now();
                    }
                    // Longer than the late lane may wait for others.
                    std::thread::sleep(max_wait + max_wait / 10);
                    vec![Ok(jobs.len())]
                });
                std::thread::sleep(max_wait / 10); // back late, but within the limit
                [size, rendezvous.submit(0, (), |jobs| vec![Ok(jobs.len()); jobs.len()])]
            });
            late.recv().unwrap();
            let size = rendezvous.submit(1, (), |jobs| vec![Ok(jobs.len()); jobs.len()]);
            (first.join().unwrap(), size)
        });
        assert_eq!(sizes, ([Ok(1), Ok(2)], Ok(2)));
    }

    #[test]
    fn a_lane_does_not_wait_for_ever() {
        let rendezvous = Rendezvous::<(), usize>::new(Duration::from_millis(100));
        (0..2).for_each(|_| rendezvous.join());
        assert_eq!(rendezvous.submit(0, (), |jobs| vec![Ok(jobs.len())]), Ok(1));
    }

    #[test]
    fn a_batch_that_panics_is_an_error_for_its_other_lanes() {
        let rendezvous = Rendezvous::<(), usize>::new(LONG);
        (0..2).for_each(|_| rendezvous.join());
        std::thread::scope(|scope| {
            let both = [0, 1].map(|lane| {
                let rendezvous = &rendezvous;
                scope.spawn(move || rendezvous.submit(lane, (), |_| panic!("in a batch")))
            });
            let ends = both.map(|thread| thread.join());
            assert!(ends.iter().any(|end| end.is_err()));
            assert!(ends.iter().any(|end| matches!(end, Ok(Err(_)))));
        });
        rendezvous.leave();
        assert_eq!(rendezvous.submit(0, (), |jobs| vec![Ok(jobs.len())]), Ok(1));
    }
}
