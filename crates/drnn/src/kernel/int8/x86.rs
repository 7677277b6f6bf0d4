//! AVX2 and AVX-512, with and without their dot product instructions (VNNI).

#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "every function here is unsafe as a whole, with the contract of its trait"
)]

use super::Int8;
use crate::kernel::simd::{Avx2, Avx512};
use core::arch::x86_64::*;

/// What all implementations do alike with registers of one width.
macro_rules! registers {
    ($integers:ty, $floats:ty, $zero:ident, $load:ident, $to_float:ident) => {
        #[inline(always)]
        unsafe fn zero() -> $integers {
            $zero()
        }
        #[inline(always)]
        unsafe fn load_sums(p: *const i32) -> $integers {
            $load(p.cast())
        }
        #[inline(always)]
        unsafe fn load_weights(p: *const i8) -> $integers {
            $load(p.cast())
        }
        #[inline(always)]
        unsafe fn to_float(sums: $integers) -> $floats {
            $to_float(sums)
        }
    };
}

/// `vpdpbusd`, 16 columns at a time.
#[derive(Clone, Copy)]
pub struct Avx512Vnni;

// SAFETY: intrinsics of AVX-512F and AVX-512-VNNI only; pointers are as the trait demands of the caller.
unsafe impl Int8 for Avx512Vnni {
    type Float = Avx512;
    type Sums = __m512i;
    type Quad = __m512i;
    type Weights = __m512i;
    const ROWS: usize = 6;
    const UNSIGNED: bool = true;

    registers!(__m512i, __m512, _mm512_setzero_si512, _mm512_loadu_si512, _mm512_cvtepi32_ps);

    #[inline(always)]
    unsafe fn quad(x: [u8; 4]) -> __m512i {
        _mm512_set1_epi32(i32::from_ne_bytes(x))
    }
    #[inline(always)]
    unsafe fn dot(sums: __m512i, x: __m512i, w: __m512i) -> __m512i {
        _mm512_dpbusd_epi32(sums, x, w)
    }
}

/// AVX-512 without VNNI: numbers of 16 bits, four columns at a time.
#[derive(Clone, Copy)]
pub struct Avx512Int8;

// SAFETY: intrinsics of AVX-512F and AVX-512BW only; pointers are as the trait demands of the caller.
unsafe impl Int8 for Avx512Int8 {
    type Float = Avx512;
    type Sums = __m512i;
    type Quad = (__m512i, __m512i);
    type Weights = __m512i;
    const ROWS: usize = 3;
    const UNSIGNED: bool = false;

    registers!(__m512i, __m512, _mm512_setzero_si512, _mm512_loadu_si512, _mm512_cvtepi32_ps);

    /// The even activations and the odd ones, as numbers of 16 bits.
    #[inline(always)]
    unsafe fn quad(x: [u8; 4]) -> (__m512i, __m512i) {
        let x = _mm512_set1_epi32(i32::from_ne_bytes(x));
        (even(x), _mm512_srai_epi16::<8>(x))
    }
    #[inline(always)]
    unsafe fn dot(sums: __m512i, (x_even, x_odd): (__m512i, __m512i), w: __m512i) -> __m512i {
        let evens = _mm512_madd_epi16(x_even, even(w));
        let odds = _mm512_madd_epi16(x_odd, _mm512_srai_epi16::<8>(w));
        _mm512_add_epi32(sums, _mm512_add_epi32(evens, odds))
    }
}

/// The even bytes, sign-extended to 16 bits.
#[inline(always)]
unsafe fn even(x: __m512i) -> __m512i {
    _mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(x))
}

/// `vpdpbusd` of AVX-VNNI, 8 columns at a time.
#[derive(Clone, Copy)]
pub struct Avx2Vnni;

// SAFETY: intrinsics of AVX2 and AVX-VNNI only; pointers are as the trait demands of the caller.
unsafe impl Int8 for Avx2Vnni {
    type Float = Avx2;
    type Sums = __m256i;
    type Quad = __m256i;
    type Weights = __m256i;
    const ROWS: usize = 3;
    const UNSIGNED: bool = true;

    registers!(__m256i, __m256, _mm256_setzero_si256, _mm256_loadu_si256, _mm256_cvtepi32_ps);

    #[inline(always)]
    unsafe fn quad(x: [u8; 4]) -> __m256i {
        _mm256_set1_epi32(i32::from_ne_bytes(x))
    }
    #[inline(always)]
    unsafe fn dot(sums: __m256i, x: __m256i, w: __m256i) -> __m256i {
        _mm256_dpbusd_avx_epi32(sums, x, w)
    }
}

/// AVX2 without VNNI, 8 columns at a time.
#[derive(Clone, Copy)]
pub struct Avx2Int8;

// SAFETY: intrinsics of AVX2 only; pointers are as the trait demands of the caller.
unsafe impl Int8 for Avx2Int8 {
    type Float = Avx2;
    type Sums = __m256i;
    type Quad = (__m256i, __m256i);
    type Weights = __m256i;
    const ROWS: usize = 2;
    const UNSIGNED: bool = false;

    registers!(__m256i, __m256, _mm256_setzero_si256, _mm256_loadu_si256, _mm256_cvtepi32_ps);

    /// The activations and their magnitudes.
    #[inline(always)]
    unsafe fn quad(x: [u8; 4]) -> (__m256i, __m256i) {
        let x = _mm256_set1_epi32(i32::from_ne_bytes(x));
        (x, _mm256_abs_epi8(x))
    }
    /// `|x|` times `w` with the sign of x. A sum of two such products is at most 2 * 127 * 127, which fits
    /// in the 16 bits of `vpmaddubsw`: nothing saturates.
    #[inline(always)]
    unsafe fn dot(sums: __m256i, (x, magnitude): (__m256i, __m256i), w: __m256i) -> __m256i {
        let pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(w, x));
        _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
    }
}
