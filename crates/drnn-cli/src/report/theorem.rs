//! Results of `drnn reproduce theorem`: the file, its tables and its check.

use super::Head;
use crate::Failure;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// Maximum accepted differences.
pub const F32_TOLERANCE: f64 = 1e-5;
pub const F64_TOLERANCE: f64 = 1e-12;
/// Networks per entry of the second table, and their units per layer.
pub const DRAWN: usize = 200;
pub const DRAWN_UNITS: usize = 8;

/// The contents of theorem.json.
#[derive(Debug, Serialize)]
pub struct TheoremResults {
    #[serde(flatten)]
    pub head: Head,
    pub f32_tolerance: f64,
    pub f64_tolerance: f64,
    pub theorem: Vec<Entry>,
    pub solved: Vec<Solved>,
}

/// One network: largest differences between the stack and its flattened form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub cell: String,
    pub units: Vec<usize>,
    pub layers: usize,
    /// A column of the table.
    pub widths: String,
    pub f32_answers: f64,
    pub f32_states: f64,
    pub f64_answers: f64,
    pub f64_states: f64,
}

/// How many networks of a kind have a solved start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Solved {
    pub cell: String,
    pub layers: usize,
    pub networks: usize,
    /// From zero states.
    pub from_zeros: usize,
    /// From states that the network reaches on random input.
    pub from_states: usize,
    /// The reason of the first failure.
    pub reason: Option<String>,
}

impl Entry {
    pub fn passes(&self) -> bool {
        self.f32_answers.max(self.f32_states) <= F32_TOLERANCE
            && self.f64_answers.max(self.f64_states) <= F64_TOLERANCE
    }
}

impl TheoremResults {
    pub fn check(&self) -> Result<(), Failure> {
        let failed: Vec<_> = self.theorem.iter().filter(|entry| !entry.passes()).collect();
        let Some(first) = failed.first() else { return Ok(()) };
        Err(Failure::Check(format!(
            "{} of {} networks differ from their flattened form, the first a {} of {:?} units",
            failed.len(),
            self.theorem.len(),
            first.cell,
            first.units
        )))
    }

    pub fn theorem_csv(&self) -> String {
        let mut csv =
            String::from("cell,layers,units,f32_answers,f32_states,f64_answers,f64_states\n");
        for e in &self.theorem {
            let units: Vec<_> = e.units.iter().map(usize::to_string).collect();
            let _ = writeln!(
                csv,
                "{},{},{},{:e},{:e},{:e},{:e}",
                e.cell,
                e.layers,
                units.join("+"),
                e.f32_answers,
                e.f32_states,
                e.f64_answers,
                e.f64_states
            );
        }
        csv
    }

    pub fn solved_csv(&self) -> String {
        let mut csv = String::from("cell,layers,networks,from_zeros,from_states\n");
        for s in &self.solved {
            let _ = writeln!(
                csv,
                "{},{},{},{},{}",
                s.cell, s.layers, s.networks, s.from_zeros, s.from_states
            );
        }
        csv
    }

    pub fn table(&self) -> String {
        let mut text = String::from(
            "largest difference between a stack and its flattened form: outputs and all layers' states at \
             their shift\nsingle precision / double precision\n\n",
        );
        let mut columns: Vec<&str> = Vec::new();
        for entry in &self.theorem {
            if !columns.contains(&entry.widths.as_str()) {
                columns.push(&entry.widths);
            }
        }
        let _ = write!(text, "{:10}{:>3}", "cell", "k");
        for column in &columns {
            let _ = write!(text, "{column:>18}");
        }
        for row in self.theorem.chunk_by(|a, b| (&a.cell, a.layers) == (&b.cell, b.layers)) {
            let _ = write!(text, "\n{:10}{:>3}", row[0].cell, row[0].layers);
            for e in row {
                let (single, double) =
                    (e.f32_answers.max(e.f32_states), e.f64_answers.max(e.f64_states));
                let shown = format!("{single:.0e} / {double:.0e}");
                let _ = write!(text, "{shown:>17}{}", if e.passes() { " " } else { "!" });
            }
        }
        let _ = write!(
            text,
            "\n\nhow many of {DRAWN} random networks, n = {DRAWN_UNITS}, have a solved start (Lemma 1): \
             from zeros / from states they have been in\n\n{:10}",
            "k"
        );
        let layers = self.solved.iter().map(|s| s.layers).max().unwrap_or(0);
        for k in 1..=layers {
            let _ = write!(text, "{k:>14}");
        }
        for row in self.solved.chunk_by(|a, b| a.cell == b.cell) {
            let _ = write!(text, "\n{:10}", row[0].cell);
            for s in row {
                let shown = format!("{} / {}", s.from_zeros, s.from_states);
                let _ = write!(text, "{shown:>14}");
            }
        }
        text.push_str("\ngru        never: its step cannot be inverted in closed form\n");
        let reason = self.solved.iter().find_map(|s| Some((s, s.reason.as_ref()?)));
        if let Some((s, reason)) = reason {
            let _ = writeln!(text, "\nfor example, {} of {} layers: {reason}", s.cell, s.layers);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_above_its_tolerance_fails() {
        let entry = |f32_states: f64, f64_answers: f64| Entry {
            cell: "lstm".into(),
            units: vec![4, 4],
            layers: 2,
            widths: "n = 4".into(),
            f32_answers: 0.0,
            f32_states,
            f64_answers,
            f64_states: 0.0,
        };
        let report = |entries: Vec<Entry>| TheoremResults {
            head: Head::new("theorem", String::new()),
            f32_tolerance: F32_TOLERANCE,
            f64_tolerance: F64_TOLERANCE,
            theorem: entries,
            solved: Vec::new(),
        };
        assert!(report(vec![entry(1e-5, 1e-12)]).check().is_ok());
        for bad in [entry(1.1e-5, 0.0), entry(0.0, 1.1e-12), entry(f64::INFINITY, 0.0)] {
            let report = report(vec![entry(0.0, 0.0), bad]);
            assert!(matches!(report.check(), Err(Failure::Check(text)) if text.contains("1 of 2")));
            assert!(report.table().contains('!'));
        }
    }
}
