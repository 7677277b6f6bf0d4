//! `drnn export`: writes a model for other runtimes.

use crate::Failure;
use crate::args::import::ImportArguments;
use crate::files::paths::check_not_read;
use crate::memory::{Force, Needs};
use clap::Args;
use drnn::onnx::GraphKind;
use drnn::text::grouped;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Write a model as an ONNX file, for ONNX Runtime, tract and others
///
/// Standard operators; any length T, any batch size B; delay and padding are part of the graph. The model is drnn's
/// own, or the state dict of a PyTorch nn.RNN, nn.LSTM or nn.GRU as safetensors or .pt. Examples:
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
    let kind = if arguments.step { GraphKind::Step } else { GraphKind::Whole };
    // The graph's tensors, and the encoded file.
    let bytes = model.params().len().saturating_mul(3 * size_of::<f32>());
    Needs::new("the graph", bytes).check(arguments.force, "smaller models")?;
    let onnx = model
        .to_onnx(kind)
        .map_err(|e| Failure::Input(format!("{}: {e}", arguments.model.display())))?;
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
            "inputs": onnx.inputs,
            "outputs": onnx.outputs,
            "usage": onnx.usage,
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
    Ok(())
}
