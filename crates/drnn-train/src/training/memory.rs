//! Estimates of the memory that a training takes on this machine, before anything is allocated.

use crate::data::Dataset;
use crate::tagger::Sentences;
use crate::training::Options;
use drnn::memory::{BatchSize, dropout, training};
use drnn::{InputSpec, NetSpec};
use drnn_tasks::tagger::TaggerNet;

/// Minimum number of sequences that [`crate::Trainer`] evaluates as one batch.
pub const MIN_EVAL_ROWS: usize = 500;

/// Bytes that training takes, by purpose. Sums saturate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Estimate {
    /// Parameters, their gradient, and Adam's two vectors.
    pub weights: usize,
    /// A batch, its forward and backward pass, and weights in the layout of the kernels.
    pub pass: usize,
    /// A copy of parameters and optimiser state while it is written to a file.
    pub checkpoint: usize,
}

impl Estimate {
    /// A network on `threads` threads of the processor, with the options' batches and dropout, on all
    /// of `data`: the training set first, then those that are only evaluated.
    pub fn new(
        spec: &NetSpec,
        data: &[&dyn Dataset],
        options: &Options,
        threads: usize,
    ) -> Estimate {
        let batch = options.batch;
        let size = |(i, data): (usize, &&dyn Dataset)| match i {
            0 => data.batch_size(batch),
            _ => data.batch_size(batch.max(MIN_EVAL_ROWS).min(data.max_eval_rows())),
        };
        let passes = data.iter().enumerate().map(size).map(|size| pass(spec, size, threads));
        let pass = passes.max().unwrap_or(0);
        let dropped = data.first().filter(|_| options.dropout > 0.0);
        let dropped = dropped.map_or(0, |data| dropped_states(spec, data.batch_size(batch)));
        let pass = pass.saturating_add(dropped);
        Estimate { pass, ..Estimate::of_parameters(spec.parameters()) }
    }

    /// A network on batches of this size.
    pub fn of_batch(spec: &NetSpec, size: BatchSize, threads: usize) -> Estimate {
        Estimate { pass: pass(spec, size, threads), ..Estimate::of_parameters(spec.parameters()) }
    }

    /// A tagger, likewise.
    pub fn tagger(
        net: &TaggerNet,
        data: &[&Sentences],
        options: &Options,
        threads: usize,
    ) -> Estimate {
        let batch = options.batch;
        let of = |(i, data): (usize, &&Sentences)| {
            let rows = if i == 0 { batch } else { batch.max(MIN_EVAL_ROWS) };
            let longest = (0..data.len()).map(|i| data.get(i).len()).max().unwrap_or(0);
            let words = BatchSize::new(longest + 2 + net.words.delay(), rows.min(data.len()));
            let all = data.spellings();
            let spellings = words.steps.saturating_mul(words.rows).min(all.len());
            let longest = (0..all.len() as u32).map(|i| all.get(i).len()).max().unwrap_or(0);
            let chars = BatchSize { selected: Some(0), ..BatchSize::new(longest, spellings) };
            let [chars, words] = [(&net.chars, chars), (&net.words, words)].map(|(spec, size)| {
                let drops = i == 0 && options.dropout > 0.0;
                let dropped = if drops { dropped_states(spec, size) } else { 0 };
                pass(spec, size, threads).saturating_add(dropped)
            });
            chars.saturating_add(words)
        };
        let pass = data.iter().enumerate().map(of).max().unwrap_or(0);
        Estimate { pass, ..Estimate::of_parameters(net.parameters()) }
    }

    fn of_parameters(parameters: usize) -> Estimate {
        let vectors = |n: usize| parameters.saturating_mul(n * size_of::<f32>());
        // A checkpoint is three vectors, copied once and once more as bytes.
        Estimate { weights: vectors(4), pass: 0, checkpoint: vectors(6) }
    }

    /// All of it.
    pub fn total(&self) -> usize {
        self.weights.saturating_add(self.pass).saturating_add(self.checkpoint)
    }
}

/// What dropout adds to a pass.
fn dropped_states(spec: &NetSpec, size: BatchSize) -> usize {
    dropout(spec, BatchSize { steps: size.steps.saturating_add(spec.look_ahead()), ..size })
}

/// A batch of one network and its pass.
fn pass(spec: &NetSpec, size: BatchSize, threads: usize) -> usize {
    let size = BatchSize { steps: size.steps.saturating_add(spec.look_ahead()), ..size };
    let memory = training(spec, size, threads);
    let slots = size.steps.saturating_mul(size.rows);
    let (q, m) = match spec.input() {
        InputSpec::Dense(q) => (q, spec.output_width()),
        InputSpec::Tokens { .. } => (1, spec.output_width()),
    };
    let floats = |n: usize, width: usize| n.saturating_mul(width).saturating_mul(size_of::<f32>());
    // Elements, targets (values, or a class each), outputs and their gradient.
    let outputs = floats(size.selected.unwrap_or(slots), m);
    [memory.saved, memory.extra, memory.fixed, floats(slots, q + 1), outputs, outputs]
        .into_iter()
        .fold(0, usize::saturating_add)
}
