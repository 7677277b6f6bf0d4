//! Recurrences on every GPU and for every cell: a cuBLAS product and an elementwise kernel per time
//! step. Small LSTMs may run all steps of a layer in one launch instead.
//!
//! | file | what |
//! |---|---|
//! | `workspace` | device memory of a pass |
//! | `forward`, `backward` | the passes, submitted to a stream |
//! | `resident` | small LSTMs, whose recurrent weights stay in registers |

mod backward;
mod forward;
pub(crate) mod resident;
mod workspace;

pub(crate) use resident::Resident;
pub(crate) use workspace::{PlainWorkspace, RecurrenceWorkspace};

use crate::error::Result;
use crate::kernels::CellKernels;
use crate::kernels::params::Params;
use crate::runtime::kernel::Kernel;
use crate::step::pass::{Pass, THREADS};
use crate::step::plan::Recurrence;

/// A pass whose recurrences run step by step.
#[derive(Clone, Copy)]
pub(crate) struct PlainPass<'a> {
    pub pass: Pass<'a>,
    pub work: &'a PlainWorkspace,
    /// By layer: kernels that run all steps at once, if the layer is small enough.
    pub resident: &'a [Option<Resident>],
    pub cells: &'a CellKernels,
    /// Whether sequences begin with given states instead of zeros. The caller puts them, and the
    /// gradients of last states, where the passes read them.
    pub from_states: bool,
}

impl PlainPass<'_> {
    /// Address of a direction's gates at step `s`, (B, gates n).
    fn gates_at(&self, layer: usize, r: &Recurrence, s: usize) -> u64 {
        let gates = &self.work.recurrences[layer][r.direction].gates;
        gates.at(s * self.pass.shape.rows * r.gates)
    }

    /// Address of its columns of step `step` of H, which begins with a step of zeros.
    pub fn h_at(&self, layer: usize, r: &Recurrence, step: usize) -> u64 {
        let at = step * self.pass.shape.rows * r.width + r.direction * r.n;
        self.work.h[layer].at(at)
    }

    /// Address of step `step` of its C, (B, n).
    pub fn c_at(&self, layer: usize, r: &Recurrence, step: usize) -> u64 {
        let c = &self.work.recurrences[layer][r.direction].c;
        c.at(step * self.pass.shape.rows * r.n)
    }

    /// GRU: address of W_hn h + b_hn of the candidate at step `s`, (B, n).
    fn candidate_at(&self, layer: usize, r: &Recurrence, s: usize) -> u64 {
        let from_h = &self.work.recurrences[layer][r.direction].from_h;
        from_h.at(s * self.pass.shape.rows * r.n)
    }

    /// Launches a cell's kernel for step `s`: a thread per row and unit.
    fn each_cell<P: Params>(&self, kernel: &Kernel<P>, r: &Recurrence, params: &P) -> Result<()> {
        let blocks = (self.pass.shape.rows * r.n).div_ceil(THREADS);
        // SAFETY: the workspace is large enough for the shape.
        unsafe { kernel.launch(self.pass.stream, [blocks, 1], THREADS, params) }
    }
}
