//! Work that overlaps with a pass in the low-priority side stream: packing weights into the order in
//! which kernels read them, and resetting the h exchange of the previous pass.
//!
//! No GEMMs: the cuBLAS handle is bound to the main stream.

use super::Launch;
use super::forward::PersistentPass;
use super::slots::Slots;
use crate::error::Result;
use crate::runtime::gemm::Matrix;
use crate::runtime::stream::Arg;
use crate::step::pass::Pass;

/// 16-byte words that a thread of the reset kernel writes.
const RESET_PER_THREAD: usize = 8;

impl PersistentPass<'_> {
    /// Packs the weights that a launch reads in the forward pass.
    pub(super) fn weights_forward(&self, launch: &Launch) -> Result<()> {
        if self.needs_input_product(launch) {
            self.pack_w_ih(launch.layers.start)?;
        }
        self.pack_forward(launch)
    }

    /// Packs the output layer's weight for its GEMM.
    pub(super) fn pack_output(&self) -> Result<()> {
        let plan = self.pass.plan;
        let [weight, _] = plan.output.expect("`supports` requires an output layer");
        let (m, last) = (plan.spec.output_width(), plan.layers.len() - 1);
        let (n, padded) = (plan.layers[last][0].n, self.work.layers[last].padded.n);
        let sizes = [m, m.next_multiple_of(8), plan.spec.hidden_width(), n, padded];
        self.pack(weight, self.w_out(), Slots::plain(), 1, sizes)
    }

    /// Prepares what only the backward pass needs: transposed weights, and with a table the one-hot
    /// symbols.
    pub(super) fn prepare_backward(&self) -> Result<()> {
        if self.uses_table(0) {
            let (slots, k) = (self.pass.shape.step_rows(), self.work.layers[0].padded.inputs);
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

    /// Resets the h exchange of the previous pass to the empty sentinel. All of it, since that pass may
    /// have had a larger batch.
    pub(super) fn reset_exchange(&self) -> Result<()> {
        let [even, odd] = self.h_exchange(0);
        let words = self.work.h_exchange[0].len() / 8;
        let args = [even, odd, Arg::At(self.work.exchange_parity.at(0)), words.into()];
        self.each(&self.pass.kernels.half.reset_exchange, words.div_ceil(RESET_PER_THREAD), &args)
    }

    /// Swaps the two h exchanges; submitted after all forward launches.
    pub(super) fn flip_exchange(&self) -> Result<()> {
        let turn = [Arg::At(self.work.exchange_parity.at(0))];
        // SAFETY: arguments as the source declares them; a single thread.
        unsafe { self.pass.kernels.half.flip_exchange.launch(self.pass.stream, [1, 1], 1, &turn) }
    }

    /// Packs W_ih of a layer's directions for GEMMs.
    fn pack_w_ih(&self, layer: usize) -> Result<()> {
        let padded = self.work.layers[layer].padded;
        self.pass.plan.layers[layer].iter().try_for_each(|r| {
            let sizes = [r.n, padded.n, r.inputs, padded.below, padded.padded_below];
            let slots = Slots::of_w_ih(self.pass.plan.cell);
            self.pack(r.w_ih, self.w_ih(layer, r), slots, 4, sizes)
        })
    }

    /// Packs a launch's weights and biases in the order in which its threads read them.
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

    /// Packs a launch's transposed weights in the order in which its threads read them.
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

    /// Converts a matrix of parameters to f16 with `per_unit` rows per unit; `sizes` are units, padded
    /// units, columns, and contiguous columns without and with padding.
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
