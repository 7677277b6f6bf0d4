//! A vector of f32 and the dozen operations the kernels need of it.
//!
//! Each instruction set is one implementation of [`Simd`]; the kernels are generic over it and are
//! instantiated once per set in [`super::dispatch`]. Every function here is `#[inline(always)]`, so
//! that it melts into the `#[target_feature]` function that calls it.

#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "every function here is unsafe as a whole, with the contract of its trait or module"
)]

/// Vector operations of one instruction set.
///
/// # Safety
/// The caller must run on a processor that has the instruction set, and must hand in pointers that
/// are valid for the number of elements each operation names. Nothing needs to be aligned.
pub unsafe trait Simd: Copy {
    /// One vector register of f32.
    type V: Copy;
    /// Elements per vector.
    const WIDTH: usize;
    /// Rows of a product tile: as many as the register file holds next to a panel of four vectors.
    const ROWS: usize;

    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(p: *const f32) -> Self::V;
    unsafe fn store(p: *mut f32, v: Self::V);
    /// The first `count < WIDTH` elements; the others are zero.
    unsafe fn load_part(p: *const f32, count: usize) -> Self::V;
    /// Writes the first `count < WIDTH` elements and touches nothing after them.
    unsafe fn store_part(p: *mut f32, v: Self::V, count: usize);

    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// `1 / a` to a unit or two in the last place, for normal `a`.
    unsafe fn recip(a: Self::V) -> Self::V;
    /// `a * b + c`
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// Nearest whole number, halves to even.
    unsafe fn round(a: Self::V) -> Self::V;
    /// `2^a` for whole `a` in -126..=127.
    unsafe fn exp2_whole(a: Self::V) -> Self::V;
    /// `then` where `test > 0`, else zero.
    unsafe fn where_positive(test: Self::V, then: Self::V) -> Self::V;
    /// Sum of all elements.
    unsafe fn total(a: Self::V) -> f32;
}

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
        if cfg!(target_arch = "aarch64") {
            each(|i| a[i].mul_add(b[i], c[i])) // one instruction there
        } else {
            each(|i| a[i] * b[i] + c[i]) // a library call elsewhere, so not fused
        }
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

#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Simd;
    use std::arch::x86_64::*;

    /// AVX2 with FMA: 16 registers of eight.
    #[derive(Clone, Copy)]
    pub struct Avx2;

    // SAFETY: intrinsics of AVX2 and FMA only; pointers are as the trait demands of the caller.
    unsafe impl Simd for Avx2 {
        type V = __m256;
        const WIDTH: usize = 8;
        const ROWS: usize = 3;

        #[inline(always)]
        unsafe fn splat(x: f32) -> __m256 {
            _mm256_set1_ps(x)
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> __m256 {
            _mm256_loadu_ps(p)
        }
        #[inline(always)]
        unsafe fn store(p: *mut f32, v: __m256) {
            _mm256_storeu_ps(p, v)
        }
        // By way of the stack: masked moves of this generation are slow on some processors.
        #[inline(always)]
        unsafe fn load_part(p: *const f32, count: usize) -> __m256 {
            let mut buffer = [0.0f32; 8];
            std::ptr::copy_nonoverlapping(p, buffer.as_mut_ptr(), count);
            _mm256_loadu_ps(buffer.as_ptr())
        }
        #[inline(always)]
        unsafe fn store_part(p: *mut f32, v: __m256, count: usize) {
            let mut buffer = [0.0f32; 8];
            _mm256_storeu_ps(buffer.as_mut_ptr(), v);
            std::ptr::copy_nonoverlapping(buffer.as_ptr(), p, count);
        }
        #[inline(always)]
        unsafe fn add(a: __m256, b: __m256) -> __m256 {
            _mm256_add_ps(a, b)
        }
        #[inline(always)]
        unsafe fn sub(a: __m256, b: __m256) -> __m256 {
            _mm256_sub_ps(a, b)
        }
        #[inline(always)]
        unsafe fn mul(a: __m256, b: __m256) -> __m256 {
            _mm256_mul_ps(a, b)
        }
        #[inline(always)]
        unsafe fn recip(a: __m256) -> __m256 {
            _mm256_div_ps(_mm256_set1_ps(1.0), a)
        }
        #[inline(always)]
        unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
            _mm256_fmadd_ps(a, b, c)
        }
        #[inline(always)]
        unsafe fn min(a: __m256, b: __m256) -> __m256 {
            _mm256_min_ps(a, b)
        }
        #[inline(always)]
        unsafe fn max(a: __m256, b: __m256) -> __m256 {
            _mm256_max_ps(a, b)
        }
        #[inline(always)]
        unsafe fn round(a: __m256) -> __m256 {
            _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a)
        }
        #[inline(always)]
        unsafe fn exp2_whole(a: __m256) -> __m256 {
            let biased = _mm256_add_epi32(_mm256_cvtps_epi32(a), _mm256_set1_epi32(127));
            _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased))
        }
        #[inline(always)]
        unsafe fn where_positive(test: __m256, then: __m256) -> __m256 {
            let mask = _mm256_cmp_ps::<_CMP_GT_OQ>(test, _mm256_setzero_ps());
            _mm256_and_ps(mask, then)
        }
        #[inline(always)]
        unsafe fn total(a: __m256) -> f32 {
            let four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }

    /// AVX-512F: 32 registers of sixteen, and masks for the tail.
    #[derive(Clone, Copy)]
    pub struct Avx512;

    #[inline(always)]
    fn first(count: usize) -> __mmask16 {
        ((1u32 << count) - 1) as __mmask16
    }

    // SAFETY: intrinsics of AVX-512F only; masked moves do not touch what the mask leaves out.
    unsafe impl Simd for Avx512 {
        type V = __m512;
        const WIDTH: usize = 16;
        const ROWS: usize = 6;

        #[inline(always)]
        unsafe fn splat(x: f32) -> __m512 {
            _mm512_set1_ps(x)
        }
        #[inline(always)]
        unsafe fn load(p: *const f32) -> __m512 {
            _mm512_loadu_ps(p)
        }
        #[inline(always)]
        unsafe fn store(p: *mut f32, v: __m512) {
            _mm512_storeu_ps(p, v)
        }
        #[inline(always)]
        unsafe fn load_part(p: *const f32, count: usize) -> __m512 {
            _mm512_maskz_loadu_ps(first(count), p)
        }
        #[inline(always)]
        unsafe fn store_part(p: *mut f32, v: __m512, count: usize) {
            _mm512_mask_storeu_ps(p, first(count), v)
        }
        #[inline(always)]
        unsafe fn add(a: __m512, b: __m512) -> __m512 {
            _mm512_add_ps(a, b)
        }
        #[inline(always)]
        unsafe fn sub(a: __m512, b: __m512) -> __m512 {
            _mm512_sub_ps(a, b)
        }
        #[inline(always)]
        unsafe fn mul(a: __m512, b: __m512) -> __m512 {
            _mm512_mul_ps(a, b)
        }
        #[inline(always)]
        unsafe fn recip(a: __m512) -> __m512 {
            // 14 bits from the table, 28 after one step of Newton's: cheaper than a division.
            let r = _mm512_rcp14_ps(a);
            let error = _mm512_fnmadd_ps(a, r, _mm512_set1_ps(1.0));
            _mm512_fmadd_ps(r, error, r)
        }
        #[inline(always)]
        unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
            _mm512_fmadd_ps(a, b, c)
        }
        #[inline(always)]
        unsafe fn min(a: __m512, b: __m512) -> __m512 {
            _mm512_min_ps(a, b)
        }
        #[inline(always)]
        unsafe fn max(a: __m512, b: __m512) -> __m512 {
            _mm512_max_ps(a, b)
        }
        #[inline(always)]
        unsafe fn round(a: __m512) -> __m512 {
            _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a)
        }
        #[inline(always)]
        unsafe fn exp2_whole(a: __m512) -> __m512 {
            _mm512_scalef_ps(_mm512_set1_ps(1.0), a)
        }
        #[inline(always)]
        unsafe fn where_positive(test: __m512, then: __m512) -> __m512 {
            let mask = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(test, _mm512_setzero_ps());
            _mm512_maskz_mov_ps(mask, then)
        }
        #[inline(always)]
        unsafe fn total(a: __m512) -> f32 {
            _mm512_reduce_add_ps(a)
        }
    }
}
