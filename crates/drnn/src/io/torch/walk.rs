//! The tensors of a pickle, by their names.
//!
//! A tensor's element (i, j, ..) is element `offset + i * strides[0] + j * strides[1] + ..` of its
//! storage, which it may share with others. Dictionaries, lists and tuples within each other become names
//! with dots: in `{"epoch": 3, "model": state_dict}` there is `model.weight_ih_l0`. So do the attributes
//! of a TorchScript object, and the parameters, buffers and submodules of an `nn.Module` that was saved
//! whole. What is no tensor is passed over; a checkpoint's other entries, and Python objects of other
//! classes, are named.

use crate::error::text::short;
use crate::error::{Error, Result};
use crate::io::file::refuse;
use crate::io::limits::{MAX_OTHERS, MAX_PICKLE_DEPTH, MAX_TENSOR_NAME, MAX_TENSORS};
use crate::io::tensors::{Contents, TensorView, long_name};
use crate::io::torch::pickle::{Id, Pickle, Storage, Tensor, Value, unknown};
use core::fmt::Write;

/// What a tensor takes of a pickle, at least.
const TENSOR: usize = 64;

/// A pickle, and where its storages are.
pub(crate) struct Source<'w, 'a> {
    pub pickle: &'w Pickle<'a>,
    /// The bytes of a storage by its key, if it is there.
    pub get: &'w dyn Fn(&str) -> Result<Option<&'a [u8]>>,
    /// What stands before the key in the storage's name.
    pub storages: &'static str,
}

/// On the way through everything that the pickle holds.
pub(crate) struct Walk<'w, 'a> {
    from: Source<'w, 'a>,
    /// The name so far.
    name: String,
    /// Bytes of names, and things without a name, that may still come.
    budget: usize,
    /// The first object of a class that was not looked into.
    closed: Option<Error>,
    contents: &'w mut Contents<'a>,
}

impl<'w, 'a> Walk<'w, 'a> {
    /// Through a pickle of `len` bytes. Values that are contained in many places multiply: their names
    /// may take some times the pickle.
    pub fn new(from: Source<'w, 'a>, len: usize, contents: &'w mut Contents<'a>) -> Walk<'w, 'a> {
        let budget = len.saturating_mul(8);
        Walk { from, name: String::new(), budget, closed: None, contents }
    }

    /// Adds all tensors to the contents, with `name` before their names. Where there are none, but a
    /// Python object, that is an error.
    pub fn run(mut self, name: &str) -> Result<()> {
        self.name.push_str(name);
        self.visit(self.from.pickle.root, name.len().min(1))?;
        match self.closed {
            Some(error) if self.contents.tensors.is_empty() => Err(error),
            _ => Ok(()),
        }
    }

    fn visit(&mut self, id: Id, depth: usize) -> Result<()> {
        let pickle = self.from.pickle;
        match *pickle.get(id) {
            Value::Dict(ref items) => self.entries(items, depth)?,
            Value::List(ref items) | Value::Tuple(ref items) => {
                for (key, &value) in items.iter().enumerate() {
                    self.enter(&key, value, depth)?;
                }
            }
            Value::Tensor(ref tensor) => {
                self.pay(TENSOR)?;
                let view = self.view(tensor)?;
                let tensors = &mut self.contents.tensors;
                if tensors.insert(self.name.clone(), view).is_some() {
                    return Err(refuse(format!("there are two tensors `{}`", short(&self.name))));
                }
                if tensors.len() > MAX_TENSORS {
                    return Err(refuse(format!("holds more than {MAX_TENSORS} tensors")));
                }
            }
            Value::Object { class, attributes } => self.object(class, attributes, depth)?,
            Value::Global(module, name) => self.close(module, name),
            _ => {}
        }
        Ok(())
    }

    /// The entries of a dictionary; at the top, those without tensors are named.
    fn entries(&mut self, items: &[(Id, Id)], depth: usize) -> Result<()> {
        let pickle = self.from.pickle;
        for &(key, value) in items {
            let before = self.contents.tensors.len();
            let key: &dyn core::fmt::Display = match pickle.get(key) {
                // The weights of an nn.RNN once more, in a list.
                Value::Text("_flat_weights") => continue,
                Value::Text(key) => key,
                Value::Int(key) => key,
                _ => {
                    self.pay(1)?;
                    continue;
                }
            };
            self.enter(key, value, depth)?;
            let is_object = matches!(pickle.get(value), Value::Object { .. } | Value::Global(..));
            if depth == 0 && before == self.contents.tensors.len() && !is_object {
                self.other(short(&key.to_string()));
            }
        }
        Ok(())
    }

    /// An object: its attributes where it is one of TorchScript, an `nn.Module`'s tensors, otherwise
    /// nothing but its name.
    fn object(&mut self, class: Id, attributes: Option<Id>, depth: usize) -> Result<()> {
        let pickle = self.from.pickle;
        let &Value::Global(module, name) = pickle.get(class) else { return Ok(()) };
        let Some(Value::Dict(items)) = attributes.map(|id| pickle.get(id)) else {
            self.close(module, name);
            return Ok(());
        };
        if module == "__torch__" || module.starts_with("__torch__.") {
            return self.attributes(items, depth);
        }
        let attribute = |wanted: &str| {
            let is = |key: Id| matches!(*pickle.get(key), Value::Text(key) if key == wanted);
            let (_, value) = items.iter().find(|(key, _)| is(*key))?;
            match pickle.get(*value) {
                Value::Dict(items) => Some(items.as_slice()),
                _ => None,
            }
        };
        self.pay(items.len())?;
        let (Some(parameters), Some(modules)) = (attribute("_parameters"), attribute("_modules"))
        else {
            self.close(module, name);
            return Ok(());
        };
        for items in [parameters, attribute("_buffers").unwrap_or(&[]), modules] {
            self.attributes(items, depth)?;
        }
        Ok(())
    }

    fn attributes(&mut self, items: &[(Id, Id)], depth: usize) -> Result<()> {
        for &(key, value) in items {
            match *self.from.pickle.get(key) {
                Value::Text(key) => self.enter(&key, value, depth)?,
                _ => self.pay(1)?,
            }
        }
        Ok(())
    }

    /// An object that is not looked into.
    fn close(&mut self, module: &str, name: &str) {
        self.closed.get_or_insert_with(|| unknown(module, name));
        let at = short(&self.name);
        self.other(format!("{at}{}({})", if at.is_empty() { "" } else { " " }, {
            short(&format!("{module}.{name}"))
        }));
    }

    fn other(&mut self, what: String) {
        if self.contents.others.len() < MAX_OTHERS {
            self.contents.others.push(what);
        }
    }

    /// Visits `value` under the name so far and `key`.
    fn enter(&mut self, key: &dyn core::fmt::Display, value: Id, depth: usize) -> Result<()> {
        let (Value::Dict(_)
        | Value::List(_)
        | Value::Tuple(_)
        | Value::Tensor(_)
        | Value::Object { .. }
        | Value::Global(..)) = self.from.pickle.get(value)
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
            return Err(refuse(format!("its pickle is nested more than {MAX_PICKLE_DEPTH} deep")));
        }
        self.visit(value, depth + 1)?;
        self.name.truncate(before);
        Ok(())
    }

    fn pay(&mut self, bytes: usize) -> Result<()> {
        let left = self.budget.checked_sub(bytes);
        let twice = || refuse("its pickle holds the same things over and over");
        self.budget = left.ok_or_else(twice)?;
        Ok(())
    }

    /// The tensor that is called by the name so far.
    fn view(&self, tensor: &Tensor) -> Result<TensorView<'a>> {
        let name = short(&self.name);
        let wrong = |what: &str| -> Error { refuse(format!("tensor `{name}` has {what}")) };
        let pickle = self.from.pickle;
        let &Value::Storage(Storage { dtype: stored, key, len, view }) = pickle.get(tensor.storage)
        else {
            return Err(wrong("no storage"));
        };
        let &Value::Text(key) = pickle.get(key) else {
            return Err(wrong("a storage without a name"));
        };
        let data = (self.from.get)(key)?;
        let key = format!("{}{}", self.from.storages, short(key));
        let data = data.ok_or_else(|| wrong(&format!("storage `{key}`, which is missing")))?;
        let len = pickle.size(len).ok_or_else(|| wrong("a storage of no length"))?;
        let size = stored.bitsize() / 8;
        if len.checked_mul(size) != Some(data.len()) {
            let bytes = data.len();
            return Err(wrong(&format!("{len} {stored:?} in storage `{key}` of {bytes} bytes")));
        }
        let data = match view.map(|(offset, len)| (pickle.size(offset), pickle.size(len))) {
            None => data,
            Some((Some(offset), Some(len))) => {
                let start = offset.checked_mul(size);
                let end = offset.checked_add(len).and_then(|end| end.checked_mul(size));
                let part = start.zip(end).and_then(|(start, end)| data.get(start..end));
                part.ok_or_else(|| wrong(&format!("a view beyond its storage `{key}`")))?
            }
            Some(_) => return Err(wrong("a view of its storage that is none")),
        };
        let shape = pickle.sizes(tensor.shape).ok_or_else(|| wrong("a shape that is none"))?;
        let strides = pickle.sizes(tensor.strides);
        let strides = strides.filter(|strides| strides.len() == shape.len());
        let strides = strides.ok_or_else(|| wrong("strides that do not fit its shape"))?;
        let offset = pickle.size(tensor.offset).ok_or_else(|| wrong("an offset that is none"))?;
        let dtype = tensor.dtype.unwrap_or(stored);
        TensorView::strided(dtype, shape, strides, offset, data.into()).ok_or_else(|| {
            wrong(&format!("elements outside its storage `{key}` of {} bytes", data.len()))
        })
    }
}
