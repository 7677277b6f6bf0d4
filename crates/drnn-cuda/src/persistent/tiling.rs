//! How a large recurrence is divided among multiprocessors: nothing of the GPU, only counting.
//!
//! ```text
//! blocks of a group = N / 32         N: units, padded to a multiple of 32
//! groups            = B / rows       rows of the batch that a block has: 16, 24, 32, 48 or 64
//! lanes             = directions of a layer, or layers of a stack that run at once
//! blocks in all     = lanes groups blocks <= multiprocessors       or the batch goes in several waves
//! ```

use super::workspace::MAX_TABLE_SYMBOLS;
use crate::runtime::compile::Source;
use drnn::Cell;

/// The most units whose weights 32 multiprocessors hold.
const MAX_UNITS: usize = 1024;
/// Threads of a warp.
pub(super) const WARP: usize = 32;
/// Threads of a block that multiply.
pub(super) const CONSUMER_THREADS: usize = 256;
/// Turns that a layer of a stack may be ahead of the one below it on the way back.
const RING: usize = 4;
/// Turns of the parts that a layer's blocks send each other.
const OWN_TURNS: usize = 2;

/// Units of a direction as kernels have them, N.
pub(super) fn padded(units: usize) -> usize {
    units.next_multiple_of(32)
}

/// What the card has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeviceLimits {
    pub multiprocessors: usize,
    /// Bytes of shared memory that a block may have.
    pub shared: usize,
}

/// Recurrences that run at once, side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tiling {
    pub cell: Cell,
    /// Units, padded: N.
    pub padded: usize,
    /// Rows of the batch in a block.
    pub rows: usize,
    /// Groups that run at once in each lane.
    pub groups: usize,
    pub lanes: usize,
    /// Whether lanes are layers of a stack, not directions of a layer.
    pub stacked: bool,
    /// Directions of the layer below whose h is multiplied along on the way forward.
    pub below: usize,
}

/// How a block brings h to its shared memory.
#[derive(Debug, Clone, Copy)]
struct HLoadStrategy {
    /// By copies that run beside its threads.
    bulk: bool,
    /// Units that are waited for at once.
    chunk: usize,
    /// Threads that do so.
    producers: usize,
    /// Products whose weights stay in registers, 4 each beside half a row for the sums; and what is left for producers.
    registers: usize,
    producer_registers: usize,
}

/// What lanes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lanes {
    /// Directions of a layer, and those of the one below that are multiplied along.
    Directions { count: usize, below: usize },
    /// Layers of a stack.
    Layers(usize),
}

impl Tiling {
    /// The division that takes the fewest waves, then the one with the fewest rows in a block. None where nothing fits.
    pub fn of(
        cell: Cell,
        units: usize,
        lanes: Lanes,
        batch: usize,
        card: DeviceLimits,
    ) -> Option<Tiling> {
        let (lanes, stacked, below) = match lanes {
            Lanes::Directions { count, below } => (count, false, below),
            Lanes::Layers(count) => (count, true, 1),
        };
        let padded = padded(units);
        // What the others give is at most 1; that of a rectifier has no bound, and f16 has one.
        if cell == Cell::RnnRelu || units == 0 || padded > MAX_UNITS || batch == 0 {
            return None;
        }
        let at_once = card.multiprocessors / (padded / 32 * lanes);
        let tiling = |rows| Tiling { cell, padded, rows, groups: 1, lanes, stacked, below };
        let fits = |rows: &usize| tiling(*rows).fits(card) && at_once > 0;
        let waves = |rows: &usize| batch.div_ceil(rows * at_once);
        let rows = [16, 24, 32, 48, 64].into_iter().filter(fits).min_by_key(|r| (waves(r), *r))?;
        Some(Tiling { groups: at_once.min(batch.div_ceil(rows)), ..tiling(rows) })
    }

    fn fits(&self, card: DeviceLimits) -> bool {
        // A layer that multiplies what is below along looks up nothing, unless it is the lowest of a stack.
        let may_look_up = self.stacked || self.below == 0;
        self.forward(may_look_up, card).is_some() && self.backward().shared <= card.shared
    }

    /// Blocks of a group.
    pub fn blocks(&self) -> usize {
        self.padded / 32
    }

    /// What a block multiplies on the way forward: its own h, and that of the layer below.
    pub fn segments(&self) -> usize {
        1 + self.below
    }

    /// What it multiplies its gradients by: for its own layer, and in a stack for the one below.
    pub fn segments_back(&self) -> usize {
        if self.stacked { 2 } else { 1 }
    }

    /// Whether what `lower` has told can be multiplied along: the same blocks have told it.
    pub fn continues(&self, lower: &Tiling) -> bool {
        let of = |t: &Tiling| (t.padded, t.rows, t.groups, t.lanes);
        of(self) == of(lower) && self.below == lower.lanes
    }

    /// First row, and groups, of each launch that a batch takes.
    pub fn waves(&self, batch: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let Tiling { rows, groups, .. } = *self;
        let first = (0..batch).step_by(rows * groups);
        first.map(move |first| (first, groups.min((batch - first).div_ceil(rows))))
    }

    /// Groups of a whole batch.
    pub fn all_groups(&self, batch: usize) -> usize {
        batch.div_ceil(self.rows)
    }

    /// f16 of what the blocks of so many groups tell each other in `steps` steps on the way forward.
    pub fn exchange_len(&self, steps: usize, groups: usize) -> usize {
        steps * self.lanes * groups * self.rows * self.padded
    }

    /// f16 of what blocks send each other on the way back.
    pub fn partials_len(&self) -> usize {
        let turns = OWN_TURNS + if self.stacked { RING } else { 0 };
        turns * self.lanes * self.groups * self.blocks() * self.blocks() * 32 * self.rows
    }

    /// Counts of what layers of a stack have read of that.
    pub fn read_counts_len(&self) -> usize {
        self.lanes * self.groups * self.blocks()
    }

    /// Products of 16 units that a lane's block makes at every step of the way forward.
    fn depth(&self) -> usize {
        self.segments() * self.padded / 16
    }

    /// Of a warpgroup, tiles of 64 units that it makes parts of gradients for: of its own layer's.
    pub fn tiles(&self) -> usize {
        self.padded.div_ceil(64).div_ceil(2)
    }

    /// 16 bytes each: a lane's weights on the way forward, and on the way back.
    pub fn packed(&self) -> [usize; 2] {
        let back = self.segments_back() * self.tiles() * 2048;
        [self.depth() * 256, back].map(|of_block| self.blocks() * of_block)
    }

    /// The kernel for the way forward, with room for a table or without. None where it does not fit.
    pub fn forward(&self, table: bool, card: DeviceLimits) -> Option<KernelSpec> {
        let table = if table { MAX_TABLE_SYMBOLS } else { 0 };
        let mut kinds =
            self.h_load_strategies().into_iter().map(|strategy| self.forward_with(strategy, table));
        kinds.find(|kind| kind.shared <= card.shared)
    }

    /// Ways to bring h to shared memory, the best first. Weights in registers are better only where there is no room for them
    /// elsewhere: the compiler begins to spill.
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
        // About 4 times 16 bytes for each thread.
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
        // Much is better copied in bulk than by threads; of a stack, what lies below is as much again. And a warp is to copy all
        // chunks of a layer below that has finished.
        let (in_stack, finished) = if self.stacked { (2, 0) } else { (1, self.below) };
        let much = in_stack * padded * rows > 24_000 || finished * padded.div_ceil(chunk) > WARP;
        let by_threads = match producers {
            128 => vec![by_threads(0, 72)],
            _ => vec![by_threads(0, 40), by_threads(4, 40)],
        };
        by_threads.into_iter().filter(|_| !much).chain(bulk).collect()
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
            format!("LOADERS={producers}"),
            format!("REGISTERS={registers}"),
            format!("LOADER_REGISTERS={producer_registers}"),
            format!("TABLE={table}"),
        ];
        let text = include_str!("../kernels/persistent/forward.cu");
        let kind = self.kind("persistent_forward", text, shared, in_registers, &defines);
        KernelSpec { threads: CONSUMER_THREADS + producers, ..kind }
    }

    /// The kernel for the way back.
    pub fn backward(&self) -> KernelSpec {
        let Tiling { rows, .. } = *self;
        // Tiles whose weights stay in registers, and senders that a thread waits for at once: as many as there are registers for.
        let (registers, most) = if rows <= 32 { (3, 32) } else { (2, 24) };
        let rounds = (self.segments_back() * self.blocks()).div_ceil(most);
        let batch = self.blocks().div_ceil(rounds);
        let tiles = self.segments_back() * self.tiles();
        let in_registers = tiles.min(registers);
        let shared = 2 * (2 * (tiles - in_registers + 1) * 64 * 128 + 2 * 128 * rows);
        let defines = [
            format!("REGISTER_TILES={registers}"),
            format!("BATCH={batch}"),
            format!("RING={RING}"),
        ];
        let text = include_str!("../kernels/persistent/backward.cu");
        self.kind("persistent_backward", text, shared, in_registers, &defines)
    }

    fn kind(
        &self,
        name: &'static str,
        text: &'static str,
        shared: usize,
        in_registers: usize,
        defines: &[String],
    ) -> KernelSpec {
        let cell = match self.cell {
            Cell::Lstm => "LSTM",
            Cell::Gru => "GRU",
            Cell::RnnTanh | Cell::RnnRelu => "RNN",
        };
        let own = [
            format!("CELL={cell}"),
            format!("N={}", self.padded),
            format!("NB={}", self.rows),
            format!("STACKED={}", u8::from(self.stacked)),
            format!("SHARED={shared}"),
        ];
        let defines = own.iter().chain(defines).cloned().collect();
        let parts = vec![
            include_str!("../kernels/common/common.cuh"),
            include_str!("../kernels/common/hopper.cuh"),
            include_str!("../kernels/common/cell.cuh"),
            text,
        ];
        let source = Source { name, parts, defines };
        KernelSpec { threads: CONSUMER_THREADS, shared, in_registers, source }
    }
}

/// A kernel before it is compiled.
#[derive(Debug, Clone)]
pub(crate) struct KernelSpec {
    /// Of a block.
    pub threads: usize,
    /// Bytes of shared memory.
    pub shared: usize,
    /// How many of its products' weights, or tiles, stay in registers.
    pub in_registers: usize,
    pub source: Source,
}

#[cfg(test)]
mod tests {
    use super::*;

    const H200: DeviceLimits = DeviceLimits { multiprocessors: 132, shared: 227 << 10 };

    fn tiling(units: usize, lanes: usize, batch: usize, card: DeviceLimits) -> Option<Tiling> {
        Tiling::of(Cell::Lstm, units, Lanes::Directions { count: lanes, below: 0 }, batch, card)
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
    fn stacks_run_at_once_where_both_layers_weights_fit() {
        let stack = |units, layers| Tiling::of(Cell::Lstm, units, Lanes::Layers(layers), 128, H200);
        let five = stack(343, 5).unwrap();
        assert_eq!((five.rows, five.groups, five.blocks()), (64, 2, 11));
        let two = stack(512, 2).unwrap();
        assert_eq!((two.rows, two.groups, two.blocks()), (32, 4, 16));
        assert_eq!(stack(594, 2), None);
        assert_eq!(stack(343, 13), None);
    }

    #[test]
    fn the_papers_layers_multiply_what_is_below_along() {
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
    fn large_batches_go_in_waves_and_small_cards_refuse() {
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
