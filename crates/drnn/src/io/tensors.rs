//! Named tensors of a file, of whatever format, whatever their memory looks like.
//!
//! All formats become the same table: a name, and a view of the file's bytes (of compressed ones, of
//! what was unpacked). Values are made when they are requested, and never more of them than the bytes
//! they come from.

use crate::error::text::short;
use crate::error::{Error, Result};
use crate::io::file::{KEY, refuse, refuse_because};
use crate::io::format::{Container, Format, sniff};
use crate::io::half_precision::{bf16_to_f32, f16_to_f32};
use crate::io::limits::{MAX_TENSOR_NAME, MAX_TENSORS};
use crate::io::torch;
use crate::prelude::*;
use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use safetensors::{Dtype, SafeTensorError, SafeTensors};
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};

/// What the scales of an int8 matrix are called: this, after the name of the matrix.
pub(crate) const SCALE: &str = ".scale";

/// Tensors by name.
pub(crate) type Tensors<'a> = BTreeMap<String, TensorView<'a>>;

/// What a reader of a format found in a file.
pub(crate) struct Contents<'a> {
    pub format: Format,
    pub tensors: Tensors<'a>,
    /// What else is there, and was not read: `epoch`, `args (argparse.Namespace)`.
    pub others: Vec<String>,
}

/// A file whose header was checked against its length.
pub(crate) struct TensorFile<'a> {
    contents: Contents<'a>,
    header: Option<String>,
    len: usize,
}

impl<'a> TensorFile<'a> {
    /// Reads any format, recognised by its content.
    pub fn parse(bytes: &'a [u8]) -> Result<TensorFile<'a>> {
        let contents = match sniff(bytes)? {
            Container::Safetensors => return TensorFile::parse_safetensors(bytes),
            Container::Zip => torch::read_zip(bytes)?,
            Container::OldTorch => torch::read_old(bytes)?,
            Container::Onnx => return Err(refuse(ONNX)),
        };
        Ok(TensorFile { contents, header: None, len: bytes.len() })
    }

    fn parse_safetensors(bytes: &'a [u8]) -> Result<TensorFile<'a>> {
        let broken =
            |e: SafeTensorError| refuse_because(format!("is not a whole safetensors file: {e}"), e);
        check_entries(bytes)?;
        let file = SafeTensors::deserialize(bytes).map_err(broken)?;
        let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(broken)?;
        let header = metadata.metadata().as_ref().and_then(|m| m.get(KEY)).cloned();
        let tensors = file.iter().map(|(name, view)| {
            let (dtype, shape, data) = (view.dtype(), view.shape().to_vec(), view.data());
            (name.to_string(), TensorView { dtype, shape, strides: None, data: data.into() })
        });
        let (format, tensors) = (Format::Safetensors, tensors.collect());
        let contents = Contents { format, tensors, others: Vec::new() };
        Ok(TensorFile { contents, header, len: bytes.len() })
    }

    /// What the file is.
    pub fn format(&self) -> Format {
        self.contents.format
    }

    /// What the file holds besides tensors, by name: a checkpoint's `epoch`, say.
    pub fn others(&self) -> &[String] {
        &self.contents.others
    }

    /// What makes a file ours.
    pub fn header(&self) -> Option<&str> {
        self.header.as_deref()
    }

    /// Bytes of the whole file.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Names of all tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.contents.tensors.keys().map(String::as_str)
    }

    /// Shape of a tensor.
    pub fn shape(&self, name: &str) -> Result<&[usize]> {
        Ok(&self.view(name)?.shape)
    }

    /// Checks that a tensor is there and has the shape expected.
    pub fn check(&self, name: &str, dims: &[usize]) -> Result<()> {
        match self.shape(name)? {
            found if found == dims => Ok(()),
            found => Err(refuse(format!(
                "tensor `{}` has shape {found:?}, expected {dims:?}",
                short(name)
            ))),
        }
    }

    /// Whether a tensor has 64-bit values, which become 32-bit ones.
    pub fn is_f64(&self, name: &str) -> bool {
        self.view(name).is_ok_and(|view| view.dtype == Dtype::F64)
    }

    fn view(&self, name: &str) -> Result<&TensorView<'a>> {
        self.contents
            .tensors
            .get(name)
            .ok_or_else(|| refuse(format!("tensor `{}` is missing", short(name))))
    }

    /// Whether a tensor has integers of 8 bits, which are multiples of the scales of its rows.
    pub fn is_int8(&self, name: &str) -> bool {
        self.view(name).is_ok_and(|view| view.dtype == Dtype::I8)
    }

    /// Values of a tensor of the shape expected; f64, f16 and bf16 become f32, and integers are multiplied
    /// by the scales of their rows.
    pub fn values(&self, name: &str, dims: &[usize]) -> Result<Vec<f32>> {
        self.check(name, dims)?;
        let view = self.view(name)?;
        if view.dtype != Dtype::I8 {
            return view.floats(name);
        }
        let (&[rows, width], scale) = (dims, format!("{name}{SCALE}")) else {
            return Err(refuse(format!("tensor `{}` is I8 and no matrix", short(name))));
        };
        let scales = self.values(&scale, &[rows])?;
        let mut values = view.each(name, |[byte]: [u8; 1]| f32::from(byte.cast_signed()))?;
        for (row, scale) in values.chunks_mut(width.max(1)).zip(scales) {
            row.iter_mut().for_each(|x| *x *= scale);
        }
        Ok(values)
    }
}

/// Refuses a header of too many entries or too long names before anything is made of it. What else
/// is wrong with the file is for its reader to find.
fn check_entries(bytes: &[u8]) -> Result<()> {
    let Some((len, rest)) = bytes.split_first_chunk::<8>() else { return Ok(()) };
    let len = usize::try_from(u64::from_le_bytes(*len)).unwrap_or(usize::MAX);
    let header = rest.get(..len).unwrap_or(rest);
    let mut entries = Entries { count: 0, refused: None };
    let _ = (&mut entries).deserialize(&mut serde_json::Deserializer::from_slice(header));
    entries.refused.map_or(Ok(()), Err)
}

/// Counts the entries of a JSON object, and of the objects in it that may have many.
struct Entries {
    count: usize,
    refused: Option<Error>,
}

impl<'de> DeserializeSeed<'de> for &mut Entries {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> core::result::Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Entries {
    type Value = ();

    fn expecting(&self, f: &mut core::fmt::Formatter) -> core::fmt::Result {
        f.write_str("a header of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> core::result::Result<(), A::Error> {
        while let Some(name) = map.next_key::<Cow<str>>()? {
            self.count += 1;
            self.refused = match self.count > MAX_TENSORS {
                true => Some(refuse(format!("has more than {MAX_TENSORS} tensors in its header"))),
                false => (name.len() > MAX_TENSOR_NAME).then(|| long_name(&name)),
            };
            if self.refused.is_some() {
                return Err(A::Error::custom("refused"));
            }
            match &*name {
                "__metadata__" => map.next_value_seed(&mut *self)?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// The error about a tensor whose name is too long.
pub(crate) fn long_name(name: &str) -> Error {
    let (len, name) = (name.len(), short(name));
    refuse(format!("a tensor's name has {len} bytes (at most {MAX_TENSOR_NAME}): `{name}`"))
}

/// A graph says more than a table of tensors does, so it has a reader of its own.
const ONNX: &str = match cfg!(feature = "onnx") {
    true => "is an ONNX model, not named tensors",
    false => {
        "is an ONNX model, which this program is built without (feature `onnx`); give the state dict \
         it was made from"
    }
};

/// A tensor's place in a file. Element (i, j, ..) is element `i * strides[0] + j * strides[1] + ..` of
/// `data`; without strides they lie in the order of their indices.
pub(crate) struct TensorView<'a> {
    dtype: Dtype,
    shape: Vec<usize>,
    strides: Option<Vec<usize>>,
    data: Cow<'a, [u8]>,
}

impl<'a> TensorView<'a> {
    /// All values of the tensor `name`; f64, f16 and bf16 become f32.
    pub fn floats(&self, name: &str) -> Result<Vec<f32>> {
        match self.dtype {
            Dtype::F32 => self.each(name, f32::from_le_bytes),
            Dtype::F64 => self.each(name, |b| f64::from_le_bytes(b) as f32),
            Dtype::F16 => self.each(name, f16_to_f32),
            Dtype::BF16 => self.each(name, bf16_to_f32),
            other => {
                let (name, expected) = (short(name), "F32, F64, F16 or BF16");
                Err(refuse(format!("tensor `{name}` is {other:?}, expected {expected}")))
            }
        }
    }

    /// A view of a storage from element `offset` on; None if some of it would lie outside.
    #[cfg(feature = "torch-files")]
    pub fn strided(
        dtype: Dtype,
        shape: Vec<usize>,
        strides: Vec<usize>,
        offset: usize,
        storage: Cow<'a, [u8]>,
    ) -> Option<TensorView<'a>> {
        let (mut count, mut last, mut in_order) = (1usize, offset, true);
        for (&n, &stride) in shape.iter().zip(&strides).rev() {
            in_order &= n == 1 || stride == count; // a dimension of one element is never stepped along
            count = count.checked_mul(n)?;
            last = last.checked_add(n.saturating_sub(1).checked_mul(stride)?)?;
        }
        let size = dtype.bitsize() / 8;
        let range = match count {
            0 => 0..0,
            _ => offset.checked_mul(size)?..last.checked_add(1)?.checked_mul(size)?,
        };
        let data = match storage {
            Cow::Borrowed(storage) => Cow::Borrowed(storage.get(range)?),
            Cow::Owned(mut storage) => {
                storage.get(range.clone())?;
                storage.truncate(range.end);
                storage.drain(..range.start);
                Cow::Owned(storage)
            }
        };
        let strides = (!in_order && count > 0).then_some(strides);
        Some(TensorView { dtype, shape, strides, data })
    }

    /// All elements in the order of their indices.
    pub fn each<const N: usize, T>(
        &self,
        name: &str,
        read: impl Fn([u8; N]) -> T,
    ) -> Result<Vec<T>> {
        let stored = self.data.as_chunks::<N>().0;
        let Some(strides) = &self.strides else {
            return Ok(stored.iter().copied().map(read).collect());
        };
        let count: usize = self.shape.iter().product(); // checked when the view was made
        if count > stored.len() {
            let name = short(name);
            return Err(refuse(format!(
                "tensor `{name}` of shape {:?} repeats {} stored values; save `{name}.contiguous()`",
                self.shape,
                stored.len()
            )));
        }
        let mut place = vec![0; self.shape.len()];
        let mut values = Vec::with_capacity(count);
        for _ in 0..count {
            let at: usize = place.iter().zip(strides).map(|(i, stride)| i * stride).sum();
            values.extend(stored.get(at).copied().map(&read));
            for (i, &n) in place.iter_mut().zip(&self.shape).rev() {
                *i += 1;
                if *i < n {
                    break;
                }
                *i = 0;
            }
        }
        Ok(values)
    }
}
