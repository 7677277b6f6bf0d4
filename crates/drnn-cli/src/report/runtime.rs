//! Results of `drnn reproduce runtime`: the file and its table.

use super::Provenance;
use super::mlm::title;
use super::page::Table;
use drnn_train::chars::paper::Row;
use serde::{Deserialize, Serialize};

/// The contents of runtime.json.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuntimeResults {
    /// [`RuntimeResults::KIND`].
    pub kind: String,
    /// [`RuntimeResults::FORMAT`].
    pub format: u64,
    pub provenance: Provenance,
    pub times: Vec<ForwardTime>,
    /// The same networks in other software, timed in turn with ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
}

/// Times of other software.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// With its version.
    pub name: String,
    /// Each pass follows or precedes one of ours of the same number.
    pub times: Vec<ForwardTime>,
}

/// Forward passes of one network over one batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ForwardTime {
    /// A name of [`Row`].
    pub row: String,
    /// Each pass: device events on a GPU, wall-clock time on a CPU.
    pub seconds: Vec<f64>,
}

impl ForwardTime {
    /// In seconds.
    pub fn median(&self) -> f64 {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        if n == 0 { f64::NAN } else { (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0 }
    }

    /// How many times as long as `ours` it takes: the median over passes, which are neighbours in time.
    pub fn ratio(&self, ours: &ForwardTime) -> f64 {
        let passes = self.seconds.iter().zip(&ours.seconds);
        let seconds = passes.map(|(other, ours)| other / ours).collect();
        ForwardTime { row: self.row.clone(), seconds }.median()
    }

    /// By how much the middle half of the passes differs, as a share of their median.
    pub fn scatter(&self) -> f64 {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted.get((share * (sorted.len() as f64 - 1.0)).round() as usize);
        match (at(0.25), at(0.75)) {
            (Some(low), Some(high)) => (high - low) / self.median(),
            _ => f64::NAN,
        }
    }

    /// Checks that the values make sense.
    pub fn check(&self) -> Result<(), String> {
        self.row.parse::<Row>()?;
        match self.seconds.iter().all(|s| s.is_finite() && *s > 0.0) && !self.seconds.is_empty() {
            true => Ok(()),
            false => Err(format!("{}: times are {:?}", self.row, self.seconds)),
        }
    }
}

/// Checks times of a run, and those of other software next to them.
pub fn check(times: &[ForwardTime], peer: Option<&Peer>) -> Result<(), String> {
    times.iter().try_for_each(ForwardTime::check)?;
    let Some(Peer { name, times: others }) = peer else { return Ok(()) };
    others.iter().try_for_each(ForwardTime::check)?;
    let passes = |of: &[ForwardTime]| -> Vec<(String, usize)> {
        of.iter().map(|time| (time.row.clone(), time.seconds.len())).collect()
    };
    match passes(times) == passes(others) {
        true => Ok(()),
        false => Err(format!("{name}: has other networks or another number of passes than ours")),
    }
}

impl RuntimeResults {
    pub const KIND: &'static str = "runtime";
    pub const FORMAT: u64 = 1;

    /// For a terminal.
    pub fn table(&self) -> String {
        let row = |time: &ForwardTime| {
            let row: Option<Row> = time.row.parse().ok();
            let printed = row.and_then(|row| row.printed).map(|printed| printed.runtime[0]);
            vec![
                row.map_or_else(|| time.row.clone(), |row| title(&row)),
                format!("{:.2}", 1e3 * time.median()),
                printed.map_or(String::new(), |ms| format!("{ms:.2}")),
            ]
        };
        let head = ["network", "ms", "paper, printed"].map(String::from).into();
        Table { caption: String::new(), head, rows: self.times.iter().map(row).collect() }.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_checks() {
        let time =
            |row: &str, seconds: &[f64]| ForwardTime { row: row.into(), seconds: seconds.to_vec() };
        assert_eq!(time("small-lstm", &[3.0, 1.0, 9.0]).median(), 3.0);
        assert_eq!(time("small-lstm", &[3.0, 1.0]).median(), 2.0);
        assert_eq!(time("small-lstm", &[1.0]).check(), Ok(()));
        let ours = time("small-lstm", &[1.0, 2.0, 4.0]);
        assert_eq!(time("small-lstm", &[3.0, 4.0, 16.0]).ratio(&ours), 3.0);
        assert_eq!(time("small-lstm", &[1.0, 3.0, 2.0, 2.5, 1.5]).scatter(), 0.5);
        let peer = |times: Vec<ForwardTime>| Peer { name: "PyTorch 2".into(), times };
        let times = [ours.clone()];
        assert_eq!(check(&times, Some(&peer(times.to_vec()))), Ok(()));
        for bad in [time("small-lstm", &[1.0]), time("large-lstm", &[1.0, 2.0, 4.0])] {
            let why = check(&times, Some(&peer(vec![bad]))).unwrap_err();
            assert!(why.starts_with("PyTorch 2: has other networks"), "{why}");
        }
        for bad in [time("small", &[1.0]), time("small-lstm", &[]), time("small-lstm", &[0.0])] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
