//! The learning rate, epoch by epoch.
//!
//! ```text
//! constant     r
//! cosine       r (1 + cos(pi e / E)) / 2          e of E epochs
//! on plateau   r factor^k                         k times no better for `patience` epochs
//! ```

use serde::{Deserialize, Serialize};

/// How the learning rate changes from epoch to epoch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Always the same.
    Constant,
    /// Down to zero over all epochs, along a cosine.
    Cosine,
    /// Times `factor` whenever the validation loss has not become better for `patience` epochs.
    Plateau {
        /// Below 1.
        factor: f32,
        /// Epochs.
        patience: usize,
    },
}

impl Schedule {
    /// Halved after three epochs without improvement.
    pub const PLATEAU: Schedule = Schedule::Plateau { factor: 0.5, patience: 3 };

    /// The rate of epoch `epoch` of `epochs`, after validation losses `history`.
    pub fn rate(&self, base: f32, epoch: usize, epochs: usize, history: &[f64]) -> f32 {
        match *self {
            Schedule::Constant => base,
            Schedule::Cosine => {
                let turn = std::f64::consts::PI * epoch as f64 / epochs.max(1) as f64;
                (f64::from(base) * (1.0 + turn.cos()) / 2.0) as f32
            }
            Schedule::Plateau { factor, patience } => {
                let (mut best, mut waited, mut rate) = (f64::INFINITY, 0, base);
                for &loss in history {
                    if loss < best {
                        (best, waited) = (loss, 0);
                    } else {
                        waited += 1;
                    }
                    if waited >= patience.max(1) {
                        rate *= factor;
                        waited = 0;
                    }
                }
                rate
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates() {
        assert_eq!(Schedule::Constant.rate(0.1, 7, 9, &[]), 0.1);
        assert_eq!(Schedule::Cosine.rate(0.1, 0, 10, &[]), 0.1);
        assert!((Schedule::Cosine.rate(0.1, 5, 10, &[]) - 0.05).abs() < 1e-6);
        let plateau = Schedule::Plateau { factor: 0.5, patience: 2 };
        assert_eq!(plateau.rate(0.1, 3, 9, &[3.0, 2.0, 2.0]), 0.1);
        assert_eq!(plateau.rate(0.1, 4, 9, &[3.0, 2.0, 2.0, 2.5]), 0.05);
        assert_eq!(plateau.rate(0.1, 6, 9, &[3.0, 2.0, 2.0, 2.5, 1.0, 1.0]), 0.05);
    }
}
