//! The backward pass with persistent kernels.

use super::Launch;
use super::forward::{PersistentPass, matrix};
use super::slots::Slots;
use super::workspace::TABLE_PARTIALS;
use crate::error::Result;
use crate::runtime::gemm::{Form, Matrix, OutputType};
use crate::runtime::memory::Buffer;
use crate::runtime::stream::Arg;
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
    fn header(&self) -> Arg {
        Arg::At(self.pass.part(0))
    }

    fn output_backward(&self) -> Result<()> {
        let Pass { plan, shape, kernels, work, .. } = self.pass;
        let [weight, bias] = plan.output.expect("`supports` requires an output layer");
        let (m, positions) = (plan.spec.output_width(), shape.computed_outputs());
        let (padded, w) = (m.next_multiple_of(8), self.w_out());
        let d_outputs = Arg::At(work.d_outputs.at(0));
        let to = Arg::At(self.work.d_outputs.at(0));
        let args = [self.header(), d_outputs, to, positions.into(), m.into(), padded.into()];
        self.each(&kernels.half.halve, positions * padded, &args)?;
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

    fn launch_backward(&self, launch: &Launch, above: &Buffer<u16>) -> Result<()> {
        let Pass { shape, stream, .. } = self.pass;
        let Launch { layers, tiling, backward, .. } = launch;
        let gates = self.two(launch, |layer, direction| self.gates(layer, direction));
        let c = self.two(launch, |layer, direction| self.c(layer, direction));
        let (all_groups, mut first_group) = (tiling.all_groups(shape.rows), 0);
        for (first_row, groups) in tiling.waves(shape.rows) {
            stream.clear(&self.work.dh_partials, 0, tiling.partials_len())?;
            stream.clear(&self.work.read_counts, 0, tiling.read_counts_len())?;
            let args = [
                Arg::At(self.work.packed[1].at(launch.packed[1])),
                gates[0],
                gates[1],
                c[0],
                c[1],
                Arg::At(above.at(0)),
                self.work.layers[layers.start].padded.width.into(),
                Arg::At(self.work.dh_partials.at(0)),
                Arg::At(self.work.read_counts.at(0)),
                Arg::At(self.work.d_bias.at(0)),
                self.pass.run(),
                tiling.lanes.into(),
                groups.into(),
                first_row.into(),
                first_group.into(),
                all_groups.into(),
                shape.steps.into(),
                shape.rows.into(),
            ];
            let blocks = tiling.lanes * groups * tiling.blocks();
            // SAFETY: arguments as the source declares them.
            unsafe { backward.launch(stream, blocks, &args)? }
            first_group += groups;
        }
        self.bias_gradients(launch, all_groups)
    }

    /// Bias gradients, summed over groups.
    fn bias_gradients(&self, launch: &Launch, groups: usize) -> Result<()> {
        let Pass { plan, kernels, state, .. } = self.pass;
        let (cell, padded) = (plan.cell, launch.tiling.padded);
        for (lane, (_, r)) in self.lanes(launch).into_iter().enumerate() {
            let args = [
                self.header(),
                Arg::At(self.work.d_bias.at(lane * groups * padded * 4)),
                Arg::At(state.gradient.at(r.b_ih)),
                Arg::At(state.gradient.at(r.b_hh)),
                Arg::U32(Slots::of_w_ih(cell).by_gate()),
                Arg::U32(Slots::of_w_hh(cell).by_gate()),
                cell.gates().into(),
                r.n.into(),
                padded.into(),
                groups.into(),
            ];
            self.each(&kernels.half.unpack_bias, r.gates, &args)?;
        }
        Ok(())
    }

    /// The gradient of a weight matrix: the product of output gradients and inputs, unscaled and copied
    /// without padding to `to`. `padding`: rows per unit, gates, units, columns, contiguous columns
    /// without and with padding.
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
        let ends = [self.header(), Arg::At(padded.at), Arg::At(self.pass.state.gradient.at(to))];
        let sizes = padding.map(Arg::from).into_iter().chain([padded.stride.into()]);
        let slots = [Arg::U32(slots.by_gate())];
        let args: Vec<Arg> = ends.into_iter().chain(slots).chain(sizes).collect();
        let values = padding[1] * padding[2] * padding[3];
        self.each(&self.pass.kernels.half.unpack_gradient, values, &args)
    }

    /// Gradients of W_hh, and of W_ih unless it is part of a table.
    fn weight_gradients(&self, layer: usize, r: &Recurrence) -> Result<()> {
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
    fn input_gradient(&self, layer: usize, r: &Recurrence, to: &Buffer<u16>) -> Result<()> {
        let padded = self.work.layers[layer].padded;
        let sizes = [self.pass.shape.step_rows(), padded.inputs, 4 * padded.n];
        let factors = [self.gates(layer, r.direction), self.w_ih(layer, r)];
        let to = matrix(to, 0, padded.inputs);
        self.product(Form::Times, sizes, factors, r.direction as f32, to, OutputType::F16)
    }

    /// Gradients of the embeddings, and of W_ih if it is part of a table.
    fn input_backward(&self, r: &Recurrence) -> Result<()> {
        let Pass { plan, shape, kernels, stream, state, .. } = self.pass;
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
            let args = [self.header(), Arg::At(state.gradient.at(0)), count.into()];
            return self.each(&kernels.half.scale_back, count, &args);
        }
        let d_table = Matrix { at: self.work.d_w.at(0), stride: padded.inputs };
        let sizes = [4 * padded.n, padded.inputs, shape.step_rows()];
        let factors = [gates, self.layer_input(0)];
        self.product(Form::TransposedTimes, sizes, factors, 0.0, d_table, OutputType::F32)?;
        let (embeddings, to) = (Arg::At(state.params.at(0)), Arg::At(state.gradient.at(r.w_ih)));
        let ends = [self.header(), Arg::At(d_table.at), embeddings, to];
        let by_gate = [Arg::U32(Slots::of_w_ih(plan.cell).by_gate())];
        let gates = plan.cell.gates();
        let sizes = [gates, symbols, embedding, r.n, d_table.stride].map(Arg::from);
        let args: Vec<Arg> = ends.into_iter().chain(by_gate).chain(sizes).collect();
        self.each(&kernels.half.table_to_weights, r.gates * embedding, &args)?;
        let partial = Arg::At(self.work.table_partials.at(0));
        let (table, w_ih) = (Arg::At(d_table.at), Arg::At(state.params.at(r.w_ih)));
        let args: Vec<Arg> =
            [table, w_ih, partial].into_iter().chain(by_gate).chain(sizes).collect();
        // SAFETY: arguments as the source declares them; a block of 8 warps per partial sum and
        // dimension.
        unsafe {
            kernels.half.table_to_strands.launch(
                stream,
                [TABLE_PARTIALS, embedding],
                256,
                &args,
            )?;
        }
        let (count, to) = (symbols * embedding, Arg::At(state.gradient.at(0)));
        let args =
            [self.header(), partial, to, count.into(), TABLE_PARTIALS.into(), r.direction.into()];
        self.each(&kernels.half.strands_to_embeddings, count, &args)
    }
}
