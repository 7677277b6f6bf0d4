//! Baselines of series: simple predictors, scored on the rows, and by the measure, of the network
//! ([`Scorer`]).
//!
//! ```text
//! mean          the mean of the training part; of classes its most frequent one
//! persistence   y[t - 1] for y[t]; for a forecast y[t + H] the last value that is known when it is
//!               made: y[t], or y[t + d] where the network's delay lets it read on to t + d, d < H
//! ridge         x[t - 23] .. x[t + d], as far ahead as the network looks, by least squares; with a
//!               forecast also y[t - 23] .. y[t + d] if the target is not among the inputs
//! ```
//!
//! | file | what |
//! |---|---|
//! | `known` | targets as they are known at each step, and persistence |
//! | `lagged` | ridge regression on lagged inputs |

mod known;
mod lagged;

use super::score::{Measures, Score, Scorer};
use super::sequences::Sequences;
use crate::baseline::{Baseline, MEAN};
use crate::data::TargetData;
use crate::error::Result;
use drnn_tasks::series::SeriesTask;
use known::Known;
use std::ops::Range;

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

/// A simple predictor with its scores.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredBaseline {
    /// Its name, such as `persistence`.
    pub name: String,
    /// What it predicts.
    pub what: String,
    /// On the validation part.
    pub valid: Option<Score>,
    /// On the test part.
    pub test: Option<Score>,
}

impl ScoredBaseline {
    /// Only the measures over all targets.
    pub fn summary(&self) -> Baseline {
        let quality = |score: &Option<Score>| score.as_ref().and_then(Score::quality);
        Baseline {
            name: self.name.clone(),
            what: self.what.clone(),
            valid: quality(&self.valid),
            test: quality(&self.test),
        }
    }

    /// The mean squared error of target `at`, on the test part or, without one, on the validation
    /// part; NaN where nothing counted.
    pub fn error(&self, at: usize) -> f64 {
        match self.test.as_ref().or(self.valid.as_ref()).map(|score| &score.measures) {
            Some(Measures::Values(targets)) => match targets.get(at) {
                Some(target) if target.count > 0 => target.mse,
                _ => f64::NAN,
            },
            _ => f64::NAN,
        }
    }
}

/// All baselines.
pub fn series_baselines(of: &SeriesBaselines) -> Result<Vec<ScoredBaseline>> {
    let parts = [Some(of.valid), of.test];
    let parts: Vec<Part> =
        parts.into_iter().flatten().map(|part| Part::new(of.task, part)).collect::<Result<_>>()?;
    let train = Part::new(of.task, of.train)?;
    let mut all = vec![constant(of, &train, &parts)?, known::persistence(of, &parts)?];
    all.extend(lagged::ridge(of, &train, &parts)?);
    Ok(all)
}

/// Baselines of data that a model of this delay is evaluated on (None: it is bidirectional), without
/// the data that it was trained on: the mean that its file has, or the most frequent class of these
/// data; and persistence. The scores are in `test`.
pub fn evaluation_baselines(
    task: &SeriesTask,
    data: &Sequences,
    look_ahead: Option<usize>,
) -> Result<Vec<ScoredBaseline>> {
    let of = SeriesBaselines { task, train: data, valid: data, test: None, look_ahead };
    let parts = [Part::new(task, data)?];
    let all = [constant(&of, &parts[0], &parts)?, known::persistence(&of, &parts)?];
    Ok(all.map(|found| ScoredBaseline { test: found.valid, valid: None, ..found }).into())
}

/// A part of the data, ready to be scored.
struct Part<'a> {
    scorer: Scorer,
    known: Known<'a>,
}

impl<'a> Part<'a> {
    fn new(task: &'a SeriesTask, part: &'a Sequences) -> Result<Part<'a>> {
        Ok(Part { scorer: Scorer::new(task, part)?, known: Known::new(task, part) })
    }
}

/// The scores of a predictor on all parts: `output` writes what it predicts for a step, scaled, given
/// all steps of its sequence.
fn scored(
    (name, what): (&str, String),
    parts: &[Part],
    mut output: impl FnMut(&Part, &Range<usize>, usize, &mut [f32]),
) -> Result<ScoredBaseline> {
    let mut scores = parts
        .iter()
        .map(|part| part.scorer.score_by(|whole, step, y| output(part, whole, step, y)));
    let (valid, test) = (scores.next().transpose()?, scores.next().transpose()?);
    Ok(ScoredBaseline { name: name.into(), what, valid, test })
}

/// Mean, which is 0 in scaled units, or the most frequent class.
fn constant(of: &SeriesBaselines, train: &Part, parts: &[Part]) -> Result<ScoredBaseline> {
    let counted = || of.train.spans().flat_map(|span| span.counted);
    let (majority, name) = match (&train.scorer.data().y, &of.task.classes) {
        (TargetData::Classes(y), Some(classes)) => {
            let mut counts = vec![0u64; classes.len()];
            let known = counted().map(|step| y[step] as usize).filter(|y| *y < classes.len());
            known.for_each(|class| counts[class] += 1);
            let max = counts.iter().max().copied().unwrap_or(0);
            let class = counts.iter().position(|count| *count == max).unwrap_or(0);
            let what = format!("always {}", drnn::text::shortened(&classes[class], 40));
            (Some(class), ("majority class", what))
        }
        _ => (None, (MEAN, "the mean of the training part".to_string())),
    };
    scored(name, parts, |_, _, _, y| {
        y.fill(0.0);
        majority.iter().for_each(|class| y[*class] = 1.0);
    })
}

#[cfg(test)]
mod tests;
