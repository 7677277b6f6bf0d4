//! Parameters of `recurrence/*.cu`: arrays of callers of [`crate::Recurrence`].
//!
//! `format` is that of [`crate::Format`]. `run` (B) has the steps of each row's sequence.

use super::{Header, Uint4, Values, params};

params! {
    /// `run` (B): the lengths in one of both arrays, at most `steps`; without lengths, `steps`. `x`
    /// (S, B, width) in some format, f32 in `to` or f16 in `to_half` (S, B, stride), zeros after each
    /// sequence's end. `no_bias`: zeros for biases that are not there. `words` of the h exchange
    /// that no step has written yet, and which of its buffers is in use, unless null.
    BeginForward for "begin_forward" {
        lengths32: *const u32,
        lengths64: *const u64,
        run: *mut u32,
        x: *const Values,
        to: *mut f32,
        to_half: *mut u16,
        no_bias: *mut f32,
        exchange: *mut Uint4,
        parity: *mut u32,
        words: u64,
        format: u32,
        steps: u32,
        rows: u32,
        width: u32,
        stride: u32,
        biases: u32,
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

    /// From `h`, all layers, (S + 2, B, stride) each, of which `n` columns of each `padded` are
    /// units: `y` (S, B, directions n) of the last layer in some format, zeros after each sequence's
    /// end, and `last` (layers, directions, B, n), unless null.
    EndForwardHalf for "end_forward_half" {
        h: *const u16,
        y: *mut Values,
        last: *mut f32,
        run: *const u32,
        layer_stride: u64,
        format: u32,
        steps: u32,
        rows: u32,
        layers: u32,
        directions: u32,
        n: u32,
        padded: u32,
        stride: u32,
    }

    /// `largest` (blocks): the bits of the largest finite magnitudes of `d_y` (positions, width) up to
    /// each sequence's end and of `states` values of `d_h` and `d_c`, unless null.
    Largest for "largest" {
        d_y: *const Values,
        d_h: *const f32,
        d_c: *const f32,
        run: *const u32,
        largest: *mut u32,
        states: u64,
        format: u32,
        rows: u32,
        positions: u32,
        width: u32,
    }

    /// The scale of gradients from the largest magnitudes of what is given, `count` of them.
    SetScale for "set_scale" {
        largest: *const u32,
        header: *mut Header,
        count: u32,
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
