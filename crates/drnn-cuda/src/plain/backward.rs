//! The backward pass, step by step.
//!
//! ```text
//! dh_s = gradient from above + dgates_{s+1} W_hh      then the cell's arithmetic, step by step
//! dW_hh = dgates^T h_{s-1}   dW_ih = dgates^T x       all steps at once
//! db = sum of dgates         dx = dgates W_ih         all steps at once
//! ```

use super::PlainPass;
use crate::error::Result;
use crate::kernels::params::{GruBackward, LstmBackward, RnnBackward, ptr, size};
use crate::runtime::gemm::Form;
use crate::runtime::memory::Buffer;
use crate::step::pass::matrix;
use crate::step::plan::Recurrence;
use drnn::{Cell, InputSpec};

impl PlainPass<'_> {
    /// Submits everything from the gradient of the outputs to that of all parameters.
    pub fn backward(&self) -> Result<()> {
        self.output_backward()?;
        for layer in (0..self.pass.plan.layers.len()).rev() {
            // Double buffer: the gradient of a layer's output, and that of its input.
            let above = (self.pass.plan.layers.len() - 1 - layer) % 2;
            for recurrence in &self.pass.plan.layers[layer] {
                self.recurrence_backward(layer, recurrence, &self.work.d_above[above])?;
            }
            if layer > 0 || matches!(self.pass.plan.spec.input(), InputSpec::Tokens { .. }) {
                self.input_gradient(layer, &self.work.d_above[1 - above])?;
            }
        }
        let below = &self.work.d_above[self.pass.plan.layers.len() % 2];
        self.pass.embed_backward(below)
    }

    fn output_backward(&self) -> Result<()> {
        let (spec, shape) = (&self.pass.plan.spec, self.pass.shape);
        let (m, width, positions) =
            (spec.output_width(), spec.hidden_width(), shape.computed_outputs());
        let (rows, d_above) = (&self.pass.kernels.rows, &self.work.d_above);
        let (to, d) =
            (self.pass.output_gradient(d_above, width)?, matrix(&self.pass.work.d_outputs, 0, m));
        let Some([weight, bias]) = self.pass.plan.output else {
            self.pass.stream.copy_within(d.at, to.at, positions * m * size_of::<f32>())?;
            return self.pass.scatter(rows, d_above, width);
        };
        let w = self.pass.params.matrix(weight, width);
        self.pass.gemm.f32(Form::Times, [positions, width, m], [d, w], 0.0, to)?;
        let dw = self.pass.gradient.matrix(weight, width);
        self.pass.gemm.f32(
            Form::TransposedTimes,
            [m, width, positions],
            [d, self.output_states()],
            0.0,
            dw,
        )?;
        self.pass.sum_columns(d.at, [positions, m], bias, None)?;
        self.pass.scatter(rows, d_above, width)
    }

    /// All steps of one direction of a layer, and the gradients of its parameters.
    pub fn recurrence_backward(
        &self,
        layer: usize,
        r: &Recurrence,
        above: &Buffer<f32>,
    ) -> Result<()> {
        if let Some(resident) = &self.resident[layer] {
            resident.backward(self, layer, r, above)?;
            return self.weight_gradients(layer, r);
        }
        let rows = self.pass.shape.rows;
        if !self.from_states {
            self.pass.stream.clear(&self.work.d_h, 0, rows * r.n)?;
            self.pass.stream.clear(&self.work.d_c, 0, rows * r.n)?;
        }
        let order = r.order(self.pass.shape.steps);
        for (taken, &s) in order.iter().enumerate().rev() {
            self.cell_backward(layer, r, s, above)?;
            if taken == 0 && !self.from_states {
                break; // the initial state is constant
            }
            let d_h = matrix(&self.work.d_h, 0, r.n);
            // Only the GRU's cell kernel, and those of sequences with given states, write a part of
            // d_h.
            let adds = self.pass.plan.cell == Cell::Gru || self.from_states;
            let mut beta = if adds { 1.0 } else { 0.0 };
            for (first, columns, from, stride) in self.recurrent(layer, r) {
                let d = matrix(from, s * rows * stride, stride);
                let w = self.pass.params.matrix(r.w_hh + first * r.n, r.n);
                self.pass.gemm.f32(Form::Times, [rows, r.n, columns], [d, w], beta, d_h)?;
                beta = 1.0;
            }
        }
        self.weight_gradients(layer, r)
    }

    fn cell_backward(
        &self,
        layer: usize,
        r: &Recurrence,
        s: usize,
        above: &Buffer<f32>,
    ) -> Result<()> {
        let (before, after) = r.around(s);
        let h_at = |step: usize| self.h_at(layer, r, step);
        let c_at = |step: usize| self.c_at(layer, r, step);
        let (gates, run) = (ptr(self.gates_at(layer, r, s)), ptr(self.pass.run()));
        let from_above = s * self.pass.shape.rows * r.width + r.direction * r.n;
        let d_above = ptr(above.at(from_above));
        let (width, step) = (size(r.width), size(s));
        let (rows, n) = (size(self.pass.shape.rows), size(r.n));
        let kernels = self.cells;
        match self.pass.plan.cell {
            Cell::Lstm => {
                let params = LstmBackward {
                    gates,
                    d_above,
                    d_h: ptr(self.work.d_h.at(0)),
                    d_c: ptr(self.work.d_c.at(0)),
                    c_before: ptr(c_at(before)),
                    c: ptr(c_at(after)),
                    run,
                    d_stride: width,
                    step,
                    rows,
                    n,
                };
                self.each_cell(&kernels.lstm_backward, r, &params)
            }
            Cell::Gru => {
                let params = GruBackward {
                    gates,
                    from_h: ptr(self.candidate_at(layer, r, s)),
                    d_above,
                    d_h: ptr(self.work.d_h.at(0)),
                    h_before: ptr(h_at(before)),
                    run,
                    d_stride: width,
                    h_stride: width,
                    step,
                    rows,
                    n,
                };
                self.each_cell(&kernels.gru_backward, r, &params)
            }
            Cell::GruResetBefore => unreachable!("refused by `Plan::new`"),
            Cell::RnnTanh | Cell::RnnRelu => {
                let params = RnnBackward {
                    gates,
                    h: ptr(h_at(after)),
                    d_above,
                    d_h: ptr(self.work.d_h.at(0)),
                    run,
                    h_stride: width,
                    d_stride: width,
                    relu: u32::from(self.pass.plan.cell == Cell::RnnRelu),
                    step,
                    rows,
                    n,
                };
                self.each_cell(&kernels.rnn_backward, r, &params)
            }
        }
    }

    /// Gradients of a recurrence's weights and biases.
    fn weight_gradients(&self, layer: usize, r: &Recurrence) -> Result<()> {
        let (gradient, rows, slots) =
            (self.pass.gradient, self.pass.shape.rows, self.pass.shape.step_rows());
        let work = &self.work.recurrences[layer][r.direction];
        let gates = matrix(&work.gates, 0, r.gates);
        let dw_ih = gradient.matrix(r.w_ih, r.inputs);
        let sizes = [r.gates, r.inputs, slots];
        self.pass.gemm.f32(Form::TransposedTimes, sizes, [gates, self.input(layer)], 0.0, dw_ih)?;
        // h before every step: H shifted by one step.
        let (first, _) = r.around(0);
        let at = first * rows * r.width + r.direction * r.n;
        let h_before = matrix(&self.work.h[layer], at, r.width);
        for (first, columns, from, stride) in self.recurrent(layer, r) {
            let dw = gradient.matrix(r.w_hh + first * r.n, r.n);
            let d = matrix(from, 0, stride);
            self.pass.gemm.f32(
                Form::TransposedTimes,
                [columns, r.n, slots],
                [d, h_before],
                0.0,
                dw,
            )?;
        }
        self.pass.sum_columns(gates.at, [slots, r.gates], r.b_ih, Some(r.b_hh))?;
        if self.pass.plan.cell == Cell::Gru {
            self.pass.sum_columns(work.from_h.at(0), [slots, r.n], r.b_hh + 2 * r.n, None)?;
        }
        Ok(())
    }

    /// The gradient of the layer's input, summed over both directions.
    pub fn input_gradient(&self, layer: usize, to: &Buffer<f32>) -> Result<()> {
        for r in &self.pass.plan.layers[layer] {
            let gates = &self.work.recurrences[layer][r.direction].gates;
            let (gates, w) = (matrix(gates, 0, r.gates), self.pass.params.matrix(r.w_ih, r.inputs));
            let to = matrix(to, 0, r.inputs);
            let beta = if r.direction == 0 { 0.0 } else { 1.0 };
            self.pass.gemm.f32(
                Form::Times,
                [self.pass.shape.step_rows(), r.inputs, r.gates],
                [gates, w],
                beta,
                to,
            )?;
        }
        Ok(())
    }
}
