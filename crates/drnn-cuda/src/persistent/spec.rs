//! The kernels of a tiling before they are compiled: definitions, threads, shared memory.

use super::single_block;
use super::tiling::{CONSUMER_THREADS, DeviceLimits, Kind, RING, Tiling, WARP};
use super::workspace::MAX_TABLE_SYMBOLS;
use crate::kernels::sources;
use crate::runtime::compile::Source;

/// A persistent kernel before it is compiled.
#[derive(Debug, Clone)]
pub(crate) struct KernelSpec {
    /// Threads of a block.
    pub threads: usize,
    /// Bytes of dynamic shared memory.
    pub shared: usize,
    /// Forward: products, backward: tiles, whose weights stay in registers.
    pub in_registers: usize,
    /// Whether blocks exchange data, so that all of them have to run at the same time.
    pub cooperative: bool,
    pub source: Source,
}

impl KernelSpec {
    fn with_states(mut self) -> KernelSpec {
        self.source.defines.push(sources::FROM_STATES.into());
        self
    }
}

/// How producer warps load h from the exchange into shared memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct HLoadStrategy {
    /// With bulk copies (`cp.async.bulk`), not with loads by the threads.
    pub bulk: bool,
    /// Units of h that a warp waits for and loads at a time.
    pub chunk: usize,
    /// Producer threads.
    pub producers: usize,
    /// Products (k = 16) whose weights stay in consumers' registers, 4 registers each; and the
    /// registers left to a producer thread.
    pub registers: usize,
    pub producer_registers: usize,
}

/// Symbols that a kernel's table has places for.
pub(super) fn table_symbols(table: bool) -> usize {
    if table { MAX_TABLE_SYMBOLS } else { 0 }
}

impl Tiling {
    /// Whether blocks of both kernels fit, with or without a table in shared memory.
    pub(super) fn fits_shared(&self, table: bool, limits: DeviceLimits) -> bool {
        match self.kind {
            Kind::Exchange => {}
            Kind::SingleBlock => {
                let backward = self.single_block_backward().shared;
                return self.padded <= single_block::MAX_PADDED
                    && self.single_block_forward(table, limits).is_some()
                    && backward <= limits.shared;
            }
            Kind::StepByStep => return true,
        }
        let (registers, _) = self.backward_registers();
        let backward = self.backward_shared(self.all_tiles().min(registers));
        self.forward_strategy(table, limits).is_some() && backward <= limits.shared
    }

    /// The forward kernel, with or without a table in shared memory. `None` if it does not fit.
    pub fn forward(&self, table: bool, limits: DeviceLimits) -> Option<KernelSpec> {
        if self.kind == Kind::SingleBlock {
            return self.single_block_forward(table, limits);
        }
        let strategy = self.forward_strategy(table, limits)?;
        Some(self.forward_with(strategy, table_symbols(table)))
    }

    /// The best way to load h that fits.
    fn forward_strategy(&self, table: bool, limits: DeviceLimits) -> Option<HLoadStrategy> {
        let shared = |strategy: &_| self.forward_shared(strategy, table_symbols(table));
        self.h_load_strategies().into_iter().find(|strategy| shared(strategy) <= limits.shared)
    }

    /// Ways to load h, the best first. More weights in registers are tried only if shared memory is
    /// too small, because the compiler begins to spill.
    pub(super) fn h_load_strategies(&self) -> Vec<HLoadStrategy> {
        let Tiling { padded, rows, .. } = *self;
        let is_split = self.is_split();
        let bulk = [(0, 56), (2, 56), (4, 40)].map(|(more, producer_registers)| HLoadStrategy {
            bulk: true,
            chunk: 128,
            producers: 128,
            registers: match rows {
                ..=32 => 40,
                48 => 34,
                _ => 28,
            } + more,
            producer_registers,
        });
        // About four 16-byte words per thread. With 16 rows, 1024 units take as many chunks as
        // there are producer warps: eight words per thread, for which blocks of 16 units have
        // registers.
        let eight_words = is_split && rows == 16 && padded > 512;
        let chunk = match rows {
            16 if eight_words => 128,
            16 => 64,
            24 | 32 => 32,
            _ => 16,
        };
        let producers = if padded.div_ceil(chunk) <= 4 { 128 } else { 256 };
        let registers = match rows {
            ..=32 => 36,
            48 => 32,
            _ => 28,
        };
        let by_threads = |more: usize, producer_registers| HLoadStrategy {
            bulk: false,
            chunk,
            producers,
            registers: registers + more,
            producer_registers,
        };
        // Bulk copies are faster if there is much to load; in a stack, h of the layer below doubles
        // that. They are required if one warp could not copy all chunks of a finished layer below.
        let (in_stack, finished) = if self.stacked { (2, 0) } else { (1, self.below) };
        // Warpgroups that share k-steps share those of every chunk, of 32 units at least.
        let large = in_stack * padded * rows > 24_000
            || finished * padded.div_ceil(chunk) > WARP
            || is_split && chunk < 32;
        let by_threads = match producers {
            128 => vec![by_threads(0, 72)],
            _ if eight_words => vec![HLoadStrategy { registers: 32, ..by_threads(0, 72) }],
            _ => vec![by_threads(0, 40), by_threads(4, 40)],
        };
        by_threads.into_iter().filter(|_| !large).chain(bulk).collect()
    }

    pub(super) fn forward_with(&self, strategy: HLoadStrategy, table: usize) -> KernelSpec {
        let shared = self.forward_shared(&strategy, table);
        let HLoadStrategy { bulk, chunk, producers, registers, producer_registers } = strategy;
        let defines = [
            format!("BELOW={}", self.below),
            format!("BULK={}", u8::from(bulk)),
            format!("PREFETCH={}", u8::from(self.prefetch)),
            format!("CHUNK={chunk}"),
            format!("PRODUCER_THREADS={producers}"),
            format!("REGISTER_K_STEPS={registers}"),
            format!("PRODUCER_REGISTERS={producer_registers}"),
            format!("TABLE={table}"),
        ];
        let in_registers = self.depth().min(registers);
        let source = sources::persistent_forward(self.defines(shared, defines));
        let threads = CONSUMER_THREADS + producers;
        KernelSpec { threads, shared, in_registers, cooperative: true, source }
    }

    /// Bytes of `struct Shared` in `persistent/forward_block.cuh`.
    fn forward_shared(&self, strategy: &HLoadStrategy, table: usize) -> usize {
        let Tiling { padded, rows, units, .. } = *self;
        let (chunks, segments) = (padded.div_ceil(strategy.chunk), self.segments());
        let in_shared = self.depth().saturating_sub(strategy.registers);
        // Rows and slots have one buffer if all warps exchange sums before they are written.
        let (weights, buffers, sums) = match self.is_split() {
            true => (in_shared.max(1), 1, rows / 16 * 2 * 128 * size_of::<[f32; 4]>()),
            false => (in_shared + 1, 2, 0),
        };
        let lines = buffers * rows * (2 * (units + 8) + 4 * units + 8);
        let halves =
            2 * weights * 1024 + segments * padded * rows + lines + (table + 1) * 4 * units;
        let shared = 2 * halves + sums + 8 * (2 * segments * chunks + 3);
        if self.is_split() { shared.next_multiple_of(16) } else { shared }
    }

    /// The backward kernel.
    pub fn backward(&self) -> KernelSpec {
        if self.kind == Kind::SingleBlock {
            return self.single_block_backward();
        }
        let (registers, max_senders) = self.backward_registers();
        self.backward_with(registers, max_senders)
    }

    /// Tiles whose weights stay in registers, and senders whose partial sums a thread loads at a
    /// time: as many as registers allow.
    fn backward_registers(&self) -> (usize, usize) {
        let (registers, max_senders) = if self.rows <= 32 { (3, 32) } else { (2, 24) };
        (registers * 32 / self.units, max_senders)
    }

    /// The backward kernel with other such numbers.
    pub(super) fn backward_with(&self, registers: usize, max_senders: usize) -> KernelSpec {
        let helpers = self.helpers;
        let senders = self.blocks().div_ceil(helpers);
        let passes = (self.segments_back() * senders).div_ceil(max_senders);
        let batch = senders.div_ceil(passes);
        let in_registers = self.all_tiles().min(registers);
        let shared = self.backward_shared(in_registers);
        let defines = [
            format!("HELPERS={helpers}"),
            format!("REGISTER_TILES={registers}"),
            format!("BATCH={batch}"),
            format!("RING={RING}"),
        ];
        let source = sources::persistent_backward(self.defines(shared, defines));
        let threads = CONSUMER_THREADS;
        KernelSpec { threads, shared, in_registers, cooperative: true, source }
    }

    /// Tiles of a warpgroup, for its own layer and the one below.
    fn all_tiles(&self) -> usize {
        self.segments_back() * self.tiles()
    }

    /// Bytes of `struct Shared` in `persistent/backward.cu`.
    fn backward_shared(&self, in_registers: usize) -> usize {
        let sums = if self.helpers > 1 { CONSUMER_THREADS * size_of::<[f32; 4]>() } else { 0 };
        let weights = 2 * (self.all_tiles() - in_registers + 1) * 64 * 4 * self.units;
        2 * (weights + 2 * 4 * self.units * self.rows) + sums
    }

    /// The forward kernel for sequences that begin with given states; they have no table.
    pub fn forward_from_states(&self, limits: DeviceLimits) -> KernelSpec {
        self.forward(false, limits).expect("a tiling fits without a table too").with_states()
    }

    /// The backward kernel for sequences that begin with given states.
    pub fn backward_from_states(&self) -> KernelSpec {
        self.backward().with_states()
    }

    /// Definitions of both kernels, then `own`.
    pub(super) fn defines(
        &self,
        shared: usize,
        own: impl IntoIterator<Item = String>,
    ) -> Vec<String> {
        let common = [
            sources::define_cell(self.cell),
            format!("N={}", self.padded),
            format!("NB={}", self.rows),
            format!("UNITS={}", self.units),
            format!("STACKED={}", u8::from(self.stacked)),
            format!("SINGLE_BLOCK={}", u8::from(self.kind == Kind::SingleBlock)),
            format!("SHARED={shared}"),
        ];
        common.into_iter().chain(own).collect()
    }
}
