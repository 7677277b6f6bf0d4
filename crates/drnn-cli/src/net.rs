//! A network on the command line, the same for every command:
//! `--net dlstm --layers 2 --units 128 --delay 5 --inputs 10 --outputs 3`.

use crate::Failure;
use clap::{Args, ValueEnum};
use drnn::{Cell, NetSpec, Padding};

/// Kind of network: cell, and whether it reads both ways (bi) or answers late (d).
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
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

impl Kind {
    fn cell(self, nonlinearity: Nonlinearity) -> Cell {
        match (self, nonlinearity) {
            (Kind::Rnn | Kind::Birnn | Kind::Drnn, Nonlinearity::Tanh) => Cell::RnnTanh,
            (Kind::Rnn | Kind::Birnn | Kind::Drnn, Nonlinearity::Relu) => Cell::RnnRelu,
            (Kind::Lstm | Kind::Bilstm | Kind::Dlstm, _) => Cell::Lstm,
            (Kind::Gru | Kind::Bigru | Kind::Dgru, _) => Cell::Gru,
        }
    }

    fn bidirectional(self) -> bool {
        matches!(self, Kind::Birnn | Kind::Bilstm | Kind::Bigru)
    }

    fn delayed(self) -> bool {
        matches!(self, Kind::Drnn | Kind::Dlstm | Kind::Dgru)
    }
}

/// The network.
#[derive(Debug, Args)]
pub struct Net {
    /// Kind of network
    #[arg(long, value_enum, default_value = "dlstm")]
    net: Kind,
    /// Number of layers, k
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    layers: u64,
    /// Units per layer, n; or one number per layer: 128,64
    #[arg(long, value_delimiter = ',', default_value = "100")]
    units: Vec<usize>,
    /// Steps between an input and its answer, d
    #[arg(long)]
    delay: Option<usize>,
    /// What a delayed network reads after the end: null, look-ahead, or the number of a symbol
    #[arg(long, default_value = "null", value_parser = parse_padding)]
    padding: Padding,
    /// Floats per input vector, q
    #[arg(long, default_value_t = 1, conflicts_with = "symbols")]
    inputs: usize,
    /// Token input: size of the alphabet, V
    #[arg(long, requires = "embedding")]
    symbols: Option<usize>,
    /// Token input: dimensions of the embedding, E
    #[arg(long, requires = "symbols")]
    embedding: Option<usize>,
    /// Values per answer, m; without it the answers are the last layer's states
    #[arg(long)]
    outputs: Option<usize>,
    /// Activation of a plain RNN
    #[arg(long, value_enum, default_value = "tanh")]
    nonlinearity: Nonlinearity,
}

fn parse_padding(text: &str) -> Result<Padding, String> {
    match text {
        "null" => Ok(Padding::Null),
        "look-ahead" => Ok(Padding::LookAhead),
        id => id
            .parse()
            .map(Padding::Symbol)
            .map_err(|_| "expected null, look-ahead, or the number of a symbol".into()),
    }
}

impl Net {
    /// The network that the arguments describe.
    pub fn spec(&self) -> Result<NetSpec, Failure> {
        let layers = self.layers as usize;
        let units = match self.units.as_slice() {
            [n] => vec![*n; layers],
            list if self.layers == 1 || list.len() == layers => list.to_vec(),
            list => {
                let message = format!("--layers {layers}, but --units names {} layers", list.len());
                return Err(Failure::Input(message));
            }
        };
        let delay = match (self.net.delayed(), self.delay) {
            (true, Some(delay)) => delay,
            (true, None) => {
                let message = "a delayed network needs --delay D, the steps it answers late";
                return Err(Failure::Input(message.into()));
            }
            (false, None | Some(0)) => 0,
            (false, Some(delay)) => {
                let kind = self.net.to_possible_value();
                let name = kind.as_ref().map_or("", |v| v.get_name());
                let message = format!(
                    "--delay {delay} with --net {name}: for a delay say drnn, dlstm or dgru"
                );
                return Err(Failure::Input(message));
            }
        };
        let mut builder = NetSpec::builder(self.net.cell(self.nonlinearity)).units(units);
        builder = match (self.symbols, self.embedding) {
            (Some(symbols), Some(embedding)) => builder.tokens(symbols, embedding),
            _ => builder.dense(self.inputs),
        };
        builder = builder.delay(delay, self.padding);
        if self.net.bidirectional() {
            builder = builder.bidirectional();
        }
        if let Some(m) = self.outputs {
            builder = builder.outputs(m);
        }
        Ok(builder.build()?)
    }
}
