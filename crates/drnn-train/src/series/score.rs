//! Errors and accuracy of a model on whole series, in the targets' own units.
//!
//! ```text
//! MSE = mean of (y - target)^2        R^2 = 1 - MSE / variance of the target
//! ```

use super::sequences::Sequences;
use super::windows::Windows;
use crate::data::{Dataset, Gathered};
use crate::error::{Error, Result};
use crate::loss::{Confusion, IGNORE, LossSum, Targets, argmax, loss};
use drnn::{Direction, Model, Stream};
use drnn_tasks::series::SeriesTask;

/// A model on some data.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// Sequences.
    pub sequences: usize,
    /// Steps.
    pub steps: usize,
    /// Steps of classes that the model does not know: they count as wrong and are not in the confusion
    /// counts.
    pub unknown: usize,
    /// Errors or accuracy.
    pub measures: Measures,
}

/// Errors of values, or the accuracy of classes.
#[derive(Debug, Clone, PartialEq)]
pub enum Measures {
    /// Of targets that are values.
    Values(Vec<TargetScore>),
    /// Of classes.
    Classes {
        /// Cross-entropy over classes that the model knows, and how many were predicted correctly.
        loss: LossSum,
        /// Counts by true and predicted class.
        confusion: Confusion,
    },
}

/// One target.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetScore {
    /// Steps that counted.
    pub count: usize,
    /// Mean squared error.
    pub mse: f64,
    /// Share of the target's variance that is explained; None where it does not change.
    pub r2: Option<f64>,
}

impl Score {
    /// Mean squared error over all targets, or accuracy; None where nothing counted.
    pub fn quality(&self) -> Option<f64> {
        match &self.measures {
            Measures::Classes { loss, .. } => {
                let count = self.counted();
                (count > 0).then(|| loss.correct.unwrap_or(0) as f64 / count as f64)
            }
            Measures::Values(targets) => {
                let count: usize = targets.iter().map(|target| target.count).sum();
                let sum: f64 = targets.iter().map(|t| t.mse * t.count as f64).sum();
                (count > 0).then(|| sum / count as f64)
            }
        }
    }

    /// Targets, or steps, that counted.
    pub fn counted(&self) -> usize {
        match &self.measures {
            Measures::Classes { loss, .. } => loss.count + self.unknown,
            Measures::Values(targets) => targets.iter().map(|target| target.count).sum(),
        }
    }
}

/// Approximate elements of a batch: more would only take memory.
const ELEMENTS: usize = 1 << 16;
/// Maximum values of all outputs of a batch, 256 MB; beyond it sequences are streamed where possible.
const MAX_VALUES: usize = 1 << 26;

/// Runs whole sequences through a model and scores its outputs.
pub fn score(model: &Model, task: &SeriesTask, data: &Sequences) -> Result<Score> {
    let windows = Windows::whole(data, task)?;
    windows.fits(model.spec())?;
    let all: Vec<u32> = (0..windows.len() as u32).collect();
    let longest = windows.longest().max(1);
    // All outputs of long sequences with many classes would not fit into memory.
    let values = longest.saturating_mul(task.output_width());
    let rows = (ELEMENTS / longest).clamp(1, 64).min((MAX_VALUES / values).max(1));
    let streams = values > MAX_VALUES && model.spec().direction() == Direction::Forward;
    let mut sums = Sums::new(task);
    let mut gathered = Gathered::default();
    for chosen in all.chunks(rows) {
        if streams {
            chosen.iter().try_for_each(|row| sums.add_streamed(model, &windows, *row))?;
            continue;
        }
        windows.gather(0, chosen, &mut gathered);
        let outputs = model.run(&gathered.batch(), None)?;
        sums.add(&outputs.values, gathered.targets());
    }
    let (sequences, steps, unknown) = (data.len(), data.steps(), windows.unknown());
    let score = Score { sequences, steps, unknown, measures: sums.finish(task) };
    if score.counted() == 0 {
        return Err(Error::Data(format!("nothing to score: none of {steps} steps has a target")));
    }
    Ok(score)
}

/// Sums over batches, scaled.
pub(super) enum Sums {
    /// Per target: count, squared errors, targets, their squares.
    Values(Vec<[f64; 4]>),
    Classes(LossSum, Confusion),
}

impl Sums {
    pub(super) fn new(task: &SeriesTask) -> Sums {
        match &task.classes {
            None => Sums::Values(vec![[0.0; 4]; task.targets.len()]),
            Some(classes) => Sums::Classes(LossSum::default(), Confusion::new(classes.len())),
        }
    }

    fn add(&mut self, outputs: &[f32], targets: Targets) {
        match (self, targets) {
            (Sums::Values(sums), Targets::Values(values)) => {
                let width = sums.len();
                for (i, (y, target)) in outputs.iter().zip(values).enumerate() {
                    if target.is_nan() {
                        continue;
                    }
                    let (y, target) = (f64::from(*y), f64::from(*target));
                    let sum = &mut sums[i % width];
                    let more = [1.0, (y - target) * (y - target), target, target * target];
                    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
                }
            }
            (Sums::Classes(sum, confusion), Targets::Classes(classes)) => {
                let m = confusion.classes();
                let (mut batch, mut gradient) = (LossSum::default(), vec![0.0; m]);
                for (y, class) in outputs.chunks_exact(m).zip(classes.chunks(1)) {
                    batch.add(loss(y, m, Targets::Classes(class), &mut gradient));
                    let class = class[0];
                    if class != IGNORE {
                        confusion.add(class as usize, argmax(y), 1);
                    }
                }
                sum.add(batch);
            }
            _ => unreachable!("windows and sums are of one task"),
        }
    }

    /// Adds one whole sequence, output by output.
    pub(super) fn add_streamed(
        &mut self,
        model: &Model,
        windows: &Windows,
        row: u32,
    ) -> Result<()> {
        let (x, targets) = windows.sequence(row);
        let mut stream = Stream::new(model)?;
        let mut at = 0..;
        let mut take = |y: &[f32]| {
            if let Some(target) = at.next().and_then(|step| targets.position(step, y.len())) {
                self.add(y, target);
            }
        };
        for element in x {
            if let Some(y) = stream.push(element)? {
                take(y);
            }
        }
        stream.finish().iter().for_each(|y| take(y));
        Ok(())
    }

    pub(super) fn finish(self, task: &SeriesTask) -> Measures {
        let sums = match self {
            Sums::Classes(loss, confusion) => return Measures::Classes { loss, confusion },
            Sums::Values(sums) => sums,
        };
        let sd = |i: usize| task.scaling.targets.as_ref().map_or(1.0, |scaling| scaling.sd[i]);
        let target = |(i, [count, errors, sum, square]): (usize, [f64; 4])| {
            let n = count.max(1.0);
            let (mse, mean) = (errors / n, sum / n);
            let variance = square / n - mean * mean;
            TargetScore {
                count: count as usize,
                mse: mse * sd(i) * sd(i),
                // Less is rounding: the target does not change.
                r2: (variance > 1e-12 * (1.0 + mean * mean)).then(|| 1.0 - mse / variance),
            }
        };
        Measures::Values(sums.into_iter().enumerate().map(target).collect())
    }
}
