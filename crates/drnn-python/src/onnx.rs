//! Models as ONNX graphs.

use crate::error::{library, tasks};
use drnn::Model;
use drnn::onnx::{ColumnScaling, GraphKind, GraphOptions, OutputUnits};
use drnn_tasks::series::{Missing, Scaling, SeriesTask};
use pyo3::prelude::*;
use std::path::Path;

fn columns(scaling: Scaling) -> ColumnScaling {
    ColumnScaling { mean: scaling.mean, sd: scaling.sd }
}

/// Writes the graph, in the units of the data where the model has a task that knows them.
pub fn export(model: &Model, path: &Path, step: bool) -> PyResult<()> {
    let mut options = GraphOptions::from(if step { GraphKind::Step } else { GraphKind::Whole });
    if let Some(task) = model.task() {
        options.metadata.push(("task".into(), task.to_string()));
        if task["task"] == SeriesTask::NAME {
            let task = SeriesTask::from_value(task, model.spec()).map_err(tasks)?;
            let list = |names: &[String]| serde_json::json!(names).to_string();
            options.metadata.push(("inputs".into(), list(&task.inputs)));
            options.metadata.push(("targets".into(), list(&task.targets)));
            if let Some(classes) = &task.classes {
                options.metadata.push(("classes".into(), list(classes)));
            }
            options.nan_is_mean = task.missing == Missing::Mean;
            options.input_scaling = Some(columns(task.scaling.inputs));
            options.output_units = match task.scaling.targets {
                Some(targets) => OutputUnits::Scaled(columns(targets)),
                None => OutputUnits::Probabilities,
            };
        }
    }
    model.to_onnx(options).map_err(library)?.save(path).map_err(library)
}
