//! WebAssembly's vectors.

#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "every function here is unsafe as a whole, with the contract of its trait"
)]

use super::Simd;
use core::arch::wasm32::*;

/// simd128: two vectors of four side by side. One row of a product has eight sums then, as many as it
/// takes to hide the latency of an addition; and there are not many more registers: 16 on x86.
///
/// A multiply-add is rounded twice, unless the module is compiled with relaxed SIMD: then it is what
/// the engine finds fastest, one rounding on processors that have the instruction.
#[derive(Clone, Copy)]
pub struct Simd128;

/// Eight floats.
#[derive(Clone, Copy)]
pub struct V(pub v128, pub v128);

impl V {
    #[inline(always)]
    fn each(self, f: impl Fn(v128) -> v128) -> V {
        V(f(self.0), f(self.1))
    }
    #[inline(always)]
    fn zip(self, other: V, f: impl Fn(v128, v128) -> v128) -> V {
        V(f(self.0, other.0), f(self.1, other.1))
    }
}

// SAFETY: intrinsics that the target has; pointers are as the trait demands of the caller.
unsafe impl Simd for Simd128 {
    type V = V;
    const WIDTH: usize = 8;
    const ROWS: usize = 1;

    #[inline(always)]
    unsafe fn splat(x: f32) -> V {
        V(f32x4_splat(x), f32x4_splat(x))
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> V {
        V(v128_load(p.cast()), v128_load(p.add(4).cast()))
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: V) {
        v128_store(p.cast(), v.0);
        v128_store(p.add(4).cast(), v.1)
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> V {
        V(widen_f16(p), widen_f16(p.add(4)))
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> V {
        V(u32x4_load_extend_u16x4(p), u32x4_load_extend_u16x4(p.add(4))).each(|x| i32x4_shl(x, 16))
    }
    #[inline(always)]
    unsafe fn load_part(p: *const f32, count: usize) -> V {
        let mut buffer = [0.0f32; 8];
        core::ptr::copy_nonoverlapping(p, buffer.as_mut_ptr(), count);
        Self::load(buffer.as_ptr())
    }
    #[inline(always)]
    unsafe fn store_part(p: *mut f32, v: V, count: usize) {
        let mut buffer = [0.0f32; 8];
        Self::store(buffer.as_mut_ptr(), v);
        core::ptr::copy_nonoverlapping(buffer.as_ptr(), p, count);
    }
    #[inline(always)]
    unsafe fn add(a: V, b: V) -> V {
        a.zip(b, |a, b| f32x4_add(a, b))
    }
    #[inline(always)]
    unsafe fn sub(a: V, b: V) -> V {
        a.zip(b, |a, b| f32x4_sub(a, b))
    }
    #[inline(always)]
    unsafe fn mul(a: V, b: V) -> V {
        a.zip(b, |a, b| f32x4_mul(a, b))
    }
    #[inline(always)]
    unsafe fn recip(a: V) -> V {
        a.each(|a| f32x4_div(f32x4_splat(1.0), a))
    }
    #[inline(always)]
    unsafe fn fma(a: V, b: V, c: V) -> V {
        V(multiply_add(a.0, b.0, c.0), multiply_add(a.1, b.1, c.1))
    }
    // `pmin` and `pmax` are one instruction on x86, where `min` and `max` are several, for NaN and -0.
    #[inline(always)]
    unsafe fn min(a: V, b: V) -> V {
        a.zip(b, |a, b| f32x4_pmin(b, a))
    }
    #[inline(always)]
    unsafe fn max(a: V, b: V) -> V {
        a.zip(b, |a, b| f32x4_pmax(b, a))
    }
    #[inline(always)]
    unsafe fn round(a: V) -> V {
        a.each(|a| f32x4_nearest(a))
    }
    #[inline(always)]
    unsafe fn exp2_whole(a: V) -> V {
        a.each(|a| i32x4_shl(i32x4_add(i32x4_trunc_sat_f32x4(a), i32x4_splat(127)), 23))
    }
    #[inline(always)]
    unsafe fn where_positive(test: V, then: V) -> V {
        test.zip(then, |test, then| v128_and(f32x4_gt(test, f32x4_splat(0.0)), then))
    }
    #[inline(always)]
    unsafe fn total(a: V) -> f32 {
        let four = f32x4_add(a.0, a.1);
        let two = f32x4_add(four, i32x4_shuffle::<2, 3, 0, 1>(four, four));
        f32x4_extract_lane::<0>(two) + f32x4_extract_lane::<1>(two)
    }
}

#[inline(always)]
fn multiply_add(a: v128, b: v128, c: v128) -> v128 {
    #[cfg(target_feature = "relaxed-simd")]
    return f32x4_relaxed_madd(a, b, c);
    #[cfg(not(target_feature = "relaxed-simd"))]
    f32x4_add(f32x4_mul(a, b), c)
}

/// Four numbers of IEEE 754 binary16.
#[inline(always)]
unsafe fn widen_f16(p: *const u16) -> v128 {
    let bits = u32x4_load_extend_u16x4(p);
    let sign = i32x4_shl(v128_and(bits, i32x4_splat(0x8000)), 16);
    // The exponent's bias is 127 instead of 15. A subnormal number is 2^-14 too large with an implied
    // one.
    let magnitude = v128_and(bits, i32x4_splat(0x7FFF));
    let normal = i32x4_add(i32x4_shl(magnitude, 13), i32x4_splat(112 << 23));
    let subnormal = f32x4_sub(i32x4_add(normal, i32x4_splat(1 << 23)), i32x4_splat(113 << 23));
    let is_subnormal = i32x4_lt(magnitude, i32x4_splat(0x400));
    v128_or(sign, v128_bitselect(subnormal, normal, is_subnormal))
}
