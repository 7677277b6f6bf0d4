//! From an engine and its data to a model file and a report, whatever the task.
//!
//! ```text
//! OUT/model.safetensors     the model
//! OUT/training.json         results, from which index.html, report.md and plots are made
//! OUT/log.jsonl             losses, rates and times of every epoch
//! OUT/checkpoints/          for --resume
//! ```

use crate::Failure;
use crate::args::training::TrainingOptions;
use crate::console::{progress, warning};
use crate::report::baselines::alarm;
use crate::report::training_run::{Judged, TrainingResults};
use crate::report::{Provenance, Reported, publish};
use crate::training::kept::{Kept, Trained};
use crate::training::place::Place;
use crate::training::shown::{legend, mean_and_sd, shown};
use crate::training::{self, Running, Watch};
use clap::Args;
use drnn::text::grouped;
use drnn::{Cpu, Direction, NetSpec, Precision};
use drnn_train::baseline::Baseline;
use drnn_train::{
    Engine, MIN_EVAL_ROWS, Metric, Options, Reason, Trainer, Validation, ValidationRun,
};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How a model is trained, and where everything goes.
#[derive(Debug, Args)]
pub struct Training {
    #[command(flatten)]
    pub options: TrainingOptions,
    /// Write the parameters in half precision: half the size, three digits
    #[arg(long)]
    pub half: bool,
    /// Output folder for model, report, log and checkpoints [default: out/TASK]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    pub running: Running,
    /// Print the contents of training.json instead of text
    #[arg(long)]
    pub json: bool,
}

/// The delay of a network in steps; None for a bidirectional one, which needs the whole sequence.
pub fn latency(spec: &NetSpec) -> Option<usize> {
    (spec.direction() == Direction::Forward).then(|| spec.delay())
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
    /// A network to be trained with these options.
    pub engine: &'a dyn Fn(&Options) -> Result<E, Failure>,
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
    /// The threads and instruction set to train with.
    pub fn cpu(&self) -> Result<Cpu, Failure> {
        training::cpu(self.running.threads)
    }

    /// The output folder.
    pub fn folder(&self, task: &str) -> PathBuf {
        self.out.clone().unwrap_or_else(|| format!("out/{task}").into())
    }

    /// The repeated trainings, at their beginning; and the numbers of sequences to train, to validate and
    /// to test.
    fn trainers<'a, E: Engine>(
        &self,
        job: &Job<'a, E>,
        options: Options,
    ) -> Result<(Vec<Trainer<'a, E>>, [usize; 3]), Failure> {
        let Job { task, ref what, engine, train, valid, test, .. } = *job;
        let (mut trainers, mut sequences) = (Vec::new(), [0; 3]);
        for options in self.options.repeated(options) {
            let engine = engine(&options)?;
            test.map_or(Ok(()), |test| test.check(&engine))?;
            let count = |set: &dyn Validation<E>| set.sequences(&engine);
            sequences = [engine.sequences(train), count(valid), test.map_or(0, count)];
            let name = format!("{task}: {what}");
            trainers.push(Trainer::with_validation(engine, options, &name, train, valid)?);
        }
        Ok((trainers, sequences))
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
        let (trainers, sequences) = self.trainers(&job, options)?;
        let Job { task, what, net, latency, place, valid, test, .. } = job;
        let measure = valid.measure();
        let out = self.folder(task);
        let found = "there is an earlier training";
        let folder = self.running.folder(&out, &["training.json", "model.safetensors"], found)?;
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
        let lanes = names(task, trainers.len());
        let watch = Watch::new(lanes.clone(), measure.metric, &out.join("log.jsonl"))?;
        let kept = Kept {
            running: &self.running,
            keep: self.options.keep,
            folder: &folder,
            checkpoints: checkpoints(trainers.len()),
        };
        let mut all = kept.train(cpu, &place, trainers, &watch, &command)?;
        let diverged = all.iter().zip(&lanes).filter(|(one, _)| one.ended == Reason::NotFinite);
        let diverged: Vec<&str> = diverged.map(|(_, name)| name.as_str()).collect();
        let chosen = best_trained(measure.metric, &all).ok_or_else(|| {
            let why = "the loss became NaN in the first epoch; a lower --rate may help";
            Failure::Check(why.into())
        })?;
        // The model first: evaluation may fail, and is then left out of the report.
        let (model, half) = (out.join("model.safetensors"), self.half);
        let precision = if half { Precision::F16 } else { Precision::F32 };
        save(all[chosen].trainer.engine(), &model, precision)?;
        let run = ValidationRun { epoch: 0, rows: options.batch.max(MIN_EVAL_ROWS), cpu };
        let tested =
            test.map_or(Ok(vec![None; all.len()]), |test| test_all(&mut all, test, &run))?;
        let repeated = repeats_table(measure.metric, &all, &tested);
        let (test, mut trained) = (tested[chosen], all.swap_remove(chosen));
        let (kept_epoch, valid) = (trained.epoch(), trained.valid().unwrap_or(f64::NAN));
        let Trained { trainer, progress, ended, note } = &mut trained;
        let (options, engine) = (*trainer.options(), trainer.engine());
        let More { mut judged, mut notes, baselines, scored } =
            more(engine).or_else(More::left_out)?;
        judged.extend(repeated);
        notes.extend(note.take());
        let warning = alarm(measure.metric, "the network", valid, test, &baselines);
        warning.iter().for_each(|warning| warning!("{warning}"));
        let seed = self.options.seed;
        let results = TrainingResults {
            kind: TrainingResults::KIND.into(),
            format: TrainingResults::FORMAT,
            provenance: Provenance::new(command, seed, cpu, &place, started, watch.earlier()),
            task: task.into(),
            what,
            net,
            latency,
            parameters: engine.state()?.params.len(),
            metric: measure.metric,
            measure: Some(measure),
            sequences,
            options,
            ended: *ended,
            kept_epoch,
            valid,
            test,
            seconds: progress.seconds,
            history: std::mem::take(&mut progress.history),
            judged,
            notes,
            baselines,
            warning,
            scored,
        };
        publish(&results, &out, self.json)?;
        let rounded = if half { "; scores are those before it was rounded" } else { "" };
        progress!("the model is {}{rounded}", model.display());
        training::check_finite(diverged.into_iter())
    }
}

/// The measure of each model on the test set; None of a training that completed no epoch.
fn test_all<E: Engine>(
    all: &mut [Trained<E>],
    test: &dyn Validation<E>,
    run: &ValidationRun,
) -> Result<Vec<Option<f64>>, Failure> {
    let score = |trained: &mut Trained<E>| match trained.valid() {
        Some(_) => Ok(Some(test.validate(trained.trainer.engine(), run)?.score)),
        None => Ok(None),
    };
    all.iter_mut().map(score).collect()
}

/// Names of the trainings: that of the task, with a number where there are several.
fn names(task: &str, count: usize) -> Vec<String> {
    match count {
        1 => vec![task.into()],
        _ => (1..=count).map(|i| format!("{task}-{i}")).collect(),
    }
}

/// Names of their checkpoints: `last` and `best`, with a number from the second training on.
fn checkpoints(count: usize) -> Vec<[String; 2]> {
    let named = |name: &str, i| if i == 0 { name.into() } else { format!("{name}-{}", i + 1) };
    (0..count).map(|i| ["last", "best"].map(|name| named(name, i))).collect()
}

/// The training with the best model on the validation set; None if none completed an epoch.
fn best_trained<E: Engine>(metric: Metric, all: &[Trained<E>]) -> Option<usize> {
    let scores = all.iter().enumerate().filter_map(|(i, trained)| Some((i, trained.valid()?)));
    scores.reduce(|a, b| if metric.is_better(b.1, a.1) { b } else { a }).map(|(i, _)| i)
}

/// A row for each of several trainings, and their mean.
fn repeats_table<E: Engine>(
    metric: Metric,
    all: &[Trained<E>],
    tested: &[Option<f64>],
) -> Option<Judged> {
    if all.len() < 2 {
        return None;
    }
    let value = |value: Option<f64>| value.map_or("none".into(), |value| shown(metric, value));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (i, (trained, test)) in all.iter().zip(tested).enumerate() {
        let options = trained.trainer.options();
        let epoch = format!("{} of {}", trained.epoch(), trained.progress.history.len());
        let seed = options.seed.to_string();
        rows.push(vec![(i + 1).to_string(), value(trained.valid()), value(*test), epoch, seed]);
    }
    let mean = |values: Vec<f64>| mean_and_sd(metric, &values);
    let valid = mean(all.iter().filter_map(Trained::valid).collect());
    let test = mean(tested.iter().copied().flatten().collect());
    rows.push(vec!["mean ± sd".into(), valid, test, String::new(), String::new()]);
    Some(Judged::Table {
        caption: format!(
            "{} trainings from different seeds: {metric}. The model is the best of them on the \
             validation set.",
            all.len()
        ),
        head: ["training", "valid", "test", "epoch", "seed"].map(String::from).into(),
        rows,
    })
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
