//! Models from named tensors: the state dicts of PyTorch, and files with names like theirs.
//!
//! | file | what |
//! |---|---|
//! | `names` | what a tensor's name says: recurrence, layer, direction |
//! | `recurrence` | the tensors of one recurrence; cell, layers and widths by their shapes |
//! | `parts` | an embedding before it, an output layer after it |
//! | `refusal` | why a file has nothing that can be read |

mod names;
mod parts;
mod recurrence;
mod refusal;

use crate::error::Result;
use crate::error::text::{printable, short};
#[cfg(feature = "std")]
use crate::io::file::in_file;
use crate::io::file::refuse;
#[cfg(feature = "onnx")]
use crate::io::format::{Container, sniff};
use crate::io::imported::Imported;
#[cfg(feature = "std")]
use crate::io::read::read_model_file;
use crate::io::tensors::TensorFile;
use crate::model::Model;
use crate::prelude::*;
use crate::spec::params::{Layout, Tensor};
use alloc::collections::BTreeSet;
pub use parts::Part;
use parts::{Between, Linear, Parts};
use recurrence::Recurrence;
#[cfg(feature = "std")]
use std::path::Path;

/// What a state dict does not say, and which part of an ONNX graph is the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Import {
    /// What stands before the names of the recurrence, with or without the dot at its end:
    /// `encoder.lstm`; in an ONNX graph the name of its node. Found by itself where there is only one.
    pub prefix: Option<String>,
    /// A plain RNN was trained with `nonlinearity='relu'`.
    pub relu: bool,
    /// The embedding, which turns tokens into the recurrence's inputs.
    pub embedding: Part,
    /// The linear layer that reads the recurrence's states.
    pub output: Part,
}

impl Model {
    /// Imports a model of another program from the bytes of its file, see [`Format`](crate::io::Format).
    pub fn import_bytes(bytes: &[u8], options: &Import) -> Result<Model> {
        Imported::from_bytes(bytes, options).map(|imported| imported.model)
    }
}

impl Imported {
    /// Reads a file, drnn's own or another's.
    #[cfg(feature = "std")]
    pub fn read(path: impl AsRef<Path>, options: &Import) -> Result<Imported> {
        let path = path.as_ref();
        Imported::from_bytes(&read_model_file(path)?, options).map_err(|e| in_file(e, path))
    }

    /// Reads the bytes of such a file.
    pub fn from_bytes(bytes: &[u8], options: &Import) -> Result<Imported> {
        #[cfg(feature = "onnx")]
        if sniff(bytes)? == Container::Onnx {
            return crate::io::onnx::import(bytes, options);
        }
        let file = TensorFile::parse(bytes)?;
        if file.header().is_some() {
            if *options != Import::default() {
                return Err(refuse(
                    "is drnn's own, and says itself what its names and activation are",
                ));
            }
            return Ok(Imported::own(Model::from_file(&file)?));
        }
        import(&file, options)
    }
}

/// The model in a table of named tensors.
fn import(file: &TensorFile, options: &Import) -> Result<Imported> {
    let recurrence = Recurrence::find(file, options.prefix.as_deref())?;
    let (builder, inputs) = recurrence.spec(file, options.relu)?;
    let plain = builder.clone().dense(inputs).build()?;
    recurrence.check(file, &Layout::new(&plain), &plain)?;
    let between = Between {
        file,
        used: recurrence.names().collect(),
        prefix: &recurrence.prefix,
        inputs,
        hidden: plain.hidden_width(),
    };
    let parts = between.parts(&options.embedding, &options.output)?;
    let builder = match &parts.embedding {
        Some(embedding) => builder.tokens(embedding.rows, inputs),
        None => builder.dense(inputs),
    };
    let spec = match &parts.output {
        Some(output) => builder.outputs(output.rows),
        None => builder,
    };
    let spec = spec.build()?;
    let layout = Layout::new(&spec);
    let sources =
        layout.tensors().iter().map(|tensor| (source(tensor, &recurrence, &parts), tensor));
    let sources: Vec<(Option<&str>, &Tensor)> = sources.collect();
    let model = Model::from_params(&spec, values(file, &layout, &sources)?)?;
    let used: BTreeSet<&str> = sources.iter().filter_map(|(name, _)| *name).collect();
    let notes = notes(file, &recurrence, &parts, &used);
    let unused = file.names().filter(|name| !used.contains(name));
    let unused = unused.map(|name| described(file, name));
    let ignored = unused.chain(file.others().iter().map(|other| printable(&short(other))));
    Ok(Imported { model, format: file.format(), ignored: ignored.collect(), notes })
}

/// Name of the file's tensor for one of the layout; None for a bias that is zero.
fn source<'a>(tensor: &Tensor, recurrence: &'a Recurrence, parts: &'a Parts) -> Option<&'a str> {
    let weight = |part: &'a Option<Linear>| part.as_ref().map(|part| part.weight.as_str());
    match tensor.name.as_str() {
        "embedding.weight" => weight(&parts.embedding),
        "output.weight" => weight(&parts.output),
        "output.bias" => parts.output.as_ref().and_then(|output| output.bias.as_deref()),
        name => recurrence.name(name),
    }
}

/// All values, in the order of the layout. Only biases may be missing, and are zero then.
fn values(
    file: &TensorFile,
    layout: &Layout,
    sources: &[(Option<&str>, &Tensor)],
) -> Result<Vec<f32>> {
    for (name, tensor) in sources {
        name.map_or(Ok(()), |name| file.check(name, &tensor.dims))?;
    }
    // Tensors may share their memory, but among weights that is rare, and not many times over.
    if layout.len() > file.len() {
        let (values, len) = (layout.len(), file.len());
        return Err(refuse(format!("claims {values} weights, but the whole file has {len} bytes")));
    }
    let mut params = Vec::new();
    for (name, tensor) in sources {
        match name {
            Some(name) => params.extend(file.values(name, &tensor.dims)?),
            None => params.resize(params.len() + tensor.range.len(), 0.0),
        }
    }
    Ok(params)
}

/// A tensor for a list: its name and shape.
fn described(file: &TensorFile, name: &str) -> String {
    let shape = file.shape(name).unwrap_or_default();
    printable(&format!("{} {shape:?}", short(name)))
}

/// What was decided by names and shapes, and how to decide otherwise.
fn notes(
    file: &TensorFile,
    recurrence: &Recurrence,
    parts: &Parts,
    used: &BTreeSet<&str>,
) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(prefixes) = recurrence.stacked() {
        notes.push(format!("{prefixes} are read as the layers of one stack; --prefix takes one"));
    }
    if parts.recognised {
        let prefix = short(&recurrence.prefix);
        let part = |part: &Option<Linear>| {
            part.as_ref().map(|part| format!("`{}`", described(file, &part.weight)))
        };
        let (before, after) = (part(&parts.embedding), part(&parts.output));
        let chain = [before.clone(), Some(format!("`{prefix}`")), after.clone()];
        let chain: Vec<String> = chain.into_iter().flatten().collect();
        let options = [(before, "--embedding-layer none"), (after, "--output-layer none")];
        let options = options.into_iter().filter_map(|(part, option)| part.map(|_| option));
        let options = options.collect::<Vec<_>>().join(" ");
        notes.push(format!(
            "read as one model: {}; {options} takes the recurrence alone",
            chain.join(" -> ")
        ));
    }
    if !parts.possible.is_empty() {
        let options = parts.possible.join(", ");
        notes.push(format!("layers that could belong to it are not used; to use them: {options}"));
    }
    if used.iter().any(|name| file.is_f64(name)) {
        notes.push("float64 weights are rounded to float32".into());
    }
    notes.iter().map(|note| printable(note)).collect()
}
