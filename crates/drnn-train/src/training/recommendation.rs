//! The shortest delay that is good enough, from one or several trainings with each delay.
//!
//! ```text
//! gap      how much worse the mean score of a delay is than the best mean
//! margin   t(0.95, v) sqrt(s1^2 / n1 + s2^2 / n2)      s: standard deviations of n trainings each
//!
//! gap <= tolerance        good enough: a difference of accuracies, a share of the lowest error, or
//!                         too little to matter
//! gap <= margin           not distinguishable from the best: trainings scatter as much
//! otherwise               worse
//! ```
//!
//! The margin is that of a one-sided test of Welch at 5 %, with Welch's and Satterthwaite's degrees of
//! freedom v. Where a delay was trained once, nothing is known about chance, and the tolerance decides.

use super::Epoch;
use crate::baseline::{Baseline, MEAN};
use crate::loss::Metric;

/// The scores of one network with a delay: one or several trainings that differ in their seeds.
#[derive(Debug, Clone, PartialEq)]
pub struct DelayScores {
    /// Its delay d.
    pub delay: usize,
    /// The measure on the validation set, of each training; a training that failed has NaN.
    pub scores: Vec<f64>,
}

/// A network compared with the best one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Its mean score.
    pub mean: f64,
    /// How much worse that is than the best mean, at least 0.
    pub gap: f64,
    /// The largest gap that chance explains; None where either was trained once.
    pub margin: Option<f64>,
    /// What follows.
    pub verdict: Verdict,
}

/// How a network compares with the best one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It has the best mean.
    Best,
    /// Within the tolerance.
    GoodEnough,
    /// Beyond the tolerance, but trainings scatter as much.
    NotDistinguishable,
    /// Beyond the tolerance and beyond what chance explains.
    Worse,
    /// A training has no score.
    Failed,
}

/// Which network to take, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommendation {
    /// The network with the shortest delay that is not worse than the best.
    pub recommended: usize,
    /// The network with the best mean.
    pub best: usize,
    /// Every network compared with the best.
    pub comparisons: Vec<Comparison>,
}

/// How much worse than the best is good enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// A difference of accuracies, or a share of the lowest error.
    pub of_best: f64,
    /// A difference that is too small to matter, even if the lowest error is next to nothing.
    pub negligible: f64,
}

/// Differences of squared errors up to this share of the target's variance do not matter.
pub const NEGLIGIBLE: f64 = 0.001;

/// A difference of scores that does not matter: of squared errors, [`NEGLIGIBLE`] times the error of the
/// mean, which is one of the `baselines`; otherwise 0.
pub fn negligible(metric: Metric, baselines: &[Baseline]) -> f64 {
    let mean = baselines.iter().find(|baseline| baseline.name == MEAN);
    let error = mean.and_then(|mean| mean.valid).filter(|error| error.is_finite());
    if metric == Metric::SquaredError { NEGLIGIBLE * error.unwrap_or(0.0) } else { 0.0 }
}

/// Recommends one of several networks; None if all failed. Of two with the same delay it takes the one
/// with the better mean.
pub fn recommend(
    metric: Metric,
    tolerance: Tolerance,
    networks: &[DelayScores],
) -> Option<Recommendation> {
    let moments: Vec<Moments> = networks.iter().map(|net| Moments::of(&net.scores)).collect();
    let finite = || (0..networks.len()).filter(|i| moments[*i].mean.is_finite());
    let better = |a: usize, b: usize| metric.is_better(moments[a].mean, moments[b].mean);
    let best = finite().reduce(|a, b| if better(b, a) { b } else { a })?;
    let compare = |i: usize| {
        let mean = moments[i].mean;
        let gap = (metric.sign() * (mean - moments[best].mean)).max(0.0);
        let margin = margin(&moments[i], &moments[best]);
        let verdict = match margin {
            _ if i == best => Verdict::Best,
            _ if !mean.is_finite() => Verdict::Failed,
            _ if gap <= tolerance.negligible => Verdict::GoodEnough,
            _ if metric.is_close(mean, moments[best].mean, tolerance.of_best) => {
                Verdict::GoodEnough
            }
            Some(margin) if gap <= margin => Verdict::NotDistinguishable,
            _ => Verdict::Worse,
        };
        Comparison { mean, gap, margin, verdict }
    };
    let comparisons: Vec<Comparison> = (0..networks.len()).map(compare).collect();
    let acceptable = |i: &usize| {
        matches!(
            comparisons[*i].verdict,
            Verdict::Best | Verdict::GoodEnough | Verdict::NotDistinguishable
        )
    };
    let shorter = |a: usize, b: usize| {
        let delays = [a, b].map(|i| networks[i].delay);
        delays[0] < delays[1] || (delays[0] == delays[1] && better(a, b))
    };
    let recommended =
        finite().filter(acceptable).reduce(|a, b| if shorter(b, a) { b } else { a })?;
    Some(Recommendation { recommended, best, comparisons })
}

/// How much the best score so far improved in the last quarter of the epochs: at least 0, and 0 after
/// fewer than two. A training that still improves then has not converged.
pub fn late_improvement(metric: Metric, history: &[Epoch]) -> f64 {
    let best = |epochs: &[Epoch]| {
        let scores = epochs.iter().map(|epoch| metric.sign() * epoch.watched());
        scores.fold(f64::INFINITY, f64::min)
    };
    let before = history.len() - history.len().div_ceil(4);
    if before == 0 { 0.0 } else { best(&history[..before]) - best(history) }
}

/// Mean, variance of that mean, and number of trainings.
struct Moments {
    mean: f64,
    /// Sample variance divided by n.
    squared_error: f64,
    n: usize,
}

impl Moments {
    fn of(scores: &[f64]) -> Moments {
        let n = scores.len();
        let mean = scores.iter().sum::<f64>() / n as f64;
        let squares = scores.iter().map(|score| (score - mean) * (score - mean)).sum::<f64>();
        Moments { mean, squared_error: squares / (n.saturating_sub(1) * n) as f64, n }
    }
}

fn margin(a: &Moments, b: &Moments) -> Option<f64> {
    if a.n < 2 || b.n < 2 {
        return None;
    }
    let squared = a.squared_error + b.squared_error;
    let share = |m: &Moments| m.squared_error * m.squared_error / (m.n - 1) as f64;
    let freedom = squared * squared / (share(a) + share(b));
    match squared {
        0.0 => Some(0.0),
        _ => Some(t_95(freedom) * squared.sqrt()).filter(|margin| margin.is_finite()),
    }
}

/// Quantiles of Student's t for a one-sided test at 5 %, for 1 to 30 degrees of freedom.
const T_95: [f64; 30] = [
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771,
    1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725, 1.721, 1.717, 1.714, 1.711, 1.708, 1.706,
    1.703, 1.701, 1.699, 1.697,
];

/// The quantile of the normal distribution, for infinitely many.
const NORMAL_95: f64 = 1.645;

/// The quantile for any number of degrees of freedom, linear in 1 / v between whole numbers.
fn t_95(freedom: f64) -> f64 {
    let last = T_95.len() as f64;
    let v = freedom.max(1.0);
    if v >= last {
        return NORMAL_95 + (T_95[T_95.len() - 1] - NORMAL_95) * last / v;
    }
    let below = v.floor();
    let [low, high] = [below, below + 1.0].map(|v| T_95[v as usize - 1]);
    let along = (1.0 / below - 1.0 / v) / (1.0 / below - 1.0 / (below + 1.0));
    low + (high - low) * along
}

#[cfg(test)]
mod tests {
    use super::*;

    fn networks(all: &[(usize, &[f64])]) -> Vec<DelayScores> {
        all.iter()
            .map(|(delay, scores)| DelayScores { delay: *delay, scores: scores.to_vec() })
            .collect()
    }

    fn within(of_best: f64) -> Tolerance {
        Tolerance { of_best, negligible: 0.0 }
    }

    fn delay(metric: Metric, tolerance: f64, all: &[(usize, &[f64])]) -> Option<usize> {
        let networks = networks(all);
        recommend(metric, within(tolerance), &networks)
            .map(|found| networks[found.recommended].delay)
    }

    #[test]
    fn trained_once_the_tolerance_decides() {
        let accuracy: [(usize, &[f64]); 5] =
            [(0, &[0.62]), (10, &[0.991]), (5, &[0.98]), (19, &[0.999]), (3, &[f64::NAN])];
        assert_eq!(delay(Metric::Accuracy, 0.01, &accuracy), Some(10));
        assert_eq!(delay(Metric::Accuracy, 0.0, &accuracy), Some(19));
        assert_eq!(delay(Metric::Accuracy, 0.02, &accuracy), Some(5));
        let error: [(usize, &[f64]); 4] =
            [(0, &[0.5]), (5, &[0.0103]), (7, &[0.0101]), (9, &[0.01])];
        assert_eq!(delay(Metric::SquaredError, 0.05, &error), Some(5));
        assert_eq!(delay(Metric::SquaredError, 0.02, &error), Some(7));
        assert_eq!(delay(Metric::Bits, 0.05, &[(2, &[f64::NAN])]), None);
        assert_eq!(delay(Metric::Bits, 0.05, &[]), None);
    }

    /// Means 0.9134 and 0.9318 of three trainings each that scatter by 0.012 and 0.018: the difference
    /// is beyond the tolerance, but not beyond chance.
    #[test]
    fn what_scatters_as_much_is_not_distinguishable() {
        let scattered: [(usize, &[f64]); 2] =
            [(0, &[0.9238, 0.8998, 0.9167]), (20, &[0.9403, 0.9107, 0.9443])];
        let found = recommend(Metric::Accuracy, within(0.01), &networks(&scattered)).unwrap();
        assert_eq!((found.recommended, found.best), (0, 1));
        let Comparison { gap, margin, verdict, .. } = found.comparisons[0];
        assert_eq!(verdict, Verdict::NotDistinguishable);
        assert!(
            (gap - 0.0183).abs() < 1e-4 && (margin.unwrap() - 0.0282).abs() < 1e-3,
            "{margin:?}"
        );
        // The same means, with trainings that agree.
        let close: [(usize, &[f64]); 2] =
            [(0, &[0.9134, 0.9133, 0.9135]), (20, &[0.9317, 0.9318, 0.9319])];
        let found = recommend(Metric::Accuracy, within(0.01), &networks(&close)).unwrap();
        assert_eq!((found.recommended, found.comparisons[0].verdict), (1, Verdict::Worse));
        assert_eq!(found.comparisons[1].verdict, Verdict::Best);
        // A training that failed is no reason to take a network.
        let failed: [(usize, &[f64]); 2] = [(0, &[0.95, f64::NAN]), (20, &[0.93, 0.94])];
        let found = recommend(Metric::Accuracy, within(0.01), &networks(&failed)).unwrap();
        assert_eq!((found.recommended, found.comparisons[0].verdict), (1, Verdict::Failed));
    }

    #[test]
    fn of_the_same_delay_the_better_one() {
        let same: [(usize, &[f64]); 3] = [(3, &[0.0102]), (3, &[0.0101]), (5, &[0.01])];
        let found = recommend(Metric::SquaredError, within(0.05), &networks(&same)).unwrap();
        assert_eq!((found.recommended, found.best), (1, 2));
    }

    /// 1e-4 is twice 5e-5, but of a target with a variance of 0.4 neither is anything.
    #[test]
    fn differences_that_do_not_matter() {
        let tiny: [(usize, &[f64]); 3] = [(0, &[0.3]), (3, &[1e-4]), (5, &[5e-5])];
        let tolerance = Tolerance { of_best: 0.05, negligible: 4e-4 };
        let found = recommend(Metric::SquaredError, tolerance, &networks(&tiny)).unwrap();
        assert_eq!((found.recommended, found.best), (1, 2));
        assert_eq!(delay(Metric::SquaredError, 0.05, &tiny), Some(5));
    }

    #[test]
    fn quantiles() {
        assert_eq!([1.0, 4.0, 30.0].map(t_95), [6.314, 2.132, 1.697]);
        assert!((t_95(60.0) - 1.671).abs() < 2e-3 && (t_95(1e9) - 1.645).abs() < 1e-6);
        assert!((2.132..2.353).contains(&t_95(3.5)));
        assert_eq!(margin(&Moments::of(&[1.0, 1.0]), &Moments::of(&[2.0, 2.0])), Some(0.0));
        assert_eq!(margin(&Moments::of(&[1.0]), &Moments::of(&[2.0, 2.0])), None);
    }

    #[test]
    fn improvement_in_the_last_quarter() {
        let epochs = |scores: &[f64]| -> Vec<Epoch> {
            let of = |(i, score): (usize, &f64)| Epoch {
                epoch: i + 1,
                train_loss: 1.0,
                valid_loss: 1.0,
                valid_accuracy: None,
                valid_score: Some(*score),
                norm: 1.0,
                rate: 0.1,
            };
            scores.iter().enumerate().map(of).collect()
        };
        let late = |metric, scores: &[f64]| late_improvement(metric, &epochs(scores));
        assert_eq!(late(Metric::SquaredError, &[4.0, 2.0, 3.0, 1.5]), 0.5);
        assert_eq!(late(Metric::SquaredError, &[4.0, 1.0, 3.0, 1.5]), 0.0);
        assert_eq!(late(Metric::Accuracy, &[0.25, 0.5, 0.5, 0.75]), 0.25);
        assert_eq!(late(Metric::Accuracy, &[0.5]), 0.0);
        assert_eq!(late(Metric::Accuracy, &[]), 0.0);
    }
}
