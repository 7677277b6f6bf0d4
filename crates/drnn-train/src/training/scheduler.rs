//! Many trainings on a few threads: queues of jobs, each queue with worker threads of its own.
//!
//! ```text
//! queue  [job 4, job 5, ..]  ->  worker takes the first, gives it a turn  ->  done, or back to the end
//! ```
//!
//! Several networks trained side by side ([`super::lanes`]) are one queue whose jobs get a turn per
//! epoch. A campaign of very many trainings ([`crate::sine::campaign`]) has a queue per device, and a
//! job keeps its worker until it is done. The first error, a panic or a request to stop ends them all
//! after the turns under way.

use crate::error::{Error, Result};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

/// Jobs that share worker threads.
pub(crate) struct Queue<J> {
    /// In the order in which they are started.
    pub jobs: Vec<J>,
    /// Maximum number of jobs that run at the same time.
    pub workers: usize,
}

/// What becomes of a job after its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It waits for another turn.
    Again,
    /// It is done.
    Done,
    /// No job gets another turn.
    Stop,
}

/// What a turn knows about its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat {
    /// Index of the queue.
    pub queue: usize,
    /// Jobs of the queue that are not done, this one included.
    pub unfinished: usize,
}

/// Gives jobs their turns until all are done or one of them stops all.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    stop: AtomicBool,
}

struct Waiting<J> {
    jobs: VecDeque<J>,
    unfinished: usize,
}

struct Shared<J> {
    queues: Vec<Waiting<J>>,
    error: Option<Error>,
}

impl Scheduler {
    /// Lets no job have another turn. Turns under way may poll [`Scheduler::is_stopped`].
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether there was an error, a panic or a request to stop.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Runs all jobs. The calling thread is a worker of the first queue. Each worker has a state of
    /// its own, made by `new_worker`, that it hands to every turn.
    pub fn run<J: Send, W>(
        &self,
        queues: Vec<Queue<J>>,
        new_worker: &(dyn Fn() -> W + Sync),
        turn: &(dyn Fn(&mut W, &mut J, Seat) -> Result<Turn> + Sync),
    ) -> Result<()> {
        let workers: Vec<usize> = queues.iter().map(|q| q.workers.min(q.jobs.len())).collect();
        let waiting =
            |queue: Queue<J>| Waiting { unfinished: queue.jobs.len(), jobs: queue.jobs.into() };
        let queues = queues.into_iter().map(waiting).collect();
        let (shared, changed) = (Mutex::new(Shared { queues, error: None }), Condvar::new());
        let lock = || shared.lock().unwrap_or_else(|p| p.into_inner());
        let take = |queue: usize| -> Option<(J, Seat)> {
            let mut shared: MutexGuard<Shared<J>> = lock();
            loop {
                let waiting = &mut shared.queues[queue];
                if self.is_stopped() || waiting.unfinished == 0 {
                    return None;
                }
                if let Some(job) = waiting.jobs.pop_front() {
                    return Some((job, Seat { queue, unfinished: waiting.unfinished }));
                }
                shared = changed.wait(shared).unwrap_or_else(|p| p.into_inner());
            }
        };
        let work = |queue: usize| {
            let mut worker = new_worker();
            while let Some((mut job, seat)) = take(queue) {
                let outcome = catch_unwind(AssertUnwindSafe(|| turn(&mut worker, &mut job, seat)));
                let mut shared = lock();
                let waiting = &mut shared.queues[queue];
                match &outcome {
                    Ok(Ok(Turn::Again)) => waiting.jobs.push_back(job),
                    Ok(Ok(Turn::Done)) => waiting.unfinished -= 1,
                    // Also after a panic: the other workers must not wait for this one.
                    Ok(Ok(Turn::Stop)) | Ok(Err(_)) | Err(_) => self.stop(),
                }
                changed.notify_all();
                match outcome {
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => drop(shared.error.get_or_insert(error)),
                    Err(panic) => {
                        drop(shared);
                        resume_unwind(panic)
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            let work = &work;
            // Queues that the calling thread works for: the first, and any that got no thread.
            let mut here = Vec::new();
            for (queue, &workers) in workers.iter().enumerate() {
                for i in 0..workers {
                    if queue == 0 && i == 0 {
                        here.push(queue);
                    } else if spawn(scope, move || work(queue)).is_err() {
                        // The system gives no more threads: those that there are do all the work.
                        here.extend((i == 0).then_some(queue));
                        break;
                    }
                }
            }
            here.into_iter().for_each(work);
        });
        match lock().error.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

fn spawn<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    work: impl FnOnce() + Send + 'scope,
) -> std::io::Result<()> {
    std::thread::Builder::new().spawn_scoped(scope, work).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn queue(jobs: std::ops::Range<usize>, workers: usize) -> Queue<(usize, usize)> {
        Queue { jobs: jobs.map(|job| (job, 0)).collect(), workers }
    }

    #[test]
    fn every_job_of_every_queue_gets_its_turns() {
        let (turns, peak) = (AtomicUsize::new(0), Mutex::new([0; 2]));
        let running = [AtomicUsize::new(0), AtomicUsize::new(0)];
        let scheduler = Scheduler::default();
        let queues = vec![queue(0..7, 3), queue(7..9, 5)];
        let outcome = scheduler.run(queues, &|| (), &|(), job, seat| {
            assert_eq!(seat.queue, usize::from(job.0 >= 7));
            let now = running[seat.queue].fetch_add(1, Ordering::SeqCst) + 1;
            let mut peak = peak.lock().unwrap();
            peak[seat.queue] = peak[seat.queue].max(now);
            drop(peak);
            turns.fetch_add(1, Ordering::SeqCst);
            job.1 += 1;
            running[seat.queue].fetch_sub(1, Ordering::SeqCst);
            Ok(if job.1 <= job.0 { Turn::Again } else { Turn::Done })
        });
        outcome.unwrap();
        assert!(!scheduler.is_stopped());
        assert_eq!(turns.into_inner(), (1..=9).sum::<usize>()); // job i has i + 1 turns
        let [first, second] = peak.into_inner().unwrap();
        assert!((1..=3).contains(&first) && (1..=2).contains(&second));
    }

    /// One worker: turns are taken in the order of waiting, and fewer jobs are left each time.
    #[test]
    fn jobs_take_turns_in_order() {
        let seen = Mutex::new(Vec::new());
        let outcome = Scheduler::default().run(vec![queue(0..3, 1)], &|| (), &|(), job, seat| {
            seen.lock().unwrap().push((job.0, seat.unfinished));
            job.1 += 1;
            Ok(if job.1 == 2 { Turn::Done } else { Turn::Again })
        });
        outcome.unwrap();
        assert_eq!(seen.into_inner().unwrap(), [(0, 3), (1, 3), (2, 3), (0, 3), (1, 2), (2, 1)]);
    }

    #[test]
    fn errors_panics_and_requests_stop_all() {
        for outcome in ["error", "panic", "stop"] {
            let (scheduler, turns) = (Scheduler::default(), AtomicUsize::new(0));
            let run = || {
                scheduler.run(vec![queue(0..50, 2)], &|| (), &|(), _, _| {
                    match (turns.fetch_add(1, Ordering::SeqCst), outcome) {
                        (0, "error") => Err(Error::Options("the first".into())),
                        (0, "panic") => panic!("the first"),
                        (0, _) => Ok(Turn::Stop),
                        // The turn that runs at the same time as the first sees the request.
                        _ => {
                            while !scheduler.is_stopped() {
                                std::thread::yield_now();
                            }
                            Ok(Turn::Again)
                        }
                    }
                })
            };
            let found = catch_unwind(AssertUnwindSafe(run));
            assert!(scheduler.is_stopped());
            assert!(turns.into_inner() <= 2, "{outcome}");
            match outcome {
                "error" => assert_eq!(found.unwrap().unwrap_err().to_string(), "the first"),
                "panic" => assert!(found.is_err()),
                _ => assert_eq!(found.unwrap(), Ok(())),
            }
        }
    }
}
