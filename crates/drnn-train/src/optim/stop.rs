//! Early stopping: when the watched measure on the validation set has not improved for some epochs,
//! or is good enough.

use serde::{Deserialize, Serialize};

/// What ends a training before its last epoch.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Stopping {
    /// Stop when the measure on the validation set has not improved for so many epochs.
    pub patience: Option<usize>,
    /// Minimum difference to the best so far that counts as an improvement.
    pub min_delta: f64,
    /// Stop when the measure is below this; above it where more is better.
    pub at_value: Option<f64>,
}

/// Why a training ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// All epochs are done.
    Epochs,
    /// No improvement for [`Stopping::patience`] epochs.
    Patience,
    /// The measure is past [`Stopping::at_value`].
    Value,
    /// The loss, or the gradient, is no longer finite.
    NotFinite,
}

impl Stopping {
    /// Whether, and why, to stop after these losses, or other measures of which less is better, one per
    /// epoch.
    pub fn reason(&self, history: &[f64], epochs: usize) -> Option<Reason> {
        let last = *history.last()?;
        if !last.is_finite() {
            return Some(Reason::NotFinite);
        }
        if self.at_value.is_some_and(|value| last < value) {
            return Some(Reason::Value);
        }
        let (mut best, mut waited) = (f64::INFINITY, 0);
        for &loss in history {
            if loss < best - self.min_delta {
                (best, waited) = (loss, 0);
            } else {
                waited += 1;
            }
        }
        if self.patience.is_some_and(|patience| waited >= patience) {
            return Some(Reason::Patience);
        }
        (history.len() >= epochs).then_some(Reason::Epochs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons() {
        let stopping = Stopping { patience: Some(2), min_delta: 0.1, at_value: Some(0.05) };
        assert_eq!(stopping.reason(&[], 9), None);
        assert_eq!(stopping.reason(&[1.0, 0.95], 9), None); // a little better is not better
        assert_eq!(stopping.reason(&[1.0, 0.95, 0.91], 9), Some(Reason::Patience));
        assert_eq!(stopping.reason(&[1.0, 0.95, 0.8], 9), None);
        assert_eq!(stopping.reason(&[1.0, 0.01], 9), Some(Reason::Value));
        assert_eq!(stopping.reason(&[1.0, f64::NAN], 9), Some(Reason::NotFinite));
        assert_eq!(stopping.reason(&[1.0, 0.8], 2), Some(Reason::Epochs));
    }
}
