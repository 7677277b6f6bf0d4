//! A training from its first epoch to its last, batch by batch; it can be stopped and resumed anywhere.

use super::lanes::Control;
use super::{Batches, Engine, Learner, MIN_EVAL_ROWS, Saver};
use crate::checkpoint::{self, Checkpoint, Disk, LoadedCheckpoint, RealDisk};
use crate::data::{Dataset, order};
use crate::error::{Error, Result};
use crate::loss::LossSum;
use crate::optim::{AdamOptions, Reason, Schedule, Stopping};
use drnn::{Cpu, NetSpec};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::Instant;

/// How a model is trained.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// Maximum number of epochs.
    pub epochs: usize,
    /// Sequences per step.
    pub batch: usize,
    /// Learning rate of the first epoch.
    pub rate: f32,
    /// How the learning rate changes.
    pub schedule: Schedule,
    /// Maximum norm of a gradient; None for no clipping.
    pub clip: Option<f64>,
    /// The optimiser.
    pub adam: AdamOptions,
    /// When to stop early.
    pub stopping: Stopping,
    /// Seed of the initial parameters and of the order of sequences.
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

/// The losses of one epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Counted from 1.
    pub epoch: usize,
    /// Mean loss over its batches, each before its step.
    pub train_loss: f64,
    /// Loss of the validation set at its end.
    pub valid_loss: f64,
    /// Validation accuracy; None for values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_accuracy: Option<f64>,
    /// Mean norm of gradients before clipping.
    pub norm: f64,
    /// Learning rate.
    pub rate: f32,
}

/// How far a training has come: together with parameters and optimiser state, all of its state.
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
    /// Why it ended; None while it goes on.
    pub ended: Option<Reason>,
    /// Seconds spent; no result depends on them.
    pub seconds: f64,
}

/// A training in progress.
pub struct Trainer<'a, E: Engine = Learner> {
    engine: E,
    options: Options,
    train: &'a E::Data,
    valid: &'a E::Data,
    /// Number of training sequences.
    sequences: usize,
    /// What checkpoints must be of: as this version writes it, and as version 0.1.0 did.
    training: [String; 2],
    progress: Progress,
    /// Order of the sequences in the present epoch.
    order: Vec<u32>,
}

/// What [`Trainer::advance`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advance {
    /// A batch.
    Batch,
    /// An epoch's last batch, and its evaluation.
    Epoch,
    /// Nothing: it has ended.
    Ended(Reason),
}

/// How [`Trainer::epoch`] came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stint {
    /// The epoch is done.
    Epoch,
    /// The training has ended.
    Ended(Reason),
    /// `observe` stopped it.
    Stopped,
}

/// What [`Trainer::resume`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Resumed {
    /// There is no checkpoint: the training is unchanged.
    NoCheckpoint,
    /// Continues from the newest checkpoint.
    Newest,
    /// Continues from the previous one; says what is wrong with the newest.
    Previous(String),
}

impl<'a> Trainer<'a> {
    /// A network's training on the CPU from its beginning. `name` is part of what a checkpoint must agree in.
    pub fn new(
        cpu: &Cpu,
        spec: &NetSpec,
        options: Options,
        name: &str,
        train: &'a (dyn Dataset + 'static),
        valid: &'a (dyn Dataset + 'static),
    ) -> Result<Trainer<'a>> {
        let learner = Learner::new(cpu, spec, options.adam, options.seed);
        Trainer::with_engine(learner, options, name, train, valid)
    }
}

impl<'a, E: Engine> Trainer<'a, E> {
    /// A training from its beginning.
    pub fn with_engine(
        engine: E,
        options: Options,
        name: &str,
        train: &'a E::Data,
        valid: &'a E::Data,
    ) -> Result<Trainer<'a, E>> {
        engine.check(train)?;
        engine.check(valid)?;
        let [sequences, valid_sequences] = [train, valid].map(|data| engine.sequences(data));
        if options.batch == 0 || options.batch > sequences {
            return Err(Error::Options(format!(
                "batches of {} sequences, of {sequences} in all",
                options.batch
            )));
        }
        if options.epochs == 0 {
            return Err(Error::Options("no epochs".into()));
        }
        let json = serde_json::to_string(&options).map_err(|e| Error::Options(e.to_string()))?;
        let training = [engine.identity(), engine.identity_of_0_1()].map(|network| {
            format!("{name}; {network}; {sequences} + {valid_sequences} sequences; {json}")
        });
        let (progress, order) = (Progress::default(), Vec::new());
        Ok(Trainer { engine, options, train, valid, sequences, training, progress, order })
    }

    /// Continues from the newest good checkpoint of this training.
    pub fn resume(&mut self, path: &Path) -> Result<Resumed> {
        self.resume_from(&RealDisk, path)
    }

    pub(crate) fn resume_from(&mut self, disk: &impl Disk, path: &Path) -> Result<Resumed> {
        let Some(found) = checkpoint::read(disk, path, &self.training)? else {
            return Ok(Resumed::NoCheckpoint);
        };
        let Checkpoint { state, progress, .. } = found.checkpoint;
        let (batches, done) = (self.batches_per_epoch(), progress.batches);
        if done >= batches && progress.ended.is_none() {
            let reason = format!("claims {done} batches of an epoch, which has {batches}");
            return Err(Error::checkpoint(path, reason));
        }
        self.engine.set_state(state).map_err(|e| Error::checkpoint(path, e))?;
        (self.progress, self.order) = (progress, Vec::new());
        Ok(found.note.map_or(Resumed::Newest, Resumed::Previous))
    }

    /// The newest good checkpoint, None where there is no file; the training stays where it is.
    pub fn find_checkpoint(&self, path: &Path) -> Result<Option<LoadedCheckpoint>> {
        checkpoint::read(&RealDisk, path, &self.training)
    }

    /// Writes a checkpoint, unless parameters are not finite: the last good one stays.
    pub fn save(&mut self, path: &Path) -> Result<()> {
        self.save_to(&RealDisk, path)
    }

    pub(crate) fn save_to(&mut self, disk: &impl Disk, path: &Path) -> Result<()> {
        let (training, progress) = (self.training[0].clone(), self.progress.clone());
        let checkpoint = Checkpoint { training, state: self.engine.state()?, progress };
        match checkpoint.is_finite() {
            true => checkpoint::write(disk, path, &checkpoint),
            false => Ok(()),
        }
    }

    /// Trains one batch, or as many as the engine takes per call; evaluates after the last of an epoch.
    pub fn advance(&mut self) -> Result<Advance> {
        if let Some(reason) = self.progress.ended {
            return Ok(Advance::Ended(reason));
        }
        let begun = Instant::now();
        let Options { batch, clip, seed, .. } = self.options;
        let (epoch, count) = (self.progress.history.len(), self.sequences);
        if self.order.is_empty() {
            self.order = order(seed, epoch, count);
        }
        let first = self.progress.batches * batch;
        let end = count.min(first + batch * self.engine.batches_per_call().max(1));
        let (chosen, rate) = (&self.order[first..end], self.rate());
        let batches = Batches { epoch, chosen, batch, rate, clip };
        let steps = self.engine.train(self.train, &batches)?;
        self.progress.batches += chosen.len().div_ceil(batch);
        self.progress.loss += steps.loss.sum;
        self.progress.count += steps.loss.count;
        self.progress.norms += steps.norms;
        let done = match steps.norms.is_finite() {
            false => self.end(Reason::NotFinite),
            true if end >= count => self.end_epoch(rate)?,
            true => Advance::Batch,
        };
        self.progress.seconds += begun.elapsed().as_secs_f64();
        Ok(done)
    }

    /// Advances to the end of the epoch, unless `observe`, called after every batch, stops it.
    /// Checkpoints are written by `saver`.
    pub(crate) fn epoch(
        &mut self,
        saver: &mut Saver,
        observe: &mut dyn FnMut(&mut Trainer<'a, E>, Advance) -> Result<Control>,
    ) -> Result<Stint> {
        loop {
            let done = self.advance()?;
            let stops = observe(self, done)? == Control::Stop;
            saver.after(self, done, stops)?;
            match done {
                Advance::Ended(reason) => return Ok(Stint::Ended(reason)),
                _ if stops => return Ok(Stint::Stopped),
                Advance::Epoch => return Ok(Stint::Epoch),
                Advance::Batch => {}
            }
        }
    }

    /// The learning rate of the epoch under way.
    pub fn rate(&self) -> f32 {
        let Options { rate, schedule, epochs, .. } = self.options;
        schedule.rate(rate, self.progress.history.len(), epochs, &self.valid_losses())
    }

    fn valid_losses(&self) -> Vec<f64> {
        self.progress.history.iter().map(|epoch| epoch.valid_loss).collect()
    }

    fn end(&mut self, reason: Reason) -> Advance {
        self.progress.ended = Some(reason);
        Advance::Ended(reason)
    }

    fn end_epoch(&mut self, rate: f32) -> Result<Advance> {
        let (epoch, rows) = (self.progress.history.len(), self.options.batch.max(MIN_EVAL_ROWS));
        let valid = match self.engine.loss(self.valid, epoch, rows) {
            // The parameters diverged in the last step.
            Err(Error::Drnn(drnn::Error::NotFinite { .. })) => {
                return Ok(self.end(Reason::NotFinite));
            }
            Ok(valid) if !valid.sum.is_finite() => return Ok(self.end(Reason::NotFinite)),
            other => other?,
        };
        let p = &mut self.progress;
        let train = LossSum { sum: p.loss, count: p.count, correct: None };
        p.history.push(Epoch {
            epoch: p.history.len() + 1,
            train_loss: train.mean(),
            valid_loss: valid.mean(),
            valid_accuracy: valid.accuracy(),
            norm: p.norms / p.batches as f64,
            rate,
        });
        (p.batches, p.loss, p.count, p.norms) = (0, 0.0, 0, 0.0);
        self.order.clear();
        let history = self.valid_losses();
        self.progress.ended = self.options.stopping.reason(&history, self.options.epochs);
        Ok(Advance::Epoch)
    }

    /// How far it has come.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The engine that holds the model.
    pub fn engine(&mut self) -> &mut E {
        &mut self.engine
    }

    /// Batches of an epoch.
    pub fn batches_per_epoch(&self) -> usize {
        self.sequences.div_ceil(self.options.batch)
    }

    /// Sequences of an epoch.
    pub fn sequences(&self) -> usize {
        self.sequences
    }

    /// Bytes held for passes.
    pub fn memory(&self) -> usize {
        self.engine.memory()
    }

    /// The options it was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }
}
