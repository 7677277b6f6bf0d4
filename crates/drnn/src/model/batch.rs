//! A batch of sequences, as the caller has them: time-major, any lengths, any order.

use crate::error::{Error, Result, Shape, check_finite, check_shape};
use crate::exec::recur::HOIST;
use crate::spec::wiring::columns;
use crate::spec::{InputSpec, NetSpec};
use std::ops::Range;

/// The elements of a batch.
#[derive(Debug, Clone, Copy)]
pub enum Elements<'a> {
    /// x (T, B, q), row after row.
    Dense(&'a [f32]),
    /// tokens (T, B)
    Tokens(&'a [u32]),
}

/// `rows` sequences of up to `steps` elements. What lies behind a sequence's length is not read.
#[derive(Debug, Clone, Copy)]
pub struct Batch<'a> {
    elements: Elements<'a>,
    steps: usize,
    rows: usize,
    lengths: Option<&'a [usize]>,
    asked: Option<&'a [u32]>,
}

impl<'a> Batch<'a> {
    /// Vectors x (steps, rows, q); q is the network's.
    pub fn dense(x: &'a [f32], steps: usize, rows: usize) -> Batch<'a> {
        Batch::of(Elements::Dense(x), steps, rows)
    }

    /// Tokens (steps, rows).
    pub fn tokens(tokens: &'a [u32], steps: usize, rows: usize) -> Batch<'a> {
        Batch::of(Elements::Tokens(tokens), steps, rows)
    }

    fn of(elements: Elements<'a>, steps: usize, rows: usize) -> Batch<'a> {
        Batch { elements, steps, rows, lengths: None, asked: None }
    }

    /// Elements per sequence, each from 0 to `steps`, in any order. Without it all have `steps`.
    pub fn lengths(mut self, lengths: &'a [usize]) -> Batch<'a> {
        self.lengths = Some(lengths);
        self
    }

    /// Only these answers go through the output layer. Each slot is `step * rows + row`, the place of an
    /// answer among all; slots increase strictly, and none lies behind its sequence's end.
    ///
    /// Answers and their gradients are then (slots, m), in this order, instead of (answer steps, B, m), to
    /// the bit what they are among all. Whatever else a pass finds is that of a batch which asks for
    /// everything and has zeros for the gradients of the other answers. No slots at all are fine, where last
    /// states are what is wanted.
    ///
    /// ```
    /// use drnn::{Batch, Cell, Model, NetSpec};
    ///
    /// let spec = NetSpec::builder(Cell::Gru).dense(1).units([8]).outputs(3).build()?;
    /// let model = Model::init(&spec, 1);
    /// let x = [0.1, 0.9, 0.2, 0.8, 0.3, 0.7]; // (T 3, B 2, q 1)
    /// let batch = Batch::dense(&x, 3, 2).lengths(&[3, 2]);
    /// let all = model.run(&batch, None)?;
    /// let ends = model.run(&batch.asking(&[3, 4]), None)?; // step 1 of row 1, step 2 of row 0
    /// assert_eq!(ends.values, [all.at(1, 1), all.at(2, 0)].concat());
    /// # Ok::<(), drnn::Error>(())
    /// ```
    pub fn asking(mut self, slots: &'a [u32]) -> Batch<'a> {
        self.asked = Some(slots);
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

    /// The slots whose answers are asked for; None for all.
    pub fn asked(&self) -> Option<&'a [u32]> {
        self.asked
    }

    /// Shape of the answers: (answer steps, B, m), or (slots asked for, 1, m).
    pub(crate) fn answer_shape(&self, spec: &NetSpec) -> [usize; 3] {
        let m = spec.answer_width();
        match self.asked {
            Some(slots) => [slots.len(), 1, m],
            None => [spec.answers_to(self.steps), self.rows, m],
        }
    }

    /// Everything that can be wrong with a batch for `spec`.
    pub(crate) fn check(&self, spec: &NetSpec) -> Result<()> {
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
        self.check_asked(spec)
    }

    fn check_dense(&self, x: &[f32], q: usize) -> Result<()> {
        if self.lengths.is_none() {
            return check_finite("x", x);
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

    fn check_asked(&self, spec: &NetSpec) -> Result<()> {
        let mut least = 0;
        for (position, &slot) in self.asked.unwrap_or_default().iter().enumerate() {
            let wrong = |reason: String| Err(Error::Asked { slot, position, reason });
            if self.rows == 0 {
                return wrong("there are no sequences".into());
            }
            let (step, row) = (slot as usize / self.rows, slot as usize % self.rows);
            let answers = spec.answers_to(self.length(row));
            if step >= answers {
                return wrong(format!(
                    "no step {step} among the {answers} answers of sequence {row}"
                ));
            }
            if slot < least {
                return wrong(format!("comes after {}; slots must increase", least - 1));
            }
            least = slot + 1;
        }
        Ok(())
    }
}

/// Whether every array of a pass can be addressed: rows by 32-bit numbers, bytes by the machine.
fn check_size(spec: &NetSpec, steps: usize, rows: usize) -> Result<()> {
    let widest = spec.units().iter().map(|&n| columns(spec.cell(), n)).max().unwrap_or(0);
    let widest = widest.max(state_width(spec)).max(spec.input().width()).max(spec.answer_width());
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
/// Where layers differ in width each has its own n. A flattened stack has its stack's states, block by
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
        let len = state_width(spec) * rows;
        let c = if spec.cell().has_cell_state() { vec![0.0; len] } else { Vec::new() };
        States { h: vec![0.0; len], c }
    }

    /// The lengths that `rows` sequences need, in the memory that is there; whatever the values.
    pub(crate) fn resize(&mut self, spec: &NetSpec, rows: usize) {
        let len = state_width(spec) * rows;
        self.h.resize(len, 0.0);
        self.c.resize(if spec.cell().has_cell_state() { len } else { 0 }, 0.0);
    }

    /// Right shapes for a batch that was checked, and every value finite.
    pub(crate) fn check(&self, what: &str, spec: &NetSpec, rows: usize) -> Result<()> {
        self.check_shape(what, spec, rows)?;
        check_finite(&format!("{what}.h"), &self.h)?;
        check_finite(&format!("{what}.c"), &self.c)
    }

    pub(crate) fn check_shape(&self, what: &str, spec: &NetSpec, rows: usize) -> Result<()> {
        let (width, widths) = (state_width(spec), spec.state_widths());
        let check = |name: &str, values: &[f32], len: usize| {
            if values.len() != len {
                return Err(Error::Shape {
                    name: format!("{what}.{name}"),
                    found: Shape::Len(values.len()),
                    expected: match widths.iter().all(|&n| n == widths[0]) {
                        true if len > 0 => Shape::Dims(vec![width / widths[0], rows, widths[0]]),
                        _ => Shape::Len(len),
                    },
                });
            }
            Ok(())
        };
        check("h", &self.h, width * rows)?;
        check("c", &self.c, if spec.cell().has_cell_state() { width * rows } else { 0 })
    }
}

/// Floats of h per sequence, all layers and directions.
pub(crate) fn state_width(spec: &NetSpec) -> usize {
    spec.units().iter().sum::<usize>() * spec.direction().count()
}

/// The parts of [`States`] for `rows` sequences that are the state of (layer, direction): where each
/// begins, and which units it holds. One, or one per block.
pub(crate) fn state_parts(
    spec: &NetSpec,
    layer: usize,
    direction: usize,
    rows: usize,
) -> impl Iterator<Item = (usize, Range<usize>)> {
    let below: usize = spec.units()[..layer].iter().sum();
    let first = (below * spec.direction().count() + direction * spec.units()[layer]) * rows;
    // Blocks are the widths of one layer; otherwise each layer is a width of its own.
    let widths = match spec.state_widths() {
        blocks if spec.layers() == 1 => blocks,
        layers => &layers[layer..=layer],
    };
    widths.iter().scan(0, move |unit, &n| {
        let units = *unit..*unit + n;
        *unit += n;
        Some((first + units.start * rows, units))
    })
}
