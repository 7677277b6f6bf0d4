//! Whole sequences in batches: for sequences that are complete, and for bidirectional models.
//!
//! ```text
//! elements -> the inputs of a stream -> batches of similar lengths -> the predictions of a stream
//! ```

use super::element::Element;
use super::model::LiveModel;
use super::prediction::Prediction;
use super::reader::{Input, Reader};
use super::sequence::Sequence;
use crate::error::{Error, Result};
use crate::runner::Runner;
use drnn::{Batch, InputSpec, Outputs, Rows, Steps};

/// Runs whole sequences through one model, also a bidirectional one. Predictions are those of a
/// [`super::LiveStream`], to the bit. Encodings of words are cached.
pub struct LiveRun<'m> {
    reader: Reader<'m>,
    network: &'m dyn Runner,
}

/// A checked sequence: the network's inputs, step by step, and the elements that wait.
#[derive(Default)]
pub struct PreparedSequence {
    numbers: Vec<f32>,
    tokens: Vec<u32>,
    steps: usize,
    sequence: Sequence,
}

impl PreparedSequence {
    fn push(&mut self, input: &Input) {
        match input {
            Input::Numbers(x) => self.numbers.extend_from_slice(x),
            Input::Token(token) => self.tokens.push(*token),
        }
        self.steps += 1;
    }
}

impl LiveModel {
    /// Predictions for whole sequences of any lengths.
    pub fn run(&self, sequences: &[Vec<Element>]) -> Result<Vec<Vec<Prediction<'_>>>> {
        let mut run = LiveRun::new(self);
        run.prepare(sequences.iter().flatten())?;
        let mut prepared = Vec::with_capacity(sequences.len());
        for (number, elements) in sequences.iter().enumerate() {
            let sequence = run.read(elements);
            prepared.push(sequence.map_err(|e| Error::Data(format!("sequence {number}: {e}")))?);
        }
        let mut predictions: Vec<Vec<Prediction>> = sequences.iter().map(|_| Vec::new()).collect();
        run.run(&mut prepared, |number, prediction| predictions[number].push(prediction))?;
        Ok(predictions)
    }
}

impl<'m> LiveRun<'m> {
    /// Runs sequences of `model` on the CPU.
    pub fn new(model: &'m LiveModel) -> LiveRun<'m> {
        LiveRun { reader: Reader::new(model), network: model.network() }
    }

    /// The same where `network` runs, and for a tagger `chars`, its network of characters: networks
    /// of the model's specs and parameters.
    pub fn with_runners(
        model: &'m LiveModel,
        network: &'m dyn Runner,
        chars: Option<&'m dyn Runner>,
    ) -> LiveRun<'m> {
        LiveRun { reader: Reader::with_runner(model, chars), network }
    }

    /// Does what elements of several sequences share, before they are read: the words of a tagger
    /// are encoded in batches. Optional; it changes the time that [`LiveRun::read`] takes, not
    /// what it returns.
    pub fn prepare<'a>(&mut self, elements: impl IntoIterator<Item = &'a Element>) -> Result<()> {
        self.reader.prepare(elements)
    }

    /// Checks a sequence and converts it to the network's inputs.
    pub fn read(&mut self, elements: &[Element]) -> Result<PreparedSequence> {
        let mut prepared = PreparedSequence::default();
        if elements.is_empty() {
            return Ok(prepared);
        }
        self.reader.prepare(elements)?;
        if let Some(begin) = self.reader.begin()? {
            prepared.sequence.begin();
            prepared.push(&begin);
        }
        for element in elements {
            let read = self.reader.read(element, &prepared.sequence)?;
            prepared.push(&read.input);
            prepared.sequence.push(read.awaited, read.numbers);
        }
        self.reader.end()?.iter().for_each(|input| prepared.push(input));
        Ok(prepared)
    }

    /// Runs sequences in batches. `output` receives each prediction with the index of its sequence;
    /// those of one sequence come in order.
    pub fn run(
        &self,
        sequences: &mut [PreparedSequence],
        mut output: impl FnMut(usize, Prediction<'m>),
    ) -> Result<()> {
        let mut order: Vec<usize> = (0..sequences.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(sequences[i].steps));
        let mut rest = order.as_slice();
        while let Some(&longest) = rest.first() {
            let steps = sequences[longest].steps;
            let rows = (self.network.max_batch_slots() / steps.max(1)).clamp(1, rest.len());
            let (together, others) = rest.split_at(rows);
            self.batch(sequences, together, steps, &mut output)?;
            rest = others;
        }
        Ok(())
    }

    fn batch(
        &self,
        sequences: &mut [PreparedSequence],
        chosen: &[usize],
        steps: usize,
        output: &mut impl FnMut(usize, Prediction<'m>),
    ) -> Result<()> {
        let (model, network, rows) = (self.reader.model, self.network, chosen.len());
        let lengths: Vec<usize> = chosen.iter().map(|&i| sequences[i].steps).collect();
        let (mut x, mut tokens) = (Vec::new(), Vec::new());
        let batch = match network.spec().input() {
            InputSpec::Dense(q) => {
                x.resize(steps * rows * q, 0.0);
                for (row, &i) in chosen.iter().enumerate() {
                    for (step, numbers) in sequences[i].numbers.chunks_exact(q).enumerate() {
                        x[(step * rows + row) * q..][..q].copy_from_slice(numbers);
                    }
                }
                Batch::dense(&x, Steps(steps), Rows(rows))
            }
            InputSpec::Tokens { .. } => {
                tokens.resize(steps * rows, 0);
                for (row, &i) in chosen.iter().enumerate() {
                    for (step, token) in sequences[i].tokens.iter().enumerate() {
                        tokens[step * rows + row] = *token;
                    }
                }
                Batch::tokens(&tokens, Steps(steps), Rows(rows))
            }
        };
        let found: Outputs = network.run(&batch.lengths(&lengths), None)?;
        for (row, &i) in chosen.iter().enumerate() {
            for step in 0..network.spec().output_steps(lengths[row]) {
                if let Some(known) = sequences[i].sequence.predict(model, found.at(step, row)) {
                    output(i, known);
                }
            }
        }
        Ok(())
    }
}
