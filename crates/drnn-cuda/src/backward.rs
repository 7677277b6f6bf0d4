//! The way back, put into a stream.
//!
//! ```text
//! dh_s = what comes from above + dgates_{s+1} W_hh         then the cell's arithmetic, step by step
//! dW_hh = dgates^T h_{s-1}    dW_ih = dgates^T x    db = sums of dgates    dx = dgates W_ih      for all steps at once
//! ```

use crate::error::Result;
use crate::forward::{Pass, THREADS, matrix};
use crate::memory::Buffer;
use crate::plan::Recurrence;
use crate::product::Form;
use crate::stream::Arg;
use crate::work::CHUNKS;
use drnn::{Cell, InputSpec};

impl Pass<'_> {
    /// From the gradient of the answers to that of all parameters.
    pub fn backward(&self) -> Result<()> {
        self.output_backward()?;
        for layer in (0..self.plan.layers.len()).rev() {
            // Gradients alternate between two places: what a layer was told, and what it tells the one below.
            let told = (self.plan.layers.len() - 1 - layer) % 2;
            for recurrence in &self.plan.layers[layer] {
                self.recurrence_backward(layer, recurrence, &self.work.d_above[told])?;
            }
            if layer > 0 || matches!(self.plan.spec.input(), InputSpec::Tokens { .. }) {
                self.hand_down(layer, &self.work.d_above[1 - told])?;
            }
        }
        let below = &self.work.d_above[self.plan.layers.len() % 2];
        self.embed_backward(below)
    }

    fn output_backward(&self) -> Result<()> {
        let (spec, shape) = (&self.plan.spec, self.shape);
        let (m, width, positions) = (spec.answer_width(), spec.hidden_width(), shape.positions());
        let dropped = spec.delay() * shape.rows * width;
        let (to, d) = (&self.work.d_above[0], matrix(&self.work.d_answers, 0, m));
        self.stream.clear(to, 0, dropped)?;
        let to = matrix(to, dropped, width);
        let Some([weight, bias]) = self.plan.output else {
            return self.stream.copy_within(d.at, to.at, positions * m * size_of::<f32>());
        };
        let w = matrix(&self.state.params, weight, width);
        self.products.plain(Form::Times, [positions, width, m], [d, w], 0.0, to)?;
        let dw = matrix(&self.state.gradient, weight, width);
        self.products.plain(
            Form::TransposedTimes,
            [m, width, positions],
            [d, self.answering()],
            0.0,
            dw,
        )?;
        self.sum_columns(d.at, [positions, m], bias, None)
    }

    fn recurrence_backward(&self, layer: usize, r: &Recurrence, above: &Buffer<f32>) -> Result<()> {
        if let Some(resident) = &self.resident[layer] {
            resident.backward(self, layer, r, above)?;
            return self.weights(layer, r);
        }
        let rows = self.shape.rows;
        self.stream.clear(&self.work.d_h, 0, rows * r.n)?;
        self.stream.clear(&self.work.d_c, 0, rows * r.n)?;
        let order = r.order(self.shape.steps);
        for (taken, &s) in order.iter().enumerate().rev() {
            self.cell_backward(layer, r, s, above)?;
            if taken == 0 {
                break; // the state before the first step is no parameter
            }
            let d_h = matrix(&self.work.d_h, 0, r.n);
            // Only the GRU's cell has left something there.
            let mut beta = if self.plan.cell == Cell::Gru { 1.0 } else { 0.0 };
            for (first, columns, from, stride) in self.recurrent(layer, r) {
                let d = matrix(from, s * rows * stride, stride);
                let w = matrix(&self.state.params, r.w_hh + first * r.n, r.n);
                self.products.plain(Form::Times, [rows, r.n, columns], [d, w], beta, d_h)?;
                beta = 1.0;
            }
        }
        self.weights(layer, r)
    }

    fn cell_backward(
        &self,
        layer: usize,
        r: &Recurrence,
        s: usize,
        above: &Buffer<f32>,
    ) -> Result<()> {
        let (work, h) = (&self.work.recurrences[layer][r.direction], &self.work.h[layer]);
        let (rows, n) = (self.shape.rows, r.n);
        let (before, after) = r.around(s);
        let h_at = |step: usize| Arg::At(h.at(step * rows * r.width + r.direction * n));
        let c_at = |step: usize| Arg::At(work.c.at(step * rows * n));
        let gates = Arg::At(work.gates.at(s * rows * r.gates));
        let d_above = Arg::At(above.at(s * rows * r.width + r.direction * n));
        let (d_h, d_c) = (Arg::At(self.work.d_h.at(0)), Arg::At(self.work.d_c.at(0)));
        let width = Arg::from(r.width);
        let (kernel, args) = match self.plan.cell {
            Cell::Lstm => (
                &self.kernels.lstm_backward,
                vec![gates, d_above, width, d_h, d_c, c_at(before), c_at(after)],
            ),
            Cell::Gru => {
                let from_h = Arg::At(work.from_h.at(s * rows * n));
                let args = vec![gates, from_h, d_above, width, d_h, h_at(before), width];
                (&self.kernels.gru_backward, args)
            }
            Cell::RnnTanh | Cell::RnnRelu => {
                let relu = Arg::U32(u32::from(self.plan.cell == Cell::RnnRelu));
                let args = vec![gates, h_at(after), width, d_above, width, d_h, relu];
                (&self.kernels.rnn_backward, args)
            }
        };
        let end = [self.run(), s.into(), rows.into(), n.into()];
        let args: Vec<Arg> = args.into_iter().chain(end).collect();
        // SAFETY: arguments as the source names them; a thread per row and unit.
        unsafe { kernel.launch(self.stream, [(rows * n).div_ceil(THREADS), 1], THREADS, &args) }
    }

    /// Gradients of a recurrence's parameters.
    fn weights(&self, layer: usize, r: &Recurrence) -> Result<()> {
        let (gradient, rows, slots) = (&self.state.gradient, self.shape.rows, self.shape.slots());
        let work = &self.work.recurrences[layer][r.direction];
        let gates = matrix(&work.gates, 0, r.gates);
        let dw_ih = matrix(gradient, r.w_ih, r.inputs);
        let sizes = [r.gates, r.inputs, slots];
        self.products.plain(
            Form::TransposedTimes,
            sizes,
            [gates, self.input(layer)],
            0.0,
            dw_ih,
        )?;
        // h before every step: one step earlier, or later, in H.
        let (first, _) = r.around(0);
        let at = first * rows * r.width + r.direction * r.n;
        let h_before = matrix(&self.work.h[layer], at, r.width);
        for (first, columns, from, stride) in self.recurrent(layer, r) {
            let dw = matrix(gradient, r.w_hh + first * r.n, r.n);
            let d = matrix(from, 0, stride);
            self.products.plain(
                Form::TransposedTimes,
                [columns, r.n, slots],
                [d, h_before],
                0.0,
                dw,
            )?;
        }
        self.sum_columns(gates.at, [slots, r.gates], r.b_ih, Some(r.b_hh))?;
        if self.plan.cell == Cell::Gru {
            self.sum_columns(work.from_h.at(0), [slots, r.n], r.b_hh + 2 * r.n, None)?;
        }
        Ok(())
    }

    /// What the layer tells the one below, both directions together.
    fn hand_down(&self, layer: usize, to: &Buffer<f32>) -> Result<()> {
        for r in &self.plan.layers[layer] {
            let gates = &self.work.recurrences[layer][r.direction].gates;
            let (gates, w) =
                (matrix(gates, 0, r.gates), matrix(&self.state.params, r.w_ih, r.inputs));
            let to = matrix(to, 0, r.inputs);
            let beta = if r.direction == 0 { 0.0 } else { 1.0 };
            self.products.plain(
                Form::Times,
                [self.shape.slots(), r.inputs, r.gates],
                [gates, w],
                beta,
                to,
            )?;
        }
        Ok(())
    }

    pub fn embed_backward(&self, d_x: &Buffer<f32>) -> Result<()> {
        let InputSpec::Tokens { symbols, embedding } = self.plan.spec.input() else {
            return Ok(());
        };
        let staged = self.staged();
        let args = [
            Arg::At(self.part(staged.starts)),
            Arg::At(self.part(staged.by_symbol)),
            Arg::At(d_x.at(0)),
            Arg::At(self.state.gradient.at(0)), // the first of all parameters
            embedding.into(),
        ];
        // SAFETY: arguments as the source names them; 128 threads is what its shared memory is for.
        unsafe { self.kernels.embed_backward.launch(self.stream, [symbols, embedding], 128, &args) }
    }

    /// Sums over rows into the gradient at `to`, and at `again`.
    pub fn sum_columns(
        &self,
        values: u64,
        [rows, columns]: [usize; 2],
        to: usize,
        again: Option<usize>,
    ) -> Result<()> {
        let (partial, gradient) = (self.work.partial.at(0), &self.state.gradient);
        let chunks = CHUNKS.min(rows.div_ceil(32));
        let again = again.map_or(0, |at| gradient.at(at));
        let first = [Arg::At(values), Arg::At(partial), rows.into(), columns.into()];
        let second = [
            Arg::At(partial),
            Arg::At(gradient.at(to)),
            Arg::At(again),
            chunks.into(),
            columns.into(),
        ];
        let kernels = self.kernels;
        // SAFETY: arguments as the sources name them; 256 threads is what the shared memory is for.
        unsafe {
            kernels.sum_columns.launch(self.stream, [columns.div_ceil(32), chunks], 256, &first)?;
            let blocks = columns.div_ceil(THREADS);
            kernels.sum_chunks.launch(self.stream, [blocks, 1], THREADS, &second)
        }
    }
}
