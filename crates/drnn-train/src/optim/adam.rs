//! Adam, and clipping at the global norm.
//!
//! ```text
//! m = b1 m + (1 - b1) g        v = b2 v + (1 - b2) g^2
//! p = (1 - lr * decay) p - lr * m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)
//! ```
//!
//! As `torch.optim.Adam`, with weight decay as `torch.optim.AdamW`, and `torch.nn.utils.clip_grad_norm_`: the norm is that of all parameters of one
//! model together.

use serde::{Deserialize, Serialize};

/// The constants of Adam; the learning rate is given with each step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AdamOptions {
    /// Decay of the mean of gradients.
    pub beta1: f32,
    /// Decay of the mean of their squares.
    pub beta2: f32,
    /// Added to the divisor, so that it is never zero.
    pub eps: f32,
    /// Decoupled weight decay of all parameters, biases and embeddings too, as in AdamW; 0 for none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub weight_decay: f32,
}

/// Options that are off are left out of files, which then stay as versions without them wrote them.
pub(crate) fn is_zero(x: &f32) -> bool {
    *x == 0.0
}

impl Default for AdamOptions {
    /// The usual values, also the paper's: 0.9, 0.999, 1e-8, no weight decay.
    fn default() -> AdamOptions {
        AdamOptions { beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.0 }
    }
}

/// Adam's state for one model.
#[derive(Debug, Clone, PartialEq)]
pub struct Adam {
    options: AdamOptions,
    /// Steps taken, t.
    pub steps: u64,
    /// Mean of gradients, m.
    pub mean: Vec<f32>,
    /// Mean of their squares, v.
    pub square: Vec<f32>,
}

impl Adam {
    /// Zero moments, before the first step.
    pub fn new(options: AdamOptions, parameters: usize) -> Adam {
        Adam { options, steps: 0, mean: vec![0.0; parameters], square: vec![0.0; parameters] }
    }

    /// The constants it was made with.
    pub fn options(&self) -> AdamOptions {
        self.options
    }

    /// Takes a step along `gradient`, scaled by `scale`.
    ///
    /// # Panics
    /// If the lengths differ.
    pub fn step(&mut self, params: &mut [f32], gradient: &[f32], scale: f32, learning_rate: f32) {
        assert!(params.len() == self.mean.len() && gradient.len() == self.mean.len());
        self.steps += 1;
        let AdamOptions { beta1, beta2, eps, weight_decay } = self.options;
        let t = self.steps as f64;
        let correction1 = 1.0 - f64::from(beta1).powf(t);
        let correction2 = 1.0 - f64::from(beta2).powf(t);
        let rate = (f64::from(learning_rate) / correction1) as f32;
        let root = (1.0 / correction2.sqrt()) as f32;
        let keep = 1.0 - learning_rate * weight_decay;
        let state = self.mean.iter_mut().zip(&mut self.square);
        for ((p, g), (m, v)) in params.iter_mut().zip(gradient).zip(state) {
            let g = g * scale;
            *m = beta1 * *m + (1.0 - beta1) * g;
            *v = beta2 * *v + (1.0 - beta2) * g * g;
            *p = *p * keep - rate * *m / (v.sqrt() * root + eps);
        }
    }
}

/// The Euclidean norm of a gradient, summed in double precision.
pub fn norm(gradient: &[f32]) -> f64 {
    // Several sums at once, in a fixed order.
    let mut sums = [0.0f64; 8];
    let chunks = gradient.chunks_exact(8);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (sum, g) in sums.iter_mut().zip(chunk) {
            *sum += f64::from(*g) * f64::from(*g);
        }
    }
    let rest: f64 = rest.iter().map(|&g| f64::from(g) * f64::from(g)).sum();
    (sums.iter().sum::<f64>() + rest).sqrt()
}

/// The factor that scales a gradient of norm `norm` to at most `max_norm`.
pub fn clip_scale(norm: f64, max_norm: f64) -> f32 {
    (max_norm / (norm + 1e-6)).min(1.0) as f32 // PyTorch's 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two steps by hand in f64.
    #[test]
    fn two_steps_by_the_formula() {
        let (mut p, mut m, mut v) = (1.0f64, 0.0f64, 0.0f64);
        let mut params = [1.0f32];
        let mut adam = Adam::new(AdamOptions::default(), 1);
        for (t, g) in [(1, 0.5f64), (2, -2.0)] {
            adam.step(&mut params, &[g as f32 * 2.0], 0.5, 0.1);
            m = 0.9 * m + 0.1 * g;
            v = 0.999 * v + 0.001 * g * g;
            let (m_hat, v_hat) = (m / (1.0 - 0.9f64.powi(t)), v / (1.0 - 0.999f64.powi(t)));
            p -= 0.1 * m_hat / (v_hat.sqrt() + 1e-8);
            assert!((f64::from(params[0]) - p).abs() < 1e-6, "{} {p}", params[0]);
        }
    }

    /// Three steps of `torch.optim.AdamW(lr=0.1, weight_decay=0.2)` on 1, -2 and 0.
    #[test]
    fn weight_decay_is_decoupled() {
        let options = AdamOptions { weight_decay: 0.2, ..AdamOptions::default() };
        let mut adam = Adam::new(options, 3);
        let mut params = [1.0f32, -2.0, 0.0];
        for gradient in [[0.5, 0.0, 1.0], [-2.0, 0.0, 0.25], [1.0, 0.0, -3.0]] {
            adam.step(&mut params, &gradient, 1.0, 0.1);
        }
        let expected = [0.911001, -1.882384, -0.137863];
        for (found, expected) in params.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
        let plain = serde_json::to_string(&AdamOptions::default()).unwrap();
        assert!(!plain.contains("decay"), "{plain}");
        let decayed = serde_json::to_string(&options).unwrap();
        assert_eq!(serde_json::from_str::<AdamOptions>(&decayed).unwrap(), options);
        assert_eq!(serde_json::from_str::<AdamOptions>(&plain).unwrap(), AdamOptions::default());
    }

    #[test]
    fn norms_and_clipping() {
        let g: Vec<f32> = (0..19).map(|i| i as f32).collect();
        assert!((norm(&g) - 2109f64.sqrt()).abs() < 1e-9);
        assert_eq!(clip_scale(0.5, 1.0), 1.0);
        assert!((clip_scale(4.0, 1.0) - 0.25).abs() < 1e-6);
    }
}
