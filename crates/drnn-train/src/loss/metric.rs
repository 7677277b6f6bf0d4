//! Measures of quality.

use crate::loss::LossSum;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A measure of quality.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Share of positions whose class had the largest output: the higher the better.
    Accuracy,
    /// Mean squared error: the lower the better.
    SquaredError,
    /// Bits per position that counted: the lower the better.
    Bits,
    /// The loss that training minimises: the lower the better.
    Loss,
}

impl Metric {
    /// The metric of an evaluation.
    pub fn of(self, found: &LossSum) -> f64 {
        match self {
            Metric::Accuracy => found.accuracy().unwrap_or(0.0),
            Metric::SquaredError | Metric::Loss => found.mean(),
            Metric::Bits => found.mean() / std::f64::consts::LN_2,
        }
    }

    /// Whether more is better.
    pub fn higher_is_better(self) -> bool {
        self == Metric::Accuracy
    }

    /// Whether `a` is better than `b`; false if either is NaN.
    pub fn is_better(self, a: f64, b: f64) -> bool {
        if self.higher_is_better() { a > b } else { a < b }
    }

    /// 1, or -1 where more is better: times it, less is better.
    pub(crate) fn sign(self) -> f64 {
        if self.higher_is_better() { -1.0 } else { 1.0 }
    }

    /// Default tolerance from the best value: 0.01 of accuracy, a twentieth of an error.
    pub fn tolerance(self) -> f64 {
        if self.higher_is_better() { 0.01 } else { 0.05 }
    }

    /// Whether `value` is within `tolerance` of `best`: a difference for accuracies, a share of the best for errors.
    pub fn is_close(self, value: f64, best: f64, tolerance: f64) -> bool {
        match self.higher_is_better() {
            true => value >= best - tolerance,
            false => value <= best * (1.0 + tolerance),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(match self {
            Metric::Accuracy => "accuracy",
            Metric::SquaredError => "mean squared error",
            Metric::Bits => "bits",
            Metric::Loss => "loss",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_a_sum() {
        let sum = LossSum { sum: 2.0 * std::f64::consts::LN_2, count: 4, correct: Some(3) };
        assert_eq!((Metric::Accuracy.of(&sum), Metric::Bits.of(&sum)), (0.75, 0.5));
    }
}
