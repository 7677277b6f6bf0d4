//! What a network runs on: threads and an instruction set.

pub(crate) mod buffer;
pub(crate) mod denormals;
pub(crate) mod peak;
pub(crate) mod team;

use crate::cpu::team::Team;
use crate::error::{Error, Result};
use crate::exec::wavefront::Plan;
use crate::kernel::dispatch::{Kernels, all_kernels};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// More threads than any machine of today has cores.
const MOST_THREADS: usize = 1024;

fn all_cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// Threads and kernels. Cheap to clone; clones share the threads. The number of threads changes no bit of
/// any result; the instruction set may change the last ones.
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

    /// The same with a certain instruction set: `avx512`, `avx2` or `portable`; None where the
    /// processor lacks it.
    pub fn with_isa(isa: &str, threads: usize) -> Option<Cpu> {
        let kernels = all_kernels().into_iter().find(|k| k.name == isa)?;
        Some(Cpu::of(kernels, threads))
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

    /// The instruction sets that this processor can run, the fastest first.
    pub fn isas() -> Vec<&'static str> {
        all_kernels().iter().map(|k| k.name).collect()
    }

    /// What the environment asks for: `DRNN_THREADS` threads (all cores) on `DRNN_ISA` (the fastest).
    pub fn from_env() -> Result<Cpu> {
        let threads = match std::env::var("DRNN_THREADS") {
            Err(_) => all_cores(),
            Ok(value) => match value.parse() {
                Ok(threads @ 1..=MOST_THREADS) => threads,
                _ => {
                    let expected = format!("a number from 1 to {MOST_THREADS}");
                    return Err(Error::Environment { name: "DRNN_THREADS", value, expected });
                }
            },
        };
        match std::env::var("DRNN_ISA") {
            Err(_) => Ok(Cpu::new(threads)),
            Ok(value) => Cpu::with_isa(&value, threads).ok_or_else(|| {
                let expected = format!("one of {} on this processor", Cpu::isas().join(", "));
                Error::Environment { name: "DRNN_ISA", value, expected }
            }),
        }
    }

    /// The one that everything uses unless told otherwise: [`Cpu::from_env`], or all cores where the
    /// environment makes no sense.
    pub fn global() -> &'static Cpu {
        static GLOBAL: OnceLock<Cpu> = OnceLock::new();
        GLOBAL.get_or_init(|| Cpu::from_env().unwrap_or_else(|_| Cpu::new(all_cores())))
    }

    /// Threads, the caller's included.
    pub fn threads(&self) -> usize {
        self.team.threads()
    }

    /// Name of the instruction set.
    pub fn isa(&self) -> &'static str {
        self.kernels.name
    }
}

impl Default for Cpu {
    fn default() -> Cpu {
        Cpu::global().clone()
    }
}

impl fmt::Debug for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Cpu({} threads, {})", self.threads(), self.isa())
    }
}
