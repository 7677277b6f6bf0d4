//! Lanes of many threads come together, so that all they want done is done at once.
//!
//! A lane that has something to do waits until every lane has, and one of them sees to all of it. None waits for another longer
//! than [`PATIENCE`]: whoever comes later is there for the next round. What is done for a lane does not depend on who else came.

use drnn_train::{Error, Result};
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// How long a round is held up for those that are missing.
const PATIENCE: Duration = Duration::from_millis(100);

pub(crate) struct Rendezvous<J, F> {
    hall: Mutex<Pending<J, F>>,
    changed: Condvar,
}

struct Pending<J, F> {
    /// Lanes that there are.
    lanes: usize,
    /// What those that wait want done.
    wanted: Vec<(usize, J)>,
    /// What was found for those that have not looked yet.
    found: HashMap<usize, Result<F>>,
    /// Someone is at it.
    running: bool,
    /// When somebody last came, or a round ended, whose lanes will be back in a moment.
    latest: Instant,
}

impl<J, F> Rendezvous<J, F> {
    pub fn new() -> Rendezvous<J, F> {
        let hall = Pending {
            lanes: 0,
            wanted: Vec::new(),
            found: HashMap::new(),
            running: false,
            latest: Instant::now(),
        };
        Rendezvous { hall: Mutex::new(hall), changed: Condvar::new() }
    }

    fn hall(&self) -> MutexGuard<'_, Pending<J, F>> {
        self.hall.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// One lane more.
    pub fn join(&self) {
        self.hall().lanes += 1;
    }

    /// One less.
    pub fn leave(&self) {
        self.hall().lanes -= 1;
        self.changed.notify_all();
    }

    /// Has `job` done, by `round` together with what others want: a result for each, in their order.
    pub fn meet(
        &self,
        lane: usize,
        job: J,
        round: impl FnOnce(&[(usize, J)]) -> Vec<Result<F>>,
    ) -> Result<F> {
        let mut hall = self.hall();
        hall.found.remove(&lane); // of a round that has panicked
        hall.wanted.push((lane, job));
        hall.latest = Instant::now();
        loop {
            if let Some(found) = hall.found.remove(&lane) {
                return found;
            }
            // Who is in the round under way is told when it ends, and who has come too late for it waits for the next.
            if hall.running {
                hall = self.changed.wait(hall).unwrap_or_else(|p| p.into_inner());
                continue;
            }
            let waited = hall.latest.elapsed();
            if hall.wanted.len() >= hall.lanes || waited >= PATIENCE {
                break;
            }
            let waiting = self.changed.wait_timeout(hall, PATIENCE - waited);
            hall = waiting.unwrap_or_else(|p| p.into_inner()).0;
        }
        hall.running = true;
        let wanted = std::mem::take(&mut hall.wanted);
        drop(hall);
        // Should `round` panic, the others are told, not left waiting.
        let mut end = End {
            meeting: self,
            lanes: wanted.iter().map(|(lane, _)| *lane).collect(),
            found: None,
        };
        end.found = Some(round(&wanted));
        drop(end);
        self.hall().found.remove(&lane).expect("a result for each")
    }
}

/// Hands out what a round has found.
struct End<'m, J, F> {
    meeting: &'m Rendezvous<J, F>,
    lanes: Vec<usize>,
    found: Option<Vec<Result<F>>>,
}

impl<J, F> Drop for End<'_, J, F> {
    fn drop(&mut self) {
        let mut hall = self.meeting.hall();
        let failed = || Error::Device("the round that this lane was in has failed".into());
        let mut found = self.found.take().unwrap_or_default().into_iter();
        for lane in &self.lanes {
            hall.found.insert(*lane, found.next().unwrap_or_else(|| Err(failed())));
        }
        hall.running = false;
        hall.latest = Instant::now();
        self.meeting.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn all_that_there_are_make_one_round() {
        let (meeting, rounds) = (Rendezvous::<usize, usize>::new(), AtomicUsize::new(0));
        (0..8).for_each(|_| meeting.join());
        std::thread::scope(|scope| {
            for lane in 0..8 {
                let (meeting, rounds) = (&meeting, &rounds);
                scope.spawn(move || {
                    // Lanes end one after another.
                    for i in 0..20 + lane {
                        let found = meeting.meet(lane, i, |jobs| {
                            rounds.fetch_add(1, Ordering::Relaxed);
                            jobs.iter().map(|(lane, i)| Ok(100 * lane + i)).collect()
                        });
                        assert_eq!(found, Ok(100 * lane + i));
                    }
                    meeting.leave();
                });
            }
        });
        // A thread that does not get to run for a tenth of a second makes one more.
        assert!((27..60).contains(&rounds.into_inner()));
    }

    /// Those of a round that was not full come to the next as well: nobody starts it without them.
    #[test]
    fn lanes_that_were_late_are_not_left_behind() {
        let meeting = Rendezvous::<usize, usize>::new();
        (0..6).for_each(|_| meeting.join());
        let full = std::thread::scope(|scope| {
            let lane = |lane: usize| {
                let meeting = &meeting;
                move || {
                    if lane < 3 {
                        std::thread::sleep(2 * PATIENCE); // too late for the first
                    }
                    let round = |i| {
                        meeting.meet(lane, i, |jobs| {
                            std::thread::sleep(2 * PATIENCE);
                            jobs.iter().map(|_| Ok(jobs.len())).collect()
                        })
                    };
                    let full = (0..5).filter(|i| round(*i) == Ok(6)).count();
                    meeting.leave();
                    full
                }
            };
            let threads: Vec<_> = (0..6).map(|i| scope.spawn(lane(i))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).min()
        });
        assert!(full >= Some(4), "{full:?} of 5 rounds");
    }

    #[test]
    fn nobody_waits_for_ever() {
        let meeting = Rendezvous::<(), usize>::new();
        (0..2).for_each(|_| meeting.join());
        assert_eq!(meeting.meet(0, (), |jobs| vec![Ok(jobs.len())]), Ok(1));
        // Nor for one that panics.
        std::thread::scope(|scope| {
            let both = [0, 1].map(|lane| {
                let meeting = &meeting;
                scope.spawn(move || meeting.meet(lane, (), |_| panic!("in a round")))
            });
            let ends = both.map(|thread| thread.join());
            assert!(ends.iter().any(|end| end.is_err()));
            assert!(ends.iter().any(|end| matches!(end, Ok(Err(_)))));
        });
        assert_eq!(meeting.meet(0, (), |jobs| vec![Ok(jobs.len())]), Ok(1));
    }
}
