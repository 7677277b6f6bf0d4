//! Parameters of `recurrence/*.cu`: arrays of callers of [`crate::Recurrence`].
//!
//! `format` is that of [`crate::Format`]. `run` (B) has the steps of each row's sequence.

use super::{Header, Values, params};

params! {
    /// `run` (B): the lengths in one of both arrays, at most `steps`; without lengths, `steps`.
    CountSteps for "count_steps" {
        lengths32: *const u32,
        lengths64: *const u64,
        run: *mut u32,
        steps: u32,
        rows: u32,
    }

    /// `to` (positions, width) f32 from `from` in some format; zeros after each sequence's end.
    ReadValues for "read_values" {
        from: *const Values,
        to: *mut f32,
        run: *const u32,
        format: u32,
        rows: u32,
        positions: u32,
        width: u32,
    }

    /// `to` (positions, stride) f16: `below` columns become `padded_below`. Divided by the scale
    /// unless `header` is null.
    ReadValuesHalf for "read_values_half" {
        header: *const Header,
        from: *const Values,
        to: *mut u16,
        run: *const u32,
        format: u32,
        rows: u32,
        positions: u32,
        width: u32,
        below: u32,
        padded_below: u32,
        stride: u32,
    }

    /// `to` (positions, width) in some format from `from` f32, rows `stride` apart; zeros after
    /// each sequence's end. Multiplied by the scale unless `header` is null.
    WriteValues for "write_values" {
        header: *const Header,
        from: *const f32,
        to: *mut Values,
        run: *const u32,
        format: u32,
        rows: u32,
        positions: u32,
        width: u32,
        stride: u32,
    }

    /// `to` (positions, width) in some format from states (positions, stride) f16, of which `n`
    /// columns of each `padded` are units.
    WriteStatesHalf for "write_states_half" {
        from: *const u16,
        to: *mut Values,
        run: *const u32,
        format: u32,
        rows: u32,
        positions: u32,
        width: u32,
        n: u32,
        padded: u32,
        stride: u32,
    }

    /// The bits of the largest finite magnitude of `values` (positions, width) up to each sequence's end,
    /// all if `run` is null, unless `largest` is larger already.
    Largest for "largest" {
        values: *const Values,
        run: *const u32,
        largest: *mut u32,
        format: u32,
        rows: u32,
        positions: u32,
        width: u32,
    }

    /// The scale of gradients from the largest magnitude of what is given.
    SetScale for "set_scale" {
        largest: *const u32,
        header: *mut Header,
    }

    /// States of one direction, `to` (S + 2, B, n) with rows `stride` apart, where no step writes
    /// them: the `given` ones (B, n), zeros if null, or zeros.
    PlaceStates for "place_states" {
        given: *const f32,
        to: *mut f32,
        run: *const u32,
        reverse: u32,
        steps: u32,
        rows: u32,
        n: u32,
        stride: u32,
    }

    /// `to` (B, n): the states after each sequence's last step, of one direction.
    LastStates for "last_states" {
        from: *const f32,
        to: *mut f32,
        run: *const u32,
        reverse: u32,
        rows: u32,
        n: u32,
        stride: u32,
    }

    /// The same from f16.
    LastStatesHalf for "last_states_half" {
        from: *const u16,
        to: *mut f32,
        run: *const u32,
        reverse: u32,
        rows: u32,
        n: u32,
        stride: u32,
    }

    /// Given states (lanes, B, n), zeros if null, to both ends of `h` (S + 2, B, width) and, with
    /// `save`, of `c` (S + 2, B, padded), and to the place after the last step of the h exchange,
    /// (lanes groups, padded / 8, block_rows, 8). Strides are f16 from one lane to the next.
    PlaceStatesHalf for "place_states_half" {
        first_h: *const f32,
        /// Of cells without one, those of h.
        first_c: *const f32,
        h: *mut u16,
        c: *mut u16,
        exchange: *mut u16,
        h_stride: u64,
        c_stride: u64,
        width: u32,
        lanes: u32,
        groups: u32,
        block_rows: u32,
        first_row: u32,
        steps: u32,
        rows: u32,
        n: u32,
        padded: u32,
        save: u32,
    }
}
