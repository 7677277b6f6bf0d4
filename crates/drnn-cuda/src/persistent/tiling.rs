//! How a large recurrence is divided among multiprocessors; arithmetic only, no GPU calls.
//!
//! ```text
//! blocks of a group = N / units      N: units, padded to a multiple of 32
//!                                    units of a block: 32, or 16 (up to N = 2048)
//!                                    or all of them (up to N = 128)
//! groups            = B / rows       rows of the batch per block: 16, 24, 32, 48 or 64; or 8 or 4
//! lanes             = directions of a layer, or layers of a stack, in one launch
//! blocks in all     = lanes * groups * N / units <= multiprocessors; larger batches take waves
//! ```
//!
//! Blocks that have all units exchange nothing and may queue: [`super::single_block`].

use super::cost::by_time;
use super::forced::ForcedTiling;
use super::{single_block, step_by_step};
use drnn::Cell;

/// Units of a block, U. With 32, the weights of N = 1024 fill the registers and shared memory of 32
/// multiprocessors; with 16, those of N = 2048 fill 128.
pub(super) const BLOCK_UNITS: [usize; 2] = [32, 16];
/// Rows of the batch per block.
pub(super) const BLOCK_ROWS: [usize; 5] = [16, 24, 32, 48, 64];
/// Threads that share four cells in the backward pass.
pub(super) const HELPERS: [usize; 3] = [1, 2, 4];
/// Threads of a warp.
pub(super) const WARP: usize = 32;
/// Consumer threads of a block, two warpgroups: they run the matrix products and the cell.
pub(super) const CONSUMER_THREADS: usize = 256;
/// Ring of partial sums that a layer of a stack sends to the one below: how many steps it may be
/// ahead in the backward pass.
pub(super) const RING: usize = 4;
/// Double buffer of the partial sums that a layer's own blocks send each other.
const OWN_BUFFERS: usize = 2;

/// The largest N, by U: a block has to hold 4 U N weights.
fn max_padded(units: usize) -> usize {
    32 * 1024 / units
}

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
    /// Sizes of blocks that the environment gives.
    pub forced: ForcedTiling,
}

impl DeviceLimits {
    /// With sizes of blocks that are chosen.
    #[cfg(test)]
    pub const fn new(multiprocessors: usize, shared: usize) -> DeviceLimits {
        DeviceLimits { multiprocessors, shared, forced: ForcedTiling::NOTHING }
    }
}

/// How the recurrences of one launch are divided among blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Tiling {
    pub cell: Cell,
    /// N.
    pub padded: usize,
    /// Units of a block, U.
    pub units: usize,
    /// Rows of the batch per block.
    pub rows: usize,
    /// Threads that share four cells in the backward pass, where there are fewer groups of four
    /// than threads.
    pub helpers: usize,
    /// Whether producers prefetch what later steps access to L2.
    pub prefetch: bool,
    /// Groups per lane and launch.
    pub groups: usize,
    pub lanes: usize,
    /// Whether lanes are layers of a stack, not directions of a layer.
    pub stacked: bool,
    /// Directions of the layer below whose h the forward kernel multiplies with W_ih itself.
    pub below: usize,
    pub kind: Kind,
}

/// How the recurrences of a launch are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// In one launch; blocks share the units of a layer and exchange h.
    Exchange,
    /// In one launch; a block has all units of its rows, and nothing is exchanged:
    /// [`super::single_block`].
    SingleBlock,
    /// With a product and an elementwise kernel for each step: [`super::step_by_step`]. `rows` is
    /// the whole batch, `units` are all.
    StepByStep,
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

/// What a launch computes: so many units of a cell in each lane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayerShape {
    pub cell: Cell,
    pub units: usize,
    pub lanes: Lanes,
    /// Whether the first layer looks x W_ih^T up in a table, which takes shared memory.
    pub table: bool,
}

impl Tiling {
    /// The tiling that takes the least time for a batch, by [`Tiling::batch_time`]. `None` if none
    /// fits.
    pub fn of(layers: LayerShape, batch: usize, limits: DeviceLimits) -> Option<Tiling> {
        Tiling::all(layers, batch, limits).into_iter().min_by(by_time(batch))
    }

    /// All tilings that fit.
    pub fn all(layers: LayerShape, batch: usize, limits: DeviceLimits) -> Vec<Tiling> {
        let LayerShape { cell, units, lanes, table } = layers;
        let (lanes, stacked, below) = match lanes {
            Lanes::Directions { count, below } => (count, false, below),
            Lanes::Layers(count) => (count, true, 1),
        };
        let padded = padded(units);
        // |h| <= 1 for all cells but ReLU, whose states may overflow f16.
        let has_kernel = matches!(cell, Cell::Lstm | Cell::Gru | Cell::RnnTanh);
        if !has_kernel || units == 0 || batch == 0 {
            return Vec::new();
        }
        // All units of all rows, one step after another.
        let whole = Tiling {
            cell,
            padded,
            units: padded,
            rows: batch,
            helpers: 1,
            prefetch: false,
            groups: 1,
            lanes,
            stacked,
            below,
            kind: Kind::StepByStep,
        };
        let exchange = |(units, rows): (usize, usize)| {
            let helpers = limits.forced.helpers.unwrap_or(Tiling::usual_helpers(units, rows));
            let prefetch = limits.forced.prefetch == Some(1);
            let alone = Tiling { units, rows, helpers, prefetch, kind: Kind::Exchange, ..whole };
            let at_once = limits.multiprocessors / (alone.blocks() * lanes);
            let fits = limits.forced.allows(Kind::Exchange, units, rows)
                && at_once > 0
                && alone.fits(table, limits);
            fits.then(|| Tiling { groups: at_once.min(batch.div_ceil(rows)), ..alone })
        };
        let sizes = BLOCK_UNITS.iter().flat_map(|units| BLOCK_ROWS.map(|rows| (*units, rows)));
        // Neither stacks nor layers that multiply h of the layer below have kernels of other kinds.
        let other = |(kind, rows): (Kind, usize)| {
            let tiling = Tiling { rows, groups: batch.div_ceil(rows), kind, ..whole };
            let fits = below == 0
                && limits.forced.allows(kind, padded, rows)
                && tiling.fits_shared(table, limits);
            fits.then_some(tiling)
        };
        let others = single_block::BLOCK_ROWS.map(|rows| (Kind::SingleBlock, rows));
        let others = others.into_iter().chain([(Kind::StepByStep, batch)]);
        sizes.filter_map(exchange).chain(others.filter_map(other)).collect()
    }

    fn fits(&self, table: bool, limits: DeviceLimits) -> bool {
        // A layer that multiplies h of the layer below has no table, unless it is the lowest of a
        // stack.
        let table = table && (self.stacked || self.below == 0);
        // With 16 units a warpgroup has half of the rows of the batch, in groups of 8.
        let divides = !self.is_split() || self.rows.is_multiple_of(16);
        divides
            && self.shares_cells()
            && self.padded <= max_padded(self.units)
            && self.fits_shared(table, limits)
    }

    /// The usual number of helpers of a block: as many as there are threads for in blocks of 16
    /// units. In those of 32 units they have not been measured.
    pub fn usual_helpers(units: usize, rows: usize) -> usize {
        match (units, rows) {
            (16, 16) => 4,
            (16, 32) => 2,
            _ => 1,
        }
    }

    /// Whether every thread of a block helps once, or there are no helpers.
    fn shares_cells(&self) -> bool {
        self.helpers == 1 || self.helpers * self.units * self.rows == 4 * CONSUMER_THREADS
    }

    /// Whether the warpgroups of a block share k-steps rather than units.
    pub fn is_split(&self) -> bool {
        self.units == 16
    }

    /// Whether blocks exchange h, and partial sums of its gradient.
    pub fn exchanges(&self) -> bool {
        self.kind == Kind::Exchange
    }

    /// Groups of a batch that have sums of bias gradients of their own.
    pub fn bias_groups(&self, batch: usize) -> usize {
        match self.kind {
            Kind::StepByStep => step_by_step::BIAS_CHUNKS,
            Kind::Exchange | Kind::SingleBlock => self.all_groups(batch),
        }
    }

    /// Blocks of a group.
    pub fn blocks(&self) -> usize {
        self.padded / self.units
    }

    /// Matrices that a block multiplies in the forward pass: its own h, and h of the layer below.
    pub fn segments(&self) -> usize {
        1 + self.below
    }

    /// Weight matrices of the backward pass: W_hh, and in a stack W_ih for the layer below.
    pub fn segments_back(&self) -> usize {
        if self.stacked { 2 } else { 1 }
    }

    /// Whether this tiling can read the h exchange of `lower`: its groups have the same layout.
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
        let steps = if self.exchanges() { steps } else { 0 };
        steps * self.lanes * groups * self.rows * self.padded
    }

    /// Length in f16 of the partial sums of dh that blocks send each other in the backward pass.
    pub fn partials_len(&self) -> usize {
        if !self.exchanges() {
            return 0;
        }
        let sent = self.lanes * self.groups * self.blocks() * self.padded * self.rows;
        partial_buffers(self.stacked) * sent
    }

    /// Number of read counters of layers of a stack.
    pub fn read_counts_len(&self) -> usize {
        if self.stacked { self.lanes * self.groups * self.blocks() } else { 0 }
    }

    /// Products (k = 16) of a warpgroup and step in the forward pass.
    pub fn depth(&self) -> usize {
        self.segments() * self.padded / if self.is_split() { 32 } else { 16 }
    }

    /// Tiles of 64 units whose partial sums of dh a warpgroup computes, for its own layer.
    pub fn tiles(&self) -> usize {
        self.padded.div_ceil(64).div_ceil(2)
    }

    /// 16-byte words of a tile's weights, of both warpgroups.
    pub fn tile_words(&self) -> usize {
        2 * self.units / 4 * 128
    }

    /// Length in 16-byte words of a lane's packed weights: forward, backward.
    pub fn packed(&self) -> [usize; 2] {
        if !self.exchanges() {
            return [self.padded * self.padded / 2; 2];
        }
        let back = self.segments_back() * self.tiles() * self.tile_words();
        [self.depth() * 256, back].map(|of_block| self.blocks() * of_block)
    }
}

/// Buffers of the partial sums that every block sends in a step.
fn partial_buffers(stacked: bool) -> usize {
    OWN_BUFFERS + if stacked { RING } else { 0 }
}

/// The largest [`Tiling::partials_len`] of all tilings of `lanes` lanes, for batches of up to
/// `rows` rows: a launch has at most `rows` and one group's padding, and no more blocks than there
/// are multiprocessors.
pub(super) fn max_partials_len(
    padded: usize,
    lanes: usize,
    stacked: bool,
    rows: usize,
    limits: DeviceLimits,
) -> usize {
    let [_, fewest] = BLOCK_UNITS;
    let of_rows = lanes * (rows + 64) * (padded / fewest) * padded;
    partial_buffers(stacked) * of_rows.min(limits.multiprocessors * padded * 64)
}

#[cfg(test)]
mod tests {
    use super::super::forced::Kinds;
    use super::*;

    fn h200() -> DeviceLimits {
        DeviceLimits::new(132, 227 << 10)
    }

    fn lstm(units: usize, lanes: Lanes) -> LayerShape {
        LayerShape { cell: Cell::Lstm, units, lanes, table: true }
    }

    /// The best tiling of a kind.
    fn of_kind(
        kind: Kind,
        layers: LayerShape,
        batch: usize,
        limits: DeviceLimits,
    ) -> Option<Tiling> {
        let all = Tiling::all(layers, batch, limits).into_iter();
        all.filter(|tiling| tiling.kind == kind).min_by(by_time(batch))
    }

    /// Of blocks that exchange h.
    fn tiling(units: usize, lanes: usize, batch: usize, limits: DeviceLimits) -> Option<Tiling> {
        let layers = lstm(units, Lanes::Directions { count: lanes, below: 0 });
        of_kind(Kind::Exchange, layers, batch, limits)
    }

    /// N, units and rows of a block, groups.
    fn shape(units: usize, lanes: usize, batch: usize) -> [usize; 4] {
        let tiling = tiling(units, lanes, batch, h200()).unwrap();
        [tiling.padded, tiling.units, tiling.rows, tiling.groups]
    }

    #[test]
    fn the_papers_networks_run_in_one_wave_on_an_h200() {
        assert_eq!(shape(1024, 1, 128), [1024, 32, 32, 4]);
        assert_eq!(shape(512, 1, 128), [512, 32, 16, 8]);
        assert_eq!(shape(594, 1, 128), [608, 32, 24, 6]);
        assert_eq!(shape(343, 1, 128), [352, 32, 16, 8]);
        assert_eq!(shape(722, 2, 128), [736, 32, 64, 2]);
        assert_eq!(shape(363, 2, 128), [384, 32, 32, 4]);
        assert_eq!(shape(202, 2, 128), [224, 32, 16, 8]);
    }

    #[test]
    fn small_batches_and_large_layers_take_blocks_of_16_units() {
        assert_eq!(shape(1024, 1, 16), [1024, 16, 16, 1]);
        assert_eq!(shape(512, 1, 16), [512, 16, 16, 1]);
        assert_eq!(shape(1536, 1, 16), [1536, 16, 16, 1]);
        assert_eq!(shape(2048, 1, 16), [2048, 16, 16, 1]);
        let limits = h200();
        let dense =
            LayerShape { table: false, ..lstm(2048, Lanes::Directions { count: 1, below: 0 }) };
        let sizes = Tiling::all(dense, 64, limits);
        let sizes = sizes.iter().filter(|t| t.exchanges());
        let sizes: Vec<_> = sizes.map(|t| (t.units, t.rows, t.blocks())).collect();
        assert_eq!(sizes, [(16, 16, 128), (16, 32, 128)]);
        // Two directions of 1056 units take all multiprocessors.
        let tiling = tiling(1056, 2, 1, limits).unwrap();
        assert_eq!((tiling.blocks(), tiling.groups), (66, 1));
    }

    #[test]
    fn the_environment_may_give_the_sizes() {
        let forced = |units, rows| {
            let forced = ForcedTiling { units, rows, ..ForcedTiling::default() };
            let limits = DeviceLimits { forced, ..h200() };
            tiling(512, 1, 128, limits).map(|t| (t.units, t.rows))
        };
        assert_eq!(forced(Some(16), Some(48)), Some((16, 48)));
        assert_eq!(forced(None, Some(24)), Some((32, 24)));
        assert_eq!(forced(Some(16), Some(24)), None); // 12 rows for each warpgroup
        let sizes = |helpers| {
            let forced = ForcedTiling { helpers: Some(helpers), ..ForcedTiling::default() };
            let all = DeviceLimits { forced, ..h200() };
            let sizes = |units| tiling(units, 1, 128, all).map(|t| (t.units, t.rows, t.helpers));
            [256, 2048].map(sizes)
        };
        assert_eq!(sizes(2), [Some((32, 16, 2)), None]); // a table and 32 rows do not fit
        assert_eq!(sizes(4), [Some((16, 16, 4)), Some((16, 16, 4))]);
    }

    #[test]
    fn stacks_run_in_one_launch_if_the_weights_of_two_layers_fit() {
        let stack = |units, layers| Tiling::of(lstm(units, Lanes::Layers(layers)), 128, h200());
        let five = stack(343, 5).unwrap();
        assert_eq!((five.rows, five.groups, five.blocks()), (64, 2, 11));
        let two = stack(512, 2).unwrap();
        assert_eq!((two.rows, two.groups, two.blocks()), (32, 4, 16));
        assert_eq!(stack(594, 2).unwrap().units, 16);
        assert_eq!(stack(343, 13), None);
    }

    #[test]
    fn the_papers_layers_multiply_h_of_the_layer_below() {
        let of = |units, count, below| {
            Tiling::of(lstm(units, Lanes::Directions { count, below }), 128, h200()).unwrap()
        };
        for (units, count) in [(594, 1), (363, 2), (202, 2)] {
            assert!(of(units, count, count).continues(&of(units, count, 0)), "{units}");
            assert!(of(units, count, count).continues(&of(units, count, count)), "{units}");
        }
        assert!(!of(363, 2, 2).continues(&of(202, 2, 0)));
    }

    #[test]
    fn large_batches_take_waves_and_small_devices_refuse() {
        let of_300 = tiling(1024, 1, 300, h200()).unwrap();
        let waves: Vec<_> = of_300.waves(300).collect();
        assert_eq!((of_300.rows, waves), (32, vec![(0, 4), (128, 4), (256, 2)]));
        assert_eq!(of_300.all_groups(300), 10);
        assert!(tiling(2049, 1, 8, h200()).is_none() && tiling(1057, 2, 8, h200()).is_none());
        let relu = LayerShape { cell: Cell::RnnRelu, ..lstm(100, Lanes::Layers(2)) };
        assert!(Tiling::all(relu, 8, h200()).is_empty());
        let small = DeviceLimits::new(20, 227 << 10);
        assert!(tiling(1024, 1, 8, small).is_none());
        assert!(tiling(512, 2, 8, small).is_none());
        let old = DeviceLimits::new(132, 99 << 10);
        assert!(tiling(2048, 1, 128, old).is_none());
    }

    /// An H200 with kinds that have not been measured, too.
    fn with_any_kind() -> DeviceLimits {
        let forced = ForcedTiling { kinds: Kinds::Any, ..ForcedTiling::default() };
        DeviceLimits { forced, ..h200() }
    }

    #[test]
    fn other_kinds_if_they_are_allowed() {
        let kind = |units, count, batch| {
            let layers = lstm(units, Lanes::Directions { count, below: 0 });
            let layers = LayerShape { table: false, ..layers };
            let usual = Tiling::all(layers, batch, h200());
            assert!(usual.iter().all(Tiling::exchanges));
            let tiling = Tiling::of(layers, batch, with_any_kind()).unwrap();
            (tiling.kind, tiling.rows)
        };
        assert_eq!(kind(64, 1, 16), (Kind::SingleBlock, 4));
        assert_eq!(kind(128, 2, 512), (Kind::SingleBlock, 8));
        assert_eq!(kind(129, 1, 16).0, Kind::Exchange);
        assert_eq!(kind(1024, 1, 128).0, Kind::Exchange);
        assert_eq!(kind(2048, 1, 16).0, Kind::Exchange);
        assert_eq!(kind(2048, 1, 512), (Kind::StepByStep, 512));
        assert_eq!(kind(3000, 1, 16), (Kind::StepByStep, 16));
        // Tables are larger than what shared memory has left.
        let shape = lstm(128, Lanes::Directions { count: 1, below: 0 });
        let old = DeviceLimits { shared: 99 << 10, ..with_any_kind() };
        assert_eq!(of_kind(Kind::SingleBlock, shape, 8, old).map(|t| t.rows), Some(4));
        let layers = LayerShape { units: 129, ..shape };
        assert_eq!(of_kind(Kind::SingleBlock, layers, 8, with_any_kind()), None);
    }

    #[test]
    fn never_more_blocks_than_multiprocessors_and_every_row_once() {
        let directions = |count, below| Lanes::Directions { count, below };
        let lanes = [directions(1, 0), directions(2, 0), directions(1, 1), directions(2, 2)];
        let lanes = lanes.into_iter().chain([2, 5].map(Lanes::Layers));
        let sizes = [1, 33, 200, 343, 512, 700, 1000, 1500, 2000];
        for (lanes, units) in lanes.flat_map(|lanes| sizes.map(|units| (lanes, units))) {
            for batch in [1, 7, 32, 100, 128, 129, 1000] {
                let layers = LayerShape { cell: Cell::Gru, units, lanes, table: true };
                let all = Tiling::all(layers, batch, with_any_kind());
                let (exchanging, others): (Vec<_>, Vec<_>) =
                    all.iter().partition(|tiling| tiling.exchanges());
                let fits = !exchanging.is_empty();
                assert!(fits || units >= 700 && lanes != directions(1, 0), "{layers:?}");
                exchanging.into_iter().for_each(|tiling| check(tiling, batch));
                for t in others {
                    assert_eq!((t.waves(batch).count(), t.blocks()), (1, 1), "{t:?}");
                    assert!(t.rows * t.groups >= batch && t.partials_len() == 0, "{t:?}");
                }
            }
        }
    }

    fn check(t: &Tiling, batch: usize) {
        let Tiling { padded, lanes, stacked, below, rows, groups, .. } = *t;
        assert!(lanes * groups * t.blocks() <= 132, "{t:?}");
        let forward = t.forward(below == 0, h200()).expect("fits");
        let chunk = forward.source.defines.iter().find_map(|d| d.strip_prefix("CHUNK="));
        let chunks = padded.div_ceil(chunk.unwrap().parse().unwrap());
        assert!(stacked || below * chunks <= WARP, "{t:?}");
        let in_waves: usize = t.waves(batch).map(|(_, groups)| groups * rows).sum();
        assert!(in_waves >= batch && in_waves < batch + rows, "{t:?} {batch}");
        let max_len = max_partials_len(padded, lanes, stacked, batch, h200());
        assert!(t.partials_len() <= max_len && t.read_counts_len() <= 132, "{t:?} {batch}");
    }
}
