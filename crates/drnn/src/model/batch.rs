//! A batch of sequences, as the caller has them: time-major, any lengths, any order.

use crate::error::{Error, Result, Shape, check_finite, check_shape};
use crate::exec::recur::HOIST;
use crate::prelude::*;
use crate::spec::wiring::columns;
use crate::spec::{InputSpec, NetSpec};
use core::ops::Range;

/// The elements of a batch.
#[derive(Debug, Clone, Copy)]
pub enum Elements<'a> {
    /// x (T, B, q), row after row.
    Dense(&'a [f32]),
    /// tokens (T, B)
    Tokens(&'a [u32]),
}

/// B sequences of up to T elements, time-major: element t of sequence b is number `t * B + b`. What
/// follows a sequence's length is not read.
///
/// ```
/// use drnn::{Batch, BatchFirst, Rows, Steps};
///
/// let time_major = [1, 4, 2, 5, 3, 6]; // tokens (T 3, B 2)
/// let batch = Batch::tokens(&time_major, Steps(3), Rows(2)).lengths(&[3, 2]);
/// assert_eq!((batch.steps(), batch.rows()), (3, 2));
///
/// let sequences = BatchFirst::tokens(&[1, 2, 3, 4, 5, 6], Rows(2), Steps(3))?; // (B 2, T 3)
/// let batch = sequences.batch().lengths(&[3, 2]);
/// assert!(matches!(batch.elements(), drnn::Elements::Tokens(tokens) if tokens == time_major));
/// # Ok::<(), drnn::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    elements: Elements<'a>,
    steps: usize,
    rows: usize,
    lengths: Option<&'a [usize]>,
    selected: Option<&'a [u32]>,
}

/// A number of steps, T: how many elements the sequences of an array have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Steps(pub usize);

/// A number of rows, B: how many sequences an array has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rows(pub usize);

impl<'a> Batch<'a> {
    /// Vectors x (T, B, q); q is the network's. For x (B, T, q) see [`BatchFirst`].
    pub fn dense(x: &'a [f32], steps: Steps, rows: Rows) -> Batch<'a> {
        Batch::of(Elements::Dense(x), steps, rows)
    }

    /// Tokens (T, B). For tokens (B, T) see [`BatchFirst`].
    pub fn tokens(tokens: &'a [u32], steps: Steps, rows: Rows) -> Batch<'a> {
        Batch::of(Elements::Tokens(tokens), steps, rows)
    }

    fn of(elements: Elements<'a>, Steps(steps): Steps, Rows(rows): Rows) -> Batch<'a> {
        Batch { elements, steps, rows, lengths: None, selected: None }
    }

    /// Elements per sequence, each from 0 to `steps`, in any order. Without it all have `steps`.
    pub fn lengths(mut self, lengths: &'a [usize]) -> Batch<'a> {
        self.lengths = Some(lengths);
        self
    }

    /// Only these outputs go through the output layer. Each slot is `step * rows + row`, the
    /// position of an output among all; slots increase strictly, and every one lies before its
    /// sequence's end.
    ///
    /// Outputs and their gradients are then (slots, m), in this order, instead of (output steps, B,
    /// m), with the same bits as among all. All other results of a pass are those of a batch without
    /// a selection whose other outputs have zero gradients. An empty list is allowed, for where only
    /// the last states are needed.
    ///
    /// ```
    /// use drnn::{Batch, Cell, Model, NetSpec, Rows, Steps};
    ///
    /// let spec = NetSpec::builder(Cell::Gru).dense(1).units([8]).outputs(3).build()?;
    /// let model = Model::init(&spec, 1)?;
    /// let x = [0.1, 0.9, 0.2, 0.8, 0.3, 0.7]; // (T 3, B 2, q 1)
    /// let batch = Batch::dense(&x, Steps(3), Rows(2)).lengths(&[3, 2]);
    /// let all = model.run(&batch, None)?;
    /// let ends = model.run(&batch.select_outputs(&[3, 4]), None)?; // step 1 of row 1, step 2 of row 0
    /// assert_eq!(ends.values, [all.at(1, 1), all.at(2, 0)].concat());
    /// # Ok::<(), drnn::Error>(())
    /// ```
    pub fn select_outputs(mut self, slots: &'a [u32]) -> Batch<'a> {
        self.selected = Some(slots);
        self
    }

    /// The elements.
    pub fn elements(&self) -> Elements<'a> {
        self.elements
    }

    /// Steps of the array, T.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Sequences, B.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Elements of sequence `row`.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn length(&self, row: usize) -> usize {
        self.lengths.map_or(self.steps, |l| l[row])
    }

    /// The slots of the selected outputs; None for all.
    pub fn selected(&self) -> Option<&'a [u32]> {
        self.selected
    }

    /// Shape of the outputs: (output steps, B, m), or (selected slots, 1, m).
    pub fn output_shape(&self, spec: &NetSpec) -> [usize; 3] {
        let m = spec.output_width();
        match self.selected {
            Some(slots) => [slots.len(), 1, m],
            None => [spec.output_steps(self.steps), self.rows, m],
        }
    }

    /// Fails with whatever is wrong with the batch for a network of `spec`: shapes, lengths, tokens,
    /// numbers that are not finite, selected outputs that do not exist.
    pub fn check(&self, spec: &NetSpec) -> Result<()> {
        let (steps, rows) = (self.steps, self.rows);
        if let Some(lengths) = self.lengths {
            check_shape("lengths", lengths.len(), &[rows])?;
            if let Some(row) = lengths.iter().position(|&l| l > steps) {
                return Err(Error::Length { row, length: lengths[row], steps });
            }
        }
        match (self.elements, spec.input()) {
            (Elements::Dense(x), InputSpec::Dense(q)) => {
                check_shape("x", x.len(), &[steps, rows, q])?;
                self.check_dense(x, q)?;
            }
            (Elements::Tokens(tokens), InputSpec::Tokens { symbols, .. }) => {
                check_shape("tokens", tokens.len(), &[steps, rows])?;
                self.check_tokens(tokens, symbols)?;
            }
            (Elements::Dense(_), InputSpec::Tokens { symbols, .. }) => {
                let expected = format!("tokens below {symbols}");
                return Err(Error::InputKind { found: "vectors", expected });
            }
            (Elements::Tokens(_), InputSpec::Dense(q)) => {
                let expected = format!("vectors of {q} values");
                return Err(Error::InputKind { found: "tokens", expected });
            }
        }
        check_size(spec, steps, rows)?;
        self.check_selected(spec)
    }

    fn check_dense(&self, x: &[f32], q: usize) -> Result<()> {
        // All of it at once is much faster, and seldom does anything after the ends matter.
        let all = check_finite("x", x);
        if all.is_ok() || self.lengths.is_none() {
            return all;
        }
        for (slot, element) in x.chunks_exact(q).enumerate() {
            let (step, row) = (slot / self.rows, slot % self.rows);
            if step < self.length(row) && !element.iter().all(|v| v.is_finite()) {
                let at = element.iter().position(|v| !v.is_finite()).unwrap_or(0);
                let position = slot * q + at;
                return Err(Error::NotFinite { name: "x".into(), value: x[position], position });
            }
        }
        Ok(())
    }

    fn check_tokens(&self, tokens: &[u32], symbols: usize) -> Result<()> {
        for (slot, &token) in tokens.iter().enumerate() {
            let (step, row) = (slot / self.rows, slot % self.rows);
            if token as usize >= symbols && step < self.length(row) {
                return Err(Error::Token { token, step, row, symbols });
            }
        }
        Ok(())
    }

    fn check_selected(&self, spec: &NetSpec) -> Result<()> {
        let mut next = 0;
        for (position, &slot) in self.selected.unwrap_or_default().iter().enumerate() {
            let wrong = |reason: String| Err(Error::Selection { slot, position, reason });
            if self.rows == 0 {
                return wrong("there are no sequences".into());
            }
            let (step, row) = (slot as usize / self.rows, slot as usize % self.rows);
            let outputs = spec.output_steps(self.length(row));
            if step >= outputs {
                return wrong(format!(
                    "no step {step} among the {outputs} outputs of sequence {row}"
                ));
            }
            if slot < next {
                return wrong(format!("comes after {}; slots must increase", next - 1));
            }
            next = slot + 1;
        }
        Ok(())
    }
}

/// Sequences that lie one after another, (B, T, q) or (B, T), copied into the time-major order of
/// a [`Batch`].
#[derive(Debug, Clone)]
pub struct BatchFirst {
    elements: Owned,
    steps: Steps,
    rows: Rows,
}

#[derive(Debug, Clone)]
enum Owned {
    Dense(Vec<f32>),
    Tokens(Vec<u32>),
}

impl BatchFirst {
    /// Vectors x (B, T, q); q follows from the number of values.
    pub fn dense(x: &[f32], rows: Rows, steps: Steps) -> Result<BatchFirst> {
        let elements = steps.0.checked_mul(rows.0).filter(|n| *n > 0);
        let q = elements.map_or(1, |n| x.len() / n);
        check_shape("x", x.len(), &[rows.0, steps.0, q])?;
        let elements = Owned::Dense(swap_axes(x, rows.0, steps.0, q));
        Ok(BatchFirst { elements, steps, rows })
    }

    /// Tokens (B, T).
    pub fn tokens(tokens: &[u32], rows: Rows, steps: Steps) -> Result<BatchFirst> {
        check_shape("tokens", tokens.len(), &[rows.0, steps.0])?;
        let elements = Owned::Tokens(swap_axes(tokens, rows.0, steps.0, 1));
        Ok(BatchFirst { elements, steps, rows })
    }

    /// The batch that these are.
    pub fn batch(&self) -> Batch<'_> {
        match &self.elements {
            Owned::Dense(x) => Batch::dense(x, self.steps, self.rows),
            Owned::Tokens(tokens) => Batch::tokens(tokens, self.steps, self.rows),
        }
    }
}

/// An array (a, b, width) as (b, a, width).
pub(crate) fn swap_axes<T: Copy>(values: &[T], a: usize, b: usize, width: usize) -> Vec<T> {
    let mut swapped = Vec::with_capacity(values.len());
    for j in 0..b {
        for i in 0..a {
            swapped.extend_from_slice(&values[(i * b + j) * width..][..width]);
        }
    }
    swapped
}

/// Whether every array of a pass can be addressed: rows by 32-bit numbers, bytes by the machine.
fn check_size(spec: &NetSpec, steps: usize, rows: usize) -> Result<()> {
    let widest = spec.units().iter().map(|&n| columns(spec.cell(), n)).max().unwrap_or(0);
    let widest = widest.max(state_width(spec)).max(cell_state_width(spec));
    let widest = widest.max(spec.input().width()).max(spec.output_width());
    let fits = || {
        // Start states lie before the first step, hence one more than there are.
        let slots = steps.checked_add(spec.delay())?.checked_add(1)?.checked_mul(rows)?;
        let bytes = slots.checked_add(HOIST)?.checked_mul(widest)?.checked_mul(size_of::<f32>())?;
        Some(slots < u32::MAX as usize && bytes <= isize::MAX as usize)
    };
    if fits() == Some(true) {
        return Ok(());
    }
    Err(Error::TooLarge(format!(
        "{steps} steps and a delay of {}, by {rows} sequences, by {widest} values",
        spec.delay()
    )))
}

/// States of a batch: h, and for the LSTM c, of every layer and direction.
///
/// ```text
/// h (layers * directions, B, n)     layer after layer, forward before reverse, as PyTorch's h_n
/// ```
///
/// Where layers differ in width each has its own n. Where h is projected it has the projection's width, and
/// c still n. A flattened stack has its stack's states, block by
/// block ([`NetSpec::state_widths`]).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct States {
    /// Hidden states.
    pub h: Vec<f32>,
    /// Cell states; empty for cells that have none.
    pub c: Vec<f32>,
}

impl States {
    /// Zeros for `rows` sequences.
    ///
    /// # Panics
    /// If there is no memory for that many.
    pub fn zeros(spec: &NetSpec, rows: usize) -> States {
        let (h, c) = (state_width(spec) * rows, cell_state_width(spec) * rows);
        States { h: vec![0.0; h], c: vec![0.0; c] }
    }

    /// The lengths that `rows` sequences need, in the memory that is there; whatever the values.
    pub(crate) fn resize(&mut self, spec: &NetSpec, rows: usize) {
        self.h.resize(state_width(spec) * rows, 0.0);
        self.c.resize(cell_state_width(spec) * rows, 0.0);
    }

    /// Fails unless these have the shapes for `rows` sequences, a number that was checked, and every
    /// value is finite; `what` names them in the error.
    pub fn check(&self, what: &str, spec: &NetSpec, rows: usize) -> Result<()> {
        self.check_shape(what, spec, rows)?;
        check_finite(&format!("{what}.h"), &self.h)?;
        check_finite(&format!("{what}.c"), &self.c)
    }

    pub(crate) fn check_shape(&self, what: &str, spec: &NetSpec, rows: usize) -> Result<()> {
        let check = |name: &str, values: &[f32], width: usize, widths: &[usize]| {
            let len = width * rows;
            if values.len() != len {
                return Err(Error::Shape {
                    name: format!("{what}.{name}"),
                    found: Shape::Len(values.len()),
                    expected: match widths {
                        [n, rest @ ..] if len > 0 && rest.iter().all(|m| m == n) => {
                            Shape::Dims(vec![width / n, rows, *n])
                        }
                        _ => Shape::Len(len),
                    },
                });
            }
            Ok(())
        };
        check("h", &self.h, state_width(spec), spec.state_widths())?;
        check("c", &self.c, cell_state_width(spec), spec.cell_state_widths())
    }
}

/// Floats of h per sequence, all layers and directions.
pub(crate) fn state_width(spec: &NetSpec) -> usize {
    spec.state_widths().iter().sum::<usize>() * spec.direction().count()
}

/// Floats of c; none for cells without it.
pub(crate) fn cell_state_width(spec: &NetSpec) -> usize {
    spec.cell_state_widths().iter().sum::<usize>() * spec.direction().count()
}

/// The parts of h of [`States`] for `rows` sequences that are the state of (layer, direction): where each
/// begins, and which units it holds. One, or one per block.
pub(crate) fn state_parts(
    spec: &NetSpec,
    layer: usize,
    direction: usize,
    rows: usize,
) -> impl Iterator<Item = (usize, Range<usize>)> {
    parts(spec, spec.state_widths(), (layer, direction), rows)
}

/// The same of c; none for cells without it.
pub(crate) fn cell_state_parts(
    spec: &NetSpec,
    layer: usize,
    direction: usize,
    rows: usize,
) -> impl Iterator<Item = (usize, Range<usize>)> {
    parts(spec, spec.cell_state_widths(), (layer, direction), rows)
}

/// The parts of states of these widths. Blocks are the widths of one layer; otherwise each layer is a width
/// of its own.
fn parts<'a>(
    spec: &NetSpec,
    widths: &'a [usize],
    (layer, direction): (usize, usize),
    rows: usize,
) -> impl Iterator<Item = (usize, Range<usize>)> + use<'a> {
    let (below, own) = match spec.layers() {
        1 => (0, widths),
        _ if widths.is_empty() => (0, widths),
        _ => (widths[..layer].iter().sum(), &widths[layer..=layer]),
    };
    let all: usize = own.iter().sum();
    let first = (below * spec.direction().count() + direction * all) * rows;
    own.iter().scan(0, move |unit, &n| {
        let units = *unit..*unit + n;
        *unit += n;
        Some((first + units.start * rows, units))
    })
}
