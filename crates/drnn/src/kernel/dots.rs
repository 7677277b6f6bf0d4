//! A product with few columns: one dot product for each of them.
//!
//! ```text
//! C[r, j] = bias[j] + sum_s sum_k A_s[r, k] W_s[j, k]
//! ```
//!
//! [`super::product`] would leave most of its vectors empty here. Vectors run along k instead, so
//! `W` is read as it is, row after row. Each output depends on its own row alone, here as there.

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

#[cfg(test)]
mod tests {
    use super::super::dispatch::all_kernels;
    use super::super::product::NULL_ROW;
    use super::*;
    use crate::random::Rng;

    #[test]
    fn equals_two_loops() {
        let mut rng = Rng::new(2);
        for kernels in all_kernels() {
            for _ in 0..60 {
                let (rows, k, cols) = (1 + rng.below(6), rng.below(50), 1 + rng.below(NARROW));
                let mut random = |n: usize| (0..n).map(|_| rng.symmetric(1.0)).collect::<Vec<_>>();
                let (a, w, bias, zeros) =
                    (random(rows * k), random(cols * k), random(cols), vec![0.0; k]);
                let mut index: Vec<u32> = (0..rows as u32).rev().collect();
                index[0] = NULL_ROW;
                let term = Term::rows(a.as_ptr(), k, k, w.as_ptr());
                let term = Term { index: index.as_ptr(), zeros: zeros.as_ptr(), ..term };
                let mut c = vec![f32::NAN; rows * cols];
                // SAFETY: the shapes above.
                unsafe {
                    (kernels.dots)(&Dots {
                        rows,
                        cols,
                        c: c.as_mut_ptr(),
                        c_stride: cols,
                        bias: bias.as_ptr(),
                        w_stride: k,
                        terms: &[term],
                    });
                }
                for (r, &row) in index.iter().enumerate() {
                    for j in 0..cols {
                        let a = if row == NULL_ROW { &zeros } else { &a[row as usize * k..][..k] };
                        let pairs = a.iter().zip(&w[j * k..][..k]);
                        let sum: f64 = pairs.map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
                        let expected = f64::from(bias[j]) + sum;
                        assert!((f64::from(c[r * cols + j]) - expected).abs() < 1e-5);
                    }
                }
            }
        }
    }
}
