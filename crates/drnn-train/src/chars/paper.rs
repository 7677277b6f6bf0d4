//! The networks of the paper's table of masked characters, by name, and what it prints of them.
//!
//! ```text
//! small-lstm-2      size, net, layers        small-dlstm-8      size, net, delay
//! ```
//!
//! A number of layers that is 1 is left out; a d-LSTM of several layers has it after its delay:
//! `small-dlstm-8-2`. Networks of size `quick` are ours: about a fifteenth of a small one. So are
//! those of [`BEYOND`].

use super::EMBEDDING;
use drnn::{Cell, NetSpec, Padding};
use std::fmt;
use std::str::FromStr;

/// About how large a network is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Size {
    /// 75 thousand parameters, not the paper's.
    Quick,
    /// 1.1 million.
    Small,
    /// 4.3 million.
    Large,
}

/// Its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// Answers at once.
    Lstm,
    /// Reads both ways.
    BiLstm,
    /// Answers late; the paper's have one layer.
    DLstm,
    /// A GRU that answers late; not the paper's.
    DGru,
    /// A tanh RNN that answers late; not the paper's.
    DRnn,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// About how large.
    pub size: Size,
    /// Kind.
    pub net: Architecture,
    /// Layers.
    pub layers: usize,
    /// Delay in steps.
    pub delay: usize,
    /// Per layer and direction.
    pub units: usize,
    /// What the paper prints.
    pub printed: Option<Printed>,
}

/// BPC as the paper prints it, mean and standard deviation of five: divided by too much where there is a delay
/// ([`super::corrected_bpc`]).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Printed {
    /// Parameters.
    pub parameters: usize,
    /// On the validation set.
    pub valid: [f64; 2],
    /// On the test set.
    pub test: [f64; 2],
    /// Milliseconds of a forward pass, mean and standard deviation: host times around an asynchronous call, not
    /// compute times.
    pub runtime: [f64; 2],
}

/// `number` is the delay of a d-LSTM, the layers of others.
#[allow(clippy::too_many_arguments, reason = "the columns of the table")]
const fn row(
    size: Size,
    net: Architecture,
    number: usize,
    units: usize,
    parameters: usize,
    valid: [f64; 2],
    test: [f64; 2],
    runtime: [f64; 2],
) -> Row {
    let (layers, delay) = match net {
        Architecture::DLstm => (1, number),
        _ => (number, 0),
    };
    Row {
        size,
        net,
        layers,
        delay,
        units,
        printed: Some(Printed { parameters, valid, test, runtime }),
    }
}

use Architecture::{BiLstm, DGru, DLstm, DRnn, Lstm};
use Size::{Large, Small};

/// The paper's table.
#[rustfmt::skip]
pub const ROWS: [Row; 23] = [
    row(Large, Lstm, 1, 1024, 4271411, [2.003, 0.003], [2.075, 0.002], [3.44, 0.09]),
    row(Large, Lstm, 2, 594, 4283641, [2.015, 0.005], [2.087, 0.005], [4.93, 0.13]),
    row(Large, Lstm, 5, 343, 4272372, [2.091, 0.016], [2.155, 0.014], [17.22, 0.62]),
    row(Large, BiLstm, 1, 722, 4278879, [0.977, 0.004], [1.037, 0.004], [4.97, 0.07]),
    row(Large, BiLstm, 2, 363, 4277173, [0.633, 0.003], [0.677, 0.002], [13.72, 0.31]),
    row(Large, BiLstm, 5, 202, 4287151, [0.637, 0.003], [0.677, 0.004], [29.18, 0.23]),
    row(Large, DLstm, 1, 1024, 4271411, [1.332, 0.001], [1.390, 0.001], [3.29, 0.22]),
    row(Large, DLstm, 5, 1024, 4271411, [0.708, 0.005], [0.755, 0.004], [3.39, 0.08]),
    row(Large, DLstm, 8, 1024, 4271411, [0.662, 0.002], [0.706, 0.003], [3.36, 0.08]),
    row(Large, DLstm, 10, 1024, 4271411, [0.666, 0.004], [0.709, 0.004], [3.56, 0.10]),
    row(Small, Lstm, 1, 512, 1087283, [2.139, 0.005], [2.195, 0.002], [2.85, 0.14]),
    row(Small, Lstm, 2, 298, 1090689, [2.156, 0.003], [2.215, 0.002], [6.69, 0.27]),
    row(Small, Lstm, 5, 172, 1083735, [2.199, 0.016], [2.255, 0.015], [11.32, 0.05]),
    row(Small, BiLstm, 1, 360, 1091107, [1.130, 0.003], [1.187, 0.004], [5.82, 0.18]),
    row(Small, BiLstm, 2, 182, 1090487, [0.800, 0.004], [0.846, 0.005], [11.08, 0.59]),
    row(Small, BiLstm, 5, 102, 1104151, [0.796, 0.007], [0.841, 0.006], [23.94, 0.17]),
    row(Small, DLstm, 1, 512, 1087283, [1.470, 0.002], [1.518, 0.003], [2.80, 0.02]),
    row(Small, DLstm, 2, 512, 1087283, [1.162, 0.004], [1.208, 0.003], [2.81, 0.01]),
    row(Small, DLstm, 3, 512, 1087283, [0.995, 0.002], [1.039, 0.002], [3.02, 0.23]),
    row(Small, DLstm, 5, 512, 1087283, [0.877, 0.001], [0.920, 0.003], [3.01, 0.22]),
    row(Small, DLstm, 8, 512, 1087283, [0.859, 0.002], [0.905, 0.003], [3.04, 0.19]),
    row(Small, DLstm, 10, 512, 1087283, [0.889, 0.004], [0.935, 0.005], [3.22, 0.18]),
    row(Small, DLstm, 15, 512, 1087283, [0.971, 0.004], [1.014, 0.002], [3.17, 0.05]),
];

/// A small network that the paper does not have, with about as many parameters as its small ones.
const fn beyond(net: Architecture, delay: usize, layers: usize, units: usize) -> Row {
    Row { size: Small, net, layers, delay, units, printed: None }
}

/// Networks that the paper does not have: other cells, and a stack with a delay.
pub const BEYOND: [Row; 6] = [
    beyond(DGru, 5, 1, 591),
    beyond(DGru, 8, 1, 591),
    beyond(DRnn, 5, 1, 1023),
    beyond(DRnn, 8, 1, 1023),
    beyond(DLstm, 5, 2, 298),
    beyond(DLstm, 8, 2, 298),
];

/// Symbols of text8: the space, the letters.
pub const TEXT8: &str = " abcdefghijklmnopqrstuvwxyz";

impl Row {
    /// The network, for text8.
    pub fn spec(&self) -> drnn::Result<NetSpec> {
        let symbols = TEXT8.len();
        let cell = match self.net {
            DGru => Cell::Gru,
            DRnn => Cell::RnnTanh,
            Lstm | BiLstm | DLstm => Cell::Lstm,
        };
        let builder = NetSpec::builder(cell).tokens(symbols + 1, EMBEDDING).outputs(symbols);
        let builder = builder.units(vec![self.units; self.layers]);
        match self.net {
            Lstm => builder,
            BiLstm => builder.bidirectional(),
            DLstm | DGru | DRnn => builder.delay(self.delay, Padding::LookAhead),
        }
        .build()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let size = match self.size {
            Size::Quick => "quick",
            Small => "small",
            Large => "large",
        };
        let net = match self.net {
            Lstm => "lstm",
            BiLstm => "bilstm",
            DLstm => "dlstm",
            DGru => "dgru",
            DRnn => "drnn",
        };
        write!(f, "{size}-{net}")?;
        if matches!(self.net, DLstm | DGru | DRnn) {
            write!(f, "-{}", self.delay)?;
        }
        match self.layers {
            1 => Ok(()),
            layers => write!(f, "-{layers}"),
        }
    }
}

impl FromStr for Row {
    type Err = String;
    fn from_str(text: &str) -> Result<Row, String> {
        if let Some(row) = ROWS.iter().chain(&BEYOND).find(|row| row.to_string() == text) {
            return Ok(*row);
        }
        let quick = |net, delay, units| Row {
            size: Size::Quick,
            net,
            layers: 1,
            delay,
            units,
            printed: None,
        };
        let delay = |text: &str| text.parse().ok().filter(|delay| (1..=100).contains(delay));
        match (text, text.strip_prefix("quick-dlstm-").and_then(delay)) {
            ("quick-lstm", _) => Ok(quick(Lstm, 0, 128)),
            ("quick-bilstm", _) => Ok(quick(BiLstm, 0, 88)),
            (_, Some(delay)) => Ok(quick(DLstm, delay, 128)),
            _ => {
                let names = |rows: &[Row]| {
                    rows.iter().map(Row::to_string).collect::<Vec<String>>().join(", ")
                };
                Err(format!(
                    "`{text}`: expected quick-lstm, quick-bilstm, quick-dlstm-DELAY, of the paper's {}, \
                     or {}",
                    names(&ROWS),
                    names(&BEYOND)
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sizes() {
        for row in ROWS {
            assert_eq!(row.to_string().parse(), Ok(row));
            assert_eq!(Some(row.spec().unwrap().parameters()), row.printed.map(|p| p.parameters));
        }
        for row in BEYOND {
            assert_eq!(row.to_string().parse(), Ok(row));
            let parameters = row.spec().unwrap().parameters();
            assert!((1_083_000..1_092_000).contains(&parameters), "{row}: {parameters}");
        }
        let names: Vec<String> = ROWS.iter().map(Row::to_string).collect();
        for name in ["large-lstm", "large-bilstm-2", "small-dlstm-15", "small-lstm-5"] {
            assert!(names.iter().any(|other| other == name), "{name}");
        }
        for name in ["quick-lstm", "quick-bilstm", "quick-dlstm-7"] {
            let row: Row = name.parse().unwrap();
            assert_eq!(row.to_string(), name);
            assert!((75_000..76_000).contains(&row.spec().unwrap().parameters()), "{name}");
        }
        for name in ["", "small", "small-dlstm-4", "quick-dlstm-0", "quick-lstm-2"] {
            assert!(name.parse::<Row>().unwrap_err().contains("small-dlstm-8"), "{name}");
        }
    }
}
