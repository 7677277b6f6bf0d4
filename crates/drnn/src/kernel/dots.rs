//! A product with few columns: one dot product for each of them.
//!
//! ```text
//! C[r, j] = bias[j] + sum_s sum_k A_s[r, k] W_s[j, k]
//! ```
//!
//! [`super::product`] would leave most of its vectors empty here. Vectors run along k instead, so
//! `W` is read as it is, row after row. Each answer depends on its own row alone, here as there.

use super::product::Term;
use super::simd::Simd;

/// At most this many columns are faster this way.
pub const NARROW: usize = 4;

/// Operands. In the terms, `w` is row-major (not packed) and `k_stride` is 1.
#[derive(Clone)]
pub struct Dots<'a> {
    pub rows: usize,
    pub cols: usize,
    pub c: *mut f32,
    pub c_stride: usize,
    pub bias: *const f32,
    /// From one row of W to the next.
    pub w_stride: usize,
    pub terms: &'a [Term],
}

/// # Safety
/// The processor has `S`; all pointers are valid for the shapes stated, and nobody else uses C.
#[inline(always)]
pub unsafe fn dots<S: Simd>(p: &Dots) {
    for row in 0..p.rows {
        for col in 0..p.cols {
            // SAFETY: the caller's promise; a tail is loaded in part.
            unsafe {
                let mut sum = S::splat(0.0);
                for term in p.terms {
                    let (a, w) = (term.row(row), term.w.add(col * p.w_stride));
                    let mut k = 0;
                    while k + S::WIDTH <= term.k {
                        sum = S::fma(S::load(a.add(k)), S::load(w.add(k)), sum);
                        k += S::WIDTH;
                    }
                    if k < term.k {
                        let rest = term.k - k;
                        sum =
                            S::fma(S::load_part(a.add(k), rest), S::load_part(w.add(k), rest), sum);
                    }
                }
                *p.c.add(row * p.c_stride + col) = *p.bias.add(col) + S::total(sum);
            }
        }
    }
}
