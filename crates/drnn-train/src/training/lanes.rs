//! Several trainings side by side: lanes.
//!
//! A thread trains a lane for an epoch, then the lane that has waited longest. Lanes share nothing, so
//! one that has ended, or whose loss is no longer finite, costs the others nothing; and when fewer
//! lanes are left than threads, a lane gets several. No result depends on any of this.

use super::scheduler::{Queue, Scheduler, Turn};
use super::{Advance, Engine, Learner, SavePolicy, Saver, Stint, Trainer};
use crate::error::Result;
use drnn::Cpu;
use std::path::PathBuf;
use std::time::Duration;

/// One of several trainings.
pub struct Lane<'a, E: Engine = Learner> {
    /// The training.
    pub trainer: Trainer<'a, E>,
    /// Where its checkpoints go.
    pub checkpoint: Option<PathBuf>,
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Go on.
    Continue,
    /// Write checkpoints and return.
    Stop,
}

/// Called with a lane's number after each of its batches; it may read the training, and save its
/// model.
pub type Observe<'o, 'a, E> =
    dyn Fn(usize, &mut Trainer<'a, E>, Advance) -> Result<Control> + Sync + 'o;

/// Trains all lanes to their ends on as many threads as `cpu` has. `observe` is called after every
/// batch and may stop them all. Checkpoints are written at every epoch's end, and within an epoch
/// after `every`. If one cannot be written, the error is returned at once.
pub fn run<'a, E: Engine>(
    cpu: &Cpu,
    lanes: &mut [Lane<'a, E>],
    every: Duration,
    observe: &Observe<'_, 'a, E>,
) -> Result<()> {
    // A folder that cannot be written to is found now, not in an hour.
    for lane in &mut *lanes {
        if let Some(path) = &lane.checkpoint {
            lane.trainer.save(path)?;
        }
    }
    let threads = cpu.threads();
    let queue = Queue { jobs: lanes.iter_mut().enumerate().collect(), workers: threads };
    let scheduler = Scheduler::default();
    scheduler.run(vec![queue], &|| cpu.with_threads(1), &|own, (number, lane), seat| {
        let share = (threads / seat.unfinished).max(1);
        if own.threads() != share {
            *own = cpu.with_threads(share);
        }
        lane.trainer.use_cpu(own);
        let mut saver = Saver::new(lane.checkpoint.clone(), every, SavePolicy::EveryEpoch);
        let stint = lane.trainer.epoch(&mut saver, &mut |trainer, done| {
            if observe(*number, trainer, done)? == Control::Stop {
                scheduler.stop();
            }
            Ok(if scheduler.is_stopped() { Control::Stop } else { Control::Continue })
        })?;
        Ok(match stint {
            Stint::Epoch => Turn::Again,
            Stint::Ended(_) => Turn::Done,
            Stint::Stopped => Turn::Stop,
        })
    })
}
