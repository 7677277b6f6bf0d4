//! The way that every card takes and every cell: products by cuBLAS, and per step one of them and the cell's arithmetic.
//! Small LSTMs may go through all steps of a layer in one launch instead.
//!
//! | file | what |
//! |---|---|
//! | `work` | memory for a pass |
//! | `forward`, `backward` | both ways, put into a stream |
//! | `resident` | small LSTMs, whose recurrent weights stay in registers |

mod backward;
mod forward;
pub(crate) mod resident;
mod workspace;

pub(crate) use resident::Resident;
pub(crate) use workspace::PlainWorkspace;

use crate::error::Result;
use crate::runtime::stream::{Arg, Kernel};
use crate::step::pass::{Pass, THREADS};
use crate::step::plan::Recurrence;

/// What a pass works with.
#[derive(Clone, Copy)]
pub(crate) struct PlainPass<'a> {
    pub pass: Pass<'a>,
    pub work: &'a PlainWorkspace,
    /// By layer, where it may take all steps at once.
    pub resident: &'a [Option<Resident>],
}

impl PlainPass<'_> {
    /// A direction's gates at step `s`.
    fn gates_at(&self, layer: usize, r: &Recurrence, s: usize) -> Arg {
        let gates = &self.work.recurrences[layer][r.direction].gates;
        Arg::At(gates.at(s * self.pass.shape.rows * r.gates))
    }

    /// Its part of a step of H, which begins with one of zeros.
    fn h_at(&self, layer: usize, r: &Recurrence, step: usize) -> Arg {
        let at = step * self.pass.shape.rows * r.width + r.direction * r.n;
        Arg::At(self.work.h[layer].at(at))
    }

    /// A step of its C.
    fn c_at(&self, layer: usize, r: &Recurrence, step: usize) -> Arg {
        let c = &self.work.recurrences[layer][r.direction].c;
        Arg::At(c.at(step * self.pass.shape.rows * r.n))
    }

    /// Of a GRU, what its candidate gets from h at step `s`.
    fn candidate_at(&self, layer: usize, r: &Recurrence, s: usize) -> Arg {
        let from_h = &self.work.recurrences[layer][r.direction].from_h;
        Arg::At(from_h.at(s * self.pass.shape.rows * r.n))
    }

    /// Runs a cell's kernel for step `s`: a thread per row and unit.
    fn each_cell(&self, kernel: &Kernel, r: &Recurrence, s: usize, args: &[Arg]) -> Result<()> {
        let rows = self.pass.shape.rows;
        let end = [self.pass.run(), s.into(), rows.into(), r.n.into()];
        let blocks = (rows * r.n).div_ceil(THREADS);
        // SAFETY: arguments as the source names them.
        unsafe { kernel.launch(self.pass.stream, [blocks, 1], THREADS, &[args, &end].concat()) }
    }
}
