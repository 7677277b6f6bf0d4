//! Training of series, as `drnn train series` does it.

use crate::error::{check_memory, library, training, value_error};
use crate::model::PyModel;
use drnn::{Cell, Cpu, NetSpec, Padding};
use drnn_tasks::series::{Missing, SeriesTask};
use drnn_train::read::{Input, ReadLimits};
use drnn_train::series::{
    Columns, InputChoice, InputRules, Measures, Score, ScoredBaseline, Sequences, SeriesBaselines,
    SeriesValidation, Shares, Windows, from_arrays, from_table, learn_task, series_baselines,
    suggested,
};
use drnn_train::{
    AdamOptions, Advance, DelayScores, Epoch, Given, Learner, Metric, Options, Schedule, Stopping,
    Tolerance, Trainer, balanced_class_weights, named_class_weights, recommend,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Pauses between looks for Ctrl-C.
const SIGNALS: Duration = Duration::from_millis(50);

/// Series that are read, split and described.
#[pyclass(frozen, name = "SeriesData", module = "drnn._drnn")]
pub struct PySeriesData {
    train: Sequences,
    valid: Sequences,
    test: Option<Sequences>,
    task: SeriesTask,
    windows: Windows,
    notes: Vec<String>,
}

fn missing(word: &str) -> PyResult<Missing> {
    match word {
        "refuse" => Ok(Missing::Refuse),
        "zero" => Ok(Missing::Zero),
        "mean" => Ok(Missing::Mean),
        "previous" => Ok(Missing::Previous),
        "drop" => Ok(Missing::Drop),
        _ => Err(value_error(format!(
            "missing '{word}', expected 'refuse', 'zero', 'mean', 'previous' or 'drop'"
        ))),
    }
}

/// A network by the program's name for it: its cell, whether it is bidirectional, and whether it may
/// have a delay.
fn network(name: &str) -> PyResult<(Cell, bool, bool)> {
    let (kind, cell) = match name {
        "rnn" | "drnn" | "birnn" => (name.strip_suffix("rnn"), Cell::RnnTanh),
        "lstm" | "dlstm" | "bilstm" => (name.strip_suffix("lstm"), Cell::Lstm),
        "gru" | "dgru" | "bigru" => (name.strip_suffix("gru"), Cell::Gru),
        _ => {
            return Err(value_error(format!(
                "net '{name}', expected rnn, lstm or gru; drnn, dlstm or dgru with a delay; birnn, \
                 bilstm or bigru for both directions"
            )));
        }
    };
    Ok((cell, kind == Some("bi"), kind == Some("d")))
}

#[pymethods]
impl PySeriesData {
    /// Reads a table (one file) or two arrays (two files).
    #[new]
    #[pyo3(signature = (files, target, inputs, ahead, sequence, time, categories, classify,
        missing_numbers, window, valid, test, seed))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        py: Python<'_>,
        files: Vec<PathBuf>,
        target: Vec<String>,
        inputs: Option<Vec<String>>,
        ahead: Vec<usize>,
        sequence: Option<String>,
        time: Option<String>,
        categories: Vec<String>,
        classify: Option<bool>,
        missing_numbers: &str,
        window: usize,
        valid: f64,
        test: f64,
        seed: u64,
    ) -> PyResult<PySeriesData> {
        let missing = missing(missing_numbers)?;
        if !(valid > 0.0 && test >= 0.0 && valid + test < 1.0) {
            return Err(value_error(format!(
                "valid={valid} and test={test}: shares of the data that leave some to train on"
            )));
        }
        let rules = InputRules { names: inputs, time, categories, ..InputRules::default() };
        let mut columns = Columns::new(target);
        columns.inputs = InputChoice::Found(rules);
        columns.ahead = ahead;
        columns.sequence.clone_from(&sequence);
        columns.classes = classify;
        columns.missing = missing;
        let read = || {
            let input = |path: &PathBuf| Input::new(path, ReadLimits::default());
            let all = match &files[..] {
                [x, y] => {
                    let max = columns.max_classes;
                    from_arrays(&input(x)?, &input(y)?, missing, max, &columns.ahead)?
                }
                [table] => from_table(&input(table)?, &columns)?,
                _ => return Err(drnn_train::Error::Options("expected one or two files".into())),
            };
            let notes = all.notes.clone();
            let mut parts = all.part(Shares { valid, test }, seed)?;
            let known = parts.train.known_inputs()?;
            let mut valid = parts.valid.take().ok_or_else(|| {
                drnn_train::Error::Options(
                    "the validation set is empty; valid= sets its size".into(),
                )
            })?;
            parts.train.keep_inputs(&known);
            valid.keep_inputs(&known);
            if let Some(test) = &mut parts.test {
                test.keep_inputs(&known);
            }
            let task = learn_task(&parts.train, missing, sequence)?;
            let windows = Windows::new(&parts.train, &task, window, 0)?;
            let (train, test) = (parts.train, parts.test);
            Ok(PySeriesData { train, valid, test, task, windows, notes })
        };
        py.detach(read).map_err(training)
    }

    /// A difference of mean squared errors on the validation set that does not matter.
    fn negligible(&self, py: Python<'_>) -> PyResult<f64> {
        let of = SeriesBaselines {
            task: &self.task,
            train: &self.train,
            valid: &self.valid,
            test: None,
            look_ahead: Some(0),
        };
        let baselines = py.detach(|| series_baselines(&of)).map_err(training)?;
        let summaries: Vec<_> = baselines.iter().map(ScoredBaseline::summary).collect();
        Ok(drnn_train::negligible(Metric::SquaredError, &summaries))
    }

    /// What people should know of how the data were read.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// Steps of the training, validation and test set.
    #[getter]
    fn steps(&self) -> (usize, usize, usize) {
        let test = self.test.as_ref().map_or(0, Sequences::steps);
        (self.train.steps(), self.valid.steps(), test)
    }

    /// "accuracy" or "rmse".
    #[getter]
    fn measure(&self) -> &'static str {
        if self.task.classes.is_some() { "accuracy" } else { "rmse" }
    }

    /// The longest delay that makes sense: shorter than a sequence, and than the nearest horizon.
    #[getter]
    fn longest_delay(&self) -> usize {
        let longest = self.train.longest().max(self.valid.longest()).saturating_sub(1);
        let nearest = self.task.horizons().iter().map(|(_, ahead)| *ahead).min();
        match self.task.forecast {
            Some(_) => longest.min(nearest.unwrap_or(1).saturating_sub(1)),
            None => longest,
        }
    }

    /// Trains a network: the model of the best epoch, the epochs, and its scores.
    #[pyo3(signature = (net, units, delay, options, seed, progress))]
    #[allow(clippy::too_many_arguments, clippy::type_complexity)]
    fn train<'py>(
        &self,
        py: Python<'py>,
        net: &str,
        units: Vec<usize>,
        delay: usize,
        options: TrainingOptions,
        seed: u64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(PyModel, Vec<Bound<'py, PyDict>>, Bound<'py, PyDict>, usize)> {
        let (cell, bidirectional, _) = network(net)?;
        if bidirectional && self.task.forecast.is_some() {
            return Err(value_error(format!(
                "ahead= with net '{net}': a bidirectional network reads the whole sequence, also \
                 what is to be forecast"
            )));
        }
        let builder = self.task.widths(NetSpec::builder(cell).units(units));
        let builder = builder.delay(delay, Padding::Null);
        let builder = if bidirectional { builder.bidirectional() } else { builder };
        let spec = builder.build().map_err(library)?;
        check_memory(&spec, 8)?; // weights for both passes, gradients, Adam's moments, the best model
        let mut windows = self.windows.with_look_ahead(delay);
        if let Some(weights) = &options.class_weights {
            windows = windows.with_class_weights(self.class_weights(weights)?);
        }
        let options = options.chosen(drnn_train::Dataset::len(&windows), seed)?;
        let run = || self.run(&spec, &windows, options, progress.as_ref());
        let (model, best, history, scores) = py.detach(run)?;
        let history = history.iter().map(|epoch| described(py, epoch)).collect::<PyResult<_>>()?;
        let dict = PyDict::new(py);
        for (name, score) in scores {
            dict.set_item(name, self.scored(py, &score)?)?;
        }
        Ok((PyModel::new(model), history, dict, best))
    }
}

/// How a training goes, as Python's keywords say it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct TrainingOptions {
    epochs: Option<u32>,
    batch: Option<u32>,
    rate: f32,
    schedule: Option<String>,
    clip: Option<f64>,
    dropout: f32,
    weight_decay: f32,
    class_weights: Option<ClassWeights>,
    patience: Option<usize>,
}

/// `"balanced"`, or weights by class.
#[derive(FromPyObject)]
enum ClassWeights {
    Named(Vec<(String, f32)>),
    Word(String),
}

impl TrainingOptions {
    /// With what suits `windows` sequences where nothing was given.
    fn chosen(&self, windows: usize, seed: u64) -> PyResult<Options> {
        let suggested = suggested(windows, Given { batch: self.batch, epochs: self.epochs });
        let schedule = match self.schedule.as_deref() {
            None => suggested.schedule,
            Some("constant") => Schedule::Constant,
            Some("cosine") => Schedule::Cosine,
            Some("plateau") => Schedule::PLATEAU,
            Some(other) => {
                return Err(value_error(format!(
                    "schedule '{other}', expected 'constant', 'cosine' or 'plateau'"
                )));
            }
        };
        let clip = self.clip.unwrap_or(0.0);
        for (name, value) in [
            ("rate", f64::from(self.rate)),
            ("weight_decay", self.weight_decay.into()),
            ("clip", clip),
        ] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(value_error(format!("{name}={value}, expected 0 or more")));
            }
        }
        Ok(Options {
            rate: self.rate,
            schedule,
            clip: (clip > 0.0).then_some(clip),
            dropout: self.dropout,
            adam: AdamOptions { weight_decay: self.weight_decay, ..suggested.adam },
            stopping: Stopping { patience: self.patience, ..Stopping::default() },
            seed,
            ..suggested
        })
    }
}

/// A model, the number of its epoch, all epochs, and scores by part of the data.
type Trained = (drnn::Model, usize, Vec<Epoch>, Vec<(&'static str, Score)>);

impl PySeriesData {
    fn class_weights(&self, given: &ClassWeights) -> PyResult<Vec<f32>> {
        let Some(names) = &self.task.classes else {
            return Err(value_error(
                "class_weights: the target holds numbers, not classes; classify=True makes a class \
                 of each",
            ));
        };
        match given {
            ClassWeights::Named(pairs) => named_class_weights(pairs, names).map_err(training),
            ClassWeights::Word(word) if word == "balanced" => {
                Ok(balanced_class_weights(&self.train.class_counts(names)))
            }
            ClassWeights::Word(word) => Err(value_error(format!(
                "class_weights '{word}', expected 'balanced' or a dict of weights by class"
            ))),
        }
    }

    /// Called without the GIL, which is taken for signals and progress.
    fn run(
        &self,
        spec: &NetSpec,
        windows: &Windows,
        options: Options,
        progress: Option<&Py<PyAny>>,
    ) -> PyResult<Trained> {
        let cpu = Cpu::global().map_err(library)?;
        let valid = SeriesValidation::new(spec, &self.task, &self.valid).map_err(training)?;
        let learner = Learner::new(cpu, spec, options.adam, options.seed);
        let data = windows as &dyn drnn_train::Dataset;
        let mut trainer =
            Trainer::with_validation(learner, options, "series", data, valid).map_err(training)?;
        trainer.use_cpu(cpu);
        let metric = trainer.measure().metric;
        let mut best: Option<(drnn::Model, usize, f64)> = None;
        let mut looked = Instant::now();
        loop {
            let advanced = trainer.advance().map_err(training)?;
            if looked.elapsed() > SIGNALS {
                Python::attach(|py| py.check_signals())?;
                looked = Instant::now();
            }
            match advanced {
                Advance::Batch => {}
                Advance::Epoch => {
                    let Some(epoch) = trainer.progress().history.last().cloned() else { continue };
                    let score = epoch.watched();
                    if best.as_ref().is_none_or(|best| metric.is_better(score, best.2)) {
                        let model = trainer.engine().model().map_err(training)?;
                        best = Some((model, epoch.epoch, score));
                    }
                    if let Some(progress) = progress {
                        Python::attach(|py| {
                            progress.call1(py, (described(py, &epoch)?, options.epochs))
                        })?;
                    }
                }
                Advance::Ended(_) => break,
            }
        }
        let history = trainer.progress().history.clone();
        let Some((model, epoch, _)) = best else {
            return Err(value_error(
                "the training ended before its first epoch had a finite score",
            ));
        };
        let model = model.with_task(self.task.to_value().map_err(crate::error::tasks)?);
        let mut scores = Vec::new();
        for (name, part) in [("valid", Some(&self.valid)), ("test", self.test.as_ref())] {
            let Some(part) = part else { continue };
            let score = drnn_train::series::score(&model, &self.task, part).map_err(training)?;
            scores.push((name, score));
        }
        Ok((model, epoch, history, scores))
    }

    fn scored<'py>(&self, py: Python<'py>, score: &Score) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        dict.set_item("steps", score.steps)?;
        match &score.measures {
            Measures::Values(targets) => {
                dict.set_item("rmse", score.quality().map(f64::sqrt))?;
                let by_target = PyDict::new(py);
                for (name, target) in self.task.targets.iter().zip(targets) {
                    let one = PyDict::new(py);
                    one.set_item("rmse", target.mse.sqrt())?;
                    one.set_item("r2", target.r2)?;
                    by_target.set_item(name, one)?;
                }
                dict.set_item("targets", by_target)?;
            }
            Measures::Classes { .. } => dict.set_item("accuracy", score.quality())?,
        }
        Ok(dict)
    }
}

fn described<'py>(py: Python<'py>, epoch: &Epoch) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("epoch", epoch.epoch)?;
    dict.set_item("train_loss", epoch.train_loss)?;
    dict.set_item("valid_loss", epoch.valid_loss)?;
    if let Some(accuracy) = epoch.valid_accuracy {
        dict.set_item("valid_accuracy", accuracy)?;
    } else if let Some(mse) = epoch.valid_score {
        dict.set_item("valid_rmse", mse.sqrt())?;
    }
    dict.set_item("rate", epoch.rate)?;
    Ok(dict)
}

/// Index of the network with the shortest delay that is not worse than the best; None if all
/// failed. Errors are RMSE; they are compared as squares.
#[pyfunction]
#[pyo3(signature = (measure, delays, scores, negligible, tolerance=None))]
pub fn recommended(
    measure: &str,
    delays: Vec<usize>,
    scores: Vec<Vec<f64>>,
    negligible: f64,
    tolerance: Option<f64>,
) -> Option<usize> {
    let accuracy = measure == "accuracy";
    let metric = if accuracy { Metric::Accuracy } else { Metric::SquaredError };
    let square = |scores: Vec<f64>| match accuracy {
        true => scores,
        false => scores.iter().map(|x| x * x).collect(),
    };
    let networks = delays.into_iter().zip(scores);
    let networks = networks.map(|(delay, scores)| DelayScores { delay, scores: square(scores) });
    let networks: Vec<DelayScores> = networks.collect();
    let of_best = tolerance.unwrap_or(metric.tolerance());
    let negligible = if accuracy { 0.0 } else { negligible };
    let tolerance = Tolerance { of_best, negligible };
    Some(recommend(metric, tolerance, &networks)?.recommended)
}

/// The seed of training `i`, counted from 0, of several that repeat one with `seed`.
#[pyfunction]
pub fn training_seed(seed: u64, i: usize) -> u64 {
    drnn_train::seed::of_training(seed, i)
}
