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
//! A file is written beside its place, synced and renamed, and its folder is synced: there is the
//! old one or the new one, never half of one. A damaged or hostile file is refused with the tensor
//! and the reason, and nothing is allocated that its header merely claims.

use crate::error::{Error, Result};
use crate::io::limits::{printable, short};
use crate::io::read::read_model_file;
use crate::io::tensors::TensorFile;
use crate::io::torch;
use crate::model::Model;
use crate::spec::NetSpec;
use crate::spec::params::{Layout, Tensor};
use half::f16;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Write};
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
pub(crate) fn refuse(reason: impl Into<String>) -> Error {
    Error::File { file: "model file".into(), reason: printable(&reason.into()) }
}

/// The same error with the path in it.
pub(crate) fn in_file(error: Error, path: &Path) -> Error {
    let reason = match error {
        Error::File { reason, .. } => reason,
        other => other.to_string(),
    };
    Error::File { file: path.display().to_string(), reason }
}

/// Writes a file so that there is the old one or the new one, never half of one: beside its place,
/// synced, then renamed, and the folder synced, so that it survives a loss of power. A link is
/// followed, permissions stay, and what is no plain file (a pipe, a device) is written to as it is.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let old = std::fs::metadata(path).ok(); // of what a link points to
    if old.as_ref().is_some_and(|old| !old.is_file() && !old.is_dir()) {
        return write(&mut File::options().write(true).open(path)?);
    }
    let path = if old.is_some() { &path.canonicalize()? } else { path };
    // Beside its place, because a rename works within one file system only.
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = new_file(folder).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            io::Error::new(e.kind(), format!("there is no folder {}", folder.display()))
        }
        kind => kind.into(), // without the temporary name, which means nothing
    })?;
    write(file.as_file_mut())?;
    if let Some(old) = old.filter(|old| old.is_file()) {
        file.as_file().set_permissions(old.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(path).map_err(|e| e.error)?;
    sync_folder(folder)
}

/// Syncs a folder: files that were made, renamed or removed in it stay so after a loss of power.
/// File systems that cannot sync a folder are left to themselves, and so are folders that may not
/// be read.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    if cfg!(not(unix)) {
        return Ok(());
    }
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(e) if [InvalidInput, PermissionDenied, Unsupported].contains(&e.kind()) => Ok(()),
        other => other,
    }
}

/// A file of no name yet, as readable as any new file: temporary ones are the owner's alone.
#[cfg(unix)]
fn new_file(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    let permissions = std::fs::Permissions::from_mode(0o666); // less the umask
    tempfile::Builder::new().permissions(permissions).tempfile_in(folder)
}

/// A file of no name yet.
#[cfg(not(unix))]
fn new_file(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new().tempfile_in(folder)
}

/// The metadata of a file of ours, if it is of a format that we read.
pub(crate) fn checked(header: &str) -> Result<Value> {
    let header: Value = serde_json::from_str(header)
        .map_err(|e| refuse(format!("metadata `drnn` is not JSON: {e}")))?;
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
            Precision::F16 => values.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
        };
        to.write_all(&bytes)?;
    }
    Ok(())
}

impl Model {
    /// The model as the bytes of a safetensors file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes, Precision::F32).map_err(|e| refuse(e.to_string()))?;
        Ok(bytes)
    }

    /// Writes the model to `path`. Where that fails, what was there before is untouched.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        self.save_as(path, Precision::F32)
    }

    /// The same with a choice of precision.
    pub fn save_as(&self, path: impl AsRef<Path>, precision: Precision) -> Result<()> {
        let path = path.as_ref();
        write_atomically(path, |file| self.write_to(file, precision))
            .map_err(|e| in_file(refuse(format!("cannot be written: {e}")), path))
    }

    fn write_to(&self, to: &mut impl Write, precision: Precision) -> io::Result<()> {
        let (spec, task) = (self.spec().clone(), self.task().cloned());
        let header = serde_json::to_string(&Header { format: FORMAT, spec, task })?;
        write_tensors(to, &header, &named_tensors("", self), precision)
    }

    /// Reads a model that [`Model::save`] wrote. For files of PyTorch see [`Model::import`].
    pub fn load(path: impl AsRef<Path>) -> Result<Model> {
        let path = path.as_ref();
        Model::from_bytes(&read_model_file(path)?).map_err(|e| in_file(e, path))
    }

    /// Reads a model from the bytes of such a file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Model> {
        if torch::is_pt(bytes) {
            return Err(refuse("is a file of PyTorch (.pt), not drnn's own; it can be imported"));
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
        let header: Header =
            serde_json::from_value(header).map_err(|e| refuse(format!("metadata `drnn`: {e}")))?;
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

    /// Imports a PyTorch state dict from a file, see [`crate::Import`].
    pub fn import(path: impl AsRef<Path>, options: &crate::Import) -> Result<Model> {
        let path = path.as_ref();
        Model::import_bytes(&read_model_file(path)?, options).map_err(|e| in_file(e, path))
    }
}
