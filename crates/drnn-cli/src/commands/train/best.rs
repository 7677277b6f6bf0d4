//! The best model of a training so far, in a checkpoint of its own.
//!
//! Where that checkpoint is lost, the best of the models that are still there takes its place, the
//! one at hand included; which epoch's it is, and why, is said.

use crate::Failure;
use crate::console::warning;
use drnn_train::{Engine, Epoch, Error, Metric, Resumed, Trainer};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

pub struct Best {
    path: PathBuf,
    metric: Metric,
    /// What the model in the checkpoint is worth on the validation set.
    kept: Mutex<f64>,
    /// What was wrong with the checkpoint when the training went on.
    lost: Option<String>,
}

/// What a model was worth after an epoch: more is better.
fn worth(metric: Metric, epoch: &Epoch) -> f64 {
    match (metric, epoch.valid_accuracy) {
        (Metric::Accuracy, Some(accuracy)) => accuracy,
        _ => -epoch.valid_loss,
    }
}

/// The first of the best epochs, counted from 1, and what it is worth.
fn best_of(metric: Metric, history: &[Epoch]) -> (usize, f64) {
    let worths = history.iter().map(|epoch| (epoch.epoch, worth(metric, epoch)));
    worths.fold((0, f64::NEG_INFINITY), |best, next| if next.1 > best.1 { next } else { best })
}

impl Best {
    /// The best model of a training that begins, or goes on: then with the one that was kept
    /// before.
    pub fn new<E: Engine>(
        trainer: &mut Trainer<E>,
        path: PathBuf,
        metric: Metric,
    ) -> Result<Best, Failure> {
        let history = &trainer.progress().history;
        let (best_epoch, best) = best_of(metric, history);
        if best_epoch == 0 {
            let kept = Mutex::new(f64::NEG_INFINITY);
            return Ok(Best { path, metric, kept, lost: None });
        }
        let (epoch, note) = match trainer.find_checkpoint(&path) {
            Ok(Some(found)) => (found.checkpoint.progress.history.len(), found.note),
            Ok(None) => (0, Some(format!("{}: is missing", path.display()))),
            Err(Error::NoGoodCheckpoint { newest, previous, .. }) => {
                (0, Some(format!("{newest}; {previous}")))
            }
            Err(error) => return Err(error.into()),
        };
        // One of an epoch to come was written just before the program was ended.
        let mut kept = match epoch.checked_sub(1).map(|before| history.get(before)) {
            None => f64::NEG_INFINITY,
            Some(None) => best,
            Some(Some(epoch)) => worth(metric, epoch),
        };
        if let Some(note) = &note {
            warning!("{note}");
        }
        if kept < best {
            warning!("the model of epoch {best_epoch}, the best so far, is lost");
        }
        if let Some(last) = history.last()
            && worth(metric, last) > kept
            && trainer.progress().batches == 0
        {
            kept = worth(metric, last);
            trainer.save(&path)?;
        }
        Ok(Best { path, metric, kept: Mutex::new(kept), lost: note })
    }

    /// Keeps the model of the epoch that has just ended, if it is better than the one that is kept.
    pub fn after_epoch<E: Engine>(&self, trainer: &mut Trainer<E>) -> drnn_train::Result<()> {
        let Some(last) = trainer.progress().history.last() else { return Ok(()) };
        let last = worth(self.metric, last);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if last > *kept {
            trainer.save(&self.path)?;
            *kept = last;
        }
        Ok(())
    }

    /// Makes it the model of `fit`. Says so where it is not that of the best epoch.
    pub fn restore<E: Engine>(self, trainer: &mut Trainer<E>) -> Result<Option<String>, Failure> {
        let (best_epoch, _) = best_of(self.metric, &trainer.progress().history);
        let instead = "--resume with --keep last keeps the model of the last epoch, another --out \
                       trains anew";
        let note = match trainer.resume(&self.path) {
            Ok(Resumed::Newest) => self.lost,
            Ok(Resumed::Previous(note)) => Some(note),
            Ok(Resumed::NoCheckpoint) => {
                let path = self.path.display();
                return Err(Failure::Input(format!("{path}: is missing; {instead}")));
            }
            Err(Error::NoGoodCheckpoint { newest, previous, .. }) => {
                return Err(Failure::Input(format!("{newest}; {previous}; {instead}")));
            }
            Err(error) => return Err(error.into()),
        };
        let kept = trainer.progress().history.len();
        // An earlier run may have found it so, and kept another.
        let before = || format!("{}: was damaged or missing before", self.path.display());
        Ok((kept != best_epoch).then(|| {
            let why = note.unwrap_or_else(before);
            format!(
                "the model is that of epoch {kept}, the best one, of epoch {best_epoch}, is lost: \
                 {why}"
            )
        }))
    }
}
