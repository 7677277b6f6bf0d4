//! LSTMs of 129 to 1024 units on Hopper: all steps of a layer in one launch, factors in f16, sums and cell states in f32.
//!
//! ```text
//! gates = x W_ih^T                          one product, or a table's rows where symbols are few
//! recurrence                                one launch, both directions in it           kernels/persistent_forward.cu
//! answers = h W_o^T + b                     one product
//! dgates from what comes from above         one launch                                  kernels/persistent_backward.cu
//! dW = dgates^T [h x]                       products
//! ```
//!
//! Gradients are divided by the loss's weight while they are f16, so that they do not vanish.
//!
//! | file | what |
//! |---|---|
//! | `tiling` | which multiprocessor has what |
//! | `work` | memory for a pass |
//! | `forward`, `backward` | both ways, put into a stream |

mod backward;
mod forward;
mod tiling;
mod work;

pub(crate) use forward::HalfPass;
pub(crate) use tiling::{Card, Tiling};
pub(crate) use work::HalfWork;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::plan::{Plan, Recurrence};
use crate::resident;
use crate::stream::{Arg, Kernel, Module, Stream};
use drnn::Cell;

/// Threads of a block on the way forward: two warpgroups that multiply, one that loads.
const FORWARD_THREADS: usize = 384;
const BACKWARD_THREADS: usize = 256;

/// A kernel whose blocks wait for each other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Together {
    kernel: Kernel,
    threads: usize,
    /// Bytes of shared memory.
    shared: usize,
}

impl Together {
    /// Compiled, loaded, and found to fit on a multiprocessor.
    fn new(device: &Device, kind: tiling::Kind, threads: usize) -> Result<Together> {
        let tiling::Kind { shared, source } = kind;
        let module = Module::new(device, &source)?;
        let kernel = module.kernel(source.name)?;
        kernel.allow_shared(shared)?;
        if kernel.blocks_at_once(threads, shared)? == 0 {
            return Err(Error::Unsupported(format!("{} does not fit on {device}", source.name)));
        }
        Ok(Together { kernel, threads, shared })
    }

    /// Runs it some time later, all blocks at once.
    ///
    /// # Safety
    /// As [`Kernel::launch_together`].
    unsafe fn launch(&self, stream: &Stream, blocks: usize, args: &[Arg]) -> Result<()> {
        // SAFETY: the caller's promise; as much shared memory was allowed.
        unsafe { self.kernel.launch_together(stream, blocks, self.threads, self.shared, args) }
    }
}

/// Both ways for one tiling.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    forward: Together,
    backward: Together,
}

impl Pair {
    pub fn new(device: &Device, tiling: &Tiling) -> Result<Pair> {
        Ok(Pair {
            forward: Together::new(device, tiling.forward(), FORWARD_THREADS)?,
            backward: Together::new(device, tiling.backward(), BACKWARD_THREADS)?,
        })
    }
}

/// Whether a network takes this way: large LSTMs with an output layer, on a card that has the instructions.
pub(crate) fn takes(device: &Device, plan: &Plan) -> bool {
    let card = device.card();
    let fits = |n: usize, directions| Tiling::of(n, directions, 1, card).is_some();
    let large = |n| resident::groups(plan.cell, n).is_none();
    plan.cell == Cell::Lstm
        && device.is_hopper()
        && plan.output.is_some()
        && plan.layers.iter().all(|l| large(l[0].n) && fits(l[0].n, l.len()))
}

/// A network's layers, for batches of some number of rows.
#[derive(Debug, Clone)]
pub(crate) struct Persistent {
    layers: Vec<(Tiling, Pair)>,
}

impl Persistent {
    pub fn new(device: &Device, plan: &Plan, rows: usize) -> Result<Persistent> {
        let layer = |layer: &Vec<Recurrence>| {
            let tiling = Tiling::of(layer[0].n, layer.len(), rows.max(1), device.card())
                .ok_or_else(|| Error::Unsupported(format!("{} units", layer[0].n)))?;
            Ok((tiling, device.persistent(&tiling)?))
        };
        Ok(Persistent { layers: plan.layers.iter().map(layer).collect::<Result<_>>()? })
    }
}
