//! LSTMs whose recurrent weights fit the registers of a block: all steps of a direction in one launch.
//! The kernels are `kernels/resident/resident.cu`.

use super::PlainPass;
use crate::error::Result;
use crate::runtime::compile::Source;
use crate::runtime::device::Device;
use crate::runtime::memory::Buffer;
use crate::runtime::stream::{Arg, Kernel, Module};
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
    forward: Kernel,
    backward: Kernel,
}

/// The source of the kernels for `groups` times 8 units.
pub(crate) fn source(groups: usize) -> Source {
    Source {
        name: "resident",
        parts: vec![
            include_str!("../kernels/common/common.cuh"),
            include_str!("../kernels/resident/resident.cu"),
        ],
        defines: vec![format!("GROUPS={groups}")],
    }
}

/// Bytes of shared memory for staging rows: gates of two steps, c and h, each row padded against bank
/// conflicts.
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
        let module = Module::new(device, &source(groups))?;
        let (forward, backward) =
            (module.kernel("resident_forward")?, module.kernel("resident_backward")?);
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
        let params = &pass.pass.state.params;
        let args = [
            Arg::At(work.gates.at(0)),
            Arg::At(params.at(r.w_hh)),
            Arg::At(params.at(r.b_ih)),
            Arg::At(params.at(r.b_hh)),
            Arg::At(work.c.at(0)),
            Arg::At(pass.work.h[layer].at(r.direction * r.n)),
            r.width.into(),
        ];
        self.launch(&self.forward, pass, r, &args)
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
        let args = [
            Arg::At(pass.pass.part(0)),
            Arg::At(work.gates.at(0)),
            Arg::At(pass.pass.state.params.at(r.w_hh)),
            Arg::At(work.c.at(0)),
            Arg::At(above.at(r.direction * r.n)),
            r.width.into(),
        ];
        self.launch(&self.backward, pass, r, &args)
    }

    fn launch(
        &self,
        kernel: &Kernel,
        pass: &PlainPass,
        r: &Recurrence,
        args: &[Arg],
    ) -> Result<()> {
        let rows = pass.pass.shape.rows;
        let reverse = Arg::from(r.direction);
        let end = [pass.pass.run(), reverse, pass.pass.shape.steps.into(), rows.into(), r.n.into()];
        let args: Vec<Arg> = args.iter().copied().chain(end).collect();
        let blocks = rows.div_ceil(ROWS);
        // SAFETY: arguments as the source declares them; a warp per group, a block per 16 rows.
        unsafe {
            let threads = 32 * self.groups;
            kernel.launch_with(pass.pass.stream, [blocks, 1], threads, shared(r.n), &args)
        }
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
