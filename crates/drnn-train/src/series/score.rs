//! Errors and accuracy of a model on series, in the targets' own units.
//!
//! ```text
//! MSE = mean of (y - target)^2        R^2 = 1 - MSE / variance of the target
//! ```

use super::outputs::{check_padding, each_output};
use super::scaled::Scaled;
use super::sequences::{Sequences, Span};
use crate::data::{TargetData, check_widths};
use crate::error::{Error, Result};
use crate::loss::{Confusion, IGNORE, LossSum, Metric, Targets, argmax, loss};
use drnn::NetSpec;
use drnn_tasks::Runner;
use drnn_tasks::series::SeriesTask;
use std::ops::Range;

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
    /// The loss as in training: of scaled values, or the cross-entropy over classes that the model
    /// knows.
    pub loss: LossSum,
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

/// Sequences made ready to be scored again and again.
#[derive(Debug, Clone)]
pub struct Scorer {
    task: SeriesTask,
    data: Scaled,
    spans: Vec<Span>,
    steps: usize,
}

impl Scorer {
    /// Scales `data` as `task` says.
    pub fn new(task: &SeriesTask, data: &Sequences) -> Result<Scorer> {
        let (task, scaled) = (task.clone(), Scaled::new(data, task)?);
        Ok(Scorer { task, data: scaled, spans: data.spans().collect(), steps: data.steps() })
    }

    /// Whether the network reads and predicts these columns.
    pub fn fits(&self, spec: &NetSpec) -> Result<()> {
        check_padding(spec)?;
        let [q, m] = self.data.widths;
        check_widths(spec, Some(q), Some(self.task.classes.as_ref().map_or(m, Vec::len)))
    }

    /// The steps, scaled.
    pub(super) fn data(&self) -> &Scaled {
        &self.data
    }

    /// Number of sequences.
    pub fn sequences(&self) -> usize {
        self.spans.len()
    }

    /// Number of steps that count.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The first steps that count of the longest sequence, at most `length`: to look at.
    pub fn stretch(&self, length: usize) -> Range<usize> {
        let longest = self.spans.iter().rev().max_by_key(|span| span.counted.len());
        let counted = longest.map_or(0..0, |span| span.counted.clone());
        counted.start..counted.end.min(counted.start.saturating_add(length))
    }

    /// Scores a model by what it outputs in use: every sequence runs from its beginning, states are
    /// carried, and a delayed network reads what really follows, also outside of the steps that count.
    pub fn score(&self, model: &dyn Runner) -> Result<Score> {
        self.fits(model.spec())?;
        let mut sums = Sums::new(&self.task);
        each_output(model, &self.data, &self.spans, &mut |step, y| {
            sums.add(y, self.data.target(step));
        })?;
        self.finish(sums)
    }

    /// Scores outputs that `predict` computes for each step that counts, given all steps of its
    /// sequence: a baseline is scored on exactly the rows of a model.
    pub(super) fn score_by(
        &self,
        mut predict: impl FnMut(&Range<usize>, usize, &mut [f32]),
    ) -> Result<Score> {
        let mut sums = Sums::new(&self.task);
        let mut y = vec![0.0; self.task.output_width()];
        for span in &self.spans {
            for step in span.counted.clone() {
                predict(&span.whole, step, &mut y);
                sums.add(&y, self.data.target(step));
            }
        }
        self.finish(sums)
    }

    fn finish(&self, sums: Sums) -> Result<Score> {
        let (loss, measures) = sums.finish(&self.task);
        let (sequences, steps, unknown) = (self.spans.len(), self.steps, self.data.unknown);
        let score = Score { sequences, steps, unknown, measures, loss };
        if score.counted() == 0 {
            return Err(Error::Data(format!(
                "nothing to score: none of {steps} steps has a target"
            )));
        }
        Ok(score)
    }

    /// Calls `look` with every step that counts, its outputs and its targets, scaled; a class is its
    /// number, [`IGNORE`] where the model does not know it. Steps are counted from 0 in the data as
    /// they were read, which may be more than the part that counts.
    pub fn each_prediction(
        &self,
        model: &dyn Runner,
        mut look: impl FnMut(usize, &[f32], Targets),
    ) -> Result<()> {
        self.fits(model.spec())?;
        each_output(model, &self.data, &self.spans, &mut |step, y| {
            look(step, y, self.data.target(step));
        })
    }

    /// The metric of the task: accuracy, or mean squared error.
    pub fn metric(&self) -> Metric {
        match self.data.y {
            TargetData::Classes(_) => Metric::Accuracy,
            TargetData::Values(_) => Metric::SquaredError,
        }
    }
}

/// Scores a model on sequences, see [`Scorer::score`].
pub fn score(model: &dyn Runner, task: &SeriesTask, data: &Sequences) -> Result<Score> {
    Scorer::new(task, data)?.score(model)
}

/// Sums over steps, scaled.
enum Sums {
    /// Per target: count, squared errors, targets, their squares.
    Values(Vec<[f64; 4]>),
    Classes {
        sum: LossSum,
        confusion: Confusion,
        gradient: Vec<f32>,
    },
}

impl Sums {
    fn new(task: &SeriesTask) -> Sums {
        match &task.classes {
            None => Sums::Values(vec![[0.0; 4]; task.targets.len()]),
            Some(classes) => Sums::Classes {
                sum: LossSum::default(),
                confusion: Confusion::new(classes.len()),
                gradient: vec![0.0; classes.len()],
            },
        }
    }

    /// Adds a step.
    fn add(&mut self, y: &[f32], target: Targets) {
        match (self, target) {
            (Sums::Values(sums), Targets::Values(targets)) => {
                let counted = sums.iter_mut().zip(y).zip(targets).filter(|(_, t)| !t.is_nan());
                for ((sum, y), target) in counted {
                    let (y, target) = (f64::from(*y), f64::from(*target));
                    let more = [1.0, (y - target) * (y - target), target, target * target];
                    sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
                }
            }
            (Sums::Classes { sum, confusion, gradient }, Targets::Classes(&[class])) => {
                let mut found = loss(y, gradient.len(), Targets::Classes(&[class]), gradient);
                if class != IGNORE {
                    // Of equal outputs the first is the prediction, here as in use.
                    let predicted = argmax(y);
                    found.correct = Some(usize::from(predicted == class as usize));
                    confusion.add(class as usize, predicted, 1);
                }
                sum.add(found);
            }
            _ => unreachable!("data and sums are of one task"),
        }
    }

    /// The loss, and the measures in the targets' own units.
    fn finish(self, task: &SeriesTask) -> (LossSum, Measures) {
        let sums = match self {
            Sums::Classes { sum, confusion, .. } => {
                return (sum, Measures::Classes { loss: sum, confusion });
            }
            Sums::Values(sums) => sums,
        };
        let all = |at: usize| sums.iter().map(|sums| sums[at]).sum::<f64>();
        let loss = LossSum { sum: all(1), count: all(0) as usize, correct: None };
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
        (loss, Measures::Values(sums.into_iter().enumerate().map(target).collect()))
    }
}
