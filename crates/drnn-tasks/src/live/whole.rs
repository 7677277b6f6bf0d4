//! Whole sequences, side by side: for those that are all there, and for models that need their end.
//!
//! ```text
//! elements -> as a stream would read them -> one batch of like lengths -> as a stream would answer
//! ```

use super::answer::Answer;
use super::element::Element;
use super::model::LiveModel;
use super::reader::{Input, Reader};
use super::sequence::Sequence;
use crate::error::{Error, Result};
use drnn::{Batch, InputSpec, Outputs, Rows, Steps};

/// Runs whole sequences through one model, bidirectional ones too. Answers are those of a [`super::LiveStream`], to
/// the bit. Words that come again are encoded once.
pub struct LiveRun<'m> {
    reader: Reader<'m>,
}

/// A sequence that was found good: what the network reads, step after step, and who is to be answered.
#[derive(Default)]
pub struct Whole {
    numbers: Vec<f32>,
    tokens: Vec<u32>,
    steps: usize,
    sequence: Sequence,
}

impl Whole {
    fn push(&mut self, input: &Input) {
        match input {
            Input::Numbers(x) => self.numbers.extend_from_slice(x),
            Input::Token(token) => self.tokens.push(*token),
        }
        self.steps += 1;
    }
}

/// Steps times rows of a batch: more make it no faster, and take memory.
const MOST_SLOTS: usize = 16_384;

impl LiveModel {
    /// Answers to whole sequences of any lengths.
    pub fn run(&self, sequences: &[Vec<Element>]) -> Result<Vec<Vec<Answer<'_>>>> {
        let mut run = LiveRun::new(self);
        run.prepare(sequences.iter().flatten())?;
        let mut wholes = Vec::with_capacity(sequences.len());
        for (number, elements) in sequences.iter().enumerate() {
            let whole = run.read(elements);
            wholes.push(whole.map_err(|e| Error::Data(format!("sequence {number}: {e}")))?);
        }
        let mut answers: Vec<Vec<Answer>> = sequences.iter().map(|_| Vec::new()).collect();
        run.run(&mut wholes, |number, answer| answers[number].push(answer))?;
        Ok(answers)
    }
}

impl<'m> LiveRun<'m> {
    /// For sequences of `model`.
    pub fn new(model: &'m LiveModel) -> LiveRun<'m> {
        LiveRun { reader: Reader::new(model) }
    }

    /// Does what elements of several sequences share, before they are read: the words of a tagger
    /// are encoded side by side. Optional; it changes the time that [`LiveRun::read`] takes, not
    /// what it returns.
    pub fn prepare<'a>(&mut self, elements: impl IntoIterator<Item = &'a Element>) -> Result<()> {
        self.reader.prepare(elements)
    }

    /// Checks a sequence and makes it what the network reads.
    pub fn read(&mut self, elements: &[Element]) -> Result<Whole> {
        let mut whole = Whole::default();
        if elements.is_empty() {
            return Ok(whole);
        }
        self.reader.prepare(elements)?;
        if let Some(begin) = self.reader.begin()? {
            whole.sequence.begin();
            whole.push(&begin);
        }
        for element in elements {
            let read = self.reader.read(element, &whole.sequence)?;
            whole.push(&read.input);
            whole.sequence.ask(read.asked, read.numbers);
        }
        self.reader.end()?.iter().for_each(|input| whole.push(input));
        Ok(whole)
    }

    /// Runs them side by side; hands on the answers with the place of their sequence, each one's in order.
    pub fn run(
        &self,
        wholes: &mut [Whole],
        mut answer: impl FnMut(usize, Answer<'m>),
    ) -> Result<()> {
        let mut order: Vec<usize> = (0..wholes.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(wholes[i].steps));
        let mut rest = order.as_slice();
        while let Some(&longest) = rest.first() {
            let steps = wholes[longest].steps;
            let rows = (MOST_SLOTS / steps.max(1)).clamp(1, rest.len());
            let (together, others) = rest.split_at(rows);
            self.batch(wholes, together, steps, &mut answer)?;
            rest = others;
        }
        Ok(())
    }

    fn batch(
        &self,
        wholes: &mut [Whole],
        chosen: &[usize],
        steps: usize,
        answer: &mut impl FnMut(usize, Answer<'m>),
    ) -> Result<()> {
        let (model, rows) = (self.reader.model, chosen.len());
        let network = model.network();
        let lengths: Vec<usize> = chosen.iter().map(|&i| wholes[i].steps).collect();
        let (mut x, mut tokens) = (Vec::new(), Vec::new());
        let batch = match network.spec().input() {
            InputSpec::Dense(q) => {
                x.resize(steps * rows * q, 0.0);
                for (row, &i) in chosen.iter().enumerate() {
                    for (step, numbers) in wholes[i].numbers.chunks_exact(q).enumerate() {
                        x[(step * rows + row) * q..][..q].copy_from_slice(numbers);
                    }
                }
                Batch::dense(&x, Steps(steps), Rows(rows))
            }
            InputSpec::Tokens { .. } => {
                tokens.resize(steps * rows, 0);
                for (row, &i) in chosen.iter().enumerate() {
                    for (step, token) in wholes[i].tokens.iter().enumerate() {
                        tokens[step * rows + row] = *token;
                    }
                }
                Batch::tokens(&tokens, Steps(steps), Rows(rows))
            }
        };
        let found: Outputs = network.run(&batch.lengths(&lengths), None)?;
        for (row, &i) in chosen.iter().enumerate() {
            for step in 0..network.spec().output_steps(lengths[row]) {
                if let Some(known) = wholes[i].sequence.answer(model, found.at(step, row)) {
                    answer(i, known);
                }
            }
        }
        Ok(())
    }
}
