//! The one product that everything is made of.
//!
//! ```text
//! C[r, j] = init[r, j] + sum_s sum_k A_s[r, k] W_s[k, j]
//! ```
//!
//! `W_s` is packed once ([`super::pack`]) into panels of up to four vectors; a tile of C, some rows
//! by one panel, stays in registers while k runs. Each element of C is one chain of fused
//! multiply-adds in the order of the terms and of k, whatever tile, panel or thread it falls into:
//! this is why results do not depend on the batch, on threads, or on hoisting a term out of a loop.

#![allow(clippy::needless_range_loop, reason = "r, k, m and v are the letters of the formula")]

use super::pack::panel;
use super::simd::Simd;
use core::ops::Range;

/// Row index that stands for a row of zeros.
pub const NULL_ROW: u32 = u32::MAX;

/// One summand `A W`.
#[derive(Clone, Copy)]
pub struct Term {
    /// `A[r, k]` lies at `a + row(r) * row_stride + k * k_stride`.
    pub a: *const f32,
    pub row_stride: usize,
    pub k_stride: usize,
    /// `row(r)`: the r-th entry here, or r itself where this is null.
    pub index: *const u32,
    /// What is read for [`NULL_ROW`]: k zeros. Null where the index has no such row.
    pub zeros: *const f32,
    /// Packed `W`, `k` by the columns of C.
    pub w: *const f32,
    pub k: usize,
}

impl Term {
    /// Rows of `k` floats, `row_stride` apart, in order, and a packed W.
    pub fn rows(a: *const f32, row_stride: usize, k: usize, w: *const f32) -> Term {
        let (index, zeros) = (core::ptr::null(), core::ptr::null());
        Term { a, row_stride, k_stride: 1, index, zeros, w, k }
    }

    /// Where row r of A begins.
    ///
    /// # Safety
    /// There is such a row.
    #[inline(always)]
    pub unsafe fn row(&self, r: usize) -> *const f32 {
        // SAFETY: within the caller's array or index.
        unsafe {
            if self.index.is_null() {
                return self.a.add(r * self.row_stride);
            }
            match *self.index.add(r) {
                NULL_ROW => self.zeros,
                r => self.a.add(r as usize * self.row_stride),
            }
        }
    }

    /// The same term for rows from `row` on.
    ///
    /// # Safety
    /// Such rows exist.
    pub unsafe fn at_row(mut self, row: usize) -> Term {
        // SAFETY: within the caller's array or index.
        unsafe {
            if self.index.is_null() {
                self.a = self.a.add(row * self.row_stride);
            } else {
                self.index = self.index.add(row);
            }
        }
        self
    }
}

/// A few terms, on the stack.
pub struct Terms {
    terms: [Term; 8],
    len: usize,
}

impl Terms {
    pub fn new() -> Terms {
        let none = Term::rows(core::ptr::null(), 0, 0, core::ptr::null());
        Terms { terms: [none; 8], len: 0 }
    }

    pub fn push(&mut self, term: Term) {
        self.terms[self.len] = term;
        self.len += 1;
    }

    pub fn as_mut_slice(&mut self) -> &mut [Term] {
        &mut self.terms[..self.len]
    }

    pub fn as_slice(&self) -> &[Term] {
        &self.terms[..self.len]
    }
}

/// What C starts from.
#[derive(Clone, Copy)]
pub enum Init {
    Zero,
    /// Row r from `from + r * stride` (stride 0: the same row for all; C itself: accumulate).
    Rows {
        from: *const f32,
        stride: usize,
    },
    /// Row r from `from + index[r] * stride`; zeros for [`NULL_ROW`].
    Gather {
        from: *const f32,
        stride: usize,
        index: *const u32,
    },
}

impl Init {
    /// The same for rows from `row` on, and columns from `col` on.
    ///
    /// # Safety
    /// Such rows and columns exist.
    pub unsafe fn at(self, row: usize, col: usize) -> Init {
        // SAFETY: within the caller's array or index.
        unsafe {
            match self {
                Init::Zero => Init::Zero,
                Init::Rows { from, stride } => {
                    Init::Rows { from: from.add(row * stride + col), stride }
                }
                Init::Gather { from, stride, index } => {
                    Init::Gather { from: from.add(col), stride, index: index.add(row) }
                }
            }
        }
    }
}

/// A product over `rows` rows and those columns that `panels` (numbers of panels) covers.
#[derive(Clone)]
pub struct Product<'a> {
    pub rows: usize,
    pub cols: usize,
    pub panels: Range<usize>,
    /// Takes the panels from the last to the first. Where the same weights are used step after step,
    /// turning round at each step finds those in cache that were used last.
    pub backwards: bool,
    pub c: *mut f32,
    pub c_stride: usize,
    pub init: Init,
    pub terms: &'a [Term],
}

/// # Safety
/// The processor has `S`; all pointers are valid for the shapes stated, C is not read or written by
/// others meanwhile, and C overlaps `init` only as the very same rows.
#[inline(always)]
pub unsafe fn product<S: Simd>(p: &Product) {
    let tiles = p.rows.div_ceil(S::ROWS);
    for i in 0..p.panels.len() {
        let i = if p.backwards { p.panels.end - 1 - i } else { p.panels.start + i };
        let (first, vectors) = panel(p.cols, S::WIDTH, i);
        // Rows are shared out evenly, so that no tile is left with a row or two.
        let (mut row, mut left) = (0, tiles);
        while left > 0 {
            let rows = (p.rows - row).div_ceil(left);
            // SAFETY: rows <= S::ROWS by construction; the rest is the caller's promise.
            unsafe {
                match vectors {
                    4 => rows_of::<S, 4>(p, row, rows, first),
                    3 => rows_of::<S, 3>(p, row, rows, first),
                    2 => rows_of::<S, 2>(p, row, rows, first),
                    _ => rows_of::<S, 1>(p, row, rows, first),
                }
            }
            row += rows;
            left -= 1;
        }
    }
}

#[inline(always)]
unsafe fn rows_of<S: Simd, const P: usize>(p: &Product, row: usize, rows: usize, first: usize) {
    // SAFETY: as promised to `product`. Tiles that `S` cannot hold are compiled out.
    unsafe {
        match rows {
            6 if S::ROWS >= 6 => tile::<S, 6, P>(p, row, first),
            5 if S::ROWS >= 6 => tile::<S, 5, P>(p, row, first),
            4 if S::ROWS >= 6 => tile::<S, 4, P>(p, row, first),
            3 => tile::<S, 3, P>(p, row, first),
            2 => tile::<S, 2, P>(p, row, first),
            _ => tile::<S, 1, P>(p, row, first),
        }
    }
}

#[inline(always)]
unsafe fn tile<S: Simd, const M: usize, const P: usize>(p: &Product, row: usize, first: usize) {
    // SAFETY: as promised to `product`; vectors that reach past the last column are masked.
    unsafe {
        let col = first * S::WIDTH;
        let tail = (p.cols - col).min(P * S::WIDTH) - (P - 1) * S::WIDTH;
        let mut acc = [[S::splat(0.0); P]; M];

        for m in 0..M {
            let from = match p.init {
                Init::Zero => continue,
                Init::Rows { from, stride } => from.add((row + m) * stride),
                Init::Gather { from, stride, index } => match *index.add(row + m) {
                    NULL_ROW => continue,
                    r => from.add(r as usize * stride),
                },
            };
            let from = from.add(col);
            for v in 0..P {
                let at = from.add(v * S::WIDTH);
                acc[m][v] = if v + 1 < P || tail == S::WIDTH {
                    S::load(at)
                } else {
                    S::load_part(at, tail)
                };
            }
        }

        for term in p.terms {
            accumulate::<S, M, P>(&mut acc, term, row, first);
        }

        for m in 0..M {
            let to = p.c.add((row + m) * p.c_stride + col);
            for v in 0..P {
                let at = to.add(v * S::WIDTH);
                if v + 1 < P || tail == S::WIDTH {
                    S::store(at, acc[m][v]);
                } else {
                    S::store_part(at, acc[m][v], tail);
                }
            }
        }
    }
}

#[inline(always)]
unsafe fn accumulate<S: Simd, const M: usize, const P: usize>(
    acc: &mut [[S::V; P]; M],
    term: &Term,
    row: usize,
    first: usize,
) {
    // SAFETY: as promised to `product`.
    unsafe {
        let a: [*const f32; M] = core::array::from_fn(|m| term.row(row + m));
        let mut w = term.w.add(first * S::WIDTH * term.k);
        let mut offset = 0;
        for _ in 0..term.k {
            // One vector of the panel at a time: M + 1 registers next to the M * P of the tile.
            let x: [S::V; M] = core::array::from_fn(|m| S::splat(*a[m].add(offset)));
            for v in 0..P {
                let panel = S::load(w.add(v * S::WIDTH));
                for m in 0..M {
                    acc[m][v] = S::fma(x[m], panel, acc[m][v]);
                }
            }
            offset += term.k_stride;
            w = w.add(P * S::WIDTH);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::dispatch::all_kernels;
    use super::super::pack::{pack, packed_len, panel_count};
    use super::*;
    use crate::random::Rng;

    /// `init + A W` by three loops, rows of A through the index.
    fn naive(init: &[f32], a: &[f32], index: &[u32], w: &[f32], k: usize, cols: usize) -> Vec<f64> {
        let mut c: Vec<f64> = init.iter().map(|&x| x.into()).collect();
        for (r, &row) in index.iter().enumerate() {
            for j in 0..cols {
                for kk in 0..k {
                    let x = if row == NULL_ROW { 0.0 } else { a[row as usize * k + kk] };
                    c[r * cols + j] += f64::from(x) * f64::from(w[kk * cols + j]);
                }
            }
        }
        c
    }

    #[test]
    fn equals_three_loops_however_it_is_cut() {
        let mut rng = Rng::new(1);
        for kernels in all_kernels() {
            for _ in 0..60 {
                let (rows, k, cols) = (1 + rng.below(20), rng.below(40), 1 + rng.below(150));
                let mut random = |n: usize| (0..n).map(|_| rng.symmetric(1.0)).collect::<Vec<_>>();
                let (a, w, init) = (random(rows * k), random(k * cols), random(rows * cols));
                let zeros = vec![0.0; k];
                let mut packed = vec![f32::NAN; packed_len(k, cols, kernels.width)];
                pack(&mut packed, &w, (k, cols), (cols, 1), kernels.width);
                let index: Vec<u32> = (0..rows)
                    .map(|_| match rng.below(rows + 1) {
                        r if r == rows => NULL_ROW,
                        r => r as u32,
                    })
                    .collect();
                let term = Term::rows(a.as_ptr(), k, k, packed.as_ptr());
                let term = Term { index: index.as_ptr(), zeros: zeros.as_ptr(), ..term };
                let panels = panel_count(cols, kernels.width);
                let run = |row_cut: usize, panel_cut: usize, backwards: bool| {
                    let mut c = init.clone();
                    for rows in [0..row_cut, row_cut..rows] {
                        for panels in [0..panel_cut, panel_cut..panels] {
                            // SAFETY: cuts lie within the shapes; C is its own start.
                            unsafe {
                                let to = c.as_mut_ptr().add(rows.start * cols);
                                (kernels.product)(&Product {
                                    rows: rows.len(),
                                    cols,
                                    panels,
                                    backwards,
                                    c: to,
                                    c_stride: cols,
                                    init: Init::Rows { from: to, stride: cols },
                                    terms: &[term.at_row(rows.start)],
                                });
                            }
                        }
                    }
                    c
                };
                let whole = run(0, 0, false);
                for (found, expected) in whole.iter().zip(naive(&init, &a, &index, &w, k, cols)) {
                    assert!((f64::from(*found) - expected).abs() < 1e-5, "{}", kernels.set);
                }
                assert_eq!(whole, run(rng.below(rows + 1), rng.below(panels + 1), true));
            }
        }
    }

    #[test]
    fn starts_from_zero_a_row_or_a_table() {
        for kernels in all_kernels() {
            let (rows, cols) = (7, 19);
            let table: Vec<f32> = (0..3 * cols).map(|i| i as f32).collect();
            let index = [2, NULL_ROW, 0, 1, 2, 0, NULL_ROW];
            let start = |init: Init| {
                let mut c = vec![f32::NAN; rows * cols];
                let panels = 0..panel_count(cols, kernels.width);
                // SAFETY: the shapes above; no terms.
                unsafe {
                    (kernels.product)(&Product {
                        rows,
                        cols,
                        panels,
                        backwards: false,
                        c: c.as_mut_ptr(),
                        c_stride: cols,
                        init,
                        terms: &[],
                    });
                }
                c
            };
            let from = table.as_ptr();
            assert_eq!(start(Init::Zero), vec![0.0; rows * cols]);
            assert_eq!(start(Init::Rows { from, stride: 0 }), table[..cols].repeat(rows));
            let gathered = start(Init::Gather { from, stride: cols, index: index.as_ptr() });
            for (row, &i) in gathered.chunks(cols).zip(&index) {
                match i {
                    NULL_ROW => assert_eq!(row, vec![0.0; cols]),
                    i => assert_eq!(row, &table[i as usize * cols..][..cols]),
                }
            }
        }
    }
}
