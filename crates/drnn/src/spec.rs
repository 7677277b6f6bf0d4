//! What a network is: cell, layers, direction, delay, input and output, checked when built.
//!
//! ```
//! use drnn::{Cell, NetSpec, Padding};
//!
//! let spec = NetSpec::builder(Cell::Lstm)
//!     .tokens(28, 10) // 27 letters and a mask, embedded in 10 dimensions
//!     .units([512])
//!     .delay(8, Padding::LookAhead)
//!     .outputs(27)
//!     .build()?;
//! assert_eq!(spec.parameters(), 1_087_283);
//! assert_eq!(
//!     spec.to_string(),
//!     "dlstm(512 units, delay 8): answers 8 steps late; \
//!      28 symbols -> 10 -> 512 -> 27; 1,087,283 parameters"
//! );
//! # Ok::<(), drnn::Error>(())
//! ```

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The recurrent cell; equations, gate order and biases are PyTorch's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cell {
    /// `h = tanh(W_ih x + b_ih + W_hh h' + b_hh)`
    RnnTanh,
    /// `h = max(0, W_ih x + b_ih + W_hh h' + b_hh)`
    RnnRelu,
    /// Gates i, f, g, o: `c = f c' + i g`, `h = o tanh(c)`
    Lstm,
    /// Gates r, z, n: `n = tanh(W_in x + b_in + r (W_hn h' + b_hn))`, `h = (1 - z) n + z h'`
    Gru,
}

impl Cell {
    /// All of them.
    pub const ALL: [Cell; 4] = [Cell::RnnTanh, Cell::RnnRelu, Cell::Lstm, Cell::Gru];

    /// Gates: rows of `weight_ih` per unit.
    pub fn gates(self) -> usize {
        match self {
            Cell::RnnTanh | Cell::RnnRelu => 1,
            Cell::Lstm => 4,
            Cell::Gru => 3,
        }
    }

    /// Whether the state has a second part, c, beside h.
    pub fn has_cell_state(self) -> bool {
        self == Cell::Lstm
    }

    /// Short name: `rnn`, `lstm`, `gru`.
    pub fn name(self) -> &'static str {
        match self {
            Cell::RnnTanh | Cell::RnnRelu => "rnn",
            Cell::Lstm => "lstm",
            Cell::Gru => "gru",
        }
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

/// What a delayed network reads after the end of the sequence, while its last answers come out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Padding {
    /// Zero vectors (for tokens: a zero embedding).
    Null,
    /// This token.
    Symbol(u32),
    /// The d elements that really follow; the caller hands in T + d for T answers.
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
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Builder", into = "Builder")]
pub struct NetSpec {
    cell: Cell,
    input: InputSpec,
    units: Vec<usize>,
    direction: Direction,
    delay: usize,
    padding: Padding,
    outputs: Option<usize>,
    parameters: usize,
}

/// Collects the choices for a [`NetSpec`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Builder {
    cell: Cell,
    input: Option<InputSpec>,
    units: Vec<usize>,
    direction: Direction,
    delay: usize,
    padding: Padding,
    outputs: Option<usize>,
}

impl Builder {
    /// Reads vectors of `q` floats.
    pub fn dense(mut self, q: usize) -> Self {
        self.input = Some(InputSpec::Dense(q));
        self
    }

    /// Reads tokens below `symbols`, embedded in `embedding` dimensions.
    pub fn tokens(mut self, symbols: usize, embedding: usize) -> Self {
        self.input = Some(InputSpec::Tokens { symbols, embedding });
        self
    }

    /// Units of each layer, the first layer first.
    pub fn units(mut self, units: impl Into<Vec<usize>>) -> Self {
        self.units = units.into();
        self
    }

    /// Reads both ways.
    pub fn bidirectional(mut self) -> Self {
        self.direction = Direction::Bidirectional;
        self
    }

    /// Answers `delay` steps late and reads `padding` after the end.
    pub fn delay(mut self, delay: usize, padding: Padding) -> Self {
        (self.delay, self.padding) = (delay, padding);
        self
    }

    /// Adds an output layer of `m` values; without it the answers are the last layer's states.
    pub fn outputs(mut self, m: usize) -> Self {
        self.outputs = Some(m);
        self
    }

    /// Checks that the choices make sense together.
    pub fn build(self) -> Result<NetSpec> {
        let refuse = |why: String| Err(Error::Spec(why));
        let Some(input) = self.input else {
            return refuse("no input: say `dense(q)` or `tokens(symbols, embedding)`".into());
        };
        if self.units.is_empty() {
            return refuse("no layers: `units` needs one number per layer".into());
        }
        if self.units.len() > MOST_LAYERS {
            let layers = self.units.len();
            return Err(Error::TooLarge(format!("{layers} layers (at most {MOST_LAYERS})")));
        }
        if let Some(layer) = self.units.iter().position(|&n| n == 0) {
            return refuse(format!("layer {layer} has no units"));
        }
        match input {
            InputSpec::Dense(0) => return refuse("dense input of width 0".into()),
            InputSpec::Tokens { symbols: 0, .. } => {
                return refuse("an alphabet of 0 symbols".into());
            }
            InputSpec::Tokens { embedding: 0, .. } => {
                return refuse("an embedding of 0 dimensions".into());
            }
            InputSpec::Tokens { symbols, .. } if symbols >= u32::MAX as usize => {
                return Err(Error::TooLarge(format!("{symbols} symbols")));
            }
            _ => {}
        }
        if self.outputs == Some(0) {
            return refuse("an output layer of 0 values; leave it out for none".into());
        }
        if self.direction == Direction::Bidirectional && self.delay > 0 {
            return refuse(format!(
                "a delay of {} on a bidirectional network: it sees the whole sequence already, so a \
                 delay adds nothing",
                self.delay
            ));
        }
        if self.delay > MOST_DELAY {
            return Err(Error::TooLarge(format!(
                "a delay of {} (at most {MOST_DELAY})",
                self.delay
            )));
        }
        match (self.padding, input) {
            (Padding::Symbol(id), InputSpec::Dense(_)) => {
                return refuse(format!(
                    "padding with symbol {id} needs token input; vectors take Null or LookAhead"
                ));
            }
            (Padding::Symbol(id), InputSpec::Tokens { symbols, .. }) if id as usize >= symbols => {
                return refuse(format!("padding symbol {id} is not among the {symbols} symbols"));
            }
            _ => {}
        }
        let mut spec = NetSpec {
            cell: self.cell,
            input,
            units: self.units,
            direction: self.direction,
            delay: self.delay,
            padding: self.padding,
            outputs: self.outputs,
            parameters: 0,
        };
        spec.parameters = spec.count_parameters().ok_or_else(|| {
            Error::TooLarge("the parameters of this network cannot be addressed".into())
        })?;
        Ok(spec)
    }
}

/// The deepest network accepted.
const MOST_LAYERS: usize = 1000;
/// The longest delay accepted.
const MOST_DELAY: usize = 1 << 20;

impl TryFrom<Builder> for NetSpec {
    type Error = Error;
    fn try_from(builder: Builder) -> Result<NetSpec> {
        builder.build()
    }
}

impl From<NetSpec> for Builder {
    fn from(s: NetSpec) -> Builder {
        Builder {
            cell: s.cell,
            input: Some(s.input),
            units: s.units,
            direction: s.direction,
            delay: s.delay,
            padding: s.padding,
            outputs: s.outputs,
        }
    }
}

impl NetSpec {
    /// Starts a description: forward only, no delay, no output layer; input and units must follow.
    pub fn builder(cell: Cell) -> Builder {
        Builder {
            cell,
            input: None,
            units: Vec::new(),
            direction: Direction::Forward,
            delay: 0,
            padding: Padding::Null,
            outputs: None,
        }
    }

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

    /// Number of layers, k.
    pub fn layers(&self) -> usize {
        self.units.len()
    }

    /// Forward or both ways.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Steps between an input and its answer, d.
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

    /// Floats per answer, m: the output layer's, or the last layer's state.
    pub fn answer_width(&self) -> usize {
        self.outputs.unwrap_or(self.hidden_width())
    }

    /// Width of the last layer's state, both directions together.
    pub fn hidden_width(&self) -> usize {
        self.units[self.layers() - 1] * self.direction.count()
    }

    /// Width of what layer `layer` reads.
    pub fn layer_input(&self, layer: usize) -> usize {
        match layer {
            0 => self.input.width(),
            l => self.units[l - 1] * self.direction.count(),
        }
    }

    /// Number of trainable values, both bias vectors of each layer included.
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    /// Answers to a sequence of `elements` elements: as many, or d fewer where the last d are there
    /// only to be looked at.
    pub fn answers_to(&self, elements: usize) -> usize {
        match self.padding {
            Padding::LookAhead => elements.saturating_sub(self.delay),
            _ => elements,
        }
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
                l => self.units[l - 1].checked_mul(self.direction.count())?,
            };
            let per_row = inputs.checked_add(n)?.checked_add(2)?;
            let layer = n.checked_mul(gates)?.checked_mul(per_row)?;
            total = total.checked_add(layer.checked_mul(self.direction.count())?)?;
        }
        if let Some(m) = self.outputs {
            let hidden = self.units.last()?.checked_mul(self.direction.count())?;
            total = total.checked_add(m.checked_mul(hidden.checked_add(1)?)?)?;
        }
        // Sizes in bytes, of all lanes' copies, must stay addressable too.
        (total <= isize::MAX as usize / 64).then_some(total)
    }
}

impl fmt::Display for NetSpec {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let prefix = match (self.direction, self.delay) {
            (Direction::Bidirectional, _) => "bi",
            (Direction::Forward, 0) => "",
            (Direction::Forward, _) => "d",
        };
        let relu = if self.cell == Cell::RnnRelu { ", relu" } else { "" };
        let both = if self.direction == Direction::Bidirectional { " per direction" } else { "" };
        let equal = self.units.iter().all(|&n| n == self.units[0]);
        let units = match (self.layers(), equal) {
            (1, _) => format!("{} units{both}", self.units[0]),
            (k, true) => format!("{k} x {} units{both}", self.units[0]),
            _ => {
                let list: Vec<_> = self.units.iter().map(usize::to_string).collect();
                format!("{} units{both}", list.join(" + "))
            }
        };
        write!(f, "{prefix}{}({units}{relu}", self.cell.name())?;
        if self.delay > 0 {
            write!(f, ", delay {}", self.delay)?;
        }
        f.write_str("): ")?;
        match (self.direction, self.delay) {
            (Direction::Bidirectional, _) => f.write_str("answers when the sequence has ended")?,
            (_, 0) => f.write_str("answers at once")?,
            (_, 1) => f.write_str("answers 1 step late")?,
            (_, d) => write!(f, "answers {d} steps late")?,
        }
        match self.input {
            InputSpec::Dense(q) => write!(f, "; {q}")?,
            InputSpec::Tokens { symbols, embedding } => {
                write!(f, "; {symbols} symbols -> {embedding}")?;
            }
        }
        for n in &self.units {
            write!(f, " -> {}", n * self.direction.count())?;
        }
        if let Some(m) = self.outputs {
            write!(f, " -> {m}")?;
        }
        write!(f, "; {} parameters", grouped(self.parameters))
    }
}

/// `1234567` as `1,234,567`.
pub fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}
