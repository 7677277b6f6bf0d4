//! Where batches come from.

use crate::data::{Examples, Inputs, Recipe, TargetData};
use crate::error::{Error, Result};
use crate::loss::Targets;
use crate::seed;
use drnn::memory::BatchSize;
use drnn::random::Rng;
use drnn::{Batch, InputSpec, NetSpec, Rows, Steps};

/// Sequences to learn from, each with what should be answered.
pub trait Dataset: Sync {
    /// How many.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a network of this kind can learn from them: the error says what does not fit.
    fn fits(&self, spec: &NetSpec) -> Result<()>;

    /// Most sequences that should be run at once where nothing is learned from them: fewer where they are long.
    fn max_eval_rows(&self) -> usize {
        usize::MAX
    }

    /// All of them, where they lie in memory and are the same on every epoch: a device may keep a copy.
    fn whole(&self) -> Option<&Examples> {
        None
    }

    /// From what they are made, where a few numbers say it and they are the same on every epoch: a device may make
    /// its own.
    fn recipe(&self) -> Option<&Recipe> {
        None
    }

    /// The largest batch of `rows` sequences that there is, without what is looked ahead to: for
    /// estimates of memory. Nothing, where that is not known.
    fn batch_size(&self, rows: usize) -> BatchSize {
        let steps = self.recipe().map(Recipe::steps);
        let steps = steps.or_else(|| Some(self.whole()?.steps()));
        BatchSize::new(steps.unwrap_or(0), rows.min(self.len()))
    }

    /// Puts the sequences `chosen` side by side, step after step. What is drawn anew each time depends on
    /// `epoch`, the epoch counted from 0, and on nothing else that changes: so a training can go on from any
    /// place.
    fn gather(&self, epoch: usize, chosen: &[u32], to: &mut Gathered);
}

/// A batch's memory, reused.
#[derive(Debug, Clone, Default)]
pub struct Gathered {
    /// Elements of the longest sequence, T.
    pub steps: usize,
    /// Sequences, B.
    pub rows: usize,
    /// (T, B, q), or (T, B).
    pub inputs: Inputs,
    /// Elements of each sequence; empty where all have T.
    pub lengths: Vec<usize>,
    /// (T, B), or (T, B, m); where only some are asked for (slots), or (slots, m).
    pub targets: TargetData,
    /// The slots, t * B + b, whose answers are asked for, in increasing order; None for all.
    pub selected: Option<Vec<u32>>,
    /// Elements behind the T that are answered, for a network that looks ahead: said by whoever trains, before
    /// anything is gathered. There are T + ahead steps then.
    pub look_ahead: usize,
}

impl Gathered {
    /// The elements.
    pub fn batch(&self) -> Batch<'_> {
        let batch = match &self.inputs {
            Inputs::Dense(x) => Batch::dense(x, Steps(self.steps), Rows(self.rows)),
            Inputs::Tokens(tokens) => Batch::tokens(tokens, Steps(self.steps), Rows(self.rows)),
        };
        let batch = if self.lengths.is_empty() { batch } else { batch.lengths(&self.lengths) };
        self.selected.as_deref().map_or(batch, |slots| batch.select_outputs(slots))
    }

    /// What should be answered.
    pub fn targets(&self) -> Targets<'_> {
        match &self.targets {
            TargetData::Classes(classes) => Targets::Classes(classes),
            TargetData::Values(values) => Targets::Values(values),
        }
    }
}

/// The order in which epoch `epoch` of seed `seed` reads `count` sequences: it depends on nothing else, so
/// a training can go on from any place.
pub fn order(seed: u64, epoch: usize, count: usize) -> Vec<u32> {
    let mut rng = Rng::new(seed::of_epoch(seed, epoch));
    let mut order: Vec<u32> = (0..count as u32).collect();
    for i in (1..count).rev() {
        order.swap(i, rng.below(i + 1));
    }
    order
}

/// Whether vectors of `q` values (None: tokens) are what `spec` reads, and answers of `m` values (None: classes)
/// what it gives.
pub(crate) fn check_widths(spec: &NetSpec, q: Option<usize>, m: Option<usize>) -> Result<()> {
    let fits = match spec.input() {
        InputSpec::Dense(width) => q == Some(width),
        InputSpec::Tokens { .. } => q.is_none(),
    };
    if !fits || m.is_some_and(|m| m != spec.output_width()) {
        return Err(Error::Data(format!("the data does not fit {spec}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
