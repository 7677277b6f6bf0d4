//! What a network is: cell, layers, direction, delay, input and output, checked when built.

pub(crate) mod blocks;
mod builder;
mod canonical;
pub(crate) mod mask;
pub mod params;
pub(crate) mod wiring;

use crate::prelude::*;
pub use builder::NetSpecBuilder;

use crate::error::text::grouped;
use crate::spec::blocks::{Blocks, StartState};
use core::fmt;
use core::ops::Range;
use serde::{Deserialize, Serialize};

/// The recurrent cell; equations, gate order and biases are PyTorch's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cell {
    /// `h = tanh(W_ih x + b_ih + W_hh h' + b_hh)`
    RnnTanh,
    /// `h = max(0, W_ih x + b_ih + W_hh h' + b_hh)`
    RnnRelu,
    /// Gates i, f, g, o: `c = f c' + i g`, `h = o tanh(c)`; with a projection `h = W_hr (o tanh(c))`
    Lstm,
    /// Gates r, z, n: `n = tanh(W_in x + b_in + r (W_hn h' + b_hn))`, `h = (1 - z) n + z h'`
    Gru,
    /// The GRU whose reset gate multiplies h before the product:
    /// `n = tanh(W_in x + b_in + W_hn (r h') + b_hn)`. ONNX's default (`linear_before_reset` 0) and
    /// Keras's `reset_after=False`; tensors and gate order are those of [`Cell::Gru`].
    GruResetBefore,
}

impl Cell {
    /// All of them.
    pub const ALL: [Cell; 5] =
        [Cell::RnnTanh, Cell::RnnRelu, Cell::Lstm, Cell::Gru, Cell::GruResetBefore];

    /// Gates: rows of `weight_ih` per unit.
    pub fn gates(self) -> usize {
        match self {
            Cell::RnnTanh | Cell::RnnRelu => 1,
            Cell::Lstm => 4,
            Cell::Gru | Cell::GruResetBefore => 3,
        }
    }

    /// Whether the state has a second part, c, next to h.
    pub fn has_cell_state(self) -> bool {
        self == Cell::Lstm
    }

    /// Short name: `rnn`, `lstm`, `gru`.
    pub fn name(self) -> &'static str {
        match self {
            Cell::RnnTanh | Cell::RnnRelu => "rnn",
            Cell::Lstm => "lstm",
            Cell::Gru | Cell::GruResetBefore => "gru",
        }
    }

    /// Whether it is a GRU, with the reset gate on either side of the product.
    pub fn is_gru(self) -> bool {
        matches!(self, Cell::Gru | Cell::GruResetBefore)
    }
}

/// Which way the sequence is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the first element to the last; such a network can stream.
    Forward,
    /// Both ways, in every layer; outputs of the two directions stand side by side.
    Bidirectional,
}

impl Direction {
    /// Recurrences per layer.
    pub fn count(self) -> usize {
        match self {
            Direction::Forward => 1,
            Direction::Bidirectional => 2,
        }
    }
}

/// What a delayed network reads after the end of the sequence, while its last outputs come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Padding {
    /// Zero vectors (for tokens: a zero embedding).
    Null,
    /// This token.
    Symbol(u32),
    /// The d elements that really follow; the caller hands in T + d for T outputs.
    LookAhead,
}

/// What the network reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InputSpec {
    /// Vectors of this many floats, q.
    Dense(usize),
    /// One of `symbols` tokens, embedded in `embedding` dimensions.
    Tokens {
        /// Size of the alphabet, V.
        symbols: usize,
        /// Dimensions of the embedding, E.
        embedding: usize,
    },
}

impl InputSpec {
    /// Floats that reach the first layer per step.
    pub fn width(self) -> usize {
        match self {
            InputSpec::Dense(q) => q,
            InputSpec::Tokens { embedding, .. } => embedding,
        }
    }
}

/// A checked network description. Made by [`NetSpec::builder`].
///
/// ```
/// use drnn::{Cell, NetSpec, Padding};
///
/// let spec = NetSpec::builder(Cell::Lstm)
///     .tokens(28, 10) // 27 letters and a mask, embedded in 10 dimensions
///     .units([512])
///     .delay(8, Padding::LookAhead)
///     .outputs(27)
///     .build()?;
/// assert_eq!(spec.parameters(), 1_087_283);
/// assert_eq!(
///     spec.to_string(),
///     "dlstm(512 units, delay 8): outputs 8 steps late; \
///      28 symbols -> 10 -> 512 -> 27; 1,087,283 parameters"
/// );
/// # Ok::<(), drnn::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "NetSpecBuilder", into = "NetSpecBuilder")]
pub struct NetSpec {
    cell: Cell,
    input: InputSpec,
    units: Vec<usize>,
    /// Width of h, by layer: its units, or those that they are projected to.
    hidden: Vec<usize>,
    projection: Option<usize>,
    direction: Direction,
    delay: usize,
    padding: Padding,
    outputs: Option<usize>,
    blocks: Option<Blocks>,
    parameters: usize,
    free: usize,
}

impl NetSpec {
    /// The cell.
    pub fn cell(&self) -> Cell {
        self.cell
    }

    /// What it reads.
    pub fn input(&self) -> InputSpec {
        self.input
    }

    /// Units of each layer.
    pub fn units(&self) -> &[usize] {
        &self.units
    }

    /// Width that an LSTM's h is projected to in every layer, p: PyTorch's `proj_size`.
    pub fn projection(&self) -> Option<usize> {
        self.projection
    }

    /// Width of h of layer `layer`, one direction: its projection, or its units.
    ///
    /// # Panics
    /// If there is no such layer.
    pub fn hidden(&self, layer: usize) -> usize {
        self.hidden[layer]
    }

    /// Number of layers, k.
    pub fn layers(&self) -> usize {
        self.units.len()
    }

    /// Forward or both ways.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Steps between an element and its output, d.
    pub fn delay(&self) -> usize {
        self.delay
    }

    /// What is read after the end.
    pub fn padding(&self) -> Padding {
        self.padding
    }

    /// Width of the output layer, if there is one.
    pub fn outputs(&self) -> Option<usize> {
        self.outputs
    }

    /// The blocks of its one layer, if its units come in blocks.
    pub fn blocks(&self) -> Option<&Blocks> {
        self.blocks.as_ref()
    }

    /// Floats per output, m: the output layer's, or the last layer's state (the last block's).
    pub fn output_width(&self) -> usize {
        self.outputs.unwrap_or_else(|| match &self.blocks {
            Some(_) => self.output_units().len(),
            None => self.hidden_width(),
        })
    }

    /// The units of the last layer that outputs are made of: of one direction, all; of blocks those of the
    /// last, unless an output layer may read others too.
    pub(crate) fn output_units(&self) -> Range<usize> {
        match &self.blocks {
            Some(blocks) if self.outputs.is_none() || !blocks.feeds_output(0) => {
                blocks.units(blocks.count() - 1)
            }
            _ => 0..self.hidden[self.layers() - 1],
        }
    }

    /// Steps by which the last block runs after the first: block i begins i steps late and, where it
    /// begins so, ends so.
    pub(crate) fn lag(&self) -> usize {
        match &self.blocks {
            Some(blocks) if blocks.start_state() != StartState::Free => blocks.count() - 1,
            _ => 0,
        }
    }

    /// Elements that are read after the last element with an output, and are not padding.
    pub fn look_ahead(&self) -> usize {
        match self.padding {
            Padding::LookAhead => self.delay - self.lag(),
            _ => 0,
        }
    }

    /// Widths of the states h, direction after direction: of the layers, or of the blocks that stand for
    /// layers.
    pub fn state_widths(&self) -> &[usize] {
        match &self.blocks {
            Some(blocks) if blocks.start_state() != StartState::Free => blocks.widths(),
            _ => &self.hidden,
        }
    }

    /// The same for c, which a projection leaves as wide as there are units; empty for cells without c.
    pub fn cell_state_widths(&self) -> &[usize] {
        match self.projection {
            _ if !self.cell.has_cell_state() => &[],
            Some(_) => &self.units,
            None => self.state_widths(),
        }
    }

    /// Width of the last layer's state, both directions together.
    pub fn hidden_width(&self) -> usize {
        self.hidden[self.layers() - 1] * self.direction.count()
    }

    /// Width of what layer `layer` reads.
    pub fn layer_input(&self, layer: usize) -> usize {
        match layer {
            0 => self.input.width(),
            l => self.hidden[l - 1] * self.direction.count(),
        }
    }

    /// Number of values, both bias vectors of each layer included.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// How many of them training may change: all but those that [`Blocks`] keep at zero.
    pub fn free_parameters(&self) -> usize {
        self.free
    }

    /// Answers to a sequence of `elements` elements: as many, or fewer by [`NetSpec::look_ahead`] where the
    /// last are there only to be looked at.
    pub fn output_steps(&self, elements: usize) -> usize {
        elements.saturating_sub(self.look_ahead())
    }

    fn count_parameters(&self) -> Option<usize> {
        let gates = self.cell.gates();
        let mut total = match self.input {
            InputSpec::Dense(_) => 0,
            InputSpec::Tokens { symbols, embedding } => symbols.checked_mul(embedding)?,
        };
        for (layer, &n) in self.units.iter().enumerate() {
            let inputs = match layer {
                0 => self.input.width(),
                l => self.hidden[l - 1].checked_mul(self.direction.count())?,
            };
            let per_row = inputs.checked_add(self.hidden[layer])?.checked_add(2)?;
            let mut layer = n.checked_mul(gates)?.checked_mul(per_row)?;
            if let Some(p) = self.projection {
                layer = layer.checked_add(p.checked_mul(n)?)?;
            }
            if self.has_ungated() {
                layer = layer.checked_add(n.checked_mul(n)?)?;
            }
            total = total.checked_add(layer.checked_mul(self.direction.count())?)?;
        }
        if let Some(m) = self.outputs {
            let hidden = self.hidden.last()?.checked_mul(self.direction.count())?;
            total = total.checked_add(m.checked_mul(hidden.checked_add(1)?)?)?;
        }
        // Sizes in bytes, of all lanes' copies, must stay addressable too.
        (total <= isize::MAX as usize / 64).then_some(total)
    }

    /// Whether there is a `weight_hu`: a GRU in blocks reads other blocks past its reset gate.
    pub(crate) fn has_ungated(&self) -> bool {
        self.cell.is_gru() && self.blocks.is_some()
    }

    /// Values that must be zero.
    fn constrained(&self) -> usize {
        let Some(blocks) = &self.blocks else { return 0 };
        let mut values = 0;
        crate::spec::mask::each_outside(self, blocks, &mut |_, rows, columns| {
            values += rows.len() * columns.len();
        });
        values
    }
}

impl fmt::Display for NetSpec {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let prefix = match (self.direction, self.delay) {
            (Direction::Bidirectional, _) => "bi",
            (Direction::Forward, 0) => "",
            (Direction::Forward, _) => "d",
        };
        let variant = match self.cell {
            Cell::RnnRelu => ", relu",
            Cell::GruResetBefore => ", reset before",
            Cell::RnnTanh | Cell::Lstm | Cell::Gru => "",
        };
        let both = if self.direction == Direction::Bidirectional { " per direction" } else { "" };
        let widths = self.blocks.as_ref().map_or(self.units.as_slice(), Blocks::widths);
        let units = match widths {
            [n] => n.to_string(),
            list if list.iter().all(|n| *n == list[0]) => format!("{} x {}", list.len(), list[0]),
            list => list.iter().map(usize::to_string).collect::<Vec<_>>().join(" + "),
        };
        write!(f, "{prefix}{}({units} units{both}", self.cell.name())?;
        if let Some(blocks) = &self.blocks {
            write!(f, " in {} blocks", blocks.connected().name())?;
            match blocks.start_state() {
                StartState::Held => {}
                StartState::Solved => f.write_str(", start solved")?,
                StartState::Free => f.write_str(", start free")?,
            }
        }
        f.write_str(variant)?;
        if let Some(p) = self.projection {
            write!(f, ", projected to {p}")?;
        }
        if self.delay > 0 {
            write!(f, ", delay {}", self.delay)?;
        }
        f.write_str("): ")?;
        match (self.direction, self.delay) {
            (Direction::Bidirectional, _) => f.write_str("needs the whole sequence")?,
            (_, 0) => f.write_str("no delay")?,
            (_, 1) => f.write_str("outputs 1 step late")?,
            (_, d) => write!(f, "outputs {d} steps late")?,
        }
        match self.input {
            InputSpec::Dense(q) => write!(f, "; {q}")?,
            InputSpec::Tokens { symbols, embedding } => {
                write!(f, "; {symbols} symbols -> {embedding}")?;
            }
        }
        for n in &self.hidden {
            write!(f, " -> {}", n * self.direction.count())?;
        }
        if let Some(m) = self.outputs {
            write!(f, " -> {m}")?;
        }
        write!(f, "; {} parameters", grouped(self.parameters))?;
        if self.free < self.parameters {
            write!(f, ", {} of them free", grouped(self.free))?;
        }
        Ok(())
    }
}
