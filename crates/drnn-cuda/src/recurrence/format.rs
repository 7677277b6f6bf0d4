//! Number formats of a caller's arrays.

/// The number format of the inputs and outputs of a [`crate::Recurrence`], and of their gradients.
/// Parameters and states are f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum Format {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits, 11 of them precision; up to 65504.
    F16,
    /// bfloat16: 16 bits, 8 of them precision, with the range of f32.
    Bf16,
}

impl Format {
    /// Bytes of a value.
    pub fn bytes(self) -> usize {
        match self {
            Format::F32 => 4,
            Format::F16 | Format::Bf16 => 2,
        }
    }

    /// As `kernels/recurrence/values.cu` reads it.
    pub(super) fn word(self) -> u32 {
        match self {
            Format::F32 => 0,
            Format::F16 => 1,
            Format::Bf16 => 2,
        }
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            Format::F32 => "f32",
            Format::F16 => "f16",
            Format::Bf16 => "bf16",
        })
    }
}
