//! The one product that everything is made of.
//!
//! ```text
//! C[r, j] = init[r, j] + sum_s sum_k A_s[r, k] W_s[k, j]
//! ```
//!
//! `W_s` is packed once ([`super::pack`]) into panels of up to four vectors; a tile of C, some rows
//! by one panel, stays in registers while k runs. Weights of 16 bits are widened as they are loaded;
//! int8 weights have a product of their own ([`super::int8`]). Each element of C is one chain of fused
//! multiply-adds in the order of the terms and of k, whatever tile, panel or thread it falls into:
//! this is why results do not depend on the batch, on threads, or on hoisting a term out of a loop.

#![allow(clippy::needless_range_loop, reason = "r, k, m and v are the letters of the formula")]

use super::pack::panel;
use super::simd::Simd;
use crate::model::weight_format::WeightFormat;
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
    /// Packed `W`, `k` by the columns of C, in the product's [`format`](Product::format).
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
    /// How the weights of all terms are stored.
    pub format: WeightFormat,
    pub terms: &'a [Term],
}

/// # Safety
/// The processor has `S`; all pointers are valid for the shapes stated, C is not read or written by
/// others meanwhile, and C overlaps `init` only as the very same rows. The format is not int8.
#[inline(always)]
pub unsafe fn product<S: Simd>(p: &Product) {
    // SAFETY: the caller's promise.
    unsafe {
        match p.format {
            WeightFormat::F16 => panels::<S, F16>(p),
            WeightFormat::Bf16 => panels::<S, Bf16>(p),
            _ => panels::<S, F32>(p),
        }
    }
}

/// Weights in memory that become vectors of f32 in registers.
pub trait Stored {
    type Number;
    /// # Safety
    /// As [`Simd::load`].
    unsafe fn load<S: Simd>(p: *const Self::Number) -> S::V;
}

macro_rules! stored {
    ($name:ident, $number:ty, $load:ident) => {
        pub struct $name;
        impl Stored for $name {
            type Number = $number;
            #[inline(always)]
            unsafe fn load<S: Simd>(p: *const $number) -> S::V {
                unsafe { S::$load(p) }
            }
        }
    };
}
stored!(F32, f32, load);
stored!(F16, u16, load_f16);
stored!(Bf16, u16, load_bf16);

/// # Safety
/// As [`product`].
#[inline(always)]
pub unsafe fn panels<S: Simd, W: Stored>(p: &Product) {
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
                    4 => rows_of::<S, W, 4>(p, row, rows, first),
                    3 => rows_of::<S, W, 3>(p, row, rows, first),
                    2 => rows_of::<S, W, 2>(p, row, rows, first),
                    _ => rows_of::<S, W, 1>(p, row, rows, first),
                }
            }
            row += rows;
            left -= 1;
        }
    }
}

#[inline(always)]
unsafe fn rows_of<S: Simd, W: Stored, const P: usize>(
    p: &Product,
    row: usize,
    rows: usize,
    first: usize,
) {
    // SAFETY: as promised to `product`. Tiles that `S` cannot hold are compiled out.
    unsafe {
        match rows {
            6 if S::ROWS >= 6 => tile::<S, W, 6, P>(p, row, first),
            5 if S::ROWS >= 6 => tile::<S, W, 5, P>(p, row, first),
            4 if S::ROWS >= 6 => tile::<S, W, 4, P>(p, row, first),
            3 if S::ROWS >= 3 => tile::<S, W, 3, P>(p, row, first),
            2 if S::ROWS >= 2 => tile::<S, W, 2, P>(p, row, first),
            _ => tile::<S, W, 1, P>(p, row, first),
        }
    }
}

#[inline(always)]
unsafe fn tile<S: Simd, W: Stored, const M: usize, const P: usize>(
    p: &Product,
    row: usize,
    first: usize,
) {
    // SAFETY: as promised to `product`.
    unsafe {
        let mut acc = load_tile::<S, M, P>(p, p.init, row, first);
        for term in p.terms {
            accumulate::<S, W, M, P>(&mut acc, term, row, first);
        }
        store_tile::<S, M, P>(p, &acc, row, first);
    }
}

/// Columns of the last vector of a panel of P vectors.
#[inline(always)]
fn tail<S: Simd, const P: usize>(p: &Product, first: usize) -> usize {
    (p.cols - first * S::WIDTH).min(P * S::WIDTH) - (P - 1) * S::WIDTH
}

/// What a tile of C starts from.
///
/// # Safety
/// As [`product`]; the tile lies within C.
#[inline(always)]
pub unsafe fn load_tile<S: Simd, const M: usize, const P: usize>(
    p: &Product,
    init: Init,
    row: usize,
    first: usize,
) -> [[S::V; P]; M] {
    // SAFETY: the caller's promise; vectors that reach past the last column are masked.
    unsafe {
        let tail = tail::<S, P>(p, first);
        let mut acc = [[S::splat(0.0); P]; M];
        for m in 0..M {
            let from = match init {
                Init::Zero => continue,
                Init::Rows { from, stride } => from.add((row + m) * stride),
                Init::Gather { from, stride, index } => match *index.add(row + m) {
                    NULL_ROW => continue,
                    r => from.add(r as usize * stride),
                },
            };
            let from = from.add(first * S::WIDTH);
            for v in 0..P {
                let at = from.add(v * S::WIDTH);
                acc[m][v] = if v + 1 < P || tail == S::WIDTH {
                    S::load(at)
                } else {
                    S::load_part(at, tail)
                };
            }
        }
        acc
    }
}

/// Writes a tile of C.
///
/// # Safety
/// As [`product`]; the tile lies within C.
#[inline(always)]
pub unsafe fn store_tile<S: Simd, const M: usize, const P: usize>(
    p: &Product,
    acc: &[[S::V; P]; M],
    row: usize,
    first: usize,
) {
    // SAFETY: the caller's promise; vectors that reach past the last column are masked.
    unsafe {
        let tail = tail::<S, P>(p, first);
        for m in 0..M {
            let to = p.c.add((row + m) * p.c_stride + first * S::WIDTH);
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
unsafe fn accumulate<S: Simd, W: Stored, const M: usize, const P: usize>(
    acc: &mut [[S::V; P]; M],
    term: &Term,
    row: usize,
    first: usize,
) {
    // SAFETY: as promised to `product`.
    unsafe {
        let a: [*const f32; M] = core::array::from_fn(|m| term.row(row + m));
        let mut w = term.w.cast::<W::Number>().add(first * S::WIDTH * term.k);
        let mut offset = 0;
        for _ in 0..term.k {
            // One vector of the panel at a time: M + 1 registers next to the M * P of the tile.
            let x: [S::V; M] = core::array::from_fn(|m| S::splat(*a[m].add(offset)));
            for v in 0..P {
                let panel = W::load::<S>(w.add(v * S::WIDTH));
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
    use crate::io::half_precision::{f32_to_bf16, f32_to_f16};
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
                pack(&mut packed, &w, (k, cols), (cols, 1), kernels.width, |x| x);
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
                                kernels.product(&Product {
                                    rows: rows.len(),
                                    cols,
                                    panels,
                                    backwards,
                                    c: to,
                                    c_stride: cols,
                                    init: Init::Rows { from: to, stride: cols },
                                    format: WeightFormat::F32,
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
    fn weights_of_16_bits_are_widened_exactly() {
        let mut rng = Rng::new(3);
        for kernels in all_kernels() {
            for (rows, k, cols) in [(1, 9, 5), (7, 40, 70), (13, 3, 150)] {
                let mut random = |n: usize| (0..n).map(|_| rng.symmetric(1.0)).collect::<Vec<_>>();
                let (a, mut w) = (random(rows * k), random(k * cols));
                w[0] = 3e-6; // subnormal in f16
                let panels = 0..panel_count(cols, kernels.width);
                let run = |format: WeightFormat, packed: *const f32| {
                    let mut c = vec![f32::NAN; rows * cols];
                    // SAFETY: the shapes above.
                    unsafe {
                        kernels.product(&Product {
                            rows,
                            cols,
                            panels: panels.clone(),
                            backwards: false,
                            c: c.as_mut_ptr(),
                            c_stride: cols,
                            init: Init::Zero,
                            format,
                            terms: &[Term::rows(a.as_ptr(), k, k, packed)],
                        });
                    }
                    c
                };
                type Half = (WeightFormat, fn(f32) -> [u8; 2]);
                let formats: [Half; 2] =
                    [(WeightFormat::F16, f32_to_f16), (WeightFormat::Bf16, f32_to_bf16)];
                for (format, convert) in formats {
                    let mut rounded = w.clone();
                    format.round("w", &mut rounded, cols).unwrap();
                    let len = packed_len(k, cols, kernels.width);
                    let (mut whole, mut half) = (vec![0.0; len], vec![0; len]);
                    let to_bits = |x| u16::from_le_bytes(convert(x));
                    pack(&mut whole, &rounded, (k, cols), (cols, 1), kernels.width, |x| x);
                    pack(&mut half, &w, (k, cols), (cols, 1), kernels.width, to_bits);
                    let expected = run(WeightFormat::F32, whole.as_ptr());
                    assert_eq!(run(format, half.as_ptr().cast()), expected, "{}", kernels.set);
                }
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
                    kernels.product(&Product {
                        rows,
                        cols,
                        panels,
                        backwards: false,
                        c: c.as_mut_ptr(),
                        c_stride: cols,
                        init,
                        format: WeightFormat::F32,
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
