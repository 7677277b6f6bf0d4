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

use crate::persistent::{DeviceLimits, ForcedTiling};
use crate::runtime::device::Device;
use crate::runtime::driver::recorder::Executor;
use drnn::{InputSpec, NetSpec};
use drnn_testing::{Need, skip};
use drnn_train::{Batches, Dataset, Gathered, Result};
use std::process::Command;
use std::sync::{LazyLock, Mutex};

/// An H200: Hopper, with all that its instructions can do.
pub(crate) fn hopper() -> Device {
    Device::recorded((9, 0), DeviceLimits::new(132, 227 << 10))
}

/// An H200 that executes what is submitted on the CPU, unless there is no compiler, or too few threads.
pub(crate) fn executing() -> Option<Device> {
    executing_in(ForcedTiling::default())
}

/// The same, with blocks of given sizes.
pub(crate) fn executing_in(forced: ForcedTiling) -> Option<Device> {
    if !*COMPILER {
        skip(Need::Cxx, "no C++ compiler with _Float16");
        return None;
    }
    if !*ENOUGH_THREADS {
        skip(Need::Threads, format!("this machine does not allow {THREADS} threads"));
        return None;
    }
    let limits = DeviceLimits { forced, ..DeviceLimits::new(132, 227 << 10) };
    let device = Device::recorded((9, 0), limits);
    device.recorder().execute_with(Executor::default());
    Some(device)
}

/// Whether there is a compiler, tried once.
static COMPILER: LazyLock<bool> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, to) = (folder.path().join("f16.cpp"), folder.path().join("f16"));
    std::fs::write(&source, "int main() { _Float16 x = 1; return x != 1; }\n").expect("a file");
    let mut command = Command::new(std::env::var_os("CXX").unwrap_or("c++".into()));
    command.args(["-std=c++20", "-o"]).arg(to).arg(source);
    command.output().is_ok_and(|output| output.status.success())
});

/// Threads that a kernel needs at most: a host thread for each of its own.
const THREADS: usize = 4096;

/// Whether the machine allows as many, tried once.
static ENOUGH_THREADS: LazyLock<bool> = LazyLock::new(|| {
    let gate = Mutex::new(());
    let closed = gate.lock();
    std::thread::scope(|scope| {
        let wait = || drop(gate.lock());
        let start = || std::thread::Builder::new().stack_size(1 << 16).spawn_scoped(scope, wait);
        let started: std::io::Result<Vec<_>> = (0..THREADS).map(|_| start()).collect();
        drop(closed);
        started.is_ok()
    })
});

/// An A100.
pub(crate) fn ampere() -> Device {
    Device::recorded((8, 0), DeviceLimits::new(108, 163 << 10))
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
pub(crate) fn batches(chosen: &[u32], batch: usize) -> Batches<'_> {
    Batches { epoch: 0, chosen, batch, rate: 1e-3, clip: Some(1.0), dropout: None }
}
