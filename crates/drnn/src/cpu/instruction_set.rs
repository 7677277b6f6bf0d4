//! The instruction sets that kernels are compiled for.

use crate::error::Error;
use crate::kernel::dispatch::all_kernels;
use crate::prelude::*;
use core::fmt;
use core::str::FromStr;

/// An instruction set that kernels are compiled for.
///
/// ```
/// use drnn::{Cpu, InstructionSet};
///
/// let portable = Cpu::with_instruction_set(InstructionSet::Portable, 1)?;
/// assert_eq!(portable.instruction_set().to_string(), "portable");
/// assert_eq!("avx2".parse(), Ok(InstructionSet::Avx2));
/// assert!(InstructionSet::available().contains(&InstructionSet::Portable));
/// # Ok::<(), drnn::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InstructionSet {
    /// What the compiler makes of plain Rust for the target: every processor has it, but a WebAssembly
    /// module that is compiled with simd128 has only that.
    Portable,
    /// NEON of 64-bit ARM: vectors of 4 floats. Products of int8 weights use the `dotprod` instructions
    /// of processors that have them.
    Neon,
    /// WebAssembly's vectors of 4 floats, with relaxed multiply-adds where it was compiled with them.
    Simd128,
    /// AVX2 and FMA: vectors of 8 floats.
    Avx2,
    /// AVX-512 F, VL, DQ and BW: vectors of 16 floats.
    Avx512,
}

impl InstructionSet {
    /// All of them, the fastest first.
    pub const ALL: [InstructionSet; 5] = [
        InstructionSet::Avx512,
        InstructionSet::Avx2,
        InstructionSet::Neon,
        InstructionSet::Simd128,
        InstructionSet::Portable,
    ];

    /// Those that this processor has, the fastest first.
    pub fn available() -> Vec<InstructionSet> {
        all_kernels().iter().map(|k| k.set).collect()
    }

    /// Its name, which `DRNN_ISA` takes: `avx512`, `avx2`, `neon`, `simd128` or `portable`.
    pub fn name(self) -> &'static str {
        match self {
            InstructionSet::Portable => "portable",
            InstructionSet::Neon => "neon",
            InstructionSet::Simd128 => "simd128",
            InstructionSet::Avx2 => "avx2",
            InstructionSet::Avx512 => "avx512",
        }
    }
}

/// `one of avx2, portable on this processor`, for messages.
pub(super) fn on_this_processor() -> String {
    format!("one of {} on this processor", names(&InstructionSet::available()))
}

fn names(sets: &[InstructionSet]) -> String {
    sets.iter().map(|set| set.name()).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for InstructionSet {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for InstructionSet {
    type Err = Error;

    fn from_str(name: &str) -> Result<InstructionSet, Error> {
        let set = InstructionSet::ALL.into_iter().find(|set| set.name() == name);
        set.ok_or_else(|| Error::InstructionSet {
            name: name.into(),
            expected: format!("one of {}", names(&InstructionSet::ALL)),
        })
    }
}
