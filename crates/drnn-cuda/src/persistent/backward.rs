//! The way back, put into a stream.

use super::forward::{HalfPass, matrix};
use super::work::{LayerWork, STRANDS};
use crate::error::Result;
use crate::forward::Pass;
use crate::memory::Buffer;
use crate::plan::Recurrence;
use crate::product::{Form, Matrix, Written};
use crate::stream::Arg;
use drnn::InputSpec;

impl HalfPass<'_> {
    /// From the gradient of the answers to that of all parameters.
    pub fn backward(&self) -> Result<()> {
        self.output_backward()?;
        for layer in (0..self.work.layers.len()).rev() {
            // Gradients alternate between two places: what a layer was told, and what it tells the one below.
            let told = (self.work.layers.len() - 1 - layer) % 2;
            self.recurrence_backward(layer, &self.work.d_above[told])?;
            for r in &self.pass.plan.layers[layer] {
                self.weights(layer, r)?;
                match layer {
                    0 => self.input_backward(r)?,
                    _ => self.hand_down(layer, r, &self.work.d_above[1 - told])?,
                }
            }
        }
        Ok(())
    }

    fn header(&self) -> Arg {
        Arg::At(self.pass.part(0))
    }

    fn output_backward(&self) -> Result<()> {
        let Pass { plan, shape, kernels, stream, work, .. } = self.pass;
        let [weight, bias] = plan.output.expect("networks without are not taken");
        let (m, positions) = (plan.spec.answer_width(), shape.positions());
        let (padded, w) = (m.next_multiple_of(8), self.w_out());
        let d_answers = Arg::At(work.d_answers.at(0));
        let to = Arg::At(self.work.d_answers.at(0));
        let args = [self.header(), d_answers, to, positions.into(), m.into(), padded.into()];
        self.each(&kernels.half.halve, positions * padded, &args)?;
        let d = matrix(&self.work.d_answers, 0, padded);
        let dropped = plan.spec.delay() * shape.rows * w.stride;
        stream.clear(&self.work.d_above[0], 0, dropped)?;
        let to = matrix(&self.work.d_above[0], dropped, w.stride);
        let sizes = [positions, w.stride, padded];
        self.product(Form::Times, sizes, [d, w], 0.0, to, Written::F16)?;
        let last = plan.layers.len() - 1;
        let (n, padded_n) = (plan.layers[last][0].n, self.work.layers[last].padded.n);
        let sizes = [padded, w.stride, positions];
        self.weight(
            [d, self.answering()],
            sizes,
            weight,
            [1, m, plan.spec.hidden_width(), n, padded_n],
        )?;
        self.pass.sum_columns(work.d_answers.at(0), [positions, m], bias, None)
    }

    fn recurrence_backward(&self, layer: usize, above: &Buffer<u16>) -> Result<()> {
        let Pass { plan, shape, kernels, stream, state, .. } = self.pass;
        let LayerWork { padded, gates, c, .. } = &self.work.layers[layer];
        let (recurrences, (tiling, pair)) = (&plan.layers[layer], &self.net.layers[layer]);
        let (all_groups, mut first_group) = (tiling.all_groups(shape.rows), 0);
        for (first_row, groups) in tiling.waves(shape.rows) {
            stream.clear(&self.work.parts, 0, tiling.parts())?;
            let args = [
                Arg::At(state.params.at(recurrences[0].w_hh)),
                self.params_apart(layer),
                Arg::At(gates.at(0)),
                Arg::At(c.at(0)),
                Arg::At(above.at(0)),
                Arg::At(self.work.parts.at(0)),
                Arg::At(self.work.d_bias.at(0)),
                self.pass.run(),
                recurrences.len().into(),
                groups.into(),
                first_row.into(),
                first_group.into(),
                all_groups.into(),
                shape.steps.into(),
                shape.rows.into(),
                recurrences[0].n.into(),
            ];
            let blocks = recurrences.len() * groups * tiling.blocks();
            // SAFETY: arguments as the source names them.
            unsafe { pair.backward.launch(stream, blocks, &args)? }
            first_group += groups;
        }
        for r in recurrences {
            let from = self.work.d_bias.at(r.direction * all_groups * padded.n * 4);
            let to = [r.b_ih, r.b_hh].map(|at| Arg::At(state.gradient.at(at)));
            let sizes = [r.n.into(), padded.n.into(), all_groups.into()];
            let args = [self.header(), Arg::At(from), to[0], to[1], sizes[0], sizes[1], sizes[2]];
            self.each(&kernels.half.unpack_bias, 4 * r.n, &args)?;
        }
        Ok(())
    }

    /// A weight's gradient, the product of what came back and what went in, to its place among all. `padding`: gates, units,
    /// columns, columns below, padded columns below.
    fn weight(
        &self,
        factors: [Matrix; 2],
        sizes: [usize; 3],
        to: usize,
        padding: [usize; 5],
    ) -> Result<()> {
        let padded = Matrix { at: self.work.d_w.at(0), stride: sizes[1] };
        self.product(Form::TransposedTimes, sizes, factors, 0.0, padded, Written::F32)?;
        let ends = [self.header(), Arg::At(padded.at), Arg::At(self.pass.state.gradient.at(to))];
        let sizes = padding.map(Arg::from).into_iter().chain([padded.stride.into()]);
        let args: Vec<Arg> = ends.into_iter().chain(sizes).collect();
        let values = padding[0] * padding[1] * padding[2];
        self.each(&self.pass.kernels.half.unpack_gradient, values, &args)
    }

    /// Gradients of W_hh, and of W_ih where no table stands for it.
    fn weights(&self, layer: usize, r: &Recurrence) -> Result<()> {
        let (shape, LayerWork { padded, h, .. }) = (self.pass.shape, &self.work.layers[layer]);
        let gates = self.gates(layer, r);
        // h before every step: one step earlier, or later, in H.
        let (first, _) = r.around(0);
        let at = first * shape.rows * padded.width + r.direction * padded.n;
        let h_before = matrix(h, at, padded.width);
        let sizes = [4 * padded.n, padded.n, shape.slots()];
        self.weight([gates, h_before], sizes, r.w_hh, [4, r.n, r.n, r.n, padded.n])?;
        if self.looks_up(layer) {
            return Ok(());
        }
        let sizes = [4 * padded.n, padded.inputs, shape.slots()];
        let padding = [4, r.n, r.inputs, padded.below, padded.padded_below];
        self.weight([gates, self.read_by(layer)], sizes, r.w_ih, padding)
    }

    /// What a direction of the layer tells the one below; the second adds to the first's.
    fn hand_down(&self, layer: usize, r: &Recurrence, to: &Buffer<u16>) -> Result<()> {
        let padded = self.work.layers[layer].padded;
        let sizes = [self.pass.shape.slots(), padded.inputs, 4 * padded.n];
        let factors = [self.gates(layer, r), self.w_ih(layer, r)];
        let to = matrix(to, 0, padded.inputs);
        self.product(Form::Times, sizes, factors, r.direction as f32, to, Written::F16)
    }

    /// Gradients of embeddings, and of W_ih where a table stands for it.
    fn input_backward(&self, r: &Recurrence) -> Result<()> {
        let Pass { plan, shape, kernels, stream, state, .. } = self.pass;
        let InputSpec::Tokens { symbols, embedding } = plan.spec.input() else { return Ok(()) };
        let (padded, gates) = (self.work.layers[0].padded, self.gates(0, r));
        if !self.looks_up(0) {
            let to = Matrix { at: self.work.d_x.at(0), stride: embedding };
            let sizes = [shape.slots(), embedding, 4 * padded.n];
            let factors = [gates, self.w_ih(0, r)];
            self.product(Form::Times, sizes, factors, r.direction as f32, to, Written::F32)?;
            if r.direction + 1 < plan.layers[0].len() {
                return Ok(());
            }
            self.pass.embed_backward(&self.work.d_x)?;
            let count = symbols * embedding;
            let args = [self.header(), Arg::At(state.gradient.at(0)), count.into()];
            return self.each(&kernels.half.scale_back, count, &args);
        }
        let d_table = Matrix { at: self.work.d_w.at(0), stride: padded.inputs };
        let sizes = [4 * padded.n, padded.inputs, shape.slots()];
        let factors = [gates, self.read_by(0)];
        self.product(Form::TransposedTimes, sizes, factors, 0.0, d_table, Written::F32)?;
        let (embeddings, to) = (Arg::At(state.params.at(0)), Arg::At(state.gradient.at(r.w_ih)));
        let ends = [self.header(), Arg::At(d_table.at), embeddings, to];
        let sizes = [symbols, embedding, r.n, d_table.stride].map(Arg::from);
        let args: Vec<Arg> = ends.into_iter().chain(sizes).collect();
        self.each(&kernels.half.table_to_weights, 4 * r.n * embedding, &args)?;
        let partial = Arg::At(self.work.strands.at(0));
        let (table, w_ih) = (Arg::At(d_table.at), Arg::At(state.params.at(r.w_ih)));
        let sizes = [symbols, embedding, r.n, d_table.stride].map(Arg::from);
        let args: Vec<Arg> = [table, w_ih, partial].into_iter().chain(sizes).collect();
        // SAFETY: arguments as the source names them; a block per strand and dimension.
        unsafe {
            kernels.half.table_to_strands.launch(stream, [STRANDS, embedding], 32, &args)?;
        }
        let (count, to) = (symbols * embedding, Arg::At(state.gradient.at(0)));
        let args = [self.header(), partial, to, count.into(), STRANDS.into(), r.direction.into()];
        self.each(&kernels.half.strands_to_embeddings, count, &args)
    }
}
