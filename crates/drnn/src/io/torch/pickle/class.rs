//! The names that a pickle may mention, and what calling them would make.
//!
//! ```text
//! collections.OrderedDict()                                            an empty dictionary
//! torch._utils._rebuild_tensor_v2(storage, offset, shape, strides, ..)  a tensor
//! torch._utils._rebuild_tensor_v3(.., dtype)                            a tensor of a newer type
//! torch._utils._rebuild_parameter(tensor, ..)                           the tensor
//! torch.Size(shape), collections.Counter(dictionary)                    what they are given
//! torch.device(name), _codecs.encode(text, "latin1")                    nothing of interest
//! ("storage", torch.FloatStorage, key, device, length)                  an entry of the archive
//! ("storage", torch.FloatStorage, key, device, length, view)            the same before PyTorch 1.6
//! ("module", class, file, source)                                       the class; before PyTorch 1.6
//! ```
//!
//! Checkpoints often hold more: a NumPy number, the arguments of a training script. Making those is
//! harmless, and here they are but the names of their classes.

use crate::error::Result;
use crate::io::file::refuse;
use crate::io::torch::pickle::machine::Machine;
use crate::io::torch::pickle::{Id, Storage, Tensor, Value};
use safetensors::Dtype;

/// A name that is known.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Class {
    OrderedDict,
    /// As good as its first argument.
    Wrapper,
    /// A device; bytes, which protocol 2 has no instruction for.
    Plain,
    Tensor,
    Storage(Dtype),
    Dtype(Dtype),
}

impl Class {
    /// What the name stands for.
    pub fn value<'a>(module: &'a str, name: &'a str) -> Value<'a> {
        Class::find(module, name).map_or(Value::Global(module, name), Value::Class)
    }

    fn find(module: &str, name: &str) -> Option<Class> {
        Some(match (module, name) {
            ("collections", "OrderedDict" | "defaultdict") => Class::OrderedDict,
            ("collections", "Counter") | ("torch", "Size") => Class::Wrapper,
            ("torch", "device") | ("_codecs", "encode") => Class::Plain,
            ("torch" | "torch.cuda", name) if !name.is_empty() => {
                return DTYPES.iter().find_map(|&(storage, number, dtype)| {
                    let class = if name == storage { Class::Storage } else { Class::Dtype };
                    (name == storage || name == number).then(|| class(dtype))
                });
            }
            ("torch.storage", "UntypedStorage" | "_UntypedStorage") => Class::Storage(Dtype::U8),
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2" | "_rebuild_tensor_v3") => {
                Class::Tensor
            }
            ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state")
            | ("torch.nn.parameter", "Parameter")
            | ("torch.jit._pickle", _) => Class::Wrapper,
            _ => return None,
        })
    }
}

/// Functions and classes that a pickle may call although they mean nothing here: what they make is
/// passed over.
fn is_harmless(module: &str, name: &str) -> bool {
    match module {
        "numpy" => matches!(name, "dtype" | "ndarray"),
        "numpy.core.multiarray" | "numpy._core.multiarray" => {
            matches!(name, "scalar" | "_reconstruct")
        }
        "builtins" | "__builtin__" => {
            matches!(name, "set" | "frozenset" | "bytearray" | "complex" | "range" | "slice")
        }
        "argparse" => name == "Namespace",
        "datetime" => matches!(name, "datetime" | "date" | "time" | "timedelta"),
        "pathlib" | "pathlib._local" => {
            matches!(name, "PosixPath" | "WindowsPath" | "PurePosixPath" | "PureWindowsPath")
        }
        "copyreg" | "copy_reg" => name == "_reconstructor",
        "torch._utils" => name.starts_with("_rebuild_"),
        "torch.serialization" => name == "_get_layout",
        // An attribute of every module before PyTorch 1.1.
        "torch.nn.backends.thnn" => name == "_get_thnn_function_backend",
        _ => false,
    }
}

/// Storages and types by their names in `torch`. Weights are floats; the others may lie next to them.
const DTYPES: &[(&str, &str, Dtype)] = &[
    ("FloatStorage", "float32", Dtype::F32),
    ("DoubleStorage", "float64", Dtype::F64),
    ("HalfStorage", "float16", Dtype::F16),
    ("BFloat16Storage", "bfloat16", Dtype::BF16),
    ("LongStorage", "int64", Dtype::I64),
    ("IntStorage", "int32", Dtype::I32),
    ("ShortStorage", "int16", Dtype::I16),
    ("CharStorage", "int8", Dtype::I8),
    ("ByteStorage", "uint8", Dtype::U8),
    ("BoolStorage", "bool", Dtype::BOOL),
    ("ComplexFloatStorage", "complex64", Dtype::C64),
    ("", "uint16", Dtype::U16),
    ("", "uint32", Dtype::U32),
    ("", "uint64", Dtype::U64),
    ("", "float8_e4m3fn", Dtype::F8_E4M3),
    ("", "float8_e4m3fnuz", Dtype::F8_E4M3FNUZ),
    ("", "float8_e5m2", Dtype::F8_E5M2),
    ("", "float8_e5m2fnuz", Dtype::F8_E5M2FNUZ),
];

/// The error about a Python object of which nothing is read.
pub(crate) fn unknown(module: &str, name: &str) -> crate::Error {
    let class: String = format!("{module}.{name}").chars().take(100).collect();
    refuse(format!("holds a Python object of class `{class}`; save `model.state_dict()` instead"))
}

impl<'a> Machine<'a> {
    /// What `class(*arguments)` would make.
    pub fn call(&mut self, class: Id, arguments: Id) -> Result<Id> {
        let class = match (self.get(class), self.get(arguments)) {
            (&Value::Class(found), Value::Tuple(_)) => found,
            (&Value::Global(module, name), Value::Tuple(_)) if is_harmless(module, name) => {
                return self.add(Value::Object { class, attributes: None });
            }
            (&Value::Global(module, name), _) => return Err(unknown(module, name)),
            _ => return Err(self.error("calls what is no class")),
        };
        let Value::Tuple(arguments) = self.get(arguments) else {
            return Err(self.error("calls what is no class"));
        };
        let value = match (class, arguments.as_slice()) {
            (Class::OrderedDict, []) => Value::Dict(Vec::new()),
            (Class::OrderedDict, &[items]) => {
                let pairs = self.pairs(items)?;
                self.pay_copied(pairs.len())?;
                Value::Dict(pairs)
            }
            (Class::Wrapper, &[first, ..]) => return Ok(first),
            (Class::Plain, _) => Value::Other,
            (Class::Tensor, &[storage, offset, shape, strides, ref more @ ..]) => {
                let mut dtype = None;
                // After the flag `requires_grad` and the hooks, which are a dictionary too.
                for &id in more.get(2..).unwrap_or(&[]) {
                    match *self.get(id) {
                        Value::Class(Class::Dtype(found)) => dtype = Some(found),
                        Value::Dict(ref flags) if !flags.is_empty() => {
                            let what =
                                "a tensor that is conjugated or negated when read; save a copy";
                            return Err(self.error(what));
                        }
                        _ => {}
                    }
                }
                Value::Tensor(Tensor { storage, offset, shape, strides, dtype })
            }
            (class, arguments) => {
                let what = format!("{class:?} with {} arguments", arguments.len());
                return Err(self.error(&what));
            }
        };
        self.add(value)
    }

    /// The entries of a dictionary that is made of a list of pairs, as Python 2 did; `defaultdict(factory)` is empty.
    fn pairs(&self, items: Id) -> Result<Vec<(Id, Id)>> {
        let items = match self.get(items) {
            Value::List(items) => items.as_slice(),
            Value::Global(..) | Value::Class(_) => &[],
            _ => return Err(self.error("OrderedDict with 1 arguments")),
        };
        let pair = |&id: &Id| match self.get(id) {
            Value::List(pair) | Value::Tuple(pair) => match pair[..] {
                [key, value] => Some((key, value)),
                _ => None,
            },
            _ => None,
        };
        let pairs: Option<Vec<(Id, Id)>> = items.iter().map(pair).collect();
        pairs.ok_or_else(|| self.error("a dictionary of what is no pair"))
    }

    /// What a persistent reference stands for: a storage, or a module's class.
    pub fn persistent(&mut self, reference: Id) -> Result<Id> {
        let wrong = || Err(self.error("a reference to what is no storage"));
        let Value::Tuple(items) = self.get(reference) else { return wrong() };
        let (kind, class, key, len, view) = match items[..] {
            [kind, class, key, _device, len] => (kind, class, key, len, None),
            [kind, class, key, _device, len, view] => (kind, class, key, len, Some(view)),
            [kind, class, ..] if matches!(self.get(kind), Value::Text("module")) => {
                return Ok(class);
            }
            _ => return wrong(),
        };
        let dtype = match (self.get(kind), self.get(class)) {
            (Value::Text("storage"), &Value::Class(Class::Storage(dtype))) => dtype,
            (Value::Text("storage"), &Value::Global(module, name)) => {
                return Err(unknown(module, name));
            }
            _ => return wrong(),
        };
        let view = match view.map(|view| self.get(view)) {
            None | Some(Value::Other) => None,
            Some(Value::Tuple(view)) if view.len() == 3 => Some((view[1], view[2])),
            Some(_) => return wrong(),
        };
        self.add(Value::Storage(Storage { dtype, key, len, view }))
    }
}
