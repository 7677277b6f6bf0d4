//! Recurrences of up to 1024 units on Hopper: all steps in one launch, factors in f16, sums and states in f32.
//!
//! ```text
//! slots = x W_ih^T                          one product, or a table's rows where symbols are few; for layers above others as
//!                                           wide it is made along with the recurrence
//! recurrence                                one launch: both directions of a layer,     kernels/persistent/forward.cu
//!                                           or all layers of a stack, a wavefront
//! answers = h W_o^T + b                     one product
//! dslots from what comes from above         one launch                                  kernels/persistent/backward.cu
//! dW = dslots^T [h x]                       products
//! ```
//!
//! Parameters are packed, and what blocks told each other is forgotten, in a second stream beside this.
//!
//! Gradients are divided by the loss's weight while they are f16, so that they do not vanish.
//!
//! | file | what |
//! |---|---|
//! | `slots` | what a unit's four rows of weights are, by cell |
//! | `tiling` | which multiprocessor has what |
//! | `work` | memory for a pass |
//! | `forward`, `backward` | both ways, put into a stream |
//! | `side_stream` | what runs in the second stream |
//! | `emulated` | tests: the kernels on this machine, beside the equations |

mod backward;
#[cfg(test)]
mod emulated;
mod forward;
mod side_stream;
mod slots;
mod tiling;
mod workspace;

pub(crate) use forward::PersistentPass;
pub(crate) use tiling::{DeviceLimits, KernelSpec, Lanes, Tiling};
pub(crate) use workspace::PersistentWorkspace;

use crate::error::{Error, Result};
use crate::plain::resident;
use crate::runtime::device::Device;
use crate::runtime::stream::{Arg, Kernel, Module, Stream};
use crate::step::plan::{Plan, Recurrence};
use std::ops::Range;

/// A kernel whose blocks wait for each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CooperativeKernel {
    kernel: Kernel,
    threads: usize,
    /// Bytes of shared memory.
    shared: usize,
    /// As [`KernelSpec`] says.
    in_registers: usize,
}

impl CooperativeKernel {
    /// Compiled, loaded, and found to fit on a multiprocessor.
    pub fn new(device: &Device, kind: &KernelSpec) -> Result<CooperativeKernel> {
        let KernelSpec { threads, shared, in_registers, ref source } = *kind;
        let module = Module::new(device, source)?;
        let kernel = module.kernel(source.name)?;
        kernel.allow_shared(shared)?;
        if kernel.max_active_blocks(threads, shared)? == 0 {
            return Err(Error::Unsupported(format!("{} does not fit on {device}", source.name)));
        }
        Ok(CooperativeKernel { kernel, threads, shared, in_registers })
    }

    /// Runs it some time later, all blocks at once.
    ///
    /// # Safety
    /// As [`Kernel::launch_cooperative`].
    unsafe fn launch(&self, stream: &Stream, blocks: usize, args: &[Arg]) -> Result<()> {
        // SAFETY: the caller's promise; as much shared memory was allowed.
        unsafe { self.kernel.launch_cooperative(stream, blocks, self.threads, self.shared, args) }
    }
}

/// Whether a network takes this way: one with an output layer, on a card that has the instructions, unless all of it is small
/// enough for [`resident`].
pub(crate) fn takes(device: &Device, plan: &Plan) -> bool {
    let card = device.limits();
    let alone = |count| Lanes::Directions { count, below: 0 };
    let fits = |n, count| Tiling::of(plan.cell, n, alone(count), 1, card).is_some();
    let large = |n| resident::groups(plan.cell, n).is_none();
    device.is_hopper()
        && plan.output.is_some()
        && plan.layers.iter().any(|l| large(l[0].n))
        && plan.layers.iter().all(|l| fits(l[0].n, l.len()))
}

/// Layers whose recurrences run in one launch.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    layers: Range<usize>,
    tiling: Tiling,
    /// Where its weights begin among all that are packed for the way forward, and for the way back, and its biases.
    packed: [usize; 2],
    biases: usize,
    forward: CooperativeKernel,
    backward: CooperativeKernel,
}

impl Launch {
    /// Units of each direction below a layer that are multiplied along with its own. The lowest layer has none.
    fn units_below(&self, layer: usize, r: &Recurrence) -> usize {
        if self.tiling.below > 0 && layer > 0 { r.inputs / self.tiling.below } else { 0 }
    }
}

/// A network's layers, for batches of some number of rows.
#[derive(Debug, Clone)]
pub(crate) struct PersistentNet {
    launches: Vec<Launch>,
}

impl PersistentNet {
    pub fn new(device: &Device, plan: &Plan, rows: usize) -> Result<PersistentNet> {
        let (card, rows) = (device.limits(), rows.max(1));
        let tilings = tilings(plan, rows, card)
            .ok_or_else(|| Error::Unsupported(format!("{} on {device}", plan.spec)))?;
        let (mut packed, mut biases) = ([0; 2], 0);
        let launch = |(layers, tiling): (Range<usize>, Tiling)| {
            let table = layers.start == 0 && workspace::has_table(plan);
            let forward = tiling.forward(table, card).expect("fits, also where it looks up");
            let begin = (packed, biases);
            packed = [0, 1].map(|way| packed[way] + 8 * tiling.lanes * tiling.packed()[way]);
            biases += 4 * tiling.lanes * tiling.padded;
            Ok(Launch {
                layers,
                tiling,
                packed: begin.0,
                biases: begin.1,
                forward: device.cooperative_kernel(&forward)?,
                backward: device.cooperative_kernel(&tiling.backward())?,
            })
        };
        Ok(PersistentNet { launches: tilings.into_iter().map(launch).collect::<Result<_>>()? })
    }
}

/// All layers of a stack at once where that takes fewer launches, else layer by layer.
fn tilings(plan: &Plan, rows: usize, card: DeviceLimits) -> Option<Vec<(Range<usize>, Tiling)>> {
    let of =
        |layer: usize, lanes| Tiling::of(plan.cell, plan.layers[layer][0].n, lanes, rows, card);
    let (count, directions) = (plan.layers.len(), plan.layers[0].len());
    let mut each: Vec<(Range<usize>, Tiling)> = Vec::new();
    for layer in 0..count {
        let alone = of(layer, Lanes::Directions { count: directions, below: 0 })?;
        let along = each.last().and_then(|(_, lower)| {
            let lanes = Lanes::Directions { count: directions, below: directions };
            of(layer, lanes).filter(|tiling| tiling.continues(lower))
        });
        each.push((layer..layer + 1, along.unwrap_or(alone)));
    }
    let launches: usize = each.iter().map(|(_, tiling)| tiling.waves(rows).count()).sum();
    let stack = workspace::is_stack(plan).then(|| of(0, Lanes::Layers(count))).flatten();
    Some(match stack.filter(|stack| stack.waves(rows).count() < launches) {
        Some(stack) => vec![(0..count, stack)],
        None => each,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use drnn::{Cell, NetSpec};

    #[test]
    fn stacks_go_at_once_until_batches_are_large() {
        let card = DeviceLimits { multiprocessors: 132, shared: 227 << 10 };
        let launches = |units: &[usize], rows| {
            let spec = NetSpec::builder(Cell::Lstm).dense(3).units(units.to_vec()).outputs(2);
            let plan = Plan::new(&spec.build().unwrap()).unwrap();
            let tilings = tilings(&plan, rows, card).unwrap();
            tilings.into_iter().map(|(layers, _)| layers.len()).collect::<Vec<_>>()
        };
        assert_eq!(launches(&[343; 5], 128), [5]);
        assert_eq!(launches(&[343, 350, 330], 128), [3]);
        assert_eq!(launches(&[343, 300], 128), [1, 1]);
        assert_eq!(launches(&[594, 594], 128), [1, 1]);
        assert_eq!(launches(&[343, 343], 5000), [1, 1]);
    }
}
