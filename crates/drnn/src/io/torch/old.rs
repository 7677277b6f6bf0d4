//! What PyTorch wrote before 1.6, and writes with `_use_new_zipfile_serialization=False`: pickles and
//! storages, one after the other.
//!
//! ```text
//! pickle     the number by which such files are recognised
//! pickle     1001, the version
//! pickle     the writer's sizes of integers, and whether it was little-endian
//! pickle     the object, in which storages are ("storage", class, key, device, elements, view)
//! pickle     a list of the storages' keys
//! storages   in that order: elements, 8 bytes; then the elements, little-endian on every machine
//! ```
//!
//! `view` is None, or (key, offset, elements): a part of the storage that it is found in.

use crate::error::text::short;
use crate::error::{Error, Result};
use crate::io::file::refuse;
use crate::io::format::{Format, OLD_TORCH};
use crate::io::limits::{MAX_ARCHIVE_ENTRIES, MAX_PICKLE};
use crate::io::tensors::Contents;
use crate::io::torch::pickle::{Id, Pickle, Storage, Value};
use crate::io::torch::walk::{Source, Walk};
use std::collections::HashMap;

/// The only version there is.
const VERSION: i64 = 1001;
/// How messages call the pickles.
const PICKLE: &str = "old .pt file";

/// All tensors of such a file.
pub(crate) fn read_old(bytes: &[u8]) -> Result<Contents<'_>> {
    let (version, at) = Pickle::parse(bytes, OLD_TORCH.len(), PICKLE)?;
    match version.get(version.root) {
        Value::Int(VERSION) => {}
        Value::Int(n) => {
            return Err(refuse(format!("has version {n} of the old .pt format, not {VERSION}")));
        }
        _ => return Err(refuse("is no old .pt file: it has no version")),
    }
    let (_writer, at) = Pickle::parse(bytes, at, PICKLE)?;
    let (object, keys_at) = Pickle::parse(bytes, at, PICKLE)?;
    if let Value::Tensor(_) = object.get(object.root) {
        return Err(refuse("holds one tensor, not a state dict; save `model.state_dict()`"));
    }
    let (keys, storages_at) = Pickle::parse(bytes, keys_at, PICKLE)?;
    let storages = storages(bytes, storages_at, &keys, &element_sizes(&object)?)?;
    let mut contents =
        Contents { format: Format::OldTorch, tensors: Default::default(), others: Vec::new() };
    let get = |key: &str| Ok(storages.get(key).copied());
    let source = Source { pickle: &object, get: &get, storages: "" };
    Walk::new(source, (keys_at - at).min(MAX_PICKLE), &mut contents).run("")?;
    Ok(contents)
}

/// Bytes of an element by key of the storage, as the object mentions them.
fn element_sizes<'a>(object: &Pickle<'a>) -> Result<HashMap<&'a str, usize>> {
    let mut sizes = HashMap::new();
    for value in object.values() {
        let &Value::Storage(Storage { dtype, key, .. }) = value else { continue };
        let key = text(object, key)?;
        let size = dtype.bitsize() / 8;
        if sizes.insert(key, size).is_some_and(|other| other != size) {
            return Err(refuse(format!("storage `{}` has elements of two sizes", short(key))));
        }
    }
    Ok(sizes)
}

/// The storages by key: all of them, and nothing after them.
fn storages<'a>(
    bytes: &'a [u8],
    mut at: usize,
    keys: &Pickle<'a>,
    sizes: &HashMap<&'a str, usize>,
) -> Result<HashMap<&'a str, &'a [u8]>> {
    let Value::List(list) = keys.get(keys.root) else {
        return Err(refuse("has no list of storages after its pickle"));
    };
    if list.len() as u64 > MAX_ARCHIVE_ENTRIES {
        let (count, max) = (list.len(), MAX_ARCHIVE_ENTRIES);
        return Err(refuse(format!("lists {count} storages (at most {max})")));
    }
    let mut storages = HashMap::new();
    for &key in list {
        let key = text(keys, key)?;
        let name = short(key);
        let wrong = |what: &str| -> Error { refuse(format!("storage `{name}` {what}")) };
        let size = sizes.get(key).ok_or_else(|| wrong("is listed, but no tensor is in it"))?;
        let rest = bytes.get(at..).unwrap_or(&[]);
        let (count, rest) =
            rest.split_first_chunk::<8>().ok_or_else(|| wrong("is missing: the file ends"))?;
        let count = u64::from_le_bytes(*count);
        let len = usize::try_from(count).ok().and_then(|count| count.checked_mul(*size));
        let Some(data) = len.and_then(|len| rest.get(..len)) else {
            let left = rest.len();
            let what = format!("has {count} elements of {size} bytes, but {left} bytes are left");
            return Err(wrong(&what));
        };
        at += 8 + data.len();
        if storages.insert(key, data).is_some() {
            return Err(wrong("is there twice"));
        }
    }
    match bytes.len() - at {
        0 => Ok(storages),
        more => Err(refuse(format!("has {more} bytes after its end"))),
    }
}

fn text<'a>(pickle: &Pickle<'a>, id: Id) -> Result<&'a str> {
    match *pickle.get(id) {
        Value::Text(text) => Ok(text),
        _ => Err(refuse("has a storage whose key is no text")),
    }
}
