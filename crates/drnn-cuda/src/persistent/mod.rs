//! Persistent kernels: recurrences of up to 2048 units on Hopper, all time steps in one launch.
//! Factors are f16, sums f32; `docs/GPU.md` explains the kernels.
//!
//! ```text
//! slots = x W_ih^T         a GEMM; a table lookup for few symbols; inside the recurrence for a
//!                          layer above one of the same padded width
//! recurrence               one launch (kernels/persistent/forward.cu): both directions of a layer,
//!                          or all layers of a stack as a wavefront
//! outputs = h W_o^T + b    a GEMM
//! dslots                   one launch (kernels/persistent/backward.cu)
//! dW = dslots^T [h x]      GEMMs
//! ```
//!
//! A side stream packs the weights and resets the h exchange at the same time.
//!
//! Loss scaling: while gradients are f16 they are divided by the loss's weight (1 / number of
//! positions), so that they do not underflow.
//!
//! | file | what |
//! |---|---|
//! | `slots` | which gates a unit's four rows of weights are, by cell |
//! | `tiling` | how units, rows and lanes are divided among multiprocessors |
//! | `step_by_step` | recurrences with a product for each step |
//! | `single_block` | recurrences of up to 128 units, all units of a row in one block |
//! | `cost` | estimated times, by which tilings and ways are chosen |
//! | `forced` | tilings and kinds that the environment gives, for measuring |
//! | `spec` | the kernels of a tiling, before they are compiled |
//! | `workspace` | device memory of a pass |
//! | `forward`, `backward` | the passes, submitted to a stream |
//! | `side_stream` | weight packing and resets, in the side stream |
//! | `emulated` | tests: the kernels as C++ threads on the host, compared with the equations |

mod backward;
mod cost;
#[cfg(test)]
mod emulated;
mod forced;
mod forward;
mod side_stream;
mod single_block;
mod slots;
mod spec;
mod step_by_step;
mod tiling;
mod workspace;

pub(crate) use forced::ForcedTiling;
#[cfg(test)]
pub(crate) use forced::Kinds;
pub(crate) use forward::PersistentPass;
pub(crate) use spec::KernelSpec;
pub(crate) use step_by_step::StepKernels;
pub(crate) use tiling::{DeviceLimits, Kind, Lanes, LayerShape, Tiling};
pub(crate) use workspace::{LayerWorkspace, Padded, PersistentWorkspace};

use crate::error::{Error, Result};
use crate::kernels::RecurrenceKernels;
use crate::kernels::params::{
    Params, PersistentBackward, PersistentBackwardFromStates, PersistentForward,
    PersistentForwardFromStates,
};
use crate::runtime::device::Device;
use crate::runtime::kernel::{Kernel, Module};
use crate::runtime::stream::Stream;
use crate::step::plan::{Plan, Recurrence};
use std::ops::Range;

/// The kernel of a tiling's forward or backward pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PersistentKernel<P> {
    kernel: Kernel<P>,
    threads: usize,
    /// Bytes of shared memory.
    shared: usize,
    /// Whether blocks exchange data while they run, so that all of them must be resident.
    cooperative: bool,
}

impl<P: Params> PersistentKernel<P> {
    /// Compiles and loads it, and checks that a block fits a multiprocessor.
    pub fn new(device: &Device, spec: &KernelSpec) -> Result<PersistentKernel<P>> {
        let KernelSpec { threads, shared, cooperative, ref source, .. } = *spec;
        let kernel = Module::new(device, source)?.kernel::<P>()?;
        kernel.allow_shared(shared)?;
        if kernel.max_active_blocks(threads, shared)? == 0 {
            return Err(Error::Unsupported(format!("{} does not fit on {device}", source.name)));
        }
        Ok(PersistentKernel { kernel, threads, shared, cooperative })
    }

    /// Launches `blocks` blocks.
    ///
    /// # Safety
    /// As [`Kernel::launch_cooperative`].
    unsafe fn launch(&self, stream: &Stream, blocks: usize, params: &P) -> Result<()> {
        let PersistentKernel { kernel, threads, shared, cooperative } = self;
        // SAFETY: the caller's contract; `new` allowed as much shared memory.
        unsafe {
            match cooperative {
                true => kernel.launch_cooperative(stream, blocks, *threads, *shared, params),
                false => kernel.launch_with(stream, [blocks, 1], *threads, *shared, params),
            }
        }
    }
}

impl<P> PersistentKernel<P> {
    /// As [`Kernel::cast`].
    ///
    /// # Safety
    /// As [`Kernel::cast`].
    pub unsafe fn cast<Q>(self) -> PersistentKernel<Q> {
        let PersistentKernel { kernel, threads, shared, cooperative } = self;
        // SAFETY: the caller's contract.
        PersistentKernel { kernel: unsafe { kernel.cast() }, threads, shared, cooperative }
    }
}

/// The layers of each launch, and its tiling.
pub(crate) type LaunchTilings = Vec<(Range<usize>, Tiling)>;

/// Rows of a batch for which a learner chooses its way: it does so before it sees the first one.
const USUAL_ROWS: usize = 64;

/// Whether a network is trained in persistent kernels: on Hopper, with an output layer, if every
/// layer fits and they should take less time than the other kernels ([`cost`]).
pub(crate) fn supports(device: &Device, plan: &Plan) -> Result<bool> {
    let limits = device.limits();
    let tilings = tilings_on(device, plan, USUAL_ROWS)?.filter(|_| plan.output.is_some());
    Ok(tilings.is_some_and(|tilings| {
        let time = cost::persistent_time(plan, &tilings, USUAL_ROWS);
        limits.forced.is_given() || time < cost::plain_time(plan)
    }))
}

/// [`tilings`] on a device; `None` without Hopper, or with weights that kernels cannot index, too. The
/// error says that the environment gives sizes that do not fit.
pub(crate) fn tilings_on(
    device: &Device,
    plan: &Plan,
    rows: usize,
) -> Result<Option<LaunchTilings>> {
    if !device.is_hopper() || !workspace::weights_have_indices(plan) {
        return Ok(None);
    }
    let limits = device.limits();
    let found = tilings(plan, rows, limits);
    let chosen = DeviceLimits { forced: ForcedTiling::default(), ..limits };
    if found.is_none() && limits.forced.is_given() && tilings(plan, rows, chosen).is_some() {
        return Err(limits.forced.refused(&plan.spec.to_string()));
    }
    Ok(found)
}

/// Consecutive layers whose recurrences run in one launch.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub layers: Range<usize>,
    pub tiling: Tiling,
    /// Offsets of its weights in [`PersistentWorkspace::packed`], forward and backward, and of its
    /// biases.
    packed: [usize; 2],
    biases: usize,
    /// [`KernelSpec::in_registers`], forward and backward.
    in_registers: [usize; 2],
    kernels: LaunchKernels,
}

/// The kernels of a launch, by what sequences begin with.
#[derive(Debug, Clone, Copy)]
enum LaunchKernels {
    Zeros {
        forward: PersistentKernel<PersistentForward>,
        backward: PersistentKernel<PersistentBackward>,
    },
    /// Given states; backward only for training.
    States {
        forward: PersistentKernel<PersistentForwardFromStates>,
        backward: Option<PersistentKernel<PersistentBackwardFromStates>>,
    },
    /// One step at a time, whatever sequences begin with.
    Steps(StepKernels),
}

impl Launch {
    /// Units of each direction of the layer below whose h this launch multiplies with W_ih; 0 for
    /// the lowest layer and where a GEMM computes x W_ih^T.
    fn units_below(&self, layer: usize, r: &Recurrence) -> usize {
        if self.tiling.below > 0 && layer > 0 { r.inputs / self.tiling.below } else { 0 }
    }
}

/// Given states, and where last states go; addresses of arrays (layers directions, B, n) of f32, of
/// h and of c. A null one is zeros, or not wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GivenStates<'a> {
    pub kernels: &'a RecurrenceKernels,
    pub first: [u64; 2],
    pub last: [u64; 2],
    /// Their gradients.
    pub d_first: [u64; 2],
    pub d_last: [u64; 2],
}

/// The launches of a network, for batches of one number of rows.
#[derive(Debug, Clone)]
pub(crate) struct PersistentNet {
    pub launches: Vec<Launch>,
}

impl PersistentNet {
    /// Whether blocks of any launch exchange h.
    pub fn exchanges(&self) -> bool {
        self.launches.iter().any(|launch| launch.tiling.exchanges())
    }

    /// Chooses the tilings and compiles the kernels.
    pub fn new(device: &Device, plan: &Plan, rows: usize) -> Result<PersistentNet> {
        let limits = device.limits();
        PersistentNet::with_kernels(device, plan, rows, |layers, tiling| {
            let table = layers.start == 0 && workspace::has_table(plan);
            let forward = tiling.forward(table, limits).expect("a tiling fits with a table too");
            let backward = tiling.backward();
            let kernels = LaunchKernels::Zeros {
                forward: device.persistent_kernel(&forward)?,
                backward: device.persistent_kernel(&backward)?,
            };
            Ok(([forward.in_registers, backward.in_registers], kernels))
        })
    }

    /// The same for sequences that begin with given states.
    pub fn from_states(
        device: &Device,
        plan: &Plan,
        rows: usize,
        training: bool,
    ) -> Result<PersistentNet> {
        let limits = device.limits();
        PersistentNet::with_kernels(device, plan, rows, |_, tiling| {
            let forward = tiling.forward_from_states(limits);
            let backward = tiling.backward_from_states();
            let in_registers = [forward.in_registers, backward.in_registers];
            let backward = training.then(|| device.persistent_kernel(&backward)).transpose()?;
            let forward = device.persistent_kernel(&forward)?;
            Ok((in_registers, LaunchKernels::States { forward, backward }))
        })
    }

    fn with_kernels(
        device: &Device,
        plan: &Plan,
        rows: usize,
        kernels: impl Fn(&Range<usize>, &Tiling) -> Result<([usize; 2], LaunchKernels)>,
    ) -> Result<PersistentNet> {
        let tilings = tilings(plan, rows.max(1), device.limits())
            .ok_or_else(|| Error::Unsupported(format!("{} on {device}", plan.spec)))?;
        let (mut packed, mut biases) = ([0; 2], 0);
        let launch = |(layers, tiling): (Range<usize>, Tiling)| {
            let begin = (packed, biases);
            packed = [0, 1].map(|pass| packed[pass] + 8 * tiling.lanes * tiling.packed()[pass]);
            biases += 4 * tiling.lanes * tiling.padded;
            let (in_registers, kernels) = match tiling.kind {
                Kind::Exchange | Kind::SingleBlock => kernels(&layers, &tiling)?,
                Kind::StepByStep => ([0; 2], LaunchKernels::Steps(device.step_kernels(plan.cell)?)),
            };
            Ok(Launch { layers, tiling, packed: begin.0, biases: begin.1, in_registers, kernels })
        };
        Ok(PersistentNet { launches: tilings.into_iter().map(launch).collect::<Result<_>>()? })
    }
}

/// All layers of a stack in one launch if that should take less time, else layer by layer.
pub(crate) fn tilings(plan: &Plan, rows: usize, limits: DeviceLimits) -> Option<LaunchTilings> {
    let layers = |layer: usize, lanes| {
        let table = layer == 0 && workspace::has_table(plan);
        LayerShape { cell: plan.cell, units: plan.layers[layer][0].n, lanes, table }
    };
    let (count, directions) = (plan.layers.len(), plan.layers[0].len());
    let stack = workspace::is_stack(plan)
        .then(|| Tiling::of(layers(0, Lanes::Layers(count)), rows, limits))
        .flatten()
        .map(|stack| vec![(0..count, stack)]);
    let mut each = LaunchTilings::new();
    for layer in 0..count {
        let alone = layers(layer, Lanes::Directions { count: directions, below: 0 });
        let along = layers(layer, Lanes::Directions { count: directions, below: directions });
        let along = each.last().and_then(|(_, lower)| {
            let all = Tiling::all(along, rows, limits).into_iter();
            all.filter(|tiling| tiling.continues(lower)).min_by(cost::by_time(rows))
        });
        let Some(tiling) = along.or_else(|| Tiling::of(alone, rows, limits)) else { return stack };
        each.push((layer..layer + 1, tiling));
    }
    let time = |launches: &LaunchTilings| cost::persistent_time(plan, launches, rows);
    Some(stack.filter(|stack| time(stack) < time(&each)).unwrap_or(each))
}

#[cfg(test)]
mod tests {
    use super::*;
    use drnn::{Cell, NetSpec};

    #[test]
    fn stacks_run_in_one_launch_until_batches_are_large() {
        let limits = DeviceLimits::new(132, 227 << 10);
        let launches = |units: &[usize], rows| {
            let spec = NetSpec::builder(Cell::Lstm).dense(3).units(units.to_vec()).outputs(2);
            let plan = Plan::new(&spec.build().unwrap()).unwrap();
            let tilings = tilings(&plan, rows, limits).unwrap();
            tilings.into_iter().map(|(layers, _)| layers.len()).collect::<Vec<_>>()
        };
        assert_eq!(launches(&[343; 5], 128), [5]);
        assert_eq!(launches(&[343, 350, 330], 128), [3]);
        assert_eq!(launches(&[343, 300], 128), [1, 1]);
        assert_eq!(launches(&[594, 594], 128), [1, 1]);
        assert_eq!(launches(&[343, 343], 5000), [1, 1]);
    }
}
