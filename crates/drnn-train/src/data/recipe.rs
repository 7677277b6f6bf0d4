//! Synthetic sequences that a few numbers define.
//!
//! ```text
//! recipe -> sequences        the same whenever and wherever they are generated
//! ```
//!
//! A device can generate them itself ([`Dataset::recipe`]). On the CPU they are generated when they are
//! first used.

use crate::data::{Dataset, Examples, Gathered, Stored, check_alone};
use crate::error::Result;
use crate::paper::reversal::Reversal;
use crate::paper::sine::{Sine, SinePart};
use drnn::NetSpec;
use std::sync::OnceLock;

/// How to generate sequences.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Recipe {
    /// As [`Sine::examples`].
    Sine {
        /// What is learned.
        task: Sine,
        /// Sequences.
        count: usize,
        /// Of the data set; [`SinePart::seed`] is what is drawn from.
        set_seed: u64,
        /// Which of its sequences.
        part: SinePart,
    },
    /// As [`Reversal::examples`].
    Reversal {
        /// What is learned.
        task: Reversal,
        /// Sequences.
        count: usize,
        /// Of the symbols.
        seed: u64,
    },
}

impl Recipe {
    /// The sequences.
    pub fn examples(&self) -> Result<Examples> {
        match *self {
            Recipe::Sine { task, count, set_seed, part } => task.examples(count, set_seed, part),
            Recipe::Reversal { task, count, seed } => task.examples(count, seed),
        }
    }

    /// Sequences.
    pub fn count(&self) -> usize {
        match *self {
            Recipe::Sine { count, .. } | Recipe::Reversal { count, .. } => count,
        }
    }

    /// Elements of each, T.
    pub fn steps(&self) -> usize {
        match self {
            Recipe::Sine { task, .. } => task.steps,
            Recipe::Reversal { task, .. } => task.steps,
        }
    }

    /// Whether there are such sequences.
    fn check(&self) -> Result<()> {
        match self {
            Recipe::Sine { task, count, .. } => task.check(*count),
            Recipe::Reversal { task, count, .. } => task.check(*count),
        }
    }
}

/// The sequences of a recipe, generated when they are first used.
#[derive(Debug, Clone)]
pub struct Generated {
    recipe: Recipe,
    examples: OnceLock<Examples>,
}

impl Generated {
    /// Refused where the recipe makes no sense.
    pub fn new(recipe: Recipe) -> Result<Generated> {
        recipe.check()?;
        Ok(Generated { recipe, examples: OnceLock::new() })
    }

    fn examples(&self) -> &Examples {
        let make = || self.recipe.examples().expect("the recipe was checked");
        self.examples.get_or_init(make)
    }
}

impl Dataset for Generated {
    fn len(&self) -> usize {
        self.recipe.count()
    }

    fn fits(&self, spec: &NetSpec) -> Result<()> {
        match self.recipe {
            Recipe::Sine { .. } => check_alone(spec, Some(1), Some(1)),
            Recipe::Reversal { task, .. } => check_alone(spec, Some(task.symbols), None),
        }
    }

    fn whole(&self) -> Option<&Examples> {
        Some(self.examples())
    }

    fn stored(&self) -> Option<&dyn Stored> {
        self.examples().stored()
    }

    fn recipe(&self) -> Option<&Recipe> {
        Some(&self.recipe)
    }

    fn gather(&self, epoch: usize, chosen: &[u32], to: &mut Gathered) {
        self.examples().gather(epoch, chosen, to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Inputs, TargetData};
    use drnn::{Cell, Padding};

    fn bits(examples: &Examples) -> (Vec<u32>, Vec<u32>) {
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<u32>>();
        let Inputs::Dense(x) = examples.inputs() else { panic!("vectors") };
        match examples.targets() {
            TargetData::Values(y) => (bits(x), bits(y)),
            TargetData::Classes(y) => (bits(x), y.clone()),
        }
    }

    #[test]
    fn generated_sequences_are_those_of_the_task_and_made_when_first_used() {
        let (sine, reversal) = (Sine::new(0.7, 5), Reversal { steps: 6, symbols: 3 });
        for (made, expected) in [
            (sine.generated(9, 4, SinePart::Valid), sine.examples(9, 4, SinePart::Valid)),
            (reversal.generated(9, 4), reversal.examples(9, 4)),
        ] {
            let (made, expected) = (made.unwrap(), expected.unwrap());
            assert_eq!(made.len(), expected.len());
            assert_eq!(made.recipe().unwrap().steps(), expected.steps());
            assert!(made.examples.get().is_none());
            let [mut ours, mut theirs] = [Gathered::default(), Gathered::default()];
            made.gather(3, &[8, 2], &mut ours);
            expected.gather(3, &[8, 2], &mut theirs);
            assert!(ours.inputs == theirs.inputs && ours.targets == theirs.targets);
            assert!(made.examples.get().is_some());
            assert_eq!(bits(made.whole().unwrap()), bits(&expected));
        }
        assert!(sine.generated(0, 4, SinePart::Valid).is_err());
        assert!(Reversal { symbols: 0, ..reversal }.generated(9, 4).is_err());
    }

    /// Without making them.
    #[test]
    fn it_fits_the_networks_that_its_sequences_fit() {
        let made = [
            Sine::new(0.7, 5).generated(2, 1, SinePart::Train),
            Reversal::default().generated(2, 1),
        ];
        let widths = [(1, 1), (1, 4), (4, 4), (4, 9)];
        for made in made.map(Result::unwrap) {
            let examples = made.recipe.examples().unwrap();
            for (q, m) in widths {
                let lstm = NetSpec::builder(Cell::Lstm).dense(q).units([3]).outputs(m);
                for padding in [Padding::Null, Padding::LookAhead] {
                    let spec = lstm.clone().delay(2, padding).build().unwrap();
                    assert_eq!(made.fits(&spec), examples.fits(&spec), "{spec}");
                }
            }
            assert!(made.examples.get().is_none());
        }
    }
}
