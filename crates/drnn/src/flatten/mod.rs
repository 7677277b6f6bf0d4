//! A stack as one delayed layer, exactly (Theorem 1 of the paper), and back.
//!
//! ```text
//!        [ W_hh_l0                    ]          [ W_ih_l0 ]
//! W_hh = [ W_ih_l1  W_hh_l1           ]   W_ih = [    0    ]   W_out = [ 0  0  W_out ]   delay + k - 1
//!        [          W_ih_l2  W_hh_l2  ]          [    0    ]
//! ```
//!
//! gate by gate; block i of the state after step t + i is layer i's state after step t. A GRU's candidate
//! takes `W_ih_l1`, `W_ih_l2`, .. past its reset gate, as the layers did: they go to `weight_hu` there.
//!
//! ```
//! use drnn::{Batch, Cell, Model, NetSpec, Rows, StartState, Steps};
//!
//! let spec = NetSpec::builder(Cell::Gru).dense(2).units([8, 5, 3]).outputs(1).build()?;
//! let stack = Model::init(&spec, 1)?;
//! let flat = stack.flatten(StartState::Held)?; // one layer of 16 units, delay 2
//! assert_eq!((flat.spec().units(), flat.spec().delay()), (&[16][..], 2));
//!
//! let x = [0.3, -0.1, 0.8, 0.5, -0.9, 0.2];
//! let batch = Batch::dense(&x, Steps(3), Rows(1));
//! assert_eq!(flat.run(&batch, None)?, stack.run(&batch, None)?);
//! assert_eq!(flat.unflatten(None)?.params(), stack.params());
//! # Ok::<(), drnn::Error>(())
//! ```

pub(crate) mod block_map;
pub mod solve;
pub(crate) mod trace;
pub(crate) mod unflatten;

use crate::error::{Error, Result};
use crate::model::Model;
use crate::spec::blocks::{Blocks, Connections, StartState};
use crate::spec::params::Layout;
use crate::spec::{Direction, InputSpec, NetSpec, Padding};
use core::ops::Range;

impl Model {
    /// The stack as one layer whose outputs come k - 1 steps later, with the same outputs and the same states
    /// in the same shapes. `start` says how the blocks come to begin one after another; a solved one is
    /// solved, and perhaps refused, when the network is run.
    ///
    /// Bidirectional networks are refused: their second layer reads what the first makes of the end. A
    /// quantised network becomes one with f32 weights of the same values.
    pub fn flatten(&self, start: StartState) -> Result<Model> {
        let spec = flat_spec(self.spec(), start)?;
        self.like(&spec, flat_params(self.spec(), &spec, self.params()))
    }

    /// The same weights with other connections between blocks: all those they have, and perhaps more
    /// for training to fill.
    pub fn relax(&self, connections: Connections) -> Result<Model> {
        let Some(blocks) = self.spec().blocks() else {
            return Err(Error::Flatten(
                "only a network in blocks has connections to choose".into(),
            ));
        };
        let blocks = blocks.clone().connections(connections);
        let spec = rebuilt(self.spec(), self.spec().delay()).blocks(blocks).build()?;
        self.like(&spec, self.params().to_vec())?.quantize(self.weight_format())
    }

    /// The same weights, their outputs read `delay` steps late.
    pub fn delayed(&self, delay: usize, padding: Padding) -> Result<Model> {
        let builder = rebuilt(self.spec(), delay).delay(delay, padding);
        let builder = match self.spec().blocks() {
            Some(blocks) => builder.blocks(blocks.clone()),
            None => builder.units(self.spec().units()),
        };
        let builder = match self.spec().direction() {
            Direction::Forward => builder,
            Direction::Bidirectional => builder.bidirectional(),
        };
        self.like(&builder.build()?, self.params().to_vec())?.quantize(self.weight_format())
    }

    /// The stack that this one layer is: of blocks of these widths, or of those that it says or its zeros
    /// show. Refused, with the block, where weights lie outside the structure of a stack.
    ///
    /// Blocks that begin one after another are layers of those widths and no others. A layer without such
    /// blocks, one that PyTorch trained perhaps, starts all its units at once:
    /// its first k - 1 outputs are the stack's only from states that lead there (see
    /// [`StartState::Solved`]).
    pub fn unflatten(&self, widths: Option<&[usize]>) -> Result<Model> {
        let spec = self.spec();
        if spec.direction() == Direction::Bidirectional || spec.layers() > 1 {
            return Err(Error::Flatten(format!("{spec}: not one forward layer")));
        }
        check_unprojected(spec)?;
        if spec.cell().is_gru() && spec.blocks().is_none() {
            return Err(Error::Flatten(format!(
                "{spec}: a GRU that gates all that reaches its candidate is no stack of GRUs, whose \
                 layers read the one below ungated"
            )));
        }
        let begins = spec.blocks().filter(|b| b.start_state() != StartState::Free);
        if let (Some(widths), Some(blocks)) = (widths, begins)
            && widths != blocks.widths()
        {
            return Err(Error::Flatten(format!(
                "layers of {widths:?} units, but blocks of {:?} begin one after another",
                blocks.widths()
            )));
        }
        let widths = match (widths, spec.blocks()) {
            (Some(widths), _) => widths.to_vec(),
            (None, Some(blocks)) => blocks.widths().to_vec(),
            (None, None) => {
                crate::flatten::unflatten::widths_from_zeros(spec, self.layout(), self.params())?
            }
        };
        let k = widths.len();
        if Blocks::new(widths.clone()).total() != Some(spec.units()[0]) {
            return Err(Error::Flatten(format!(
                "blocks of {widths:?} units for a layer of {}",
                spec.units()[0]
            )));
        }
        let Some(delay) = (spec.delay() + 1).checked_sub(k) else {
            return Err(Error::Flatten(format!(
                "{spec}: a stack of {k} layers would be read {} steps late",
                k - 1
            )));
        };
        // As if it were flattened: then it must have that structure.
        let blocks = Blocks::new(widths.clone()).start(StartState::Free);
        let flat = rebuilt(spec, spec.delay()).blocks(blocks).build()?;
        crate::spec::mask::check_outside(&flat, self.layout(), self.params().into())?;
        let stack = rebuilt(spec, delay).units(widths).build()?;
        let params = stack_params(&stack, &flat, self.params());
        self.like(&stack, params)
    }
}

#[cfg(feature = "onnx")]
impl Model {
    /// An equal network without blocks: the stack of a flattened one, one plain layer where all blocks run
    /// at once. None where there are no blocks.
    pub(crate) fn without_blocks(&self) -> Result<Option<Model>> {
        let spec = self.spec();
        let Some(blocks) = spec.blocks() else { return Ok(None) };
        if blocks.start_state() != StartState::Free {
            return self.unflatten(None).map(Some).map_err(|e| {
                Error::Flatten(format!("{e}; blocks that begin one after another must be a stack"))
            });
        }
        let (layout, mut params) = (self.layout(), self.params().to_vec());
        if spec.has_ungated() {
            let ungated = layout.recurrent(crate::spec::wiring::Matrix::Hu, 0, 0);
            if params.drain(ungated).any(|w| w != 0.0) {
                let why = "what reaches a GRU's candidate past its reset gate, `weight_hu_l0`";
                return Err(Error::Flatten(format!("{why}, is in no plain GRU")));
            }
        }
        let mut builder = rebuilt(spec, spec.delay()).units([spec.units()[0]]);
        if spec.outputs().is_none() {
            // Outputs are the last block's states: an output layer that picks them.
            let (m, n, units) = (spec.output_width(), spec.units()[0], spec.output_units());
            let first = params.len();
            params.resize(first + m * n + m, 0.0);
            for i in 0..m {
                params[first + i * n + units.start + i] = 1.0;
            }
            builder = builder.outputs(m);
        }
        self.like(&builder.build()?, params).map(Some)
    }
}

/// A builder with the same cell, input, padding and output, and this delay; units are to follow.
fn rebuilt(spec: &NetSpec, delay: usize) -> crate::NetSpecBuilder {
    let mut builder = NetSpec::builder(spec.cell()).delay(delay, spec.padding());
    builder = match spec.input() {
        InputSpec::Dense(q) => builder.dense(q),
        InputSpec::Tokens { symbols, embedding } => builder.tokens(symbols, embedding),
    };
    if let Some(p) = spec.projection() {
        builder = builder.projection(p);
    }
    match spec.outputs() {
        Some(m) => builder.outputs(m),
        None => builder,
    }
}

/// Refuses projected LSTMs: what their layers hand on are not their units, as it is for blocks.
fn check_unprojected(spec: &NetSpec) -> Result<()> {
    match spec.projection() {
        None => Ok(()),
        Some(_) => Err(Error::Flatten(format!(
            "{spec}: its layers read projected states, and blocks read each other's units; only \
             networks without a projection can be flattened"
        ))),
    }
}

/// What a flattened stack is.
pub fn flat_spec(stack: &NetSpec, start: StartState) -> Result<NetSpec> {
    if stack.direction() == Direction::Bidirectional {
        return Err(Error::Flatten(format!(
            "{stack}: it reads the sequence's end before it answers its beginning, which no delay \
             makes up for; only forward networks can be flattened"
        )));
    }
    check_unprojected(stack)?;
    if stack.blocks().is_some() {
        return Err(Error::Flatten(format!("{stack}: it is one layer already")));
    }
    if start == StartState::Free {
        return Err(Error::Flatten("a free start is not the stack's: say held or solved".into()));
    }
    let blocks = Blocks::new(stack.units()).start(start);
    rebuilt(stack, stack.delay() + stack.layers() - 1).blocks(blocks).build()
}

/// The parameters of a flattened stack.
pub fn flat_params<T: Copy + Default>(stack: &NetSpec, flat: &NetSpec, params: &[T]) -> Vec<T> {
    let mut to = vec![T::default(); flat.parameters()];
    each_row(stack, flat, |stack, flat| to[flat].copy_from_slice(&params[stack]));
    to
}

/// The parameters of the stack that a flattened one is.
fn stack_params(stack: &NetSpec, flat: &NetSpec, params: &[f32]) -> Vec<f32> {
    let mut to = vec![0.0; stack.parameters()];
    each_row(stack, flat, |stack, flat| to[stack].copy_from_slice(&params[flat]));
    to
}

/// Visits the rows of the stack's tensors with their places in the flattened layer: (range of the stack's
/// flat vector, range of the other's).
fn each_row(stack: &NetSpec, flat: &NetSpec, mut visit: impl FnMut(Range<usize>, Range<usize>)) {
    let (from, to) = (Layout::new(stack), Layout::new(flat));
    let Some(blocks) = flat.blocks() else { return };
    let (n, k) = (flat.units()[0], stack.layers());
    let mut row = |from: &Range<usize>, at: usize, to: &Range<usize>, to_at: usize, len: usize| {
        let (from, to) = (from.start + at, to.start + to_at);
        visit(from..from + len, to..to + len);
    };
    if let (Some(from), Some(to)) = (from.embedding(), to.embedding()) {
        row(&from, 0, &to, 0, from.len());
    }
    let [flat_ih, flat_hh, flat_b_ih, flat_b_hh] = to.layer(0, 0);
    for (layer, &width) in stack.units().iter().enumerate() {
        let [w_ih, w_hh, b_ih, b_hh] = from.layer(layer, 0);
        let (own, q) = (blocks.units(layer), stack.layer_input(layer));
        for gate in 0..stack.cell().gates() {
            for unit in 0..width {
                let (here, there) = (gate * width + unit, gate * n + own.start + unit);
                row(&w_hh, here * width, &flat_hh, there * n + own.start, width);
                if layer == 0 {
                    row(&w_ih, here * q, &flat_ih, there * q, q);
                    continue;
                }
                let below = blocks.units(layer - 1).start;
                if stack.cell().is_gru() && gate == 2 {
                    let ungated = to.recurrent(crate::spec::wiring::Matrix::Hu, 0, 0);
                    row(&w_ih, here * q, &ungated, (own.start + unit) * n + below, q);
                } else {
                    row(&w_ih, here * q, &flat_hh, there * n + below, q);
                }
            }
            row(&b_ih, gate * width, &flat_b_ih, gate * n + own.start, width);
            row(&b_hh, gate * width, &flat_b_hh, gate * n + own.start, width);
        }
    }
    if let (Some([w, b]), Some([to_w, to_b]), Some(m)) =
        (from.output(), to.output(), stack.outputs())
    {
        let last = blocks.units(k - 1);
        for i in 0..m {
            row(&w, i * last.len(), &to_w, i * n + last.start, last.len());
        }
        row(&b, 0, &to_b, 0, m);
    }
}
