//! The choices for a network, and whether they make sense together.

use super::{Cell, Direction, InputSpec, NetSpec, Padding};
use crate::error::{Error, Result};
use crate::prelude::*;
use crate::spec::blocks::{Blocks, StartState};
use serde::{Deserialize, Serialize};

/// The deepest network accepted.
const MAX_LAYERS: usize = 1000;
/// The longest delay accepted.
const MAX_DELAY: usize = 1 << 20;

/// Collects the choices for a [`NetSpec`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetSpecBuilder {
    cell: Cell,
    input: Option<InputSpec>,
    units: Vec<usize>,
    direction: Direction,
    delay: usize,
    padding: Padding,
    outputs: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    blocks: Option<Blocks>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    projection: Option<usize>,
}

impl NetSpecBuilder {
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

    /// One layer whose units come in blocks, as the layers of a stack would have them. It stands for
    /// [`NetSpecBuilder::units`].
    pub fn blocks(mut self, blocks: Blocks) -> Self {
        self.units = blocks.total().into_iter().collect();
        self.blocks = Some(blocks);
        self
    }

    /// Projects h of every layer of an LSTM to `p` values, fewer than its units: `h = W_hr (o tanh(c))`, as
    /// PyTorch's `nn.LSTM(proj_size=p)`. Gates, outputs and the next layer read the projected h.
    pub fn projection(mut self, p: usize) -> Self {
        self.projection = Some(p);
        self
    }

    /// Reads both ways.
    pub fn bidirectional(mut self) -> Self {
        self.direction = Direction::Bidirectional;
        self
    }

    /// Outputs come `delay` steps late; reads `padding` after the end.
    pub fn delay(mut self, delay: usize, padding: Padding) -> Self {
        (self.delay, self.padding) = (delay, padding);
        self
    }

    /// Adds an output layer of `m` values; without it the outputs are the last layer's states.
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
        if self.units.len() > MAX_LAYERS {
            let layers = self.units.len();
            return Err(Error::TooLarge(format!("{layers} layers (at most {MAX_LAYERS})")));
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
        if self.delay > MAX_DELAY {
            return Err(Error::TooLarge(format!(
                "a delay of {} (at most {MAX_DELAY})",
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
        self.check_projection()?;
        let blocks = self.blocks.clone().map(Blocks::checked).transpose()?;
        if let Some(blocks) = &blocks {
            self.check_blocks(blocks)?;
        }
        let mut spec = NetSpec {
            cell: self.cell,
            input,
            hidden: self.projection.map_or(self.units.clone(), |p| vec![p; self.units.len()]),
            projection: self.projection,
            units: self.units,
            direction: self.direction,
            delay: self.delay,
            padding: self.padding,
            outputs: self.outputs,
            blocks,
            parameters: 0,
            free: 0,
        };
        spec.parameters = spec.count_parameters().ok_or_else(|| {
            Error::TooLarge("the parameters of this network cannot be addressed".into())
        })?;
        spec.free = spec.parameters - spec.constrained();
        Ok(spec)
    }

    /// That a projection fits the rest.
    fn check_projection(&self) -> Result<()> {
        let Some(p) = self.projection else { return Ok(()) };
        let refuse = |why: String| Err(Error::Spec(why));
        if self.cell != Cell::Lstm {
            let cell = self.cell.name();
            return refuse(format!("a projection of the states of a {cell}: only an LSTM has one"));
        }
        if self.blocks.is_some() {
            return refuse(
                "blocks of an LSTM with a projection: its states are not its units".into(),
            );
        }
        if let Some((layer, n)) = self.units.iter().enumerate().find(|&(_, &n)| p == 0 || p >= n) {
            return refuse(format!(
                "a projection to {p} values of layer {layer}, which has {n} units: it must be at \
                 least 1, and fewer than the units"
            ));
        }
        Ok(())
    }

    /// That blocks fit the rest.
    fn check_blocks(&self, blocks: &Blocks) -> Result<()> {
        let (k, total) = (blocks.count(), blocks.total());
        let refuse = |why: String| Err(Error::Spec(why));
        if k > MAX_LAYERS {
            return Err(Error::TooLarge(format!("{k} blocks (at most {MAX_LAYERS})")));
        }
        if self.units.len() != 1 || total != Some(self.units[0]) {
            let (units, widths) = (&self.units, blocks.widths());
            return refuse(format!(
                "blocks of {widths:?} in layers of {units:?}: they are one layer"
            ));
        }
        if self.direction == Direction::Bidirectional {
            return refuse("blocks in a bidirectional network: it is no flattened stack".into());
        }
        let start = blocks.start_state();
        if start != StartState::Free && self.delay + 1 < k {
            return refuse(format!(
                "{k} blocks, the last of which begins {} steps late, but a delay of {}",
                k - 1,
                self.delay
            ));
        }
        if start == StartState::Solved && self.cell.is_gru() {
            return refuse(
                "a solved start of a GRU: its step cannot be inverted in closed form; say held"
                    .into(),
            );
        }
        Ok(())
    }
}

impl TryFrom<NetSpecBuilder> for NetSpec {
    type Error = Error;
    fn try_from(builder: NetSpecBuilder) -> Result<NetSpec> {
        builder.build()
    }
}

impl From<NetSpec> for NetSpecBuilder {
    fn from(s: NetSpec) -> NetSpecBuilder {
        NetSpecBuilder {
            cell: s.cell,
            input: Some(s.input),
            units: s.units,
            direction: s.direction,
            delay: s.delay,
            padding: s.padding,
            outputs: s.outputs,
            blocks: s.blocks,
            projection: s.projection,
        }
    }
}

impl NetSpec {
    /// Starts a description: forward only, no delay, no output layer; input and units must follow.
    pub fn builder(cell: Cell) -> NetSpecBuilder {
        NetSpecBuilder {
            cell,
            input: None,
            units: Vec::new(),
            direction: Direction::Forward,
            delay: 0,
            padding: Padding::Null,
            outputs: None,
            blocks: None,
            projection: None,
        }
    }
}
