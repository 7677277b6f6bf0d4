//! The backward pass with persistent kernels.

use super::forward::{PersistentPass, matrix};
use super::slots::Slots;
use super::workspace::TABLE_PARTIALS;
use super::{Launch, LaunchKernels};
use crate::error::Result;
use crate::kernels::params::{
    PartialsToEmbeddings, PersistentBackward, TableToPartials, TableToWeights, ToHalf, UnpackBias,
    UnpackGradient, Unscale, ptr, size,
};
use crate::runtime::gemm::{Form, Matrix, OutputType};
use crate::runtime::memory::Buffer;
use crate::step::pass::Pass;
use crate::step::plan::Recurrence;
use drnn::InputSpec;

impl PersistentPass<'_> {
    /// Submits everything from the gradient of the outputs to that of all parameters.
    pub fn backward(&self) -> Result<()> {
        self.output_backward()?;
        // Double buffer: the gradient of a launch's output, and that of its input.
        for (done, launch) in self.net.launches.iter().rev().enumerate() {
            let (above, below) = (&self.work.d_above[done % 2], &self.work.d_above[(done + 1) % 2]);
            self.launch_backward(launch, above)?;
            for layer in launch.layers.clone().rev() {
                for r in &self.pass.plan.layers[layer] {
                    self.weight_gradients(layer, r)?;
                    if layer == 0 {
                        self.input_backward(r)?;
                    } else if layer == launch.layers.start {
                        self.input_gradient(layer, r, below)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Address of the batch's header, which has the loss scale.
    pub fn header(&self) -> u64 {
        self.pass.part(0)
    }

    fn output_backward(&self) -> Result<()> {
        let Pass { plan, shape, kernels, work, .. } = self.pass;
        let [weight, bias] = plan.output.expect("`supports` requires an output layer");
        let (m, positions) = (plan.spec.output_width(), shape.computed_outputs());
        let (padded, w) = (m.next_multiple_of(8), self.w_out());
        let params = ToHalf {
            header: ptr(self.header()),
            from: ptr(work.d_outputs.at(0)),
            to: ptr(self.work.d_outputs.at(0)),
            rows: size(positions),
            columns: size(m),
            stride: size(padded),
        };
        self.each(&kernels.half.to_half, positions * padded, &params)?;
        let d = matrix(&self.work.d_outputs, 0, padded);
        let to = self.pass.output_gradient(&self.work.d_above, w.stride)?;
        let sizes = [positions, w.stride, padded];
        self.product(Form::Times, sizes, [d, w], 0.0, to, OutputType::F16)?;
        let last = plan.layers.len() - 1;
        let (n, padded_n) = (plan.layers[last][0].n, self.work.layers[last].padded.n);
        let sizes = [padded, w.stride, positions];
        self.weight_gradient(
            [d, self.output_states()],
            sizes,
            weight,
            Slots::plain(),
            [1, 1, m, plan.spec.hidden_width(), n, padded_n],
        )?;
        self.pass.sum_columns(work.d_outputs.at(0), [positions, m], bias, None)?;
        self.pass.scatter(&kernels.half.rows, &self.work.d_above, w.stride)
    }

    pub fn launch_backward(&self, launch: &Launch, above: &Buffer<u16>) -> Result<()> {
        let Pass { shape, stream, .. } = self.pass;
        let Launch { layers, tiling, kernels, .. } = launch;
        if let LaunchKernels::Steps(kernels) = kernels {
            self.steps_backward(launch, kernels, above)?;
            return self.bias_gradients(launch, tiling.bias_groups(shape.rows));
        }
        let gates = self.lane_arrays(launch, |layer, direction| self.gates(layer, direction));
        let c = self.lane_arrays(launch, |layer, direction| self.c(layer, direction));
        let (all_groups, mut first_group) = (tiling.all_groups(shape.rows), 0);
        for (first_row, groups) in tiling.waves(shape.rows) {
            stream.clear(&self.work.dh_partials, 0, tiling.partials_len())?;
            stream.clear(&self.work.read_counts, 0, tiling.read_counts_len())?;
            let exchanged = |at| if tiling.exchanges() { at } else { 0 };
            let params = PersistentBackward {
                packed: ptr(self.work.packed[1].at(launch.packed[1])),
                gates: ptr(gates.at),
                c: ptr(c.at),
                d_above: ptr(above.at(0)),
                dh_partials: ptr(exchanged(self.work.dh_partials.at(0))),
                read_counts: ptr(if tiling.stacked { self.work.read_counts.at(0) } else { 0 }),
                d_bias: ptr(self.work.d_bias.at(0)),
                run: ptr(self.pass.run()),
                gates_stride: gates.stride,
                c_stride: c.stride,
                width: size(self.work.layers[layers.start].padded.width),
                lanes: size(tiling.lanes),
                groups: size(groups),
                first_row: size(first_row),
                first_group: size(first_group),
                all_groups: size(all_groups),
                steps: size(shape.steps),
                rows: size(shape.rows),
            };
            let blocks = tiling.lanes * groups * tiling.blocks();
            // SAFETY: the workspace is large enough for the shape.
            match (kernels, self.states) {
                (LaunchKernels::Zeros { backward, .. }, _) => unsafe {
                    backward.launch(stream, blocks, &params)?;
                },
                (LaunchKernels::States { backward: Some(backward), .. }, Some(states)) => {
                    let [d_last_h, d_last_c] = self.of_launch(launch, states.d_last);
                    let [d_first_h, d_first_c] = self.of_launch(launch, states.d_first);
                    let params = params.with_states(
                        ptr(self.header()),
                        ptr(d_last_h),
                        ptr(d_last_c),
                        ptr(d_first_h),
                        ptr(d_first_c),
                        size(self.pass.plan.layers[layers.start][0].n),
                    );
                    // SAFETY: as above; callers' arrays have the shapes of states.
                    unsafe { backward.launch(stream, blocks, &params)? }
                }
                (LaunchKernels::States { .. } | LaunchKernels::Steps(_), _) => {
                    unreachable!("states, and kernels to train")
                }
            }
            first_group += groups;
        }
        self.bias_gradients(launch, all_groups)
    }

    /// Bias gradients, summed over groups.
    fn bias_gradients(&self, launch: &Launch, groups: usize) -> Result<()> {
        let Pass { plan, kernels, gradient, .. } = self.pass;
        let (cell, padded) = (plan.cell, launch.tiling.padded);
        for (lane, (_, r)) in self.lanes(launch).into_iter().enumerate() {
            let params = UnpackBias {
                header: ptr(self.header()),
                from: ptr(self.work.d_bias.at(lane * groups * padded * 4)),
                b_ih: ptr(gradient.at(r.b_ih)),
                b_hh: ptr(gradient.at(r.b_hh)),
                by_gate_ih: Slots::of_w_ih(cell).by_gate(),
                by_gate_hh: Slots::of_w_hh(cell).by_gate(),
                gates: size(cell.gates()),
                n: size(r.n),
                padded: size(padded),
                groups: size(groups),
            };
            self.each(&kernels.half.unpack_bias, r.gates, &params)?;
        }
        Ok(())
    }

    /// The gradient of a weight matrix: the product of output gradients and inputs, unscaled and
    /// copied without padding to `to`. `padding`: rows per unit, gates, units, columns, contiguous
    /// columns without and with padding.
    fn weight_gradient(
        &self,
        factors: [Matrix; 2],
        sizes: [usize; 3],
        to: usize,
        slots: Slots,
        padding: [usize; 6],
    ) -> Result<()> {
        let padded = Matrix { at: self.work.d_w.at(0), stride: sizes[1] };
        self.product(Form::TransposedTimes, sizes, factors, 0.0, padded, OutputType::F32)?;
        let [per_unit, gates, n, columns, below, padded_below] = padding;
        let params = UnpackGradient {
            header: ptr(self.header()),
            from: ptr(padded.at),
            to: ptr(self.pass.gradient.at(to)),
            by_gate: slots.by_gate(),
            per_unit: size(per_unit),
            gates: size(gates),
            n: size(n),
            columns: size(columns),
            below: size(below),
            padded_below: size(padded_below),
            stride: size(padded.stride),
        };
        self.each(&self.pass.kernels.half.unpack_gradient, gates * n * columns, &params)
    }

    /// Gradients of W_hh, and of W_ih unless it is part of a table.
    pub fn weight_gradients(&self, layer: usize, r: &Recurrence) -> Result<()> {
        let (shape, cell) = (self.pass.shape, self.pass.plan.cell);
        let padded = self.work.layers[layer].padded;
        let gates = self.gates(layer, r.direction);
        // h before every step: H shifted by one step.
        let (first, _) = r.around(0);
        let mut h_before = self.h(layer, r.direction);
        h_before.at += (first * shape.rows * padded.width * size_of::<u16>()) as u64;
        let sizes = [4 * padded.n, padded.n, shape.step_rows()];
        let padding = [4, cell.gates(), r.n, r.n, r.n, padded.n];
        self.weight_gradient([gates, h_before], sizes, r.w_hh, Slots::of_w_hh(cell), padding)?;
        if self.uses_table(layer) {
            return Ok(());
        }
        let sizes = [4 * padded.n, padded.inputs, shape.step_rows()];
        let padding = [4, cell.gates(), r.n, r.inputs, padded.below, padded.padded_below];
        let factors = [gates, self.layer_input(layer)];
        self.weight_gradient(factors, sizes, r.w_ih, Slots::of_w_ih(cell), padding)
    }

    /// The gradient of the layer's input; the reverse direction adds to the forward direction's.
    pub fn input_gradient(&self, layer: usize, r: &Recurrence, to: &Buffer<u16>) -> Result<()> {
        let padded = self.work.layers[layer].padded;
        let sizes = [self.pass.shape.step_rows(), padded.inputs, 4 * padded.n];
        let factors = [self.gates(layer, r.direction), self.w_ih(layer, r)];
        let to = matrix(to, 0, padded.inputs);
        self.product(Form::Times, sizes, factors, r.direction as f32, to, OutputType::F16)
    }

    /// Gradients of the embeddings, and of W_ih if it is part of a table.
    fn input_backward(&self, r: &Recurrence) -> Result<()> {
        let Pass { plan, shape, kernels, stream, gradient, .. } = self.pass;
        let InputSpec::Tokens { symbols, embedding } = plan.spec.input() else { return Ok(()) };
        let (padded, gates) = (self.work.layers[0].padded, self.gates(0, r.direction));
        if !self.uses_table(0) {
            let to = Matrix { at: self.work.d_x.at(0), stride: embedding };
            let sizes = [shape.step_rows(), embedding, 4 * padded.n];
            let factors = [gates, self.w_ih(0, r)];
            self.product(Form::Times, sizes, factors, r.direction as f32, to, OutputType::F32)?;
            if r.direction + 1 < plan.layers[0].len() {
                return Ok(());
            }
            self.pass.embed_backward(&self.work.d_x)?;
            let count = symbols * embedding;
            let (header, values) = (ptr(self.header()), ptr(gradient.at(0)));
            let params = Unscale { header, values, count: size(count) };
            return self.each(&kernels.half.unscale, count, &params);
        }
        let d_table = Matrix { at: self.work.d_w.at(0), stride: padded.inputs };
        let sizes = [4 * padded.n, padded.inputs, shape.step_rows()];
        let factors = [gates, self.layer_input(0)];
        self.product(Form::TransposedTimes, sizes, factors, 0.0, d_table, OutputType::F32)?;
        let params = TableToWeights {
            header: ptr(self.header()),
            d_table: ptr(d_table.at),
            embeddings: ptr(self.pass.params.at(0)),
            d_w_ih: ptr(gradient.at(r.w_ih)),
            by_gate: Slots::of_w_ih(plan.cell).by_gate(),
            gates: size(plan.cell.gates()),
            symbols: size(symbols),
            e: size(embedding),
            n: size(r.n),
            stride: size(d_table.stride),
        };
        self.each(&kernels.half.table_to_weights, r.gates * embedding, &params)?;
        let TableToWeights { d_table, by_gate, gates, symbols, e, n, stride, .. } = params;
        let partial = self.work.table_partials.at(0);
        let params = TableToPartials {
            d_table,
            w_ih: ptr(self.pass.params.at(r.w_ih)),
            partial: ptr(partial),
            by_gate,
            gates,
            symbols,
            e,
            n,
            stride,
        };
        let grid = [TABLE_PARTIALS, embedding];
        // SAFETY: the workspace is large enough for the partial sums; a block of 8 warps per sum
        // and dimension.
        unsafe { kernels.half.table_to_partials.launch(stream, grid, 256, &params)? };
        let params = PartialsToEmbeddings {
            header: ptr(self.header()),
            partial: ptr(partial),
            d_embeddings: ptr(gradient.at(0)),
            count: symbols * e,
            chunks: size(TABLE_PARTIALS),
            add: size(r.direction),
        };
        self.each(&kernels.half.partials_to_embeddings, params.count as usize, &params)
    }
}
