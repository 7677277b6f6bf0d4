//! Where batches come from.

use crate::data::{Examples, Inputs, Recipe, Stored, TargetData};
use crate::error::{Error, Result};
use crate::loss::Targets;
use crate::seed;
use drnn::memory::BatchSize;
use drnn::random::Rng;
use drnn::{Batch, InputSpec, NetSpec, Rows, Steps};

/// Sequences to train on, each with its targets.
pub trait Dataset: Sync {
    /// Number of sequences.
    fn len(&self) -> usize;

    /// Whether there are no sequences.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether inputs and targets fit the network; the error says what does not.
    fn fits(&self, spec: &NetSpec) -> Result<()>;

    /// Whether the network can be trained on it: there are sequences, and they fit.
    fn check(&self, spec: &NetSpec) -> Result<()> {
        if self.is_empty() {
            return Err(Error::Data("no sequences to train on".into()));
        }
        self.fits(spec)
    }

    /// Weights of the classes in the gradient, one for each output; None where all count the same.
    /// Losses that are reported are not weighted.
    fn class_weights(&self) -> Option<&[f32]> {
        None
    }

    /// Maximum number of sequences to evaluate as one batch: fewer where they are long.
    fn max_eval_rows(&self) -> usize {
        usize::MAX
    }

    /// All sequences, where they are in memory and the same in every epoch: a device may hold a copy.
    fn whole(&self) -> Option<&Examples> {
        None
    }

    /// The sequences as parts of arrays, where they are in memory and the same in every epoch: a device
    /// may hold the arrays and take batches by their parts.
    fn stored(&self) -> Option<&dyn Stored> {
        None
    }

    /// How to generate the sequences, where a few numbers define them and they are the same in every
    /// epoch: a device may generate its own.
    fn recipe(&self) -> Option<&Recipe> {
        None
    }

    /// The largest batch of `rows` sequences, without look-ahead steps: for estimates of memory. Zero
    /// steps where they are not known.
    fn batch_size(&self, rows: usize) -> BatchSize {
        let steps = self.recipe().map(Recipe::steps);
        let steps = steps.or_else(|| Some(self.whole()?.steps()));
        BatchSize::new(steps.unwrap_or(0), rows.min(self.len()))
    }

    /// Copies the sequences `chosen` into a batch, time-major. What is drawn at random depends on
    /// `epoch`, counted from 0, and on nothing else that changes, so a training can be resumed
    /// anywhere.
    fn gather(&self, epoch: usize, chosen: &[u32], to: &mut Gathered);
}

/// A batch in memory that is reused.
#[derive(Debug, Clone, Default)]
pub struct Gathered {
    /// Elements of the longest sequence, T.
    pub steps: usize,
    /// Sequences, B.
    pub rows: usize,
    /// (T, B, q), or (T, B) for tokens.
    pub inputs: Inputs,
    /// Elements of each sequence; empty where all have T.
    pub lengths: Vec<usize>,
    /// (T, B) classes or (T, B, m) values; (positions) or (positions, m) where only some are selected.
    pub targets: TargetData,
    /// Positions t * B + b whose outputs are computed, in increasing order; None for all.
    pub selected: Option<Vec<u32>>,
    /// Look-ahead steps after T; set by the trainer before anything is gathered. There are
    /// T + look_ahead steps then.
    pub look_ahead: usize,
}

impl Gathered {
    /// The elements, lengths and selected positions.
    pub fn batch(&self) -> Batch<'_> {
        let batch = match &self.inputs {
            Inputs::Dense(x) => Batch::dense(x, Steps(self.steps), Rows(self.rows)),
            Inputs::Tokens(tokens) => Batch::tokens(tokens, Steps(self.steps), Rows(self.rows)),
        };
        let batch = if self.lengths.is_empty() { batch } else { batch.lengths(&self.lengths) };
        self.selected.as_deref().map_or(batch, |slots| batch.select_outputs(slots))
    }

    /// The targets of the outputs.
    pub fn targets(&self) -> Targets<'_> {
        self.targets.as_targets()
    }
}

/// The order in which epoch `epoch` visits `count` sequences. It depends on nothing but its arguments,
/// so a training can be resumed anywhere.
pub fn order(seed: u64, epoch: usize, count: usize) -> Vec<u32> {
    let mut rng = Rng::new(seed::of_epoch(seed, epoch));
    let mut order: Vec<u32> = (0..count as u32).collect();
    for i in (1..count).rev() {
        order.swap(i, rng.below(i + 1));
    }
    order
}

/// Whether `spec` reads vectors of `q` values (None: tokens) and has `m` outputs (None: any number, for
/// classes).
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
