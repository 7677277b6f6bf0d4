//! Results of `drnn reproduce runtime`: the file and its table.

use super::Provenance;
use super::mlm::title;
use super::page::Table;
use drnn_train::chars::paper::Row;
use serde::{Deserialize, Serialize};

/// The contents of runtime.json.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuntimeResults {
    /// "runtime".
    pub kind: String,
    /// 1.
    pub format: u64,
    pub provenance: Provenance,
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

    /// Checks that the values make sense.
    pub fn check(&self) -> Result<(), String> {
        self.row.parse::<Row>()?;
        match self.seconds.iter().all(|s| s.is_finite() && *s > 0.0) && !self.seconds.is_empty() {
            true => Ok(()),
            false => Err(format!("{}: times are {:?}", self.row, self.seconds)),
        }
    }
}

impl RuntimeResults {
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
        for bad in [time("small", &[1.0]), time("small-lstm", &[]), time("small-lstm", &[0.0])] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
