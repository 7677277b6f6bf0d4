//! WebAssembly's vectors.

#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "every function here is unsafe as a whole, with the contract of its trait"
)]

use super::Simd;
use core::arch::wasm32::*;

/// simd128: vectors of four. How many registers there are is the engine's matter; x86 has 16, ARM 32.
///
/// A multiply-add is rounded twice, unless the module is compiled with relaxed SIMD: then it is what
/// the engine finds fastest, one rounding on processors that have the instruction.
#[derive(Clone, Copy)]
pub struct Simd128;

// SAFETY: intrinsics that the target has; pointers are as the trait demands of the caller.
unsafe impl Simd for Simd128 {
    type V = v128;
    const WIDTH: usize = 4;
    const ROWS: usize = 3;

    #[inline(always)]
    unsafe fn splat(x: f32) -> v128 {
        f32x4_splat(x)
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> v128 {
        v128_load(p.cast())
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: v128) {
        v128_store(p.cast(), v)
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> v128 {
        let bits = u32x4_load_extend_u16x4(p);
        let sign = i32x4_shl(v128_and(bits, i32x4_splat(0x8000)), 16);
        // The exponent's bias is 127 instead of 15. A subnormal number is 2^-14 too large with an
        // implied one.
        let magnitude = v128_and(bits, i32x4_splat(0x7FFF));
        let normal = i32x4_add(i32x4_shl(magnitude, 13), i32x4_splat(112 << 23));
        let subnormal = f32x4_sub(i32x4_add(normal, i32x4_splat(1 << 23)), i32x4_splat(113 << 23));
        let is_subnormal = i32x4_lt(magnitude, i32x4_splat(0x400));
        v128_or(sign, v128_bitselect(subnormal, normal, is_subnormal))
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> v128 {
        i32x4_shl(u32x4_load_extend_u16x4(p), 16)
    }
    #[inline(always)]
    unsafe fn load_part(p: *const f32, count: usize) -> v128 {
        let mut buffer = [0.0f32; 4];
        core::ptr::copy_nonoverlapping(p, buffer.as_mut_ptr(), count);
        v128_load(buffer.as_ptr().cast())
    }
    #[inline(always)]
    unsafe fn store_part(p: *mut f32, v: v128, count: usize) {
        let mut buffer = [0.0f32; 4];
        v128_store(buffer.as_mut_ptr().cast(), v);
        core::ptr::copy_nonoverlapping(buffer.as_ptr(), p, count);
    }
    #[inline(always)]
    unsafe fn add(a: v128, b: v128) -> v128 {
        f32x4_add(a, b)
    }
    #[inline(always)]
    unsafe fn sub(a: v128, b: v128) -> v128 {
        f32x4_sub(a, b)
    }
    #[inline(always)]
    unsafe fn mul(a: v128, b: v128) -> v128 {
        f32x4_mul(a, b)
    }
    #[inline(always)]
    unsafe fn recip(a: v128) -> v128 {
        f32x4_div(f32x4_splat(1.0), a)
    }
    #[inline(always)]
    unsafe fn fma(a: v128, b: v128, c: v128) -> v128 {
        #[cfg(target_feature = "relaxed-simd")]
        return f32x4_relaxed_madd(a, b, c);
        #[cfg(not(target_feature = "relaxed-simd"))]
        f32x4_add(f32x4_mul(a, b), c)
    }
    // `pmin` and `pmax` are one instruction on x86, where `min` and `max` are several, for NaN and -0.
    #[inline(always)]
    unsafe fn min(a: v128, b: v128) -> v128 {
        f32x4_pmin(b, a)
    }
    #[inline(always)]
    unsafe fn max(a: v128, b: v128) -> v128 {
        f32x4_pmax(b, a)
    }
    #[inline(always)]
    unsafe fn round(a: v128) -> v128 {
        f32x4_nearest(a)
    }
    #[inline(always)]
    unsafe fn exp2_whole(a: v128) -> v128 {
        i32x4_shl(i32x4_add(i32x4_trunc_sat_f32x4(a), i32x4_splat(127)), 23)
    }
    #[inline(always)]
    unsafe fn where_positive(test: v128, then: v128) -> v128 {
        v128_and(f32x4_gt(test, f32x4_splat(0.0)), then)
    }
    #[inline(always)]
    unsafe fn total(a: v128) -> f32 {
        let two = f32x4_add(a, i32x4_shuffle::<2, 3, 0, 1>(a, a));
        f32x4_extract_lane::<0>(two) + f32x4_extract_lane::<1>(two)
    }
}
