//! `drnn export`: writes a model for other runtimes.

use crate::Failure;
use crate::args::import::ImportArguments;
use crate::console::note;
use crate::files::paths::check_not_read;
use crate::memory::{Force, Needs};
use clap::Args;
use drnn::onnx::{ColumnScaling, GraphKind, GraphOptions, OutputUnits};
use drnn::text::grouped;
use drnn::{Model, WeightFormat};
use drnn_tasks::series::{InputColumn, Missing, Scaling, Scalings, SeriesTask};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Write a model as an ONNX file, for ONNX Runtime, tract and others
///
/// Standard operators; any length T, any batch size B; delay and padding are part of the graph. The model is drnn's
/// own, or the state dict of a PyTorch nn.RNN, nn.LSTM or nn.GRU as safetensors or .pt, or an ONNX graph. The graph of a trained
/// series takes the inputs and gives the targets in their own units, or the probabilities of its classes; names of
/// columns and classes are in its metadata. Times and categories are encoded outside of the graph; the metadata says
/// how. States to start from are optional. Examples:
///   drnn export model.safetensors --onnx model.onnx
///   drnn export model.safetensors --onnx step.onnx --step
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Model file
    model: PathBuf,
    /// File for the graph
    #[arg(long, value_name = "F")]
    onnx: PathBuf,
    /// Export one step, for streaming, instead of whole sequences; not for bidirectional networks
    #[arg(long)]
    step: bool,
    /// Make the states inputs that must be given, for runtimes that take an input with a default for a constant
    /// (tract). One step always has them
    #[arg(long)]
    states: bool,
    /// Leave out the scaling of a trained series: standardised numbers in and out, classes as logits
    #[arg(long)]
    standardised: bool,
    #[command(flatten)]
    import: ImportArguments,
    #[command(flatten)]
    force: Force,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let model = arguments.import.load(&arguments.model)?;
    check_not_read("--onnx", &arguments.onnx, [arguments.model.as_path()])?;
    if model.weight_format() != WeightFormat::F32 {
        let (path, format) = (arguments.model.display(), model.weight_format());
        note!("{path}: weights are {format}; the graph has them as f32");
    }
    let in_model = |why: String| Failure::Input(format!("{}: {why}", arguments.model.display()));
    let options = arguments.options(&model).map_err(in_model)?;
    // The graph's tensors, and the encoded file.
    let bytes = model.params().len().saturating_mul(3 * size_of::<f32>());
    Needs::new("the graph", bytes).check(arguments.force, "smaller models")?;
    let units = match options.input_scaling.is_some() {
        true => "own",
        false => "standardised",
    };
    let onnx = model.to_onnx(options).map_err(|e| in_model(e.to_string()))?;
    onnx.save(&arguments.onnx)?;

    let (spec, path) = (&onnx.spec, arguments.onnx.display().to_string());
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let value = json!({
            "file": path,
            "bytes": onnx.bytes.len(),
            "description": spec.to_string(),
            "kind": if arguments.step { "step" } else { "whole" },
            "delay": spec.delay(),
            "units": units,
            "inputs": onnx.inputs,
            "outputs": onnx.outputs,
            "usage": onnx.usage,
            "encoding": is_encoded(&model).then_some(ENCODING),
        });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    writeln!(out, "{path}: {} bytes\n{spec}\n", grouped(onnx.bytes.len()))?;
    let ports = [("in", &onnx.inputs), ("out", &onnx.outputs)];
    let lengths = ports.iter().flat_map(|(_, ports)| *ports).map(|port| port.to_string().len());
    let width = lengths.max().unwrap_or(0);
    for (way, ports) in ports {
        for port in ports {
            writeln!(out, "{way:3}  {:width$}  {}", port.to_string(), port.meaning)?;
        }
    }
    writeln!(out, "\n{}", onnx.usage)?;
    if is_encoded(&model) {
        writeln!(out, "{ENCODING}")?;
    }
    Ok(())
}

impl Arguments {
    /// How the graph is made: in the units of the data where the model has a task that knows them.
    fn options(&self, model: &Model) -> Result<GraphOptions, String> {
        let kind = if self.step { GraphKind::Step } else { GraphKind::Whole };
        let mut options = GraphOptions::from(kind);
        options.optional_states &= !self.states;
        let Some(task) = model.task() else { return Ok(options) };
        options.metadata.push(("task".into(), task.to_string()));
        if task["task"] == SeriesTask::NAME {
            let task = SeriesTask::from_value(task, model.spec()).map_err(|e| e.to_string())?;
            let mut list = |name: &str, names: &[String]| {
                options.metadata.push((name.into(), json!(names).to_string()));
            };
            list("inputs", &task.inputs);
            list("targets", &task.targets);
            task.classes.iter().for_each(|classes| list("classes", classes));
            if let Some(columns) = encoded_columns(&task) {
                options.metadata.push(("columns".into(), json!(columns).to_string()));
                options.metadata.push(("encoding".into(), ENCODING.into()));
            }
            if !self.standardised {
                let Scalings { inputs, targets } = task.scaling;
                options.input_scaling = Some(columns(inputs));
                options.nan_is_mean = task.missing == Missing::Mean;
                options.output_units = match targets {
                    Some(targets) => OutputUnits::Scaled(columns(targets)),
                    None => OutputUnits::Probabilities,
                };
            }
        }
        Ok(options)
    }
}

/// What a caller of a graph must do that reads times or categories: ONNX has no dates, and few runtimes
/// have text.
const ENCODING: &str = "Times and categories are encoded outside of the graph, as `columns` and `inputs` in the metadata say: \
a time as the sine and cosine of 2 pi times its phase in each cycle, in local time (hour-of-day from midnight, \
day-of-week from Monday, day-of-year from 1 January); a category as 1 in its own input and 0 in the others of its \
column, all 0 if it is none of them.";

/// The columns of a task whose inputs are not all columns of numbers.
fn encoded_columns(task: &SeriesTask) -> Option<&[InputColumn]> {
    let columns = task.columns.as_deref()?;
    columns.iter().any(|column| !column.is_standardised()).then_some(columns)
}

fn is_encoded(model: &Model) -> bool {
    let task = model.task().and_then(|task| SeriesTask::from_value(task, model.spec()).ok());
    task.is_some_and(|task| encoded_columns(&task).is_some())
}

fn columns(Scaling { mean, sd }: Scaling) -> ColumnScaling {
    ColumnScaling { mean, sd }
}
