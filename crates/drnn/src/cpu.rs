//! What a network runs on: threads and an instruction set.

use crate::kernel::dispatch::{Kernels, all_kernels, kernels};
use crate::team::Team;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Threads and kernels. Cheap to clone; clones share the threads. Neither choice of threads changes
/// a bit of any result.
#[derive(Clone)]
pub struct Cpu {
    pub(crate) kernels: &'static Kernels,
    pub(crate) team: Arc<Team>,
}

impl Cpu {
    /// A team of `threads` on the fastest instruction set (or the one that `DRNN_ISA` names).
    pub fn new(threads: usize) -> Cpu {
        Cpu { kernels: kernels(), team: Arc::new(Team::new(threads)) }
    }

    /// The same with a certain instruction set: `avx512`, `avx2` or `portable`; None where the
    /// processor lacks it.
    pub fn with_isa(isa: &str, threads: usize) -> Option<Cpu> {
        let kernels = all_kernels().into_iter().find(|k| k.name == isa)?;
        Some(Cpu { kernels, team: Arc::new(Team::new(threads)) })
    }

    /// The instruction sets that this processor can run, the fastest first.
    pub fn isas() -> Vec<&'static str> {
        all_kernels().iter().map(|k| k.name).collect()
    }

    /// The one that everything uses unless told otherwise: all cores, or `DRNN_THREADS` of them.
    pub fn global() -> &'static Cpu {
        static GLOBAL: OnceLock<Cpu> = OnceLock::new();
        GLOBAL.get_or_init(|| {
            let wanted = std::env::var("DRNN_THREADS").ok().and_then(|s| s.parse().ok());
            let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
            Cpu::new(wanted.unwrap_or_else(cores))
        })
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
