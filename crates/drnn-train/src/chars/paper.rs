//! The networks of the paper's table of masked characters, by name, and what it prints of them.
//!
//! ```text
//! small-lstm-2      size, net, layers        small-dlstm-8      size, net, delay
//! ```
//!
//! A number of layers that is 1 is left out. Networks of size `quick` are ours: about a fifteenth of a small one.

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
    /// Answers late; one layer.
    DLstm,
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
}

/// `number` is the delay of a d-LSTM, the layers of others.
const fn row(
    size: Size,
    net: Architecture,
    number: usize,
    units: usize,
    parameters: usize,
    valid: [f64; 2],
    test: [f64; 2],
) -> Row {
    let (layers, delay) = match net {
        Architecture::DLstm => (1, number),
        _ => (number, 0),
    };
    Row { size, net, layers, delay, units, printed: Some(Printed { parameters, valid, test }) }
}

use Architecture::{BiLstm, DLstm, Lstm};
use Size::{Large, Small};

/// The paper's table.
#[rustfmt::skip]
pub const ROWS: [Row; 23] = [
    row(Large, Lstm, 1, 1024, 4271411, [2.003, 0.003], [2.075, 0.002]),
    row(Large, Lstm, 2, 594, 4283641, [2.015, 0.005], [2.087, 0.005]),
    row(Large, Lstm, 5, 343, 4272372, [2.091, 0.016], [2.155, 0.014]),
    row(Large, BiLstm, 1, 722, 4278879, [0.977, 0.004], [1.037, 0.004]),
    row(Large, BiLstm, 2, 363, 4277173, [0.633, 0.003], [0.677, 0.002]),
    row(Large, BiLstm, 5, 202, 4287151, [0.637, 0.003], [0.677, 0.004]),
    row(Large, DLstm, 1, 1024, 4271411, [1.332, 0.001], [1.390, 0.001]),
    row(Large, DLstm, 5, 1024, 4271411, [0.708, 0.005], [0.755, 0.004]),
    row(Large, DLstm, 8, 1024, 4271411, [0.662, 0.002], [0.706, 0.003]),
    row(Large, DLstm, 10, 1024, 4271411, [0.666, 0.004], [0.709, 0.004]),
    row(Small, Lstm, 1, 512, 1087283, [2.139, 0.005], [2.195, 0.002]),
    row(Small, Lstm, 2, 298, 1090689, [2.156, 0.003], [2.215, 0.002]),
    row(Small, Lstm, 5, 172, 1083735, [2.199, 0.016], [2.255, 0.015]),
    row(Small, BiLstm, 1, 360, 1091107, [1.130, 0.003], [1.187, 0.004]),
    row(Small, BiLstm, 2, 182, 1090487, [0.800, 0.004], [0.846, 0.005]),
    row(Small, BiLstm, 5, 102, 1104151, [0.796, 0.007], [0.841, 0.006]),
    row(Small, DLstm, 1, 512, 1087283, [1.470, 0.002], [1.518, 0.003]),
    row(Small, DLstm, 2, 512, 1087283, [1.162, 0.004], [1.208, 0.003]),
    row(Small, DLstm, 3, 512, 1087283, [0.995, 0.002], [1.039, 0.002]),
    row(Small, DLstm, 5, 512, 1087283, [0.877, 0.001], [0.920, 0.003]),
    row(Small, DLstm, 8, 512, 1087283, [0.859, 0.002], [0.905, 0.003]),
    row(Small, DLstm, 10, 512, 1087283, [0.889, 0.004], [0.935, 0.005]),
    row(Small, DLstm, 15, 512, 1087283, [0.971, 0.004], [1.014, 0.002]),
];

/// Symbols of text8: the space, the letters.
pub const TEXT8: &str = " abcdefghijklmnopqrstuvwxyz";

impl Row {
    /// The network, for text8.
    pub fn spec(&self) -> drnn::Result<NetSpec> {
        let symbols = TEXT8.len();
        let builder = NetSpec::builder(Cell::Lstm).tokens(symbols + 1, EMBEDDING).outputs(symbols);
        let builder = builder.units(vec![self.units; self.layers]);
        match self.net {
            Lstm => builder,
            BiLstm => builder.bidirectional(),
            DLstm => builder.delay(self.delay, Padding::LookAhead),
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
        };
        match (self.net, self.layers) {
            (DLstm, _) => write!(f, "{size}-{net}-{}", self.delay),
            (_, 1) => write!(f, "{size}-{net}"),
            (_, layers) => write!(f, "{size}-{net}-{layers}"),
        }
    }
}

impl FromStr for Row {
    type Err = String;
    fn from_str(text: &str) -> Result<Row, String> {
        if let Some(row) = ROWS.iter().find(|row| row.to_string() == text) {
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
                let names: Vec<String> = ROWS.iter().map(Row::to_string).collect();
                Err(format!(
                    "`{text}`: expected quick-lstm, quick-bilstm, quick-dlstm-DELAY, or of the paper's {}",
                    names.join(", ")
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
