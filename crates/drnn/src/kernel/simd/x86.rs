//! AVX2 and AVX-512.

#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "every function here is unsafe as a whole, with the contract of its trait"
)]

use super::Simd;
use core::arch::x86_64::*;

/// Row `i` of a matrix.
#[inline(always)]
unsafe fn row<S: Simd>(from: *const f32, i: usize, stride: usize) -> S::V {
    S::load(from.add(i * stride))
}

/// AVX2 with FMA and F16C: 16 registers of eight.
#[derive(Clone, Copy)]
pub struct Avx2;

// SAFETY: intrinsics of AVX2, FMA and F16C only; pointers are as the trait demands of the caller.
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
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> __m256 {
        _mm256_cvtph_ps(_mm_loadu_si128(p.cast()))
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> __m256 {
        let words = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words))
    }
    // By way of the stack: masked moves of this generation are slow on some processors.
    #[inline(always)]
    unsafe fn load_part(p: *const f32, count: usize) -> __m256 {
        let mut buffer = [0.0f32; 8];
        core::ptr::copy_nonoverlapping(p, buffer.as_mut_ptr(), count);
        _mm256_loadu_ps(buffer.as_ptr())
    }
    #[inline(always)]
    unsafe fn store_part(p: *mut f32, v: __m256, count: usize) {
        let mut buffer = [0.0f32; 8];
        _mm256_storeu_ps(buffer.as_mut_ptr(), v);
        core::ptr::copy_nonoverlapping(buffer.as_ptr(), p, count);
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
    #[inline(always)]
    unsafe fn transpose(from: *const f32, stride: usize, to: *mut f32, to_stride: usize) {
        // Squares of four, in each half of a register: columns j and 4 + j of rows i to i + 3.
        let mut fours = [_mm256_setzero_ps(); 8];
        for i in [0, 4] {
            let (a, b) = (row::<Avx2>(from, i, stride), row::<Avx2>(from, i + 1, stride));
            let (c, d) = (row::<Avx2>(from, i + 2, stride), row::<Avx2>(from, i + 3, stride));
            let (ab_low, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
            let (cd_low, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
            fours[i] = _mm256_shuffle_ps::<0x44>(ab_low, cd_low);
            fours[i + 1] = _mm256_shuffle_ps::<0xee>(ab_low, cd_low);
            fours[i + 2] = _mm256_shuffle_ps::<0x44>(ab_high, cd_high);
            fours[i + 3] = _mm256_shuffle_ps::<0xee>(ab_high, cd_high);
        }
        for j in 0..4 {
            let (low, high) = (fours[j], fours[4 + j]);
            let to = to.add(j * to_stride);
            _mm256_storeu_ps(to, _mm256_permute2f128_ps::<0x20>(low, high));
            _mm256_storeu_ps(to.add(4 * to_stride), _mm256_permute2f128_ps::<0x31>(low, high));
        }
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
    unsafe fn load_f16(p: *const u16) -> __m512 {
        _mm512_cvtph_ps(_mm256_loadu_si256(p.cast()))
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> __m512 {
        let words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()));
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words))
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
    #[inline(always)]
    unsafe fn transpose(from: *const f32, stride: usize, to: *mut f32, to_stride: usize) {
        // Squares of four, in each quarter of a register: columns j, 4 + j, 8 + j and 12 + j of rows i to
        // i + 3.
        let mut fours = [_mm512_setzero_ps(); 16];
        for i in [0, 4, 8, 12] {
            let (a, b) = (row::<Avx512>(from, i, stride), row::<Avx512>(from, i + 1, stride));
            let (c, d) = (row::<Avx512>(from, i + 2, stride), row::<Avx512>(from, i + 3, stride));
            let (ab_low, ab_high) = (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
            let (cd_low, cd_high) = (_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
            fours[i] = _mm512_shuffle_ps::<0x44>(ab_low, cd_low);
            fours[i + 1] = _mm512_shuffle_ps::<0xee>(ab_low, cd_low);
            fours[i + 2] = _mm512_shuffle_ps::<0x44>(ab_high, cd_high);
            fours[i + 3] = _mm512_shuffle_ps::<0xee>(ab_high, cd_high);
        }
        for j in 0..4 {
            let (a, b, c, d) = (fours[j], fours[4 + j], fours[8 + j], fours[12 + j]);
            // Quarters 0 and 2, and 1 and 3, of two squares each.
            let ab = [_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b)];
            let cd = [_mm512_shuffle_f32x4::<0x88>(c, d), _mm512_shuffle_f32x4::<0xdd>(c, d)];
            for odd in 0..2 {
                let to = to.add((4 * odd + j) * to_stride);
                _mm512_storeu_ps(to, _mm512_shuffle_f32x4::<0x88>(ab[odd], cd[odd]));
                let to = to.add(8 * to_stride);
                _mm512_storeu_ps(to, _mm512_shuffle_f32x4::<0xdd>(ab[odd], cd[odd]));
            }
        }
    }
}
