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
mod work;

pub(crate) use resident::Resident;
pub(crate) use work::PlainWork;

use crate::pass::Pass;

/// What a pass works with.
#[derive(Clone, Copy)]
pub(crate) struct PlainPass<'a> {
    pub pass: Pass<'a>,
    pub work: &'a PlainWork,
    /// By layer, where it may take all steps at once.
    pub resident: &'a [Option<Resident>],
}
