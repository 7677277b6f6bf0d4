//! The way forward, put into a stream.

use super::Persistent;
use super::work::{HalfWork, LayerWork, has_table};
use crate::error::Result;
use crate::forward::{Pass, THREADS};
use crate::memory::Buffer;
use crate::plan::Recurrence;
use crate::product::{Form, Matrix, Written};
use crate::stream::{Arg, Kernel};
use drnn::InputSpec;

/// What a pass works with.
#[derive(Clone, Copy)]
pub(crate) struct HalfPass<'a> {
    pub pass: Pass<'a>,
    pub net: &'a Persistent,
    pub work: &'a HalfWork,
}

/// A row-major matrix that begins with value `at` of a buffer.
pub(super) fn matrix(of: &Buffer<u16>, at: usize, stride: usize) -> Matrix {
    Matrix { at: of.at(at), stride }
}

impl HalfPass<'_> {
    /// Everything up to the losses and the gradient of the answers. What the way back needs is kept only where there is one.
    pub fn forward(&self, keep: bool) -> Result<()> {
        self.input()?;
        for layer in 0..self.work.layers.len() {
            self.layer(layer, keep)?;
        }
        self.answer()?;
        self.pass.loss()
    }

    /// A thread per value.
    pub(super) fn each(&self, kernel: &Kernel, values: usize, args: &[Arg]) -> Result<()> {
        // SAFETY: callers' arguments are as the sources name them.
        unsafe { kernel.launch(self.pass.stream, [values.div_ceil(THREADS), 1], THREADS, args) }
    }

    /// A product of factors in f16.
    pub(super) fn product(
        &self,
        form: Form,
        sizes: [usize; 3],
        factors: [Matrix; 2],
        beta: f32,
        to: Matrix,
        written: Written,
    ) -> Result<()> {
        self.pass.products.half(form, sizes, factors, beta, to, written)
    }

    /// x in f16, or the tables that take its place.
    fn input(&self) -> Result<()> {
        let Pass { plan, shape, kernels, state, .. } = self.pass;
        let slots = shape.slots();
        let tokens = Arg::At(self.pass.part(self.pass.staged().input));
        let k = self.work.layers[0].padded.inputs;
        let x = Arg::At(self.work.x.at(0));
        let InputSpec::Tokens { symbols, embedding } = plan.spec.input() else {
            return self.halve(tokens, slots, plan.layers[0][0].inputs, k);
        };
        if !has_table(plan) {
            self.pass.embed()?;
            let embedded = Arg::At(self.pass.work.embedded.at(0));
            return self.halve(embedded, slots, embedding, k);
        }
        self.each(&kernels.half.one_hot, slots * k, &[tokens, x, slots.into(), k.into()])?;
        for r in &plan.layers[0] {
            let padded = self.work.layers[0].padded.n;
            let args = [
                Arg::At(state.params.at(0)), // embeddings, the first of all parameters
                Arg::At(state.params.at(r.w_ih)),
                Arg::At(self.table(r).at),
                symbols.into(),
                embedding.into(),
                r.n.into(),
                padded.into(),
            ];
            self.each(&kernels.half.symbol_table, symbols * padded * 4, &args)?;
        }
        Ok(())
    }

    fn halve(&self, from: Arg, rows: usize, columns: usize, stride: usize) -> Result<()> {
        let to = Arg::At(self.work.x.at(0));
        let args = [Arg::At(0), from, to, rows.into(), columns.into(), stride.into()];
        self.each(&self.pass.kernels.half.halve, rows * stride, &args)
    }

    fn table(&self, r: &Recurrence) -> Matrix {
        let (symbols, n) = (self.work.layers[0].padded.below, self.work.layers[0].padded.n);
        matrix(&self.work.table, r.direction * symbols * 4 * n, 4 * n)
    }

    /// What layer `layer` reads, (S, B, K).
    pub(super) fn read_by(&self, layer: usize) -> Matrix {
        let k = self.work.layers[layer].padded.inputs;
        match layer {
            0 => matrix(&self.work.x, 0, k),
            // Behind the step of zeros.
            _ => matrix(&self.work.layers[layer - 1].h, self.pass.shape.rows * k, k),
        }
    }

    /// A direction's gates, (S, B, 4 N).
    pub(super) fn gates(&self, layer: usize, r: &Recurrence) -> Matrix {
        let LayerWork { padded, gates, .. } = &self.work.layers[layer];
        let stride = 4 * padded.n;
        matrix(gates, r.direction * self.pass.shape.slots() * stride, stride)
    }

    /// Its W_ih, (4 N, K).
    pub(super) fn w_ih(&self, layer: usize, r: &Recurrence) -> Matrix {
        let LayerWork { padded, w_ih, .. } = &self.work.layers[layer];
        matrix(w_ih, r.direction * 4 * padded.n * padded.inputs, padded.inputs)
    }

    /// Whether a layer's inputs are rows of a table.
    pub(super) fn looks_up(&self, layer: usize) -> bool {
        layer == 0 && has_table(self.pass.plan)
    }

    fn layer(&self, layer: usize, keep: bool) -> Result<()> {
        let Pass { plan, shape, stream, state, .. } = self.pass;
        let LayerWork { padded, c, h, gates, .. } = &self.work.layers[layer];
        let recurrences = &plan.layers[layer];
        for r in recurrences.iter().filter(|_| !self.looks_up(layer)) {
            let to = self.w_ih(layer, r);
            let sizes = [4, r.n, padded.n, r.inputs, padded.below, padded.padded_below];
            self.pack(r.w_ih, to, sizes, 4 * padded.n)?;
            let sizes = [shape.slots(), 4 * padded.n, padded.inputs];
            let factors = [self.read_by(layer), to];
            let to = self.gates(layer, r);
            self.product(Form::TimesTransposed, sizes, factors, 0.0, to, Written::F16)?;
        }
        // Zeros before the first step and behind the last.
        let step = shape.rows * padded.width;
        stream.clear(h, 0, step)?;
        stream.clear(h, (shape.steps + 1) * step, step)?;
        let c_step = shape.rows * padded.n;
        for r in recurrences.iter().filter(|_| keep) {
            let first = r.direction * (shape.steps + 2) * c_step;
            stream.clear(c, first, c_step)?;
            stream.clear(c, first + (shape.steps + 1) * c_step, c_step)?;
        }
        let (tiling, pair) = &self.net.layers[layer];
        let (r, tokens) = (&recurrences[0], self.looks_up(layer));
        let at = |offset: usize| Arg::At(state.params.at(offset));
        for (first_row, groups) in tiling.waves(shape.rows) {
            // Nothing has been told yet.
            stream.fill(&self.work.told, 0, tiling.told(shape.steps), 0xff)?;
            let tokens_at = if tokens { self.pass.part(self.pass.staged().input) } else { 0 };
            let args = [
                at(r.w_hh),
                at(r.b_ih),
                at(r.b_hh),
                self.params_apart(layer),
                Arg::At(gates.at(0)),
                Arg::At(self.work.table.at(0)),
                Arg::At(tokens_at),
                (if tokens { padded.below } else { 0 }).into(),
                Arg::At(c.at(0)),
                Arg::At(h.at(0)),
                Arg::At(self.work.told.at(0)),
                self.pass.run(),
                recurrences.len().into(),
                groups.into(),
                first_row.into(),
                shape.steps.into(),
                shape.rows.into(),
                r.n.into(),
                Arg::U32(u32::from(keep)),
            ];
            let blocks = recurrences.len() * groups * tiling.blocks();
            // SAFETY: arguments as the source names them.
            unsafe { pair.forward.launch(stream, blocks, &args)? }
        }
        Ok(())
    }

    /// How far the second direction's parameters lie behind the first's.
    pub(super) fn params_apart(&self, layer: usize) -> Arg {
        match &self.pass.plan.layers[layer][..] {
            [one, other] => (other.w_hh - one.w_hh).into(),
            _ => Arg::U32(0),
        }
    }

    /// A matrix of parameters in f16: gates, units, padded units, columns, columns below, padded columns below.
    fn pack(&self, from: usize, to: Matrix, sizes: [usize; 6], rows: usize) -> Result<()> {
        let ends = [Arg::At(self.pass.state.params.at(from)), Arg::At(to.at)];
        let args: Vec<Arg> =
            ends.into_iter().chain(sizes.map(Arg::from)).chain([to.stride.into()]).collect();
        self.each(&self.pass.kernels.half.pack_weights, rows * to.stride, &args)
    }

    /// Of the last layer, the states that answers are made of: (A, B, W).
    pub(super) fn answering(&self) -> Matrix {
        let last = self.work.layers.last().expect("a layer");
        let first = (1 + self.pass.plan.spec.delay()) * self.pass.shape.rows;
        matrix(&last.h, first * last.padded.width, last.padded.width)
    }

    /// The output layer's weight, (m padded, W).
    pub(super) fn w_out(&self) -> Matrix {
        matrix(&self.work.w_out, 0, self.work.layers.last().expect("a layer").padded.width)
    }

    fn answer(&self) -> Result<()> {
        let Pass { plan, shape, kernels, state, work, .. } = self.pass;
        let [weight, bias] = plan.output.expect("networks without are not taken");
        let (m, last) =
            (plan.spec.answer_width(), self.work.layers.last().expect("a layer").padded);
        let n = plan.layers[plan.layers.len() - 1][0].n;
        let rows = m.next_multiple_of(8);
        let sizes = [1, m, rows, plan.spec.hidden_width(), n, last.n];
        self.pack(weight, self.w_out(), sizes, rows)?;
        let to = Matrix { at: self.work.answers.at(0), stride: rows };
        let sizes = [shape.positions(), rows, last.width];
        let factors = [self.answering(), self.w_out()];
        self.product(Form::TimesTransposed, sizes, factors, 0.0, to, Written::F32)?;
        let args = [
            Arg::At(to.at),
            Arg::At(work.answers.at(0)),
            Arg::At(state.params.at(bias)),
            self.pass.run(),
            plan.spec.delay().into(),
            shape.rows.into(),
            shape.positions().into(),
            m.into(),
            rows.into(),
        ];
        self.each(&kernels.half.answer_padded, shape.positions() * m, &args)
    }
}
