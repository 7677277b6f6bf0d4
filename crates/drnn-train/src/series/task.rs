//! What a model of series has to know, kept in its file as [`drnn::Model::task`].

use super::scaling::Scaling;
use super::sequences::Sequences;
use crate::data::Answers;
use crate::error::{Error, Result};
use crate::read::Missing;
use drnn::{Builder, InputSpec, NetSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashSet;

/// Columns, classes and scalings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesTask {
    /// [`SeriesTask::NAME`].
    pub task: String,
    /// Names of the inputs, in the model's order.
    pub inputs: Vec<String>,
    /// Names of the targets.
    pub targets: Vec<String>,
    /// The classes of the one target; None where targets are values.
    pub classes: Option<Vec<String>>,
    /// How columns are scaled.
    pub scaling: Scalings,
    /// What becomes of missing inputs.
    pub missing: Missing,
    /// The column that says which sequence a row belongs to.
    pub sequence: Option<String>,
    /// Between columns.
    pub delimiter: char,
}

/// How columns are scaled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scalings {
    /// Inputs.
    pub inputs: Scaling,
    /// Targets that are values.
    pub targets: Option<Scaling>,
}

impl SeriesTask {
    /// What `task` says.
    pub const NAME: &'static str = "series";

    /// Learned from the part that is learned from. Classes are in order, numbers by their size.
    pub fn learn(
        train: &Sequences,
        missing: Missing,
        sequence: Option<String>,
        delimiter: u8,
    ) -> Result<SeriesTask> {
        let (classes, targets) = match &train.y {
            Answers::Values(y) => (None, Some(Scaling::learn(y, &train.targets)?)),
            Answers::Classes(y) => {
                let used: HashSet<usize> = y.iter().map(|&label| label as usize).collect();
                let names = train.labels.iter().enumerate().filter(|(i, _)| used.contains(i));
                let mut names: Vec<String> = names.map(|(_, name)| name.clone()).collect();
                let number = |name: &String| name.parse::<f64>().ok().filter(|x| x.is_finite());
                let key = |a: &String, b: &String| match (number(a), number(b)) {
                    (Some(x), Some(y)) => x.total_cmp(&y).then(a.cmp(b)),
                    (x, y) => y.is_some().cmp(&x.is_some()).then(a.cmp(b)),
                };
                names.sort_by(key);
                if names.len() < 2 {
                    let one = names.first().map_or("no class", |name| name);
                    let what = "one class only to learn from, there should be two at least";
                    return Err(Error::Data(format!("{}: {what}", crate::read::quote(one))));
                }
                (Some(names), None)
            }
        };
        Ok(SeriesTask {
            task: SeriesTask::NAME.into(),
            inputs: train.inputs.clone(),
            targets: train.targets.clone(),
            classes,
            scaling: Scalings { inputs: Scaling::learn(&train.x, &train.inputs)?, targets },
            missing,
            sequence,
            delimiter: delimiter.into(),
        })
    }

    /// Reads what a model file holds, if it fits the model.
    pub fn from_value(value: &Value, spec: &NetSpec) -> Result<SeriesTask> {
        let fail = |what: String| Err(Error::Data(format!("its task: {what}")));
        let task: SeriesTask = match serde_json::from_value(value.clone()) {
            Ok(task) => task,
            Err(e) => return fail(e.to_string()),
        };
        let (q, m) = (task.inputs.len(), task.targets.len());
        if task.task != SeriesTask::NAME {
            return fail(format!("{:?}, expected {:?}", task.task, SeriesTask::NAME));
        }
        if spec.input() != InputSpec::Dense(q) || spec.answer_width() != task.answer_width() {
            return fail(format!("{q} inputs and {} answers for {spec}", task.answer_width()));
        }
        if task.classes.is_some() == task.scaling.targets.is_some()
            || (task.classes.is_some() && m != 1)
        {
            return fail(format!("{m} targets are both classes and values, or neither"));
        }
        if !task.scaling.inputs.is_of(q)
            || task.scaling.targets.as_ref().is_some_and(|s| !s.is_of(m))
        {
            return fail("a scaling has not one mean and one sd above 0 per column".into());
        }
        if !task.delimiter.is_ascii() {
            return fail(format!("delimiter {:?}", task.delimiter));
        }
        Ok(task)
    }

    /// For [`drnn::Model::with_task`].
    pub fn to_value(&self) -> Result<Value> {
        serde_json::to_value(self).map_err(|e| Error::Data(e.to_string()))
    }

    /// Values that a network answers with, m: one per target, or one per class.
    pub fn answer_width(&self) -> usize {
        self.classes.as_ref().map_or(self.targets.len(), Vec::len)
    }

    /// Puts input and output to a network's description.
    pub fn widths(&self, builder: Builder) -> Builder {
        builder.dense(self.inputs.len()).outputs(self.answer_width())
    }

    /// Whether `data` has these columns.
    pub(super) fn check(&self, data: &Sequences) -> Result<()> {
        if data.inputs == self.inputs
            && data.targets == self.targets
            && data.is_classes() == self.classes.is_some()
        {
            return Ok(());
        }
        let kind = |classes: bool| if classes { "classes" } else { "values" };
        let told = |inputs: &[String], targets: &[String], classes| {
            format!("{} -> {} ({})", inputs.join(", "), targets.join(", "), kind(classes))
        };
        Err(Error::Data(format!(
            "the data has columns {}, the model is for {}",
            told(&data.inputs, &data.targets, data.is_classes()),
            told(&self.inputs, &self.targets, self.classes.is_some())
        )))
    }
}
