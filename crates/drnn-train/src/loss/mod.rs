//! Losses of a network's outputs, and their gradients.
//!
//! ```text
//! cross-entropy   -log softmax(y)[class]        d y = softmax(y) - onehot(class)
//! squared error   (y - target)^2                d y = 2 (y - target)
//! ```
//!
//! both as means over the positions (cross-entropy) or values (squared error) that count.

mod class_weights;
mod confusion;
mod metric;

pub use class_weights::{MAX_CLASS_WEIGHT, balanced_class_weights, named_class_weights};
pub use confusion::{Confusion, ConfusionMatrix};
pub use metric::Metric;

/// In place of a class: the position does not count.
pub const IGNORE: u32 = u32::MAX;

/// Targets of the outputs (steps, B, m).
#[derive(Debug, Clone, Copy)]
pub enum Targets<'a> {
    /// A class below m for each position, (steps, B), or [`IGNORE`].
    Classes(&'a [u32]),
    /// Values, (steps, B, m); NaN does not count.
    Values(&'a [f32]),
}

/// A sum of losses over positions.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LossSum {
    /// Sum of losses.
    pub sum: f64,
    /// Positions, or values, that counted.
    pub count: usize,
    /// Positions whose class had the largest output; None for values.
    pub correct: Option<usize>,
}

impl LossSum {
    /// The mean; zero where nothing counted.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    /// Share of positions whose class had the largest output; None for values.
    pub fn accuracy(&self) -> Option<f64> {
        self.correct.map(|correct| correct as f64 / self.count.max(1) as f64)
    }

    /// Adds the sums of another batch.
    pub fn add(&mut self, other: LossSum) {
        self.sum += other.sum;
        self.count += other.count;
        let sum = |correct| Some(self.correct.unwrap_or(0) + correct);
        self.correct = other.correct.map_or(self.correct, sum);
    }
}

/// The loss of some outputs, `m` values each, and into `gradient` that of the mean.
///
/// # Panics
/// If the lengths do not fit, or a class is not below m.
pub fn loss(outputs: &[f32], m: usize, targets: Targets, gradient: &mut [f32]) -> LossSum {
    assert_eq!(outputs.len(), gradient.len(), "one gradient per output");
    match targets {
        Targets::Classes(classes) => cross_entropy(outputs, m, classes, gradient),
        Targets::Values(values) => squared_error(outputs, values, gradient),
    }
}

fn cross_entropy(outputs: &[f32], m: usize, classes: &[u32], gradient: &mut [f32]) -> LossSum {
    let count = classes.iter().filter(|&&class| class != IGNORE).count();
    let weight = 1.0 / count.max(1) as f32;
    each_cross_entropy(outputs, m, classes, |_| weight, gradient)
}

/// Cross-entropy; `gradient` becomes the gradient of the weighted sum over positions. The returned sum
/// is not weighted.
///
/// # Panics
/// If the lengths do not fit, or a class is not below m.
pub fn weighted_cross_entropy(
    outputs: &[f32],
    m: usize,
    classes: &[u32],
    weights: &[f32],
    gradient: &mut [f32],
) -> LossSum {
    assert!(classes.len() == weights.len() && outputs.len() == gradient.len());
    each_cross_entropy(outputs, m, classes, |i| weights[i], gradient)
}

/// Cross-entropy with a weight for each class; `gradient` becomes that of the weighted mean over
/// positions, sum w loss / sum w, as `torch.nn.CrossEntropyLoss(weight=w)` has it. The returned sum is
/// not weighted, so losses can be compared with those of other data and other weights.
///
/// # Panics
/// If the lengths do not fit, or a class is not below m.
pub fn class_weighted_cross_entropy(
    outputs: &[f32],
    m: usize,
    classes: &[u32],
    class_weights: &[f32],
    gradient: &mut [f32],
) -> LossSum {
    assert_eq!(class_weights.len(), m, "one weight per class");
    let counted = classes.iter().filter(|&&class| class != IGNORE);
    let total: f64 = counted.map(|&class| f64::from(class_weights[class as usize])).sum();
    // All weights are zero: so is the gradient.
    let scale = if total > 0.0 { 1.0 / total } else { 0.0 };
    let weight = |i: usize| (f64::from(class_weights[classes[i] as usize]) * scale) as f32;
    each_cross_entropy(outputs, m, classes, weight, gradient)
}

fn each_cross_entropy(
    outputs: &[f32],
    m: usize,
    classes: &[u32],
    weight: impl Fn(usize) -> f32,
    gradient: &mut [f32],
) -> LossSum {
    assert_eq!(outputs.len(), classes.len() * m, "one class per position");
    let (mut sum, mut correct, mut count) = (0.0, 0, 0);
    let rows = outputs.chunks_exact(m).zip(gradient.chunks_exact_mut(m));
    for (i, ((y, d), &class)) in rows.zip(classes).enumerate() {
        if class == IGNORE {
            d.fill(0.0);
            continue;
        }
        count += 1;
        let largest = y.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
        let mut total = 0.0f32;
        for (d, y) in d.iter_mut().zip(y) {
            *d = (y - largest).exp();
            total += *d;
        }
        let class = class as usize;
        correct += usize::from(y[class] == largest);
        sum += f64::from(total.ln() - (y[class] - largest));
        let scale = weight(i);
        let inverse = scale / total;
        d.iter_mut().for_each(|d| *d *= inverse);
        d[class] -= scale;
    }
    LossSum { sum, count, correct: Some(correct) }
}

fn squared_error(outputs: &[f32], values: &[f32], gradient: &mut [f32]) -> LossSum {
    assert_eq!(outputs.len(), values.len(), "one target per output");
    let count = values.iter().filter(|value| !value.is_nan()).count();
    let scale = 2.0 / count.max(1) as f32;
    let mut sum = 0.0;
    for ((y, target), d) in outputs.iter().zip(values).zip(gradient) {
        let error = if target.is_nan() { 0.0 } else { y - target };
        sum += f64::from(error * error);
        *d = scale * error;
    }
    LossSum { sum, count, correct: None }
}

/// The index of the largest output, the first of equal ones; 0 for none.
pub fn argmax(outputs: &[f32]) -> usize {
    let better = |best: usize, i: usize| if outputs[i] > outputs[best] { i } else { best };
    (0..outputs.len()).reduce(better).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finite differences of the mean along every output.
    fn check(outputs: &[f32], m: usize, targets: Targets) {
        let mut gradient = vec![f32::NAN; outputs.len()];
        loss(outputs, m, targets, &mut gradient);
        for i in 0..outputs.len() {
            let at = |delta: f32| {
                let mut moved = outputs.to_vec();
                moved[i] += delta;
                loss(&moved, m, targets, &mut vec![0.0; outputs.len()]).mean()
            };
            let numeric = (at(1e-2) - at(-1e-2)) / 2e-2;
            assert!(
                (numeric - f64::from(gradient[i])).abs() < 1e-4,
                "{i}: {numeric} {}",
                gradient[i]
            );
        }
    }

    #[test]
    fn gradients_equal_differences_and_some_positions_do_not_count() {
        let y = [0.3, -1.0, 2.0, 0.5, 0.1, 0.2, -0.7, 0.9, 1.5];
        check(&y, 3, Targets::Classes(&[2, IGNORE, 0]));
        check(&y, 3, Targets::Values(&[0.1, 0.2, 0.3, f32::NAN, 0.0, -1.0, 0.5, 0.5, 0.5]));
        let sum = loss(&y, 3, Targets::Classes(&[IGNORE; 3]), &mut [1.0; 9]);
        assert_eq!((sum.count, sum.mean()), (0, 0.0));
    }

    /// `CrossEntropyLoss(weight=[1, 0.5, 4])` of PyTorch, and its gradient by differences.
    #[test]
    fn class_weights_make_a_weighted_mean() {
        let (y, classes) = ([0.3, -1.0, 2.0, 0.5, 0.1, 0.2, -0.7, 0.9, 1.5], [2, IGNORE, 0]);
        let weights = [1.0, 0.5, 4.0];
        let mean = |y: &[f32]| {
            let of = |i: usize| {
                let row: Vec<f64> = y[3 * i..][..3].iter().map(|y| f64::from(*y)).collect();
                let total: f64 = row.iter().map(|y| y.exp()).sum();
                total.ln() - row[classes[i] as usize]
            };
            (4.0 * of(0) + of(2)) / 5.0
        };
        let mut gradient = [f32::NAN; 9];
        let sum = class_weighted_cross_entropy(&y, 3, &classes, &weights, &mut gradient);
        let plain = loss(&y, 3, Targets::Classes(&classes), &mut [0.0; 9]);
        assert_eq!(sum, plain);
        for i in 0..9 {
            let at = |delta: f32| {
                let mut moved = y;
                moved[i] += delta;
                mean(&moved)
            };
            let numeric = (at(1e-2) - at(-1e-2)) / 2e-2;
            assert!((numeric - f64::from(gradient[i])).abs() < 1e-4, "{i}: {numeric}");
        }
        class_weighted_cross_entropy(&y, 3, &classes, &[0.0; 3], &mut gradient);
        assert_eq!(gradient, [0.0; 9]);
    }

    #[test]
    fn known_values() {
        let mut d = [0.0; 4];
        let even = loss(&[1000.0; 4], 4, Targets::Classes(&[1]), &mut d);
        assert!((even.mean() - 4f64.ln()).abs() < 1e-6); // and no overflow
        assert!((d[1] + 0.75).abs() < 1e-6 && (d[0] - 0.25).abs() < 1e-6);
        let error = loss(&[1.0, 3.0], 1, Targets::Values(&[0.0, 0.0]), &mut d[..2]);
        assert_eq!(error.mean(), 5.0);
    }
}
