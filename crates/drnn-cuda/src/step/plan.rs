//! Where everything of a batch lies: shapes and offsets, nothing of the GPU.
//!
//! ```text
//! S = A + d steps for A answers                    T elements, A = T (padding behind) or T - d (looking ahead)
//! H of a layer     (S + 2, B, directions * n)      a step of zeros before the first and behind the last
//! C of a recurrence (S + 2, B, n)
//! gates            (S, B, gates * n)
//! ```
//!
//! What the forward direction's step s reads is step s - 1, the reverse direction's s + 1: the zeros are both's start.

use crate::error::Error;
use drnn::params::Layout;
use drnn::{Cell, InputSpec, NetSpec, Padding};

/// What is asked for is rounded up to so many parts of all: each number that comes up has a graph of its own. Shares that people
/// choose, tenths and quarters, lie well between seventeenths, so that batches with one share mostly have one number.
const PARTS: usize = 17;

/// One batch's sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// Steps that the network takes, S.
    pub steps: usize,
    /// Answers of the longest sequence, A.
    pub outputs: usize,
    /// Sequences, B.
    pub rows: usize,
    /// Answers that are made where only some are asked for: as many, or a few more.
    pub selected: Option<usize>,
}

impl Shape {
    pub fn new(spec: &NetSpec, elements: usize, rows: usize) -> Shape {
        let outputs = spec.answers_to(elements);
        let steps = if outputs == 0 { 0 } else { outputs + spec.delay() };
        Shape { steps, outputs, rows, selected: None }
    }

    /// The same where only so many answers are asked for.
    pub fn with_selected(self, outputs: usize) -> Shape {
        let (all, part) = (self.positions(), self.positions().div_ceil(PARTS).max(1));
        Shape { selected: Some(outputs.max(1).next_multiple_of(part).min(all)), ..self }
    }

    /// Steps that a sequence of `elements` takes.
    pub fn run(spec: &NetSpec, elements: usize) -> usize {
        Shape::new(spec, elements, 1).steps
    }

    /// (step, row) pairs.
    pub fn slots(&self) -> usize {
        self.steps * self.rows
    }

    /// (answer, row) pairs.
    pub fn positions(&self) -> usize {
        self.outputs * self.rows
    }

    /// Answers that are made.
    pub fn computed_outputs(&self) -> usize {
        self.selected.unwrap_or(self.positions())
    }
}

/// The kind of targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TargetType {
    Classes,
    Values,
}

/// Words of a staged batch: its parts lie one after another, each at a multiple of four words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Staged {
    /// Steps that each row takes, B.
    pub run: usize,
    /// x (S, B, q), or tokens (S, B).
    pub input: usize,
    /// Tokens only: where each symbol's slots begin, V + 1; then the slots by symbol, S * B.
    pub starts: usize,
    pub by_symbol: usize,
    /// Where only some answers are asked for: the rows of H that those are made of, see [`crate::step::selected_outputs`].
    pub selected_rows: usize,
    /// Classes (A, B), or values (A, B, m); of answers asked for as many.
    pub targets: usize,
    /// All words.
    pub words: usize,
}

/// Words of the header, `struct Header` of the kernels.
pub(crate) const HEADER: usize = 8;

impl Staged {
    pub fn new(spec: &NetSpec, shape: Shape, target_type: TargetType) -> Staged {
        let mut end = HEADER;
        let mut add = |words: usize| {
            let start = end;
            end += words.next_multiple_of(4);
            start
        };
        let run = add(shape.rows);
        let (input, starts, by_symbol) = match spec.input() {
            InputSpec::Dense(q) => (add(shape.slots() * q), 0, 0),
            InputSpec::Tokens { symbols, .. } => {
                (add(shape.slots()), add(symbols + 1), add(shape.slots()))
            }
        };
        let m = if target_type == TargetType::Classes { 1 } else { spec.answer_width() };
        let selected_rows = add(shape.selected.unwrap_or(0));
        let targets = add(shape.computed_outputs() * m);
        Staged { run, input, starts, by_symbol, selected_rows, targets, words: end }
    }
}

/// A direction of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recurrence {
    /// 0 or 1.
    pub direction: usize,
    /// Units, n.
    pub n: usize,
    /// Rows of W_ih and W_hh: gates * n.
    pub gates: usize,
    /// Width of what it reads, q.
    pub inputs: usize,
    /// Width of the layer's H: n times directions.
    pub width: usize,
    /// Where W_ih, W_hh, b_ih and b_hh begin in the flat vector.
    pub w_ih: usize,
    pub w_hh: usize,
    pub b_ih: usize,
    pub b_hh: usize,
}

impl Recurrence {
    /// Steps in the order in which it takes them.
    pub fn order(&self, steps: usize) -> Vec<usize> {
        if self.direction == 0 { (0..steps).collect() } else { (0..steps).rev().collect() }
    }

    /// Of H and C, the step that holds the state before step `s`, and the one after it.
    pub fn around(&self, s: usize) -> (usize, usize) {
        if self.direction == 0 { (s, s + 1) } else { (s + 2, s + 1) }
    }
}

/// A network's parts.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub spec: NetSpec,
    pub cell: Cell,
    /// Layer by layer, forward before reverse.
    pub layers: Vec<Vec<Recurrence>>,
    /// Where the output layer's weight and bias begin.
    pub output: Option<[usize; 2]>,
}

impl Plan {
    /// Why there is none, where there is none.
    pub fn new(spec: &NetSpec) -> Result<Plan, String> {
        if spec.blocks().is_some() {
            return Err(format!("networks in blocks run on the CPU only: {spec}"));
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

    /// The widest thing that gradients are handed down through.
    pub fn widest(&self) -> usize {
        let layers = self.layers.iter().map(|layer| layer[0].width.max(layer[0].inputs));
        layers.max().unwrap_or(0)
    }

    /// Whether a batch can be counted in 32 bits, as kernels do.
    pub fn check_batch(&self, steps: usize, rows: usize) -> Result<(), Error> {
        let most = self.spec.units().iter().max().copied().unwrap_or(0);
        let widest = (self.cell.gates() * most).max(self.spec.answer_width()).max(self.widest());
        match steps.saturating_mul(rows).saturating_mul(widest) > u32::MAX as usize {
            true => Err(Error::Unsupported(format!(
                "{steps} steps of {rows} sequences are too many for one batch on a GPU; take \
                 smaller batches"
            ))),
            false => Ok(()),
        }
    }

    /// Symbol that is read after the end, where there is one.
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
    fn steps_and_answers_by_padding() {
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
        let asking = Staged::new(&spec, shape.with_selected(5), TargetType::Classes);
        assert_eq!((asking.by_symbol, asking.selected_rows), (40, 56));
        assert_eq!((asking.targets, asking.words), (64, 72));
    }

    #[test]
    fn what_is_asked_for_has_few_numbers() {
        let spec = NetSpec::builder(Cell::Lstm).tokens(28, 10).units([3]).outputs(27);
        let spec = spec.build().unwrap();
        let shape = Shape::new(&spec, 180, 128);
        assert_eq!(
            (shape.computed_outputs(), shape.with_selected(4608).computed_outputs()),
            (23040, 5424)
        );
        // A fifth of all, four standard deviations around it.
        assert!((4364..4852).all(|asked| shape.with_selected(asked) == shape.with_selected(4608)));
        let made: Vec<usize> =
            (0..=23040).map(|asked| shape.with_selected(asked).computed_outputs()).collect();
        assert!(made.iter().enumerate().all(|(asked, made)| (asked..=23040).contains(made)));
        assert!(made[0] > 0 && made.iter().collect::<HashSet<_>>().len() <= PARTS);
        assert_eq!(Shape::new(&spec, 0, 128).with_selected(0).computed_outputs(), 0);
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
