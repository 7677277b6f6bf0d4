//! `drnn eval`: evaluates a model on data, by the measures of its task.
//!
//! | file | what |
//! |---|---|
//! | `chars` | masked characters of a text |
//! | `series` | sequences of numbers: errors, or classes and their confusion |
//! | `by_target` | errors of several targets, or horizons, next to those of the baselines |
//! | `pictures` | predictions against the truth, for the report of a training |
//! | `tagger` | tags of words |

pub mod by_target;
mod chars;
pub mod pictures;
pub mod series;
mod tagger;

use crate::Failure;
use crate::args::reading::Reading;
use crate::files::model_file::{ModelFile, task_facts};
use crate::memory::Force;
use crate::report::page::number;
use crate::report::training_run::{Judged, judged_text};
use crate::training::place::{Place, PlaceArguments};
use clap::Args;
use drnn::Import;
use drnn::text::grouped;
use drnn_tasks::series::SeriesTask;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// Evaluate a model on data, by the measures of its task
///
/// The model file names its task, and the task how data are read:
///   chars    a text, plain or compressed; a fraction of its characters is masked as in training
///   series   tables (CSV, plain or compressed) with the columns it was trained on, or X.npy Y.npy
///   tagger   sentences with tags, CoNLL-U or two columns, plain or compressed
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Model file that `drnn train` wrote
    model: PathBuf,
    /// Files to evaluate it on
    #[arg(required = true)]
    data: Vec<PathBuf>,
    /// Series: score only these rows, counted from 1, such as 4001..4500. The rows before them give the
    /// states, those after them the look-ahead, as in `drnn stream`
    #[arg(long, value_name = "FIRST..LAST", value_parser = rows)]
    rows: Option<Rows>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    place: PlaceArguments,
    #[command(flatten)]
    force: Force,
}

/// Rows of a table, the first and the last included, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    pub first: usize,
    pub last: usize,
}

fn rows(text: &str) -> Result<Rows, String> {
    let parts = text.split_once("..").map(|(first, last)| (first.parse(), last.parse()));
    match parts {
        Some((Ok(first), Ok(last))) if 0 < first && first <= last => Ok(Rows { first, last }),
        _ => Err("expected the first and the last row, counted from 1: 4001..4500".into()),
    }
}

/// A model, and the data to evaluate it on.
pub struct Request<'a> {
    pub path: &'a Path,
    pub model: ModelFile,
    pub data: &'a [PathBuf],
    pub rows: Option<Rows>,
    pub reading: Reading,
    pub force: Force,
    pub place: Place,
}

type Evaluate = fn(Request) -> Result<Evaluation, Failure>;

/// The evaluation for each task, by its name.
const TASKS: [(&str, Evaluate); 3] =
    [("chars", chars::evaluate), ("series", series::evaluate), ("tagger", tagger::evaluate)];

/// The result of an evaluation.
#[derive(Debug, Default)]
pub struct Evaluation {
    /// Names and values, the most important first.
    pub metrics: Vec<(String, f64)>,
    /// How much there was: sequences, steps, unknown symbols.
    pub counts: Vec<(&'static str, usize)>,
    /// Tables and confusion matrices.
    pub judged: Vec<Judged>,
    /// Remarks on the data.
    pub notes: Vec<String>,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { model: path, data, rows, json, reading, force, place } = arguments;
    let place = place.find()?;
    let model = ModelFile::open(path, &Import::default())?;
    let (reading, force) = (*reading, *force);
    let (name, found) =
        evaluate(Request { path, model, data, rows: *rows, reading, force, place })?;
    let text = match json {
        true => format!("{}\n", found.value(path.display().to_string(), &name, data)),
        false => found.text(&name),
    };
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

/// The name of a model's task, and the evaluation of that task.
pub fn evaluate(request: Request) -> Result<(String, Evaluation), Failure> {
    let path = request.path.display();
    let in_model = |why: String| Failure::Input(format!("{path}: {why}"));
    let Some(task) = request.model.task() else {
        let why = "does not say what it was trained for, so it cannot be evaluated; `drnn run` computes its outputs";
        return Err(in_model(why.into()));
    };
    let (name, _) = task_facts(task);
    let Some((_, evaluate)) = TASKS.iter().find(|(known, _)| *known == name) else {
        let known = TASKS.map(|(name, _)| name).join(", ");
        return Err(in_model(format!("its task is {name:?}; `drnn eval` evaluates {known}")));
    };
    if request.rows.is_some() && name != SeriesTask::NAME {
        return Err(Failure::Input(format!("--rows: {path} is no model of series")));
    }
    Ok((name, evaluate(request)?))
}

impl Evaluation {
    fn value(&self, model: String, task: &str, data: &[PathBuf]) -> Value {
        let data: Vec<String> = data.iter().map(|path| path.display().to_string()).collect();
        let map = |pairs: Vec<(String, Value)>| Value::Object(pairs.into_iter().collect());
        json!({
            "model": model,
            "task": task,
            "data": data,
            "metrics": map(self.metrics.iter().map(|(name, x)| (name.clone(), json!(x))).collect()),
            "counts": map(self.counts.iter().map(|(name, n)| (name.to_string(), json!(n))).collect()),
            "judged": self.judged,
            "notes": self.notes,
        })
    }

    fn text(&self, task: &str) -> String {
        let counts: Vec<String> =
            self.counts.iter().map(|(name, n)| format!("{name} {}", grouped(*n))).collect();
        let mut out = format!("{task}: {}\n", counts.join(", "));
        for (name, value) in &self.metrics {
            let _ = writeln!(out, "{name} {}", number(*value));
        }
        out += &judged_text(&self.judged, &self.notes);
        out
    }
}
