//! Constants of a graph: views of the file's bytes, and what operators make of them.
//!
//! Transposing, slicing and reshaping change a view, not the values. Only joined and converted
//! constants are copied, within a budget: a small file may join a tensor with itself again and again.

use super::message::Attribute;
use super::wire::{Field, Message};
use crate::error::Result;
use crate::error::text::short;
use crate::io::half_precision::{bf16_to_f32, f16_to_f32};
use alloc::rc::Rc;
use core::cell::Cell;

/// Dimensions of a constant.
pub(super) const MAX_DIMENSIONS: usize = 16;
/// Initialisers that a constant remembers: two biases, in four gates and two directions at most.
const MAX_ORIGINS: usize = 32;

/// Types that are read, by ONNX's codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    F32,
    F64,
    F16,
    Bf16,
    I64,
    I32,
}

#[derive(Debug, Clone)]
enum Data<'a> {
    File(&'a [u8]),
    Made(Rc<[u8]>),
}

/// Element (i, j, ..) is element `offset + i * strides[0] + j * strides[1] + ..` of `data`.
#[derive(Debug, Clone)]
pub(super) struct Constant<'a> {
    pub kind: Type,
    pub shape: Vec<usize>,
    strides: Vec<usize>,
    offset: usize,
    data: Data<'a>,
    /// Names of the initialisers that it was made from.
    pub origins: Rc<[&'a str]>,
}

/// Bytes that may still be copied.
pub(super) struct Budget(Cell<usize>);

impl Budget {
    /// For a file of this many bytes.
    pub fn new(len: usize) -> Budget {
        Budget(Cell::new(len.saturating_mul(4).saturating_add(1 << 16)))
    }

    /// None if it does not suffice.
    fn take(&self, bytes: usize) -> Option<()> {
        self.0.set(self.0.get().checked_sub(bytes)?);
        Some(())
    }
}

impl Type {
    fn of(code: i64) -> Option<Type> {
        Some(match code {
            1 => Type::F32,
            6 => Type::I32,
            7 => Type::I64,
            10 => Type::F16,
            11 => Type::F64,
            16 => Type::Bf16,
            _ => return None,
        })
    }

    fn size(self) -> usize {
        match self {
            Type::F16 | Type::Bf16 => 2,
            Type::F32 | Type::I32 => 4,
            Type::F64 | Type::I64 => 8,
        }
    }
}

/// A `TensorProto`: its name, and the constant or why it is none.
pub(super) fn tensor(bytes: &[u8]) -> Result<(&str, core::result::Result<Constant<'_>, String>)> {
    let (mut dims, mut code, mut name, mut external) = (Vec::new(), 0, "", false);
    let (mut raw, mut ints, mut message) = (Vec::new(), Vec::new(), Message(bytes));
    while let Some((number, field)) = message.next()? {
        match number {
            1 => field.ints(&mut dims)?,
            2 => code = field.int()?,
            4 | 9 | 10 => raw.push(field),
            5 | 7 => field.ints(&mut ints)?,
            8 => name = field.text()?,
            14 => external = field.int()? != 0,
            _ => {}
        }
    }
    let shown = short(name);
    let Some(kind) = Type::of(code) else {
        let why = match code {
            2..=5 | 12 | 13 | 21.. => "quantised or of another integer type",
            _ => "no float or integer tensor",
        };
        return Ok((name, Err(format!("`{shown}` is {why}"))));
    };
    if external {
        let why = "is stored in another file (external data); save the model in one file, with \
                   onnx.save(onnx.load(PATH), PATH)";
        return Ok((name, Err(format!("`{shown}` {why}"))));
    }
    let data = match (raw.as_slice(), kind) {
        ([Field::Bytes(bytes)], _) => Data::File(bytes),
        ([], _) => Data::Made(ints.iter().flat_map(|&value| stored(value, kind)).collect()),
        (fields, _) => {
            Data::Made(fields.iter().flat_map(|field| field_bytes(field).to_vec()).collect())
        }
    };
    let len = data.bytes().len();
    let shape: Option<Vec<usize>> = dims.iter().map(|&n| usize::try_from(n).ok()).collect();
    let shape = shape.filter(|shape| is_bounded(shape));
    let count = shape.iter().flatten().try_fold(kind.size(), |bytes, &n| bytes.checked_mul(n));
    let constant = match shape {
        Some(shape) if count == Some(len) => Ok(Constant::dense(kind, shape, data, [name].into())),
        _ => Err(format!("`{shown}` has shape {dims:?}, but {len} bytes of {kind:?}")),
    };
    Ok((name, constant))
}

/// The bytes of a typed value; half-precision numbers are stored as integers.
fn stored(value: i64, kind: Type) -> Vec<u8> {
    value.to_le_bytes()[..kind.size()].to_vec()
}

fn field_bytes<'a>(field: &'a Field) -> &'a [u8] {
    match field {
        Field::Bytes(bytes) => bytes,
        Field::Fixed32(bytes) => bytes,
        Field::Fixed64(bytes) => bytes,
        Field::Varint(_) => &[],
    }
}

/// The value of a `Constant` node; None if it is of a kind that is not read.
pub(super) fn value<'a>(
    attributes: &[Attribute<'a>],
) -> Result<Option<core::result::Result<Constant<'a>, String>>> {
    let Some(attribute) = attributes.first() else { return Ok(None) };
    let made = |kind, shape, bytes: &[u8]| {
        Some(Ok(Constant::dense(kind, shape, Data::Made(bytes.into()), [].into())))
    };
    Ok(match (attribute.name, attribute.tensor, attribute.int, attribute.float) {
        ("value", Some(bytes), ..) => Some(tensor(bytes)?.1),
        ("value_int", _, Some(int), _) => made(Type::I64, vec![], &int.to_le_bytes()),
        ("value_float", .., Some(float)) => made(Type::F32, vec![], &float.to_le_bytes()),
        ("value_ints", ..) => {
            let bytes: Vec<u8> = attribute.ints.iter().flat_map(|i| i.to_le_bytes()).collect();
            made(Type::I64, vec![attribute.ints.len()], &bytes)
        }
        _ => None,
    })
}

impl Data<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Data::File(bytes) => bytes,
            Data::Made(bytes) => bytes,
        }
    }
}

/// Whether sizes can be multiplied without care, in any order; one of them may be 0.
fn is_bounded(shape: &[usize]) -> bool {
    let product = shape.iter().try_fold(1usize, |product, &n| product.checked_mul(n.max(1)));
    shape.len() <= MAX_DIMENSIONS && product.is_some_and(|product| product <= 1 << 31)
}

/// Strides of values in the order of their indices.
fn dense_strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for i in (1..shape.len()).rev() {
        strides[i - 1] = strides[i] * shape[i].max(1);
    }
    strides
}

impl<'a> Constant<'a> {
    fn dense(
        kind: Type,
        shape: Vec<usize>,
        data: Data<'a>,
        origins: Rc<[&'a str]>,
    ) -> Constant<'a> {
        let strides = match shape.contains(&0) {
            true => vec![0; shape.len()],
            false => dense_strides(&shape),
        };
        Constant { kind, shape, strides, offset: 0, data, origins }
    }

    pub fn is_float(&self) -> bool {
        !matches!(self.kind, Type::I32 | Type::I64)
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.shape.iter().product() // no more than there are bytes: views never repeat values
    }

    /// Calls `each` with the bytes of every value, in the order of their indices.
    fn visit(&self, mut each: impl FnMut(&[u8])) {
        let (bytes, size) = (self.data.bytes(), self.kind.size());
        let mut place = vec![0; self.shape.len()];
        for _ in 0..self.len() {
            let at: usize = place.iter().zip(&self.strides).map(|(i, stride)| i * stride).sum();
            let at = (self.offset + at) * size;
            bytes.get(at..at + size).into_iter().for_each(&mut each);
            for (i, &n) in place.iter_mut().zip(&self.shape).rev() {
                *i += 1;
                if *i < n {
                    break;
                }
                *i = 0;
            }
        }
    }

    /// All values as f32; f64 is rounded.
    pub fn floats(&self) -> Vec<f32> {
        let mut values = Vec::with_capacity(self.len());
        let kind = self.kind;
        self.visit(|bytes| {
            values.push(match (kind, bytes) {
                (Type::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
                (Type::F16, &[a, b]) => f16_to_f32([a, b]),
                (Type::Bf16, &[a, b]) => bf16_to_f32([a, b]),
                (Type::F64, bytes) => {
                    bytes.try_into().map(f64::from_le_bytes).unwrap_or_default() as f32
                }
                _ => 0.0,
            })
        });
        values
    }

    /// All values as integers, if it is a short list of such.
    pub fn ints(&self) -> Option<Vec<i64>> {
        if self.is_float() || self.len() > MAX_DIMENSIONS {
            return None;
        }
        let mut values = Vec::new();
        self.visit(|bytes| {
            values.push(match *bytes {
                [a, b, c, d] => i32::from_le_bytes([a, b, c, d]).into(),
                _ => bytes.try_into().map(i64::from_le_bytes).unwrap_or_default(),
            })
        });
        Some(values)
    }

    /// Whether all values are zero.
    pub fn is_zero(&self) -> bool {
        let mut zero = true;
        self.visit(|bytes| zero &= bytes.iter().all(|byte| *byte == 0));
        zero
    }

    pub fn transposed(&self, order: &[usize]) -> Option<Constant<'a>> {
        let pick = |from: &[usize]| order.iter().map(|&i| from.get(i).copied()).collect();
        let (shape, strides): (Option<Vec<_>>, Option<Vec<_>>) =
            (pick(&self.shape), pick(&self.strides));
        Some(Constant { shape: shape?, strides: strides?, ..self.clone() })
    }

    /// Elements `start..end` of an axis.
    pub fn sliced(&self, axis: usize, start: usize, end: usize) -> Option<Constant<'a>> {
        let mut part = self.clone();
        let n = part.shape.get_mut(axis)?;
        let end = end.min(*n);
        let start = start.min(end);
        *n = end - start;
        part.offset += start * self.strides[axis];
        Some(part)
    }

    /// Axes of one element added at these places of the result.
    pub fn unsqueezed(&self, axes: &[usize]) -> Option<Constant<'a>> {
        let rank = self.shape.len() + axes.len();
        if rank > MAX_DIMENSIONS || axes.iter().any(|&axis| axis >= rank) {
            return None;
        }
        let mut wider = self.clone();
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        axes.dedup();
        if axes.len() + self.shape.len() != rank {
            return None;
        }
        for axis in axes {
            wider.shape.insert(axis, 1);
            wider.strides.insert(axis, 0);
        }
        Some(wider)
    }

    /// Axes of one element removed.
    pub fn squeezed(&self, axes: &[usize]) -> Option<Constant<'a>> {
        if axes.iter().any(|&axis| self.shape.get(axis) != Some(&1)) {
            return None;
        }
        let keep = |of: &[usize]| {
            let kept = of.iter().enumerate().filter(|(i, _)| !axes.contains(i));
            kept.map(|(_, n)| *n).collect()
        };
        let (shape, strides) = (keep(&self.shape), keep(&self.strides));
        Some(Constant { shape, strides, ..self.clone() })
    }

    /// The same values in another shape, in which 0 copies a dimension and -1 is what remains.
    pub fn reshaped(&self, target: &[i64], budget: &Budget) -> Option<Constant<'a>> {
        let shape = resolve(&self.shape, self.len(), target)?;
        let dense = self.strides == dense_strides(&self.shape);
        let from = if dense { self.clone() } else { self.copied(budget)? };
        let (strides, offset) = (dense_strides(&shape), from.offset);
        Some(Constant { shape, strides, offset, ..from })
    }

    /// All values in the order of their indices.
    fn copied(&self, budget: &Budget) -> Option<Constant<'a>> {
        Constant::joined(&[self], 0, budget)
    }

    /// Constants one after another along an axis.
    pub fn joined(parts: &[&Constant<'a>], axis: usize, budget: &Budget) -> Option<Constant<'a>> {
        let first = *parts.first()?;
        let mut shape = first.shape.clone();
        let fits = |part: &&Constant| {
            let mut other = part.shape.clone();
            let same_rank = other.len() == shape.len();
            if let (true, Some(n)) = (same_rank, other.get_mut(axis)) {
                *n = first.shape[axis];
            }
            part.kind == first.kind && other == first.shape
        };
        if !parts.iter().all(fits) {
            return None;
        }
        if let Some(n) = shape.get_mut(axis) {
            *n = parts.iter().map(|part| part.shape[axis]).sum();
        }
        if !is_bounded(&shape) {
            return None;
        }
        let count: usize = parts.iter().map(|part| part.len()).sum();
        budget.take(count.checked_mul(first.kind.size())?)?;
        let mut origins: Vec<&str> = Vec::new();
        for origin in parts.iter().flat_map(|part| part.origins.iter()) {
            if origins.len() < MAX_ORIGINS && !origins.contains(origin) {
                origins.push(origin);
            }
        }
        let mut made = Vec::new();
        let outer: usize = shape.iter().take(axis).product();
        let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.all_bytes()).collect();
        for row in 0..outer.max(1) {
            for part in &parts {
                let len = part.len() / outer.max(1);
                made.extend_from_slice(&part[row * len..][..len]);
            }
        }
        Some(Constant::dense(first.kind, shape, Data::Made(made.into()), origins.into()))
    }

    fn all_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len() * self.kind.size());
        self.visit(|value| bytes.extend_from_slice(value));
        bytes
    }

    /// The values as floats of 32 bits; of integers nothing.
    pub fn as_f32(&self, budget: &Budget) -> Option<Constant<'a>> {
        if self.kind == Type::F32 {
            return Some(self.clone());
        }
        if !self.is_float() {
            return None;
        }
        budget.take(self.len().checked_mul(size_of::<f32>())?)?;
        let bytes = self.floats().iter().flat_map(|x| x.to_le_bytes()).collect();
        Some(Constant::dense(
            Type::F32,
            self.shape.clone(),
            Data::Made(bytes),
            self.origins.clone(),
        ))
    }
}

/// The shape that `target` stands for, of as many values.
fn resolve(shape: &[usize], len: usize, target: &[i64]) -> Option<Vec<usize>> {
    let known = |(i, &n): (usize, &i64)| match n {
        0 => shape.get(i).copied(),
        -1 => Some(1),
        n => usize::try_from(n).ok(),
    };
    let mut found: Vec<usize> = target.iter().enumerate().map(known).collect::<Option<_>>()?;
    let product = found.iter().try_fold(1usize, |product, &n| product.checked_mul(n))?;
    if let Some(free) = target.iter().position(|&n| n == -1) {
        found[free] = len.checked_div(product)?;
    }
    let product = found.iter().try_fold(1usize, |product, &n| product.checked_mul(n))?;
    (product == len && is_bounded(&found)).then_some(found)
}
