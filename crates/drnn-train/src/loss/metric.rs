//! Measures of quality, and the smallest delay that is good enough.

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

/// The smallest delay whose quality is within `tolerance` of the best, given pairs of delay and quality.
/// Qualities that are not finite do not count.
pub fn recommended_delay(metric: Metric, tolerance: f64, found: &[(usize, f64)]) -> Option<usize> {
    let finite = || found.iter().filter(|(_, value)| value.is_finite());
    let better = |a: f64, b: f64| if metric.higher_is_better() { a.max(b) } else { a.min(b) };
    let best = finite().map(|(_, value)| *value).reduce(better)?;
    let close = finite().filter(|(_, value)| metric.is_close(*value, best, tolerance));
    close.map(|(delay, _)| *delay).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_delay_that_is_good_enough() {
        let accuracy = [(0, 0.62), (10, 0.991), (5, 0.98), (19, 0.999), (3, f64::NAN)];
        assert_eq!(recommended_delay(Metric::Accuracy, 0.01, &accuracy), Some(10));
        assert_eq!(recommended_delay(Metric::Accuracy, 0.0, &accuracy), Some(19));
        assert_eq!(recommended_delay(Metric::Accuracy, 0.02, &accuracy), Some(5));
        let error = [(0, 0.5), (5, 0.0103), (7, 0.0101), (9, 0.01)];
        assert_eq!(recommended_delay(Metric::SquaredError, 0.05, &error), Some(5));
        assert_eq!(recommended_delay(Metric::SquaredError, 0.02, &error), Some(7));
        assert_eq!(recommended_delay(Metric::Bits, 0.05, &[(2, f64::NAN)]), None);
    }

    #[test]
    fn metrics_of_a_sum() {
        let sum = LossSum { sum: 2.0 * std::f64::consts::LN_2, count: 4, correct: Some(3) };
        assert_eq!((Metric::Accuracy.of(&sum), Metric::Bits.of(&sum)), (0.75, 0.5));
    }
}
