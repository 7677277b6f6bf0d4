//! Numbers as integers from -127 to 127 times a scale.

use super::Int8;
use crate::prelude::*;
use core::mem::MaybeUninit;

/// Magnitudes below this are zero: their scale would be a denormal number, which kernels flush.
const TINY: f32 = 1e-30;

/// The scale of a row of weights: a 127th of the largest magnitude, rounded up to 16 binary digits.
///
/// A product of such a scale and an integer below 128 is exact in f32, and the largest magnitude is
/// exactly 127 scales after rounding. So quantising values that are quantised changes nothing, and
/// integers and scale follow from the values.
pub fn row_scale(row: &[f32]) -> f32 {
    let largest = row.iter().fold(0.0_f32, |a, x| a.max(x.abs()));
    if largest < TINY {
        return 0.0;
    }
    f32::from_bits(((largest / 127.0).to_bits() + 0xFF) & !0xFF)
}

/// The scales of all rows of a matrix.
pub fn row_scales(matrix: &[f32], width: usize) -> Vec<f32> {
    matrix.chunks_exact(width.max(1)).map(row_scale).collect()
}

/// The integer nearest to `x / scale`, ties to even.
pub fn quantize(x: f32, scale: f32) -> i8 {
    if scale == 0.0 {
        return 0;
    }
    let quotient = (x / scale).clamp(-127.0, 127.0);
    ((quotient + MAGIC) - MAGIC) as i8
}

/// 1.5 * 2^23: added to a number below 2^22, it rounds it to an integer, which is then the lower bits of
/// the sum.
const MAGIC: f32 = 12_582_912.0;

/// Quantises a row of activations into `to`, of a length that is a multiple of four; what is past the row
/// becomes zero. Returns the scale: NaN where a number is not finite.
///
/// Plain Rust that compilers turn into vector code of any instruction set; bits are the same in all.
#[inline(always)]
pub fn quantize_row<I: Int8>(row: &[f32], to: &mut [MaybeUninit<u8>]) -> f32 {
    let flip = if I::UNSIGNED { 0x80 } else { 0 };
    // Magnitudes are ordered as their bits are, and NaN is the largest.
    let largest = row.iter().fold(0, |a: u32, x| a.max(x.to_bits() & 0x7FFF_FFFF));
    let largest = f32::from_bits(largest);
    let (values, padding) = to.split_at_mut(row.len());
    padding.fill(MaybeUninit::new(flip));
    if !largest.is_finite() || largest < TINY {
        values.fill(MaybeUninit::new(flip));
        return if largest.is_finite() { 0.0 } else { f32::NAN };
    }
    let inverse = 127.0 / largest;
    for (to, x) in values.iter_mut().zip(row) {
        to.write((x * inverse + MAGIC).to_bits() as u8 ^ flip);
    }
    largest / 127.0
}
