//! Python's pickles, as far as they are plain data. Nothing is executed.
//!
//! A pickle is a program for a stack machine: `K 5` pushes the integer 5, `(` marks a place, `t` makes a
//! tuple of what lies above the mark, `q 0` remembers the top as number 0, `h 0` pushes it again. `c`
//! pushes a class or function by its name and `R` calls it, which is how a hostile pickle runs what it
//! likes. Here `c` knows the few names that `torch.save` writes for tensors and dictionaries, and `R`
//! calls nothing: it notes down what a tensor is made of. Calling any other name is refused, but for a
//! few harmless ones (a NumPy number, a path), and so is any instruction beyond plain data. An object
//! that is made without a call (`\x81`, then `b` for its attributes) is noted down as its class's name
//! and its attributes; what of it is read, if anything, is for `walk` to say.
//!
//! Values lie in one vector and refer to each other by number: a value may contain itself, and however
//! deep they nest, dropping them does not recurse. An instruction makes at most one value, and text is
//! borrowed, so memory is in proportion to the pickle.

mod class;
mod machine;

use crate::error::Result;
use crate::io::limits::{MAX_DIMENSIONS, MAX_PICKLE};
pub(crate) use crate::io::torch::pickle::class::unknown;

use crate::io::torch::pickle::class::Class;
use crate::io::torch::pickle::machine::Machine;
use safetensors::Dtype;

/// A value's place among all.
pub(crate) type Id = u32;

/// What a pickle is made of.
#[derive(Debug)]
pub(crate) enum Value<'a> {
    Int(i64),
    Text(&'a str),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Class(Class),
    /// A class or function that means nothing here: module and name.
    Global(&'a str, &'a str),
    /// An object of such a class; its attributes, where it has any, are usually a dictionary.
    Object {
        class: Id,
        attributes: Option<Id>,
    },
    Storage(Storage),
    Tensor(Tensor),
    /// None, booleans, floats, bytes, integers beyond 64 bits: nothing that we look at.
    Other,
}

/// The storage `key`, of `len` elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Storage {
    pub dtype: Dtype,
    pub key: Id,
    pub len: Id,
    /// Offset and number of the elements that are meant; all, where there is none.
    pub view: Option<(Id, Id)>,
}

/// A view of a storage. What its parts are is for the reader to check, who knows the tensor's name.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tensor {
    pub storage: Id,
    pub offset: Id,
    pub shape: Id,
    pub strides: Id,
    /// Where it is not the storage's.
    pub dtype: Option<Dtype>,
}

/// All values of a pickle, and the one that it stands for.
pub(crate) struct Pickle<'a> {
    values: Vec<Value<'a>>,
    pub root: Id,
}

impl<'a> Pickle<'a> {
    /// Reads the pickle that begins at byte `start` of `bytes`, and the place after its end. Messages
    /// call what it lies in `file`, and count bytes from its beginning.
    pub fn parse(bytes: &'a [u8], start: usize, file: &'static str) -> Result<(Pickle<'a>, usize)> {
        let end = bytes.len().min(start.saturating_add(MAX_PICKLE));
        let (values, root, end) = Machine::run(bytes.get(..end).unwrap_or(&[]), start, file)?;
        Ok((Pickle { values, root }, end))
    }

    pub fn values(&self) -> &[Value<'a>] {
        &self.values
    }

    pub fn get(&self, id: Id) -> &Value<'a> {
        self.values.get(id as usize).unwrap_or(&Value::Other)
    }

    /// A number that counts something.
    pub fn size(&self, id: Id) -> Option<usize> {
        match *self.get(id) {
            Value::Int(n) => usize::try_from(n).ok(),
            _ => None,
        }
    }

    /// A tuple of a few such numbers.
    pub fn sizes(&self, id: Id) -> Option<Vec<usize>> {
        match self.get(id) {
            Value::Tuple(items) if items.len() <= MAX_DIMENSIONS => {
                items.iter().map(|&id| self.size(id)).collect()
            }
            _ => None,
        }
    }
}
