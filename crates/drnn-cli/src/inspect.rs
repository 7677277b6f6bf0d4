//! `drnn inspect`: what a model file holds, or what a network would be made of.

use crate::Failure;
use crate::net::Net;
use clap::Args;
use drnn::params::Layout;
use drnn::{Import, Model, grouped};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Show what a model file holds, or what a network would be made of
///
/// Size, latency, and every tensor by its PyTorch name. A file is drnn's own, or the state dict of a
/// PyTorch nn.RNN, nn.LSTM or nn.GRU as safetensors or .pt. Examples:
///   drnn inspect model.safetensors
///   drnn inspect --net dlstm --units 512 --delay 8 --symbols 28 --embedding 10 --outputs 27
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Model file; without it, the network that the options describe
    #[arg(conflicts_with_all = ["net", "layers", "units", "delay", "padding", "inputs", "symbols", "embedding", "outputs"])]
    file: Option<PathBuf>,
    /// PyTorch files: what stands before the tensors' names, such as encoder.lstm.
    #[arg(long, requires = "file")]
    prefix: Option<String>,
    #[command(flatten)]
    net: Net,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let spec = match &arguments.file {
        None => arguments.net.spec()?,
        Some(file) => {
            let relu = arguments.net.is_relu();
            let options = Import { prefix: arguments.prefix.clone(), relu };
            Model::import(file, &options)?.spec().clone()
        }
    };
    let layout = Layout::new(&spec);
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let tensors: Vec<_> = layout
            .tensors()
            .iter()
            .map(|t| json!({"name": t.name, "shape": t.dims, "parameters": t.range.len()}))
            .collect();
        let value = json!({
            "description": spec.to_string(),
            "spec": spec,
            "delay": spec.delay(),
            "streams": spec.direction() == drnn::Direction::Forward,
            "parameters": spec.parameters(),
            "tensors": tensors,
        });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    writeln!(out, "{spec}\n")?;
    let width = layout.tensors().iter().map(|t| t.name.len()).max().unwrap_or(0);
    for tensor in layout.tensors() {
        let dims: Vec<_> = tensor.dims.iter().map(usize::to_string).collect();
        let (name, shape) = (&tensor.name, format!("[{}]", dims.join(", ")));
        writeln!(out, "{name:width$}  {shape:14} {:>13}", grouped(tensor.range.len()))?;
    }
    writeln!(out, "{:width$}  {:14} {:>13}", "total", "", grouped(layout.len()))?;
    Ok(())
}
