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
//! `"weights": "int8"`, or `f16` or `bf16`, is there if the model runs with such weights
//! ([`Model::quantize`]). An int8 matrix `weight_ih_l0` is a tensor of that name and dtype I8, and a tensor
//! `weight_ih_l0.scale` of f32, one number for each row: `weight = scale[:, None] * int8`. Biases are f32.
//!
//! A file is written under a temporary name in its folder, synced and renamed, and its folder is synced: there is the
//! old one or the new one, never half of one. A damaged or hostile file is refused with the tensor
//! and the reason, and nothing is allocated that its header merely claims.

use crate::error::text::short;
use crate::error::{Error, FileError, Result};
#[cfg(feature = "std")]
use crate::io::atomic::write_atomically;
use crate::io::format::{Container, Format, sniff};
#[cfg(not(feature = "std"))]
use crate::io::memory::{self as io, Write};
#[cfg(feature = "std")]
use crate::io::read::read_model_file;
use crate::io::tensors::{SCALE, TensorFile};
use crate::io::write::{Named, write_tensors};
use crate::model::Model;
use crate::model::weight_format::WeightFormat;
use crate::prelude::*;
use crate::spec::NetSpec;
use crate::spec::params::{Layout, Tensor};
use serde::{Deserialize, Serialize};
use serde_json::Value;
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
    #[serde(default, skip_serializing_if = "is_f32")]
    weights: WeightFormat,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    task: Option<Value>,
}

/// What a header need not say.
pub(crate) fn is_f32(format: &WeightFormat) -> bool {
    *format == WeightFormat::F32
}

/// How values of a model with f32 weights are written. Those of a quantised model
/// ([`Model::quantize`]) are written in the format of its weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Precision {
    /// As they are.
    #[default]
    F32,
    /// Half as large, three digits.
    F16,
}

impl Precision {
    /// The format of values in the file.
    pub(crate) fn format(self) -> WeightFormat {
        match self {
            Precision::F32 => WeightFormat::F32,
            Precision::F16 => WeightFormat::F16,
        }
    }
}

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
pub(crate) fn named_tensors<'a>(
    prefix: &str,
    model: &'a Model,
    precision: Precision,
) -> Vec<Named<'a>> {
    let tensors = model.layout().tensors().iter();
    let named = |Tensor { name, dims, range }: &Tensor| {
        let format = match model.weight_format() {
            WeightFormat::F32 => precision.format(),
            format if dims.len() == 2 => format,
            _ => WeightFormat::F32,
        };
        let (name, values) = (format!("{prefix}{name}"), &model.params()[range.clone()]);
        Named { name, dims: dims.clone(), values, format }
    };
    tensors.map(named).collect()
}

/// The network whose tensors have `prefix` before their names, and whose weights are of this format.
pub(crate) fn read_network(
    file: &TensorFile,
    prefix: &str,
    spec: &NetSpec,
    format: WeightFormat,
) -> Result<Model> {
    let mut params = Vec::new();
    for tensor in Layout::new(spec).tensors() {
        params.extend(file.values(&format!("{prefix}{}", tensor.name), &tensor.dims)?);
    }
    let model = Model::from_params(spec, params)?;
    if is_f32(&format) { Ok(model) } else { model.quantize(format) }
}

/// Whether a tensor's name is expected: one of the layout's, or the scales of such a tensor.
pub(crate) fn is_expected(file: &TensorFile, prefix: &str, name: &str, layout: &Layout) -> bool {
    let matrix = |name: &str| file.is_int8(&format!("{prefix}{name}")).then(|| layout.find(name));
    layout.find(name).is_some()
        || name.strip_suffix(SCALE).is_some_and(|name| matrix(name).flatten().is_some())
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
        let weights = self.weight_format();
        let header = serde_json::to_string(&Header { format: FORMAT, spec, weights, task })?;
        write_tensors(to, &header, &named_tensors("", self, precision))
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
            if !is_expected(file, "", name, &layout) {
                return Err(refuse(format!(
                    "unexpected tensor `{}` in {}",
                    short(name),
                    header.spec
                )));
            }
        }
        let model = read_network(file, "", &header.spec, header.weights)?;
        Ok(header.task.into_iter().fold(model, Model::with_task))
    }

    /// Imports a PyTorch state dict or an ONNX graph from a file, see [`crate::Import`].
    #[cfg(feature = "std")]
    pub fn import(path: impl AsRef<Path>, options: &crate::Import) -> Result<Model> {
        crate::Imported::read(path, options).map(|imported| imported.model)
    }
}
