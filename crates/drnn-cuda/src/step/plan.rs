//! Shapes and offsets of everything in a batch; no GPU code.
//!
//! ```text
//! T elements of a sequence      A = T outputs (padding after the end), or T - d (look-ahead)
//! S = A + d time steps
//! H of a layer       (S + 2, B, directions * n)     a step of zeros at both ends
//! C of a recurrence  (S + 2, B, n)                  likewise
//! gates              (S, B, gates * n)
//! ```
//!
//! Step s of the forward direction reads the state of step s - 1, the reverse direction that of
//! step s + 1; the steps of zeros are the initial states of both.

use crate::error::Error;
use drnn::params::Layout;
use drnn::{Cell, InputSpec, NetSpec, Padding};

/// The number of selected outputs is rounded up to a multiple of 1/17 of all outputs, because every
/// number needs a graph of its own. Usual shares, tenths and quarters, lie well between
/// seventeenths, so batches drawn with one share are mostly rounded to one number.
const SELECTED_STEPS: usize = 17;

/// Cells that there are kernels for. The others are refused by [`Plan::new`].
pub(crate) const CELLS: [Cell; 4] = [Cell::RnnTanh, Cell::RnnRelu, Cell::Lstm, Cell::Gru];

/// Threads, or columns, that a kernel has for each state of a batch, however narrow the network.
const MIN_WIDTH: usize = 64;

/// Fails if an array of so many values, of a batch of this shape, has more than 32 bits count.
pub(crate) fn check_indices([steps, rows]: [usize; 2], values: usize) -> Result<(), Error> {
    if values <= u32::MAX as usize {
        return Ok(());
    }
    Err(Error::Unsupported(match rows {
        1 => format!("a sequence of {steps} steps is too long for a GPU; split it, or use the CPU"),
        _ => format!(
            "{steps} steps of {rows} sequences are too many for one batch on a GPU; take smaller \
             batches"
        ),
    }))
}

/// The sizes of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// Time steps of the network, S.
    pub steps: usize,
    /// Outputs of the longest sequence, A.
    pub outputs: usize,
    /// Sequences, B.
    pub rows: usize,
    /// If only selected outputs are computed: their number, rounded up.
    pub selected: Option<usize>,
}

impl Shape {
    /// For `rows` sequences of up to `elements` elements, all outputs.
    pub fn new(spec: &NetSpec, elements: usize, rows: usize) -> Shape {
        let outputs = spec.output_steps(elements);
        let steps = if outputs == 0 { 0 } else { outputs + spec.delay() };
        Shape { steps, outputs, rows, selected: None }
    }

    /// The same with only `outputs` selected outputs.
    pub fn with_selected(self, outputs: usize) -> Shape {
        let (all, part) = (self.positions(), self.positions().div_ceil(SELECTED_STEPS).max(1));
        Shape { selected: Some(outputs.max(1).next_multiple_of(part).min(all)), ..self }
    }

    /// Time steps for a sequence of `elements` elements.
    pub fn run(spec: &NetSpec, elements: usize) -> usize {
        Shape::new(spec, elements, 1).steps
    }

    /// Number of (step, row) pairs, S B.
    pub fn step_rows(&self) -> usize {
        self.steps * self.rows
    }

    /// Number of (output, row) pairs, A B.
    pub fn positions(&self) -> usize {
        self.outputs * self.rows
    }

    /// Number of outputs that are computed.
    pub fn computed_outputs(&self) -> usize {
        self.selected.unwrap_or(self.positions())
    }
}

/// What targets are: classes (cross-entropy) or values (squared error).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TargetType {
    Classes,
    Values,
}

/// Offsets of the parts of a staged batch, in 32-bit words. Every part begins at a multiple of
/// four.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Staged {
    /// Time steps of each row, (B).
    pub run: usize,
    /// x (S, B, q) f32, or tokens (S, B).
    pub input: usize,
    /// Tokens only: where each symbol's list begins, (V + 1); the lists of (step, row) pairs, (S
    /// B).
    pub starts: usize,
    pub by_symbol: usize,
    /// With selected outputs: the row of H that each is computed from; see
    /// [`crate::step::selected_outputs`].
    pub selected_rows: usize,
    /// Classes (A, B) or values (A, B, m), or those of the selected outputs.
    pub targets: usize,
    /// Length of the whole batch.
    pub words: usize,
}

/// Length of the header in words: `struct Header` of the kernels.
pub(crate) const HEADER: usize = 8;

impl Staged {
    /// The layout for batches of a shape.
    pub fn new(spec: &NetSpec, shape: Shape, target_type: TargetType) -> Staged {
        let mut end = HEADER;
        let mut add = |words: usize| {
            let start = end;
            end += words.next_multiple_of(4);
            start
        };
        let run = add(shape.rows);
        let (input, starts, by_symbol) = match spec.input() {
            InputSpec::Dense(q) => (add(shape.step_rows() * q), 0, 0),
            InputSpec::Tokens { symbols, .. } => {
                (add(shape.step_rows()), add(symbols + 1), add(shape.step_rows()))
            }
        };
        let m = if target_type == TargetType::Classes { 1 } else { spec.output_width() };
        let selected_rows = add(shape.selected.unwrap_or(0));
        let targets = add(shape.computed_outputs() * m);
        Staged { run, input, starts, by_symbol, selected_rows, targets, words: end }
    }
}

/// One direction of a layer: its sizes, and where its parameters lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recurrence {
    /// 0 forward, 1 reverse.
    pub direction: usize,
    /// Units, n.
    pub n: usize,
    /// Rows of W_ih and W_hh: gates * n.
    pub gates: usize,
    /// Width of its input, q.
    pub inputs: usize,
    /// Width of the layer's H: n times directions.
    pub width: usize,
    /// Offsets of W_ih, W_hh, b_ih and b_hh in the parameter vector.
    pub w_ih: usize,
    pub w_hh: usize,
    pub b_ih: usize,
    pub b_hh: usize,
}

impl Recurrence {
    /// Time steps in the order in which they are computed.
    pub fn order(&self, steps: usize) -> Vec<usize> {
        if self.direction == 0 { (0..steps).collect() } else { (0..steps).rev().collect() }
    }

    /// Indices into H and C of the state before step `s` and of the state after it.
    pub fn around(&self, s: usize) -> (usize, usize) {
        if self.direction == 0 { (s, s + 1) } else { (s + 2, s + 1) }
    }
}

/// A network's layers and where their parameters lie.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub spec: NetSpec,
    pub cell: Cell,
    /// By layer, then direction: forward, reverse.
    pub layers: Vec<Vec<Recurrence>>,
    /// Offsets of the output layer's weight and bias.
    pub output: Option<[usize; 2]>,
}

impl Plan {
    /// The plan of a network; the error says why a GPU cannot run it.
    pub fn new(spec: &NetSpec) -> Result<Plan, String> {
        if spec.blocks().is_some() {
            return Err(format!("networks in blocks run on the CPU only: {spec}"));
        }
        if !CELLS.contains(&spec.cell()) {
            return Err(format!(
                "GRUs whose reset gate stands before the product run on the CPU only: {spec}"
            ));
        }
        if spec.projection().is_some() {
            return Err(format!("LSTMs with a projection run on the CPU only: {spec}"));
        }
        let (layout, cell) = (Layout::new(spec), spec.cell());
        let directions = spec.direction().count();
        let recurrence = |layer: usize, direction: usize| {
            let n = spec.units()[layer];
            let [w_ih, w_hh, b_ih, b_hh] = layout.layer(layer, direction).map(|range| range.start);
            Recurrence {
                direction,
                n,
                gates: cell.gates() * n,
                inputs: spec.layer_input(layer),
                width: n * directions,
                w_ih,
                w_hh,
                b_ih,
                b_hh,
            }
        };
        let layer = |layer| (0..directions).map(|d| recurrence(layer, d)).collect();
        let layers = (0..spec.layers()).map(layer).collect();
        let output = layout.output().map(|ranges| ranges.map(|range| range.start));
        Ok(Plan { spec: spec.clone(), cell, layers, output })
    }

    /// The largest width of any layer's input or output.
    pub fn widest(&self) -> usize {
        let layers = self.layers.iter().map(|layer| layer[0].width.max(layer[0].inputs));
        layers.max().unwrap_or(0)
    }

    /// Fails if an index into a batch does not fit the kernels' 32 bits. Most kernels count the values
    /// of arrays (S, B, width), whose rows may be padded to a multiple of eight; others have a warp
    /// for each of the S B states, or write as many columns as there are symbols, up to
    /// [`MIN_WIDTH`]. Gates, which are wider, have 64-bit indices.
    pub fn check_batch(&self, steps: usize, rows: usize) -> Result<(), Error> {
        let widest = self.widest().max(self.spec.output_width()).next_multiple_of(8);
        let values = steps.saturating_mul(rows).saturating_mul(widest.max(MIN_WIDTH));
        check_indices([steps, rows], values)
    }

    /// The symbol that is read after the end of a sequence, if padding is a symbol.
    pub fn padding(&self) -> Option<u32> {
        match self.spec.padding() {
            Padding::Symbol(id) => Some(id),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn steps_and_outputs_by_padding() {
        let delayed = |padding| {
            let builder = NetSpec::builder(Cell::Lstm).tokens(5, 2).units([3]).outputs(4);
            builder.delay(2, padding).build().unwrap()
        };
        let shape = Shape::new(&delayed(Padding::Null), 6, 4);
        assert_eq!(shape, Shape { steps: 8, outputs: 6, rows: 4, selected: None });
        let spec = delayed(Padding::LookAhead);
        assert_eq!(
            Shape::new(&spec, 6, 4),
            Shape { steps: 6, outputs: 4, rows: 4, selected: None }
        );
        assert_eq!((Shape::run(&spec, 2), Shape::run(&spec, 3)), (0, 3));
        assert_eq!(Shape::run(&delayed(Padding::Null), 0), 0);
    }

    #[test]
    fn parts_of_a_batch_do_not_overlap() {
        let spec = NetSpec::builder(Cell::Gru).tokens(5, 2).units([3]).outputs(4).build().unwrap();
        let shape = Shape::new(&spec, 3, 5);
        let staged = Staged::new(&spec, shape, TargetType::Classes);
        assert_eq!((staged.run, staged.input), (8, 16));
        assert_eq!((staged.starts, staged.by_symbol), (32, 40));
        assert_eq!((staged.targets, staged.words), (56, 72));
        let selected = Staged::new(&spec, shape.with_selected(5), TargetType::Classes);
        assert_eq!((selected.by_symbol, selected.selected_rows), (40, 56));
        assert_eq!((selected.targets, selected.words), (64, 72));
    }

    #[test]
    fn numbers_of_selected_outputs_are_rounded_to_few() {
        let spec = NetSpec::builder(Cell::Lstm).tokens(28, 10).units([3]).outputs(27);
        let spec = spec.build().unwrap();
        let shape = Shape::new(&spec, 180, 128);
        assert_eq!(
            (shape.computed_outputs(), shape.with_selected(4608).computed_outputs()),
            (23040, 5424)
        );
        // A fifth of all, four standard deviations around it.
        assert!(
            (4364..4852).all(|selected| shape.with_selected(selected) == shape.with_selected(4608))
        );
        let computed: Vec<usize> =
            (0..=23040).map(|selected| shape.with_selected(selected).computed_outputs()).collect();
        assert!(
            computed.iter().enumerate().all(|(selected, made)| (selected..=23040).contains(made))
        );
        assert!(computed[0] > 0 && computed.iter().collect::<HashSet<_>>().len() <= SELECTED_STEPS);
        assert_eq!(Shape::new(&spec, 0, 128).with_selected(0).computed_outputs(), 0);
    }

    #[test]
    fn networks_without_kernels_are_refused() {
        let refused = |builder: drnn::NetSpecBuilder| {
            Plan::new(&builder.dense(2).build().unwrap()).unwrap_err()
        };
        let error = refused(NetSpec::builder(Cell::GruResetBefore).units([3]));
        assert!(error.contains("before the product run on the CPU only: gru(3 units"), "{error}");
        let error = refused(NetSpec::builder(Cell::Lstm).units([3]).projection(2));
        assert!(error.contains("with a projection run on the CPU only: lstm(3 units"), "{error}");
        let blocks = NetSpec::builder(Cell::Gru).blocks(drnn::Blocks::new([3]));
        assert!(refused(blocks).contains("networks in blocks run on the CPU only"));
    }

    #[test]
    fn both_directions_start_from_zeros() {
        let spec = NetSpec::builder(Cell::Gru).dense(2).units([3]).bidirectional().build().unwrap();
        let plan = Plan::new(&spec).unwrap();
        let [forward, reverse] = plan.layers[0][..] else { panic!("two directions") };
        assert_eq!((forward.order(3), reverse.order(3)), (vec![0, 1, 2], vec![2, 1, 0]));
        assert_eq!((forward.around(0), reverse.around(2)), ((0, 1), (4, 3)));
        assert_eq!(plan.widest(), 6);
    }
}
