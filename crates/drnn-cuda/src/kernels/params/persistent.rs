//! Parameters of `persistent/*.cu`: recurrences spread over many multiprocessors.

use super::{Header, Uint4, params};

params! {
    /// `to` (blocks, k-steps, 2, 128) and `bias` (padded, 4) of one lane.
    PackForward for "pack_forward" {
        w_ih: *const f32,
        w_hh: *const f32,
        b_ih: *const f32,
        b_hh: *const f32,
        to: *mut Uint4,
        bias: *mut f32,
        slots_ih: u32,
        slots_hh: u32,
        n: u32,
        /// Units of each direction below that are multiplied too; 0 for none.
        below: u32,
        padded: u32,
        segments: u32,
        /// K-steps whose weights stay in registers.
        in_registers: u32,
        /// Units of a block, 32 or 16.
        units: u32,
    }

    /// `to` (blocks, segments tiles, 2, 8, 128) of one lane.
    PackBackward for "pack_backward" {
        w_ih: *const f32,
        w_hh: *const f32,
        to: *mut Uint4,
        slots_ih: u32,
        slots_hh: u32,
        n: u32,
        below: u32,
        padded: u32,
        segments: u32,
        tiles: u32,
        /// Tiles whose weights stay in registers.
        in_registers: u32,
        /// Units of a block, 32 or 16.
        units: u32,
    }

    /// `forward` (4, padded / 16, 2 padded), `backward` (padded / 4, 2 padded) and `bias` (padded,
    /// 4) of one lane, or null; biases are null without `bias`.
    PackSingleBlock for "pack_single_block" {
        w_hh: *const f32,
        b_ih: *const f32,
        b_hh: *const f32,
        forward: *mut Uint4,
        backward: *mut Uint4,
        bias: *mut f32,
        slots_ih: u32,
        slots_hh: u32,
        n: u32,
        padded: u32,
    }

    /// `bias` (padded, 4) of one lane.
    PackBias for "pack_bias" {
        b_ih: *const f32,
        b_hh: *const f32,
        bias: *mut f32,
        slots_ih: u32,
        slots_hh: u32,
        n: u32,
        padded: u32,
    }

    /// One step of a lane; `sums` (B, padded, 4), `state` (B, padded). Null: `sums` of zeros,
    /// `tokens` without a table, `first` and `last` that are zero or not wanted, (B, n).
    SlotsForward for "slots_forward" {
        sums: *const f32,
        bias: *const f32,
        gates: *mut u16,
        table: *const u16,
        tokens: *const u32,
        state: *mut f32,
        first: *const f32,
        last: *mut f32,
        h_before: *const u16,
        h: *mut u16,
        c: *mut u16,
        /// Steps of each row's sequence, (B).
        run: *const u32,
        step: u32,
        /// Whether it is the first that is computed.
        begins: u32,
        from_states: u32,
        reverse: u32,
        symbols: u32,
        /// Of a row of H.
        width: u32,
        rows: u32,
        n: u32,
        padded: u32,
        save: u32,
    }

    /// One step of a lane; `d_h`, `d_state` (B, padded). Gradients of states are (B, n), or null,
    /// and not scaled.
    SlotsBackward for "slots_backward" {
        header: *const Header,
        gates: *mut u16,
        c_now: *const u16,
        c_before: *const u16,
        d_above: *const u16,
        /// Null in the step that is computed first.
        d_h: *const f32,
        d_state: *mut f32,
        d_last_h: *const f32,
        d_last_c: *const f32,
        d_first_h: *mut f32,
        run: *const u32,
        step: u32,
        begins: u32,
        from_states: u32,
        reverse: u32,
        /// Of a row of `d_above`.
        width: u32,
        rows: u32,
        n: u32,
        padded: u32,
    }

    FirstGradients for "first_gradients" {
        header: *const Header,
        d_h: *const f32,
        d_state: *const f32,
        d_last_h: *const f32,
        d_first_h: *mut f32,
        d_first_c: *mut f32,
        run: *const u32,
        reverse: u32,
        steps: u32,
        rows: u32,
        n: u32,
        padded: u32,
    }

    /// `from` (positions, padded, 4), `to` (chunks, padded, 4).
    SumSlots for "sum_slots" {
        from: *const u16,
        to: *mut f32,
        positions: u32,
        padded: u32,
    }

    /// The exchange's two buffers, `count` times 16 bytes each; `parity` says which is in use.
    ResetExchange for "reset_exchange" {
        even: *mut Uint4,
        odd: *mut Uint4,
        parity: *const u32,
        count: u32,
    }

    FlipExchange for "flip_exchange" {
        parity: *mut u32,
    }
}

/// Declares the parameters of a persistent kernel, and those of the same kernel for sequences that
/// begin with given states, which has more fields.
macro_rules! with_states {
    (
        $(#[$doc:meta])*
        $name:ident for $kernel:literal { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }
        $(#[$more_doc:meta])*
        $more:ident for $more_kernel:literal {
            $($(#[$own_doc:meta])* $own:ident: $own_type:ty,)*
        }
    ) => {
        params! {
            $(#[$doc])*
            $name for $kernel { $($(#[$field_doc])* $field: $type,)* }

            $(#[$more_doc])*
            $more for $more_kernel {
                $($field: $type,)*
                $($(#[$own_doc])* $own: $own_type,)*
            }
        }

        impl $name {
            /// The same with states.
            pub fn with_states(self, $($own: $own_type),*) -> $more {
                $more { $($field: self.$field,)* $($own,)* }
            }
        }
    };
}

with_states! {
    /// Shapes as in `persistent/forward.cu`. Strides are f16 from one lane to the next.
    PersistentForward for "persistent_forward" {
        packed: *const Uint4,
        bias: *const f32,
        gates: *mut u16,
        table: *const u16,
        /// Null without a table.
        tokens: *const u32,
        c: *mut u16,
        h: *mut u16,
        h_exchange_even: *mut u16,
        h_exchange_odd: *mut u16,
        below_even: *const u16,
        below_odd: *const u16,
        parity: *const u32,
        /// Steps of each row's sequence, (B).
        run: *const u32,
        gates_stride: u64,
        c_stride: u64,
        h_stride: u64,
        symbols: u32,
        /// Of a row of H.
        width: u32,
        lanes: u32,
        groups: u32,
        first_row: u32,
        steps: u32,
        rows: u32,
        /// Whether gates and c are saved for backward.
        save: u32,
    }

    /// States of the cell (c of an LSTM, h of others) are (lanes, B, n), or null. First states are
    /// at both ends of `h` and `c` too, and those of h in the exchange, after its last step.
    PersistentForwardFromStates for "persistent_forward_from_states" {
        first: *const f32,
        last: *mut f32,
        n: u32,
    }
}

with_states! {
    /// Shapes as in `persistent/backward.cu`. Strides are f16 from one lane to the next.
    PersistentBackward for "persistent_backward" {
        packed: *const Uint4,
        gates: *mut u16,
        c: *const u16,
        d_above: *const u16,
        dh_partials: *mut u16,
        read_counts: *mut u32,
        d_bias: *mut f32,
        run: *const u32,
        gates_stride: u64,
        c_stride: u64,
        /// Of a row of `d_above`.
        width: u32,
        lanes: u32,
        groups: u32,
        first_row: u32,
        first_group: u32,
        all_groups: u32,
        steps: u32,
        rows: u32,
    }

    /// Gradients of states are (lanes, B, n), or null; those in device memory are not scaled.
    PersistentBackwardFromStates for "persistent_backward_from_states" {
        header: *const Header,
        d_last_h: *const f32,
        d_last_c: *const f32,
        d_first_h: *mut f32,
        d_first_c: *mut f32,
        n: u32,
    }
}
