//! A model as one `.safetensors` file.
//!
//! Tensors carry PyTorch's names and layouts, so `safetensors.torch.load_file` reads them and a plain
//! recurrent network goes into `nn.LSTM.load_state_dict` unchanged. The metadata entry `drnn` holds
//! what tensors cannot say:
//!
//! ```json
//! {"format": 1, "spec": {"cell": "lstm", "input": {"dense": 3}, "units": [5], ..}, "task": {..}}
//! ```
//!
//! `task` is whatever the program that trained the model needs to use it (see [`Model::task`]); it may be
//! missing. Values may be written as half-precision numbers, which are half as large; they are read as f32.
//!
//! A file is written under a temporary name in its folder, synced and renamed, and its folder is synced: there is the
//! old one or the new one, never half of one. A damaged or hostile file is refused with the tensor
//! and the reason, and nothing is allocated that its header merely claims.

use crate::error::text::short;
use crate::error::{Error, FileError, Result};
#[cfg(feature = "std")]
use crate::io::atomic::write_atomically;
use crate::io::format::{Container, Format, sniff};
use crate::io::half_precision::f32_to_f16;
#[cfg(not(feature = "std"))]
use crate::io::memory::{self as io, Write};
#[cfg(feature = "std")]
use crate::io::read::read_model_file;
use crate::io::tensors::TensorFile;
use crate::model::Model;
use crate::prelude::*;
use crate::spec::NetSpec;
use crate::spec::params::{Layout, Tensor};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
#[cfg(feature = "std")]
use std::io::{self, Write};
#[cfg(feature = "std")]
use std::path::Path;

/// The metadata entry that makes a file ours.
pub(crate) const KEY: &str = "drnn";
/// Newest format that this version reads and writes.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Header {
    format: u32,
    spec: NetSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<Value>,
}

/// How values are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Precision {
    /// As they are.
    #[default]
    F32,
    /// Half as large, three digits.
    F16,
}

/// A tensor to be written: name, dimensions, values.
pub(crate) type Named<'a> = (String, Vec<usize>, &'a [f32]);

/// An error about a file whose path is not known here. Names in it come from the file.
pub(crate) fn refuse(reason: impl AsRef<str>) -> Error {
    Error::File(FileError::new(reason.as_ref()))
}

/// The same with the error that caused it; `reason` includes its message.
pub(crate) fn refuse_because(
    reason: impl AsRef<str>,
    source: impl core::error::Error + Send + Sync + 'static,
) -> Error {
    Error::File(FileError::new(reason.as_ref()).caused_by(source))
}

/// The same error with the path in it.
#[cfg(feature = "std")]
pub(crate) fn in_file(error: Error, path: &Path) -> Error {
    Error::File(match error {
        Error::File(error) => error.at(path),
        other => FileError::new(&other.to_string()).caused_by(other).at(path),
    })
}

/// The metadata of a file of ours, if it is of a format that we read.
pub(crate) fn checked(header: &str) -> Result<Value> {
    let header: Value = serde_json::from_str(header)
        .map_err(|e| refuse_because(format!("metadata `drnn` is not JSON: {e}"), e))?;
    match header["format"].as_u64() {
        Some(format) if format == u64::from(FORMAT) => Ok(header),
        found => {
            let found = found.map_or("no format".into(), |n| format!("format {n}"));
            Err(refuse(format!("has {found}; this version reads format {FORMAT}")))
        }
    }
}

/// A model's tensors, with `prefix` before their names.
pub(crate) fn named_tensors<'a>(prefix: &str, model: &'a Model) -> Vec<Named<'a>> {
    let tensors = model.layout().tensors().iter();
    let named = |Tensor { name, dims, range }: &Tensor| {
        (format!("{prefix}{name}"), dims.clone(), &model.params()[range.clone()])
    };
    tensors.map(named).collect()
}

/// The network whose tensors have `prefix` before their names.
pub(crate) fn read_network(file: &TensorFile, prefix: &str, spec: &NetSpec) -> Result<Model> {
    let mut params = Vec::new();
    for tensor in Layout::new(spec).tensors() {
        params.extend(file.values(&format!("{prefix}{}", tensor.name), &tensor.dims)?);
    }
    Model::from_params(spec, params)
}

/// The length of the header, the header, the values: bit by bit, because a large model should not be in
/// memory twice.
pub(crate) fn write_tensors(
    to: &mut impl Write,
    header: &str,
    tensors: &[Named],
    precision: Precision,
) -> io::Result<()> {
    let (dtype, size) = match precision {
        Precision::F32 => ("F32", 4),
        Precision::F16 => ("F16", 2),
    };
    let mut entries = serde_json::Map::new();
    entries.insert("__metadata__".into(), json!({KEY: header}));
    let mut at = 0;
    for (name, dims, values) in tensors {
        let offsets = [at, at + values.len() * size];
        at = offsets[1];
        entries
            .insert(name.clone(), json!({"dtype": dtype, "shape": dims, "data_offsets": offsets}));
    }
    let mut header = serde_json::to_vec(&entries)?;
    header.resize(header.len().next_multiple_of(8), b' '); // so that values are aligned
    to.write_all(&(header.len() as u64).to_le_bytes())?;
    to.write_all(&header)?;
    for values in tensors.iter().flat_map(|(_, _, values)| values.chunks(1 << 16)) {
        let bytes: Vec<u8> = match precision {
            Precision::F32 => values.iter().flat_map(|x| x.to_le_bytes()).collect(),
            Precision::F16 => values.iter().flat_map(|x| f32_to_f16(*x)).collect(),
        };
        to.write_all(&bytes)?;
    }
    Ok(())
}

impl Model {
    /// The model as the bytes of a safetensors file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes, Precision::F32).map_err(|e| refuse_because(e.to_string(), e))?;
        Ok(bytes)
    }

    /// Writes the model to `path`. Where that fails, what was there before is untouched.
    #[cfg(feature = "std")]
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.save_as(path, Precision::F32)
    }

    /// The same with a choice of precision.
    #[cfg(feature = "std")]
    pub fn save_as(&self, path: impl AsRef<Path>, precision: Precision) -> Result<()> {
        let path = path.as_ref();
        write_atomically(path, |file| self.write_to(file, precision))
            .map_err(|e| in_file(refuse_because(format!("cannot be written: {e}"), e), path))
    }

    fn write_to(&self, to: &mut impl Write, precision: Precision) -> io::Result<()> {
        let (spec, task) = (self.spec().clone(), self.task().cloned());
        let header = serde_json::to_string(&Header { format: FORMAT, spec, task })?;
        write_tensors(to, &header, &named_tensors("", self), precision)
    }

    /// Reads a model that [`Model::save`] wrote. For files of PyTorch see [`Model::import`].
    #[cfg(feature = "std")]
    pub fn load(path: impl AsRef<Path>) -> Result<Model> {
        let path = path.as_ref();
        Model::from_bytes(&read_model_file(path)?).map_err(|e| in_file(e, path))
    }

    /// Reads a model from the bytes of such a file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Model> {
        let format = match sniff(bytes)? {
            Container::Safetensors => None,
            Container::Zip => Some("a file of PyTorch (.pt) or NumPy (.npz)".into()),
            Container::OldTorch => Some(Format::OldTorch.to_string()),
            Container::Onnx => Some(Format::Onnx.to_string()),
        };
        if let Some(format) = format {
            return Err(refuse(format!("is {format}, not drnn's own; it can be imported")));
        }
        Model::from_file(&TensorFile::parse(bytes)?)
    }

    pub(crate) fn from_file(file: &TensorFile) -> Result<Model> {
        let Some(header) = file.header() else {
            return Err(refuse(
                "is a safetensors file, but not drnn's (no `drnn` in its metadata); \
                 a PyTorch state dict can be imported",
            ));
        };
        let header = checked(header)?;
        if header.get("networks").is_some() {
            return Err(refuse("holds several networks that belong together, not one model"));
        }
        let header: Header = serde_json::from_value(header)
            .map_err(|e| refuse_because(format!("metadata `drnn`: {e}"), e))?;
        let layout = Layout::new(&header.spec);
        for name in file.names() {
            if layout.find(name).is_none() {
                return Err(refuse(format!(
                    "unexpected tensor `{}` in {}",
                    short(name),
                    header.spec
                )));
            }
        }
        let model = read_network(file, "", &header.spec)?;
        Ok(header.task.into_iter().fold(model, Model::with_task))
    }

    /// Imports a PyTorch state dict or an ONNX graph from a file, see [`crate::Import`].
    #[cfg(feature = "std")]
    pub fn import(path: impl AsRef<Path>, options: &crate::Import) -> Result<Model> {
        crate::Imported::read(path, options).map(|imported| imported.model)
    }
}
