//! Standardisation of columns to mean 0 and standard deviation 1, and its inverse.
//!
//! ```text
//! scaled = (x - mean) / sd        x = mean + sd * scaled
//! ```
//!
//! The statistics are those of the training part. A constant column has sd 1, so it becomes 0. A
//! missing number that is replaced by the mean becomes 0 too.

use crate::error::{Error, Result};
use crate::text::quote;
use serde::{Deserialize, Serialize};

/// Mean and standard deviation of each column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scaling {
    /// Means.
    pub mean: Vec<f64>,
    /// Standard deviations, above 0.
    pub sd: Vec<f64>,
}

impl Scaling {
    /// The statistics of `values`, row after row of the named columns; NaN is skipped.
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
                let what = format!("column {} has only missing numbers", quote(name));
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

    /// Whether it is valid for `width` columns.
    pub(super) fn is_of(&self, width: usize) -> bool {
        let finite = self.mean.iter().all(|x| x.is_finite());
        let positive = self.sd.iter().all(|x| *x > 0.0 && x.is_finite());
        [self.mean.len(), self.sd.len()] == [width; 2] && finite && positive
    }

    /// Standardises a value of column `column`; NaN stays NaN.
    pub fn apply(&self, column: usize, x: f32) -> f32 {
        ((f64::from(x) - self.mean[column]) / self.sd[column]) as f32
    }

    /// The inverse of [`Scaling::apply`].
    pub fn undo(&self, column: usize, scaled: f32) -> f64 {
        self.mean[column] + self.sd[column] * f64::from(scaled)
    }
}
