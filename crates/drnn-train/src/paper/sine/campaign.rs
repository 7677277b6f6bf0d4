//! The paper's map of errors over (gamma, a): thousands of small trainings, one per cell.
//!
//! ```text
//! cell (gamma, a, net, set) -> data of (gamma, a, set) -> training -> test MSE
//! ```
//!
//! A cell's result depends on the campaign's options, on the cell and on the type of engine that trains
//! it: not on threads, on the order, or on which machine trained which shard. Results are appended to a
//! [`Results`](super::results::Results) file; trainings in progress have [`Checkpoints`].

pub use super::pool::{CellEngine, Checkpoints, Event, MakeEngine, Pool, run, run_pools};
use crate::optim::Stopping;
use crate::paper::PaperNet;
use crate::seed;
use crate::training::Options;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// gamma in tenths, so that cells can be counted and compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Gamma(u32);

impl Gamma {
    /// The largest value, in tenths.
    const MAX: u32 = 100;

    /// This many tenths; None where that is nothing or above 10.
    pub fn tenths(tenths: u32) -> Option<Gamma> {
        (1..=Gamma::MAX).contains(&tenths).then_some(Gamma(tenths))
    }
}

impl From<Gamma> for f64 {
    fn from(gamma: Gamma) -> f64 {
        f64::from(gamma.0) / 10.0
    }
}

impl TryFrom<f64> for Gamma {
    type Error = String;
    fn try_from(value: f64) -> std::result::Result<Gamma, String> {
        let tenths = (value * 10.0).round();
        Gamma::tenths(tenths as u32)
            .filter(|gamma| (f64::from(*gamma) - value).abs() < 1e-9)
            .ok_or_else(|| format!("gamma {value}: expected a multiple of 0.1 from 0.1 to 10"))
    }
}

impl FromStr for Gamma {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Gamma, String> {
        text.parse::<f64>().map_err(|e| format!("gamma `{text}`: {e}"))?.try_into()
    }
}

impl fmt::Display for Gamma {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(&format!("{:.1}", f64::from(*self)))
    }
}

/// One training of a campaign. Their order is that of the work: a whole map first, then its repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GridCell {
    /// Which data set, from 0.
    pub set: u64,
    /// Frequency.
    pub gamma: Gamma,
    /// Acausal taps, a.
    pub ahead: usize,
    /// Network.
    pub net: PaperNet,
}

impl fmt::Display for GridCell {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let GridCell { set, gamma, ahead, net } = self;
        write!(f, "gamma {gamma} a {ahead} {net} set {set}")
    }
}

/// All cells of these, in order.
pub fn grid(pairs: &[(Gamma, usize)], nets: &[PaperNet], sets: &[u64]) -> Vec<GridCell> {
    let mut cells = Vec::new();
    for &set in sets {
        for &(gamma, ahead) in pairs {
            cells.extend(nets.iter().map(|&net| GridCell { set, gamma, ahead, net }));
        }
    }
    cells.sort_unstable();
    cells.dedup();
    cells
}

/// A part of the cells: the `index`-th, counted from 1, and every `count`-th after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which, from 1.
    pub index: usize,
    /// Of how many.
    pub count: usize,
}

impl Shard {
    /// Its cells.
    pub fn of(self, cells: &[GridCell]) -> Vec<GridCell> {
        cells.iter().skip(self.index - 1).step_by(self.count).copied().collect()
    }
}

impl FromStr for Shard {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Shard, String> {
        let parts =
            text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match parts {
            Some((index, count)) if (1..=count).contains(&index) => Ok(Shard { index, count }),
            _ => Err(format!("`{text}`: expected I/N with I from 1 to N, as in 2/8")),
        }
    }
}

/// Everything but the cell that a result depends on.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Protocol {
    /// Number of training, validation and test sequences.
    pub sequences: [usize; 3],
    /// How each network is trained. The seed is the campaign's; every cell derives its own from it.
    pub training: Options,
}

impl Default for Protocol {
    /// The paper's: 10,000 + 2,000 + 2,000 sequences, up to 1,000 epochs, until the error is below 1e-5.
    fn default() -> Protocol {
        let stopping = Stopping { at_value: Some(1e-5), ..Stopping::default() };
        let training = Options { stopping, ..Options::default() };
        Protocol { sequences: [10_000, 2_000, 2_000], training }
    }
}

impl Protocol {
    /// The seed of a cell's data: the same for all networks.
    pub fn set_seed(&self, cell: &GridCell) -> u64 {
        seed::derive(self.training.seed, &[cell.gamma.0.into(), cell.ahead as u64, cell.set])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gammas_are_tenths() {
        assert_eq!("0.3".parse(), Gamma::tenths(3).ok_or(String::new()));
        assert_eq!(Gamma::tenths(50).unwrap().to_string(), "5.0");
        for text in ["0", "0.25", "-1", "10.1", "nan", "inf", "x", "1e300"] {
            assert!(text.parse::<Gamma>().is_err(), "{text}");
        }
        for tenths in 1..=100 {
            let gamma = Gamma::tenths(tenths).unwrap();
            let json = serde_json::to_string(&gamma).unwrap();
            assert_eq!(serde_json::from_str::<Gamma>(&json).unwrap(), gamma);
        }
    }

    #[test]
    fn the_papers_grid_and_its_shards() {
        let gammas = (1..=50).filter_map(Gamma::tenths);
        let pairs: Vec<_> = gammas.flat_map(|gamma| (0..=10).map(move |a| (gamma, a))).collect();
        let nets = [PaperNet::Lstm, PaperNet::BiLstm, PaperNet::DLstm(5), PaperNet::DLstm(10)];
        let cells = grid(&pairs, &nets, &[0, 1, 2, 3, 4]);
        assert_eq!(cells.len(), 11_000);
        let mut shards: Vec<_> =
            (1..=7).flat_map(|index| Shard { index, count: 7 }.of(&cells)).collect();
        shards.sort_unstable();
        assert_eq!(shards, cells);
        assert_eq!("2/8".parse(), Ok(Shard { index: 2, count: 8 }));
        for text in ["0/3", "4/3", "1/0", "1", "/", "a/b"] {
            assert!(text.parse::<Shard>().unwrap_err().contains("I/N"), "{text}");
        }
    }

    #[test]
    fn networks_share_data_and_nothing_else_does() {
        let protocol = Protocol::default();
        let cell = |tenths, ahead, set, net| {
            let gamma = Gamma::tenths(tenths).unwrap();
            protocol.set_seed(&GridCell { set, gamma, ahead, net })
        };
        let one = cell(1, 2, 3, PaperNet::Lstm);
        assert_eq!(one, cell(1, 2, 3, PaperNet::DLstm(5)));
        for other in [(2, 2, 3), (1, 3, 3), (1, 2, 4), (2, 1, 3)] {
            assert_ne!(one, cell(other.0, other.1, other.2, PaperNet::Lstm));
        }
    }
}
