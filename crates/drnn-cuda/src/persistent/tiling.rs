//! How a large recurrence is divided among multiprocessors; arithmetic only, no GPU calls.
//!
//! ```text
//! blocks of a group = N / units      N: units, padded to a multiple of 32
//!                                    units of a block: 32, or 16 (up to N = 2048)
//! groups            = B / rows       rows of the batch per block: 16, 24, 32, 48 or 64
//! lanes             = directions of a layer, or layers of a stack, in one launch
//! blocks in all     = lanes * groups * N / units <= multiprocessors; larger batches take waves
//! ```

use super::cost::by_time;
use super::forced::ForcedTiling;
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
        let forced = ForcedTiling { units: None, rows: None, helpers: None };
        DeviceLimits { multiprocessors, shared, forced }
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
    /// Groups per lane and launch.
    pub groups: usize,
    pub lanes: usize,
    /// Whether lanes are layers of a stack, not directions of a layer.
    pub stacked: bool,
    /// Directions of the layer below whose h the forward kernel multiplies with W_ih itself.
    pub below: usize,
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
        let tiling = |(units, rows): (usize, usize)| {
            let helpers = limits.forced.helpers.unwrap_or(Tiling::usual_helpers(units, rows));
            let alone =
                Tiling { cell, padded, units, rows, helpers, groups: 1, lanes, stacked, below };
            let at_once = limits.multiprocessors / (alone.blocks() * lanes);
            let fits =
                limits.forced.allows(units, rows) && at_once > 0 && alone.fits(table, limits);
            fits.then(|| Tiling { groups: at_once.min(batch.div_ceil(rows)), ..alone })
        };
        let sizes = BLOCK_UNITS.iter().flat_map(|units| BLOCK_ROWS.map(|rows| (*units, rows)));
        sizes.filter_map(tiling).collect()
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
            && self.forward(table, limits).is_some()
            && self.backward().shared <= limits.shared
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
        steps * self.lanes * groups * self.rows * self.padded
    }

    /// Length in f16 of the partial sums of dh that blocks send each other in the backward pass.
    pub fn partials_len(&self) -> usize {
        let sent = self.lanes * self.groups * self.blocks() * self.padded * self.rows;
        partial_buffers(self.stacked) * sent
    }

    /// Number of read counters of layers of a stack.
    pub fn read_counts_len(&self) -> usize {
        self.lanes * self.groups * self.blocks()
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
        let back = self.segments_back() * self.tiles() * self.tile_words();
        [self.depth() * 256, back].map(|of_block| self.blocks() * of_block)
    }
}

/// Buffers of the partial sums that every block sends in a step.
fn partial_buffers(stacked: bool) -> usize {
    OWN_BUFFERS + if stacked { RING } else { 0 }
}

/// The largest [`Tiling::partials_len`] of all tilings of `lanes` lanes, for batches of up to `rows`
/// rows: a launch has at most `rows` and one group's padding, and no more blocks than there are
/// multiprocessors.
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
    use super::*;

    fn h200() -> DeviceLimits {
        DeviceLimits::new(132, 227 << 10)
    }

    fn lstm(units: usize, lanes: Lanes) -> LayerShape {
        LayerShape { cell: Cell::Lstm, units, lanes, table: true }
    }

    fn tiling(units: usize, lanes: usize, batch: usize, limits: DeviceLimits) -> Option<Tiling> {
        Tiling::of(lstm(units, Lanes::Directions { count: lanes, below: 0 }), batch, limits)
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
        let sizes: Vec<_> = sizes.iter().map(|t| (t.units, t.rows, t.blocks())).collect();
        assert_eq!(sizes, [(16, 16, 128), (16, 32, 128)]);
        // Two directions of 1056 units take all multiprocessors.
        let tiling = tiling(1056, 2, 1, limits).unwrap();
        assert_eq!((tiling.blocks(), tiling.groups), (66, 1));
    }

    #[test]
    fn the_environment_may_give_the_sizes() {
        let forced = |units, rows| {
            let forced = ForcedTiling { units, rows, helpers: None };
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
        assert_eq!(sizes(2), [Some((32, 16, 2)), None]); // a table leaves no room for 32 rows
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
        assert!(Tiling::of(relu, 8, h200()).is_none());
        let small = DeviceLimits::new(20, 227 << 10);
        assert!(tiling(1024, 1, 8, small).is_none());
        assert!(tiling(512, 2, 8, small).is_none());
        let old = DeviceLimits::new(132, 99 << 10);
        assert!(tiling(2048, 1, 128, old).is_none());
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
                let all = Tiling::all(layers, batch, h200());
                assert!(!all.is_empty() || units >= 700 && lanes != directions(1, 0), "{layers:?}");
                all.iter().for_each(|tiling| check(tiling, batch));
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
