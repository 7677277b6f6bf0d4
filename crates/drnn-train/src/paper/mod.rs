//! The networks of the paper's synthetic experiments: LSTM, Bi-LSTM and d-LSTM of about as many parameters.

pub mod reversal;
pub mod sine;

use drnn::{Cell, NetSpec, Padding, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum PaperNet {
    /// 100 units.
    Lstm,
    /// 70 units per direction.
    BiLstm,
    /// 100 units, and this delay; zeros are read after the end.
    DLstm(usize),
}

impl PaperNet {
    /// The network for inputs of q values and outputs of m.
    pub fn spec(self, q: usize, m: usize) -> Result<NetSpec> {
        let builder = NetSpec::builder(Cell::Lstm).dense(q).outputs(m);
        match self {
            PaperNet::Lstm => builder.units([100]),
            PaperNet::BiLstm => builder.units([70]).bidirectional(),
            PaperNet::DLstm(delay) => builder.units([100]).delay(delay, Padding::Null),
        }
        .build()
    }

    /// Elements that it reads after the one it predicts, in a sequence of `steps`.
    pub fn ahead(self, steps: usize) -> usize {
        match self {
            PaperNet::Lstm => 0,
            PaperNet::BiLstm => steps - 1,
            PaperNet::DLstm(delay) => delay.min(steps - 1),
        }
    }
}

impl fmt::Display for PaperNet {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            PaperNet::Lstm => f.pad("lstm"),
            PaperNet::BiLstm => f.pad("bilstm"),
            PaperNet::DLstm(delay) => f.pad(&format!("dlstm-{delay}")),
        }
    }
}

impl FromStr for PaperNet {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<PaperNet, String> {
        match text {
            "lstm" => Ok(PaperNet::Lstm),
            "bilstm" => Ok(PaperNet::BiLstm),
            _ => text
                .strip_prefix("dlstm-")
                .and_then(|delay| delay.parse().ok())
                .map(PaperNet::DLstm)
                .ok_or_else(|| format!("`{text}`: expected lstm, bilstm or dlstm-DELAY")),
        }
    }
}

impl From<PaperNet> for String {
    fn from(net: PaperNet) -> String {
        net.to_string()
    }
}

impl TryFrom<String> for PaperNet {
    type Error = String;
    fn try_from(text: String) -> std::result::Result<PaperNet, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sizes() {
        for net in [PaperNet::Lstm, PaperNet::BiLstm, PaperNet::DLstm(7)] {
            assert_eq!(net.to_string().parse(), Ok(net));
            let spec = net.spec(4, 4).unwrap();
            assert!((40_000..44_000).contains(&spec.parameters()), "{spec}");
        }
        assert!("dlstm".parse::<PaperNet>().unwrap_err().contains("dlstm-DELAY"));
    }
}
