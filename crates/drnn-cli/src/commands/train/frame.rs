//! From an engine and its data to a model file and a report, whatever the task.
//!
//! ```text
//! OUT/model.safetensors     the model
//! OUT/training.json         results; index.html, report.md and plots are made of them
//! OUT/log.jsonl             everything, epoch by epoch
//! OUT/checkpoints/          what --resume goes on from
//! ```

use super::best::Best;
use crate::Failure;
use crate::report::training_run::{Judged, TrainingResults};
use crate::report::{Provenance, Reported, publish};
use crate::training::place::Place;
use crate::training::{self, Running, Watch};
use clap::{Args, ValueEnum};
use drnn::{Cpu, Precision};
use drnn_train::{Engine, Metric, Options, Reason, Resumed, Schedule, Stopping, Trainer};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How a model is trained, and where everything goes.
#[derive(Debug, Args)]
pub struct Training {
    /// Most epochs [default: as the task suggests]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub epochs: Option<u32>,
    /// Sequences of a batch [default: as the task suggests]
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch: Option<u32>,
    /// Learning rate of the first epoch [default: as the task suggests]
    #[arg(long, value_name = "R", value_parser = training::rate)]
    pub rate: Option<f32>,
    /// How the learning rate goes on [default: as the task suggests]
    #[arg(long, value_enum)]
    pub schedule: Option<ScheduleName>,
    /// Largest norm of a gradient; 0 for no clipping [default: 1]
    #[arg(long, value_name = "NORM", value_parser = clip)]
    pub clip: Option<f64>,
    /// Stop when the validation loss was not better for so many epochs [default: never]
    #[arg(long, value_name = "EPOCHS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub patience: Option<u32>,
    /// Which model to keep: that of the last epoch, or the one that was best on the validation set
    #[arg(long, value_enum, default_value = "best")]
    pub keep: Keep,
    /// Write the model's values in half precision: half as large, three digits
    #[arg(long)]
    pub half: bool,
    /// Seed of parameters, orders and whatever else is drawn
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Folder for model, report, log and checkpoints, made where there is none [default: out/TASK]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub running: Running,
    /// The contents of training.json instead of text
    #[arg(long)]
    pub json: bool,
}

/// How the learning rate goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScheduleName {
    Constant,
    Cosine,
    /// Halved after three epochs that are no better
    Plateau,
}

/// Which model is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Keep {
    Best,
    Last,
}

fn clip(text: &str) -> Result<f64, String> {
    let norm: f64 = text.parse().map_err(|e| format!("{e}"))?;
    if norm >= 0.0 && norm.is_finite() { Ok(norm) } else { Err("expected 0 or more".into()) }
}

/// What is to be trained.
pub struct Job<'a, E: Engine> {
    /// One word: `chars`.
    pub task: &'static str,
    /// The data with everything that changes it: a checkpoint of another is refused.
    pub what: String,
    /// The network, for people.
    pub net: String,
    /// Steps that an answer waits for; None where it waits for the end.
    pub latency: Option<usize>,
    pub metric: Metric,
    pub engine: E,
    pub place: Place,
    pub train: &'a E::Data,
    pub valid: &'a E::Data,
    /// Where there is one.
    pub test: Option<&'a E::Data>,
}

/// What else there is to say of a trained model, besides its loss and metric.
#[derive(Default)]
pub struct More {
    pub judged: Vec<Judged>,
    /// Of the model, for its report.
    pub notes: Vec<String>,
    /// The metric, where it is not that of the loss in training: on whole sequences, in other units.
    pub worth: Option<Worth>,
}

impl More {
    /// In the place of a closer look that failed.
    fn left_out(failure: Failure) -> Result<More, Failure> {
        let (Failure::Input(why) | Failure::Check(why)) = failure else { return Err(failure) };
        let note = format!("A closer look at the model is left out, it failed: {why}");
        eprintln!("note: {note}");
        Ok(More { notes: vec![note], ..More::default() })
    }
}

/// The metric of a trained model.
pub struct Worth {
    pub valid: f64,
    pub test: Option<f64>,
}

impl Training {
    /// The suggested options, with what the user says.
    pub fn options(&self, suggested: Options) -> Options {
        let schedule = self.schedule.map_or(suggested.schedule, |name| match name {
            ScheduleName::Constant => Schedule::Constant,
            ScheduleName::Cosine => Schedule::Cosine,
            ScheduleName::Plateau => Schedule::Plateau { factor: 0.5, patience: 3 },
        });
        let patience = self.patience.map(|n| n as usize).or(suggested.stopping.patience);
        Options {
            epochs: self.epochs.map_or(suggested.epochs, |n| n as usize),
            batch: self.batch.map_or(suggested.batch, |n| n as usize),
            rate: self.rate.unwrap_or(suggested.rate),
            schedule,
            clip: self.clip.map_or(suggested.clip, |norm| (norm > 0.0).then_some(norm)),
            stopping: Stopping { patience, ..suggested.stopping },
            seed: self.seed,
            ..suggested
        }
    }

    /// What it runs on.
    pub fn cpu(&self) -> Result<Cpu, Failure> {
        training::cpu(self.running.threads)
    }

    /// Where everything goes.
    pub fn folder(&self, task: &str) -> PathBuf {
        self.out.clone().unwrap_or_else(|| format!("out/{task}").into())
    }

    /// Trains, tests, and writes everything. `save` writes the model; `more` looks closer at it.
    pub fn run<E: Engine>(
        &self,
        cpu: &Cpu,
        started: SystemTime,
        options: Options,
        job: Job<E>,
        save: impl Fn(&mut E, &Path, Precision) -> Result<(), Failure>,
        more: impl Fn(&mut E) -> Result<More, Failure>,
    ) -> Result<(), Failure> {
        let Job { task, what, net, latency, metric, engine, place, train, valid, test } = job;
        for data in [Some(train), Some(valid), test].into_iter().flatten() {
            engine.check(data)?;
        }
        let count = |data| engine.sequences(data);
        let sequences = [count(train), count(valid), test.map_or(0, count)];
        let trainer =
            Trainer::with_engine(engine, options, &format!("{task}: {what}"), train, valid)?;
        let out = self.folder(task);
        let found = "there is an earlier training";
        let folder = self.running.folder(&out, &["training.json", "model.safetensors"], found)?;
        let mut lanes = [self.running.lane(trainer, &folder, "last")?];
        let last = folder.checkpoints().join("last");
        let best = match self.keep {
            Keep::Best => {
                let path = folder.checkpoints().join("best");
                Some(Best::new(&mut lanes[0].trainer, path, metric)?)
            }
            Keep::Last => None,
        };
        eprintln!(
            "{net}\n{what}; up to {} epochs of {} sequences, {} threads",
            options.epochs,
            drnn::text::grouped(sequences[0]),
            cpu.threads()
        );
        let command = training::command();
        let watch = Watch::new(vec![task.into()], metric, &out.join("log.jsonl"))?;
        self.running.run(cpu, &place, &mut lanes, &watch, &command, &|trainer| {
            best.as_ref().map_or(Ok(()), |best| best.after_epoch(trainer))
        })?;
        let [mut lane] = lanes;
        let progress = lane.trainer.progress().clone();
        let ended = progress.ended.unwrap_or(Reason::Epochs);
        if progress.history.is_empty() {
            return Err(Failure::Check(
                "the loss was no number before the first epoch ended; a lower --rate may help"
                    .into(),
            ));
        }
        let note = match best {
            Some(best) => best.restore(&mut lane.trainer)?,
            None if ended == Reason::NotFinite => restore_last(&mut lane.trainer, &last)?,
            None => None,
        };
        if let Some(note) = &note {
            eprintln!("note: {note}");
        }
        let kept_epoch = lane.trainer.progress().history.len();
        let rows = options.batch.max(64);
        let engine = lane.trainer.engine();
        // The model first: what is made of it afterwards may fail, and is then left out.
        let precision = if self.half { Precision::F16 } else { Precision::F32 };
        save(engine, &out.join("model.safetensors"), precision)?;
        let More { judged, mut notes, worth } = more(engine).or_else(More::left_out)?;
        notes.extend(note);
        let mut judge = |data: &E::Data| -> Result<f64, Failure> {
            Ok(metric.of(&engine.loss(data, 0, rows)?))
        };
        let worth = match worth {
            Some(worth) => worth,
            None => Worth { valid: judge(valid)?, test: test.map(judge).transpose()? },
        };
        let results = TrainingResults {
            kind: TrainingResults::KIND.into(),
            format: TrainingResults::FORMAT,
            provenance: Provenance::new(command, self.seed, cpu, &place, started),
            task: task.into(),
            what,
            net,
            latency,
            parameters: engine.state()?.params.len(),
            metric,
            sequences,
            options,
            ended,
            kept_epoch,
            valid: worth.valid,
            test: worth.test,
            seconds: progress.seconds,
            history: progress.history,
            judged,
            notes,
        };
        publish(&results, &out, self.json)?;
        let model = out.join("model.safetensors");
        eprintln!("the model is {}", model.display());
        training::check_finite((ended == Reason::NotFinite).then_some(task).into_iter())
    }
}

/// Where a training ran away the last good model is that of its last checkpoint. Says so where that
/// one is damaged or missing.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closer_look_that_fails_is_a_note() {
        let more = More::left_out(Failure::Input("nothing to score".into())).unwrap();
        assert!(more.notes[0].contains("nothing to score") && more.worth.is_none());
        // What the user or the system stops is stopped.
        assert!(More::left_out(Failure::Interrupted(String::new())).is_err());
    }
}
