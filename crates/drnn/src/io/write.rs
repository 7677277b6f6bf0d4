//! Tensors as the bytes of a safetensors file.

use crate::io::file::KEY;
use crate::io::half_precision::{f32_to_bf16, f32_to_f16};
#[cfg(not(feature = "std"))]
use crate::io::memory::{self as io, Write};
use crate::io::tensors::SCALE;
use crate::kernel::int8::quantize::{quantize, row_scale, row_scales};
use crate::model::weight_format::WeightFormat;
use crate::prelude::*;
use alloc::borrow::Cow;
use serde_json::json;
#[cfg(feature = "std")]
use std::io::{self, Write};

/// A tensor to be written.
pub(crate) struct Named<'a> {
    pub name: String,
    pub dims: Vec<usize>,
    pub values: &'a [f32],
    /// How its values are stored. As int8 only if it has two dimensions.
    pub format: WeightFormat,
}

/// A tensor of the file: the scales of an int8 matrix are one of their own.
struct Entry<'a> {
    name: String,
    dims: Vec<usize>,
    values: Cow<'a, [f32]>,
    format: WeightFormat,
}

impl<'a> Named<'a> {
    fn entries(&self) -> impl Iterator<Item = Entry<'a>> {
        let Named { name, dims, values, format } = self;
        let scales = (*format == WeightFormat::Int8).then(|| Entry {
            name: format!("{name}{SCALE}"),
            dims: dims[..1].to_vec(),
            values: row_scales(values, dims[1]).into(),
            format: WeightFormat::F32,
        });
        let (name, dims, format) = (name.clone(), dims.clone(), *format);
        let whole = Entry { name, dims, values: Cow::Borrowed(*values), format };
        scales.into_iter().chain([whole])
    }
}

impl Entry<'_> {
    fn dtype(&self) -> &'static str {
        match self.format {
            WeightFormat::F32 => "F32",
            WeightFormat::F16 => "F16",
            WeightFormat::Bf16 => "BF16",
            WeightFormat::Int8 => "I8",
        }
    }

    /// The values, some thousands at a time.
    fn write(&self, to: &mut impl Write) -> io::Result<()> {
        if self.format == WeightFormat::Int8 {
            for row in self.values.chunks(self.dims[1].max(1)) {
                let scale = row_scale(row);
                let bytes: Vec<u8> =
                    row.iter().map(|x| quantize(*x, scale).cast_unsigned()).collect();
                to.write_all(&bytes)?;
            }
            return Ok(());
        }
        for values in self.values.chunks(1 << 16) {
            let values = values.iter();
            let bytes: Vec<u8> = match self.format {
                WeightFormat::F16 => values.flat_map(|x| f32_to_f16(*x)).collect(),
                WeightFormat::Bf16 => values.flat_map(|x| f32_to_bf16(*x)).collect(),
                _ => values.flat_map(|x| x.to_le_bytes()).collect(),
            };
            to.write_all(&bytes)?;
        }
        Ok(())
    }
}

/// The length of the header, the header, the values: bit by bit, because a large model should not be in
/// memory twice.
pub(crate) fn write_tensors(
    to: &mut impl Write,
    header: &str,
    tensors: &[Named],
) -> io::Result<()> {
    let mut all: Vec<Entry> = tensors.iter().flat_map(Named::entries).collect();
    // The widest numbers first, so that all are aligned.
    all.sort_by_key(|entry| core::cmp::Reverse(entry.format.bytes()));
    let mut entries = serde_json::Map::new();
    entries.insert("__metadata__".into(), json!({KEY: header}));
    let mut at = 0;
    for entry in &all {
        let offsets = [at, at + entry.values.len() * entry.format.bytes()];
        at = offsets[1];
        let place = json!({"dtype": entry.dtype(), "shape": entry.dims, "data_offsets": offsets});
        entries.insert(entry.name.clone(), place);
    }
    let mut header = serde_json::to_vec(&entries)?;
    header.resize(header.len().next_multiple_of(8), b' '); // so that values are aligned
    to.write_all(&(header.len() as u64).to_le_bytes())?;
    to.write_all(&header)?;
    all.iter().try_for_each(|entry| entry.write(to))
}
