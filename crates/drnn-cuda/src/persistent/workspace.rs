//! Device memory of persistent recurrences: f16, except for sums.
//!
//! N: a layer's units, padded to a multiple of 32; W = directions N: width of its H; K: width of
//! its input, padded.

use super::single_block;
use super::step_by_step::BIAS_CHUNKS;
use super::tiling::{BLOCK_ROWS, DeviceLimits, Kind, Tiling, max_partials_len, padded};
use crate::error::Result;
use crate::runtime::device::Device;
use crate::runtime::memory::Buffer;
use crate::step::plan::{Plan, Recurrence, Shape};
use drnn::InputSpec;

/// Up to this many symbols, `E W_ih^T` is precomputed as a table and kept in shared memory; with
/// more, tokens are embedded.
pub(super) const MAX_TABLE_SYMBOLS: usize = 64;

/// Beyond this number of units, shared memory is needed for h.
const MAX_TABLE_UNITS: usize = 1024;

/// Partial sums over gate rows in the gradient of the embeddings of a table.
pub(super) const TABLE_PARTIALS: usize = 64;

/// Padded sizes of a layer's matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Padded {
    /// Units of a direction, N.
    pub n: usize,
    /// Width of its H, W.
    pub width: usize,
    /// Width of its input, K; with a table, a column per symbol.
    pub inputs: usize,
    /// Contiguous columns of its input, without and with padding: the units of one direction of the
    /// layer below.
    pub below: usize,
    pub padded_below: usize,
}

impl Padded {
    /// Of all layers.
    pub fn layers(plan: &Plan) -> Vec<Padded> {
        let layer = |at: usize| {
            let (n, directions) = (padded(plan.layers[at][0].n), plan.layers[at].len());
            let (inputs, below, padded_below) = match at {
                0 => {
                    let read = first_width(plan);
                    (read.next_multiple_of(8), read, read.next_multiple_of(8))
                }
                _ => {
                    let below = plan.layers[at - 1][0].n;
                    (directions * padded(below), below, padded(below))
                }
            };
            Padded { n, width: directions * n, inputs, below, padded_below }
        };
        (0..plan.layers.len()).map(layer).collect()
    }
}

/// Whether the first layer looks its input products up in a table.
pub(crate) fn has_table(plan: &Plan) -> bool {
    let InputSpec::Tokens { symbols, .. } = plan.spec.input() else { return false };
    symbols <= MAX_TABLE_SYMBOLS && plan.layers[0][0].n <= MAX_TABLE_UNITS
}

/// Whether 32-bit indices reach every value of the padded weights, as kernels that pack them need.
pub(super) fn weights_have_indices(plan: &Plan) -> bool {
    let layers = Padded::layers(plan);
    let of_layer = |p: &Padded| (4 * p.n).saturating_mul(p.inputs.max(p.n));
    let outputs = plan.spec.output_width().next_multiple_of(8);
    let output = outputs.saturating_mul(layers.last().map_or(0, |p| p.width));
    layers.iter().map(of_layer).max().unwrap_or(0).max(output) <= u32::MAX as usize
}

/// Width of the first layer's input: values, an embedding, or the symbols of a table.
fn first_width(plan: &Plan) -> usize {
    match plan.spec.input() {
        InputSpec::Tokens { symbols, .. } if has_table(plan) => symbols,
        _ => plan.layers[0][0].inputs,
    }
}

/// Whether all layers may run in one launch, each reading h of the one below from the exchange: one
/// direction, the same padded width.
pub(super) fn is_stack(plan: &Plan) -> bool {
    let width = |layer: &[Recurrence]| padded(layer[0].n);
    plan.layers.len() > 1
        && plan.layers.iter().all(|l| l.len() == 1 && width(l) == width(&plan.layers[0]))
}

/// Lanes of a launch, at most.
fn max_lanes(plan: &Plan) -> usize {
    if is_stack(plan) { plan.layers.len() } else { plan.layers[0].len() }
}

/// Length of packed weights of a lane: the same for all tilings.
fn packed_len(plan: &Plan, padded: usize) -> [usize; 2] {
    let (stacked, below) = (is_stack(plan), plan.layers[0].len());
    let sizes = Tiling {
        cell: plan.cell,
        padded,
        units: 32,
        rows: 16,
        helpers: 1,
        prefetch: false,
        groups: 1,
        lanes: 1,
        stacked,
        below,
        kind: Kind::Exchange,
    };
    sizes.packed()
}

/// Rows of the batch per block, at least.
fn fewest_rows(padded: usize) -> usize {
    let rows = if padded <= single_block::MAX_PADDED {
        &single_block::BLOCK_ROWS[..]
    } else {
        &BLOCK_ROWS
    };
    rows.iter().copied().min().unwrap_or(1)
}

/// Every byte of exchange words that have not been written yet: `EMPTY_SENTINEL` of the kernels.
const EMPTY_SENTINEL: u8 = 0xff;

/// Buffers of all layers.
#[derive(Debug)]
pub(crate) struct PersistentWorkspace {
    pub layers: Vec<LayerWorkspace>,
    /// By layer (directions, S, B, N, 4): the slots saved for backward, overwritten by their
    /// gradients.
    pub gates: Buffer<u16>,
    /// By layer (directions, S + 2, B, N): cell states saved for backward.
    pub c: Buffer<u16>,
    /// By layer (S + 2, B, W).
    pub h: Buffer<u16>,
    /// x (S, B, K); with a table, the one-hot symbols.
    pub x: Buffer<u16>,
    /// (directions, symbols, N, 4).
    pub table: Buffer<u16>,
    /// Weights in the order in which threads read them, by launch: forward, backward; and biases.
    pub packed: [Buffer<u16>; 2],
    pub bias: Buffer<f32>,
    /// (m padded to 8, W).
    pub w_out: Buffer<u16>,
    /// (A, B, m padded to 8), or (selected, m padded to 8), before the bias.
    pub outputs: Buffer<f32>,
    /// Their gradient, same shape.
    pub d_outputs: Buffer<u16>,
    /// Gradients of layers' outputs and inputs, used alternately: (S, B, W) each. Before that,
    /// gathered states; see [`crate::step::selected_outputs`].
    pub d_above: [Buffer<u16>; 2],
    /// Tokens without a table: gradient of x, (S, B, E).
    pub d_x: Buffer<f32>,
    /// Tokens with a table: (partial sums, symbols, E).
    pub table_partials: Buffer<f32>,
    /// Mailboxes through which blocks exchange h in the forward pass, by launch. A double buffer: a
    /// pass writes one while the side stream resets the other to [`EMPTY_SENTINEL`]. The lowest bit
    /// of `exchange_parity` says which is which.
    pub h_exchange: [Buffer<u16>; 2],
    pub exchange_parity: Buffer<u32>,
    /// Partial sums of dh that blocks send each other in the backward pass, and how many of them
    /// layers of a stack have read.
    pub dh_partials: Buffer<u16>,
    pub read_counts: Buffer<u32>,
    /// Step by step: products of a step, (B, N, 4), or (B, N) of them; and states of the cell or
    /// their gradients, (B, N).
    pub sums: Buffer<f32>,
    pub state: Buffer<f32>,
    /// Bias gradients by group: (lanes, groups, N, 4).
    pub d_bias: Buffer<f32>,
    /// The gradient of one weight matrix, padded.
    pub d_w: Buffer<f32>,
}

/// Offsets of a layer's parts of the buffers, and its input weights.
#[derive(Debug)]
pub(crate) struct LayerWorkspace {
    pub padded: Padded,
    pub gates: usize,
    pub c: usize,
    pub h: usize,
    /// (directions, N, 4, K); empty with a table.
    pub w_ih: Buffer<u16>,
}

impl PersistentWorkspace {
    /// Buffers for batches of up to `capacity`.
    pub fn new(device: &Device, plan: &Plan, capacity: Shape) -> Result<PersistentWorkspace> {
        let (slots, padded_rows) = (capacity.step_rows(), (capacity.steps + 2) * capacity.rows);
        let (all, table) = (Padded::layers(plan), has_table(plan));
        let halves = |len: usize| Buffer::<u16>::zeros(device, len);
        let floats = |len: usize| Buffer::<f32>::zeros(device, len);
        let max = |of: &dyn Fn(&Padded) -> usize| all.iter().map(of).max().unwrap_or(0);
        let directions = plan.layers[0].len();
        let (mut gates, mut c, mut h) = (0, 0, 0);
        let mut layers = Vec::new();
        for (at, p) in all.iter().enumerate() {
            let w_ih = if at == 0 && table { 0 } else { directions * 4 * p.n * p.inputs };
            layers.push(LayerWorkspace { padded: *p, gates, c, h, w_ih: halves(w_ih)? });
            gates += directions * slots * 4 * p.n;
            c += directions * padded_rows * p.n;
            h += padded_rows * p.width;
        }
        let (symbols, embedding) = match plan.spec.input() {
            InputSpec::Tokens { symbols, embedding } => (symbols, embedding),
            InputSpec::Dense(_) => (0, 0),
        };
        let m = plan.spec.output_width().next_multiple_of(8);
        let last = all.last().map_or(0, |p| p.width);
        let widest = max(&|p| p.width);
        // For any number of rows up to these: the last group of an exchange has up to 64 of padding.
        let rows = capacity.rows + 64;
        let groups = |p: &Padded| capacity.rows.div_ceil(fewest_rows(p.n)).max(BIAS_CHUNKS);
        let (lanes, limits) = (max_lanes(plan), device.limits());
        let partials =
            |p: &Padded| max_partials_len(p.n, lanes, is_stack(plan), capacity.rows, limits);
        let sum = |of: &dyn Fn(&Padded) -> usize| all.iter().map(of).sum::<usize>();
        let packed = |pass: usize| halves(sum(&|p| 8 * directions * packed_len(plan, p.n)[pass]));
        let h_exchange =
            || Buffer::filled(device, sum(&|p| rows * p.width * capacity.steps), EMPTY_SENTINEL);
        Ok(PersistentWorkspace {
            layers,
            gates: halves(gates)?,
            c: halves(c)?,
            h: halves(h)?,
            x: halves(slots * all[0].inputs)?,
            table: halves(if table { directions * symbols * 4 * all[0].n } else { 0 })?,
            packed: [packed(0)?, packed(1)?],
            bias: floats(sum(&|p| directions * 4 * p.n))?,
            w_out: halves(m * last)?,
            outputs: floats(capacity.positions() * m)?,
            d_outputs: halves(capacity.positions() * m)?,
            d_above: [halves(slots * widest)?, halves(slots * widest)?],
            d_x: floats(if table { 0 } else { slots * embedding })?,
            table_partials: floats(if table { TABLE_PARTIALS * symbols * embedding } else { 0 })?,
            h_exchange: [h_exchange()?, h_exchange()?],
            exchange_parity: Buffer::zeros(device, 1)?,
            dh_partials: halves(max(&partials))?,
            read_counts: Buffer::zeros(device, limits.multiprocessors)?,
            sums: floats(capacity.rows * 4 * max(&|p| p.n))?,
            state: floats(capacity.rows * max(&|p| p.n))?,
            d_bias: floats(lanes * max(&|p| groups(p) * 4 * p.n))?,
            d_w: floats(max(&|p| 4 * p.n * p.n.max(p.inputs)).max(m * last))?,
        })
    }

    /// Approximate size in bytes: only buffers with a row per step, or as large as weights.
    pub fn estimate(plan: &Plan, capacity: Shape, limits: DeviceLimits) -> f64 {
        let (all, directions) = (Padded::layers(plan), plan.layers[0].len() as f64);
        let (slots, rows) = (capacity.step_rows() as f64, capacity.rows as f64);
        let padded_rows = (capacity.steps + 2) as f64 * rows;
        let (mut halves, mut widest, mut largest) = (slots * all[0].inputs as f64, 0.0, 0.0);
        let mut parts: f64 = 0.0;
        for p in &all {
            let [n, width, inputs] = [p.n, p.width, p.inputs].map(|n| n as f64);
            // Gates, cell states, h, and both h exchanges.
            halves += directions * (4.0 * slots + padded_rows) * n + padded_rows * width;
            halves += 2.0 * (rows + 64.0) * width * capacity.steps as f64;
            // Input weights, and packed weights for both passes.
            let packed: usize = packed_len(plan, p.n).into_iter().sum();
            halves += directions * (4.0 * n * inputs + 8.0 * packed as f64);
            let partials =
                max_partials_len(p.n, max_lanes(plan), is_stack(plan), capacity.rows, limits);
            parts = parts.max(partials as f64);
            widest = f64::max(widest, width);
            largest = f64::max(largest, 4.0 * n * n.max(inputs));
        }
        let m = plan.spec.output_width().next_multiple_of(8) as f64;
        let embedding = match plan.spec.input() {
            InputSpec::Tokens { embedding, .. } => embedding as f64,
            InputSpec::Dense(_) => 0.0,
        };
        halves += parts + 2.0 * slots * widest + (capacity.outputs as f64) * rows * m;
        let groups = |p: &Padded| capacity.rows.div_ceil(fewest_rows(p.n)).max(BIAS_CHUNKS);
        let of_bias = all.iter().map(|p| max_lanes(plan) * groups(p) * 4 * p.n).max().unwrap_or(0);
        let of_step = rows * 5.0 * all.iter().map(|p| p.n).max().unwrap_or(0) as f64;
        let floats = capacity.outputs as f64 * rows * m
            + slots * embedding
            + largest
            + of_bias as f64
            + of_step;
        2.0 * halves + 4.0 * floats
    }

    pub fn bytes(&self) -> usize {
        let w_ih: usize = self.layers.iter().map(|l| l.w_ih.bytes()).sum();
        let above: usize = self.d_above.iter().map(Buffer::bytes).sum();
        let buffers = [&self.gates, &self.c, &self.h, &self.x, &self.dh_partials];
        let buffers =
            buffers.into_iter().chain(&self.packed).chain(&self.h_exchange).map(Buffer::bytes);
        buffers.sum::<usize>() + w_ih + above + self.d_w.bytes()
    }
}
