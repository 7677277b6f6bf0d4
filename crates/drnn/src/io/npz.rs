//! Arrays of NumPy by name: a zip archive of `.npy` files, as `numpy.savez` writes it.
//!
//! ```text
//! \x93NUMPY  version 2 bytes  length of the header, 2 or 4 bytes  header  values
//! {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
//! ```
//!
//! Arrays of anything but numbers (text, Python objects, which would be pickles) are named and not read.

use crate::error::text::short;
use crate::error::{Error, Result};
use crate::io::file::refuse;
use crate::io::format::Format;
use crate::io::limits::{MAX_DIMENSIONS, MAX_OTHERS, MAX_TENSOR_NAME, MAX_TENSORS};
use crate::io::tensors::{Contents, TensorView, Tensors, long_name};
use crate::io::zip::Archive;
use alloc::borrow::Cow;
use safetensors::Dtype;

const MAGIC: &[u8] = b"\x93NUMPY";
/// Bytes of a header; a plain array's has 118.
const MAX_HEADER: usize = 10_000;

/// Whether these are the entries of such an archive.
pub(crate) fn is_npz(archive: &Archive) -> bool {
    let mut names = archive.names().peekable();
    names.peek().is_some() && names.all(|name| name.ends_with(".npy"))
}

/// All arrays of an archive.
pub(crate) fn read<'a>(archive: &Archive<'a>) -> Result<Contents<'a>> {
    let (mut tensors, mut others) = (Tensors::new(), Vec::new());
    let entries: Vec<&str> = archive.names().collect();
    if entries.len() > MAX_TENSORS {
        return Err(refuse(format!("holds more than {MAX_TENSORS} arrays")));
    }
    for entry in entries {
        let name = entry.strip_suffix(".npy").unwrap_or(entry);
        if name.len() > MAX_TENSOR_NAME {
            return Err(long_name(name));
        }
        match array(name, archive.unpack(entry)?)? {
            Array::Numbers(view) => drop(tensors.insert(name.to_string(), view)),
            Array::Other(what) if others.len() < MAX_OTHERS => {
                others.push(format!("{} ({what})", short(name)));
            }
            Array::Other(_) => {}
        }
    }
    Ok(Contents { format: Format::Npz, tensors, others })
}

enum Array<'a> {
    Numbers(TensorView<'a>),
    /// What it is.
    Other(String),
}

fn array<'a>(name: &str, bytes: Cow<'a, [u8]>) -> Result<Array<'a>> {
    let name = short(name);
    let wrong = |what: &str| -> Error { refuse(format!("array `{name}` {what}")) };
    let start = match bytes.get(..8) {
        Some([magic @ .., 1, 0]) if magic == MAGIC => 10,
        Some([magic @ .., 2 | 3, 0]) if magic == MAGIC => 12,
        _ => return Err(wrong("is not a whole .npy file")),
    };
    let len = bytes.get(8..start).ok_or_else(|| wrong("ends within its header"))?;
    let len = len.iter().rev().fold(0, |n, &byte| n << 8 | usize::from(byte));
    if len > MAX_HEADER {
        return Err(wrong(&format!("has a header of {len} bytes (at most {MAX_HEADER})")));
    }
    let header = bytes.get(start..start + len);
    let header = header.ok_or_else(|| wrong("ends within its header"))?;
    let Some(Header { descr, fortran, shape }) = header_of(header) else {
        return Err(wrong("has a header that is none"));
    };
    let Some(dtype) = dtype(&descr) else { return Ok(Array::Other(kind(&descr))) };
    // In Fortran's order the first index runs fastest.
    let mut strides = vec![0; shape.len()];
    let mut count = Some(1usize);
    let dimensions: Vec<usize> = match fortran {
        true => (0..shape.len()).collect(),
        false => (0..shape.len()).rev().collect(),
    };
    for dimension in dimensions {
        let so_far = count.ok_or_else(|| wrong("has a shape beyond all memory"))?;
        strides[dimension] = so_far;
        count = so_far.checked_mul(shape[dimension]);
    }
    let (values, size) = (bytes.len() - start - len, dtype.bitsize() / 8);
    if count.and_then(|count| count.checked_mul(size)) != Some(values) {
        let what = format!("has shape {shape:?}, but {values} bytes of {dtype:?}");
        return Err(wrong(&what));
    }
    let values = match bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(bytes.get(start + len..).unwrap_or(&[])),
        Cow::Owned(mut bytes) => {
            bytes.drain(..start + len);
            Cow::Owned(bytes)
        }
    };
    let view = TensorView::strided(dtype, shape, strides, 0, values);
    Ok(Array::Numbers(view.ok_or_else(|| wrong("has values outside its file"))?))
}

struct Header {
    descr: String,
    fortran: bool,
    shape: Vec<usize>,
}

/// The literal of a Python dictionary with these three keys.
fn header_of(bytes: &[u8]) -> Option<Header> {
    let text = core::str::from_utf8(bytes).ok()?;
    let after = |key: &str| {
        let at = text.find(&format!("'{key}'"))? + key.len() + 2;
        Some(text.get(at..)?.trim_start().strip_prefix(':')?.trim_start())
    };
    let descr = after("descr")?;
    let descr = match descr.strip_prefix('\'') {
        Some(rest) => rest.split_once('\'')?.0,
        None => "[", // a list of fields
    };
    let fortran = match after("fortran_order")? {
        rest if rest.starts_with("True") => true,
        rest if rest.starts_with("False") => false,
        _ => return None,
    };
    let shape = after("shape")?.strip_prefix('(')?.split_once(')')?.0;
    let sizes = shape.split(',').map(str::trim).filter(|size| !size.is_empty());
    // Python 2 wrote long integers with an L.
    let sizes = sizes.map(|size| size.trim_end_matches('L').parse().ok());
    let shape = sizes.take(MAX_DIMENSIONS + 1).collect::<Option<Vec<usize>>>()?;
    (shape.len() <= MAX_DIMENSIONS).then(|| Header { descr: descr.into(), fortran, shape })
}

fn dtype(descr: &str) -> Option<Dtype> {
    Some(match descr {
        "<f4" | "=f4" => Dtype::F32,
        "<f8" | "=f8" => Dtype::F64,
        "<f2" | "=f2" => Dtype::F16,
        "<i8" => Dtype::I64,
        "<i4" => Dtype::I32,
        "<i2" => Dtype::I16,
        "|i1" | "<i1" => Dtype::I8,
        "<u8" => Dtype::U64,
        "<u4" => Dtype::U32,
        "<u2" => Dtype::U16,
        "|u1" | "<u1" => Dtype::U8,
        "|b1" | "<b1" => Dtype::BOOL,
        _ => return None,
    })
}

/// What an array of another type holds.
fn kind(descr: &str) -> String {
    match descr.as_bytes() {
        [b'[', ..] => "records".into(),
        [_, b'O', ..] => "Python objects".into(),
        [_, b'U' | b'S' | b'a', ..] => "text".into(),
        [b'>', ..] => format!("big-endian numbers, {}", short(descr)),
        [_, b'c', ..] => "complex numbers".into(),
        _ => format!("values of type {}", short(descr)),
    }
}
