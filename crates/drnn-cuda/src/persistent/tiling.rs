//! How a large recurrence is divided among multiprocessors; arithmetic only, no GPU calls.
//!
//! ```text
//! blocks of a group = N / 32         N: units, padded to a multiple of 32
//! groups            = B / rows       rows of the batch per block: 16, 24, 32, 48 or 64
//! lanes             = directions of a layer, or layers of a stack, in one launch
//! blocks in all     = lanes * groups * N / 32 <= multiprocessors; larger batches take waves
//! ```

use super::workspace::MAX_TABLE_SYMBOLS;
use crate::kernels::sources;
use crate::runtime::compile::Source;
use drnn::Cell;

/// The largest N: its weights fill the registers and shared memory of 32 multiprocessors.
const MAX_UNITS: usize = 1024;
/// Threads of a warp.
pub(super) const WARP: usize = 32;
/// Consumer threads of a block, two warpgroups: they run the matrix products and the cell.
pub(super) const CONSUMER_THREADS: usize = 256;
/// Ring of partial sums that a layer of a stack sends to the one below: how many steps it may be
/// ahead in the backward pass.
const RING: usize = 4;
/// Double buffer of the partial sums that a layer's own blocks send each other.
const OWN_BUFFERS: usize = 2;

/// Units of a direction, padded as kernels need them: N.
pub(super) fn padded(units: usize) -> usize {
    units.next_multiple_of(32)
}

/// The resources of a device that tilings depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceLimits {
    pub multiprocessors: usize,
    /// Maximum bytes of dynamic shared memory of a block.
    pub shared: usize,
}

/// How the recurrences of one launch are divided among blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tiling {
    pub cell: Cell,
    /// N.
    pub padded: usize,
    /// Rows of the batch per block.
    pub rows: usize,
    /// Groups per lane and launch.
    pub groups: usize,
    pub lanes: usize,
    /// Whether lanes are layers of a stack, not directions of a layer.
    pub stacked: bool,
    /// Directions of the layer below whose h the forward kernel multiplies with W_ih itself.
    pub below: usize,
}

/// How producer warps load h from the exchange into shared memory.
#[derive(Debug, Clone, Copy)]
struct HLoadStrategy {
    /// With bulk copies (`cp.async.bulk`), not with loads by the threads.
    bulk: bool,
    /// Units of h that a warp waits for and loads at a time.
    chunk: usize,
    /// Producer threads.
    producers: usize,
    /// Products (k = 16) whose weights stay in consumers' registers, 4 registers each; and the
    /// registers left to a producer thread.
    registers: usize,
    producer_registers: usize,
}

/// What the lanes of a launch are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lanes {
    /// `count` directions of a layer; `below` directions of the layer below whose h the kernel
    /// multiplies itself.
    Directions { count: usize, below: usize },
    /// Layers of a stack.
    Layers(usize),
}

impl Tiling {
    /// The tiling with the fewest waves, among those the one with the fewest rows per block. `None`
    /// if none fits.
    pub fn of(
        cell: Cell,
        units: usize,
        lanes: Lanes,
        batch: usize,
        limits: DeviceLimits,
    ) -> Option<Tiling> {
        let (lanes, stacked, below) = match lanes {
            Lanes::Directions { count, below } => (count, false, below),
            Lanes::Layers(count) => (count, true, 1),
        };
        let padded = padded(units);
        // |h| <= 1 for all cells but ReLU, whose states may overflow f16.
        let has_kernel = matches!(cell, Cell::Lstm | Cell::Gru | Cell::RnnTanh);
        if !has_kernel || units == 0 || padded > MAX_UNITS || batch == 0 {
            return None;
        }
        let at_once = limits.multiprocessors / (padded / 32 * lanes);
        let tiling = |rows| Tiling { cell, padded, rows, groups: 1, lanes, stacked, below };
        let fits = |rows: &usize| tiling(*rows).fits(limits) && at_once > 0;
        let waves = |rows: &usize| batch.div_ceil(rows * at_once);
        let rows = [16, 24, 32, 48, 64].into_iter().filter(fits).min_by_key(|r| (waves(r), *r))?;
        Some(Tiling { groups: at_once.min(batch.div_ceil(rows)), ..tiling(rows) })
    }

    fn fits(&self, limits: DeviceLimits) -> bool {
        // A layer that multiplies h of the layer below has no table, unless it is the lowest of a
        // stack.
        let may_have_table = self.stacked || self.below == 0;
        self.forward(may_have_table, limits).is_some() && self.backward().shared <= limits.shared
    }

    /// Blocks of a group.
    pub fn blocks(&self) -> usize {
        self.padded / 32
    }

    /// Matrices that a block multiplies in the forward pass: its own h, and h of the layer below.
    pub fn segments(&self) -> usize {
        1 + self.below
    }

    /// Weight matrices of the backward pass: W_hh, and in a stack W_ih for the layer below.
    pub fn segments_back(&self) -> usize {
        if self.stacked { 2 } else { 1 }
    }

    /// Whether this tiling can read the h exchange of `lower`: its blocks have the same layout.
    pub fn continues(&self, lower: &Tiling) -> bool {
        let of = |t: &Tiling| (t.padded, t.rows, t.groups, t.lanes);
        of(self) == of(lower) && self.below == lower.lanes
    }

    /// First row and number of groups of each launch (wave) of a batch.
    pub fn waves(&self, batch: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let Tiling { rows, groups, .. } = *self;
        let first = (0..batch).step_by(rows * groups);
        first.map(move |first| (first, groups.min((batch - first).div_ceil(rows))))
    }

    /// Groups of a whole batch.
    pub fn all_groups(&self, batch: usize) -> usize {
        batch.div_ceil(self.rows)
    }

    /// Length in f16 of the h exchange of `groups` groups and `steps` steps.
    pub fn exchange_len(&self, steps: usize, groups: usize) -> usize {
        steps * self.lanes * groups * self.rows * self.padded
    }

    /// Length in f16 of the partial sums of dh that blocks send each other in the backward pass.
    pub fn partials_len(&self) -> usize {
        let buffers = OWN_BUFFERS + if self.stacked { RING } else { 0 };
        buffers * self.lanes * self.groups * self.blocks() * self.blocks() * 32 * self.rows
    }

    /// Number of read counters of layers of a stack.
    pub fn read_counts_len(&self) -> usize {
        self.lanes * self.groups * self.blocks()
    }

    /// Products (k = 16) of a block and step in the forward pass.
    fn depth(&self) -> usize {
        self.segments() * self.padded / 16
    }

    /// Tiles of 64 units whose partial sums of dh a warpgroup computes, for its own layer.
    pub fn tiles(&self) -> usize {
        self.padded.div_ceil(64).div_ceil(2)
    }

    /// Length in 16-byte words of a lane's packed weights: forward, backward.
    pub fn packed(&self) -> [usize; 2] {
        let back = self.segments_back() * self.tiles() * 2048;
        [self.depth() * 256, back].map(|of_block| self.blocks() * of_block)
    }

    /// The forward kernel, with or without a table in shared memory. `None` if it does not fit.
    pub fn forward(&self, table: bool, limits: DeviceLimits) -> Option<KernelSpec> {
        let table = if table { MAX_TABLE_SYMBOLS } else { 0 };
        let mut specs =
            self.h_load_strategies().into_iter().map(|strategy| self.forward_with(strategy, table));
        specs.find(|spec| spec.shared <= limits.shared)
    }

    /// Ways to load h, the best first. More weights in registers are tried only if shared memory is
    /// too small, because the compiler begins to spill.
    fn h_load_strategies(&self) -> Vec<HLoadStrategy> {
        let Tiling { padded, rows, .. } = *self;
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
        // About four 16-byte words per thread.
        let chunk = match rows {
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
        let large = in_stack * padded * rows > 24_000 || finished * padded.div_ceil(chunk) > WARP;
        let by_threads = match producers {
            128 => vec![by_threads(0, 72)],
            _ => vec![by_threads(0, 40), by_threads(4, 40)],
        };
        by_threads.into_iter().filter(|_| !large).chain(bulk).collect()
    }

    fn forward_with(&self, strategy: HLoadStrategy, table: usize) -> KernelSpec {
        let Tiling { padded, rows, .. } = *self;
        let HLoadStrategy { bulk, chunk, producers, registers, producer_registers } = strategy;
        let (chunks, segments) = (padded.div_ceil(chunk), self.segments());
        let in_registers = self.depth().min(registers);
        let weights = 2 * (self.depth() - in_registers + 1) * 1024;
        let lines = 2 * 2 * rows * (32 + 8) + 2 * rows * (128 + 8);
        let halves = weights + segments * padded * rows + lines + (table + 1) * 128;
        let shared = 2 * halves + 8 * (2 * segments * chunks + 3);
        let defines = [
            format!("BELOW={}", self.below),
            format!("BULK={}", u8::from(bulk)),
            format!("CHUNK={chunk}"),
            format!("PRODUCER_THREADS={producers}"),
            format!("REGISTER_K_STEPS={registers}"),
            format!("PRODUCER_REGISTERS={producer_registers}"),
            format!("TABLE={table}"),
        ];
        let source = sources::persistent_forward(self.defines(shared, defines));
        KernelSpec { threads: CONSUMER_THREADS + producers, shared, in_registers, source }
    }

    /// The backward kernel.
    pub fn backward(&self) -> KernelSpec {
        let Tiling { rows, .. } = *self;
        // Tiles whose weights stay in registers, and senders whose partial sums a thread loads at a
        // time: as many as registers allow.
        let (registers, max_senders) = if rows <= 32 { (3, 32) } else { (2, 24) };
        let passes = (self.segments_back() * self.blocks()).div_ceil(max_senders);
        let batch = self.blocks().div_ceil(passes);
        let tiles = self.segments_back() * self.tiles();
        let in_registers = tiles.min(registers);
        let shared = 2 * (2 * (tiles - in_registers + 1) * 64 * 128 + 2 * 128 * rows);
        let defines = [
            format!("REGISTER_TILES={registers}"),
            format!("BATCH={batch}"),
            format!("RING={RING}"),
        ];
        let source = sources::persistent_backward(self.defines(shared, defines));
        KernelSpec { threads: CONSUMER_THREADS, shared, in_registers, source }
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
    fn defines<const COUNT: usize>(&self, shared: usize, own: [String; COUNT]) -> Vec<String> {
        let cell = match self.cell {
            Cell::Lstm => "LSTM",
            Cell::Gru => "GRU",
            Cell::RnnTanh | Cell::RnnRelu => "RNN",
            Cell::GruResetBefore => unreachable!("refused by `Plan::new`"),
        };
        let common = [
            format!("CELL={cell}"),
            format!("N={}", self.padded),
            format!("NB={}", self.rows),
            format!("STACKED={}", u8::from(self.stacked)),
            format!("SHARED={shared}"),
        ];
        common.into_iter().chain(own).collect()
    }
}

/// A persistent kernel before it is compiled.
#[derive(Debug, Clone)]
pub(crate) struct KernelSpec {
    /// Threads of a block.
    pub threads: usize,
    /// Bytes of dynamic shared memory.
    pub shared: usize,
    /// Forward: products, backward: tiles, whose weights stay in registers.
    pub in_registers: usize,
    pub source: Source,
}

impl KernelSpec {
    fn with_states(mut self) -> KernelSpec {
        self.source.defines.push(sources::FROM_STATES.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: DeviceLimits = DeviceLimits { multiprocessors: 132, shared: 227 << 10 };

    fn tiling(units: usize, lanes: usize, batch: usize, limits: DeviceLimits) -> Option<Tiling> {
        Tiling::of(Cell::Lstm, units, Lanes::Directions { count: lanes, below: 0 }, batch, limits)
    }

    fn shape(units: usize, lanes: usize, batch: usize) -> (usize, usize, usize) {
        let tiling = tiling(units, lanes, batch, H200).unwrap();
        (tiling.padded, tiling.rows, tiling.groups)
    }

    #[test]
    fn the_papers_networks_run_in_one_wave_on_an_h200() {
        assert_eq!(shape(1024, 1, 128), (1024, 32, 4));
        assert_eq!(shape(512, 1, 128), (512, 16, 8));
        assert_eq!(shape(594, 1, 128), (608, 24, 6));
        assert_eq!(shape(343, 1, 128), (352, 16, 8));
        assert_eq!(shape(722, 2, 128), (736, 64, 2));
        assert_eq!(shape(363, 2, 128), (384, 32, 4));
        assert_eq!(shape(202, 2, 128), (224, 16, 8));
    }

    #[test]
    fn stacks_run_in_one_launch_if_the_weights_of_two_layers_fit() {
        let stack = |units, layers| Tiling::of(Cell::Lstm, units, Lanes::Layers(layers), 128, H200);
        let five = stack(343, 5).unwrap();
        assert_eq!((five.rows, five.groups, five.blocks()), (64, 2, 11));
        let two = stack(512, 2).unwrap();
        assert_eq!((two.rows, two.groups, two.blocks()), (32, 4, 16));
        assert_eq!(stack(594, 2), None);
        assert_eq!(stack(343, 13), None);
    }

    #[test]
    fn the_papers_layers_multiply_h_of_the_layer_below() {
        let of = |units, count, below| {
            Tiling::of(Cell::Lstm, units, Lanes::Directions { count, below }, 128, H200).unwrap()
        };
        for (units, count) in [(594, 1), (363, 2), (202, 2)] {
            assert!(of(units, count, count).continues(&of(units, count, 0)), "{units}");
            assert!(of(units, count, count).continues(&of(units, count, count)), "{units}");
        }
        assert!(!of(363, 2, 2).continues(&of(202, 2, 0)));
    }

    #[test]
    fn large_batches_take_waves_and_small_devices_refuse() {
        let of_300 = tiling(1024, 1, 300, H200).unwrap();
        let waves: Vec<_> = of_300.waves(300).collect();
        assert_eq!((of_300.rows, waves), (32, vec![(0, 4), (128, 4), (256, 2)]));
        assert_eq!(of_300.all_groups(300), 10);
        assert!(tiling(1025, 1, 8, H200).is_none());
        let lanes = Lanes::Directions { count: 1, below: 0 };
        assert!(Tiling::of(Cell::RnnRelu, 100, lanes, 8, H200).is_none());
        let small = DeviceLimits { multiprocessors: 20, ..H200 };
        assert!(tiling(1024, 1, 8, small).is_none());
        assert!(tiling(512, 2, 8, small).is_none());
        let old = DeviceLimits { shared: 99 << 10, ..H200 };
        assert!(tiling(1024, 1, 128, old).is_none());
    }

    #[test]
    fn never_more_blocks_than_multiprocessors_and_every_row_once() {
        let directions = |count, below| Lanes::Directions { count, below };
        let lanes = [directions(1, 0), directions(2, 0), directions(1, 1), directions(2, 2)];
        let lanes = lanes.into_iter().chain([2, 5].map(Lanes::Layers));
        let sizes = [1, 33, 200, 343, 512, 700, 1000];
        for (lanes, units) in lanes.flat_map(|lanes| sizes.map(|units| (lanes, units))) {
            for batch in [1, 7, 32, 100, 128, 129, 1000] {
                let Some(t) = Tiling::of(Cell::Gru, units, lanes, batch, H200) else {
                    assert!(units >= 512 && lanes != directions(1, 0), "{units} {lanes:?}");
                    continue;
                };
                assert!(t.lanes * t.groups * t.blocks() <= 132, "{t:?}");
                let forward = t.forward(t.below == 0, H200).expect("fits");
                let chunk = forward.source.defines.iter().find_map(|d| d.strip_prefix("CHUNK="));
                let chunks = t.padded.div_ceil(chunk.unwrap().parse().unwrap());
                assert!(t.stacked || t.below * chunks <= WARP, "{t:?}");
                let rows: usize = t.waves(batch).map(|(_, groups)| groups * t.rows).sum();
                assert!(rows >= batch && rows < batch + t.rows, "{t:?} {batch}");
            }
        }
    }
}
