//! From an engine and its data to a model file and a report, whatever the task.
//!
//! ```text
//! OUT/model.safetensors     the model
//! OUT/training.json         results, from which index.html, report.md and plots are made
//! OUT/log.jsonl             losses, rates and times of every epoch
//! OUT/checkpoints/          for --resume
//! ```

use super::best::Best;
use crate::Failure;
use crate::args::regularisation::Regularisation;
use crate::console::{progress, warning};
use crate::files::training_folder::TrainingFolder;
use crate::report::baselines::alarm;
use crate::report::training_run::{Judged, TrainingResults};
use crate::report::{Provenance, Reported, publish};
use crate::training::place::Place;
use crate::training::shown::legend;
use crate::training::suggested::Given;
use crate::training::{self, Running, Watch};
use clap::{Args, ValueEnum};
use drnn::text::grouped;
use drnn::{Cpu, Precision};
use drnn_train::baseline::Baseline;
use drnn_train::lanes::Lane;
use drnn_train::{
    Engine, Epoch, MIN_EVAL_ROWS, Options, Progress, Reason, Resumed, Schedule, Stopping, Trainer,
    Validation, ValidationRun,
};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How a model is trained, and where everything goes.
#[derive(Debug, Args)]
pub struct Training {
    /// Maximum number of epochs [default: chars 20, series 100, tagger 20, and more where data are few]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub epochs: Option<u32>,
    /// Sequences per batch [default: at most 128 (chars) or 32, and fewer where data are few]
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch: Option<u32>,
    /// Learning rate of the first epoch [default: chars 0.004, series 0.01, tagger 0.001]
    #[arg(long, value_name = "R", value_parser = training::rate)]
    pub rate: Option<f32>,
    /// Learning-rate schedule [default: chars and series cosine, tagger constant]
    #[arg(long, value_enum)]
    pub schedule: Option<ScheduleName>,
    /// Maximum gradient norm; 0 for no clipping [default: 1]
    #[arg(long, value_name = "NORM", value_parser = clip)]
    pub clip: Option<f64>,
    #[command(flatten)]
    pub regularisation: Regularisation,
    /// Stop after this many epochs in which the measure on the validation set, the one in the log, did
    /// not improve [default: never]
    #[arg(long, value_name = "EPOCHS", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub patience: Option<u32>,
    /// Which model to keep: that of the last epoch, or the best by the same measure
    #[arg(long, value_enum, default_value = "best")]
    pub keep: Keep,
    /// Write the parameters in half precision: half the size, three digits
    #[arg(long)]
    pub half: bool,
    /// Random seed of parameters, batch order and masks
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Output folder for model, report, log and checkpoints [default: out/TASK]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub running: Running,
    /// Print the contents of training.json instead of text
    #[arg(long)]
    pub json: bool,
}

/// A learning-rate schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ScheduleName {
    Constant,
    Cosine,
    /// Halved after three epochs without improvement on the validation set
    Plateau,
}

/// Which model `--keep` selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Keep {
    Best,
    Last,
}

fn clip(text: &str) -> Result<f64, String> {
    let norm: f64 = text.parse().map_err(|e| format!("{e}"))?;
    if norm >= 0.0 && norm.is_finite() { Ok(norm) } else { Err("expected 0 or more".into()) }
}

/// A network and the data to train it on.
pub struct Job<'a, E: Engine> {
    /// The name of the task: `chars`, `series` or `tagger`.
    pub task: &'static str,
    /// Describes the data and everything that changes it; a checkpoint of other data is refused.
    pub what: String,
    /// Describes the network.
    pub net: String,
    /// The delay d in steps; None for a bidirectional network, which needs the whole sequence.
    pub latency: Option<usize>,
    pub engine: E,
    pub place: Place,
    pub train: &'a E::Data,
    /// After every epoch: what is shown, what chooses the model, what patience watches, and what the
    /// summary says.
    pub valid: &'a dyn Validation<E>,
    /// The same of the test set, of the chosen model.
    pub test: Option<&'a dyn Validation<E>>,
}

/// Further evaluation of a trained model, besides its measure.
#[derive(Default)]
pub struct More {
    pub judged: Vec<Judged>,
    /// For the report.
    pub notes: Vec<String>,
    /// What simple predictors achieve on the same rows.
    pub baselines: Vec<Baseline>,
    /// Predictions that an accuracy is computed from, on the validation and on the test set.
    pub scored: Option<[usize; 2]>,
}

impl More {
    /// In place of an evaluation that failed.
    fn left_out(failure: Failure) -> Result<More, Failure> {
        let (Failure::Input(why) | Failure::Check(why)) = failure else { return Err(failure) };
        let note = format!("Further evaluation of the model failed and is left out: {why}");
        warning!("{note}");
        Ok(More { notes: vec![note], ..More::default() })
    }
}

impl Training {
    /// The suggested options, with those given on the command line.
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
            ..self.regularisation.apply(suggested)
        }
    }

    /// What the command line gives of batch and epochs.
    pub fn given(&self) -> Given {
        Given { batch: self.batch, epochs: self.epochs }
    }

    /// The threads and instruction set to train with.
    pub fn cpu(&self) -> Result<Cpu, Failure> {
        training::cpu(self.running.threads)
    }

    /// The output folder.
    pub fn folder(&self, task: &str) -> PathBuf {
        self.out.clone().unwrap_or_else(|| format!("out/{task}").into())
    }

    /// Trains, evaluates, and writes everything. `save` writes the model; `more` evaluates it
    /// further, by the task's own measures.
    pub fn run<E: Engine>(
        &self,
        cpu: &Cpu,
        started: SystemTime,
        options: Options,
        job: Job<E>,
        save: impl Fn(&mut E, &Path, Precision) -> Result<(), Failure>,
        more: impl Fn(&mut E) -> Result<More, Failure>,
    ) -> Result<(), Failure> {
        let Job { task, what, net, latency, engine, place, train, valid, test } = job;
        let measure = valid.measure();
        test.map_or(Ok(()), |test| test.check(&engine))?;
        let count = |set: &dyn Validation<E>| set.sequences(&engine);
        let sequences = [engine.sequences(train), count(valid), test.map_or(0, count)];
        let trainer =
            Trainer::with_validation(engine, options, &format!("{task}: {what}"), train, valid)?;
        let out = self.folder(task);
        let found = "there is an earlier training";
        let folder = self.running.folder(&out, &["training.json", "model.safetensors"], found)?;
        let lane = self.running.lane(trainer, &folder, "last")?;
        progress!(
            "{net}\n{what}; up to {} epochs in batches of {}, rate {}, {} sequences, {} threads",
            grouped(options.epochs),
            grouped(options.batch),
            options.rate,
            grouped(sequences[0]),
            cpu.threads()
        );
        if let Some(legend) = legend(&measure) {
            progress!("{legend}");
        }
        let command = training::command();
        let watch = Watch::new(vec![task.into()], measure.metric, &out.join("log.jsonl"))?;
        let trained = self.train(cpu, &place, lane, &watch, &command, &folder)?;
        let Trained { mut trainer, progress, ended, note } = trained;
        let kept_epoch = trainer.progress().history.len();
        let valid = trainer.progress().history.last().map_or(f64::NAN, Epoch::watched);
        let engine = trainer.engine();
        // The model first: evaluation may fail, and is then left out of the report.
        let (model, half) = (out.join("model.safetensors"), self.half);
        save(engine, &model, if half { Precision::F16 } else { Precision::F32 })?;
        let More { judged, mut notes, baselines, scored } = more(engine).or_else(More::left_out)?;
        notes.extend(note);
        let run = ValidationRun { epoch: 0, rows: options.batch.max(MIN_EVAL_ROWS), cpu };
        let test = test.map(|test| test.validate(engine, &run)).transpose()?;
        let tested = test.as_ref().map(|found| found.score);
        let warning = alarm(measure.metric, "the network", valid, tested, &baselines);
        warning.iter().for_each(|warning| warning!("{warning}"));
        let results = TrainingResults {
            kind: TrainingResults::KIND.into(),
            format: TrainingResults::FORMAT,
            provenance: Provenance::new(command, self.seed, cpu, &place, started, watch.earlier()),
            task: task.into(),
            what,
            net,
            latency,
            parameters: engine.state()?.params.len(),
            metric: measure.metric,
            measure: Some(measure),
            sequences,
            options,
            ended,
            kept_epoch,
            valid,
            test: test.map(|found| found.score),
            seconds: progress.seconds,
            history: progress.history,
            judged,
            notes,
            baselines,
            warning,
            scored,
        };
        publish(&results, &out, self.json)?;
        let rounded = if half { "; scores are those before it was rounded" } else { "" };
        progress!("the model is {}{rounded}", model.display());
        training::check_finite((ended == Reason::NotFinite).then_some(task).into_iter())
    }

    /// Trains to the end, and returns the trainer with the model that `--keep` selects.
    #[allow(clippy::too_many_arguments)]
    fn train<'a, E: Engine>(
        &self,
        cpu: &Cpu,
        place: &Place,
        mut lane: Lane<'a, E>,
        watch: &Watch,
        command: &str,
        folder: &TrainingFolder,
    ) -> Result<Trained<'a, E>, Failure> {
        let best = match self.keep {
            Keep::Best => {
                let path = folder.checkpoints().join("best");
                Some(Best::new(&mut lane.trainer, path)?)
            }
            Keep::Last => None,
        };
        let mut lanes = [lane];
        self.running.run(cpu, place, &mut lanes, watch, command, &|trainer| {
            best.as_ref().map_or(Ok(()), |best| best.after_epoch(trainer))
        })?;
        let [Lane { mut trainer, .. }] = lanes;
        let progress = trainer.progress().clone();
        let ended = progress.ended.unwrap_or(Reason::Epochs);
        if progress.history.is_empty() {
            let why = "the loss became NaN in the first epoch; a lower --rate may help";
            return Err(Failure::Check(why.into()));
        }
        let last = folder.checkpoints().join("last");
        let note = match best {
            Some(best) => best.restore(&mut trainer)?,
            None if ended == Reason::NotFinite => restore_last(&mut trainer, &last)?,
            None => None,
        };
        if let Some(note) = &note {
            warning!("{note}");
        }
        Ok(Trained { trainer, progress, ended, note })
    }
}

/// A training that has ended.
struct Trained<'a, E: Engine> {
    /// With the model that was selected.
    trainer: Trainer<'a, E>,
    /// Of the whole training.
    progress: Progress,
    ended: Reason,
    /// What is wrong with the selected model: it is not that of the epoch it should be.
    note: Option<String>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evaluation_that_fails_is_a_note() {
        let more = More::left_out(Failure::Input("nothing to score".into())).unwrap();
        assert!(more.notes[0].contains("nothing to score"));
        // Ctrl-C is not an evaluation that failed.
        assert!(More::left_out(Failure::Interrupted(String::new())).is_err());
    }
}
