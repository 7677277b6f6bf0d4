//! `drnn inspect`: what a model file holds, or what a network would be made of.

mod block_picture;
mod block_table;

use crate::Failure;
use crate::args::import::{PartArguments, note_recognised};
use crate::args::network::NetworkArguments;
use crate::console::progress;
use crate::files::model_file::{ModelFile, OpenedModel, task_facts};
use crate::files::paths::check_not_read;
use crate::memory::shown;
use crate::memory::usage::MemoryUse;
use clap::Args;
use drnn::memory::{self, BatchSize};
use drnn::params::Layout;
use drnn::text::grouped;
use drnn::{BlockMap, Bundle, Direction, NetSpec, WeightFormat};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Show what a model file holds, or what a network would be made of
///
/// Size, latency, every tensor by its PyTorch name, and the memory it takes. A file is drnn's own, or
/// the state dict of a PyTorch nn.RNN, nn.LSTM or nn.GRU as safetensors or .pt, or an ONNX graph. Of
/// stacks and of networks in blocks it also shows how strong the connections between layers are, and
/// as a picture what they connect; of a trained model, what for.
/// Examples:
///   drnn inspect model.safetensors
///   drnn inspect model.safetensors --svg blocks.svg
///   drnn inspect --net dlstm --units 512 --delay 8 --symbols 28 --embedding 10 --outputs 27
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Model file; without it, the network that the options describe
    #[arg(conflicts_with_all = ["net", "layers", "units", "delay", "blocks", "block_start", "padding", "inputs", "symbols", "embedding", "outputs"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    parts: PartArguments,
    #[command(flatten)]
    net: NetworkArguments,
    /// Draw the connections between layers to this file
    #[arg(long, value_name = "F")]
    svg: Option<PathBuf>,
    /// Batch size B for the memory estimates
    #[arg(long, value_name = "B", default_value_t = 32)]
    batch: usize,
    /// Sequence length T for the memory estimates
    #[arg(long, value_name = "T", default_value_t = 100)]
    steps: usize,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { file, parts, net, svg, batch, steps, json } = arguments;
    let size = BatchSize::new(*steps, *batch);
    let mut out = std::io::stdout().lock();
    let Some(file) = file else {
        if svg.is_some() {
            let why = "--svg needs a model file, because it draws weights";
            return Err(Failure::Input(why.into()));
        }
        if parts.are_given() {
            let why = "--prefix, --embedding-layer and --output-layer need a model file";
            return Err(Failure::Input(why.into()));
        }
        let spec = net.spec()?;
        let text = match json {
            true => line(network(&spec, WeightFormat::F32, None, size)?),
            false => {
                network_text(&spec, WeightFormat::F32, "")
                    + &MemoryUse::new(&spec, WeightFormat::F32, size)?.text()
            }
        };
        return Ok(out.write_all(text.as_bytes())?);
    };
    let opened = OpenedModel::read(file, &parts.options(net.is_relu()))?;
    let model = match &opened.file {
        ModelFile::One(model) => model,
        ModelFile::Several(_) if svg.is_some() => {
            let (file, why) = (file.display(), "contains several networks; --svg draws one");
            return Err(Failure::Input(format!("{file}: {why}")));
        }
        ModelFile::Several(bundle) => {
            let text = if *json { line(bundle_value(bundle, size)?) } else { bundle_text(bundle) };
            return Ok(out.write_all(text.as_bytes())?);
        }
    };
    let (spec, format, map) = (model.spec(), model.weight_format(), BlockMap::of(model));
    note_recognised(file, &opened, net.nonlinearity());
    if let Some(svg) = svg {
        check_not_read("--svg", svg, [file.as_path()])?;
        draw(file, svg, map.as_ref(), spec)?;
    }
    if *json {
        let mut value = network(spec, format, map.as_ref(), size)?;
        value["task"] = json!(model.task());
        if opened.foreign {
            value["ignored"] = json!(opened.ignored);
            value["notes"] = json!(opened.notes);
        }
        return Ok(out.write_all(line(value).as_bytes())?);
    }
    let mut text = network_text(spec, format, "");
    if let Some(map) = &map {
        text += &format!("\n{}", block_table::text(map, spec));
    }
    if let Some(task) = model.task() {
        text += &task_text(task);
    }
    if !opened.ignored.is_empty() {
        text += &ignored_text(&opened.ignored);
    }
    text += &MemoryUse::new(spec, format, size)?.text();
    Ok(out.write_all(text.as_bytes())?)
}

fn line(value: Value) -> String {
    format!("{value}\n")
}

/// A network as JSON.
fn network(
    spec: &NetSpec,
    format: WeightFormat,
    map: Option<&BlockMap>,
    size: BatchSize,
) -> Result<Value, Failure> {
    let tensors: Vec<_> = Layout::new(spec)
        .tensors()
        .iter()
        .map(|t| json!({"name": t.name, "shape": t.dims, "parameters": t.range.len()}))
        .collect();
    Ok(json!({
        "description": spec.to_string(),
        "spec": spec,
        "delay": spec.delay(),
        "streams": spec.direction() == Direction::Forward,
        "parameters": spec.parameters(),
        "weights": format,
        "tensors": tensors,
        "blocks": map.map(block_table::value),
        "memory": MemoryUse::new(spec, format, size)?,
    }))
}

/// A network as text, with `prefix` before the names of its tensors.
fn network_text(spec: &NetSpec, format: WeightFormat, prefix: &str) -> String {
    let layout = Layout::new(spec);
    let mut out = format!("{spec}\n");
    if format != WeightFormat::F32 {
        out += &format!("weights are {format}, biases f32\n");
    }
    out += "\n";
    let names = layout.tensors().iter().map(|t| t.name.len()).max().unwrap_or(0);
    let width = prefix.len() + names;
    for tensor in layout.tensors() {
        let dims: Vec<_> = tensor.dims.iter().map(usize::to_string).collect();
        let (name, shape) = (format!("{prefix}{}", tensor.name), format!("[{}]", dims.join(", ")));
        out += &format!("{name:width$}  {shape:14} {:>13}\n", grouped(tensor.range.len()));
    }
    out + &format!("{:width$}  {:14} {:>13}\n", "total", "", grouped(layout.len()))
}

fn bundle_value(bundle: &Bundle, size: BatchSize) -> Result<Value, Failure> {
    let mut networks = serde_json::Map::new();
    for (name, model) in &bundle.networks {
        networks.insert(name.clone(), network(model.spec(), model.weight_format(), None, size)?);
    }
    let tables = bundle.tables.iter();
    let tables = tables.map(|(name, t)| (name.clone(), json!({"shape": [t.rows, t.width]})));
    Ok(json!({
        "networks": Value::Object(networks),
        "tables": Value::Object(tables.collect()),
        "task": bundle.task,
    }))
}

fn bundle_text(bundle: &Bundle) -> String {
    let networks = bundle.networks.iter();
    let networks = networks.map(|(name, model)| {
        let text = network_text(model.spec(), model.weight_format(), &format!("{name}."));
        format!("{name}: {text}\n")
    });
    let mut out = networks.collect::<String>();
    for (name, table) in &bundle.tables {
        out += &format!("table {name}: [{}, {}]\n", grouped(table.rows), table.width);
    }
    let models =
        bundle.networks.values().map(|model| memory::model_as(model.spec(), model.weight_format()));
    let tables = bundle.tables.values().map(|table| size_of_val(table.values.as_slice()));
    let bytes = models.chain(tables).fold(0, usize::saturating_add);
    out + &format!("memory {}\n", shown(bytes)) + &task_text(&bundle.task)
}

/// The task as text.
fn task_text(task: &Value) -> String {
    let (name, facts) = task_facts(task);
    let facts = facts.iter().map(|(key, value)| format!("  {key}: {value}\n"));
    format!("\ntask: {name}\n{}", facts.collect::<String>())
}

/// Maximum number of ignored tensors that are shown.
const MAX_IGNORED: usize = 100;

/// What the file holds that is not part of the model.
fn ignored_text(ignored: &[String]) -> String {
    let mut text = format!("\nnot part of the model ({}):\n", grouped(ignored.len()));
    for tensor in ignored.iter().take(MAX_IGNORED) {
        text += &format!("  {tensor}\n");
    }
    if ignored.len() > MAX_IGNORED {
        text += &format!("  and {} more\n", grouped(ignored.len() - MAX_IGNORED));
    }
    text
}

/// Writes the picture of the blocks of `file` to `svg`.
fn draw(file: &Path, svg: &Path, map: Option<&BlockMap>, spec: &NetSpec) -> Result<(), Failure> {
    let in_file = |why: String| Failure::Input(format!("{}: {spec}: {why}", file.display()));
    let picture = block_picture::svg(map, spec).map_err(in_file)?;
    let refuse = |e| Failure::Input(format!("{}: cannot be written: {e}", svg.display()));
    drnn::io::write_atomically(svg, |out| out.write_all(picture.as_bytes())).map_err(refuse)?;
    progress!("wrote {}", svg.display());
    Ok(())
}
