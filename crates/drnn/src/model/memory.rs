//! How much memory a network takes, computed from its spec and the shape of a batch before anything is
//! allocated.
//!
//! ```
//! use drnn::memory::{self, BatchSize};
//! use drnn::{Cell, NetSpec};
//!
//! let spec = NetSpec::builder(Cell::Lstm).dense(1).units([1_000_000]).build()?;
//! assert!(memory::model(&spec) > 16 << 40); // 16 TiB: better not to begin
//! let spec = NetSpec::builder(Cell::Lstm).dense(1).units([100]).build()?;
//! assert!(memory::run(&spec, BatchSize::new(50, 100)) < 10_000_000);
//! # Ok::<(), drnn::Error>(())
//! ```
//!
//! All numbers are bytes, those of the widest instruction set, and stop at `usize::MAX` instead of
//! overflowing. A batch of B sequences counts as if all of them were as long as the longest. What a
//! pass allocates is known here line by line; tests compare the estimates with what is really allocated.

use crate::backward::layer_gradient::features;
use crate::backward::outer::{BLOCK, feature_stride};
use crate::backward::tape::Memory;
use crate::error::{Error, Result};
use crate::exec::recur::Recurrence;
use crate::exec::weights::packed_bytes;
use crate::kernel::pack::PANEL;
use crate::model::batch::{Batch, cell_state_width, state_width};
use crate::model::weight_format::WeightFormat;
use crate::prelude::*;
use crate::spec::params::Layout;
use crate::spec::wiring::columns;
use crate::spec::{InputSpec, NetSpec, Padding};

/// Floats of the widest vector that any kernel has.
pub(crate) const WIDEST: usize = 16;
/// Estimates below this are not worth probing the allocator for.
const PROBED: usize = 1 << 28;

/// A model: its parameters, and a copy of them packed for the kernels.
pub fn model(spec: &NetSpec) -> usize {
    model_as(spec, WeightFormat::F32)
}

/// The same with weights of a certain format: its parameters as f32, and a copy in that format.
pub fn model_as(spec: &NetSpec, format: WeightFormat) -> usize {
    let layout = Layout::new(spec);
    product([spec.parameters(), size_of::<f32>()])
        .saturating_add(packed_bytes(spec, &layout, WIDEST, format, false))
}

/// The state of one live sequence ([`crate::Stream`], or one more in a [`crate::StreamBatch`]).
pub fn stream(spec: &NetSpec) -> usize {
    let of_c = |n: usize| if spec.cell().has_cell_state() { floats([n]) } else { 0 };
    let states = spec.units().iter().enumerate();
    let states = states.flat_map(|(layer, &n)| [floats([spec.hidden(layer)]), of_c(n)]);
    let widest = spec.units().iter().map(|&n| columns(spec.cell(), n)).max().unwrap_or(0);
    let q = spec.input().width();
    let widest_of = |widths: &[usize]| widths.iter().max().copied().unwrap_or(0);
    let projected = match spec.projection() {
        Some(p) => [widest_of(spec.units()), p],
        None => [0, 0],
    };
    let step = [q, q, widest, spec.output_width()].into_iter().chain(projected);
    total(states.chain(step.map(|n| floats([n]))))
}

/// The size of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSize {
    /// Elements of the longest sequence, T.
    pub steps: usize,
    /// Sequences, B.
    pub rows: usize,
    /// Number of [selected outputs](Batch::select_outputs); None for all.
    pub selected: Option<usize>,
}

impl BatchSize {
    /// Of `rows` sequences of up to `steps` elements, all of which are answered.
    pub fn new(steps: usize, rows: usize) -> BatchSize {
        BatchSize { steps, rows, selected: None }
    }
}

/// A run over such a batch, with its outputs but without its input: what [`crate::Model::run`]
/// allocates.
pub fn run(spec: &NetSpec, size: BatchSize) -> usize {
    Pass::new(spec, size).run(false)
}

/// A training pass over such a batch, forward and backward on `threads` threads: what
/// [`crate::Tape::memory`] reports afterwards.
pub fn training(spec: &NetSpec, size: BatchSize, threads: usize) -> Memory {
    let layout = Layout::new(spec);
    let pass = Pass::new(spec, size);
    let (saved, held) = pass.lane(true);
    let fixed = [
        packed_bytes(spec, &layout, WIDEST, WeightFormat::F32, true),
        pass.outer(&layout, threads),
    ];
    Memory { saved, extra: held.saturating_add(pass.back()), fixed: total(fixed) }
}

/// What [`Tape::forward_with_dropout`](crate::Tape::forward_with_dropout) allocates in addition.
pub fn dropout(spec: &NetSpec, size: BatchSize) -> usize {
    Pass::new(spec, size).dropped()
}

/// Whether the system would hand out the memory that a run over this batch takes beyond what is
/// `held`; `save` is whether every state is kept. Refused here, because a failed allocation later
/// on would end the program.
pub(crate) fn probe_run(
    spec: &NetSpec,
    batch: &Batch,
    save: bool,
    held: impl FnOnce() -> usize,
) -> Result<()> {
    let bytes = Pass::of(spec, batch).run(save);
    if bytes < PROBED { Ok(()) } else { probe(bytes.saturating_sub(held())) }
}

/// The same for a training pass of several lanes.
pub(crate) fn probe_training<'a>(
    spec: &NetSpec,
    batches: impl Iterator<Item = &'a Batch<'a>>,
    dropout: bool,
    held: impl FnOnce() -> Memory,
) -> Result<()> {
    let bytes = total(batches.map(|batch| {
        let pass = Pass::of(spec, batch);
        let (saved, rest) = pass.lane(true);
        total([saved, rest, pass.back(), if dropout { pass.dropped() } else { 0 }])
    }));
    if bytes < PROBED {
        return Ok(());
    }
    let Memory { saved, extra, .. } = held();
    probe(bytes.saturating_sub(total([saved, extra])))
}

fn probe(bytes: usize) -> Result<()> {
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| {
        let bytes = crate::error::text::grouped(bytes);
        let why = "more than there is; take fewer or shorter sequences at once";
        Error::TooLarge(format!("this batch needs {bytes} bytes of memory, {why}"))
    })
}

fn product<const N: usize>(factors: [usize; N]) -> usize {
    factors.into_iter().fold(1, usize::saturating_mul)
}

fn total(parts: impl IntoIterator<Item = usize>) -> usize {
    parts.into_iter().fold(0, usize::saturating_add)
}

/// Bytes of a buffer of so many floats, which come in cache lines.
pub(crate) fn floats<const N: usize>(factors: [usize; N]) -> usize {
    product(factors).div_ceil(16).saturating_mul(64)
}

/// Units, width of h and gate columns of one direction of a layer.
#[derive(Clone, Copy)]
struct Widths {
    n: usize,
    hidden: usize,
    columns: usize,
}

/// The sizes of one lane's pass.
struct Pass<'a> {
    spec: &'a NetSpec,
    rows: usize,
    /// Steps that each sequence runs, delay included.
    steps: usize,
    /// Rows of all steps, N.
    packed: usize,
    /// Answers that there are, and those that are made.
    slots: usize,
    outputs: usize,
    /// Elements of the caller's batch.
    elements: usize,
}

impl<'a> Pass<'a> {
    fn new(spec: &'a NetSpec, size: BatchSize) -> Pass<'a> {
        let BatchSize { steps: elements, rows, selected } = size;
        let answered = spec.output_steps(elements);
        let steps = if answered == 0 { 0 } else { answered.saturating_add(spec.delay()) };
        let slots = product([answered, rows]);
        Pass {
            spec,
            rows,
            steps,
            packed: product([steps, rows]),
            slots,
            outputs: selected.unwrap_or(slots),
            elements: product([elements, rows]),
        }
    }

    /// Of this batch, whose sequences may have lengths of their own.
    fn of(spec: &'a NetSpec, batch: &Batch) -> Pass<'a> {
        let selected = batch.selected().map(<[u32]>::len);
        let size = BatchSize { steps: batch.steps(), rows: batch.rows(), selected };
        let steps = |row: usize| match spec.output_steps(batch.length(row)) {
            0 => 0,
            outputs => outputs.saturating_add(spec.delay()),
        };
        let packed = total((0..batch.rows()).map(steps));
        Pass { packed, ..Pass::new(spec, size) }
    }

    /// What a run allocates.
    fn run(&self, save: bool) -> usize {
        let (saved, held) = self.lane(save);
        let states = state_width(self.spec).saturating_add(cell_state_width(self.spec));
        let outputs = product([self.outputs, self.spec.output_width(), size_of::<f32>()]);
        let last = product([states, self.rows, size_of::<f32>()]);
        total([saved, held, outputs, last])
    }

    /// The widths of every recurrence.
    fn layers(&self) -> impl Iterator<Item = Widths> {
        let (spec, directions) = (self.spec, self.spec.direction().count());
        let widths = |layer: usize| {
            let n = spec.units()[layer];
            Widths { n, hidden: spec.hidden(layer), columns: columns(spec.cell(), n) }
        };
        (0..spec.layers()).flat_map(move |layer| core::iter::repeat_n(widths(layer), directions))
    }

    /// Rows of the table of symbols.
    fn symbols(&self) -> Option<usize> {
        let padding = usize::from(matches!(self.spec.padding(), Padding::Symbol(_)));
        match self.spec.input() {
            InputSpec::Tokens { symbols, .. } => {
                // Sequences that are too short to have outputs are not read.
                let read = if self.steps == 0 { 0 } else { self.elements.saturating_add(padding) };
                Some(symbols.min(read).saturating_add(1))
            }
            InputSpec::Dense(_) => None,
        }
    }

    /// As [`crate::exec::pass::LaneWork::bytes`]: what the backward pass needs, and the rest of what is held.
    fn lane(&self, save: bool) -> (usize, usize) {
        let &Pass { spec, rows, packed, .. } = self;
        let with_start = packed.saturating_add(rows);
        let scratch = if save { packed } else { Recurrence::scratch_rows(rows) };
        let cells = match (spec.cell().has_cell_state(), save) {
            (false, _) => 0,
            (true, true) => with_start,
            (true, false) => rows,
        };
        let unprojected = match (spec.projection(), save) {
            (None, _) => 0,
            (Some(_), true) => packed,
            (Some(_), false) => rows,
        };
        let saved = self.layers().map(|Widths { n, hidden, columns }| {
            let states =
                [floats([with_start, hidden]), floats([cells, n]), floats([unprojected, n])];
            total(states).saturating_add(floats([scratch, columns]))
        });
        let widest = self.layers().map(|of| of.columns).max().unwrap_or(0);
        let widest = widest.max(spec.input().width()).max(spec.output_width());
        let rest = [
            floats([self.outputs, spec.output_width()]),
            floats([widest]),
            self.schedule(),
            self.table(),
            product([spec.layers(), size_of::<usize>()]),
        ];
        (total(saved), total(rest))
    }

    /// What every layer passes on, times the factors of dropout.
    fn dropped(&self) -> usize {
        total(self.layers().map(|of| floats([self.packed, of.hidden])))
    }

    /// As `Schedule::bytes`.
    fn schedule(&self) -> usize {
        let directions = self.spec.direction().count();
        let mirror = if directions > 1 { self.packed } else { 0 };
        let rows_of = [product([self.packed, 2, directions]), product([self.slots, directions])];
        let words = total(rows_of).saturating_add(self.rows).saturating_add(mirror);
        // Two vectors grow step by step, and may have grown to twice what they need.
        let sizes = self.rows.saturating_add(self.steps.saturating_mul(4));
        total([product([words, size_of::<u32>()]), product([sizes, size_of::<usize>()])])
    }

    /// As `Table::bytes`.
    fn table(&self) -> usize {
        let Some(symbols) = self.symbols() else { return 0 };
        let InputSpec::Tokens { symbols: all, .. } = self.spec.input() else { return 0 };
        let (directions, columns) = (self.spec.direction().count(), self.first_columns());
        let words = total([product([self.packed, directions]), all, symbols.saturating_mul(2)]);
        let rows = product([floats([symbols, columns]), directions]);
        product([words, size_of::<u32>()]).saturating_add(rows)
    }

    fn first_columns(&self) -> usize {
        columns(self.spec.cell(), self.spec.units()[0])
    }

    /// As `BackWork::bytes`, with the gradient of the input.
    fn back(&self) -> usize {
        let directions = self.spec.direction().count();
        let ends = self.layers().map(|Widths { n, hidden, .. }| {
            let carry = floats([self.rows, n]);
            let (step, unprojected) = match self.spec.projection() {
                None => (self.rows, 0),
                Some(_) => (self.packed, carry),
            };
            total([carry, unprojected, floats([self.rows, hidden]), floats([step, hidden])])
        });
        let input = match self.symbols() {
            Some(symbols) => product([floats([symbols, self.first_columns()]), directions]),
            None => product([self.elements, directions, size_of::<u32>()]),
        };
        total(ends).saturating_add(input)
    }

    /// Memory for the products that make gradients, of all items that threads work on.
    fn outer(&self, layout: &Layout, threads: usize) -> usize {
        let spec = self.spec;
        let directions = spec.direction().count();
        let parts = threads.max(1).div_ceil(directions);
        let embedding = spec.input().width();
        let own = |columns: usize| columns.div_ceil(WIDEST).div_ceil(parts).saturating_mul(WIDEST);
        let layer = |at: usize| {
            let q = if at == 0 && self.symbols().is_some() { 0 } else { spec.layer_input(at) };
            let wiring = layout.wiring(at);
            let all = features(wiring, spec.hidden(at), q);
            let groups = wiring.groups.iter().map(|group| &group.columns);
            let columns = groups.chain(wiring.candidates.iter().map(|c| &c.columns));
            let sums = total(columns.map(|columns| product([all, own(columns.len())])));
            let projection = spec.projection().map_or(0, |p| product([spec.units()[at], own(p)]));
            (sums.saturating_add(projection), all)
        };
        let layers: Vec<(usize, usize)> = (0..spec.layers()).map(layer).collect();
        let sums = layers.iter().map(|(sums, _)| *sums).max().unwrap_or(0);
        let widest = layers.iter().map(|(_, all)| *all).max().unwrap_or(0);
        let widest = widest.max(spec.outputs().unwrap_or(0)).max(embedding);
        let block = floats([BLOCK, feature_stride(widest)]);
        let columns = self.layers().map(|of| own(of.columns)).max().unwrap_or(0);
        let panel = floats([BLOCK.min(self.packed), columns.min(PANEL * WIDEST)]);
        let item = total([block, panel, floats([sums])]);
        // One item also makes the gradient of the embedding.
        let of_table = match self.symbols() {
            Some(symbols) => {
                floats([embedding, self.first_columns().next_multiple_of(WIDEST).max(symbols)])
            }
            None => 0,
        };
        product([item, directions, parts]).saturating_add(of_table)
    }
}
