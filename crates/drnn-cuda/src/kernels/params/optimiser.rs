//! Parameters of `optimiser/*.cu`: reductions and Adam.

use super::{Coefficients, Header, Totals, params};

params! {
    /// `partial` (blocks, 2) from `losses` and `hits` (positions).
    SumLosses for "sum_losses" {
        losses: *const f32,
        hits: *const u32,
        partial: *mut f64,
        positions: u32,
    }

    /// `partial` (blocks).
    SumSquares for "sum_squares" {
        values: *const f32,
        partial: *mut f64,
        count: u32,
    }

    /// `partial` (chunks, columns) from `values` (rows, columns): grid (columns / 32, chunks).
    SumColumns for "sum_columns" {
        values: *const f32,
        partial: *mut f32,
        rows: u32,
        columns: u32,
    }

    /// `sums` (columns), and the same in `copy` unless it is null.
    SumChunks for "sum_chunks" {
        partial: *const f32,
        sums: *mut f32,
        copy: *mut f32,
        chunks: u32,
        columns: u32,
    }

    /// `squares` (256) and `losses` (64, 2): partial sums.
    Finish for "finish" {
        header: *const Header,
        squares: *const f64,
        losses: *const f64,
        totals: *mut Totals,
        coefficients: *mut Coefficients,
        beta1: f32,
        beta2: f32,
    }

    /// All arrays (count).
    AdamStep for "adam" {
        coefficients: *const Coefficients,
        gradient: *const f32,
        params: *mut f32,
        mean: *mut f32,
        square: *mut f32,
        beta1: f32,
        beta2: f32,
        eps: f32,
        count: u32,
    }
}
