//! A batch of sequences, as the caller has them: time-major, any lengths, any order.

use crate::error::{Error, Result, Shape, check_finite, check_shape};
use crate::spec::{InputSpec, NetSpec};

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
}

impl<'a> Batch<'a> {
    /// Vectors x (steps, rows, q); q is the network's.
    pub fn dense(x: &'a [f32], steps: usize, rows: usize) -> Batch<'a> {
        Batch { elements: Elements::Dense(x), steps, rows, lengths: None }
    }

    /// Tokens (steps, rows).
    pub fn tokens(tokens: &'a [u32], steps: usize, rows: usize) -> Batch<'a> {
        Batch { elements: Elements::Tokens(tokens), steps, rows, lengths: None }
    }

    /// Elements per sequence, each from 0 to `steps`, in any order. Without it all have `steps`.
    pub fn lengths(mut self, lengths: &'a [usize]) -> Batch<'a> {
        self.lengths = Some(lengths);
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
    pub fn length(&self, row: usize) -> usize {
        self.lengths.map_or(self.steps, |l| l[row])
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
        let slots = (steps + spec.delay()).checked_mul(rows);
        if slots.is_none_or(|n| n >= u32::MAX as usize) {
            return Err(Error::TooLarge(format!(
                "{steps} steps (and the delay) by {rows} sequences"
            )));
        }
        Ok(())
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
}

/// States of a batch: h, and for the LSTM c, of every layer and direction.
///
/// ```text
/// h (layers * directions, B, n)     layer after layer, forward before reverse, as PyTorch's h_n
/// ```
///
/// Where layers differ in width each has its own n.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct States {
    /// Hidden states.
    pub h: Vec<f32>,
    /// Cell states; empty for cells that have none.
    pub c: Vec<f32>,
}

impl States {
    /// Zeros for `rows` sequences.
    pub fn zeros(spec: &NetSpec, rows: usize) -> States {
        let len = state_width(spec) * rows;
        let c = if spec.cell().has_cell_state() { vec![0.0; len] } else { Vec::new() };
        States { h: vec![0.0; len], c }
    }

    pub(crate) fn check(&self, what: &str, spec: &NetSpec, rows: usize) -> Result<()> {
        let width = state_width(spec);
        let check = |name: &str, values: &[f32], len: usize| {
            if values.len() != len {
                return Err(Error::Shape {
                    name: format!("{what}.{name}"),
                    found: Shape::Len(values.len()),
                    expected: match spec.units().iter().all(|&n| n == spec.units()[0]) {
                        true if len > 0 => {
                            let n = spec.units()[0];
                            Shape::Dims(vec![width / n, rows, n])
                        }
                        _ => Shape::Len(len),
                    },
                });
            }
            check_finite(&format!("{what}.{name}"), values)
        };
        check("h", &self.h, width * rows)?;
        check("c", &self.c, if spec.cell().has_cell_state() { width * rows } else { 0 })
    }
}

/// Floats of h per sequence, all layers and directions.
pub(crate) fn state_width(spec: &NetSpec) -> usize {
    spec.units().iter().sum::<usize>() * spec.direction().count()
}

/// Where (layer, direction) begins in [`States::h`] for `rows` sequences.
pub(crate) fn state_offset(spec: &NetSpec, layer: usize, direction: usize, rows: usize) -> usize {
    let below: usize = spec.units()[..layer].iter().sum();
    (below * spec.direction().count() + direction * spec.units()[layer]) * rows
}
