//! A network on the command line, the same for every command:
//! `--net dlstm --layers 2 --units 128 --delay 5 --inputs 10 --outputs 3`; with `--blocks lower` the layers are
//! blocks of one.

use crate::Failure;
use crate::console::note;
use clap::{Args, ValueEnum};
use drnn::{Blocks, Cell, Connections, NetSpec, Padding, StartState};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The cell, and whether the network is bidirectional (bi) or delayed (d).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetworkKind {
    Rnn,
    Birnn,
    Drnn,
    Lstm,
    Bilstm,
    Dlstm,
    Gru,
    Bigru,
    Dgru,
}

/// Activation of a plain RNN.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Nonlinearity {
    Tanh,
    Relu,
}

/// Where the reset gate of a GRU multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Reset {
    /// The product of h, as PyTorch does
    After,
    /// h before its product, as ONNX and Keras may
    Before,
}

impl NetworkKind {
    pub fn cell(self, nonlinearity: Nonlinearity) -> Cell {
        match (self, nonlinearity) {
            (NetworkKind::Rnn | NetworkKind::Birnn | NetworkKind::Drnn, Nonlinearity::Tanh) => {
                Cell::RnnTanh
            }
            (NetworkKind::Rnn | NetworkKind::Birnn | NetworkKind::Drnn, Nonlinearity::Relu) => {
                Cell::RnnRelu
            }
            (NetworkKind::Lstm | NetworkKind::Bilstm | NetworkKind::Dlstm, _) => Cell::Lstm,
            (NetworkKind::Gru | NetworkKind::Bigru | NetworkKind::Dgru, _) => Cell::Gru,
        }
    }

    pub fn bidirectional(self) -> bool {
        matches!(self, NetworkKind::Birnn | NetworkKind::Bilstm | NetworkKind::Bigru)
    }

    pub fn delayed(self) -> bool {
        matches!(self, NetworkKind::Drnn | NetworkKind::Dlstm | NetworkKind::Dgru)
    }

    /// The same cell, unidirectional and without delay.
    pub fn plain(self) -> NetworkKind {
        match self {
            NetworkKind::Rnn | NetworkKind::Birnn | NetworkKind::Drnn => NetworkKind::Rnn,
            NetworkKind::Lstm | NetworkKind::Bilstm | NetworkKind::Dlstm => NetworkKind::Lstm,
            NetworkKind::Gru | NetworkKind::Bigru | NetworkKind::Dgru => NetworkKind::Gru,
        }
    }
}

impl fmt::Display for NetworkKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

/// A network on the command line.
#[derive(Debug, Args)]
pub struct NetworkArguments {
    /// Kind of network
    #[arg(long, value_enum, default_value = "dlstm")]
    net: NetworkKind,
    /// Number of layers, k [default: 1, or as many as --units names]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000))]
    layers: Option<u64>,
    /// Units per layer, n; or one number per layer: 128,64
    #[arg(long, value_delimiter = ',', default_value = "100")]
    units: Vec<usize>,
    /// Delay between an input and its output in steps, d [default: 5 for delayed networks]
    #[arg(long)]
    delay: Option<usize>,
    /// One layer in blocks instead of a stack, with these connections: stacked, lower, upper, all, or
    /// a list of to-from pairs such as 0-0,1-0,1-1; delayed networks only
    #[arg(long, value_name = "CONNECTIONS")]
    blocks: Option<Connections>,
    /// How the blocks start: one after another, or all at once [default: held]
    #[arg(long, value_enum, requires = "blocks")]
    block_start: Option<BlockStart>,
    /// What a delayed network reads after the end: null, look-ahead, or a token
    /// [default: null]
    #[arg(long, value_parser = parse_padding)]
    padding: Option<Padding>,
    /// Floats per input vector, q
    #[arg(long, default_value_t = 1, conflicts_with = "symbols")]
    inputs: usize,
    /// Token input: size of the alphabet, V
    #[arg(long, requires = "embedding")]
    symbols: Option<usize>,
    /// Token input: dimensions of the embedding, E
    #[arg(long, requires = "symbols")]
    embedding: Option<usize>,
    /// Values per output, m; without it the outputs are the last layer's states
    #[arg(long)]
    outputs: Option<usize>,
    /// Activation of a plain RNN [default: tanh]
    #[arg(long, value_enum)]
    nonlinearity: Option<Nonlinearity>,
    /// Where the reset gate of a GRU multiplies: h before its product, or the product [default: after]
    #[arg(long, value_enum)]
    reset: Option<Reset>,
    /// Width that an LSTM's states are projected to, as PyTorch's proj_size [default: none]
    #[arg(long, value_name = "P")]
    projection: Option<usize>,
}

/// How the blocks of a network start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BlockStart {
    Held,
    Free,
}

fn parse_padding(text: &str) -> Result<Padding, String> {
    match text {
        "null" => Ok(Padding::Null),
        "look-ahead" => Ok(Padding::LookAhead),
        id => id
            .parse()
            .map(Padding::Symbol)
            .map_err(|_| "expected null, look-ahead, or the number of a token".into()),
    }
}

/// Units of each layer, from --units and --layers.
pub fn layer_units(units: &[usize], layers: Option<usize>) -> Result<Vec<usize>, Failure> {
    match (units, layers) {
        ([n], layers) => Ok(vec![*n; layers.unwrap_or(1)]),
        (list, Some(layers)) if list.len() != layers => {
            let named = list.len();
            Err(Failure::Input(format!("--layers {layers}, but --units names {named} layers")))
        }
        (list, _) => Ok(list.to_vec()),
    }
}

/// The delay of a delayed network unless --delay or the data say another.
pub const DEFAULT_DELAY: usize = 5;

/// The delay from --delay, or `default`, which is said: only delayed networks have one.
pub fn checked_delay(
    net: NetworkKind,
    delay: Option<usize>,
    default: usize,
) -> Result<usize, Failure> {
    match (net.delayed(), delay) {
        (true, Some(delay)) => Ok(delay),
        (true, None) => {
            let late = match default {
                0 => "outputs come at once".into(),
                d => {
                    format!("the output for a step comes {} later", drnn::text::counted(d, "step"))
                }
            };
            note!("--delay {default}, the default here: {late}");
            Ok(default)
        }
        (false, None | Some(0)) => Ok(0),
        (false, Some(delay)) => {
            let kind = net.to_possible_value();
            let name = kind.as_ref().map_or("", |v| v.get_name());
            Err(Failure::Input(format!(
                "--delay {delay} with --net {name}: use drnn, dlstm or dgru for a delay"
            )))
        }
    }
}

impl NetworkArguments {
    /// The value of --nonlinearity.
    pub fn nonlinearity(&self) -> Option<Nonlinearity> {
        self.nonlinearity
    }

    /// Whether --nonlinearity relu was given.
    pub fn is_relu(&self) -> bool {
        self.nonlinearity == Some(Nonlinearity::Relu)
    }

    /// The network that the arguments describe.
    pub fn spec(&self) -> Result<NetSpec, Failure> {
        self.spec_up_to(usize::MAX)
    }

    /// Units of the widest layer.
    pub fn widest(&self) -> usize {
        self.units.iter().max().copied().unwrap_or(0)
    }

    /// The same network with at most `widest` units in a layer.
    pub fn spec_up_to(&self, widest: usize) -> Result<NetSpec, Failure> {
        let refuse = |message: String| Err(Failure::Input(message));
        let units = layer_units(&self.units, self.layers.map(|k| k as usize))?;
        let units: Vec<usize> = units.into_iter().map(|n| n.min(widest)).collect();
        if self.nonlinearity.is_some() && self.net.cell(Nonlinearity::Tanh) != Cell::RnnTanh {
            return refuse("--nonlinearity: only a plain RNN (rnn, birnn, drnn) has one".into());
        }
        let cell = self.net.cell(self.nonlinearity.unwrap_or(Nonlinearity::Tanh));
        let cell = match self.reset {
            Some(_) if cell != Cell::Gru => {
                return refuse("--reset: only a GRU (gru, bigru, dgru) has a reset gate".into());
            }
            Some(Reset::Before) => Cell::GruResetBefore,
            _ => cell,
        };
        if self.padding.is_some() && !self.net.delayed() {
            return refuse(
                "--padding: only a delayed network (drnn, dlstm, dgru) has padding".into(),
            );
        }
        let delay = checked_delay(self.net, self.delay, DEFAULT_DELAY)?;
        let mut builder = NetSpec::builder(cell);
        builder = match &self.blocks {
            None => builder.units(units),
            Some(_) if !self.net.delayed() => {
                return refuse(
                    "--blocks: only a delayed network (drnn, dlstm, dgru) has blocks".into(),
                );
            }
            Some(connections) => {
                let start = match self.block_start {
                    Some(BlockStart::Free) => StartState::Free,
                    _ => StartState::Held,
                };
                builder.blocks(Blocks::new(units).connections(connections.clone()).start(start))
            }
        };
        builder = match (self.symbols, self.embedding) {
            (Some(symbols), Some(embedding)) => builder.tokens(symbols, embedding),
            _ => builder.dense(self.inputs),
        };
        builder = builder.delay(delay, self.padding.unwrap_or(Padding::Null));
        if self.net.bidirectional() {
            builder = builder.bidirectional();
        }
        if let Some(p) = self.projection {
            builder = builder.projection(p);
        }
        if let Some(m) = self.outputs {
            builder = builder.outputs(m);
        }
        Ok(builder.build()?)
    }
}
