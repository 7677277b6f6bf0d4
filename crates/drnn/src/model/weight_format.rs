//! The number formats of a network's weights.
//!
//! ```text
//! f32    w                                      4 bytes
//! f16    w rounded to IEEE 754 binary16         2 bytes, widened to f32 in registers
//! bf16   w rounded to bfloat16                  2 bytes, likewise
//! int8   q s, q an integer from -127 to 127,    1 byte, and a scale s for each row of a matrix;
//!        s a 127th of the row's largest w       activations are quantised at every step
//! ```
//!
//! Matrices are rounded, biases stay f32. A model with rounded weights keeps them as f32 next to what the
//! kernels read, so every value is in [`Model::params`](crate::Model::params), and rounding it again changes
//! nothing.

use crate::error::{Error, Result};
use crate::io::half_precision::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::kernel::int8::quantize::{quantize, row_scale};
use crate::spec::params::Layout;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// The number format of a network's weights, see [`Model::quantize`](crate::Model::quantize).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum WeightFormat {
    /// As trained.
    #[default]
    F32,
    /// IEEE 754 binary16: 11 binary digits, magnitudes up to 65504.
    F16,
    /// bfloat16: 8 binary digits, magnitudes of f32.
    Bf16,
    /// Integers of 8 bits with a scale for each row of a matrix.
    Int8,
}

/// Longest rows that int8 products take: a sum of so many products fits in 32 bits.
const MAX_INT8_ROW: usize = 1 << 17;

impl WeightFormat {
    /// All of them, the largest first.
    pub const ALL: [WeightFormat; 4] =
        [WeightFormat::F32, WeightFormat::F16, WeightFormat::Bf16, WeightFormat::Int8];

    /// Its name in files and on the command line: `f32`, `f16`, `bf16` or `int8`.
    pub fn name(self) -> &'static str {
        match self {
            WeightFormat::F32 => "f32",
            WeightFormat::F16 => "f16",
            WeightFormat::Bf16 => "bf16",
            WeightFormat::Int8 => "int8",
        }
    }

    /// Bytes of one weight.
    pub(crate) fn bytes(self) -> usize {
        match self {
            WeightFormat::F32 => 4,
            WeightFormat::F16 | WeightFormat::Bf16 => 2,
            WeightFormat::Int8 => 1,
        }
    }

    /// Rounds the matrix `name`, whose rows are `width` long. Refused where a value is too large for the
    /// format, or a row too long.
    pub(crate) fn round(self, name: &str, matrix: &mut [f32], width: usize) -> Result<()> {
        if self == WeightFormat::Int8 && width > MAX_INT8_ROW {
            let why = format!("`{name}` has rows of {width} values; int8 takes {MAX_INT8_ROW}");
            return Err(Error::Spec(why));
        }
        for row in matrix.chunks_exact_mut(width.max(1)) {
            match self {
                WeightFormat::F32 => {}
                WeightFormat::F16 => row.iter_mut().for_each(|x| *x = f16_to_f32(f32_to_f16(*x))),
                WeightFormat::Bf16 => {
                    row.iter_mut().for_each(|x| *x = bf16_to_f32(f32_to_bf16(*x)))
                }
                WeightFormat::Int8 => {
                    let scale = row_scale(row);
                    row.iter_mut().for_each(|x| *x = f32::from(quantize(*x, scale)) * scale);
                }
            }
        }
        if matrix.iter().all(|x| x.is_finite()) {
            return Ok(());
        }
        let why = format!("`{name}` has values that are too large for {self}");
        Err(Error::Spec(why))
    }

    /// Rounds all matrices of a network.
    pub(crate) fn round_params(self, layout: &Layout, params: &mut [f32]) -> Result<()> {
        for tensor in layout.tensors() {
            if let [_, width] = tensor.dims[..] {
                self.round(&tensor.name, &mut params[tensor.range.clone()], width)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for WeightFormat {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for WeightFormat {
    type Err = Error;

    fn from_str(name: &str) -> Result<WeightFormat> {
        let format = WeightFormat::ALL.into_iter().find(|format| format.name() == name);
        format.ok_or_else(|| {
            Error::Spec(format!("no weight format `{name}`; there are f32, f16, bf16 and int8"))
        })
    }
}
