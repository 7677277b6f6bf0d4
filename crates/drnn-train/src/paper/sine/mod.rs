//! The paper's second task: the sine of a filtered sequence, where the filter looks ahead.
//!
//! ```text
//! y_t = sin(gamma * sum_{j = -c+1 .. a} w_{j+c} x_{t+j})        c = 20 - a;  x, w ~ U[0, 1)
//! ```
//!
//! The filter w has c causal taps, then a acausal ones, oldest first; x is zero outside the sequence. A
//! network with delay d can know y_t where a <= d. The larger gamma, the less linear.
//!
//! x and w are multiples of 2^-24, so in double precision the sum is exact in any order: a GPU that
//! generates these numbers gets the same values but for its sine.

pub mod campaign;
mod pool;
pub mod results;

use crate::data::{Examples, Generated, Inputs, Recipe, TargetData};
use crate::error::{Error, Result};
use crate::seed;
use drnn::random::Rng;

/// The paper's elements of a sequence, T.
pub const STEPS: usize = 50;
/// The paper's taps of a filter, c + a.
pub const TAPS: usize = 20;

/// The task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sine {
    /// Frequency.
    pub gamma: f64,
    /// Acausal taps, a.
    pub ahead: usize,
    /// Elements of a sequence, T.
    pub steps: usize,
    /// Taps in all, c + a.
    pub taps: usize,
}

/// The random numbers of one data set, each part from a seed of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinePart {
    /// w, the same for all sequences of a data set.
    Filter = 0,
    /// Training sequences.
    Train = 1,
    /// Validation sequences, which decide when to stop.
    Valid = 2,
    /// Test sequences.
    Test = 3,
    /// The network's initial parameters, and the order of sequences.
    Training = 4,
}

impl SinePart {
    /// The seed of this part, in the data set of seed `set_seed`.
    pub fn seed(self, set_seed: u64) -> u64 {
        seed::derive(set_seed, &[self as u64])
    }
}

impl Sine {
    /// The paper's: T = 50, 20 taps.
    pub fn new(gamma: f64, ahead: usize) -> Sine {
        Sine { gamma, ahead, steps: STEPS, taps: TAPS }
    }

    /// The filter of a data set, oldest tap first.
    pub fn filter(&self, set_seed: u64) -> Vec<f32> {
        let mut rng = Rng::new(SinePart::Filter.seed(set_seed));
        (0..self.taps).map(|_| rng.uniform()).collect()
    }

    /// `count` sequences of the data set `set_seed`: one filter, and the sequences of `part`.
    pub fn examples(&self, count: usize, set_seed: u64, part: SinePart) -> Result<Examples> {
        self.check(count)?;
        let steps = self.steps;
        let w = self.filter(set_seed);
        let mut rng = Rng::new(part.seed(set_seed));
        let x: Vec<f32> = (0..count * steps).map(|_| rng.uniform()).collect();
        let y = x.chunks_exact(steps).flat_map(|x| (0..steps).map(|t| self.target(&w, x, t)));
        let (targets, inputs) = (TargetData::Values(y.collect()), Inputs::Dense(x));
        Examples::new(inputs, targets, [count, steps], [1, 1])
    }

    /// The same, generated when they are first used.
    pub fn generated(&self, count: usize, set_seed: u64, part: SinePart) -> Result<Generated> {
        Generated::new(Recipe::Sine { task: *self, count, set_seed, part })
    }

    /// Refuses sizes of 0 and parameters out of range.
    pub(crate) fn check(&self, count: usize) -> Result<()> {
        let Sine { gamma, ahead, steps, taps } = *self;
        if ahead > taps || !gamma.is_finite() || steps == 0 || count == 0 {
            return Err(Error::Data(format!(
                "{count} sequences of {steps} elements, {ahead} of {taps} taps ahead, gamma {gamma}"
            )));
        }
        Ok(())
    }

    /// y_t.
    fn target(&self, w: &[f32], x: &[f32], t: usize) -> f32 {
        // w_1 lies on x_{t-c+1}, which may be before the sequence.
        let first = (t + 1 + self.ahead) as isize - self.taps as isize;
        let w = w.get(first.min(0).unsigned_abs()..).unwrap_or_default();
        let x = x.get(first.max(0).unsigned_abs()..).unwrap_or_default();
        let sum: f64 = w.iter().zip(x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
        (self.gamma * sum).sin() as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Dataset, Gathered};
    use crate::loss::Targets;

    /// Sequence `row`: x and y.
    fn sequence(examples: &Examples, row: u32) -> (Vec<f32>, Vec<f32>) {
        let mut batch = Gathered::default();
        examples.gather(0, &[row], &mut batch);
        let drnn::Elements::Dense(x) = batch.batch().elements() else { panic!() };
        let Targets::Values(y) = batch.targets() else { panic!() };
        (x.to_vec(), y.to_vec())
    }

    /// The formula, with its indices from 1 and zeros outside.
    #[test]
    fn targets_are_the_formula() {
        for (ahead, taps, steps) in [(0, 20, 50), (7, 20, 50), (10, 20, 50), (3, 4, 2), (4, 4, 9)] {
            let task = Sine { gamma: 0.7, ahead, steps, taps };
            let examples = task.examples(3, 5, SinePart::Train).unwrap();
            let (w, c) = (task.filter(5), (taps - ahead) as i64);
            for row in 0..3 {
                let (x, y) = sequence(&examples, row);
                let x_at = |t: i64| if t < 1 { None } else { x.get(t as usize - 1) };
                for t in 1..=steps as i64 {
                    let mut sum = 0.0;
                    for j in -c + 1..=ahead as i64 {
                        sum += f64::from(w[(j + c - 1) as usize])
                            * f64::from(x_at(t + j).copied().unwrap_or(0.0));
                    }
                    let expected = (0.7 * sum).sin() as f32;
                    assert_eq!(y[t as usize - 1], expected, "a {ahead}, t {t}");
                }
            }
        }
    }

    /// Two causal taps 1/4, 1/2 and an acausal one 1, over 1, 2, 3.
    #[test]
    fn a_filter_by_hand() {
        let task = Sine { gamma: 1.0, ahead: 1, steps: 3, taps: 3 };
        let y = |t| task.target(&[0.25, 0.5, 1.0], &[1.0, 2.0, 3.0], t);
        assert_eq!(y(0), 2.5f64.sin() as f32); // 1/2 * 1 + 1 * 2
        assert_eq!(y(1), 4.25f64.sin() as f32); // 1/4 * 1 + 1/2 * 2 + 1 * 3
        assert_eq!(y(2), 2.0f64.sin() as f32); // 1/4 * 2 + 1/2 * 3
    }

    #[test]
    fn a_data_set_has_one_filter_and_sequences_of_its_own() {
        let task = Sine::new(0.5, 5);
        let parts = [SinePart::Train, SinePart::Valid, SinePart::Test];
        let first = parts.map(|part| sequence(&task.examples(2, 1, part).unwrap(), 0).0);
        assert!(first[0] != first[1] && first[1] != first[2] && first[0] != first[2]);
        assert_ne!(task.filter(1), task.filter(2));
        assert_eq!(task.filter(1), Sine::new(0.1, 0).filter(1)); // gamma and a are in the seed
        // More sequences begin with the same ones.
        let more = task.examples(9, 1, SinePart::Train).unwrap();
        assert_eq!(sequence(&more, 0).0, first[0]);
        assert!(first.iter().flatten().all(|x| (0.0..1.0).contains(x)));
        assert!(task.examples(0, 1, SinePart::Train).is_err());
        assert!(Sine { taps: 4, ..task }.examples(1, 1, SinePart::Train).is_err());
    }
}
