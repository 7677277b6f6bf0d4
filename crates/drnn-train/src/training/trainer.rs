//! A training from its first epoch to its last, batch by batch; it can be stopped and resumed anywhere.

use super::lanes::Control;
use super::{
    Batches, Engine, Learner, MIN_EVAL_ROWS, Measure, OnData, Saver, Validated, Validation,
    ValidationRun,
};
use crate::checkpoint::{self, Checkpoint, Disk, Identity, LoadedCheckpoint, RealDisk};
use crate::data::{Dataset, order};
use crate::error::{Error, Result};
use crate::loss::{LossSum, Metric};
use crate::optim::{AdamOptions, Reason, Schedule, Stopping, is_zero};
use crate::seed;
use drnn::{Cpu, Dropout, NetSpec};
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
    /// Seed of the initial parameters, of the order of sequences and of dropout.
    pub seed: u64,
    /// Dropout between layers and on the outputs of the last one: the probability of a zero.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropout: f32,
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
            dropout: 0.0,
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
    /// Loss of the validation set at its end, as in training.
    pub valid_loss: f64,
    /// Validation accuracy; None for values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_accuracy: Option<f64>,
    /// The measure of [`Trainer::measure`] on the validation set; None where that is the loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_score: Option<f64>,
    /// Mean norm of gradients before clipping.
    pub norm: f64,
    /// Learning rate.
    pub rate: f32,
}

impl Epoch {
    /// What is watched on the validation set: the measure, or else the loss.
    pub fn watched(&self) -> f64 {
        self.valid_score.unwrap_or(self.valid_loss)
    }
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
    validation: Box<dyn Validation<E> + 'a>,
    measure: Measure,
    /// Threads for the validation.
    cpu: Cpu,
    /// Number of training sequences.
    sequences: usize,
    /// What checkpoints must be of.
    identity: Identity,
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
    /// A network's training on the CPU from its beginning, which watches its loss on `valid`. `name` is
    /// part of what a checkpoint must agree in.
    pub fn new(
        cpu: &Cpu,
        spec: &NetSpec,
        options: Options,
        name: &str,
        train: &'a (dyn Dataset + 'static),
        valid: &'a (dyn Dataset + 'static),
    ) -> Result<Trainer<'a>> {
        let learner = Learner::new(cpu, spec, options.adam, options.seed);
        let mut trainer = Trainer::with_engine(learner, options, name, train, valid)?;
        trainer.cpu = cpu.clone();
        Ok(trainer)
    }
}

impl<'a, E: Engine> Trainer<'a, E> {
    /// A training from its beginning, which watches its loss on `valid`.
    pub fn with_engine(
        engine: E,
        options: Options,
        name: &str,
        train: &'a E::Data,
        valid: &'a E::Data,
    ) -> Result<Trainer<'a, E>> {
        Trainer::with_validation(engine, options, name, train, OnData::redrawn_loss(valid))
    }

    /// A training from its beginning, which watches the measure of `validation`: patience, plateau
    /// schedule and [`Stopping::at_value`] depend on it.
    pub fn with_validation(
        engine: E,
        options: Options,
        name: &str,
        train: &'a E::Data,
        validation: impl Validation<E> + 'a,
    ) -> Result<Trainer<'a, E>> {
        engine.check(train)?;
        validation.check(&engine)?;
        let (sequences, valid_sequences) = (engine.sequences(train), validation.sequences(&engine));
        if options.batch == 0 || options.batch > sequences {
            return Err(Error::Options(format!(
                "batches of {} sequences, of {sequences} in all",
                options.batch
            )));
        }
        if options.epochs == 0 {
            return Err(Error::Options("no epochs".into()));
        }
        let decay = options.adam.weight_decay;
        if !(0.0..=1.0).contains(&(options.rate * decay)) {
            let why = "learning rate times weight decay must be from 0 to 1";
            return Err(Error::Options(format!("a weight decay of {decay}: {why}")));
        }
        let networks = [engine.identity(), engine.identity_of_0_1()];
        let identity = Identity::new(name, networks, [sequences, valid_sequences], options)?;
        let trainer = Trainer {
            engine,
            options,
            train,
            measure: validation.measure(),
            validation: Box::new(validation),
            cpu: Cpu::new(1),
            sequences,
            identity,
            progress: Progress::default(),
            order: Vec::new(),
        };
        trainer.dropout()?;
        Ok(trainer)
    }

    /// Continues from the newest good checkpoint of this training. Its maximum number of epochs and
    /// its patience may have been others: a finished training goes on to more epochs, with the
    /// optimiser's state, and the schedule spans them all from then on.
    pub fn resume(&mut self, path: &Path) -> Result<Resumed> {
        self.resume_from(&RealDisk, path)
    }

    pub(crate) fn resume_from(&mut self, disk: &impl Disk, path: &Path) -> Result<Resumed> {
        let Some(found) = checkpoint::read(disk, path, &self.identity)? else {
            return Ok(Resumed::NoCheckpoint);
        };
        let Checkpoint { state, mut progress, .. } = found.checkpoint;
        self.score_earlier(&mut progress).map_err(|why| Error::checkpoint(path, why))?;
        let (batches, done) = (self.batches_per_epoch(), progress.batches);
        if done >= batches && progress.ended.is_none() {
            let reason = format!("claims {done} batches of an epoch, which has {batches}");
            return Err(Error::checkpoint(path, reason));
        }
        let (epochs, done) = (self.options.epochs, progress.history.len());
        if done > epochs {
            let reason = format!("has {done} epochs already, more than --epochs {epochs}");
            return Err(Error::checkpoint(path, reason));
        }
        self.engine.set_state(state).map_err(|e| Error::checkpoint(path, e))?;
        (self.progress, self.order) = (progress, Vec::new());
        if self.progress.ended != Some(Reason::NotFinite) {
            self.progress.ended = self.reason();
        }
        Ok(found.note.map_or(Resumed::Newest, Resumed::Previous))
    }

    /// Fills in the scores of epochs that an earlier version trained.
    fn score_earlier(&self, progress: &mut Progress) -> std::result::Result<(), String> {
        if self.measure.metric == Metric::Loss {
            return Ok(());
        }
        for epoch in progress.history.iter_mut().filter(|epoch| epoch.valid_score.is_none()) {
            let score = self.validation.earlier_score(epoch);
            epoch.valid_score = Some(score.ok_or_else(|| {
                let measure = &self.measure;
                format!(
                    "is of an earlier version, which did not watch the {measure} on the validation set; \
                     train anew, or continue with that version"
                )
            })?);
        }
        Ok(())
    }

    /// The newest good checkpoint, None where there is no file; the training stays where it is.
    pub fn find_checkpoint(&self, path: &Path) -> Result<Option<LoadedCheckpoint>> {
        checkpoint::read(&RealDisk, path, &self.identity)
    }

    /// Writes a checkpoint, unless parameters are not finite: the last good one stays.
    pub fn save(&mut self, path: &Path) -> Result<()> {
        self.save_to(&RealDisk, path)
    }

    pub(crate) fn save_to(&mut self, disk: &impl Disk, path: &Path) -> Result<()> {
        let (training, progress) = (self.identity.text().to_string(), self.progress.clone());
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
        let dropout = self.dropout()?;
        let batches = Batches { epoch, chosen, batch, rate, clip, dropout };
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

    /// Dropout of this training, if it has any.
    fn dropout(&self) -> Result<Option<Dropout>> {
        let Options { dropout, seed, .. } = self.options;
        let dropout = (dropout != 0.0).then(|| Dropout::new(dropout, seed::of_dropout(seed)));
        Ok(dropout.transpose()?)
    }

    /// The learning rate of the epoch under way.
    pub fn rate(&self) -> f32 {
        let Options { rate, schedule, epochs, .. } = self.options;
        schedule.rate(rate, self.progress.history.len(), epochs, &self.watched())
    }

    /// The watched measure of every epoch, negative where more is better: the lower the better.
    fn watched(&self) -> Vec<f64> {
        let sign = self.measure.metric.sign();
        self.progress.history.iter().map(|epoch| sign * epoch.watched()).collect()
    }

    fn end(&mut self, reason: Reason) -> Advance {
        self.progress.ended = Some(reason);
        Advance::Ended(reason)
    }

    fn end_epoch(&mut self, rate: f32) -> Result<Advance> {
        let Validated { loss: valid, score } = match self.validate() {
            // The parameters diverged in the last step.
            Err(Error::Drnn(drnn::Error::NotFinite { .. })) => {
                return Ok(self.end(Reason::NotFinite));
            }
            Ok(found) if !found.loss.sum.is_finite() || !found.score.is_finite() => {
                return Ok(self.end(Reason::NotFinite));
            }
            other => other?,
        };
        let is_loss = self.measure.metric == Metric::Loss;
        let p = &mut self.progress;
        let train = LossSum { sum: p.loss, count: p.count, correct: None };
        p.history.push(Epoch {
            epoch: p.history.len() + 1,
            train_loss: train.mean(),
            valid_loss: valid.mean(),
            valid_accuracy: valid.accuracy(),
            valid_score: (!is_loss).then_some(score),
            norm: p.norms / p.batches as f64,
            rate,
        });
        (p.batches, p.loss, p.count, p.norms) = (0, 0.0, 0, 0.0);
        self.order.clear();
        self.progress.ended = self.reason();
        Ok(Advance::Epoch)
    }

    /// Whether, and why, it ends after the epochs that are done.
    fn reason(&self) -> Option<Reason> {
        let Options { stopping, epochs, .. } = self.options;
        let at_value = stopping.at_value.map(|value| self.measure.metric.sign() * value);
        Stopping { at_value, ..stopping }.reason(&self.watched(), epochs)
    }

    /// Measures the model as it is now, as after an epoch.
    pub fn validate(&mut self) -> Result<Validated> {
        let rows = self.options.batch.max(MIN_EVAL_ROWS);
        let run = ValidationRun { epoch: self.progress.history.len(), rows, cpu: &self.cpu };
        self.validation.validate(&mut self.engine, &run)
    }

    /// What is watched on the validation set.
    pub fn measure(&self) -> &Measure {
        &self.measure
    }

    /// Continues on other threads; results do not depend on them.
    pub fn use_cpu(&mut self, cpu: &Cpu) {
        self.engine.use_cpu(cpu);
        if self.cpu.threads() != cpu.threads() {
            self.cpu = cpu.clone();
        }
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
