//! A training from its first epoch to its last, batch by batch, to be stopped and continued anywhere.

use crate::adam::AdamOptions;
use crate::checkpoint::{self, Checkpoint, Parts};
use crate::data::{Examples, order};
use crate::error::{Error, Result};
use crate::learner::{Learner, check};
use crate::loss::LossSum;
use crate::schedule::Schedule;
use crate::stop::{Reason, Stopping};
use drnn::{Cpu, Model, NetSpec};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Instant;

/// How a model is trained.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Most epochs.
    pub epochs: usize,
    /// Sequences per step.
    pub batch: usize,
    /// Learning rate of the first epoch.
    pub rate: f32,
    /// How it goes on.
    pub schedule: Schedule,
    /// Largest norm of a gradient; None for no clipping.
    pub clip: Option<f64>,
    /// The optimiser.
    pub adam: AdamOptions,
    /// When to stop early.
    pub stopping: Stopping,
    /// Of the first parameters and of the order of sequences.
    pub seed: u64,
}

impl Default for Options {
    /// The paper's: Adam at 1e-3, clipped at 1, batches of 100, up to 1,000 epochs.
    fn default() -> Options {
        Options {
            epochs: 1000,
            batch: 100,
            rate: 1e-3,
            schedule: Schedule::Constant,
            clip: Some(1.0),
            adam: AdamOptions::default(),
            stopping: Stopping::default(),
            seed: 1,
        }
    }
}

/// One epoch, as it is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Counted from 1.
    pub epoch: usize,
    /// Mean loss over its batches, as they were met.
    pub train_loss: f64,
    /// Loss of the validation set at its end.
    pub valid_loss: f64,
    /// Mean norm of gradients before clipping.
    pub norm: f64,
    /// Learning rate.
    pub rate: f32,
}

/// How far a training has come: with parameters and optimiser, all that there is to it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Progress {
    /// Epochs done.
    pub history: Vec<Epoch>,
    /// Batches done of the next one.
    pub batches: usize,
    /// Sums over them: loss, positions, norms.
    pub loss: f64,
    /// Positions.
    pub count: usize,
    /// Norms.
    pub norms: f64,
    /// Why it ended, once it has.
    pub ended: Option<Reason>,
    /// Seconds spent, which nothing depends on.
    pub seconds: f64,
}

/// A training in progress.
pub struct Fit<'a> {
    learner: Learner,
    options: Options,
    train: &'a Examples,
    valid: &'a Examples,
    training: String,
    progress: Progress,
    /// Of the epoch under way.
    order: Vec<u32>,
}

/// What [`Fit::advance`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advance {
    /// A batch.
    Batch,
    /// An epoch's last batch, and its evaluation.
    Epoch,
    /// Nothing: it has ended.
    Ended(Reason),
}

impl<'a> Fit<'a> {
    /// A training from its beginning. `name` is part of what a checkpoint must agree in.
    pub fn new(
        cpu: &Cpu,
        spec: &NetSpec,
        options: Options,
        name: &str,
        train: &'a Examples,
        valid: &'a Examples,
    ) -> Result<Fit<'a>> {
        for examples in [train, valid] {
            check(spec, examples)?;
        }
        if options.batch == 0 || options.batch > train.len() {
            return Err(Error::Options(format!(
                "batches of {} sequences, of {} in all",
                options.batch,
                train.len()
            )));
        }
        if options.epochs == 0 {
            return Err(Error::Options("no epochs".into()));
        }
        let training = format!(
            "{name}; {spec}; {} + {} sequences; {}",
            train.len(),
            valid.len(),
            serde_json::to_string(&options).map_err(|e| Error::Options(e.to_string()))?
        );
        let learner = Learner::new(cpu, spec, options.adam, options.seed);
        let (progress, order) = (Progress::default(), Vec::new());
        Ok(Fit { learner, options, train, valid, training, progress, order })
    }

    /// Goes on from a checkpoint of this training. Says what was wrong with a newer one that was passed
    /// over.
    pub fn resume(&mut self, cpu: &Cpu, path: &Path) -> Result<Option<Error>> {
        let (found, passed_over) = checkpoint::read(path, &self.training)?;
        let Checkpoint { spec, params, adam, progress } = found;
        self.learner = Learner::from_parts(cpu, &spec, params, adam);
        (self.progress, self.order) = (progress, Vec::new());
        Ok(passed_over)
    }

    /// Writes a checkpoint.
    pub fn save(&self, path: &Path) -> Result<()> {
        let parts = Parts {
            training: &self.training,
            spec: self.learner.spec(),
            options: self.options.adam,
            params: self.learner.params(),
            adam: self.learner.adam(),
            progress: &self.progress,
        };
        checkpoint::write(path, &parts)
    }

    /// Does one batch; after an epoch's last, evaluates.
    pub fn advance(&mut self) -> Result<Advance> {
        if let Some(reason) = self.progress.ended {
            return Ok(Advance::Ended(reason));
        }
        let begun = Instant::now();
        let Options { batch, clip, seed, .. } = self.options;
        let (epoch, count) = (self.progress.history.len(), self.train.len());
        if self.order.is_empty() {
            self.order = order(seed, epoch, count);
        }
        let first = self.progress.batches * batch;
        let chosen = &self.order[first..count.min(first + batch)];
        let rate = self.rate();
        let step = self.learner.step(self.train, chosen, rate, clip)?;
        self.progress.batches += 1;
        self.progress.loss += step.loss.sum;
        self.progress.count += step.loss.count;
        self.progress.norms += step.norm;
        let mut done = Advance::Batch;
        if !step.norm.is_finite() {
            self.progress.ended = Some(Reason::NotFinite);
            done = Advance::Ended(Reason::NotFinite);
        } else if first + batch >= count {
            self.end_epoch(rate)?;
            done = Advance::Epoch;
        }
        self.progress.seconds += begun.elapsed().as_secs_f64();
        Ok(done)
    }

    /// The learning rate of the epoch under way.
    pub fn rate(&self) -> f32 {
        let Options { rate, schedule, epochs, .. } = self.options;
        schedule.rate(rate, self.progress.history.len(), epochs, &self.valid_losses())
    }

    fn valid_losses(&self) -> Vec<f64> {
        self.progress.history.iter().map(|epoch| epoch.valid_loss).collect()
    }

    fn end_epoch(&mut self, rate: f32) -> Result<()> {
        let valid = self.learner.evaluate(self.valid, self.options.batch.max(500), |_, _| {})?;
        let p = &mut self.progress;
        let train = LossSum { sum: p.loss, count: p.count };
        p.history.push(Epoch {
            epoch: p.history.len() + 1,
            train_loss: train.mean(),
            valid_loss: valid.mean(),
            norm: p.norms / p.batches as f64,
            rate,
        });
        (p.batches, p.loss, p.count, p.norms) = (0, 0.0, 0, 0.0);
        self.order.clear();
        let history = self.valid_losses();
        self.progress.ended = self.options.stopping.reason(&history, self.options.epochs);
        Ok(())
    }

    /// How far it has come.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The model being trained.
    pub fn learner(&mut self) -> &mut Learner {
        &mut self.learner
    }

    /// Batches of an epoch.
    pub fn batches_per_epoch(&self) -> usize {
        self.train.len().div_ceil(self.options.batch)
    }

    /// Sequences of an epoch.
    pub fn sequences(&self) -> usize {
        self.train.len()
    }

    /// Bytes held for passes.
    pub fn memory(&self) -> usize {
        self.learner.memory()
    }

    /// How it is trained.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The model as it is now.
    pub fn model(&self) -> Result<Model> {
        Ok(Model::from_params(self.learner.spec(), self.learner.params().to_vec())?)
    }
}
