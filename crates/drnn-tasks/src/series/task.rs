//! The task of a series model, stored in its file as [`drnn::Model::task`].

use super::column::{ColumnKind, InputColumn};
use super::missing::Missing;
use super::scaling::Scaling;
use crate::error::{Error, Result};
use drnn::{InputSpec, NetSpec, NetSpecBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;

/// Columns, classes and scalings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesTask {
    /// [`SeriesTask::NAME`].
    pub task: String,
    /// Names of the network's inputs, in its order.
    pub inputs: Vec<String>,
    /// Names of the targets, one per output: columns, or `y+24` for what column y is 24 steps later.
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
    /// The columns that inputs are made of; None if every input is a column of numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<InputColumn>>,
    /// How targets follow from columns; None if they are columns, at the row itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<Forecast>,
}

/// Targets that lie some steps after the row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forecast {
    /// The columns that are forecast.
    pub columns: Vec<String>,
    /// How many steps ahead, above 0, in ascending order.
    pub ahead: Vec<usize>,
}

impl Forecast {
    /// Column and steps ahead of each output: all horizons of the first column, then of the next.
    pub fn horizons(&self) -> impl Iterator<Item = (&str, usize)> {
        let of = |column| self.ahead.iter().map(move |&ahead| (column, ahead));
        self.columns.iter().flat_map(move |column| of(column.as_str()))
    }

    /// Names of the outputs, such as `y+24`.
    pub fn names(&self) -> Vec<String> {
        self.horizons().map(|(column, ahead)| format!("{column}+{ahead}")).collect()
    }

    /// The longest horizon, in steps.
    pub fn longest(&self) -> usize {
        self.ahead.iter().copied().max().unwrap_or(0)
    }
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
        let refuse = |what: String| Error::Data(format!("its task: {what}"));
        let fail = |what: String| Err(refuse(what));
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
        task.check_columns().map_err(refuse)?;
        if !task.delimiter.is_ascii() {
            return fail(format!("delimiter {:?}", task.delimiter));
        }
        Ok(task)
    }

    /// Whether inputs and targets are those of the columns.
    fn check_columns(&self) -> std::result::Result<(), String> {
        if let Some(columns) = &self.columns {
            columns.iter().try_for_each(InputColumn::check)?;
            if columns.iter().flat_map(InputColumn::inputs).ne(self.inputs.iter().cloned()) {
                return Err("its inputs are not those of its columns".into());
            }
        }
        if let Some(forecast) = &self.forecast {
            let ascending = forecast.ahead.is_sorted_by(|a, b| a < b);
            if forecast.ahead.first().is_none_or(|first| *first == 0) || !ascending {
                return Err(format!("steps ahead {:?}", forecast.ahead));
            }
            if forecast.names() != self.targets {
                return Err("its targets are not those of its forecast".into());
            }
        }
        Ok(())
    }

    /// The columns that inputs are made of, in order.
    pub fn input_columns(&self) -> Cow<'_, [InputColumn]> {
        match &self.columns {
            Some(columns) => Cow::Borrowed(columns),
            None => self.inputs.iter().map(|name| InputColumn::number(name)).collect(),
        }
    }

    /// The column that an input is made of.
    pub fn column_of(&self, input: usize) -> &str {
        let mut rest = input;
        for column in self.columns.iter().flatten() {
            match rest.checked_sub(column.width()) {
                Some(after) => rest = after,
                None => return &column.name,
            }
        }
        &self.inputs[input]
    }

    /// Columns whose category training did not have, given the inputs of a row: all inputs of such a
    /// column are 0.
    pub fn unknown_categories(&self, inputs: &[f32]) -> usize {
        let mut rest = inputs;
        let mut unknown = 0;
        for column in self.columns.iter().flatten() {
            let (own, others) = rest.split_at(column.width().min(rest.len()));
            rest = others;
            let is_category = matches!(column.kind, ColumnKind::Category { .. });
            unknown += usize::from(is_category && own.iter().all(|x| *x == 0.0));
        }
        unknown
    }

    /// The columns of the table that hold the targets.
    pub fn target_columns(&self) -> &[String] {
        self.forecast.as_ref().map_or(&self.targets, |forecast| &forecast.columns)
    }

    /// Column and steps ahead of each target; 0 for the row itself.
    pub fn horizons(&self) -> Vec<(&str, usize)> {
        match &self.forecast {
            Some(forecast) => forecast.horizons().collect(),
            None => self.targets.iter().map(|column| (column.as_str(), 0)).collect(),
        }
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
