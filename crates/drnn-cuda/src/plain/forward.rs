//! The forward pass, step by step.
//!
//! ```text
//! gates = x W_ih^T                      one product for all steps
//! gates_s += h_{s-1} W_hh^T             then the cell's arithmetic, step by step
//! outputs = h_{s+d} W_o^T + b
//! ```

use super::PlainPass;
use crate::error::Result;
use crate::kernels::params::{AddOutputBias, GruForward, LstmForward, RnnForward, ptr, size};
use crate::runtime::gemm::{Form, Matrix};
use crate::runtime::memory::Buffer;
use crate::step::pass::{THREADS, Until, matrix};
use crate::step::plan::Recurrence;
use drnn::{Cell, InputSpec};

impl PlainPass<'_> {
    /// The input of layer `layer`, (S, B, q).
    pub fn input(&self, layer: usize) -> Matrix {
        let q = self.pass.plan.layers[layer][0].inputs;
        match (layer, self.pass.plan.spec.input()) {
            (0, InputSpec::Dense(_)) => {
                Matrix { at: self.pass.part(self.pass.staged().input), stride: q }
            }
            (0, InputSpec::Tokens { .. }) => matrix(&self.pass.work.embedded, 0, q),
            // After the step of zeros.
            _ => matrix(&self.work.h[layer - 1], self.pass.shape.rows * q, q),
        }
    }

    /// States of the last layer that outputs are computed from: (A, B, n), or (selected, n).
    pub fn output_states(&self) -> Matrix {
        let (states, first) = self.work.output_states(self.pass.plan, self.pass.shape);
        matrix(states, first, self.pass.plan.spec.hidden_width())
    }

    /// Submits everything up to `until`; with the losses, the gradient of the outputs too.
    pub fn forward(&self, until: Until) -> Result<()> {
        self.pass.embed()?;
        for (layer, recurrences) in self.pass.plan.layers.iter().enumerate() {
            let (h, width) = (&self.work.h[layer], recurrences[0].width);
            let step = self.pass.shape.rows * width;
            self.pass.stream.clear(h, 0, step)?;
            self.pass.stream.clear(h, (self.pass.shape.steps + 1) * step, step)?;
            for recurrence in recurrences {
                self.recurrence(layer, recurrence)?;
            }
        }
        if until >= Until::Outputs {
            self.output_layer()?;
        }
        if until < Until::Losses {
            return Ok(());
        }
        let outputs = match self.pass.plan.output {
            Some(_) => self.pass.work.outputs.at(0),
            None => self.output_states().at,
        };
        self.pass.loss(outputs)
    }

    /// The products of h with W_hh: first row of W_hh, number of rows, destination and its row
    /// length.
    pub fn recurrent<'w>(
        &'w self,
        layer: usize,
        r: &Recurrence,
    ) -> Vec<(usize, usize, &'w Buffer<f32>, usize)> {
        let work = &self.work.recurrences[layer][r.direction];
        match self.pass.plan.cell {
            // The reset gate multiplies W_hn h' + b_hn, which therefore has its own buffer.
            Cell::Gru => {
                vec![(0, 2 * r.n, &work.gates, r.gates), (2 * r.n, r.n, &work.from_h, r.n)]
            }
            _ => vec![(0, r.gates, &work.gates, r.gates)],
        }
    }

    /// All steps of one direction of a layer.
    pub fn recurrence(&self, layer: usize, r: &Recurrence) -> Result<()> {
        let (params, work) = (self.pass.params, &self.work.recurrences[layer][r.direction]);
        let (rows, steps) = (self.pass.shape.rows, self.pass.shape.steps);
        let w_ih = params.matrix(r.w_ih, r.inputs);
        let gates = matrix(&work.gates, 0, r.gates);
        let sizes = [self.pass.shape.step_rows(), r.gates, r.inputs];
        self.pass.gemm.f32(Form::TimesTransposed, sizes, [self.input(layer), w_ih], 0.0, gates)?;
        if self.pass.plan.cell.has_cell_state() && !self.from_states {
            self.pass.stream.clear(&work.c, 0, rows * r.n)?;
            self.pass.stream.clear(&work.c, (steps + 1) * rows * r.n, rows * r.n)?;
        }
        if let Some(resident) = &self.resident[layer] {
            return resident.forward(self, layer, r);
        }
        for (taken, s) in r.order(steps).into_iter().enumerate() {
            let (before, _) = r.around(s);
            let h = &self.work.h[layer];
            let h_before = matrix(h, before * rows * r.width + r.direction * r.n, r.width);
            for (first, columns, to, stride) in self.recurrent(layer, r) {
                let fresh = !std::ptr::eq(to, &work.gates);
                if taken == 0 && !fresh && !self.from_states {
                    continue; // the initial h is zero
                }
                let w = params.matrix(r.w_hh + first * r.n, r.n);
                let to = matrix(to, s * rows * stride, stride);
                let beta = if fresh { 0.0 } else { 1.0 };
                self.pass.gemm.f32(
                    Form::TimesTransposed,
                    [rows, columns, r.n],
                    [h_before, w],
                    beta,
                    to,
                )?;
            }
            self.cell(layer, r, s)?;
        }
        Ok(())
    }

    fn cell(&self, layer: usize, r: &Recurrence, s: usize) -> Result<()> {
        let (before, after) = r.around(s);
        let h_at = |step: usize| self.h_at(layer, r, step);
        let c_at = |step: usize| self.c_at(layer, r, step);
        let [bias_ih, bias_hh] = [r.b_ih, r.b_hh].map(|at| ptr(self.pass.params.at(at)));
        let (gates, run) = (self.gates_at(layer, r, s), ptr(self.pass.run()));
        let (h_stride, step) = (size(r.width), size(s));
        let (rows, n) = (size(self.pass.shape.rows), size(r.n));
        let kernels = self.cells;
        match self.pass.plan.cell {
            Cell::Lstm => {
                let params = LstmForward {
                    gates: ptr(gates),
                    bias_ih,
                    bias_hh,
                    c_before: ptr(c_at(before)),
                    c: ptr(c_at(after)),
                    h: ptr(h_at(after)),
                    run,
                    h_stride,
                    step,
                    rows,
                    n,
                };
                self.each_cell(&kernels.lstm_forward, r, &params)
            }
            Cell::Gru => {
                let params = GruForward {
                    gates: ptr(gates),
                    from_h: ptr(self.candidate_at(layer, r, s)),
                    bias_ih,
                    bias_hh,
                    h_before: ptr(h_at(before)),
                    h: ptr(h_at(after)),
                    run,
                    h_stride,
                    step,
                    rows,
                    n,
                };
                self.each_cell(&kernels.gru_forward, r, &params)
            }
            Cell::GruResetBefore => unreachable!("refused by `Plan::new`"),
            Cell::RnnTanh | Cell::RnnRelu => {
                let relu = u32::from(self.pass.plan.cell == Cell::RnnRelu);
                let params = RnnForward {
                    gates: ptr(gates),
                    bias_ih,
                    bias_hh,
                    h: ptr(h_at(after)),
                    run,
                    h_stride,
                    relu,
                    step,
                    rows,
                    n,
                };
                self.each_cell(&kernels.rnn_forward, r, &params)
            }
        }
    }

    fn output_layer(&self) -> Result<()> {
        let (m, width) = (self.pass.plan.spec.output_width(), self.pass.plan.spec.hidden_width());
        let h = self.work.h.last().expect("a layer").at(0);
        self.pass.gather(&self.pass.kernels.rows, h, &self.work.d_above, width)?;
        let Some([weight, bias]) = self.pass.plan.output else { return Ok(()) };
        let positions = self.pass.shape.computed_outputs();
        let w = self.pass.params.matrix(weight, width);
        let to = matrix(&self.pass.work.outputs, 0, m);
        self.pass.gemm.f32(
            Form::TimesTransposed,
            [positions, m, width],
            [self.output_states(), w],
            0.0,
            to,
        )?;
        let mask = self.pass.output_mask();
        let params = AddOutputBias {
            outputs: ptr(to.at),
            bias: ptr(self.pass.params.at(bias)),
            run: ptr(mask.run),
            delay: size(mask.delay),
            rows: size(mask.rows),
            positions: size(positions),
            m: size(m),
        };
        let (kernel, blocks) =
            (&self.pass.kernels.add_output_bias, (positions * m).div_ceil(THREADS));
        // SAFETY: the workspace is large enough for the outputs.
        unsafe { kernel.launch(self.pass.stream, [blocks, 1], THREADS, &params) }
    }
}
