//! LSTMs whose recurrent weights fit the registers of a block: all steps of a direction in one
//! launch. The kernels are `kernels/resident/resident.cu`.

use super::PlainPass;
use crate::error::Result;
use crate::kernels::params::{Params, ResidentBackward, ResidentForward, ptr, size};
use crate::kernels::sources;
use crate::runtime::device::Device;
use crate::runtime::kernel::{Kernel, Module};
use crate::runtime::memory::Buffer;
use crate::step::plan::{Plan, Recurrence};
use drnn::Cell;

/// Units that fit: 8 per warp, and a block has registers for 16 such warps.
const MAX_UNITS: usize = 128;
/// Rows of the batch per block.
const ROWS: usize = 16;

/// The kernels for one number of warps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resident {
    groups: usize,
    forward: Kernel<ResidentForward>,
    backward: Kernel<ResidentBackward>,
}

/// Bytes of shared memory for staging rows: gates of two steps, c and h, each row padded against
/// bank conflicts.
fn shared(n: usize) -> usize {
    let stride = |width: usize| width + (40 - width % 32) % 32;
    ROWS * (2 * stride(4 * n) + 2 * stride(n)) * size_of::<f32>()
}

/// Bytes of shared memory of the larger kernel, backward, with its static buffer of gate gradients.
fn all_shared(groups: usize) -> usize {
    shared(8 * groups) + 2 * ROWS * (32 * groups + 8) * size_of::<u16>()
}

/// Warps for a recurrence of `n` units; `None` if it does not fit.
pub(crate) fn groups(cell: Cell, n: usize) -> Option<usize> {
    (cell == Cell::Lstm && n <= MAX_UNITS).then(|| n.div_ceil(8))
}

impl Resident {
    /// Compiles and loads both kernels.
    pub fn new(device: &Device, groups: usize) -> Result<Resident> {
        let module = Module::new(device, &sources::resident(groups))?;
        let (forward, backward) =
            (module.kernel::<ResidentForward>()?, module.kernel::<ResidentBackward>()?);
        forward.allow_shared(shared(8 * groups))?;
        backward.allow_shared(shared(8 * groups))?;
        Ok(Resident { groups, forward, backward })
    }

    /// The kernels of each layer; `None` for layers that do not fit.
    pub fn of(device: &Device, plan: &Plan) -> Result<Vec<Option<Resident>>> {
        let layer = |layer: &Vec<Recurrence>| {
            let groups =
                groups(plan.cell, layer[0].n).filter(|g| all_shared(*g) <= device.shared());
            groups.map(|groups| device.resident(groups)).transpose()
        };
        plan.layers.iter().map(layer).collect()
    }

    /// All steps forward: `gates` holds x W_ih^T and is overwritten by the gates; writes c and h.
    pub fn forward(&self, pass: &PlainPass, layer: usize, r: &Recurrence) -> Result<()> {
        let work = &pass.work.recurrences[layer][r.direction];
        let weights = pass.pass.params;
        let params = ResidentForward {
            gates: ptr(work.gates.at(0)),
            w_hh: ptr(weights.at(r.w_hh)),
            bias_ih: ptr(weights.at(r.b_ih)),
            bias_hh: ptr(weights.at(r.b_hh)),
            c: ptr(work.c.at(0)),
            h: ptr(pass.work.h[layer].at(r.direction * r.n)),
            run: ptr(pass.pass.run()),
            h_stride: size(r.width),
            reverse: size(r.direction),
            steps: size(pass.pass.shape.steps),
            rows: size(pass.pass.shape.rows),
            n: size(r.n),
        };
        self.launch(&self.forward, pass, r, &params)
    }

    /// All steps backward: gates are overwritten by their gradients.
    pub fn backward(
        &self,
        pass: &PlainPass,
        layer: usize,
        r: &Recurrence,
        above: &Buffer<f32>,
    ) -> Result<()> {
        let work = &pass.work.recurrences[layer][r.direction];
        let params = ResidentBackward {
            header: ptr(pass.pass.part(0)),
            gates: ptr(work.gates.at(0)),
            w_hh: ptr(pass.pass.params.at(r.w_hh)),
            c: ptr(work.c.at(0)),
            d_above: ptr(above.at(r.direction * r.n)),
            run: ptr(pass.pass.run()),
            d_stride: size(r.width),
            reverse: size(r.direction),
            steps: size(pass.pass.shape.steps),
            rows: size(pass.pass.shape.rows),
            n: size(r.n),
        };
        self.launch(&self.backward, pass, r, &params)
    }

    fn launch<P: Params>(
        &self,
        kernel: &Kernel<P>,
        pass: &PlainPass,
        r: &Recurrence,
        params: &P,
    ) -> Result<()> {
        let (blocks, threads) = (pass.pass.shape.rows.div_ceil(ROWS), 32 * self.groups);
        // SAFETY: the workspace is large enough for the shape; a warp per 8 units, a block per 16
        // rows.
        unsafe { kernel.launch_with(pass.pass.stream, [blocks, 1], threads, shared(r.n), params) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn up_to_128_lstm_units_fit() {
        assert_eq!(groups(Cell::Lstm, 100), Some(13));
        assert_eq!((groups(Cell::Lstm, 128), groups(Cell::Lstm, 129)), (Some(16), None));
        assert_eq!(groups(Cell::Gru, 100), None);
        assert!(all_shared(13) < 99 << 10 && all_shared(16) < 227 << 10);
    }
}
