//! Parameters of `resident/resident.cu`: all steps of a small LSTM in one launch.

use super::{Header, params};

params! {
    /// `gates` (S, B, 4n), `c` (S + 2, B, n), `h` (S + 2, B, n) with rows `h_stride` apart.
    ResidentForward for "resident_forward" {
        gates: *mut f32,
        w_hh: *const f32,
        bias_ih: *const f32,
        bias_hh: *const f32,
        c: *mut f32,
        h: *mut f32,
        /// Steps of each row's sequence, (B).
        run: *const u32,
        h_stride: u32,
        reverse: u32,
        steps: u32,
        rows: u32,
        n: u32,
    }

    /// `gates` become their gradients. `d_above` (S, B, n) with rows `d_stride` apart.
    ResidentBackward for "resident_backward" {
        header: *const Header,
        gates: *mut f32,
        w_hh: *const f32,
        c: *const f32,
        d_above: *const f32,
        run: *const u32,
        d_stride: u32,
        reverse: u32,
        steps: u32,
        rows: u32,
        n: u32,
    }
}
