//! Plain Rust.

#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "every function here is unsafe as a whole, with the contract of its trait"
)]

use super::Simd;

/// Plain arrays of four, which every compiler turns into its baseline vectors (SSE2, NEON, wasm).
#[derive(Clone, Copy)]
pub struct Portable;

#[inline(always)]
fn each(f: impl Fn(usize) -> f32) -> [f32; 4] {
    [f(0), f(1), f(2), f(3)]
}

// SAFETY: safe arithmetic on arrays; pointers are as the trait demands of the caller.
unsafe impl Simd for Portable {
    type V = [f32; 4];
    const WIDTH: usize = 4;
    const ROWS: usize = if cfg!(target_arch = "aarch64") { 6 } else { 3 };

    #[inline(always)]
    unsafe fn splat(x: f32) -> [f32; 4] {
        [x; 4]
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> [f32; 4] {
        p.cast::<[f32; 4]>().read_unaligned()
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: [f32; 4]) {
        p.cast::<[f32; 4]>().write_unaligned(v)
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> [f32; 4] {
        each(|i| {
            let bits = u32::from(p.add(i).read_unaligned());
            let sign = (bits & 0x8000) << 16;
            // The exponent's bias is 127 instead of 15. A subnormal number is 2^-14 too large with an
            // implied one; no intermediate result is a denormal, which might be flushed.
            let normal = ((bits & 0x7FFF) << 13) + (112 << 23);
            let subnormal = f32::from_bits(normal + (1 << 23)) - f32::from_bits(113 << 23);
            let magnitude = if bits & 0x7C00 == 0 { subnormal.to_bits() } else { normal };
            f32::from_bits(sign | magnitude)
        })
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> [f32; 4] {
        each(|i| f32::from_bits(u32::from(p.add(i).read_unaligned()) << 16))
    }
    #[inline(always)]
    unsafe fn load_part(p: *const f32, count: usize) -> [f32; 4] {
        each(|i| if i < count { *p.add(i) } else { 0.0 })
    }
    #[inline(always)]
    unsafe fn store_part(p: *mut f32, v: [f32; 4], count: usize) {
        for (i, x) in v.into_iter().enumerate().take(count) {
            *p.add(i) = x
        }
    }
    #[inline(always)]
    unsafe fn add(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        each(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        each(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        each(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn recip(a: [f32; 4]) -> [f32; 4] {
        each(|i| 1.0 / a[i])
    }
    #[inline(always)]
    unsafe fn fma(a: [f32; 4], b: [f32; 4], c: [f32; 4]) -> [f32; 4] {
        #[cfg(all(target_arch = "aarch64", feature = "std"))]
        return each(|i| a[i].mul_add(b[i], c[i])); // one instruction there
        #[cfg(not(all(target_arch = "aarch64", feature = "std")))]
        return each(|i| a[i] * b[i] + c[i]); // a library call elsewhere, so not fused
    }
    #[inline(always)]
    unsafe fn min(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        each(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn max(a: [f32; 4], b: [f32; 4]) -> [f32; 4] {
        each(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn round(a: [f32; 4]) -> [f32; 4] {
        // Adding 1.5 * 2^23 pushes the fraction out of the mantissa; exact for |a| < 2^22.
        const MAGIC: f32 = 12_582_912.0;
        each(|i| (a[i] + MAGIC) - MAGIC)
    }
    #[inline(always)]
    unsafe fn exp2_whole(a: [f32; 4]) -> [f32; 4] {
        each(|i| f32::from_bits(((a[i] as i32 + 127) as u32) << 23))
    }
    #[inline(always)]
    unsafe fn where_positive(test: [f32; 4], then: [f32; 4]) -> [f32; 4] {
        each(|i| if test[i] > 0.0 { then[i] } else { 0.0 })
    }
    #[inline(always)]
    unsafe fn total(a: [f32; 4]) -> f32 {
        (a[0] + a[2]) + (a[1] + a[3])
    }
}
