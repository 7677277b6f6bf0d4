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
//! ```

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
    pub fn find(module: &str, name: &str) -> Result<Class> {
        let class = match (module, name) {
            ("collections", "OrderedDict") => Some(Class::OrderedDict),
            ("collections", "Counter") | ("torch", "Size") => Some(Class::Wrapper),
            ("torch", "device") | ("_codecs", "encode") => Some(Class::Plain),
            ("torch", name) if !name.is_empty() => {
                DTYPES.iter().find_map(|&(storage, number, dtype)| {
                    let class = if name == storage { Class::Storage } else { Class::Dtype };
                    (name == storage || name == number).then(|| class(dtype))
                })
            }
            ("torch.storage", "UntypedStorage" | "_UntypedStorage") => {
                Some(Class::Storage(Dtype::U8))
            }
            ("torch._utils", "_rebuild_tensor_v2" | "_rebuild_tensor_v3") => Some(Class::Tensor),
            ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => {
                Some(Class::Wrapper)
            }
            _ => None,
        };
        class.ok_or_else(|| unknown(module, name))
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

fn unknown(module: &str, name: &str) -> crate::Error {
    let class: String = format!("{module}.{name}").chars().take(100).collect();
    refuse(format!("holds a Python object of class `{class}`; save `model.state_dict()` instead"))
}

impl<'a> Machine<'a> {
    /// What `class(*arguments)` would make.
    pub fn call(&mut self, class: Id, arguments: Id) -> Result<Id> {
        let (&Value::Class(class), Value::Tuple(arguments)) =
            (self.get(class), self.get(arguments))
        else {
            return Err(self.error("calls what is no class"));
        };
        let value = match (class, arguments.as_slice()) {
            (Class::OrderedDict, []) => Value::Dict(Vec::new()),
            (Class::Wrapper, &[first, ..]) => return Ok(first),
            (Class::Plain, _) => Value::Other,
            (Class::Tensor, &[storage, offset, shape, strides, _grad, _hooks, ref more @ ..]) => {
                let mut dtype = None;
                for &id in more {
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

    /// What a persistent reference stands for.
    pub fn storage(&self, reference: Id) -> Result<Value<'a>> {
        if let Value::Tuple(items) = self.get(reference)
            && let &[kind, class, key, _device, len] = items.as_slice()
            && let (Value::Text("storage"), &Value::Class(Class::Storage(dtype))) =
                (self.get(kind), self.get(class))
        {
            return Ok(Value::Storage(Storage { dtype, key, len }));
        }
        Err(self.error("a reference to what is no storage"))
    }
}
