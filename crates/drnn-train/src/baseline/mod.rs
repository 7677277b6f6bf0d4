//! Baselines: what very simple predictors achieve on the rows that a network is scored on. A network
//! that is no better has learned nothing that they do not know.
//!
//! | data | baselines | file |
//! |---|---|---|
//! | values | mean of the training part, persistence, ridge regression on lagged inputs | `series/baselines`, `ridge` |
//! | classes | majority class, persistence, ridge regression on lagged inputs | `series/baselines`, `ridge` |
//! | characters | frequency of characters, and of pairs of characters | `characters` |
//! | tags | the most frequent tag of each word | `tags` |

mod characters;
pub(crate) mod ridge;
mod tags;

pub use characters::character_baselines;
pub use ridge::NormalEquations;
pub use tags::tag_baseline;

use crate::loss::Metric;
use serde::{Deserialize, Serialize};

/// The name of the baseline whose squared error is the variance of the target, about.
pub const MEAN: &str = "mean";

/// A simple predictor, scored by the same metric and on the same rows as the network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Its name, such as `persistence`.
    pub name: String,
    /// What it predicts.
    pub what: String,
    /// The metric on the validation part; None where it could not be computed.
    pub valid: Option<f64>,
    /// The metric on the test part.
    pub test: Option<f64>,
}

impl Baseline {
    /// The metric on the test part, or on the validation part where `test` is false.
    pub fn score(&self, test: bool) -> Option<f64> {
        if test { self.test } else { self.valid }.filter(|x| x.is_finite())
    }
}

/// The best of the baselines on a part.
pub fn best_baseline(metric: Metric, baselines: &[Baseline], test: bool) -> Option<&Baseline> {
    let scored = baselines.iter().filter_map(|b| Some((b, b.score(test)?)));
    let better = |a: f64, b: f64| if metric.higher_is_better() { a > b } else { a < b };
    scored
        .reduce(|best, next| if better(next.1, best.1) { next } else { best })
        .map(|found| found.0)
}

/// The best baseline on a part, if a network that scores `value` there is no better than it.
pub fn not_beaten(
    metric: Metric,
    value: f64,
    baselines: &[Baseline],
    test: bool,
) -> Option<&Baseline> {
    let best = best_baseline(metric, baselines, test)?;
    let score = best.score(test)?;
    let beaten = if metric.higher_is_better() { value > score } else { value < score };
    (!beaten).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline(name: &str, valid: f64, test: Option<f64>) -> Baseline {
        Baseline { name: name.into(), what: String::new(), valid: Some(valid), test }
    }

    #[test]
    fn the_best_one_counts_by_its_metric() {
        let all =
            [baseline("a", 0.3, Some(0.1)), baseline("b", 0.2, None), baseline("c", 0.5, None)];
        let name = |found: Option<&Baseline>| found.map(|b| b.name.clone()).unwrap_or_default();
        assert_eq!(name(best_baseline(Metric::SquaredError, &all, false)), "b");
        assert_eq!(name(best_baseline(Metric::SquaredError, &all, true)), "a");
        assert_eq!(name(best_baseline(Metric::Accuracy, &all, false)), "c");
        // As good is no better; a network whose loss became NaN is no better either.
        for value in [0.2, 0.4, f64::NAN] {
            assert_eq!(name(not_beaten(Metric::SquaredError, value, &all, false)), "b");
        }
        assert_eq!(not_beaten(Metric::SquaredError, 0.19, &all, false), None);
        assert_eq!(not_beaten(Metric::Accuracy, 0.51, &all, false), None);
        assert_eq!(not_beaten(Metric::Accuracy, 0.51, &[], false), None);
    }
}
