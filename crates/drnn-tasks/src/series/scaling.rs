//! Columns to mean 0 and standard deviation 1, and back.
//!
//! ```text
//! scaled = (x - mean) / sd        x = mean + sd * scaled
//! ```
//!
//! Learned on what is learned from, and on nothing else. A column that never changes has sd 1: it becomes 0. A
//! missing number that is to be the mean becomes 0 too.

use crate::error::{Error, Result};
use crate::text::quote;
use serde::{Deserialize, Serialize};

/// One pair of numbers per column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scaling {
    /// Means.
    pub mean: Vec<f64>,
    /// Standard deviations, above 0.
    pub sd: Vec<f64>,
}

impl Scaling {
    /// Of rows of columns of these names; NaN does not count.
    pub fn learn(values: &[f32], names: &[String]) -> Result<Scaling> {
        let width = names.len();
        let (mut means, mut sds) = (Vec::new(), Vec::new());
        for (at, name) in names.iter().enumerate() {
            let column = || {
                let column = values.iter().skip(at).step_by(width).filter(|x| !x.is_nan());
                column.map(|x| f64::from(*x))
            };
            let count = column().count() as f64;
            if count == 0.0 {
                let what = format!("column {} holds no number to learn from", quote(name));
                return Err(Error::Data(what));
            }
            let mean = column().sum::<f64>() / count;
            let square = column().map(|x| (x - mean) * (x - mean)).sum::<f64>() / count;
            let first = column().next();
            let changes = column().any(|x| Some(x) != first);
            means.push(if changes { mean } else { first.unwrap_or(mean) });
            sds.push(if changes { square.sqrt() } else { 1.0 });
        }
        Ok(Scaling { mean: means, sd: sds })
    }

    /// Whether it is one for `width` columns.
    pub(super) fn is_of(&self, width: usize) -> bool {
        let finite = self.mean.iter().all(|x| x.is_finite());
        let positive = self.sd.iter().all(|x| *x > 0.0 && x.is_finite());
        [self.mean.len(), self.sd.len()] == [width; 2] && finite && positive
    }

    /// A value of column `column`, scaled; NaN stays NaN.
    pub fn apply(&self, column: usize, x: f32) -> f32 {
        ((f64::from(x) - self.mean[column]) / self.sd[column]) as f32
    }

    /// And back.
    pub fn undo(&self, column: usize, scaled: f32) -> f64 {
        self.mean[column] + self.sd[column] * f64::from(scaled)
    }
}
