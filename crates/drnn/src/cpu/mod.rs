//! What a network runs on: threads and an instruction set.

pub(crate) mod buffer;
pub(crate) mod denormals;
#[cfg(not(feature = "std"))]
pub(crate) mod float;
mod instruction_set;
#[cfg(feature = "std")]
pub mod peak;
pub(crate) mod sync;
pub(crate) mod team;

use crate::prelude::*;
pub use instruction_set::InstructionSet;

use crate::cpu::sync::OnceLock;
use crate::cpu::team::Team;
use crate::error::{Error, Result};
use crate::exec::wavefront::Plan;
use crate::kernel::dispatch::{Kernels, all_kernels};
use alloc::sync::Arc;
use core::fmt;
#[cfg(feature = "std")]
use std::env::{self, VarError};

/// More threads than any machine of today has cores.
#[cfg(feature = "std")]
const MAX_THREADS: usize = 1024;

/// Threads and an instruction set. Cheap to clone; clones share the threads. The number of threads
/// changes no bit of any result; the instruction set may change the last ones.
///
/// Models and tapes run on the [global](Cpu::global) one unless given another ([`Model::on`],
/// [`Tape::on`]). It follows the environment:
///
/// | variable | values | default |
/// |---|---|---|
/// | `DRNN_THREADS` | 1 to 1024 | the number of cores |
/// | `DRNN_ISA` | an [`InstructionSet`] | the fastest that the processor has |
///
/// Without the feature `std` there is no environment, and one thread.
///
/// [`Model::on`]: crate::Model::on
/// [`Tape::on`]: crate::Tape::on
#[derive(Clone)]
pub struct Cpu {
    pub(crate) kernels: &'static Kernels,
    pub(crate) team: Arc<Team>,
    pub(crate) plan: Plan,
}

impl Cpu {
    /// A team of `threads` on the fastest instruction set that the processor has.
    pub fn new(threads: usize) -> Cpu {
        Cpu::of(all_kernels()[0], threads)
    }

    /// The same with a certain instruction set, which the processor must have.
    pub fn with_instruction_set(set: InstructionSet, threads: usize) -> Result<Cpu> {
        let kernels = all_kernels().into_iter().find(|k| k.set == set);
        let kernels = kernels.ok_or_else(|| Error::InstructionSet {
            name: set.to_string(),
            expected: instruction_set::on_this_processor(),
        })?;
        Ok(Cpu::of(kernels, threads))
    }

    fn of(kernels: &'static Kernels, threads: usize) -> Cpu {
        Cpu { kernels, team: Arc::new(Team::new(threads)), plan: Plan::Auto }
    }

    /// The same instruction set and plan with a team of its own, of `threads`.
    pub fn with_threads(&self, threads: usize) -> Cpu {
        Cpu::of(self.kernels, threads).plan(self.plan)
    }

    /// The same threads with a certain plan for stacks.
    pub fn plan(mut self, plan: Plan) -> Cpu {
        self.plan = plan;
        self
    }

    /// A new team of `DRNN_THREADS` threads on instruction set `DRNN_ISA`. A variable with a value
    /// that is not allowed is an [`Error::Environment`].
    #[cfg(feature = "std")]
    pub fn from_env() -> Result<Cpu> {
        let threads = match variable("DRNN_THREADS") {
            None => std::thread::available_parallelism().map_or(1, |n| n.get()),
            Some(value) => match value.parse() {
                Ok(threads @ 1..=MAX_THREADS) => threads,
                _ => {
                    let expected = format!("a number from 1 to {MAX_THREADS}");
                    return Err(Error::Environment { name: "DRNN_THREADS", value, expected });
                }
            },
        };
        let Some(value) = variable("DRNN_ISA") else { return Ok(Cpu::new(threads)) };
        let set = value.parse().and_then(|set| Cpu::with_instruction_set(set, threads));
        set.map_err(|_| {
            let expected = instruction_set::on_this_processor();
            Error::Environment { name: "DRNN_ISA", value, expected }
        })
    }

    /// The one that models and tapes run on unless given another: `Cpu::from_env`, made at the
    /// first call.
    pub fn global() -> Result<&'static Cpu> {
        static GLOBAL: OnceLock<Result<Cpu>> = OnceLock::new();
        #[cfg(feature = "std")]
        let make = Cpu::from_env;
        #[cfg(not(feature = "std"))]
        let make = || Ok(Cpu::new(1));
        GLOBAL.get_or_init(make).as_ref().map_err(Clone::clone)
    }

    /// Threads, the caller's included.
    pub fn threads(&self) -> usize {
        self.team.threads()
    }

    /// The instruction set that kernels are compiled for.
    pub fn instruction_set(&self) -> InstructionSet {
        self.kernels.set
    }
}

/// Value of an environment variable, if it is set. One that is not Unicode is never allowed, and is
/// shown as well as possible.
#[cfg(feature = "std")]
fn variable(name: &str) -> Option<String> {
    match env::var(name) {
        Ok(value) => Some(value),
        Err(VarError::NotUnicode(value)) => Some(value.to_string_lossy().into_owned()),
        Err(VarError::NotPresent) => None,
    }
}

impl fmt::Debug for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Cpu({} threads, {})", self.threads(), self.instruction_set())
    }
}
