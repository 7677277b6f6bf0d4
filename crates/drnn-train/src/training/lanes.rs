//! Several trainings side by side: lanes.
//!
//! A thread takes a lane through an epoch on its own, then the lane that has waited longest. Lanes share
//! nothing, so one that has ended, or whose loss is no number any more, costs the others nothing; and when
//! fewer lanes are left than threads, a lane gets several. No number depends on any of this.

use crate::error::{Error, Result};
use crate::optim::Reason;
use crate::training::{Advance, Engine, Fit, Learner};
use drnn::Cpu;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// One of several trainings.
pub struct Lane<'a, E: Engine = Learner> {
    /// The training.
    pub fit: Fit<'a, E>,
    /// Where its checkpoints go.
    pub checkpoint: Option<PathBuf>,
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Go on.
    Continue,
    /// Write checkpoints and come back.
    Stop,
}

/// What is told of a lane, by its number, after every batch; it may look into the training, and keep its model.
pub type Observe<'o, 'a, E> =
    dyn Fn(usize, &mut Fit<'a, E>, Advance) -> Result<Control> + Sync + 'o;

struct Queue {
    /// Lanes that wait for a thread.
    waiting: VecDeque<usize>,
    /// Lanes that have not ended.
    live: usize,
    stopped: bool,
    error: Option<Error>,
}

/// Takes all lanes to their ends, on as many threads as `cpu` has, calling `observe` after every batch, which
/// may stop them all. Checkpoints are written at every epoch's end, and within an epoch after `every`. Where one
/// cannot be written the error comes back at once.
pub fn run<'a, E: Engine>(
    cpu: &Cpu,
    lanes: &mut [Lane<'a, E>],
    every: Duration,
    observe: &Observe<'_, 'a, E>,
) -> Result<()> {
    // A folder that cannot be written to is found now, not in an hour.
    lanes.iter_mut().try_for_each(Lane::save)?;
    let (count, threads) = (lanes.len(), cpu.threads());
    let slots: Vec<Mutex<&mut Lane<'a, E>>> = lanes.iter_mut().map(Mutex::new).collect();
    let queue = Queue { waiting: (0..count).collect(), live: count, stopped: false, error: None };
    let (queue, changed) = (Mutex::new(queue), Condvar::new());
    let lock = || queue.lock().unwrap_or_else(|p| p.into_inner());
    let work = |_| {
        let mut own = cpu.with_threads(1);
        loop {
            let (lane, live) = {
                let mut queue = lock();
                loop {
                    if queue.stopped || queue.live == 0 {
                        return;
                    }
                    if let Some(lane) = queue.waiting.pop_front() {
                        break (lane, queue.live);
                    }
                    queue = changed.wait(queue).unwrap_or_else(|p| p.into_inner());
                }
            };
            let share = (threads / live).max(1);
            if own.threads() != share {
                own = cpu.with_threads(share);
            }
            let mut slot = slots[lane].lock().unwrap_or_else(|p| p.into_inner());
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                epoch(lane, &mut slot, &own, every, observe, &|| lock().stopped)
            }));
            drop(slot);
            let mut queue = lock();
            let outcome = match outcome {
                Ok(outcome) => outcome,
                Err(panic) => {
                    // The other threads must not wait for this one.
                    queue.stopped = true;
                    changed.notify_all();
                    drop(queue);
                    resume_unwind(panic)
                }
            };
            match outcome {
                Ok(Outcome::More) => queue.waiting.push_back(lane),
                Ok(Outcome::Ended) => queue.live -= 1,
                Ok(Outcome::Stopped) => queue.stopped = true,
                Err(error) => {
                    queue.stopped = true;
                    queue.error.get_or_insert(error);
                }
            }
            changed.notify_all();
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        for i in 1..threads.min(count) {
            // Where the system gives no more threads, those that are there do it all.
            if std::thread::Builder::new().spawn_scoped(scope, move || work(i)).is_err() {
                break;
            }
        }
        work(0);
    });
    match lock().error.take() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

impl<E: Engine> Lane<'_, E> {
    fn save(&mut self) -> Result<()> {
        match &self.checkpoint {
            Some(path) => self.fit.save(path),
            None => Ok(()),
        }
    }
}

enum Outcome {
    More,
    Ended,
    Stopped,
}

/// Takes one lane through the rest of its epoch.
fn epoch<'a, E: Engine>(
    number: usize,
    lane: &mut Lane<'a, E>,
    cpu: &Cpu,
    every: Duration,
    observe: &Observe<'_, 'a, E>,
    stopped: &dyn Fn() -> bool,
) -> Result<Outcome> {
    lane.fit.engine().use_cpu(cpu);
    let mut saved = Instant::now();
    loop {
        let done = lane.fit.advance()?;
        let control = observe(number, &mut lane.fit, done)?;
        if control == Control::Stop || stopped() {
            lane.save()?;
            return Ok(Outcome::Stopped);
        }
        match done {
            // The last good checkpoint stays.
            Advance::Ended(Reason::NotFinite) => return Ok(Outcome::Ended),
            Advance::Ended(_) => {
                lane.save()?;
                return Ok(Outcome::Ended);
            }
            Advance::Epoch => {
                lane.save()?;
                return Ok(Outcome::More);
            }
            Advance::Batch if saved.elapsed() > every => {
                lane.save()?;
                saved = Instant::now();
            }
            Advance::Batch => {}
        }
    }
}
