//! When a training's checkpoints are written.

use super::{Advance, Engine, Trainer};
use crate::error::Result;
use crate::optim::Reason;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// After which batches a checkpoint is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SavePolicy {
    /// At the end of every epoch and of the training, and within an epoch when the interval has passed.
    EveryEpoch,
    /// At the end of an epoch when the interval has passed, and not at the end of the training: for
    /// many short trainings whose results are written elsewhere.
    Interval,
}

/// Writes the checkpoints of one training.
#[derive(Debug)]
pub(crate) struct Saver {
    path: Option<PathBuf>,
    every: Duration,
    policy: SavePolicy,
    /// When the last one was written.
    saved: Instant,
}

impl Saver {
    /// Without a path nothing is written.
    pub fn new(path: Option<PathBuf>, every: Duration, policy: SavePolicy) -> Saver {
        Saver { path, every, policy, saved: Instant::now() }
    }

    /// Writes a checkpoint if one is due after `done`, or because the training stops here.
    pub fn after<E: Engine>(
        &mut self,
        trainer: &mut Trainer<E>,
        done: Advance,
        stops: bool,
    ) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let every_epoch = self.policy == SavePolicy::EveryEpoch;
        let due = match done {
            // The last good checkpoint stays.
            Advance::Ended(Reason::NotFinite) => false,
            Advance::Ended(_) => every_epoch,
            Advance::Epoch => stops || every_epoch || self.saved.elapsed() >= self.every,
            Advance::Batch => stops || (every_epoch && self.saved.elapsed() > self.every),
        };
        if due {
            trainer.save(path)?;
            self.saved = Instant::now();
        }
        Ok(())
    }
}
