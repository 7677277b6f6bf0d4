//! Work that overlaps with a pass in the low-priority side stream: packing weights into the order
//! in which kernels read them, and resetting the h exchange of the previous pass.
//!
//! No GEMMs: the cuBLAS handle is bound to the main stream.

use super::Launch;
use super::forward::PersistentPass;
use super::slots::Slots;
use super::tiling::Kind;
use crate::error::Result;
use crate::kernels::params::{
    FlipExchange, OneHot, PackBackward, PackBias, PackForward, PackSingleBlock, PackWeights,
    ResetExchange, ptr, size,
};
use crate::runtime::gemm::Matrix;
use crate::step::pass::Pass;
use crate::step::plan::Recurrence;

/// 16-byte words that a thread of the reset kernel writes.
const RESET_PER_THREAD: usize = 8;

impl PersistentPass<'_> {
    /// Packs the weights that a launch reads in the forward pass.
    pub fn weights_forward(&self, launch: &Launch) -> Result<()> {
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
        self.pack(PackWeights {
            n: size(m),
            padded: size(m.next_multiple_of(8)),
            columns: size(plan.spec.hidden_width()),
            below: size(n),
            padded_below: size(padded),
            ..self.pack_weights(weight, self.w_out(), Slots::plain(), 1)
        })
    }

    /// Prepares what only the backward pass needs: transposed weights, and with a table the one-hot
    /// symbols.
    pub(super) fn prepare_backward(&self) -> Result<()> {
        if self.uses_table(0) {
            let (slots, k) = (self.pass.shape.step_rows(), self.work.layers[0].padded.inputs);
            let params = OneHot {
                tokens: ptr(self.pass.part(self.pass.staged().input)),
                to: ptr(self.work.x.at(0)),
                slots: size(slots),
                stride: size(k),
            };
            self.each(&self.pass.kernels.half.one_hot, slots * k, &params)?;
        }
        for launch in &self.net.launches {
            self.pack_backward(launch)?;
            if launch.layers.start > 0 && !self.needs_input_product(launch) {
                self.pack_w_ih(launch.layers.start)?;
            }
        }
        Ok(())
    }

    /// Resets the h exchange of the previous pass to the empty sentinel. All of it, since that pass
    /// may have had a larger batch.
    pub(super) fn reset_exchange(&self) -> Result<()> {
        let [even, odd] = self.h_exchange(0);
        let words = self.work.h_exchange[0].len() / 8;
        let params = ResetExchange {
            even: ptr(even),
            odd: ptr(odd),
            parity: ptr(self.work.exchange_parity.at(0)),
            count: size(words),
        };
        let threads = words.div_ceil(RESET_PER_THREAD);
        self.each(&self.pass.kernels.half.reset_exchange, threads, &params)
    }

    /// Swaps the two h exchanges; submitted after all forward launches.
    pub(super) fn flip_exchange(&self) -> Result<()> {
        let params = FlipExchange { parity: ptr(self.work.exchange_parity.at(0)) };
        let kernel = &self.pass.kernels.half.flip_exchange;
        // SAFETY: one word; a single thread.
        unsafe { kernel.launch(self.pass.stream, [1, 1], 1, &params) }
    }

    /// Packs W_ih of a layer's directions for GEMMs.
    pub fn pack_w_ih(&self, layer: usize) -> Result<()> {
        let padded = self.work.layers[layer].padded;
        self.pass.plan.layers[layer].iter().try_for_each(|r| {
            let slots = Slots::of_w_ih(self.pass.plan.cell);
            self.pack(PackWeights {
                n: size(r.n),
                padded: size(padded.n),
                columns: size(r.inputs),
                below: size(padded.below),
                padded_below: size(padded.padded_below),
                ..self.pack_weights(r.w_ih, self.w_ih(layer, r), slots, 4)
            })
        })
    }

    /// Packs a launch's weights and biases in the order in which its threads read them.
    fn pack_forward(&self, launch: &Launch) -> Result<()> {
        let Pass { plan, params, kernels, .. } = self.pass;
        let (tiling, cell) = (&launch.tiling, plan.cell);
        let [packed, _] = tiling.packed();
        for (lane, (layer, r)) in self.lanes(launch).into_iter().enumerate() {
            match tiling.kind {
                Kind::Exchange => {}
                Kind::SingleBlock => {
                    self.pack_single_block(launch, lane, &r, [true, false])?;
                    continue;
                }
                Kind::StepByStep => {
                    self.pack_w_hh(launch, lane, &r, 0)?;
                    self.pack_bias(launch, lane, &r)?;
                    continue;
                }
            }
            let params = PackForward {
                w_ih: ptr(params.at(r.w_ih)),
                w_hh: ptr(params.at(r.w_hh)),
                b_ih: ptr(params.at(r.b_ih)),
                b_hh: ptr(params.at(r.b_hh)),
                to: ptr(self.work.packed[0].at(launch.packed[0] + 8 * lane * packed)),
                bias: ptr(self.work.bias.at(launch.biases + lane * 4 * tiling.padded)),
                slots_ih: Slots::of_w_ih(cell).word(),
                slots_hh: Slots::of_w_hh(cell).word(),
                n: size(r.n),
                below: size(launch.units_below(layer, &r)),
                padded: size(tiling.padded),
                segments: size(tiling.segments()),
                in_registers: size(launch.in_registers[0]),
                units: size(tiling.units),
            };
            self.each(&kernels.half.pack_forward, packed.max(4 * tiling.padded), &params)?;
        }
        Ok(())
    }

    /// Packs a launch's transposed weights in the order in which its threads read them.
    pub fn pack_backward(&self, launch: &Launch) -> Result<()> {
        let Pass { plan, params, kernels, .. } = self.pass;
        let (tiling, cell) = (&launch.tiling, plan.cell);
        let [_, packed] = tiling.packed();
        for (lane, (layer, r)) in self.lanes(launch).into_iter().enumerate() {
            match tiling.kind {
                Kind::Exchange => {}
                Kind::SingleBlock => {
                    self.pack_single_block(launch, lane, &r, [false, true])?;
                    continue;
                }
                Kind::StepByStep => {
                    self.pack_w_hh(launch, lane, &r, 1)?;
                    continue;
                }
            }
            let params = PackBackward {
                w_ih: ptr(params.at(r.w_ih)),
                w_hh: ptr(params.at(r.w_hh)),
                to: ptr(self.work.packed[1].at(launch.packed[1] + 8 * lane * packed)),
                slots_ih: Slots::of_w_ih(cell).word(),
                slots_hh: Slots::of_w_hh(cell).word(),
                n: size(r.n),
                below: size(launch.units_below(layer, &r)),
                padded: size(tiling.padded),
                segments: size(tiling.segments_back()),
                tiles: size(tiling.tiles()),
                in_registers: size(launch.in_registers[1]),
                units: size(tiling.units),
            };
            self.each(&kernels.half.pack_backward, packed, &params)?;
        }
        Ok(())
    }

    /// The sums of a lane's biases alone.
    fn pack_bias(&self, launch: &Launch, lane: usize, r: &Recurrence) -> Result<()> {
        let Pass { plan, params, kernels, .. } = self.pass;
        let padded = launch.tiling.padded;
        let params = PackBias {
            b_ih: ptr(params.at(r.b_ih)),
            b_hh: ptr(params.at(r.b_hh)),
            bias: ptr(self.work.bias.at(launch.biases + lane * 4 * padded)),
            slots_ih: Slots::of_w_ih(plan.cell).word(),
            slots_hh: Slots::of_w_hh(plan.cell).word(),
            n: size(r.n),
            padded: size(padded),
        };
        self.each(&kernels.half.pack_bias, 4 * padded, &params)
    }

    /// The same of a lane whose units are all in one block, for the passes that are wanted.
    fn pack_single_block(
        &self,
        launch: &Launch,
        lane: usize,
        r: &Recurrence,
        wanted: [bool; 2],
    ) -> Result<()> {
        let Pass { plan, params, kernels, .. } = self.pass;
        let (tiling, cell) = (&launch.tiling, plan.cell);
        let (words, bias) =
            (tiling.packed(), self.work.bias.at(launch.biases + lane * 4 * tiling.padded));
        let to = |pass: usize| match wanted[pass] {
            true => self.work.packed[pass].at(launch.packed[pass] + 8 * lane * words[pass]),
            false => 0,
        };
        let params = PackSingleBlock {
            w_hh: ptr(params.at(r.w_hh)),
            b_ih: ptr(if wanted[0] { params.at(r.b_ih) } else { 0 }),
            b_hh: ptr(if wanted[0] { params.at(r.b_hh) } else { 0 }),
            forward: ptr(to(0)),
            backward: ptr(to(1)),
            bias: ptr(if wanted[0] { bias } else { 0 }),
            slots_ih: Slots::of_w_ih(cell).word(),
            slots_hh: Slots::of_w_hh(cell).word(),
            n: size(r.n),
            padded: size(tiling.padded),
        };
        self.each(&kernels.half.pack_single_block, words[0], &params)
    }

    /// Converts a matrix of parameters to f16 with `per_unit` rows per unit; `sizes` are units,
    /// padded units, columns, and contiguous columns without and with padding.
    pub(super) fn pack_weights(
        &self,
        from: usize,
        to: Matrix,
        slots: Slots,
        per_unit: usize,
    ) -> PackWeights {
        PackWeights {
            from: ptr(self.pass.params.at(from)),
            to: ptr(to.at),
            slots: slots.word(),
            per_unit: size(per_unit),
            n: 0,
            padded: 0,
            columns: 0,
            below: 0,
            padded_below: 0,
            stride: size(to.stride),
        }
    }

    pub(super) fn pack(&self, params: PackWeights) -> Result<()> {
        let values = params.per_unit * params.padded * params.stride;
        self.each(&self.pass.kernels.half.pack_weights, values as usize, &params)
    }
}
