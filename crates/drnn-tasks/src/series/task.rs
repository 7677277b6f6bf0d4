//! The task of a series model, stored in its file as [`drnn::Model::task`].

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
    /// The classes of the only target; None if targets are values.
    pub classes: Option<Vec<String>>,
    /// How columns are scaled.
    pub scaling: Scalings,
    /// What replaces missing inputs.
    pub missing: Missing,
    /// The column with the sequence that a row belongs to.
    pub sequence: Option<String>,
    /// The delimiter between columns, in ASCII.
    pub delimiter: char,
}

/// How columns are scaled.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scalings {
    /// Scaling of the inputs.
    pub inputs: Scaling,
    /// Scaling of the targets, if they are values.
    pub targets: Option<Scaling>,
}

impl SeriesTask {
    /// The value of `task` in the file.
    pub const NAME: &'static str = "series";

    /// Reads the task of a model file, and checks that it fits the network.
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
            return fail(format!("{q} inputs and {} outputs for {spec}", task.output_width()));
        }
        if task.classes.is_some() == task.scaling.targets.is_some()
            || (task.classes.is_some() && m != 1)
        {
            return fail(format!("{m} targets are both classes and values, or neither"));
        }
        if !task.scaling.inputs.is_of(q)
            || task.scaling.targets.as_ref().is_some_and(|s| !s.is_of(m))
        {
            return fail("a scaling needs one mean and one sd above 0 per column".into());
        }
        if !task.delimiter.is_ascii() {
            return fail(format!("delimiter {:?}", task.delimiter));
        }
        Ok(task)
    }

    /// The JSON for [`drnn::Model::with_task`].
    pub fn to_value(&self) -> Result<Value> {
        serde_json::to_value(self).map_err(|e| Error::Data(e.to_string()))
    }

    /// The network's number of outputs, m: one per target, or one per class.
    pub fn output_width(&self) -> usize {
        self.classes.as_ref().map_or(self.targets.len(), Vec::len)
    }

    /// Sets a network's input and output sizes.
    pub fn widths(&self, builder: NetSpecBuilder) -> NetSpecBuilder {
        builder.dense(self.inputs.len()).outputs(self.output_width())
    }
}
