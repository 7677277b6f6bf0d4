//! What runs beside a pass, in a stream of its own: parameters are packed for it, and what the pass before told is forgotten.
//!
//! Nothing here is a product: those belong to the first stream.

use super::Launch;
use super::forward::PersistentPass;
use super::slots::Slots;
use crate::error::Result;
use crate::runtime::gemm::Matrix;
use crate::runtime::stream::Arg;
use crate::step::pass::Pass;

/// Times 16 bytes that a thread of `forget` fills.
const RESET_PER_THREAD: usize = 8;

impl PersistentPass<'_> {
    /// A launch's parameters, as it reads them.
    pub(super) fn weights_forward(&self, launch: &Launch) -> Result<()> {
        if self.needs_input_product(launch) {
            self.pack_w_ih(launch.layers.start)?;
        }
        self.pack_forward(launch)
    }

    /// The output layer's weight, as products read it.
    pub(super) fn pack_output(&self) -> Result<()> {
        let plan = self.pass.plan;
        let [weight, _] = plan.output.expect("networks without are not taken");
        let (m, last) = (plan.spec.answer_width(), plan.layers.len() - 1);
        let (n, padded) = (plan.layers[last][0].n, self.work.layers[last].padded.n);
        let sizes = [m, m.next_multiple_of(8), plan.spec.hidden_width(), n, padded];
        self.pack(weight, self.w_out(), Slots::plain(), 1, sizes)
    }

    /// What the way back needs and the way forward does not: weights, and which symbol x is where a table stands for it.
    pub(super) fn prepare_backward(&self) -> Result<()> {
        if self.uses_table(0) {
            let (slots, k) = (self.pass.shape.slots(), self.work.layers[0].padded.inputs);
            let tokens = Arg::At(self.pass.part(self.pass.staged().input));
            let args = [tokens, Arg::At(self.work.x.at(0)), slots.into(), k.into()];
            self.each(&self.pass.kernels.half.one_hot, slots * k, &args)?;
        }
        for launch in &self.net.launches {
            self.pack_backward(launch)?;
            if launch.layers.start > 0 && !self.needs_input_product(launch) {
                self.pack_w_ih(launch.layers.start)?;
            }
        }
        Ok(())
    }

    /// Where the pass before told, nothing has been told. All of it: that pass may have been a larger one.
    pub(super) fn reset_exchange(&self) -> Result<()> {
        let [even, odd] = self.h_exchange(0);
        let words = self.work.h_exchange[0].len() / 8;
        let args = [even, odd, Arg::At(self.work.exchange_parity.at(0)), words.into()];
        self.each(&self.pass.kernels.half.reset_exchange, words.div_ceil(RESET_PER_THREAD), &args)
    }

    /// This pass has told all it had to.
    pub(super) fn flip_exchange(&self) -> Result<()> {
        let turn = [Arg::At(self.work.exchange_parity.at(0))];
        // SAFETY: arguments as the source names them; a single thread.
        unsafe { self.pass.kernels.half.flip_exchange.launch(self.pass.stream, [1, 1], 1, &turn) }
    }

    /// W_ih of a layer's directions, as products read them.
    fn pack_w_ih(&self, layer: usize) -> Result<()> {
        let padded = self.work.layers[layer].padded;
        self.pass.plan.layers[layer].iter().try_for_each(|r| {
            let sizes = [r.n, padded.n, r.inputs, padded.below, padded.padded_below];
            let slots = Slots::of_w_ih(self.pass.plan.cell);
            self.pack(r.w_ih, self.w_ih(layer, r), slots, 4, sizes)
        })
    }

    /// A launch's weights and biases, as its blocks read them.
    fn pack_forward(&self, launch: &Launch) -> Result<()> {
        let Pass { plan, state, kernels, .. } = self.pass;
        let (tiling, cell) = (&launch.tiling, plan.cell);
        let [packed, _] = tiling.packed();
        for (lane, (layer, r)) in self.lanes(launch).into_iter().enumerate() {
            let args = [
                Arg::At(state.params.at(r.w_ih)),
                Arg::At(state.params.at(r.w_hh)),
                Arg::At(state.params.at(r.b_ih)),
                Arg::At(state.params.at(r.b_hh)),
                Arg::At(self.work.packed[0].at(launch.packed[0] + 8 * lane * packed)),
                Arg::At(self.work.bias.at(launch.biases + lane * 4 * tiling.padded)),
                Arg::U32(Slots::of_w_ih(cell).word()),
                Arg::U32(Slots::of_w_hh(cell).word()),
                r.n.into(),
                launch.units_below(layer, &r).into(),
                tiling.padded.into(),
                tiling.segments().into(),
                launch.forward.in_registers.into(),
            ];
            self.each(&kernels.half.pack_forward, packed.max(4 * tiling.padded), &args)?;
        }
        Ok(())
    }

    /// A launch's weights, transposed, as its blocks read them.
    fn pack_backward(&self, launch: &Launch) -> Result<()> {
        let Pass { plan, state, kernels, .. } = self.pass;
        let (tiling, cell) = (&launch.tiling, plan.cell);
        let [_, packed] = tiling.packed();
        for (lane, (layer, r)) in self.lanes(launch).into_iter().enumerate() {
            let args = [
                Arg::At(state.params.at(r.w_ih)),
                Arg::At(state.params.at(r.w_hh)),
                Arg::At(self.work.packed[1].at(launch.packed[1] + 8 * lane * packed)),
                Arg::U32(Slots::of_w_ih(cell).word()),
                Arg::U32(Slots::of_w_hh(cell).word()),
                r.n.into(),
                launch.units_below(layer, &r).into(),
                tiling.padded.into(),
                tiling.segments_back().into(),
                tiling.tiles().into(),
                launch.backward.in_registers.into(),
            ];
            self.each(&kernels.half.pack_backward, packed, &args)?;
        }
        Ok(())
    }

    /// A matrix of parameters in f16, with so many rows for each unit; sizes are units, padded units, columns, columns below,
    /// padded columns below.
    fn pack(
        &self,
        from: usize,
        to: Matrix,
        slots: Slots,
        per_unit: usize,
        sizes: [usize; 5],
    ) -> Result<()> {
        let ends = [Arg::At(self.pass.state.params.at(from)), Arg::At(to.at)];
        let slots = [Arg::U32(slots.word()), per_unit.into()];
        let sizes_and_stride = sizes.map(Arg::from).into_iter().chain([to.stride.into()]);
        let args: Vec<Arg> = ends.into_iter().chain(slots).chain(sizes_and_stride).collect();
        let values = per_unit * sizes[1] * to.stride;
        self.each(&self.pass.kernels.half.pack_weights, values, &args)
    }
}
