//! NEON, with and without its dot product instructions (ARMv8.2 `dotprod`).

#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "every function here is unsafe as a whole, with the contract of its trait"
)]

use super::Int8;
use crate::kernel::simd::Neon;
use core::arch::aarch64::*;
use core::arch::asm;

/// `sdot`, four columns at a time.
#[derive(Clone, Copy)]
pub struct NeonDotprod;

// SAFETY: instructions of NEON and `dotprod` only; pointers are as the trait demands of the caller.
unsafe impl Int8 for NeonDotprod {
    type Float = Neon;
    type Sums = int32x4_t;
    type Quad = int8x16_t;
    type Weights = int8x16_t;
    const ROWS: usize = 6;
    const UNSIGNED: bool = false;

    #[inline(always)]
    unsafe fn zero() -> int32x4_t {
        vdupq_n_s32(0)
    }
    #[inline(always)]
    unsafe fn load_sums(p: *const i32) -> int32x4_t {
        vld1q_s32(p)
    }
    #[inline(always)]
    unsafe fn load_weights(p: *const i8) -> int8x16_t {
        vld1q_s8(p)
    }
    #[inline(always)]
    unsafe fn quad(x: [u8; 4]) -> int8x16_t {
        vreinterpretq_s8_s32(vdupq_n_s32(i32::from_ne_bytes(x)))
    }
    #[inline(always)]
    unsafe fn dot(sums: int32x4_t, x: int8x16_t, w: int8x16_t) -> int32x4_t {
        let mut sums = sums;
        // By name: the intrinsic is not stable.
        asm!(
            "sdot {sums:v}.4s, {x:v}.16b, {w:v}.16b",
            sums = inout(vreg) sums,
            x = in(vreg) x,
            w = in(vreg) w,
            options(pure, nomem, nostack, preserves_flags),
        );
        sums
    }
    #[inline(always)]
    unsafe fn to_float(sums: int32x4_t) -> float32x4_t {
        vcvtq_f32_s32(sums)
    }
}

/// Without `dotprod`: products of 16 bits, added in pairs.
#[derive(Clone, Copy)]
pub struct NeonInt8;

// SAFETY: instructions of NEON only; pointers are as the trait demands of the caller.
unsafe impl Int8 for NeonInt8 {
    type Float = Neon;
    type Sums = int32x4_t;
    type Quad = int8x16_t;
    type Weights = int8x16_t;
    const ROWS: usize = 3;
    const UNSIGNED: bool = false;

    #[inline(always)]
    unsafe fn zero() -> int32x4_t {
        vdupq_n_s32(0)
    }
    #[inline(always)]
    unsafe fn load_sums(p: *const i32) -> int32x4_t {
        vld1q_s32(p)
    }
    #[inline(always)]
    unsafe fn load_weights(p: *const i8) -> int8x16_t {
        vld1q_s8(p)
    }
    #[inline(always)]
    unsafe fn quad(x: [u8; 4]) -> int8x16_t {
        vreinterpretq_s8_s32(vdupq_n_s32(i32::from_ne_bytes(x)))
    }
    /// A sum of two products is at most 2 * 127 * 127 in magnitude, which fits in 16 bits.
    #[inline(always)]
    unsafe fn dot(sums: int32x4_t, x: int8x16_t, w: int8x16_t) -> int32x4_t {
        let low = vmull_s8(vget_low_s8(x), vget_low_s8(w));
        let high = vmull_high_s8(x, w);
        vpadalq_s16(sums, vpaddq_s16(low, high))
    }
    #[inline(always)]
    unsafe fn to_float(sums: int32x4_t) -> float32x4_t {
        vcvtq_f32_s32(sums)
    }
}
