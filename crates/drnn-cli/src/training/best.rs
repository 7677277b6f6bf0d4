//! The best model of a training so far, in a checkpoint of its own.
//!
//! If that checkpoint is lost, the best of the remaining models takes its place, including the
//! current one; a warning and the report name its epoch.

use crate::Failure;
use crate::console::warning;
use drnn_train::{Engine, Epoch, Error, Metric, Resumed, Trainer};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

pub struct Best {
    path: PathBuf,
    metric: Metric,
    /// Quality of the model in the checkpoint on the validation set.
    saved: Mutex<f64>,
    /// What was wrong with the checkpoint when the training was resumed.
    lost: Option<String>,
}

/// The watched measure after an epoch; more is better.
fn quality(metric: Metric, epoch: &Epoch) -> f64 {
    if metric.higher_is_better() { epoch.watched() } else { -epoch.watched() }
}

/// The first of the best epochs, counted from 1, and its quality; 0 if there is no epoch.
fn best_of(metric: Metric, history: &[Epoch]) -> (usize, f64) {
    let qualities = history.iter().map(|epoch| (epoch.epoch, quality(metric, epoch)));
    qualities.fold((0, f64::NEG_INFINITY), |best, next| if next.1 > best.1 { next } else { best })
}

impl Best {
    /// For a training that starts, or is resumed with the best model so far in `path`.
    pub fn new<E: Engine>(trainer: &mut Trainer<E>, path: PathBuf) -> Result<Best, Failure> {
        let (history, metric) = (&trainer.progress().history, trainer.measure().metric);
        let (best_epoch, best) = best_of(metric, history);
        if best_epoch == 0 {
            let saved = Mutex::new(f64::NEG_INFINITY);
            return Ok(Best { path, metric, saved, lost: None });
        }
        let (epoch, note) = match trainer.find_checkpoint(&path) {
            Ok(Some(found)) => (found.checkpoint.progress.history.len(), found.note),
            Ok(None) => (0, Some(format!("{}: is missing", path.display()))),
            Err(Error::NoGoodCheckpoint { newest, previous, .. }) => {
                (0, Some(format!("{newest}; {previous}")))
            }
            Err(error) => return Err(error.into()),
        };
        // A checkpoint of a later epoch was written just before the program was killed.
        let mut saved = match epoch.checked_sub(1).map(|before| history.get(before)) {
            None => f64::NEG_INFINITY,
            Some(None) => best,
            Some(Some(epoch)) => quality(metric, epoch),
        };
        if let Some(note) = &note {
            warning!("{note}");
        }
        if saved < best {
            warning!("the model of epoch {best_epoch}, the best so far, is lost");
        }
        if let Some(last) = history.last()
            && quality(metric, last) > saved
            && trainer.progress().batches == 0
        {
            saved = quality(metric, last);
            trainer.save(&path)?;
        }
        Ok(Best { path, metric, saved: Mutex::new(saved), lost: note })
    }

    /// Saves the model of the epoch that has just ended if it is better than the saved one.
    pub fn after_epoch<E: Engine>(&self, trainer: &mut Trainer<E>) -> drnn_train::Result<()> {
        let Some(last) = trainer.progress().history.last() else { return Ok(()) };
        let last = quality(self.metric, last);
        let mut saved = self.saved.lock().unwrap_or_else(PoisonError::into_inner);
        if last > *saved {
            trainer.save(&self.path)?;
            *saved = last;
        }
        Ok(())
    }

    /// Makes it the trainer's model. Returns a note if it is not that of the best epoch.
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
        // The checkpoint may have been replaced by an earlier run.
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
