//! Gate arithmetic of the cells, forward and backward, on rows whose products are already summed.
//!
//! A row of `gates` holds the pre-activations, gate after gate, `n` units each; the forward pass
//! leaves the activated gates there, and the backward pass turns them into the gradients of the
//! pre-activations, in place. Except for `gates` every array has rows of `n` floats.

#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "every function here is unsafe as a whole, with the contract of its trait or module"
)]

use super::math::{sigmoid, tanh};
use super::simd::Simd;
use core::ops::Range;

/// Operands of [`CellKernel::forward`].
#[derive(Clone, Copy)]
pub struct CellForward {
    pub rows: usize,
    /// Units per row, n.
    pub units: usize,
    /// The units to compute: `from..to`.
    pub from: usize,
    pub to: usize,
    /// (rows, columns of the cell); activated gates are left here if `save`.
    pub gates: *mut f32,
    pub save: bool,
    /// State before the step, (rows, n).
    pub h_prev: *const f32,
    /// Cell state before and after; may be the same place. LSTM only.
    pub c_prev: *const f32,
    pub c: *mut f32,
    /// State after the step, (rows, n).
    pub h: *mut f32,
}

/// Operands of [`CellKernel::backward`].
#[derive(Clone, Copy)]
pub struct CellBackward {
    pub rows: usize,
    pub units: usize,
    pub from: usize,
    pub to: usize,
    pub gates: *mut f32,
    pub h_prev: *const f32,
    pub h: *const f32,
    pub c_prev: *const f32,
    pub c: *const f32,
    /// Gradient of h, (rows, n).
    pub dh: *const f32,
    /// What bypasses the gates on its backward pass: the gradient of c (LSTM); dh z, and what reaches h
    /// by way of r h' (GRU). In and out.
    pub carry: *mut f32,
}

/// A cell's arithmetic, one vector of units at a time.
///
/// # Safety
/// As [`Simd`]; the operands are valid for `rows` rows of their width. Those written may be those
/// read (h over `h_prev`, c over `c_prev`), element for element, and otherwise overlap nothing.
pub unsafe trait CellKernel {
    /// Width of a row of `gates`, in units.
    const COLUMNS: usize;

    unsafe fn forward<S: Simd>(p: &CellForward, at: At);
    unsafe fn backward<S: Simd>(p: &CellBackward, at: At);
}

/// One vector of units in one row.
#[derive(Clone, Copy)]
pub struct At {
    /// Offset of the vector in arrays of width n, and in `gates` (gate g lies n * g further on).
    state: usize,
    gates: usize,
    /// Units in the vector: `S::WIDTH`, or fewer at the end of a row.
    count: usize,
}

#[inline(always)]
unsafe fn load<S: Simd>(p: *const f32, offset: usize, count: usize) -> S::V {
    if count == S::WIDTH { S::load(p.add(offset)) } else { S::load_part(p.add(offset), count) }
}

#[inline(always)]
unsafe fn store<S: Simd>(p: *mut f32, offset: usize, count: usize, v: S::V) {
    if count == S::WIDTH {
        S::store(p.add(offset), v)
    } else {
        S::store_part(p.add(offset), v, count)
    }
}

/// `1 - x * x`
#[inline(always)]
unsafe fn one_minus_square<S: Simd>(x: S::V) -> S::V {
    S::sub(S::splat(1.0), S::mul(x, x))
}

/// `x (1 - x)`
#[inline(always)]
unsafe fn logistic_slope<S: Simd>(x: S::V) -> S::V {
    S::mul(x, S::sub(S::splat(1.0), x))
}

/// Which way a sweep goes, and on what.
#[derive(Clone, Copy)]
enum Pass<'a> {
    Forward(&'a CellForward),
    Backward(&'a CellBackward),
}

/// All vectors of units `units` of all rows: whole vectors first, so that the compiler sees their
/// length, then the tail.
#[inline(always)]
unsafe fn sweep<C: CellKernel, S: Simd>(rows: usize, n: usize, units: Range<usize>, pass: Pass) {
    for row in 0..rows {
        let (state, gates) = (row * n, row * n * C::COLUMNS);
        let mut unit = units.start;
        while unit + S::WIDTH <= units.end {
            vector::<C, S>(pass, At { state: state + unit, gates: gates + unit, count: S::WIDTH });
            unit += S::WIDTH;
        }
        if unit < units.end {
            let count = units.end - unit;
            vector::<C, S>(pass, At { state: state + unit, gates: gates + unit, count });
        }
    }
}

/// The pass is known where this is inlined, so the match costs nothing; a closure in its stead would
/// be compiled without the instruction set.
#[inline(always)]
unsafe fn vector<C: CellKernel, S: Simd>(pass: Pass, at: At) {
    match pass {
        Pass::Forward(p) => C::forward::<S>(p, at),
        Pass::Backward(p) => C::backward::<S>(p, at),
    }
}

/// # Safety
/// See [`CellKernel`].
#[inline(always)]
pub unsafe fn forward<C: CellKernel, S: Simd>(p: &CellForward) {
    sweep::<C, S>(p.rows, p.units, p.from..p.to, Pass::Forward(p))
}

/// # Safety
/// See [`CellKernel`].
#[inline(always)]
pub unsafe fn backward<C: CellKernel, S: Simd>(p: &CellBackward) {
    sweep::<C, S>(p.rows, p.units, p.from..p.to, Pass::Backward(p))
}

/// `i, f, o = sigmoid, g = tanh;  c = f c' + i g;  h = o tanh(c)`. Columns i, f, g, o.
pub struct Lstm;

// SAFETY: touches `count` floats at the offsets of `At` only.
unsafe impl CellKernel for Lstm {
    const COLUMNS: usize = 4;

    #[inline(always)]
    unsafe fn forward<S: Simd>(p: &CellForward, at: At) {
        let (n, count) = (p.units, at.count);
        let i = sigmoid::<S>(load::<S>(p.gates, at.gates, count));
        let f = sigmoid::<S>(load::<S>(p.gates, at.gates + n, count));
        let g = tanh::<S>(load::<S>(p.gates, at.gates + 2 * n, count));
        let o = sigmoid::<S>(load::<S>(p.gates, at.gates + 3 * n, count));
        let c_prev = load::<S>(p.c_prev, at.state, count);
        let c = S::fma(f, c_prev, S::mul(i, g));
        if p.save {
            store::<S>(p.gates, at.gates, count, i);
            store::<S>(p.gates, at.gates + n, count, f);
            store::<S>(p.gates, at.gates + 2 * n, count, g);
            store::<S>(p.gates, at.gates + 3 * n, count, o);
        }
        store::<S>(p.c, at.state, count, c);
        store::<S>(p.h, at.state, count, S::mul(o, tanh::<S>(c)));
    }

    #[inline(always)]
    unsafe fn backward<S: Simd>(p: &CellBackward, at: At) {
        let (n, count) = (p.units, at.count);
        let i = load::<S>(p.gates, at.gates, count);
        let f = load::<S>(p.gates, at.gates + n, count);
        let g = load::<S>(p.gates, at.gates + 2 * n, count);
        let o = load::<S>(p.gates, at.gates + 3 * n, count);
        let dh = load::<S>(p.dh, at.state, count);
        let tanh_c = tanh::<S>(load::<S>(p.c, at.state, count));
        let c_prev = load::<S>(p.c_prev, at.state, count);

        let carry = load::<S>(p.carry, at.state, count);
        let dc = S::fma(S::mul(dh, o), one_minus_square::<S>(tanh_c), carry);
        let di = S::mul(S::mul(dc, g), logistic_slope::<S>(i));
        let df = S::mul(S::mul(dc, c_prev), logistic_slope::<S>(f));
        let dg = S::mul(S::mul(dc, i), one_minus_square::<S>(g));
        let d_o = S::mul(S::mul(dh, tanh_c), logistic_slope::<S>(o));
        store::<S>(p.gates, at.gates, count, di);
        store::<S>(p.gates, at.gates + n, count, df);
        store::<S>(p.gates, at.gates + 2 * n, count, dg);
        store::<S>(p.gates, at.gates + 3 * n, count, d_o);
        store::<S>(p.carry, at.state, count, S::mul(dc, f));
    }
}

/// `r, z = sigmoid;  n = tanh(x_n + r h_n);  h = (1 - z) n + z h'`. Columns r, z, n, h_n: the
/// recurrent part of the candidate stands apart, because r multiplies it alone.
pub struct Gru;

// SAFETY: touches `count` floats at the offsets of `At` only.
unsafe impl CellKernel for Gru {
    const COLUMNS: usize = 4;

    #[inline(always)]
    unsafe fn forward<S: Simd>(p: &CellForward, at: At) {
        let (n, count) = (p.units, at.count);
        let r = sigmoid::<S>(load::<S>(p.gates, at.gates, count));
        let z = sigmoid::<S>(load::<S>(p.gates, at.gates + n, count));
        let input = load::<S>(p.gates, at.gates + 2 * n, count);
        let recurrent = load::<S>(p.gates, at.gates + 3 * n, count);
        let new = tanh::<S>(S::fma(r, recurrent, input));
        let h_prev = load::<S>(p.h_prev, at.state, count);
        if p.save {
            store::<S>(p.gates, at.gates, count, r);
            store::<S>(p.gates, at.gates + n, count, z);
            store::<S>(p.gates, at.gates + 2 * n, count, new);
        }
        store::<S>(p.h, at.state, count, S::fma(z, S::sub(h_prev, new), new));
    }

    #[inline(always)]
    unsafe fn backward<S: Simd>(p: &CellBackward, at: At) {
        let (n, count) = (p.units, at.count);
        let r = load::<S>(p.gates, at.gates, count);
        let z = load::<S>(p.gates, at.gates + n, count);
        let new = load::<S>(p.gates, at.gates + 2 * n, count);
        let recurrent = load::<S>(p.gates, at.gates + 3 * n, count);
        let h_prev = load::<S>(p.h_prev, at.state, count);
        let carry = load::<S>(p.carry, at.state, count);
        let dh = S::add(load::<S>(p.dh, at.state, count), carry);

        let dz = S::mul(S::mul(dh, S::sub(h_prev, new)), logistic_slope::<S>(z));
        let dn = S::mul(S::mul(dh, S::sub(S::splat(1.0), z)), one_minus_square::<S>(new));
        let dr = S::mul(S::mul(dn, recurrent), logistic_slope::<S>(r));
        store::<S>(p.gates, at.gates, count, dr);
        store::<S>(p.gates, at.gates + n, count, dz);
        store::<S>(p.gates, at.gates + 2 * n, count, dn);
        store::<S>(p.gates, at.gates + 3 * n, count, S::mul(dn, r));
        store::<S>(p.carry, at.state, count, S::mul(dh, z));
    }
}

/// `z = sigmoid;  n = tanh;  h = (1 - z) n + z h'`, where r has already multiplied h ([`Reset`]).
/// Columns r, z, n, r h'.
pub struct GruResetBefore;

// SAFETY: touches `count` floats at the offsets of `At` only.
unsafe impl CellKernel for GruResetBefore {
    const COLUMNS: usize = 4;

    #[inline(always)]
    unsafe fn forward<S: Simd>(p: &CellForward, at: At) {
        let (n, count) = (p.units, at.count);
        let z = sigmoid::<S>(load::<S>(p.gates, at.gates + n, count));
        let new = tanh::<S>(load::<S>(p.gates, at.gates + 2 * n, count));
        let h_prev = load::<S>(p.h_prev, at.state, count);
        if p.save {
            store::<S>(p.gates, at.gates + n, count, z);
            store::<S>(p.gates, at.gates + 2 * n, count, new);
        }
        store::<S>(p.h, at.state, count, S::fma(z, S::sub(h_prev, new), new));
    }

    #[inline(always)]
    unsafe fn backward<S: Simd>(p: &CellBackward, at: At) {
        let (n, count) = (p.units, at.count);
        let z = load::<S>(p.gates, at.gates + n, count);
        let new = load::<S>(p.gates, at.gates + 2 * n, count);
        let h_prev = load::<S>(p.h_prev, at.state, count);
        let carry = load::<S>(p.carry, at.state, count);
        let dh = S::add(load::<S>(p.dh, at.state, count), carry);

        let dz = S::mul(S::mul(dh, S::sub(h_prev, new)), logistic_slope::<S>(z));
        let dn = S::mul(S::mul(dh, S::sub(S::splat(1.0), z)), one_minus_square::<S>(new));
        store::<S>(p.gates, at.gates + n, count, dz);
        store::<S>(p.gates, at.gates + 2 * n, count, dn);
        store::<S>(p.carry, at.state, count, S::mul(dh, z));
    }
}

/// The step's first half of a [`GruResetBefore`]: `r = sigmoid`, and `r h'` into its column. Backward it
/// comes last: `dh` is the gradient of `r h'`.
pub struct Reset;

// SAFETY: touches `count` floats at the offsets of `At` only.
unsafe impl CellKernel for Reset {
    const COLUMNS: usize = 4;

    #[inline(always)]
    unsafe fn forward<S: Simd>(p: &CellForward, at: At) {
        let (n, count) = (p.units, at.count);
        let r = sigmoid::<S>(load::<S>(p.gates, at.gates, count));
        let h_prev = load::<S>(p.h_prev, at.state, count);
        if p.save {
            store::<S>(p.gates, at.gates, count, r);
        }
        store::<S>(p.gates, at.gates + 3 * n, count, S::mul(r, h_prev));
    }

    #[inline(always)]
    unsafe fn backward<S: Simd>(p: &CellBackward, at: At) {
        let count = at.count;
        let r = load::<S>(p.gates, at.gates, count);
        let h_prev = load::<S>(p.h_prev, at.state, count);
        let d = load::<S>(p.dh, at.state, count);
        let carry = load::<S>(p.carry, at.state, count);
        store::<S>(p.gates, at.gates, count, S::mul(S::mul(d, h_prev), logistic_slope::<S>(r)));
        store::<S>(p.carry, at.state, count, S::fma(d, r, carry));
    }
}

/// `h = tanh(a)`. One column.
pub struct RnnTanh;

// SAFETY: touches `count` floats at the offsets of `At` only.
unsafe impl CellKernel for RnnTanh {
    const COLUMNS: usize = 1;

    #[inline(always)]
    unsafe fn forward<S: Simd>(p: &CellForward, at: At) {
        let a = load::<S>(p.gates, at.gates, at.count);
        store::<S>(p.h, at.state, at.count, tanh::<S>(a));
    }

    #[inline(always)]
    unsafe fn backward<S: Simd>(p: &CellBackward, at: At) {
        let h = load::<S>(p.h, at.state, at.count);
        let dh = load::<S>(p.dh, at.state, at.count);
        store::<S>(p.gates, at.gates, at.count, S::mul(dh, one_minus_square::<S>(h)));
    }
}

/// `h = max(a, 0)`. One column.
pub struct RnnRelu;

// SAFETY: touches `count` floats at the offsets of `At` only.
unsafe impl CellKernel for RnnRelu {
    const COLUMNS: usize = 1;

    #[inline(always)]
    unsafe fn forward<S: Simd>(p: &CellForward, at: At) {
        let a = load::<S>(p.gates, at.gates, at.count);
        // Zero first: then a NaN in `a` is what `max` returns.
        store::<S>(p.h, at.state, at.count, S::max(S::splat(0.0), a));
    }

    #[inline(always)]
    unsafe fn backward<S: Simd>(p: &CellBackward, at: At) {
        let h = load::<S>(p.h, at.state, at.count);
        let dh = load::<S>(p.dh, at.state, at.count);
        store::<S>(p.gates, at.gates, at.count, S::where_positive(h, dh));
    }
}

#[cfg(test)]
mod tests {
    use super::super::dispatch::all_kernels;
    use super::*;
    use crate::spec::Cell;

    /// `(sigmoid(x), tanh(x))`, by way of an LSTM whose other gates are known: with `g = 0` the new c
    /// is `f c'`, and `tanh` is what an RNN does.
    fn functions(kernels: &super::super::dispatch::Kernels, x: f32) -> (f32, f32) {
        let (mut gates, mut c, mut h) = ([0.0, x, 0.0, 0.0], 1.0f32, 0.0f32);
        let mut a = x;
        let mut p = CellForward {
            rows: 1,
            units: 1,
            from: 0,
            to: 1,
            gates: gates.as_mut_ptr(),
            save: false,
            h_prev: &raw const h,
            c_prev: &raw const c,
            c: &raw mut c,
            h: &raw mut h,
        };
        // SAFETY: one row of one unit everywhere.
        unsafe {
            kernels.forward(Cell::Lstm)(&p);
            p.gates = &raw mut a;
            kernels.forward(Cell::RnnTanh)(&p);
            (*p.c, *p.h)
        }
    }

    #[test]
    fn gate_functions_are_accurate_and_saturate_on_every_instruction_set() {
        for kernels in all_kernels() {
            for i in -4000..=4000 {
                let x = i as f32 * 1e-2;
                let (s, t) = functions(kernels, x);
                let x = f64::from(x);
                let (s0, t0) = (1.0 / (1.0 + (-x).exp()), x.tanh());
                let tolerance = 3e-7 + x.abs() * 1e-7 * (1.0 - s0);
                assert!((f64::from(s) - s0).abs() <= tolerance * s0, "{} {x}", kernels.set);
                assert!((f64::from(t) - t0).abs() <= 3e-7 * t0.abs(), "{} {x}", kernels.set);
            }
            for (x, s, t) in [(1e30, 1.0, 1.0), (f32::INFINITY, 1.0, 1.0), (-1e30, 0.0, -1.0)] {
                let (s1, t1) = functions(kernels, x);
                assert!((s1 - s).abs() < 1e-30 && t1 == t, "{} {x}: {s1} {t1}", kernels.set);
            }
            let (s, t) = functions(kernels, f32::NAN);
            assert!(s.is_nan() && t.is_nan(), "{}", kernels.set);
        }
    }
}
