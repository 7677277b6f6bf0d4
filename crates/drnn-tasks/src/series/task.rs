//! What a model of series has to know, kept in its file as [`drnn::Model::task`].

use super::missing::Missing;
use super::scaling::Scaling;
use crate::error::{Error, Result};
use drnn::{InputSpec, NetSpec, NetSpecBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
        if spec.input() != InputSpec::Dense(q) || spec.output_width() != task.output_width() {
            return fail(format!("{q} inputs and {} answers for {spec}", task.output_width()));
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
    pub fn output_width(&self) -> usize {
        self.classes.as_ref().map_or(self.targets.len(), Vec::len)
    }

    /// Puts input and output to a network's description.
    pub fn widths(&self, builder: NetSpecBuilder) -> NetSpecBuilder {
        builder.dense(self.inputs.len()).outputs(self.output_width())
    }
}
