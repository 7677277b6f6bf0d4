//! The product with int8 weights.
//!
//! ```text
//! C[r, j] = init[r, j] + sum_s a_s[r] w_s[j] sum_k X_s[r, k] Q_s[k, j]
//! ```
//!
//! `Q_s` are weights as integers from -127 to 127, and `w_s[j]` is the scale of column j (a row of the
//! weight matrix). Activations are quantised for each product (dynamic quantisation): `X_s[r, k]` is
//! `A_s[r, k] / a_s[r]` rounded to an integer, where `a_s[r]` is a 127th of the largest magnitude in the
//! row. Sums over k are exact in i32, and what follows is one multiplication and one addition in a fixed
//! order, unfused. So every instruction set gives the same bits.
//!
//! | file | what |
//! |---|---|
//! | `quantize` | scales, and numbers as integers |
//! | `pack` | weights in reading order |
//! | `portable`, `x86`, `neon`, `wasm` | the dot product of four pairs, per instruction set |

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod neon;
pub mod pack;
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod portable;
pub mod quantize;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
pub use neon::{NeonDotprod, NeonInt8};
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
pub use portable::PortableInt8;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub use wasm::Simd128Int8;
#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2Int8, Avx2Vnni, Avx512Int8, Avx512Vnni};

use super::pack::panel;
use super::product::{F32, Init, Product, Term, load_tile, panels, store_tile};
use super::simd::Simd;
use crate::prelude::*;
use core::mem::MaybeUninit;
use pack::HEADER;
use quantize::quantize_row;

/// Integer dot products of one instruction set.
///
/// # Safety
/// As [`Simd`].
pub unsafe trait Int8: Copy {
    /// The vectors of f32 that go with it: of as many elements.
    type Float: Simd;
    /// A register of i32.
    type Sums: Copy;
    /// Four activations, the same in every lane.
    type Quad: Copy;
    /// Four weights of each of `WIDTH` columns.
    type Weights: Copy;
    /// Rows of a tile: as many as the register file holds next to a panel of four vectors.
    const ROWS: usize;
    /// Whether [`Int8::dot`] takes activations as unsigned numbers, 128 too large. Sums then start from
    /// minus 128 times the sum of a column's weights.
    const UNSIGNED: bool;

    unsafe fn zero() -> Self::Sums;
    unsafe fn load_sums(p: *const i32) -> Self::Sums;
    unsafe fn load_weights(p: *const i8) -> Self::Weights;
    /// Four activations from their bytes.
    unsafe fn quad(x: [u8; 4]) -> Self::Quad;
    /// `sums[j] + sum_i x[i] w[j][i]`, i from 0 to 3: exact, modulo 2^32.
    unsafe fn dot(sums: Self::Sums, x: Self::Quad, w: Self::Weights) -> Self::Sums;
    /// The nearest f32, ties to even.
    unsafe fn to_float(sums: Self::Sums) -> <Self::Float as Simd>::V;
}

/// Bytes of quantised activations, on the stack, which is small where there is no std. Longer rows take
/// memory from the heap.
const SCRATCH: usize = if cfg!(feature = "std") { 1 << 15 } else { 1 << 10 };
/// Rows that are quantised at once, at most.
const BLOCK: usize = 64;

/// # Safety
/// As [`super::product::product`]; in all terms `k_stride` is 1.
#[inline(always)]
pub unsafe fn product<I: Int8>(p: &Product) {
    // SAFETY: the caller's promise.
    unsafe {
        if p.terms.is_empty() {
            return panels::<I::Float, F32>(p);
        }
        let mut stack = [MaybeUninit::<u8>::uninit(); SCRATCH];
        for (number, term) in p.terms.iter().enumerate() {
            let bytes = term.k.next_multiple_of(4);
            let mut heap = Vec::new();
            let quantized = match bytes <= SCRATCH {
                true => &mut stack[..],
                false => {
                    heap.resize(bytes, MaybeUninit::uninit());
                    &mut heap[..]
                }
            };
            let block = (quantized.len() / bytes.max(1)).clamp(1, BLOCK);
            // A later term adds to what the earlier ones left in C.
            let init = match number {
                0 => p.init,
                _ => Init::Rows { from: p.c, stride: p.c_stride },
            };
            let mut row = 0;
            while row < p.rows {
                let rows = block.min(p.rows - row);
                let mut scales = [0.0; BLOCK];
                for r in 0..rows {
                    let a = core::slice::from_raw_parts(term.row(row + r), term.k);
                    scales[r] = quantize_row::<I>(a, &mut quantized[r * bytes..][..bytes]);
                }
                let activations = Activations { row, rows, bytes, quantized, scales: &scales };
                term_panels::<I>(p, init, term, &activations);
                row += rows;
            }
        }
    }
}

/// Some rows of A, quantised.
struct Activations<'a> {
    /// The first of them, and how many.
    row: usize,
    rows: usize,
    /// Row after row, each `bytes` long: k, rounded up to four.
    quantized: &'a [MaybeUninit<u8>],
    bytes: usize,
    /// Of each row.
    scales: &'a [f32],
}

/// # Safety
/// As [`product`].
#[inline(always)]
unsafe fn term_panels<I: Int8>(p: &Product, init: Init, term: &Term, a: &Activations) {
    let tiles = a.rows.div_ceil(I::ROWS);
    for i in 0..p.panels.len() {
        let i = if p.backwards { p.panels.end - 1 - i } else { p.panels.start + i };
        let (first, vectors) = panel(p.cols, I::Float::WIDTH, i);
        let (mut row, mut left) = (0, tiles);
        while left > 0 {
            let rows = (a.rows - row).div_ceil(left);
            // SAFETY: rows <= I::ROWS by construction; the rest is the caller's promise.
            unsafe {
                match vectors {
                    4 => rows_of::<I, 4>(p, init, term, a, (row, rows), first),
                    3 => rows_of::<I, 3>(p, init, term, a, (row, rows), first),
                    2 => rows_of::<I, 2>(p, init, term, a, (row, rows), first),
                    _ => rows_of::<I, 1>(p, init, term, a, (row, rows), first),
                }
            }
            row += rows;
            left -= 1;
        }
    }
}

#[inline(always)]
unsafe fn rows_of<I: Int8, const P: usize>(
    p: &Product,
    init: Init,
    term: &Term,
    a: &Activations,
    (row, rows): (usize, usize),
    first: usize,
) {
    // SAFETY: as promised to `product`. Tiles that `I` cannot hold are compiled out.
    unsafe {
        match rows {
            6 if I::ROWS >= 6 => tile::<I, 6, P>(p, init, term, a, row, first),
            5 if I::ROWS >= 6 => tile::<I, 5, P>(p, init, term, a, row, first),
            4 if I::ROWS >= 6 => tile::<I, 4, P>(p, init, term, a, row, first),
            3 if I::ROWS >= 3 => tile::<I, 3, P>(p, init, term, a, row, first),
            2 if I::ROWS >= 2 => tile::<I, 2, P>(p, init, term, a, row, first),
            _ => tile::<I, 1, P>(p, init, term, a, row, first),
        }
    }
}

#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "m and v are the letters of the formula")]
unsafe fn tile<I: Int8, const M: usize, const P: usize>(
    p: &Product,
    init: Init,
    term: &Term,
    a: &Activations,
    row: usize,
    first: usize,
) {
    let width = I::Float::WIDTH;
    // SAFETY: as promised to `product`; a panel begins with the scales of its columns, then their sums,
    // then weights, four of every column side by side. All bytes of the rows have been written.
    unsafe {
        let panel = term.w.cast::<u8>().add(first * width * (HEADER + a.bytes));
        let (scales, start) = (panel.cast::<f32>(), panel.cast::<i32>().add(P * width));
        let mut w = panel.cast::<i8>().add(P * width * HEADER);
        let x: [*const [u8; 4]; M] =
            core::array::from_fn(|m| a.quantized.as_ptr().add((row + m) * a.bytes).cast());

        let mut sums = [[I::zero(); P]; M];
        if I::UNSIGNED {
            for v in 0..P {
                let start = I::load_sums(start.add(v * width));
                for m in 0..M {
                    sums[m][v] = start;
                }
            }
        }
        for quad in 0..a.bytes / 4 {
            let x: [I::Quad; M] = core::array::from_fn(|m| I::quad(*x[m].add(quad)));
            for v in 0..P {
                let weights = I::load_weights(w.add(v * width * 4));
                for m in 0..M {
                    sums[m][v] = I::dot(sums[m][v], x[m], weights);
                }
            }
            w = w.add(P * width * 4);
        }

        let mut acc = load_tile::<I::Float, M, P>(p, init, a.row + row, first);
        for v in 0..P {
            let scale = I::Float::load(scales.add(v * width));
            for m in 0..M {
                let scale = I::Float::mul(I::Float::splat(a.scales[row + m]), scale);
                let sum = I::Float::mul(I::to_float(sums[m][v]), scale);
                acc[m][v] = I::Float::add(acc[m][v], sum);
            }
        }
        store_tile::<I::Float, M, P>(p, &acc, a.row + row, first);
    }
}

#[cfg(test)]
mod tests;
