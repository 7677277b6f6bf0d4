//! Targets as they are known at each step, and persistence: the last of them.

use super::{Part, ScoredBaseline, SeriesBaselines, scored};
use crate::data::TargetData;
use crate::error::Result;
use crate::loss::IGNORE;
use crate::series::sequences::Sequences;
use drnn_tasks::series::SeriesTask;
use std::ops::Range;

/// Steps that persistence looks back for a target that is not missing.
const MAX_BACK: usize = 1000;

/// The columns that targets come from, at their own steps.
pub(super) struct Known<'a> {
    task: &'a SeriesTask,
    values: &'a TargetData,
    /// Columns, for values.
    width: usize,
    /// The class of each label; [`IGNORE`] where the task does not have it.
    classes: Vec<u32>,
}

impl<'a> Known<'a> {
    pub fn new(task: &'a SeriesTask, data: &'a Sequences) -> Known<'a> {
        let class = |label: &String| {
            let at = task.classes.iter().flatten().position(|class| class == label);
            at.map_or(IGNORE, |at| at as u32)
        };
        Known {
            task,
            values: data.now().unwrap_or(&data.y),
            width: task.target_columns().len(),
            classes: data.labels.iter().map(class).collect(),
        }
    }

    /// The value of column `column` at a step, in its own units.
    fn value(&self, step: usize, column: usize) -> Option<f32> {
        match self.values {
            TargetData::Values(values) => {
                Some(values[step * self.width + column]).filter(|y| !y.is_nan())
            }
            TargetData::Classes(_) => None,
        }
    }

    /// The class at a step.
    fn class(&self, step: usize) -> Option<usize> {
        match self.values {
            TargetData::Classes(labels) => {
                let class = self.classes.get(labels[step] as usize).copied();
                class.filter(|class| *class != IGNORE).map(|class| class as usize)
            }
            TargetData::Values(_) => None,
        }
    }

    /// Numbers that [`Known::append`] appends.
    pub fn encoded_width(&self) -> usize {
        self.task.classes.as_ref().map_or(self.width, Vec::len)
    }

    /// Appends what is known at a step as inputs of a regression: scaled values, or a one for the
    /// class. What is missing is 0, the mean.
    pub fn append(&self, step: usize, to: &mut Vec<f32>) {
        let start = to.len();
        to.resize(start + self.encoded_width(), 0.0);
        if let Some(class) = self.class(step) {
            to[start + class] = 1.0;
        }
        let Some(scaling) = &self.task.scaling.targets else { return };
        let horizons = self.task.targets.len() / self.width.max(1);
        for (column, to) in to[start..].iter_mut().enumerate() {
            if let Some(y) = self.value(step, column) {
                *to = scaling.apply(column * horizons, y);
            }
        }
    }
}

/// The last target that is known when the network's output is computed.
pub(super) fn persistence(of: &SeriesBaselines, parts: &[Part]) -> Result<ScoredBaseline> {
    let task = of.task;
    let horizons = task.forecast.as_ref().map_or(1, |forecast| forecast.ahead.len());
    let ahead: Vec<usize> = task.horizons().into_iter().map(|(_, ahead)| ahead).collect();
    let delay = of.look_ahead.unwrap_or(0);
    let what = match &task.forecast {
        Some(_) => "the last known value of the target",
        None => "the target of the step before",
    };
    scored(("persistence", what.into()), parts, |part, whole, step, y| {
        y.fill(0.0);
        let known = &part.known;
        if task.classes.is_some() {
            let class = before(whole, step, delay, ahead[0]).find_map(|step| known.class(step));
            class.iter().for_each(|class| y[*class] = 1.0);
            return;
        }
        for (at, y) in y.iter_mut().enumerate() {
            let mut steps = before(whole, step, delay, ahead[at]);
            let value = steps.find_map(|step| known.value(step, at / horizons));
            if let (Some(value), Some(scaling)) = (value, &task.scaling.targets) {
                *y = scaling.apply(at, value);
            }
        }
    })
}

/// Steps whose target is known when the output for `step` is computed, the last one first: those up to
/// `step + delay`, but before the target itself.
fn before(
    whole: &Range<usize>,
    step: usize,
    delay: usize,
    ahead: usize,
) -> impl Iterator<Item = usize> + use<> {
    let end = match ahead {
        0 => step,
        ahead => step.saturating_add(delay.min(ahead - 1)).saturating_add(1).min(whole.end),
    };
    (whole.start..end).rev().take(MAX_BACK)
}
