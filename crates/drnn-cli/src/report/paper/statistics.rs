//! Repetitions of a network, and two networks compared over the seeds that both have.
//!
//! ```text
//! t = mean / (sd / sqrt(n))      of the n differences a_i - b_i, one for each seed
//! p = P(|T| >= |t|)              T of Student's distribution with n - 1 degrees of freedom
//! ```
//!
//! Networks with the same seed share data, masks and test set, so their differences scatter less than
//! they do.

use crate::report::page::{moments, signed};
use std::collections::BTreeMap;

/// Scores of a network by seed.
pub type Scores = BTreeMap<u64, f64>;

/// Mean; and standard deviation of more than one.
pub fn mean_and_sd(scores: &Scores) -> Option<(f64, Option<f64>)> {
    let values: Vec<f64> = scores.values().copied().collect();
    (!values.is_empty()).then(|| moments(&values))
}

/// Differences of two networks over their common seeds.
#[derive(Debug, Clone, PartialEq)]
pub struct Paired {
    /// Common seeds.
    pub n: usize,
    /// The mean of first minus second.
    pub mean: f64,
    /// Of the differences; None for fewer than two.
    pub sd: Option<f64>,
    /// Of the two-sided test; None for fewer than two.
    pub p: Option<f64>,
}

/// The least number of seeds for which a paired test decides.
const MIN_PAIRS: usize = 3;
/// Below it a difference is taken as real.
const LEVEL: f64 = 0.05;
/// Printed standard deviations that decide where there are too few seeds for a test.
const PRINTED_SDS: f64 = 3.0;

/// None without a common seed.
pub fn paired(a: &Scores, b: &Scores) -> Option<Paired> {
    let differences: Vec<f64> =
        a.iter().filter_map(|(seed, a)| Some(a - b.get(seed)?)).filter(|d| d.is_finite()).collect();
    let n = differences.len();
    if n == 0 {
        return None;
    }
    let (mean, sd) = moments(&differences);
    let p = sd.map(|sd| match sd {
        0.0 if mean == 0.0 => 1.0,
        0.0 => 0.0,
        _ => student_p(mean / (sd / (n as f64).sqrt()), (n - 1) as f64),
    });
    Some(Paired { n, mean, sd, p })
}

impl Paired {
    /// Whether the difference is real: by the test, or, where there are too few seeds, because it is
    /// several times the standard deviation that the paper prints for it.
    pub fn is_decided(&self, printed_sd: Option<f64>) -> bool {
        match (self.p, printed_sd) {
            (Some(p), _) if self.n >= MIN_PAIRS => p < LEVEL,
            (_, Some(sd)) => self.mean.abs() > PRINTED_SDS * sd,
            _ => false,
        }
    }

    /// `−0.041 ± 0.003 over 3 seeds, p = 0.002`.
    pub fn text(&self, decimals: usize) -> String {
        let sd = self.sd.map_or(String::new(), |sd| format!(" ± {sd:.decimals$}"));
        let seeds = if self.n == 1 { "1 seed".into() } else { format!("{} seeds", self.n) };
        let p = match self.p.filter(|_| self.n >= MIN_PAIRS) {
            Some(p) if p < 0.001 => ", p < 0.001".into(),
            Some(p) => format!(", p = {p:.3}"),
            None => String::new(),
        };
        format!("{}{sd} over {seeds}{p}", signed(self.mean, decimals))
    }
}

/// How far ours is from the paper's, in standard deviations of both; of the paper alone where ours has
/// none.
pub fn in_sds(ours: (f64, Option<f64>), paper: (f64, f64)) -> Option<f64> {
    let sd = ours.1.unwrap_or(0.0).hypot(paper.1);
    let difference = (ours.0 - paper.0) / sd;
    difference.is_finite().then_some(difference)
}

/// The two-sided probability of a t at least as large, with v degrees of freedom:
/// `I_x(v / 2, 1 / 2)` with `x = v / (v + t^2)`.
fn student_p(t: f64, v: f64) -> f64 {
    if !t.is_finite() {
        return 0.0;
    }
    incomplete_beta(v / (v + t * t), v / 2.0, 0.5).clamp(0.0, 1.0)
}

/// The regularised incomplete beta function, by its continued fraction.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges quickly only below this.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let log = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln();
    log.exp() * fraction(x, a, b) / a
}

/// Lentz's method.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    let tiny = |value: f64| if value.abs() < 1e-300 { 1e-300 } else { value };
    let (mut c, mut d) = (1.0, 1.0 / tiny(1.0 - (a + b) * x / (a + 1.0)));
    let mut found = d;
    for m in 1..300 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for term in [even, odd] {
            d = 1.0 / tiny(1.0 + term * d);
            c = tiny(1.0 + term / c);
            found *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-14 {
            break;
        }
    }
    found
}

/// The logarithm of the gamma function of positive numbers (Lanczos), to about 1e-10.
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 6] = [
        76.18009172947146,
        -86.50532032941677,
        24.01409824083091,
        -1.231739572450155,
        0.1208650973866179e-2,
        -0.5395239384953e-5,
    ];
    let series = TERMS.iter().enumerate().map(|(i, term)| term / (x + 1.0 + i as f64));
    let sum = 1.000000000190015 + series.sum::<f64>();
    let base = x + 5.5;
    (x + 0.5) * base.ln() - base + (2.5066282746310005 * sum / x).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_are_those_of_tables() {
        let table = [
            (12.70620, 1.0),
            (4.302653, 2.0),
            (2.776445, 4.0),
            (2.228139, 10.0),
            (2.042272, 30.0),
            (1.959966, 1e6),
        ];
        for (t, v) in table {
            assert!((student_p(t, v) - 0.05).abs() < 1e-6, "{t} {v}: {}", student_p(t, v));
        }
        assert!((student_p(63.657, 1.0) - 0.01).abs() < 1e-6);
        assert_eq!(student_p(0.0, 3.0), 1.0);
        assert_eq!(student_p(f64::INFINITY, 3.0), 0.0);
    }

    #[test]
    fn only_common_seeds_are_compared() {
        let scores = |values: &[(u64, f64)]| values.iter().copied().collect::<Scores>();
        let a = scores(&[(1, 1.0), (2, 1.1), (3, 1.2), (9, 50.0)]);
        let b = scores(&[(1, 1.5), (2, 1.7), (3, 1.6), (8, -50.0)]);
        let found = paired(&a, &b).unwrap();
        assert_eq!(found.n, 3);
        assert!((found.mean + 0.5).abs() < 1e-12);
        assert!((found.sd.unwrap() - 0.1).abs() < 1e-12);
        // t = -0.5 / (0.1 / sqrt(3)) = -8.66 with 2 degrees of freedom.
        assert!((found.p.unwrap() - 0.0131).abs() < 1e-4, "{found:?}");
        assert_eq!(found.text(3), "\u{2212}0.500 ± 0.100 over 3 seeds, p = 0.013");
        assert_eq!(paired(&a, &scores(&[(4, 0.0)])), None);
    }

    #[test]
    fn few_seeds_are_judged_by_the_papers_spread() {
        let one = |difference: f64| Paired { n: 1, mean: difference, sd: None, p: None };
        assert!(one(-0.1).is_decided(Some(0.01)));
        assert!(!one(-0.02).is_decided(Some(0.01)));
        assert!(!one(-0.1).is_decided(None));
        let three = Paired { n: 3, mean: -0.1, sd: Some(0.2), p: Some(0.47) };
        assert!(!three.is_decided(Some(0.01)));
    }

    #[test]
    fn distances_count_both_spreads() {
        assert_eq!(in_sds((1.0, None), (2.0, 0.5)), Some(-2.0));
        assert_eq!(in_sds((1.0, Some(0.3)), (1.5, 0.4)), Some(-1.0));
        assert_eq!(in_sds((1.0, None), (2.0, 0.0)), None);
    }
}
