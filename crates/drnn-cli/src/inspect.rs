//! `drnn inspect`: what a model file holds, or what a network would be made of.

use crate::Failure;
use crate::net::Net;
use crate::paths::check_not_read;
use crate::{block_picture, block_table};
use clap::Args;
use drnn::params::Layout;
use drnn::{BlockMap, Import, Model, NetSpec, grouped};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Show what a model file holds, or what a network would be made of
///
/// Size, latency, and every tensor by its PyTorch name. A file is drnn's own, or the state dict of a
/// PyTorch nn.RNN, nn.LSTM or nn.GRU as safetensors or .pt. Of stacks and of networks in blocks it also shows how
/// strong the connections between layers are, and as a picture what they connect. Examples:
///   drnn inspect model.safetensors
///   drnn inspect model.safetensors --svg blocks.svg
///   drnn inspect --net dlstm --units 512 --delay 8 --symbols 28 --embedding 10 --outputs 27
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Model file; without it, the network that the options describe
    #[arg(conflicts_with_all = ["net", "layers", "units", "delay", "blocks", "block_start", "padding", "inputs", "symbols", "embedding", "outputs"])]
    file: Option<PathBuf>,
    /// PyTorch files: what stands before the tensors' names, such as encoder.lstm.
    #[arg(long, requires = "file")]
    prefix: Option<String>,
    #[command(flatten)]
    net: Net,
    /// Draw the connections between layers to this file
    #[arg(long, value_name = "F")]
    svg: Option<PathBuf>,
    /// One JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (spec, map) = match &arguments.file {
        None => (arguments.net.spec()?, None),
        Some(file) => {
            let relu = arguments.net.is_relu();
            let options = Import { prefix: arguments.prefix.clone(), relu };
            let model = Model::import(file, &options)?;
            (model.spec().clone(), BlockMap::of(&model))
        }
    };
    match (&arguments.file, &arguments.svg) {
        (Some(file), Some(svg)) => {
            check_not_read("--svg", svg, [file.as_path()])?;
            draw(file, svg, map.as_ref(), &spec)?;
        }
        (None, Some(_)) => {
            let why = "--svg needs a model file: what it draws are weights";
            return Err(Failure::Input(why.into()));
        }
        (_, None) => {}
    }
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
            "blocks": map.as_ref().map(block_table::value),
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
    if let Some(map) = &map {
        write!(out, "\n{}", block_table::text(map, &spec))?;
    }
    Ok(())
}

/// Writes the picture of `file`'s blocks to `svg`.
fn draw(file: &Path, svg: &Path, map: Option<&BlockMap>, spec: &NetSpec) -> Result<(), Failure> {
    let in_file = |why: String| Failure::Input(format!("{}: {spec}: {why}", file.display()));
    let picture = block_picture::svg(map, spec).map_err(in_file)?;
    let refuse = |e| Failure::Input(format!("{}: cannot be written: {e}", svg.display()));
    drnn::write_atomically(svg, |out| out.write_all(picture.as_bytes())).map_err(refuse)?;
    eprintln!("wrote {}", svg.display());
    Ok(())
}
