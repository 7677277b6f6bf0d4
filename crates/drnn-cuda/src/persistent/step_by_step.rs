//! Recurrences whose products with W_hh are GEMMs, step by step, in f16 with sums in f32: for
//! layers without another kernel, and large batches of large ones, which are faster so.
//!
//! ```text
//! forward     sums = h_{s-1} W_hh^T      a GEMM; then the cell, kernels/persistent/step_by_step.cu
//! backward    dslots, elementwise; then d_h = dslots_s W_hh, a GEMM
//! ```

use super::forward::{PersistentPass, matrix};
use super::slots::Slots;
use super::{GivenStates, Launch};
use crate::error::Result;
use crate::kernels::params::{
    FirstGradients, PackWeights, SlotsBackward, SlotsForward, SumSlots, ptr, size,
};
use crate::kernels::sources;
use crate::runtime::device::Device;
use crate::runtime::gemm::{Form, Matrix, OutputType};
use crate::runtime::kernel::{Kernel, Module};
use crate::runtime::memory::Buffer;
use crate::step::pass::THREADS;
use crate::step::plan::Recurrence;
use drnn::Cell;

/// Partial sums of bias gradients.
pub(super) const BIAS_CHUNKS: usize = 64;

/// The kernels of a cell.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepKernels {
    slots_forward: Kernel<SlotsForward>,
    slots_backward: Kernel<SlotsBackward>,
    first_gradients: Kernel<FirstGradients>,
    sum_slots: Kernel<SumSlots>,
}

impl StepKernels {
    /// Compiles and loads them.
    pub fn new(device: &Device, cell: Cell) -> Result<StepKernels> {
        let module = Module::new(device, &sources::step_by_step(cell))?;
        Ok(StepKernels {
            slots_forward: module.kernel()?,
            slots_backward: module.kernel()?,
            first_gradients: module.kernel()?,
            sum_slots: module.kernel()?,
        })
    }
}

/// The state arrays of one recurrence, (B, n), among those of a launch's lanes.
fn of_lane(states: [u64; 2], lane: usize, values: usize) -> [u64; 2] {
    let before = (lane * values * size_of::<f32>()) as u64;
    states.map(|at| if at == 0 { 0 } else { at + before })
}

/// Without states: none begin, end or have gradients.
const ZEROS: [u64; 2] = [0; 2];

impl PersistentPass<'_> {
    /// Converts W_hh of a lane to f16, (N, 4, N), for the forward or the backward pass.
    pub(super) fn pack_w_hh(
        &self,
        launch: &Launch,
        lane: usize,
        r: &Recurrence,
        pass: usize,
    ) -> Result<()> {
        let slots = Slots::of_w_hh(self.pass.plan.cell);
        let padded = launch.tiling.padded;
        self.pack(PackWeights {
            n: size(r.n),
            padded: size(padded),
            columns: size(r.n),
            below: size(r.n),
            padded_below: size(padded),
            ..self.pack_weights(r.w_hh, self.w_hh(launch, lane, pass), slots, 4)
        })
    }

    /// W_hh of a lane as packed for a pass.
    fn w_hh(&self, launch: &Launch, lane: usize, pass: usize) -> Matrix {
        let at = launch.packed[pass] + 8 * lane * launch.tiling.packed()[pass];
        matrix(&self.work.packed[pass], at, launch.tiling.padded)
    }

    /// Address of a step of an f16 array (S, B, stride).
    fn at_step(&self, m: Matrix, step: usize) -> u64 {
        m.at + (step * self.pass.shape.rows * m.stride * size_of::<u16>()) as u64
    }

    /// All steps of a launch forward.
    pub(super) fn steps_forward(
        &self,
        launch: &Launch,
        kernels: &StepKernels,
        save: bool,
    ) -> Result<()> {
        for (lane, (layer, r)) in self.lanes(launch).into_iter().enumerate() {
            self.lane_forward(launch, kernels, save, (lane, layer, &r))?;
        }
        Ok(())
    }

    fn lane_forward(
        &self,
        launch: &Launch,
        kernels: &StepKernels,
        save: bool,
        (lane, layer, r): (usize, usize, &Recurrence),
    ) -> Result<()> {
        let (shape, padded) = (self.pass.shape, self.work.layers[layer].padded);
        let (rows, n, cell) =
            (shape.rows, padded.n, usize::from(self.pass.plan.cell.has_cell_state()));
        let (gates, c, h) = (
            self.gates(layer, r.direction),
            self.c(layer, r.direction),
            self.h(layer, r.direction),
        );
        let (first, last) = match self.states {
            Some(GivenStates { first, last, .. }) => {
                let of = |states| of_lane(self.of_launch(launch, states), lane, rows * r.n)[cell];
                (of(*first), of(*last))
            }
            None => (0, 0),
        };
        let tokens = self.uses_table(layer);
        let order = r.order(shape.steps);
        for (taken, &s) in order.iter().enumerate() {
            let (before, after) = r.around(s);
            // States before the first step are zeros, unless they are given.
            let multiplies = taken > 0 || self.states.is_some();
            if multiplies {
                let factors = [
                    Matrix { at: self.at_step(h, before), stride: h.stride },
                    self.w_hh(launch, lane, 0),
                ];
                let sums = Matrix { at: self.work.sums.at(0), stride: 4 * n };
                let sizes = [rows, 4 * n, n];
                self.product(Form::TimesTransposed, sizes, factors, 0.0, sums, OutputType::F32)?;
            }
            let params = SlotsForward {
                sums: ptr(if multiplies { self.work.sums.at(0) } else { 0 }),
                bias: ptr(self.work.bias.at(launch.biases + lane * 4 * n)),
                gates: ptr(self.at_step(gates, s)),
                table: ptr(if tokens { self.table(r).at } else { 0 }),
                tokens: ptr(if tokens { self.tokens_at(s) } else { 0 }),
                state: ptr(self.work.state.at(0)),
                first: ptr(first),
                last: ptr(if taken + 1 == shape.steps { last } else { 0 }),
                h_before: ptr(self.at_step(h, before)),
                h: ptr(self.at_step(h, after)),
                c: ptr(self.at_step(c, after)),
                run: ptr(self.pass.run()),
                step: size(s),
                begins: u32::from(taken == 0),
                from_states: u32::from(self.states.is_some()),
                reverse: size(r.direction),
                symbols: size(if tokens { padded.below } else { 0 }),
                width: size(h.stride),
                rows: size(rows),
                n: size(r.n),
                padded: size(n),
                save: u32::from(save),
            };
            self.each(&kernels.slots_forward, rows * n / 2, &params)?;
        }
        Ok(())
    }

    /// Zeros before the first and after the last step of h and c.
    pub(super) fn clear_ends(&self, launch: &Launch, save: bool) -> Result<()> {
        let shape = self.pass.shape;
        for (layer, r) in self.lanes(launch) {
            let of = &self.work.layers[layer];
            for step in [0, shape.steps + 1] {
                let width = shape.rows * of.padded.width;
                if r.direction == 0 {
                    self.pass.stream.clear(&self.work.h, of.h + step * width, width)?;
                }
                if save {
                    let each = shape.rows * of.padded.n;
                    let of_lane = of.c + r.direction * (shape.steps + 2) * each;
                    self.pass.stream.clear(&self.work.c, of_lane + step * each, each)?;
                }
            }
        }
        Ok(())
    }

    /// All steps of a launch backward.
    pub(super) fn steps_backward(
        &self,
        launch: &Launch,
        kernels: &StepKernels,
        above: &Buffer<u16>,
    ) -> Result<()> {
        for (lane, (layer, r)) in self.lanes(launch).into_iter().enumerate() {
            self.lane_backward(launch, kernels, above, (lane, layer, &r))?;
        }
        Ok(())
    }

    fn lane_backward(
        &self,
        launch: &Launch,
        kernels: &StepKernels,
        above: &Buffer<u16>,
        (lane, layer, r): (usize, usize, &Recurrence),
    ) -> Result<()> {
        let (shape, padded) = (self.pass.shape, self.work.layers[layer].padded);
        let (rows, n) = (shape.rows, padded.n);
        let (gates, c) = (self.gates(layer, r.direction), self.c(layer, r.direction));
        let above = matrix(above, r.direction * n, padded.width);
        let (d_first, d_last) = match self.states {
            Some(GivenStates { d_first, d_last, .. }) => {
                let of = |states| of_lane(self.of_launch(launch, states), lane, rows * r.n);
                (of(*d_first), of(*d_last))
            }
            None => (ZEROS, ZEROS),
        };
        let d_h = Matrix { at: self.work.sums.at(0), stride: n };
        let [header, run] = [self.header(), self.pass.run()];
        for (taken, &s) in r.order(shape.steps).iter().rev().enumerate() {
            let (before, after) = r.around(s);
            let params = SlotsBackward {
                header: ptr(header),
                gates: ptr(self.at_step(gates, s)),
                c_now: ptr(self.at_step(c, after)),
                c_before: ptr(self.at_step(c, before)),
                d_above: ptr(self.at_step(above, s)),
                d_h: ptr(if taken > 0 { d_h.at } else { 0 }),
                d_state: ptr(self.work.state.at(0)),
                d_last_h: ptr(d_last[0]),
                d_last_c: ptr(d_last[1]),
                d_first_h: ptr(d_first[0]),
                run: ptr(run),
                step: size(s),
                begins: u32::from(taken == 0),
                from_states: u32::from(self.states.is_some()),
                reverse: size(r.direction),
                width: size(padded.width),
                rows: size(rows),
                n: size(r.n),
                padded: size(n),
            };
            self.each(&kernels.slots_backward, rows * n / 2, &params)?;
            if taken + 1 < shape.steps || self.states.is_some() {
                let factors =
                    [Matrix { at: self.at_step(gates, s), ..gates }, self.w_hh(launch, lane, 1)];
                let sizes = [rows, n, 4 * n];
                self.product(Form::Times, sizes, factors, 0.0, d_h, OutputType::F32)?;
            }
        }
        if self.states.is_some() {
            let params = FirstGradients {
                header: ptr(header),
                d_h: ptr(d_h.at),
                d_state: ptr(self.work.state.at(0)),
                d_last_h: ptr(d_last[0]),
                d_first_h: ptr(d_first[0]),
                d_first_c: ptr(d_first[1]),
                run: ptr(run),
                reverse: size(r.direction),
                steps: size(shape.steps),
                rows: size(rows),
                n: size(r.n),
                padded: size(n),
            };
            self.each(&kernels.first_gradients, rows * r.n, &params)?;
        }
        let params = SumSlots {
            from: ptr(gates.at),
            to: ptr(self.work.d_bias.at(lane * BIAS_CHUNKS * 4 * n)),
            positions: size(shape.step_rows()),
            padded: size(n),
        };
        let grid = [(n / 2).div_ceil(THREADS), BIAS_CHUNKS];
        // SAFETY: the workspace has the gates of all positions and a sum for each chunk.
        unsafe { kernels.sum_slots.launch(self.pass.stream, grid, THREADS, &params) }
    }
}
