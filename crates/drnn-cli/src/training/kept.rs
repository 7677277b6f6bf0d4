//! Trainings to their ends, each left with the model that `--keep` selects.

use super::best::Best;
use super::{Running, Watch};
use crate::Failure;
use crate::args::training::Keep;
use crate::console::warning;
use crate::files::training_folder::TrainingFolder;
use crate::training::place::Place;
use drnn::Cpu;
use drnn_train::lanes::Lane;
use drnn_train::{Engine, Epoch, Progress, Reason, Resumed, Trainer};
use std::path::Path;

/// A training that has ended.
pub struct Trained<'a, E: Engine> {
    /// With the model that was selected, as of the end of its epoch.
    pub trainer: Trainer<'a, E>,
    /// Of the whole training.
    pub progress: Progress,
    pub ended: Reason,
    /// What is wrong with the selected model: it is not that of the epoch it should be.
    pub note: Option<String>,
}

impl<E: Engine> Trained<'_, E> {
    /// The epoch whose model was selected, counted from 1; 0 if not even the first was completed.
    pub fn epoch(&self) -> usize {
        self.trainer.progress().history.len()
    }

    /// The watched measure of that model on the validation set; None if no epoch was completed.
    pub fn valid(&self) -> Option<f64> {
        self.trainer.progress().history.last().map(Epoch::watched)
    }
}

/// Trainings of `train` and `sweep`: what they run with and where their files are.
pub struct Kept<'a> {
    pub running: &'a Running,
    pub keep: Keep,
    pub folder: &'a TrainingFolder,
    /// The checkpoints of the newest and of the best model of each training.
    pub checkpoints: Vec<[String; 2]>,
}

impl Kept<'_> {
    /// Trains all to their ends. `again` is the command to resume with.
    pub fn train<'a, E: Engine>(
        &self,
        cpu: &Cpu,
        place: &Place,
        trainers: Vec<Trainer<'a, E>>,
        watch: &Watch,
        again: &str,
    ) -> Result<Vec<Trained<'a, E>>, Failure> {
        let path = |name: &String| self.folder.checkpoints().join(name);
        let (mut lanes, mut best) = (Vec::new(), Vec::new());
        for (trainer, [last_name, best_name]) in trainers.into_iter().zip(&self.checkpoints) {
            let mut lane = self.running.lane(trainer, self.folder, last_name)?;
            if self.keep == Keep::Best {
                best.push(Best::new(&mut lane.trainer, path(best_name))?);
            }
            lanes.push(lane);
        }
        self.running.run(cpu, place, &mut lanes, watch, again, &|lane, trainer| {
            best.get(lane).map_or(Ok(()), |best| best.after_epoch(trainer))
        })?;
        let mut best = best.into_iter();
        let ends = lanes.into_iter().zip(&self.checkpoints);
        ends.map(|(Lane { mut trainer, .. }, [last_name, _])| {
            let best = best.next();
            let progress = trainer.progress().clone();
            let ended = progress.ended.unwrap_or(Reason::Epochs);
            let note = match best {
                _ if progress.history.is_empty() => None,
                Some(best) => best.restore(&mut trainer)?,
                None if ended == Reason::NotFinite => restore_last(&mut trainer, &path(last_name))?,
                None => None,
            };
            if let Some(note) = &note {
                warning!("{note}");
            }
            Ok(Trained { trainer, progress, ended, note })
        })
        .collect()
    }
}

/// Takes the model of the last checkpoint, which is the last good one when the loss became NaN.
/// Returns a note if an older one had to be used.
fn restore_last<E: Engine>(
    trainer: &mut Trainer<E>,
    last: &Path,
) -> Result<Option<String>, Failure> {
    match trainer.resume(last)? {
        Resumed::Newest => Ok(None),
        Resumed::Previous(note) => Ok(Some(note)),
        Resumed::NoCheckpoint => Err(Failure::Input(format!("{}: is missing", last.display()))),
    }
}
