//! Sequences in memory, and batches of them in a seeded order.

use crate::error::{Error, Result};
use crate::loss::Targets;
use drnn::Batch;
use drnn::rng::Rng;

/// The elements of all sequences, sequence after sequence.
#[derive(Debug, Clone, PartialEq)]
pub enum Inputs {
    /// Vectors, (N, T, q).
    Dense(Vec<f32>),
    /// Tokens, (N, T).
    Tokens(Vec<u32>),
}

/// What their answers should be, sequence after sequence.
#[derive(Debug, Clone, PartialEq)]
pub enum Answers {
    /// Classes, (N, T).
    Classes(Vec<u32>),
    /// Values, (N, T, m).
    Values(Vec<f32>),
}

/// N sequences of T elements, with what should be answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Examples {
    inputs: Inputs,
    answers: Answers,
    count: usize,
    steps: usize,
    q: usize,
    m: usize,
}

impl Examples {
    /// `count` sequences of `steps` elements; vectors are q wide, values m. Refused where lengths do not fit.
    pub fn new(
        inputs: Inputs,
        answers: Answers,
        [count, steps]: [usize; 2],
        [q, m]: [usize; 2],
    ) -> Result<Examples> {
        let (found, expected) = match &inputs {
            Inputs::Dense(x) => (x.len(), count * steps * q),
            Inputs::Tokens(tokens) => (tokens.len(), count * steps),
        };
        let (found_answers, expected_answers) = match &answers {
            Answers::Classes(classes) => (classes.len(), count * steps),
            Answers::Values(values) => (values.len(), count * steps * m),
        };
        if found != expected || found_answers != expected_answers {
            return Err(Error::Data(format!(
                "{found} input and {found_answers} target values, expected {expected} and \
                 {expected_answers} for {count} sequences of {steps}"
            )));
        }
        if let Inputs::Dense(x) = &inputs
            && let Some(at) = x.iter().position(|x| !x.is_finite())
        {
            let sequence = at / (steps * q).max(1);
            return Err(Error::Data(format!("sequence {sequence} holds {}", x[at])));
        }
        Ok(Examples { inputs, answers, count, steps, q, m })
    }

    /// Sequences, N.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Elements of each, T.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Width of dense input, q; None for tokens.
    pub fn dense_width(&self) -> Option<usize> {
        matches!(self.inputs, Inputs::Dense(_)).then_some(self.q)
    }

    /// Width of values to be answered, m; None for classes, which fit any width that is large enough.
    pub fn answer_width(&self) -> Option<usize> {
        matches!(self.answers, Answers::Values(_)).then_some(self.m)
    }

    /// Puts the sequences `chosen` side by side, step after step.
    pub fn gather(&self, chosen: &[u32], to: &mut Gathered) {
        (to.steps, to.rows) = (self.steps, chosen.len());
        match &self.inputs {
            Inputs::Dense(x) => turn(x, self.steps, self.q, chosen, &mut to.x),
            Inputs::Tokens(tokens) => turn(tokens, self.steps, 1, chosen, &mut to.tokens),
        }
        match &self.answers {
            Answers::Classes(classes) => turn(classes, self.steps, 1, chosen, &mut to.classes),
            Answers::Values(values) => turn(values, self.steps, self.m, chosen, &mut to.values),
        }
        to.is_dense = matches!(self.inputs, Inputs::Dense(_));
        to.has_classes = matches!(self.answers, Answers::Classes(_));
    }
}

/// (N, T, width), some of N, to (T, B, width).
fn turn<T: Copy>(from: &[T], steps: usize, width: usize, chosen: &[u32], to: &mut Vec<T>) {
    to.clear();
    for step in 0..steps {
        for &row in chosen {
            to.extend_from_slice(&from[(row as usize * steps + step) * width..][..width]);
        }
    }
}

/// A batch's memory, reused.
#[derive(Debug, Clone, Default)]
pub struct Gathered {
    x: Vec<f32>,
    tokens: Vec<u32>,
    classes: Vec<u32>,
    values: Vec<f32>,
    steps: usize,
    rows: usize,
    is_dense: bool,
    has_classes: bool,
}

impl Gathered {
    /// The elements.
    pub fn batch(&self) -> Batch<'_> {
        match self.is_dense {
            true => Batch::dense(&self.x, self.steps, self.rows),
            false => Batch::tokens(&self.tokens, self.steps, self.rows),
        }
    }

    /// What should be answered.
    pub fn targets(&self) -> Targets<'_> {
        match self.has_classes {
            true => Targets::Classes(&self.classes),
            false => Targets::Values(&self.values),
        }
    }
}

/// The order in which epoch `epoch` of seed `seed` reads `count` sequences: it depends on nothing else, so
/// a training can go on from any place.
pub fn order(seed: u64, epoch: usize, count: usize) -> Vec<u32> {
    let mut rng = Rng::new(Rng::new(seed).bits() ^ epoch as u64);
    let mut order: Vec<u32> = (0..count as u32).collect();
    for i in (1..count).rev() {
        order.swap(i, rng.below(i + 1));
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_turned_to_time_major() {
        let inputs = Inputs::Dense((0..12).map(|x| x as f32).collect()); // (3, 2, 2)
        let answers = Answers::Classes(vec![0, 1, 2, 3, 4, 5]);
        let examples = Examples::new(inputs.clone(), answers.clone(), [3, 2], [2, 6]).unwrap();
        let mut batch = Gathered::default();
        examples.gather(&[2, 0], &mut batch);
        assert_eq!(batch.x, [8.0, 9.0, 0.0, 1.0, 10.0, 11.0, 2.0, 3.0]);
        assert_eq!(batch.classes, [4, 0, 5, 1]);
        assert!(Examples::new(inputs, answers, [3, 3], [2, 6]).is_err());
    }

    #[test]
    fn orders_are_permutations_of_their_own() {
        let first = order(1, 0, 50);
        assert_eq!(first, order(1, 0, 50));
        assert_ne!(first, order(1, 1, 50));
        assert_ne!(first, order(2, 0, 50));
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<u32>>());
    }
}
