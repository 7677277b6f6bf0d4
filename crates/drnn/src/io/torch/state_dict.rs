//! What `torch.save` writes: a zip archive of a pickle and the tensors' memory.
//!
//! ```text
//! <any>/data.pkl     the object: dictionaries, numbers, and tensors as views of storages
//! <any>/data/<key>   a storage: elements one after the other
//! <any>/byteorder    "little"; older files have none
//! ```
//!
//! A tensor's element (i, j, ..) is element `offset + i * strides[0] + j * strides[1] + ..` of its
//! storage, which it may share with others. Dictionaries, lists and tuples within each other become names
//! with dots: in `{"epoch": 3, "model": state_dict}` there is `model.weight_ih_l0`. What is no tensor is
//! passed over.

use crate::error::text::short;
use crate::error::{Error, Result};
use crate::io::file::refuse;
use crate::io::limits::{MAX_PICKLE, MAX_PICKLE_DEPTH, MAX_TENSOR_NAME, MAX_TENSORS};
use crate::io::tensors::{TensorView, Tensors, long_name};
use crate::io::torch::OLD;
use crate::io::torch::pickle::{Id, Pickle, Storage, Tensor, Value};
use crate::io::torch::zip::Archive;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What a tensor takes of a pickle, at least.
const TENSOR: usize = 64;

/// All tensors of such a file.
pub(crate) fn tensors(bytes: &[u8]) -> Result<Tensors<'_>> {
    if bytes.starts_with(OLD) {
        return Err(refuse(
            "was written in the format of PyTorch before 1.6; load it there and `torch.save` it again",
        ));
    }
    let archive = Archive::parse(bytes)?;
    let folder = folder(&archive)?;
    let entry = |name: &str| archive.get(&format!("{folder}{name}"));
    if archive.names().any(|name| name.contains("/constants.pkl") || name.contains("/code/")) {
        return Err(refuse(
            "is a TorchScript program; load it in PyTorch and `torch.save(model.state_dict(), ..)`",
        ));
    }
    if entry("byteorder")?.is_some_and(|order| order != b"little") {
        return Err(refuse("was written on a big-endian machine; save it on a little-endian one"));
    }
    let bytes = entry("data.pkl")?.unwrap_or(&[]);
    if bytes.len() > MAX_PICKLE {
        return Err(refuse(format!("data.pkl has {} bytes (at most {MAX_PICKLE})", bytes.len())));
    }
    let pickle = Pickle::parse(bytes)?;
    if let Value::Tensor(_) = pickle.get(pickle.root) {
        return Err(refuse("holds one tensor, not a state dict; save `model.state_dict()`"));
    }
    let storage = |key: &str| entry(&format!("data/{key}"));
    // Values that are contained in many places multiply: their names may take some times the pickle.
    let budget = 8 * bytes.len();
    let mut walk = Walk {
        pickle: &pickle,
        storage: &storage,
        name: String::new(),
        budget,
        tensors: BTreeMap::new(),
    };
    walk.visit(pickle.root, 0)?;
    Ok(walk.tensors)
}

/// What stands before the names of all entries.
fn folder<'a>(archive: &'a Archive) -> Result<&'a str> {
    let found = archive.names().filter_map(|name| name.strip_suffix("data.pkl"));
    let mut found =
        found.filter(|folder| folder.find('/').is_some_and(|at| at + 1 == folder.len()));
    match (found.next(), found.next()) {
        (Some(folder), None) => Ok(folder),
        (None, _) => Err(refuse("is a zip archive, but not of torch.save: it has no `data.pkl`")),
        _ => Err(refuse("is a zip archive with several `data.pkl`")),
    }
}

/// On the way through everything that the pickle holds.
struct Walk<'w, 'a> {
    pickle: &'w Pickle<'a>,
    storage: &'w dyn Fn(&str) -> Result<Option<&'a [u8]>>,
    /// The name so far.
    name: String,
    /// Bytes of names, and things without a name, that may still come.
    budget: usize,
    tensors: Tensors<'a>,
}

impl<'a> Walk<'_, 'a> {
    fn visit(&mut self, id: Id, depth: usize) -> Result<()> {
        let pickle = self.pickle;
        match pickle.get(id) {
            Value::Dict(items) => {
                for &(key, value) in items {
                    match *pickle.get(key) {
                        Value::Text(key) => self.enter(&key, value, depth)?,
                        Value::Int(key) => self.enter(&key, value, depth)?,
                        _ => self.pay(1)?,
                    }
                }
            }
            Value::List(items) | Value::Tuple(items) => {
                for (key, &value) in items.iter().enumerate() {
                    self.enter(&key, value, depth)?;
                }
            }
            Value::Tensor(tensor) => {
                self.pay(TENSOR)?;
                let view = self.view(tensor)?;
                if self.tensors.insert(self.name.clone(), view).is_some() {
                    return Err(refuse(format!("there are two tensors `{}`", short(&self.name))));
                }
                if self.tensors.len() > MAX_TENSORS {
                    return Err(refuse(format!("holds more than {MAX_TENSORS} tensors")));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Visits `value` under the name so far and `key`.
    fn enter(&mut self, key: &dyn std::fmt::Display, value: Id, depth: usize) -> Result<()> {
        let (Value::Dict(_) | Value::List(_) | Value::Tuple(_) | Value::Tensor(_)) =
            self.pickle.get(value)
        else {
            return self.pay(1); // no name is made for it
        };
        let before = self.name.len();
        if depth > 0 {
            self.name.push('.');
        }
        let _ = write!(self.name, "{key}");
        self.pay(self.name.len() + 1)?;
        if self.name.len() > MAX_TENSOR_NAME {
            return Err(long_name(&self.name));
        }
        if depth >= MAX_PICKLE_DEPTH {
            return Err(refuse(format!("data.pkl is nested more than {MAX_PICKLE_DEPTH} deep")));
        }
        self.visit(value, depth + 1)?;
        self.name.truncate(before);
        Ok(())
    }

    fn pay(&mut self, bytes: usize) -> Result<()> {
        let left = self.budget.checked_sub(bytes);
        self.budget = left.ok_or_else(|| refuse("data.pkl holds the same things over and over"))?;
        Ok(())
    }

    /// The tensor that is called by the name so far.
    fn view(&self, tensor: &Tensor) -> Result<TensorView<'a>> {
        let name = short(&self.name);
        let wrong = |what: &str| -> Error { refuse(format!("tensor `{name}` has {what}")) };
        let pickle = self.pickle;
        let &Value::Storage(Storage { dtype: stored, key, len }) = pickle.get(tensor.storage)
        else {
            return Err(wrong("no storage"));
        };
        let &Value::Text(key) = pickle.get(key) else {
            return Err(wrong("a storage without a name"));
        };
        let data = (self.storage)(key)?;
        let key = short(key);
        let data = data.ok_or_else(|| wrong(&format!("storage `data/{key}`, which is missing")))?;
        let len = pickle.size(len).ok_or_else(|| wrong("a storage of no length"))?;
        if len.checked_mul(stored.bitsize() / 8) != Some(data.len()) {
            let bytes = data.len();
            return Err(wrong(&format!(
                "{len} {stored:?} in storage `data/{key}` of {bytes} bytes"
            )));
        }
        let shape = pickle.sizes(tensor.shape).ok_or_else(|| wrong("a shape that is none"))?;
        let strides = pickle.sizes(tensor.strides);
        let strides = strides.filter(|strides| strides.len() == shape.len());
        let strides = strides.ok_or_else(|| wrong("strides that do not fit its shape"))?;
        let offset = pickle.size(tensor.offset).ok_or_else(|| wrong("an offset that is none"))?;
        let dtype = tensor.dtype.unwrap_or(stored);
        TensorView::strided(dtype, shape, strides, offset, data).ok_or_else(|| {
            wrong(&format!("elements outside its storage `data/{key}` of {} bytes", data.len()))
        })
    }
}
