//! The description of a model for programs: its inputs, outputs and delay.
//!
//! ```json
//! {"name": "sensor", "task": "series", "reads": {"kind": "numbers", "count": 2, "names": ["a", "b"]},
//!  "answers": {"kind": "classes", "names": ["rest", "walk"]}, "description": "..", "network": "dgru(32 units, ..",
//!  "delay": 3, "parameters": 3553, "streams": true}
//! ```
//!
//! If a series has times or categories, `reads` has kind `fields`, and `columns` instead of `names`:
//! `[{"name": "date", "kind": {"time": {"format": "iso", "cycles": ["hour-of-day"]}}}, ..]`. `scales`
//! has mean and standard deviation of each column of numbers: `[{"mean": 20.5, "sd": 4.2}, null, ..]`.

use super::model::{ElementKind, LiveModel, LiveTask};
use crate::series::{InputColumn, Scaling, SeriesTask};
use serde::Serialize;

/// The description of a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ModelInfo<'m> {
    /// The model's name.
    pub name: &'m str,
    /// `chars`, `series`, `tagger` or `plain`.
    pub task: &'static str,
    /// Its elements.
    pub reads: InputInfo<'m>,
    /// Its predictions; `answers` in the JSON.
    #[serde(rename = "answers")]
    pub outputs: OutputInfo<'m>,
    /// One line for people.
    pub description: String,
    /// The network's spec as text.
    pub network: String,
    /// The delay d, in elements; None for a bidirectional model, which needs the whole sequence.
    pub delay: Option<usize>,
    /// The number of parameters.
    pub parameters: usize,
    /// Whether it can run on live sequences.
    pub streams: bool,
}

/// The elements of a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct InputInfo<'m> {
    /// `numbers`, `fields`, `tokens`, `characters` or `words`.
    pub kind: &'static str,
    /// For numbers and fields, how many an element has; for tokens, the number of symbols.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// For numbers, the names of the columns, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<&'m [String]>,
    /// For fields, the columns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<&'m [InputColumn]>,
    /// For a series, column by column: where its numbers lie; None for times and categories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scales: Option<Vec<Option<ScaleInfo>>>,
}

/// Where the numbers of a column lay in the training data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ScaleInfo {
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation; 1 for a constant column.
    pub sd: f64,
}

/// The predictions of a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OutputInfo<'m> {
    /// `numbers`, `values`, `classes`, `tags` or `characters`.
    pub kind: &'static str,
    /// For numbers, how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// For values, the targets; for classes and tags, all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<&'m [String]>,
    /// For characters, the alphabet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alphabet: Option<String>,
}

impl LiveModel {
    /// Its description for programs.
    pub fn info(&self) -> ModelInfo<'_> {
        let (kind, count) = match self.element_kind() {
            ElementKind::Numbers(q) => ("numbers", Some(q)),
            ElementKind::Fields(count) => ("fields", Some(count)),
            ElementKind::Tokens(symbols) => ("tokens", Some(symbols)),
            ElementKind::Characters => ("characters", None),
            ElementKind::Words => ("words", None),
        };
        let (names, columns) = match &self.task {
            LiveTask::Series(_, task) => match &task.columns {
                Some(columns) => (None, Some(columns.as_slice())),
                None => (Some(task.inputs.as_slice()), None),
            },
            _ => (None, None),
        };
        let out = |kind, names| OutputInfo { kind, count: None, names, alphabet: None };
        let outputs = match &self.task {
            LiveTask::Plain(model) => {
                OutputInfo { count: Some(model.spec().output_width()), ..out("numbers", None) }
            }
            LiveTask::Chars(_, task) => {
                let alphabet = Some(task.alphabet().symbols().iter().collect());
                OutputInfo { alphabet, ..out("characters", None) }
            }
            LiveTask::Series(_, task) => match &task.classes {
                Some(classes) => out("classes", Some(classes)),
                None => out("values", Some(&task.targets)),
            },
            LiveTask::Tagger(tagger) => out("tags", Some(tagger.vocabulary().tags())),
        };
        ModelInfo {
            name: self.name(),
            task: self.task(),
            reads: InputInfo { kind, count, names, columns, scales: self.series().map(scales) },
            outputs,
            description: self.description(),
            network: self.network().spec().to_string(),
            delay: self.streams().then(|| self.latency()),
            parameters: self.parameters(),
            streams: self.streams(),
        }
    }
}

/// The scale of each column of numbers.
fn scales(task: &SeriesTask) -> Vec<Option<ScaleInfo>> {
    let mut at = 0;
    let mut scale = |column: &InputColumn| {
        let first = at;
        at += column.width();
        let Scaling { mean, sd } = &task.scaling.inputs;
        column.is_standardised().then(|| ScaleInfo { mean: mean[first], sd: sd[first] })
    };
    task.input_columns().iter().map(&mut scale).collect()
}
