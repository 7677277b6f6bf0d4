//! What PyTorch writes since 1.6: a zip archive of a pickle and the tensors' memory.
//!
//! ```text
//! <any>/data.pkl           the object: dictionaries, numbers, and tensors as views of storages
//! <any>/data/<key>         a storage: elements one after the other
//! <any>/byteorder          "little"; older files have none
//! <any>/code/..            of TorchScript alone: its program, which is not looked at
//! <any>/constants.pkl      of TorchScript alone: a tuple of what the program mentions
//! <any>/constants/<key>    the storages of those
//! ```

use crate::error::Result;
use crate::io::file::refuse;
use crate::io::format::Format;
use crate::io::limits::MAX_PICKLE;
use crate::io::npz;
use crate::io::tensors::Contents;
use crate::io::torch::pickle::{Pickle, Value};
use crate::io::torch::walk::{Source, Walk};
use crate::io::zip::Archive;

/// All tensors of an archive: of PyTorch, or of NumPy.
pub(crate) fn read_zip(bytes: &[u8]) -> Result<Contents<'_>> {
    let archive = Archive::parse(bytes)?;
    if npz::is_npz(&archive) {
        return npz::read(&archive);
    }
    let folder = folder(&archive)?;
    let entry = |name: &str| archive.get(&format!("{folder}{name}"));
    if entry("byteorder")?.is_some_and(|order| order != b"little") {
        return Err(refuse("was written on a big-endian machine; save it on a little-endian one"));
    }
    let script = archive.names().any(|name| {
        let name = name.strip_prefix(folder).unwrap_or("");
        name == "constants.pkl" || name.starts_with("code/")
    });
    let format = if script { Format::TorchScript } else { Format::Torch };
    let mut contents = Contents { format, tensors: Default::default(), others: Vec::new() };
    for (pickle, storages) in [("data.pkl", "data/"), ("constants.pkl", "constants/")] {
        let Some(bytes) = entry(pickle)? else { continue };
        let constants = pickle == "constants.pkl";
        if bytes.len() > MAX_PICKLE {
            let len = bytes.len();
            return Err(refuse(format!("{pickle} has {len} bytes (at most {MAX_PICKLE})")));
        }
        let (pickle, _) = Pickle::parse(bytes, 0, pickle)?;
        if let Value::Tensor(_) = pickle.get(pickle.root) {
            return Err(refuse("holds one tensor, not a state dict; save `model.state_dict()`"));
        }
        let get = |key: &str| entry(&format!("{storages}{key}"));
        let source = Source { pickle: &pickle, get: &get, storages };
        let name = if constants { "constants" } else { "" };
        Walk::new(source, bytes.len(), &mut contents).run(name)?;
    }
    if script && contents.tensors.is_empty() {
        return Err(refuse(
            "is a TorchScript program without tensors; save `model.state_dict()` with torch.save",
        ));
    }
    Ok(contents)
}

/// What stands before the names of all entries.
fn folder<'a>(archive: &'a Archive) -> Result<&'a str> {
    let found = archive.names().filter_map(|name| name.strip_suffix("data.pkl"));
    let mut found =
        found.filter(|folder| folder.find('/').is_some_and(|at| at + 1 == folder.len()));
    let has = |end: &str| archive.names().any(|name| name.ends_with(end));
    match (found.next(), found.next()) {
        (Some(folder), None) => Ok(folder),
        (Some(_), Some(_)) => Err(refuse("is a zip archive with several `data.pkl`")),
        (None, _) if has("model.weights.h5") => Err(refuse(
            "is a Keras model (.keras); convert it to ONNX with `python -m tf2onnx.convert --keras \
             MODEL.keras --output MODEL.onnx`",
        )),
        (None, _) if has("model.json") => Err(refuse(
            "is a TorchScript program of PyTorch before 1.4; load it in PyTorch and \
             `torch.save(model.state_dict(), ..)`",
        )),
        (None, _) if has(".pt") || has(".pth") || has(".npz") || has(".onnx") => {
            Err(refuse("is a zip archive with a model file in it; unpack it first"))
        }
        (None, _) => Err(refuse(
            "is a zip archive, but not of torch.save: it has no `data.pkl`, nor is it an .npz \
             archive of NumPy arrays",
        )),
    }
}
