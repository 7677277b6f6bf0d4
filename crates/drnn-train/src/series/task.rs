//! The task of a series model: learned from the training part, and checked against other data.

use super::sequences::Sequences;
use crate::data::TargetData;
use crate::error::{Error, Result};
use crate::read::quote;
use drnn_tasks::series::{Missing, Scaling, Scalings, SeriesTask};
use std::collections::HashSet;

/// The task of the training part: its columns, classes (in order, numbers by their size) and scaling.
pub fn learn_task(
    train: &Sequences,
    missing: Missing,
    sequence: Option<String>,
    delimiter: u8,
) -> Result<SeriesTask> {
    let (classes, targets) = match &train.y {
        TargetData::Values(y) => (None, Some(Scaling::learn(y, &train.targets)?)),
        TargetData::Classes(y) => {
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
                let what = "only one class to learn from, expected at least two";
                return Err(Error::Data(format!("{}: {what}", quote(one))));
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

/// Whether `data` has these columns.
pub(super) fn check_columns(task: &SeriesTask, data: &Sequences) -> Result<()> {
    if data.inputs == task.inputs
        && data.targets == task.targets
        && data.is_classes() == task.classes.is_some()
    {
        return Ok(());
    }
    let kind = |classes: bool| if classes { "classes" } else { "values" };
    let described = |inputs: &[String], targets: &[String], classes| {
        format!("{} -> {} ({})", inputs.join(", "), targets.join(", "), kind(classes))
    };
    Err(Error::Data(format!(
        "the data has columns {}, the model is for {}",
        described(&data.inputs, &data.targets, data.is_classes()),
        described(&task.inputs, &task.targets, task.classes.is_some())
    )))
}
