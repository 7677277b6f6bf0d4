//! Estimated times of a training step's recurrences, in microseconds per time step, by which
//! tilings and ways are chosen.
//!
//! ```text
//! forward  = LATENCY + SPLIT? + PRODUCT * k-steps * max(1, rows / 32) + LOAD * KB of h
//! backward = LATENCY + SPLIT? + PRODUCT * k-steps * max(1, rows / 32) + EXCHANGE * KB of parts
//! batch    = waves * (forward + backward + LAUNCH)
//! ```
//!
//! k-steps: dependent `wgmma` of a warpgroup; a product of 16 or 24 rows costs as much as one of
//! 32. SPLIT: in blocks of 16 units. KB: what a block reads in a step. Constants are fitted to an
//! H200 with 92 to 128 blocks of 32 units (`results/peers-gpu.json`); that file has no blocks of 16
//! units, and SPLIT is an estimate. Only ratios matter: they decide, and nothing else depends on
//! them.
//!
//! The other [`Kind`]s have not been measured; what is assumed of them decides only where
//! `DRNN_TILING` allows any. Where a block has all units, a step grows with N, and blocks beyond the
//! multiprocessors queue. Step by step it is the product, which reads all weights, and the cells.

use super::tiling::{Kind, Tiling};
use crate::plain::resident;
use crate::step::plan::{Plan, Recurrence};
use std::cmp::Ordering;
use std::ops::Range;

/// What a step costs without any product or data: round trips through L2, cells, barriers.
const FORWARD_LATENCY: f64 = 0.74;
const BACKWARD_LATENCY: f64 = 0.9;
/// Exchange of sums between the warpgroups of a block of 16 units, forward; backward, between the
/// threads that share cells.
const SPLIT_LATENCY: [f64; 2] = [0.15, 0.05];
/// One k-step of both warpgroups, which share the tensor cores: 16 cycles each.
const PRODUCT: f64 = 0.0183;
/// A KB of h, and a KB of partial sums, which are written as well as read.
const LOAD: f64 = 0.0235;
const EXCHANGE: f64 = 0.07;
/// Launches of a wave, spread over a hundred steps.
const LAUNCH: f64 = 0.15;
/// Multiply-adds of a GEMM over all steps, per microsecond.
const GEMM: f64 = 2e8;
/// An LSTM in registers ([`resident`]), forward and backward, and what each unit adds; one direction
/// of a layer at a time.
const RESIDENT: f64 = 2.0;
const RESIDENT_UNIT: f64 = 0.043;
/// Kernels of a step without persistent ones, forward and backward, and bytes of weights (f32) that
/// their products read per microsecond.
const STEP_BY_STEP: f64 = 13.5;
const WEIGHT_BYTES: f64 = 2e6;

/// Assumed: a product and an elementwise kernel of a step in a graph; values of W_hh (f16) that a product
/// reads, multiply-adds of it, and cells of which sums and slots are read and written, per
/// microsecond.
const STEP: f64 = 4.0;
const STEP_WEIGHTS: f64 = 1.5e6;
const STEP_PRODUCT: f64 = 2.2e8;
const STEP_CELLS: f64 = 5e4;

/// Assumed: a step of a block that has all units, forward and backward: what it costs in any case, and what
/// each unit adds, with 8 rows of the batch; with 4 rows it takes a share of that.
const SINGLE_BLOCK: [f64; 2] = [0.12, 0.14];
const SINGLE_BLOCK_UNIT: [f64; 2] = [0.0028, 0.0033];
const FOUR_ROWS: f64 = 0.8;
/// Of an H200.
const MULTIPROCESSORS: f64 = 132.0;

impl Tiling {
    /// Forward and backward times of one step of a launch.
    pub fn step_times(&self) -> [f64; 2] {
        if self.kind == Kind::StepByStep {
            let (batch, units) = (self.rows as f64, self.padded as f64);
            let weights = 4.0 * units * units;
            let product = (weights / STEP_WEIGHTS).max(batch * weights / STEP_PRODUCT);
            let time = STEP + product + batch * units / STEP_CELLS;
            return [self.lanes as f64 * time; 2];
        }
        if self.kind == Kind::SingleBlock {
            let queue = ((self.lanes * self.groups) as f64 / MULTIPROCESSORS).max(1.0);
            let share = if self.rows == 4 { FOUR_ROWS } else { 1.0 };
            let time = |pass| SINGLE_BLOCK[pass] + SINGLE_BLOCK_UNIT[pass] * self.padded as f64;
            return [0, 1].map(|pass| queue * share * time(pass));
        }
        let wide = (self.rows as f64 / 32.0).max(1.0);
        let kilobytes = (self.padded * self.rows) as f64 / 512.0;
        let split = if self.is_split() { SPLIT_LATENCY } else { [0.0; 2] };
        // In a stack both operands arrive while the step runs; otherwise the layer below is
        // finished.
        let arriving = if self.stacked { 2.0 } else { 1.0 };
        let tiles = self.segments_back() * self.tiles();
        let forward =
            FORWARD_LATENCY + PRODUCT * wide * self.depth() as f64 + LOAD * arriving * kilobytes;
        let backward = BACKWARD_LATENCY
            + PRODUCT * wide * (tiles * self.units / 4) as f64
            + EXCHANGE * self.segments_back() as f64 * kilobytes;
        [forward + split[0], backward + split[1]]
    }

    /// Time per step of a batch, all waves.
    pub fn batch_time(&self, batch: usize) -> f64 {
        let each = LAUNCH + self.step_times().iter().sum::<f64>();
        self.waves(batch).count() as f64 * each
    }
}

/// Compares tilings by their times for a batch.
pub(super) fn by_time(batch: usize) -> impl Fn(&Tiling, &Tiling) -> Ordering {
    move |a, b| a.batch_time(batch).total_cmp(&b.batch_time(batch))
}

/// Time per step of a network's launches, with the GEMMs between its layers.
pub(super) fn persistent_time(
    plan: &Plan,
    launches: &[(Range<usize>, Tiling)],
    batch: usize,
) -> f64 {
    let launch = |(layers, tiling): &(Range<usize>, Tiling)| {
        let below = if layers.start > 0 { 1 } else { 0 };
        // x W_ih^T unless the recurrence computes it, and always its gradient.
        let products = below * (2 - tiling.below.min(1));
        let lower = plan.layers[layers.start].iter().map(|r| r.inputs).sum::<usize>();
        let products = (products * batch * 4 * tiling.padded * lower) as f64;
        tiling.batch_time(batch) + products / GEMM
    };
    launches.iter().map(launch).sum()
}

/// Time per step of the same network without persistent kernels, whatever the batch.
pub(super) fn plain_time(plan: &Plan) -> f64 {
    let each = |r: &Recurrence| match resident::groups(plan.cell, r.n) {
        Some(_) => RESIDENT + RESIDENT_UNIT * r.n as f64,
        None => {
            let weights = (2 * 4 * plan.cell.gates() * r.n * r.n) as f64;
            STEP_BY_STEP + weights / WEIGHT_BYTES
        }
    };
    plan.layers.iter().flatten().map(each).sum()
}

#[cfg(test)]
mod tests {
    use super::super::tiling::{DeviceLimits, Lanes, LayerShape};
    use super::super::{USUAL_ROWS, tilings};
    use super::*;
    use drnn::{Cell, NetSpec};

    fn h200() -> DeviceLimits {
        DeviceLimits::new(132, 227 << 10)
    }

    fn network(cell: Cell, units: &[usize], bidirectional: bool) -> Plan {
        let builder = NetSpec::builder(cell).dense(64).units(units.to_vec()).outputs(2);
        let builder = if bidirectional { builder.bidirectional() } else { builder };
        Plan::new(&builder.build().unwrap()).unwrap()
    }

    /// Microseconds per step of the forward pass and of the whole backward recurrence, of the
    /// paper's networks with 128 sequences: `bench/README.md`, divided by the steps, without
    /// products over all steps. Layers' averages where a network has several launches.
    #[test]
    fn estimates_are_close_to_measured_times() {
        let measured = [
            (vec![1024], false, [3.5, 6.0]),
            (vec![512], false, [1.7, 2.8]),
            (vec![594; 2], false, [2.6, 3.4]),
            (vec![343; 5], false, [4.0, 8.7]),
            (vec![722], true, [4.55, 9.2]),
            (vec![363; 2], true, [2.3, 2.9]),
            (vec![202; 5], true, [1.37, 1.5]),
        ];
        for (units, bidirectional, measured) in measured {
            let plan = network(Cell::Lstm, &units, bidirectional);
            let launches = tilings(&plan, 128, h200()).unwrap();
            let count = launches.len() as f64;
            for (pass, measured) in measured.into_iter().enumerate() {
                let sum: f64 = launches.iter().map(|(_, t)| t.step_times()[pass]).sum();
                let ratio = sum / count / measured;
                let what =
                    format!("{units:?} pass {pass}: {} us, measured {measured}", sum / count);
                eprintln!("{what}");
                assert!((0.75..1.3).contains(&ratio), "{what}");
            }
        }
    }

    /// A training step of 200 time steps, measured on one H200: of kernels step by step 11.8 ms for
    /// 1536 units and 128 sequences, 13.7 ms for 2048 units and 64; in registers 1.65 ms for 128 units
    /// and 1.00 ms for 64 units and 16 sequences. `results/` has no file of it; the example `times`
    /// (`lstm:1x1536:128x200`) measures these shapes, which run in persistent kernels since.
    #[test]
    fn the_plain_way_is_estimated_too() {
        for (units, measured) in [(1536, 59.0), (2048, 68.5), (128, 8.2), (64, 5.0)] {
            let ratio = plain_time(&network(Cell::Lstm, &[units], false)) / measured;
            assert!((0.75..1.3).contains(&ratio), "{units}: {ratio}");
        }
    }

    #[test]
    fn networks_take_the_way_that_should_be_faster() {
        let persistent = |cell, units: &[usize], bidirectional| {
            let plan = network(cell, units, bidirectional);
            let launches = tilings(&plan, USUAL_ROWS, h200());
            let launches = launches.filter(|launches| {
                persistent_time(&plan, launches, USUAL_ROWS) < plain_time(&plan)
            });
            launches.map(|launches| launches.len())
        };
        assert_eq!(persistent(Cell::Lstm, &[128], false), Some(1));
        assert_eq!(persistent(Cell::Lstm, &[64], false), Some(1));
        assert_eq!(persistent(Cell::Lstm, &[102; 5], true), Some(5));
        assert_eq!(persistent(Cell::Lstm, &[100], true), Some(1));
        assert_eq!(persistent(Cell::Lstm, &[64; 3], false), Some(1));
        assert_eq!(persistent(Cell::Gru, &[20], false), Some(1));
        assert_eq!(persistent(Cell::RnnTanh, &[128], false), Some(1));
        assert_eq!(persistent(Cell::Lstm, &[1536], false), Some(1));
        assert_eq!(persistent(Cell::Lstm, &[2048], false), Some(1));
        assert_eq!(persistent(Cell::Lstm, &[2049], false), None);
        assert_eq!(persistent(Cell::RnnRelu, &[20], false), None);
    }

    /// More rows in a block cost less than more waves; more blocks cost less than idle
    /// multiprocessors.
    #[test]
    fn batches_decide_between_waves_rows_and_units() {
        let sizes = |units, batch| {
            let lanes = Lanes::Directions { count: 1, below: 0 };
            let layers = LayerShape { cell: Cell::Lstm, units, lanes, table: false };
            let tiling = Tiling::of(layers, batch, h200()).unwrap();
            [tiling.units, tiling.rows, tiling.waves(batch).count()]
        };
        assert_eq!(sizes(1024, 16), [16, 16, 1]);
        assert_eq!(sizes(1024, 32), [16, 16, 1]);
        assert_eq!(sizes(1024, 64), [32, 16, 1]);
        assert_eq!(sizes(1024, 128), [32, 32, 1]);
        assert_eq!(sizes(1024, 256), [32, 32, 2]);
        assert_eq!(sizes(1024, 512), [32, 32, 4]);
        assert_eq!(sizes(512, 16), [16, 16, 1]);
        assert_eq!(sizes(512, 64), [16, 16, 1]);
        assert_eq!(sizes(512, 128), [32, 16, 1]);
        assert_eq!(sizes(512, 256), [32, 32, 1]);
        assert_eq!(sizes(2048, 64), [16, 32, 2]);
    }
}
