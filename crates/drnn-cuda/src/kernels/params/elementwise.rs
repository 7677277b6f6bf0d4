//! Parameters of `elementwise/*.cu`: cells, embeddings, losses, selected rows, f16 conversions.

use super::{Header, Uint4, params};

params! {
    /// `gates` (B, 4n), biases (4n), `c_before` and `c` (B, n), `h` (B, n) with rows `h_stride`
    /// apart.
    LstmForward for "lstm_forward" {
        gates: *mut f32,
        bias_ih: *const f32,
        bias_hh: *const f32,
        c_before: *const f32,
        c: *mut f32,
        h: *mut f32,
        /// Steps of each row's sequence, (B).
        run: *const u32,
        h_stride: u32,
        step: u32,
        rows: u32,
        n: u32,
    }

    /// `gates` become their gradients; `d_c` is read for step s + 1 and written for step s - 1, and
    /// `d_h` too if the sequence begins with given states.
    LstmBackward for "lstm_backward" {
        gates: *mut f32,
        d_above: *const f32,
        d_h: *mut f32,
        d_c: *mut f32,
        c_before: *const f32,
        c: *const f32,
        run: *const u32,
        d_stride: u32,
        step: u32,
        rows: u32,
        n: u32,
    }

    /// `gates` (B, 3n), `from_h` (B, n).
    GruForward for "gru_forward" {
        gates: *mut f32,
        from_h: *mut f32,
        bias_ih: *const f32,
        bias_hh: *const f32,
        h_before: *const f32,
        h: *mut f32,
        run: *const u32,
        h_stride: u32,
        step: u32,
        rows: u32,
        n: u32,
    }

    /// `gates` and `from_h` become their gradients; `d_h` is read for step s + 1 and written for s
    /// - 1.
    GruBackward for "gru_backward" {
        gates: *mut f32,
        from_h: *mut f32,
        d_above: *const f32,
        d_h: *mut f32,
        h_before: *const f32,
        run: *const u32,
        d_stride: u32,
        h_stride: u32,
        step: u32,
        rows: u32,
        n: u32,
    }

    /// `gates` (B, n).
    RnnForward for "rnn_forward" {
        gates: *const f32,
        bias_ih: *const f32,
        bias_hh: *const f32,
        h: *mut f32,
        run: *const u32,
        h_stride: u32,
        relu: u32,
        step: u32,
        rows: u32,
        n: u32,
    }

    /// `gates` receive their gradients. `d_h` as for an LSTM.
    RnnBackward for "rnn_backward" {
        gates: *mut f32,
        h: *const f32,
        d_above: *const f32,
        d_h: *mut f32,
        run: *const u32,
        h_stride: u32,
        d_stride: u32,
        relu: u32,
        step: u32,
        rows: u32,
        n: u32,
    }

    /// `to_x` (steps, rows, q) and `to_y` (outputs, rows, m) from `x` (elements, q) and `y` (elements,
    /// m); `parts` (rows) say where each row lies.
    TakeBatch for "take_batch" {
        /// Words.
        header: *const u32,
        /// 4 words each.
        parts: *const u32,
        x: *const f32,
        y: *const u32,
        to_header: *mut u32,
        to_run: *mut u32,
        to_x: *mut u32,
        to_y: *mut u32,
        steps: u32,
        outputs: u32,
        rows: u32,
        q: u32,
        m: u32,
        /// What does not count: no class, or NaN.
        absent: u32,
    }

    /// `x` (slots, e) from `table` (symbols, e).
    Embed for "embed" {
        tokens: *const u32,
        table: *const f32,
        x: *mut f32,
        slots: u32,
        e: u32,
    }

    /// `d_table` (symbols, e): grid (symbols, e).
    EmbedBackward for "embed_backward" {
        starts: *const u32,
        by_symbol: *const u32,
        d_x: *const f32,
        d_table: *mut f32,
        e: u32,
    }

    /// `outputs` (positions, m), in place.
    AddOutputBias for "add_output_bias" {
        outputs: *mut f32,
        bias: *const f32,
        run: *const u32,
        delay: u32,
        rows: u32,
        positions: u32,
        m: u32,
    }

    /// `classes` (positions); `losses` and `hits` one per position.
    CrossEntropy for "cross_entropy" {
        header: *const Header,
        outputs: *const f32,
        classes: *const u32,
        d_outputs: *mut f32,
        losses: *mut f32,
        hits: *mut u32,
        positions: u32,
        m: u32,
    }

    /// The same with a weight in the gradient for each position instead of the header's.
    WeightedCrossEntropy for "weighted_cross_entropy" {
        weights: *const f32,
        outputs: *const f32,
        classes: *const u32,
        d_outputs: *mut f32,
        losses: *mut f32,
        hits: *mut u32,
        positions: u32,
        m: u32,
    }

    /// `targets` (positions, m); `losses` and `hits` one per position.
    SquaredError for "squared_error" {
        header: *const Header,
        outputs: *const f32,
        targets: *const f32,
        d_outputs: *mut f32,
        losses: *mut f32,
        hits: *mut u32,
        positions: u32,
        m: u32,
    }

    /// `to` (count, width): rows `places` of `h`.
    Gather for "gather" {
        h: *const f32,
        places: *const u32,
        to: *mut f32,
        count: u32,
        width: u32,
    }

    /// The same for f16, 8 at a time.
    GatherHalf for "gather_half" {
        h: *const Uint4,
        places: *const u32,
        to: *mut Uint4,
        count: u32,
        width: u32,
    }

    /// Rows of `from` (count, width) to rows `places` of dH, which has `rows` rows fewer than H.
    Scatter for "scatter" {
        from: *const f32,
        places: *const u32,
        to: *mut f32,
        rows: u32,
        count: u32,
        width: u32,
    }

    /// The same for f16, 8 at a time.
    ScatterHalf for "scatter_half" {
        from: *const Uint4,
        places: *const u32,
        to: *mut Uint4,
        rows: u32,
        count: u32,
        width: u32,
    }

    /// `to` (padded, per_unit, stride) f16 from `from` (gates n, columns).
    PackWeights for "pack_weights" {
        from: *const f32,
        to: *mut u16,
        slots: u32,
        per_unit: u32,
        n: u32,
        padded: u32,
        columns: u32,
        below: u32,
        padded_below: u32,
        stride: u32,
    }

    /// `to` (gates n, columns) from `from` (padded, per_unit, stride).
    UnpackGradient for "unpack_gradient" {
        header: *const Header,
        from: *const f32,
        to: *mut f32,
        by_gate: u32,
        per_unit: u32,
        gates: u32,
        n: u32,
        columns: u32,
        below: u32,
        padded_below: u32,
        stride: u32,
    }

    /// `from` (groups, padded, 4) to `b_ih` and `b_hh` (gates n).
    UnpackBias for "unpack_bias" {
        header: *const Header,
        from: *const f32,
        b_ih: *mut f32,
        b_hh: *mut f32,
        by_gate_ih: u32,
        by_gate_hh: u32,
        gates: u32,
        n: u32,
        padded: u32,
        groups: u32,
    }

    /// `to` (rows, stride) f16 from `from` (rows, columns); scaled if `header` is not null.
    ToHalf for "to_half" {
        header: *const Header,
        from: *const f32,
        to: *mut u16,
        rows: u32,
        columns: u32,
        stride: u32,
    }

    /// Undoes the loss scaling of `values`, in place.
    Unscale for "unscale" {
        header: *const Header,
        values: *mut f32,
        count: u32,
    }

    /// `table` (symbols, padded, 4) f16 from `embeddings` (symbols, e) and `w_ih` (gates n, e).
    SymbolTable for "symbol_table" {
        embeddings: *const f32,
        w_ih: *const f32,
        table: *mut u16,
        slots: u32,
        symbols: u32,
        e: u32,
        n: u32,
        padded: u32,
    }

    /// `to` (slots, stride) f16.
    OneHot for "one_hot" {
        tokens: *const u32,
        to: *mut u16,
        slots: u32,
        stride: u32,
    }

    /// `d_w_ih` (gates n, e) from `d_table` (padded, 4, stride).
    TableToWeights for "table_to_weights" {
        header: *const Header,
        d_table: *const f32,
        embeddings: *const f32,
        d_w_ih: *mut f32,
        by_gate: u32,
        gates: u32,
        symbols: u32,
        e: u32,
        n: u32,
        stride: u32,
    }

    /// `partial` (chunks, symbols, e): grid (chunks, e).
    TableToPartials for "table_to_partials" {
        d_table: *const f32,
        w_ih: *const f32,
        partial: *mut f32,
        by_gate: u32,
        gates: u32,
        symbols: u32,
        e: u32,
        n: u32,
        stride: u32,
    }

    /// `d_embeddings` (count) from `partial` (chunks, count).
    PartialsToEmbeddings for "partials_to_embeddings" {
        header: *const Header,
        partial: *const f32,
        d_embeddings: *mut f32,
        count: u32,
        chunks: u32,
        add: u32,
    }

    /// `outputs` (positions, m) from `from`, rows `stride` apart.
    AddOutputBiasPadded for "add_output_bias_padded" {
        from: *const f32,
        outputs: *mut f32,
        bias: *const f32,
        run: *const u32,
        delay: u32,
        rows: u32,
        positions: u32,
        m: u32,
        stride: u32,
    }
}
