//! Ridge regression on lagged inputs.

use super::known::Known;
use super::{Part, ScoredBaseline, SeriesBaselines, scored};
use crate::baseline::ridge::{NormalEquations, predict};
use crate::error::Result;
use crate::loss::Targets;
use crate::series::scaled::Scaled;
use std::ops::Range;

/// Steps of a lagged input, at most: one day of hours.
const LAGS: usize = 24;
/// Numbers of a regression, at most; there are fewer lags where inputs are many.
const MAX_WIDTH: usize = 500;
/// Multiplications of the regression, at most: a second. Of more rows every k-th is used.
const MAX_WORK: usize = 2_000_000_000;
/// Classes of which a regression is made, at most.
const MAX_CLASSES: usize = 50;
/// Penalties to choose from on the validation part, per row of scaled numbers.
const PENALTIES: [f64; 6] = [1e-6, 1e-4, 1e-3, 1e-2, 0.1, 1.0];

/// Which steps a regression reads: some before t, t, and some after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lags {
    pub before: usize,
    pub after: usize,
    /// Whether the targets of these steps are read too.
    with_targets: bool,
}

impl Lags {
    /// As many as fit for `width` numbers per step; None where these are too many even without lags.
    pub fn new(width: usize, look_ahead: Option<usize>) -> Option<Lags> {
        let steps = MAX_WIDTH / width.max(1);
        let after = look_ahead.unwrap_or(LAGS).min(steps.checked_sub(1)?);
        let before = (LAGS - 1).min(steps - 1 - after);
        Some(Lags { before, after, with_targets: false })
    }

    /// The inputs around a step; zeros outside of its sequence.
    fn gather(self, part: &Part, whole: &Range<usize>, step: usize, to: &mut Vec<f32>) {
        let (data, known) = (part.scorer.data(), &part.known);
        to.clear();
        for at in 0..=self.before + self.after {
            match (step + at).checked_sub(self.before).filter(|step| whole.contains(step)) {
                Some(step) => {
                    to.extend_from_slice(data.input(step));
                    if self.with_targets {
                        known.append(step, to);
                    }
                }
                None => to.extend(std::iter::repeat_n(0.0, self.width(data, known))),
            }
        }
    }

    /// Numbers of a step.
    fn width(self, data: &Scaled, known: &Known) -> usize {
        data.widths[0] + if self.with_targets { known.encoded_width() } else { 0 }
    }
}

/// Whether the regression of a forecast reads the targets' own columns: where the inputs do not have
/// them, and as long as the network does not look ahead to the target itself.
fn reads_targets(of: &SeriesBaselines) -> bool {
    let Some(forecast) = &of.task.forecast else { return false };
    let columns = of.task.input_columns();
    let is_input = |name: &String| columns.iter().any(|column| column.name == *name);
    let nearest = forecast.ahead.first().copied().unwrap_or(0);
    !forecast.columns.iter().all(is_input) && of.look_ahead.is_some_and(|ahead| ahead < nearest)
}

/// Ridge regression; None where inputs, classes or rows do not allow one.
pub(super) fn ridge(
    of: &SeriesBaselines,
    train: &Part,
    parts: &[Part],
) -> Result<Option<ScoredBaseline>> {
    let outputs = of.task.output_width();
    let with_targets = reads_targets(of);
    let targets = if with_targets { train.known.encoded_width() } else { 0 };
    let lags = Lags::new(of.task.inputs.len() + targets, of.look_ahead);
    let Some(lags) = lags.filter(|_| of.task.classes.is_none() || outputs <= MAX_CLASSES) else {
        return Ok(None);
    };
    let lags = Lags { with_targets, ..lags };
    let equations = normal_equations(of, train, lags, outputs);
    let what = |penalty: f64| {
        let inputs = if with_targets { "inputs and the targets" } else { "inputs" };
        let steps = match (lags.before, lags.after) {
            (0, 0) => "step t".to_string(),
            (0, after) => format!("steps t to t+{after}"),
            (before, 0) => format!("steps t-{before} to t"),
            (before, after) => format!("steps t-{before} to t+{after}"),
        };
        format!(
            "linear in the {inputs} of {steps}, penalty {penalty} chosen on the validation part"
        )
    };
    let mut x = Vec::new();
    let mut measure = |parts: &[Part], penalty: f64, weights: &[f64]| {
        scored(("ridge", what(penalty)), parts, |part, whole, step, y| {
            lags.gather(part, whole, step, &mut x);
            predict(weights, &x, y);
        })
    };
    let mut best: Option<(f64, f64, Vec<f64>)> = None;
    for penalty in PENALTIES {
        let Some(weights) = equations.solve(penalty) else { continue };
        let found = measure(&parts[..1], penalty, &weights)?.summary().valid.unwrap_or(f64::NAN);
        let better = |best: f64| match of.task.classes.is_some() {
            true => found > best,
            false => found < best,
        };
        if found.is_finite() && best.as_ref().is_none_or(|(value, ..)| better(*value)) {
            best = Some((found, penalty, weights));
        }
    }
    let Some((_, penalty, weights)) = best else { return Ok(None) };
    measure(parts, penalty, &weights).map(Some)
}

/// The sums of the training part, of every k-th step where there are many.
fn normal_equations(
    of: &SeriesBaselines,
    train: &Part,
    lags: Lags,
    outputs: usize,
) -> NormalEquations {
    let data = train.scorer.data();
    let width = (lags.before + lags.after + 1) * lags.width(data, &train.known);
    let mut equations = NormalEquations::new(width, outputs);
    let stride = (of.train.steps().saturating_mul(width * width) / (2 * MAX_WORK)).max(1);
    let (mut x, mut one_hot) = (Vec::new(), vec![0.0; outputs]);
    let spans: Vec<_> = of.train.spans().collect();
    let steps = spans.iter().flat_map(|span| span.counted.clone().map(move |step| (span, step)));
    for (span, step) in steps.step_by(stride) {
        let y = match data.target(step) {
            Targets::Values(y) if y.iter().any(|y| y.is_nan()) => continue,
            Targets::Values(y) => y,
            Targets::Classes(&[class]) if (class as usize) < outputs => {
                one_hot.fill(0.0);
                one_hot[class as usize] = 1.0;
                &one_hot
            }
            Targets::Classes(_) => continue,
        };
        lags.gather(train, &span.whole, step, &mut x);
        equations.add(&x, y);
    }
    equations
}
