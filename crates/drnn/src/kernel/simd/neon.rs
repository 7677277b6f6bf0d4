//! NEON, which every 64-bit ARM processor with floating point has.

#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "every function here is unsafe as a whole, with the contract of its trait"
)]

use super::Simd;
use core::arch::aarch64::*;
use core::arch::asm;

/// 32 registers of four.
#[derive(Clone, Copy)]
pub struct Neon;

// SAFETY: instructions of NEON only; pointers are as the trait demands of the caller.
unsafe impl Simd for Neon {
    type V = float32x4_t;
    const WIDTH: usize = 4;
    const ROWS: usize = 6;

    #[inline(always)]
    unsafe fn splat(x: f32) -> float32x4_t {
        vdupq_n_f32(x)
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> float32x4_t {
        vld1q_f32(p)
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: float32x4_t) {
        vst1q_f32(p, v)
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> float32x4_t {
        let narrow = vld1_u16(p);
        let wide: float32x4_t;
        // By name: the intrinsic is stable only from Rust 1.94 on. Denormal halves are normal floats, and
        // are not flushed.
        asm!(
            "fcvtl {wide:v}.4s, {narrow:v}.4h",
            wide = lateout(vreg) wide,
            narrow = in(vreg) narrow,
            options(pure, nomem, nostack, preserves_flags),
        );
        wide
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> float32x4_t {
        vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(p)))
    }
    #[inline(always)]
    unsafe fn load_part(p: *const f32, count: usize) -> float32x4_t {
        match count {
            0 => vdupq_n_f32(0.0),
            1 => vld1q_lane_f32::<0>(p, vdupq_n_f32(0.0)),
            2 => vcombine_f32(vld1_f32(p), vdup_n_f32(0.0)),
            _ => vld1q_lane_f32::<2>(p.add(2), vcombine_f32(vld1_f32(p), vdup_n_f32(0.0))),
        }
    }
    #[inline(always)]
    unsafe fn store_part(p: *mut f32, v: float32x4_t, count: usize) {
        match count {
            0 => {}
            1 => vst1q_lane_f32::<0>(p, v),
            2 => vst1_f32(p, vget_low_f32(v)),
            _ => {
                vst1_f32(p, vget_low_f32(v));
                vst1q_lane_f32::<2>(p.add(2), v);
            }
        }
    }
    #[inline(always)]
    unsafe fn add(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vaddq_f32(a, b)
    }
    #[inline(always)]
    unsafe fn sub(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vsubq_f32(a, b)
    }
    #[inline(always)]
    unsafe fn mul(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vmulq_f32(a, b)
    }
    #[inline(always)]
    unsafe fn recip(a: float32x4_t) -> float32x4_t {
        // 8 bits from the table, 16 after one step of Newton's, all after another: cheaper than a
        // division on small cores.
        let r = vrecpeq_f32(a);
        let r = vmulq_f32(r, vrecpsq_f32(a, r));
        let error = vfmsq_f32(vdupq_n_f32(1.0), a, r);
        vfmaq_f32(r, r, error)
    }
    #[inline(always)]
    unsafe fn fma(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        vfmaq_f32(c, a, b)
    }
    // NaN in one of the two is NaN.
    #[inline(always)]
    unsafe fn min(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vminq_f32(a, b)
    }
    #[inline(always)]
    unsafe fn max(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vmaxq_f32(a, b)
    }
    #[inline(always)]
    unsafe fn round(a: float32x4_t) -> float32x4_t {
        vrndnq_f32(a)
    }
    #[inline(always)]
    unsafe fn exp2_whole(a: float32x4_t) -> float32x4_t {
        let biased = vaddq_s32(vcvtq_s32_f32(a), vdupq_n_s32(127));
        vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased))
    }
    #[inline(always)]
    unsafe fn where_positive(test: float32x4_t, then: float32x4_t) -> float32x4_t {
        vreinterpretq_f32_u32(vandq_u32(vcgtzq_f32(test), vreinterpretq_u32_f32(then)))
    }
    #[inline(always)]
    unsafe fn total(a: float32x4_t) -> f32 {
        vaddvq_f32(a)
    }
}
