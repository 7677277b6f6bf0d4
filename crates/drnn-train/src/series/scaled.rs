//! Sequences in the units of the network: scaled inputs, scaled targets or numbers of classes.

use super::sequences::Sequences;
use super::task::check_columns;
use crate::data::{Key, TargetData};
use crate::error::{Error, Result};
use crate::loss::{IGNORE, Targets};
use drnn_tasks::series::SeriesTask;
use std::collections::HashMap;

/// All steps of some sequences, scaled; the sequences follow each other.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scaled {
    /// (steps, q).
    pub x: Vec<f32>,
    /// (steps, m), or a class each.
    pub y: TargetData,
    /// q and m.
    pub widths: [usize; 2],
    /// Steps that count, but whose class the task does not have.
    pub unknown: usize,
    pub key: Key,
}

impl Scaled {
    pub fn new(data: &Sequences, task: &SeriesTask) -> Result<Scaled> {
        check_columns(task, data)?;
        let (q, m) = (task.inputs.len(), task.targets.len());
        let scaling = &task.scaling;
        let x = data.x.iter().enumerate().map(|(i, &x)| match x.is_nan() {
            true => 0.0, // the mean
            false => scaling.inputs.apply(i % q, x),
        });
        let mut unknown = 0;
        let y = match (&data.y, &scaling.targets, &task.classes) {
            (TargetData::Values(y), Some(targets), _) => TargetData::Values(
                y.iter().enumerate().map(|(i, &y)| targets.apply(i % m, y)).collect(),
            ),
            (TargetData::Classes(y), _, Some(classes)) => {
                let places: HashMap<&String, usize> =
                    classes.iter().enumerate().map(|(i, class)| (class, i)).collect();
                let ids: Vec<Option<usize>> =
                    data.labels.iter().map(|name| places.get(name).copied()).collect();
                let is_unknown = |label: &u32| ids.get(*label as usize) == Some(&None);
                unknown = data
                    .spans()
                    .flat_map(|span| &y[span.counted])
                    .filter(|y| is_unknown(y))
                    .count();
                let class = |label: &u32| ids.get(*label as usize).copied().flatten();
                let class = |label: &u32| class(label).map_or(IGNORE, |id| id as u32);
                TargetData::Classes(y.iter().map(class).collect())
            }
            _ => return Err(Error::Data("targets are both classes and values".into())),
        };
        let x: Vec<f32> = x.collect();
        let finite = |values: &[f32]| !values.iter().any(|x| x.is_infinite());
        if !finite(&x) || matches!(&y, TargetData::Values(y) if !finite(y)) {
            let what =
                "a number lies too far from those of the training part: scaled, it is not finite";
            return Err(Error::Data(what.into()));
        }
        Ok(Scaled { x, y, widths: [q, m], unknown, key: Key::new() })
    }

    /// The inputs of a step.
    pub fn input(&self, step: usize) -> &[f32] {
        let q = self.widths[0];
        &self.x[step * q..][..q]
    }

    /// The targets of a step.
    pub fn target(&self, step: usize) -> Targets<'_> {
        let m = self.widths[1];
        match &self.y {
            TargetData::Classes(y) => Targets::Classes(&y[step..][..1]),
            TargetData::Values(y) => Targets::Values(&y[step * m..][..m]),
        }
    }
}
