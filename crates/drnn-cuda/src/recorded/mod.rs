//! What the host submits in training, checked by the recorder, without a GPU.
//!
//! | file | what |
//! |---|---|
//! | `cpu_only` | training options that a GPU cannot do are refused |
//! | `networks` | the paper's and others, at several batches, on two cards |
//! | `recurrences` | calls of the library, with every optional argument |
//! | `golden` | all work of some steps, line by line, compared with `tests/plans` |

mod cpu_only;
mod golden;
mod networks;
mod recurrences;

use crate::persistent::DeviceLimits;
use crate::runtime::device::Device;
use drnn::{InputSpec, NetSpec};
use drnn_train::{Batches, Dataset, Gathered, Result};

/// An H200: Hopper, with all that its instructions can do.
fn hopper() -> Device {
    Device::recorded((9, 0), DeviceLimits { multiprocessors: 132, shared: 227 << 10 })
}

/// An A100.
fn ampere() -> Device {
    Device::recorded((8, 0), DeviceLimits { multiprocessors: 108, shared: 163 << 10 })
}

/// Sequences of zeros, all of one length: their contents do not change what is submitted.
struct Zeros {
    spec: NetSpec,
    sequences: usize,
    elements: usize,
    /// One of so many outputs is selected; None for all.
    one_of: Option<usize>,
}

impl Dataset for Zeros {
    fn len(&self) -> usize {
        self.sequences
    }

    fn fits(&self, _: &NetSpec) -> Result<()> {
        Ok(())
    }

    fn gather(&self, _epoch: usize, chosen: &[u32], to: &mut Gathered) {
        let Zeros { spec, elements, one_of, .. } = self;
        (to.steps, to.rows) = (*elements, chosen.len());
        let slots = to.steps * to.rows;
        match spec.input() {
            InputSpec::Dense(q) => to.inputs.dense().resize(slots * q, 0.0),
            InputSpec::Tokens { .. } => to.inputs.tokens().resize(slots, 0),
        }
        let positions = 0..(spec.output_steps(to.steps) * to.rows) as u32;
        to.selected = one_of.map(|one_of| positions.clone().step_by(one_of).collect());
        let answers = to.selected.as_ref().map_or(positions.len(), Vec::len);
        match spec.input() {
            InputSpec::Dense(_) => to.targets.values().resize(answers * spec.output_width(), 0.0),
            InputSpec::Tokens { .. } => to.targets.classes().resize(answers, 0),
        }
    }
}

/// Batches of so many of the first sequences.
fn batches(chosen: &[u32], batch: usize) -> Batches<'_> {
    Batches { epoch: 0, chosen, batch, rate: 1e-3, clip: Some(1.0), dropout: None }
}
