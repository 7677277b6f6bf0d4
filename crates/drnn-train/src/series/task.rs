//! The task of a series model: learned from the training part, and checked against other data.

use super::sequences::Sequences;
use crate::data::TargetData;
use crate::error::{Error, Result};
use crate::read::quote;
use drnn_tasks::series::{ColumnKind, Missing, Scaling, Scalings, SeriesTask};
use std::collections::HashSet;

/// The task of the training part: its columns, classes (in order, numbers by their size) and scaling.
pub fn learn_task(
    train: &Sequences,
    missing: Missing,
    sequence: Option<String>,
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
    let is_plain = train.columns.iter().all(|column| column.kind == ColumnKind::Number);
    Ok(SeriesTask {
        task: SeriesTask::NAME.into(),
        inputs: train.inputs.clone(),
        targets: train.targets.clone(),
        classes,
        scaling: Scalings { inputs: input_scaling(train)?, targets },
        missing,
        sequence,
        delimiter: train.delimiter.into(),
        columns: (!is_plain).then(|| train.columns.clone()),
        forecast: train.forecast.clone(),
    })
}

/// The scaling of the inputs; those made of times and categories stay as they are.
fn input_scaling(train: &Sequences) -> Result<Scaling> {
    let standardised: Vec<bool> = train
        .columns
        .iter()
        .flat_map(|column| std::iter::repeat_n(column.is_standardised(), column.width()))
        .collect();
    let (q, mut scaling) = (train.inputs.len(), Scaling { mean: Vec::new(), sd: Vec::new() });
    for (at, name) in train.inputs.iter().enumerate() {
        let (mean, sd) = match standardised.get(at) {
            Some(false) => (0.0, 1.0),
            _ => {
                let column: Vec<f32> = train.x.iter().skip(at).step_by(q).copied().collect();
                let learned = Scaling::learn(&column, std::slice::from_ref(name))?;
                (learned.mean[0], learned.sd[0])
            }
        };
        scaling.mean.push(mean);
        scaling.sd.push(sd);
    }
    Ok(scaling)
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
