//! Baselines of series: mean or majority class, persistence, ridge regression on lagged inputs.
//!
//! ```text
//! mean          the mean of the training part; of classes its most frequent one
//! persistence   the target of the step before; of a forecast, the target of the step it is made from
//! ridge         x[t - 23] .. x[t + d], as far ahead as the network looks, by least squares
//! ```
//!
//! Each is scored on the rows, and by the measure, of the network ([`Scorer`]). What lies before the
//! beginning of a sequence or after its end is zero, the mean, as it is for the network.

use super::scaled::Scaled;
use super::score::Scorer;
use super::sequences::Sequences;
use crate::baseline::Baseline;
use crate::baseline::ridge::{NormalEquations, predict};
use crate::data::TargetData;
use crate::error::Result;
use crate::loss::{IGNORE, Targets};
use drnn_tasks::series::SeriesTask;
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

/// The parts of some data.
#[derive(Debug, Clone, Copy)]
pub struct SeriesBaselines<'a> {
    /// Columns, classes and scaling.
    pub task: &'a SeriesTask,
    /// The part that baselines are learned from.
    pub train: &'a Sequences,
    /// The part that the penalty is chosen on.
    pub valid: &'a Sequences,
    /// The test part, if there is one.
    pub test: Option<&'a Sequences>,
    /// Steps that the network looks ahead, its delay; None for a bidirectional network.
    pub look_ahead: Option<usize>,
}

/// All baselines.
pub fn series_baselines(of: &SeriesBaselines) -> Result<Vec<Baseline>> {
    let train = Scaled::new(of.train, of.task)?;
    let scorers = [Some(of.valid), of.test].into_iter().flatten();
    let scorers: Vec<Scorer> =
        scorers.map(|part| Scorer::new(of.task, part)).collect::<Result<_>>()?;
    let nows = [Some(of.valid), of.test].into_iter().flatten();
    let nows: Vec<TargetData> = nows.map(|part| now(part, of.task)).collect::<Result<_>>()?;
    let mut all = vec![constant(of, &train, &scorers)?, persistence(of, &scorers, &nows)?];
    all.extend(ridge(of, &train, &scorers)?);
    Ok(all)
}

/// Baselines of data that a model is evaluated on, without the data that it was trained on: the mean that
/// its file has, or the most frequent class of these data; and persistence. The scores are in `test`.
pub fn evaluation_baselines(task: &SeriesTask, data: &Sequences) -> Result<Vec<Baseline>> {
    let look_ahead = None;
    let of = SeriesBaselines { task, train: data, valid: data, test: None, look_ahead };
    let scorers = [Scorer::new(task, data)?];
    let all = [
        constant(&of, &Scaled::new(data, task)?, &scorers)?,
        persistence(&of, &scorers, &[now(data, task)?])?,
    ];
    Ok(all.map(|found| Baseline { test: found.valid, valid: None, ..found }).into())
}

/// The scores of a predictor on all parts.
fn baseline(
    (name, what): (&str, String),
    scorers: &[Scorer],
    mut score: impl FnMut(usize, &Scorer) -> Result<f64>,
) -> Result<Baseline> {
    let mut found = scorers.iter().enumerate().map(|(part, scorer)| score(part, scorer));
    let (valid, test) = (found.next().transpose()?, found.next().transpose()?);
    Ok(Baseline { name: name.into(), what, valid, test })
}

/// The measure of outputs computed by `output`.
fn quality(
    scorer: &Scorer,
    output: impl FnMut(&Scaled, &Range<usize>, usize, &mut [f32]),
) -> Result<f64> {
    Ok(scorer.score_by(output)?.quality().unwrap_or(f64::NAN))
}

/// Mean, which is 0 in scaled units, or the most frequent class.
fn constant(of: &SeriesBaselines, train: &Scaled, scorers: &[Scorer]) -> Result<Baseline> {
    let counted = || of.train.spans().flat_map(|span| span.counted);
    let (majority, name) = match (&train.y, &of.task.classes) {
        (TargetData::Classes(y), Some(classes)) => {
            let mut counts = vec![0u64; classes.len()];
            let known = counted().map(|step| y[step] as usize).filter(|y| *y < classes.len());
            known.for_each(|class| counts[class] += 1);
            let max = counts.iter().max().copied().unwrap_or(0);
            let class = counts.iter().position(|count| *count == max).unwrap_or(0);
            let what = format!("always {}", drnn::text::shortened(&classes[class], 40));
            (Some(class), ("majority class", what))
        }
        _ => (None, ("mean", "the mean of the training part".to_string())),
    };
    baseline(name, scorers, |_, scorer| {
        quality(scorer, |_, _, _, y| {
            y.fill(0.0);
            majority.iter().for_each(|class| y[*class] = 1.0);
        })
    })
}

/// The targets of each step as they are known at that step, scaled.
fn now(part: &Sequences, task: &SeriesTask) -> Result<TargetData> {
    Ok(Scaled::new(part, task)?.y)
}

/// The last target that is known.
fn persistence(of: &SeriesBaselines, scorers: &[Scorer], nows: &[TargetData]) -> Result<Baseline> {
    let what = "the target of the step before".to_string();
    let m = of.task.targets.len();
    baseline(("persistence", what), scorers, |part, scorer| {
        quality(scorer, |_, whole, step, y| {
            y.fill(0.0);
            let before = (whole.start..step).rev();
            match &nows[part] {
                TargetData::Values(values) => {
                    for (k, y) in y.iter_mut().enumerate() {
                        let known = before.clone().map(|step| values[step * m + k]);
                        *y = known.take(MAX_BACK).find(|x| !x.is_nan()).unwrap_or(0.0);
                    }
                }
                TargetData::Classes(classes) => {
                    let known = before.map(|step| classes[step]);
                    if let Some(class) = known.take(MAX_BACK).find(|class| *class != IGNORE) {
                        y[class as usize] = 1.0;
                    }
                }
            }
        })
    })
}

/// Steps that persistence looks back for a target that is not missing.
const MAX_BACK: usize = 1000;

/// Which inputs a regression reads: some steps before t, t, and some after it.
#[derive(Debug, Clone, Copy)]
struct Lags {
    before: usize,
    after: usize,
}

impl Lags {
    /// As many as fit; None where inputs are too many even without lags.
    fn new(inputs: usize, look_ahead: Option<usize>) -> Option<Lags> {
        let steps = MAX_WIDTH / inputs.max(1);
        let after = look_ahead.unwrap_or(LAGS).min(steps.checked_sub(1)?);
        let before = (LAGS - 1).min(steps - 1 - after);
        Some(Lags { before, after })
    }

    /// The inputs around a step; zeros outside of its sequence.
    fn gather(self, data: &Scaled, whole: &Range<usize>, step: usize, to: &mut Vec<f32>) {
        let q = data.widths[0];
        to.clear();
        for at in 0..=self.before + self.after {
            match (step + at).checked_sub(self.before).filter(|step| whole.contains(step)) {
                Some(step) => to.extend_from_slice(data.input(step)),
                None => to.extend(std::iter::repeat_n(0.0, q)),
            }
        }
    }
}

/// Ridge regression; None where inputs, classes or rows do not allow one.
fn ridge(of: &SeriesBaselines, train: &Scaled, scorers: &[Scorer]) -> Result<Option<Baseline>> {
    let outputs = of.task.output_width();
    let lags = Lags::new(of.task.inputs.len(), of.look_ahead);
    let Some(lags) = lags.filter(|_| of.task.classes.is_none() || outputs <= MAX_CLASSES) else {
        return Ok(None);
    };
    let equations = normal_equations(of, train, lags, outputs);
    let mut x = Vec::new();
    let mut measure = |scorer: &Scorer, weights: &[f64]| {
        quality(scorer, |data, whole, step, y| {
            lags.gather(data, whole, step, &mut x);
            predict(weights, &x, y);
        })
    };
    let mut best: Option<(f64, f64, Vec<f64>)> = None;
    for penalty in PENALTIES {
        let Some(weights) = equations.solve(penalty) else { continue };
        let found = measure(&scorers[0], &weights)?;
        let better = |best: f64| match of.task.classes.is_some() {
            true => found > best,
            false => found < best,
        };
        if found.is_finite() && best.as_ref().is_none_or(|(value, ..)| better(*value)) {
            best = Some((found, penalty, weights));
        }
    }
    let Some((_, penalty, weights)) = best else { return Ok(None) };
    let last = match lags.after {
        0 => "t".to_string(),
        after => format!("t+{after}"),
    };
    let what = format!(
        "linear in the inputs of steps t-{} to {last}, penalty {penalty} chosen on the validation part",
        lags.before
    );
    baseline(("ridge", what), scorers, |_, scorer| measure(scorer, &weights)).map(Some)
}

/// The sums of the training part, of every k-th step where there are many.
fn normal_equations(
    of: &SeriesBaselines,
    train: &Scaled,
    lags: Lags,
    outputs: usize,
) -> NormalEquations {
    let width = (lags.before + lags.after + 1) * of.task.inputs.len();
    let mut equations = NormalEquations::new(width, outputs);
    let stride = (of.train.steps().saturating_mul(width * width) / (2 * MAX_WORK)).max(1);
    let (mut x, mut one_hot) = (Vec::new(), vec![0.0; outputs]);
    let spans: Vec<_> = of.train.spans().collect();
    let steps = spans.iter().flat_map(|span| span.counted.clone().map(move |step| (span, step)));
    for (span, step) in steps.step_by(stride) {
        let y = match train.target(step) {
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

#[cfg(test)]
mod tests {
    use super::super::{Columns, Parts, Shares, from_table, learn_task};
    use super::*;
    use crate::read::{Input, Missing, ReadLimits};
    use std::fmt::Write;

    fn parts(table: &str, target: &str) -> (SeriesTask, Parts) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.csv");
        std::fs::write(&path, table).unwrap();
        let columns = Columns::new(vec![target.into()]);
        let all = from_table(&Input::new(&path, ReadLimits::default()).unwrap(), &columns).unwrap();
        let parts = all.part(Shares { valid: 0.2, test: 0.2 }, 1).unwrap();
        let task = learn_task(&parts.train, Missing::Refuse, None).unwrap();
        (task, parts)
    }

    fn all(table: &str, target: &str, look_ahead: Option<usize>) -> Vec<Baseline> {
        let (task, Parts { train, valid, test }) = parts(table, target);
        let (task, train, valid) = (&task, &train, valid.as_ref().unwrap());
        let test = test.as_ref();
        series_baselines(&SeriesBaselines { task, train, valid, test, look_ahead }).unwrap()
    }

    /// Mean and persistence from the rows themselves; y is x two steps ahead, so ridge finds it where it
    /// looks so far.
    #[test]
    fn values() {
        let x: Vec<f32> = (0..502).map(|i| ((i * i) as f32 * 0.37).sin()).collect();
        let mut table = String::from("x,y\n");
        x.windows(3).for_each(|x| writeln!(table, "{},{}", x[0], x[2]).unwrap());
        let y: Vec<f64> = x[2..].iter().map(|x| f64::from(*x)).collect();
        let found = all(&table, "y", Some(2));
        let names: Vec<&str> = found.iter().map(|b| b.name.as_str()).collect();
        assert_eq!(names, ["mean", "persistence", "ridge"]);
        let mean = y[..300].iter().sum::<f64>() / 300.0;
        let mse = |predict: &dyn Fn(usize) -> f64, rows: Range<usize>| {
            let count = rows.len() as f64;
            rows.map(|i| (y[i] - predict(i)).powi(2)).sum::<f64>() / count
        };
        let close = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 1e-5, "{a:?} {b}");
        close(found[0].valid, mse(&|_| mean, 300..400));
        close(found[0].test, mse(&|_| mean, 400..500));
        // The step before the first of a part is the last of the part before it.
        close(found[1].valid, mse(&|i| y[i - 1], 300..400));
        close(found[1].test, mse(&|i| y[i - 1], 400..500));
        // The last two steps of the training part and of the table do not have what they depend on.
        assert!(found[2].valid.unwrap() < 2e-3 && found[2].test.unwrap() < 0.05, "{found:?}");
        assert!(found[2].what.contains("t-23 to t+2"), "{}", found[2].what);
        let blind = &all(&table, "y", Some(0))[2];
        assert!(blind.valid.unwrap() > 0.1, "{blind:?}");
        assert!(all(&table, "y", None)[2].valid.unwrap() < 2e-2);
    }

    #[test]
    fn classes() {
        let mut table = String::from("x,y\n");
        for i in 0..400 {
            let class = if i % 10 < 7 { "long" } else { "short" };
            writeln!(table, "{},{class}", if i % 10 < 7 { 1.0 } else { -1.0 }).unwrap();
        }
        let found = all(&table, "y", Some(0));
        assert_eq!((found[0].name.as_str(), found[0].valid), ("majority class", Some(0.7)));
        assert_eq!(found[0].what, "always long");
        assert_eq!((found[1].valid, found[1].test), (Some(0.8), Some(0.8)));
        assert_eq!(found[2].valid, Some(1.0));
    }

    #[test]
    fn lags_fit_the_width() {
        let lags = |inputs, ahead| Lags::new(inputs, ahead).map(|lags| (lags.before, lags.after));
        assert_eq!(lags(1, Some(3)), Some((23, 3)));
        assert_eq!(lags(100, Some(3)), Some((1, 3)));
        assert_eq!(lags(100, Some(30)), Some((0, 4)));
        assert_eq!(lags(400, None), Some((0, 0)));
        assert_eq!(lags(600, None), None);
    }
}
