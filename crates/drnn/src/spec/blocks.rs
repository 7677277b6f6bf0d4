//! The units of one layer in blocks, as if each were a layer of a stack.
//!
//! ```text
//!          from block 0   1   2             block (i, j) of W_hh connects layer j at step t
//! to 0          [ W_hh  .   .  ]            to layer i at step t + j - i + 1:
//!    1          [ W_ih W_hh .  ]              i = j      the same layer, one step on
//!    2          [  .   W_ih W_hh]             i = j + 1  the layer above, at the same step
//! ```
//!
//! A flattened stack has the diagonal and the one below it, and block i runs i steps after block 0.
//! Which other blocks may be non-zero is a choice ([`Connections`]), and so is how block i comes to
//! begin i steps late ([`StartState`]).

use crate::error::{Error, Result};
use crate::prelude::*;
use core::ops::Range;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// Which blocks of `weight_hh` may be non-zero. All others stay zero: so do their gradients.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Connections {
    /// A stack and nothing else: the diagonal and the one below it. Only block 0 reads the input then,
    /// only the last block is read by the output layer, and a GRU's candidate is gated by its reset
    /// gate on the diagonal alone.
    Stacked,
    /// Also from lower layers to higher ones further up, back in time: `j <= i`.
    Lower,
    /// Also from higher layers to lower ones, forward in time: `j >= i - 1`.
    Upper,
    /// No constraint.
    All,
    /// These blocks (i, j), and no others.
    List(Vec<(usize, usize)>),
}

/// How block i comes to hold layer i's start state when it begins, i steps late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StartState {
    /// Block i keeps its start state until step i, and its last state once its sequence has ended: exact
    /// for every cell.
    Held,
    /// All blocks run from the first step, from a state that leads each to its start state in time (the
    /// paper's Lemma 1), where there is one: see [`crate::solve_start`].
    Solved,
    /// All blocks run from the first step, from the state given: an ordinary delayed network.
    Free,
}

/// The units of a one-layer network in blocks.
///
/// ```
/// use drnn::{Blocks, Cell, Connections, NetSpec, Padding, StartState};
///
/// // Three layers of 64 as one; free to learn connections back in time from lower to higher layers.
/// let blocks = Blocks::new([64; 3]).connections(Connections::Lower).start(StartState::Held);
/// let spec = NetSpec::builder(Cell::Lstm).dense(10).blocks(blocks).delay(2, Padding::Null);
/// println!("{}", spec.build()?); // dlstm(3 x 64 units in lower blocks, delay 2): ..
/// # Ok::<(), drnn::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Blocks {
    widths: Vec<usize>,
    connections: Connections,
    start: StartState,
}

/// What a row of recurrent weights belongs to. Only in a GRU's candidate do they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A gate.
    Gate,
    /// The half of a GRU's candidate that its reset gate multiplies.
    Gated,
    /// The other half, through `weight_hu`: what a layer reads from the layer below.
    Ungated,
}

impl Blocks {
    /// Blocks of these widths, [`Connections::Stacked`] and [`StartState::Held`].
    pub fn new(widths: impl Into<Vec<usize>>) -> Blocks {
        let (connections, start) = (Connections::Stacked, StartState::Held);
        Blocks { widths: widths.into(), connections, start }
    }

    /// The same with other connections.
    pub fn connections(mut self, connections: Connections) -> Blocks {
        self.connections = connections.sorted();
        self
    }

    /// The same with another start.
    pub fn start(mut self, start: StartState) -> Blocks {
        self.start = start;
        self
    }

    /// Units of each block.
    pub fn widths(&self) -> &[usize] {
        &self.widths
    }

    /// Number of blocks, k.
    pub fn count(&self) -> usize {
        self.widths.len()
    }

    /// Which of them are connected.
    pub fn connected(&self) -> &Connections {
        &self.connections
    }

    /// How they start.
    pub fn start_state(&self) -> StartState {
        self.start
    }

    /// Units of all blocks together; None if the sum overflows.
    pub(crate) fn total(&self) -> Option<usize> {
        self.widths.iter().try_fold(0usize, |sum, &n| sum.checked_add(n))
    }

    /// Units of block i.
    ///
    /// # Panics
    /// If there is no such block.
    pub fn units(&self, i: usize) -> Range<usize> {
        let start = self.widths[..i].iter().sum();
        start..start + self.widths[i]
    }

    /// Units of some neighbouring blocks.
    pub(crate) fn units_of(&self, blocks: Range<usize>) -> Range<usize> {
        let before = |i: usize| self.widths[..i].iter().sum();
        before(blocks.start)..before(blocks.end)
    }

    /// Whether block (i, j), from j to i, may be non-zero.
    pub fn allows(&self, i: usize, j: usize) -> bool {
        match &self.connections {
            Connections::Stacked => i == j || i == j + 1,
            Connections::Lower => j <= i,
            Connections::Upper => j + 1 >= i,
            Connections::All => true,
            Connections::List(list) => list.binary_search(&(i, j)).is_ok(),
        }
    }

    /// The same for one kind of rows.
    pub(crate) fn allows_role(&self, role: Role, i: usize, j: usize) -> bool {
        match (role, &self.connections) {
            (Role::Gated, Connections::Stacked) => i == j,
            (Role::Ungated, Connections::Stacked) => i == j + 1,
            _ => self.allows(i, j),
        }
    }

    /// Whether block i may read the input.
    pub fn reads_input(&self, i: usize) -> bool {
        i == 0 || self.connections != Connections::Stacked
    }

    /// Whether the output layer may read block i.
    pub fn feeds_output(&self, i: usize) -> bool {
        i + 1 == self.count() || self.connections != Connections::Stacked
    }

    /// The span of units that block i reads; None if it reads none.
    pub(crate) fn reads(&self, role: Role, i: usize) -> Option<Range<usize>> {
        self.span(|j| self.allows_role(role, i, j))
    }

    /// The span of units that read block j; None if none does.
    pub(crate) fn read_by(&self, role: Role, j: usize) -> Option<Range<usize>> {
        self.span(|i| self.allows_role(role, i, j))
    }

    fn span(&self, is_in: impl Fn(usize) -> bool) -> Option<Range<usize>> {
        let first = (0..self.count()).position(&is_in)?;
        let last = (0..self.count()).rposition(&is_in)?;
        Some(self.units_of(first..last + 1))
    }

    /// Everything that can be wrong with blocks alone.
    pub(crate) fn checked(mut self) -> Result<Blocks> {
        let k = self.count();
        if k == 0 {
            return Err(Error::Spec("no blocks: they need one width each".into()));
        }
        if let Some(i) = self.widths.iter().position(|&n| n == 0) {
            return Err(Error::Spec(format!("block {i} has no units")));
        }
        self.connections = self.connections.sorted(); // it may come from a file
        if let Connections::List(list) = &self.connections
            && let Some((i, j)) = list.iter().find(|&&(i, j)| i >= k || j >= k)
        {
            return Err(Error::Spec(format!("a connection ({i}, {j}), but {k} blocks")));
        }
        if self.start == StartState::Solved && self.connections != Connections::Stacked {
            return Err(Error::Spec(
                "a solved start of blocks that are not `stacked`: only a stack's can be solved"
                    .into(),
            ));
        }
        Ok(self)
    }
}

impl FromStr for Connections {
    type Err = Error;

    /// A [name](Connections::name) other than `listed`, or a list of blocks as to-from pairs:
    /// `0-0,1-0,1-1`.
    fn from_str(text: &str) -> Result<Connections> {
        let pair = |pair: &str| {
            let (to, from) = pair.split_once('-')?;
            Some((to.trim().parse().ok()?, from.trim().parse().ok()?))
        };
        Ok(match text {
            "stacked" => Connections::Stacked,
            "lower" => Connections::Lower,
            "upper" => Connections::Upper,
            "all" => Connections::All,
            list => match list.split(',').map(pair).collect() {
                Some(pairs) => Connections::List(pairs),
                None => {
                    return Err(Error::Spec(format!(
                        "connections `{text}`, expected stacked, lower, upper, all, or a list of \
                         to-from pairs: 0-0,1-0,1-1"
                    )));
                }
            },
        })
    }
}

impl Connections {
    /// Short name: `stacked`, `lower`, `upper`, `all`, `listed`.
    pub fn name(&self) -> &'static str {
        match self {
            Connections::Stacked => "stacked",
            Connections::Lower => "lower",
            Connections::Upper => "upper",
            Connections::All => "all",
            Connections::List(_) => "listed",
        }
    }

    /// A list in order, so that it can be searched and compared.
    fn sorted(mut self) -> Connections {
        if let Connections::List(list) = &mut self {
            list.sort_unstable();
            list.dedup();
        }
        self
    }
}
