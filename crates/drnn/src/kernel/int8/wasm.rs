//! WebAssembly's vectors.

#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "every function here is unsafe as a whole, with the contract of its trait"
)]

use super::Int8;
use crate::kernel::simd::{Simd128, Simd128Vector as V};
use core::arch::wasm32::*;

/// Numbers of 16 bits, eight columns at a time. Not the dot product of relaxed SIMD: what that makes of
/// the highest bit is the engine's choice, and sums must be exact.
#[derive(Clone, Copy)]
pub struct Simd128Int8;

// SAFETY: intrinsics of simd128 only; pointers are as the trait demands of the caller.
unsafe impl Int8 for Simd128Int8 {
    type Float = Simd128;
    type Sums = (v128, v128);
    type Quad = (v128, v128);
    type Weights = (v128, v128);
    const ROWS: usize = 1;
    const UNSIGNED: bool = false;

    #[inline(always)]
    unsafe fn zero() -> (v128, v128) {
        (i32x4_splat(0), i32x4_splat(0))
    }
    #[inline(always)]
    unsafe fn load_sums(p: *const i32) -> (v128, v128) {
        (v128_load(p.cast()), v128_load(p.add(4).cast()))
    }
    #[inline(always)]
    unsafe fn load_weights(p: *const i8) -> (v128, v128) {
        (v128_load(p.cast()), v128_load(p.add(16).cast()))
    }
    /// The even activations and the odd ones, as numbers of 16 bits.
    #[inline(always)]
    unsafe fn quad(x: [u8; 4]) -> (v128, v128) {
        let x = i32x4_splat(i32::from_le_bytes(x));
        (even(x), i16x8_shr(x, 8))
    }
    #[inline(always)]
    unsafe fn dot(sums: (v128, v128), x: (v128, v128), w: (v128, v128)) -> (v128, v128) {
        (dot4(sums.0, x, w.0), dot4(sums.1, x, w.1))
    }
    #[inline(always)]
    unsafe fn to_float(sums: (v128, v128)) -> V {
        V(f32x4_convert_i32x4(sums.0), f32x4_convert_i32x4(sums.1))
    }
}

/// Four columns.
#[inline(always)]
fn dot4(sums: v128, (x_even, x_odd): (v128, v128), w: v128) -> v128 {
    let evens = i32x4_dot_i16x8(x_even, even(w));
    let odds = i32x4_dot_i16x8(x_odd, i16x8_shr(w, 8));
    i32x4_add(sums, i32x4_add(evens, odds))
}

/// The even bytes, sign-extended to 16 bits.
#[inline(always)]
fn even(x: v128) -> v128 {
    i16x8_shr(i16x8_shl(x, 8), 8)
}
