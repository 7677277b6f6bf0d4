//! The paper's first task: output a sequence backwards while reading it, `y_t = x_{T+1-t}`.
//!
//! ```text
//! bound(d) = 1/2 (1 + 1/V) + floor((d + 1) / 2) (1 - 1/V) / T
//! ```
//!
//! is the best accuracy of a network with delay d that guesses what it has not read yet: V symbols, T
//! elements. Without delay the second half can be known; with d = T - 1 all of it.

use crate::data::{Examples, Generated, Inputs, Recipe, TargetData};
use crate::error::{Error, Result};
use crate::loss::{IGNORE, Targets};
use drnn::random::Rng;

/// The task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reversal {
    /// Elements of a sequence, T.
    pub steps: usize,
    /// Symbols, V.
    pub symbols: usize,
}

impl Default for Reversal {
    /// The paper's: T = 20, V = 4.
    fn default() -> Reversal {
        Reversal { steps: 20, symbols: 4 }
    }
}

impl Reversal {
    /// `count` random sequences, as one-hot vectors.
    pub fn examples(&self, count: usize, seed: u64) -> Result<Examples> {
        self.check(count)?;
        let Reversal { steps, symbols } = *self;
        let mut rng = Rng::new(seed);
        let mut x = vec![0.0; count * steps * symbols];
        let mut classes = vec![0; count * steps];
        for sequence in 0..count {
            for t in 0..steps {
                let symbol = rng.below(symbols);
                x[(sequence * steps + t) * symbols + symbol] = 1.0;
                classes[sequence * steps + steps - 1 - t] = symbol as u32;
            }
        }
        let (inputs, targets) = (Inputs::Dense(x), TargetData::Classes(classes));
        Examples::new(inputs, targets, [count, steps], [symbols, symbols])
    }

    /// The same, generated when they are first used.
    pub fn generated(&self, count: usize, seed: u64) -> Result<Generated> {
        Generated::new(Recipe::Reversal { task: *self, count, seed })
    }

    /// Refuses sizes of 0.
    pub(crate) fn check(&self, count: usize) -> Result<()> {
        let Reversal { steps, symbols } = *self;
        if steps == 0 || symbols == 0 || count == 0 {
            return Err(Error::Data(format!(
                "{count} sequences of {steps} elements of {symbols} symbols"
            )));
        }
        Ok(())
    }

    /// The expected accuracy of the best network that reads `ahead` elements beyond the present one.
    pub fn bound(&self, ahead: usize) -> f64 {
        let (t, v) = (self.steps as f64, self.symbols as f64);
        let more = ahead.min(self.steps - 1).div_ceil(2) as f64;
        0.5 * (1.0 + 1.0 / v) + more * (1.0 - 1.0 / v) / t
    }
}

/// Accuracy of the likeliest symbol, and of one sampled from the network's probabilities, as the paper's
/// authors do.
#[derive(Debug, Clone)]
pub struct Accuracy {
    rng: Rng,
    likeliest: usize,
    drawn: usize,
    count: usize,
}

impl Accuracy {
    /// Zero counts; `seed` is for the samples.
    pub fn new(seed: u64) -> Accuracy {
        Accuracy { rng: Rng::new(seed), likeliest: 0, drawn: 0, count: 0 }
    }

    /// Adds a batch's logits, m values each.
    pub fn add(&mut self, logits: &[f32], m: usize, targets: Targets) {
        let Targets::Classes(classes) = targets else { return };
        for (y, &class) in logits.chunks_exact(m).zip(classes) {
            if class == IGNORE {
                continue;
            }
            self.count += 1;
            let largest = y.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
            self.likeliest += usize::from(y.get(class as usize) == Some(&largest));
            let total: f32 = y.iter().map(|y| (y - largest).exp()).sum();
            let mut left = self.rng.uniform() * total;
            let drawn = y.iter().position(|y| {
                left -= (y - largest).exp();
                left < 0.0
            });
            self.drawn += usize::from(drawn.unwrap_or(m - 1) == class as usize);
        }
    }

    /// Accuracy of the likeliest symbol.
    pub fn likeliest(&self) -> f64 {
        self.likeliest as f64 / self.count.max(1) as f64
    }

    /// Accuracy of sampled symbols.
    pub fn drawn(&self) -> f64 {
        self.drawn as f64 / self.count.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Dataset, Gathered};

    #[test]
    fn the_papers_bounds() {
        let task = Reversal::default();
        assert_eq!(task.bound(0), 0.625);
        assert!((task.bound(5) - 0.7375).abs() < 1e-12);
        assert!((task.bound(19) - 1.0).abs() < 1e-12);
        assert_eq!(task.bound(19), task.bound(100));
    }

    #[test]
    fn targets_are_the_sequence_backwards() {
        let examples = Reversal { steps: 5, symbols: 3 }.examples(2, 1).unwrap();
        let mut batch = Gathered::default();
        examples.gather(0, &[1], &mut batch);
        let drnn::Elements::Dense(x) = batch.batch().elements() else { panic!() };
        let Targets::Classes(classes) = batch.targets() else { panic!() };
        for (t, one_hot) in x.chunks_exact(3).enumerate() {
            assert_eq!(one_hot[classes[4 - t] as usize], 1.0);
            assert_eq!(one_hot.iter().sum::<f32>(), 1.0);
        }
    }

    #[test]
    fn drawing_follows_the_probabilities() {
        let mut accuracy = Accuracy::new(1);
        let logits = [0.0f32, 3f32.ln()].repeat(20_000); // 1/4, 3/4
        accuracy.add(&logits, 2, Targets::Classes(&vec![0; 20_000]));
        assert_eq!(accuracy.likeliest(), 0.0);
        assert!((accuracy.drawn() - 0.25).abs() < 0.01, "{}", accuracy.drawn());
    }
}
