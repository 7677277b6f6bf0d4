//! The recommended delay of a sweep, and its reasons in words.

use super::{Group, SweepResults};
use crate::training::shown::shown;
use drnn::text::{counted, shortened};
use drnn_train::{
    Comparison, DelayScores, Metric, NEGLIGIBLE, Recommendation, Tolerance, Verdict, negligible,
    recommend,
};
use std::fmt::Write;

/// At most this many networks are named in a sentence.
const MAX_NAMED: usize = 20;

/// The delayed networks of a sweep, compared.
pub struct Compared<'a> {
    results: &'a SweepResults,
    /// The delayed ones, by delay.
    groups: Vec<Group<'a>>,
    found: Recommendation,
}

impl<'a> Compared<'a> {
    /// None if no delayed network could be trained.
    pub fn of(results: &'a SweepResults) -> Option<Compared<'a>> {
        let mut groups = results.groups();
        groups.retain(|group| !group.runs[0].compared);
        let scores: Vec<DelayScores> = groups
            .iter()
            .map(|group| DelayScores { delay: group.delay(), scores: group.each(|run| run.valid) })
            .collect();
        let negligible = results.negligible();
        let tolerance = Tolerance { of_best: results.tolerance, negligible };
        let found = recommend(results.metric, tolerance, &scores)?;
        Some(Compared { results, groups, found })
    }

    /// The recommended network.
    pub fn recommended(&self) -> &Group<'a> {
        &self.groups[self.found.recommended]
    }

    /// What the table says of a network; empty if it is none of the delayed ones.
    pub fn verdict(&self, net: &str) -> &'static str {
        let at = self.groups.iter().position(|group| group.net() == net);
        at.map_or("", |at| match self.found.comparisons[at].verdict {
            Verdict::Best => "best",
            Verdict::GoodEnough => "good enough",
            Verdict::NotDistinguishable => "not distinguishable",
            Verdict::Worse => "worse",
            Verdict::Failed => "",
        })
    }

    /// The recommendation, its reason with the numbers, and what should make the reader doubt it.
    pub fn summary(&self) -> String {
        let mut out = self.reason();
        for doubt in [self.scatter(), self.edge(), self.undertrained()].into_iter().flatten() {
            let _ = write!(out, " {doubt}");
        }
        out
    }

    fn metric(&self) -> Metric {
        self.results.metric
    }

    fn comparison(&self) -> &Comparison {
        &self.found.comparisons[self.found.recommended]
    }

    /// `0.9134 ± 0.0123`.
    fn worth(&self, at: usize) -> String {
        self.results.worth(&self.groups[at].each(|run| run.valid))
    }

    fn reason(&self) -> String {
        let (metric, Recommendation { recommended, best, .. }) = (self.metric(), &self.found);
        let group = &self.groups[*recommended];
        let start = format!(
            "Recommended: {}, with a delay of {}",
            group.name(),
            counted(group.delay(), "step")
        );
        let valid = format!("{metric} on the validation set, {}", self.worth(*recommended));
        let close = match metric.higher_is_better() {
            true => format!("within {} of the best", self.results.tolerance),
            false => format!("within {:.0} % of the lowest", self.results.tolerance * 100.0),
        };
        let close = match self.results.negligible() {
            0.0 => close,
            gap => format!(
                "{close}, or {} % of the target's variance ({}),",
                100.0 * NEGLIGIBLE,
                shown(metric, gap)
            ),
        };
        let best_name = format!("{}, {}", self.groups[*best].name(), self.worth(*best));
        match self.comparison().verdict {
            Verdict::NotDistinguishable => format!(
                "{start}: the shortest that is not distinguishable from the best. Its {valid}, is \
                 not {close} ({best_name}), but {}.",
                self.chance(self.comparison())
            ),
            Verdict::GoodEnough => {
                format!("{start}: the shortest whose {valid}, is {close} ({best_name}).")
            }
            _ => match self.next_shorter() {
                None => format!("{start}: it has the best {valid}."),
                Some(at) => format!(
                    "{start}: it has the best {valid}. {}, the next shorter, is worse by {}{}.",
                    self.groups[at].name(),
                    shown(metric, self.found.comparisons[at].gap),
                    match self.found.comparisons[at].margin {
                        Some(margin) => format!(
                            ", more than the {} that chance explains (Welch's t-test, 5 %)",
                            shown(metric, margin)
                        ),
                        None => String::new(),
                    }
                ),
            },
        }
    }

    /// Why a difference may be chance.
    fn chance(&self, comparison: &Comparison) -> String {
        let Comparison { gap, margin, .. } = comparison;
        format!(
            "trainings from other seeds scatter as much: the difference of the means is {}, chance \
             explains up to {} (Welch's t-test, one-sided, 5 %)",
            shown(self.metric(), *gap),
            shown(self.metric(), margin.unwrap_or(f64::NAN))
        )
    }

    /// The longest of the delays below the recommended one, of the same kind of network.
    fn next_shorter(&self) -> Option<usize> {
        let group = self.recommended();
        let shorter = |at: &usize| {
            let other = &self.groups[*at];
            other.family() == group.family()
                && other.delay() < group.delay()
                && self.found.comparisons[*at].mean.is_finite()
        };
        (0..self.groups.len()).filter(shorter).max_by_key(|at| self.groups[*at].delay())
    }

    /// Whether chance was looked at, and what more trainings could show.
    fn scatter(&self) -> Option<String> {
        let repeats = self.groups.iter().map(|group| group.runs.len()).min().unwrap_or(1);
        if repeats < 2 {
            return (self.groups.len() > 1).then(|| {
                "Each network was trained once, so how much of a difference is chance is not known: \
                 --repeats 3 shows it."
                    .into()
            });
        }
        let open = self.found.comparisons.iter().zip(&self.groups);
        let open = open.filter(|(c, _)| c.verdict == Verdict::NotDistinguishable);
        let names: Vec<String> = open.map(|(_, group)| group.name()).collect();
        (!names.is_empty()).then(|| {
            format!(
                "Not distinguishable from {} with {} each: {}; more --repeats would show it.",
                self.groups[self.found.best].name(),
                counted(repeats, "training"),
                listed(&names)
            )
        })
    }

    /// Whether a delay beyond those that were tried may be better still.
    fn edge(&self) -> Option<String> {
        let longest = self.groups.iter().map(Group::delay).max()?;
        let more = self.results.useful_delay.is_some_and(|useful| longest < useful);
        (more && self.recommended().delay() == longest && self.groups.len() > 1).then(|| {
            format!(
                "The best is at the edge: {longest} is the longest delay that was tried, and longer \
                 ones may be better (--delays)."
            )
        })
    }

    /// Networks that still improved when their training ended, by enough to change the
    /// recommendation.
    fn undertrained(&self) -> Option<String> {
        let metric = self.metric();
        let value = self.comparison().mean;
        let improving = |at: usize| -> Option<f64> {
            let runs = &self.groups[at].runs;
            let each = runs.iter().map(|run| run.late_improvement).collect::<Option<Vec<f64>>>()?;
            let mean = self.found.comparisons[at].mean;
            // What is left to gain is at most the error itself.
            let left = if metric.higher_is_better() { 1.0 - mean } else { mean };
            let late = (each.iter().sum::<f64>() / each.len() as f64).min(left);
            let scale = if metric.higher_is_better() { 1.0 } else { mean };
            let enough = (self.results.tolerance * scale).max(self.results.negligible());
            (late > enough && mean.is_finite()).then_some(late)
        };
        let within =
            |at: usize, reach: f64| (self.found.comparisons[at].mean - value).abs() < reach;
        let others = || (0..self.groups.len()).filter(|at| *at != self.found.recommended);
        let mut names: Vec<String> = Vec::new();
        for at in others() {
            if improving(at).is_some_and(|late| within(at, 2.0 * late)) {
                names.push(self.groups[at].name());
            }
        }
        if let Some(late) = improving(self.found.recommended)
            && others().any(|at| within(at, 2.0 * late))
        {
            names.insert(0, self.recommended().name());
        }
        (!names.is_empty()).then(|| {
            format!(
                "Undertrained: {} still improved in the last quarter of the epochs, enough to change \
                 this comparison; try more --epochs.",
                listed(&names)
            )
        })
    }
}

impl SweepResults {
    /// A difference of scores that does not matter.
    fn negligible(&self) -> f64 {
        negligible(self.metric, &self.baselines)
    }
}

/// Names in a sentence, not too many.
fn listed(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(MAX_NAMED).map(String::as_str).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The networks without a delay of their own, in words.
pub fn compared_networks(results: &SweepResults) -> String {
    let mut out = String::new();
    let compared = |group: &&Group| group.runs[0].compared && group.valid().is_finite();
    for group in results.groups().iter().filter(compared).take(MAX_NAMED) {
        let wait = match group.runs[0].delay {
            None => "needs the whole sequence".to_string(),
            Some(0) => "has no delay".into(),
            Some(d) => format!("has a delay of {}", counted(d, "step")),
        };
        let worth = results.worth(&group.each(|run| run.valid));
        let _ = write!(out, " {}, which {wait}: {worth}.", group.name());
    }
    out
}

impl Group<'_> {
    pub fn net(&self) -> &str {
        &self.runs[0].net
    }

    /// The network's name for a sentence.
    fn name(&self) -> String {
        shortened(self.net(), 60)
    }

    pub fn delay(&self) -> usize {
        self.runs[0].delay.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sweep::Run;
    use drnn_train::baseline::{Baseline, MEAN};
    use drnn_train::{Options, Reason};
    use serde_json::json;

    /// Networks of these delays with the scores of their trainings.
    fn results(metric: Metric, all: &[(usize, &[f64])]) -> SweepResults {
        let run = |delay: usize, repetition: usize, valid: f64| Run {
            net: format!("dlstm-{delay}"),
            repetition,
            seed: None,
            delay: Some(delay),
            compared: false,
            parameters: 1,
            valid: Some(valid),
            test: Some(valid),
            epochs: 10,
            kept_epoch: Some(9),
            late_improvement: Some(0.0),
            ended: Reason::Epochs,
            seconds: 1.0,
        };
        let runs = all.iter().flat_map(|(delay, scores)| {
            scores.iter().enumerate().map(|(i, valid)| run(*delay, i, *valid))
        });
        let provenance = json!({
            "command": "drnn", "version": "0", "commit": null, "seed": 1, "threads": 1,
            "isa": "avx2", "cpu": null, "started": "2020-01-01T00:00:00Z", "seconds": 1.0,
        });
        SweepResults {
            kind: "sweep".into(),
            format: 1,
            provenance: serde_json::from_value(provenance).unwrap(),
            task: "series".into(),
            what: String::new(),
            sequences: [1; 3],
            metric,
            measure: None,
            tolerance: metric.tolerance(),
            useful_delay: Some(100),
            options: Options::default(),
            runs: runs.collect(),
            model: None,
            baselines: Vec::new(),
            warning: None,
        }
    }

    fn summary(results: &SweepResults) -> String {
        Compared::of(results).unwrap().summary()
    }

    #[test]
    fn a_difference_that_chance_explains_is_no_reason_for_a_longer_delay() {
        let scattered: [(usize, &[f64]); 2] =
            [(0, &[0.9238, 0.8998, 0.9167]), (20, &[0.9403, 0.9107, 0.9433])];
        let said = summary(&results(Metric::Accuracy, &scattered));
        for part in [
            "Recommended: dlstm-0, with a delay of 0 steps: the shortest that is not \
             distinguishable from the best.",
            "is not within 0.01 of the best (dlstm-20, 0.9314 ± 0.0180)",
            "the difference of the means is 0.0180, chance explains up to 0.0280",
            "Not distinguishable from dlstm-20 with 3 trainings each: dlstm-0; more --repeats",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert!(!said.contains("edge") && !said.contains("Undertrained"), "{said}");
    }

    #[test]
    fn a_delay_that_is_best_at_the_edge() {
        let falling: [(usize, &[f64]); 3] = [(0, &[0.5]), (1, &[0.4]), (2, &[0.3])];
        let mut found = results(Metric::SquaredError, &falling);
        let said = summary(&found);
        assert!(said.contains("dlstm-1, the next shorter, is worse by 0.1000."), "{said}");
        assert!(said.contains("The best is at the edge: 2 is the longest delay"), "{said}");
        assert!(said.contains("Each network was trained once"), "{said}");
        // No longer delay makes sense.
        found.useful_delay = Some(2);
        assert!(!summary(&found).contains("edge"));
    }

    #[test]
    fn networks_that_could_still_overtake_are_undertrained() {
        let near: [(usize, &[f64]); 2] = [(0, &[0.30, 0.31]), (1, &[0.20, 0.21])];
        let mut found = results(Metric::SquaredError, &near);
        assert!(!summary(&found).contains("Undertrained"));
        let improve = |found: &mut SweepResults, late: f64| {
            let first = found.runs.iter_mut().filter(|run| run.delay == Some(0));
            first.for_each(|run| run.late_improvement = Some(late));
        };
        improve(&mut found, 0.06);
        assert!(summary(&found).contains("Undertrained: dlstm-0 still improved"));
        improve(&mut found, 0.02); // not enough to catch up
        assert!(!summary(&found).contains("Undertrained"));
    }

    #[test]
    fn errors_that_are_next_to_nothing_are_good_enough() {
        let tiny: [(usize, &[f64]); 2] = [(3, &[1e-4]), (5, &[5e-5])];
        let mut found = results(Metric::SquaredError, &tiny);
        assert!(summary(&found).contains("Recommended: dlstm-5"));
        let (name, what) = (MEAN.to_string(), String::new());
        found.baselines.push(Baseline { name, what, valid: Some(0.4), test: None });
        let said = summary(&found);
        assert!(said.contains("Recommended: dlstm-3"), "{said}");
        assert!(said.contains("or 0.1 % of the target's variance (4.000e-4)"), "{said}");
    }
}
