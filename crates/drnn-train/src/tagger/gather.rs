//! Batches of sentences, as the two networks read them.
//!
//! ```text
//! BEGIN w_1 .. w_n END PAD ..        one PAD per step of the word net's delay; w_1 .. w_n are tagged
//! ```
//!
//! A spelling that occurs several times is read once: its encoding is the same, and its gradient the sum.

use super::sentences::{Sentences, Word};
use drnn::{Batch, Rows, States, Steps};
use drnn_tasks::tagger::{BEGIN, EncodingLayout, PAD, Spellings, TaggerNet, after_last};

/// No row yet.
const NONE: u32 = u32::MAX;

/// A batch of spellings for the char net, in memory that is reused.
#[derive(Debug, Default)]
pub(super) struct CharRows {
    /// By spelling: its row among those of this batch.
    row_of: Vec<u32>,
    /// By row: its spelling.
    spellings: Vec<u32>,
    /// (T, W)
    symbols: Vec<u32>,
    lengths: Vec<usize>,
    steps: usize,
}

/// A batch of sentences for the word net, an encoding and a vector per word, in memory that is
/// reused.
#[derive(Debug, Default)]
pub(super) struct WordRows {
    /// (T, B): number of the word, and row of its spelling; positions after a sentence's end are not read.
    elements: Vec<(u32, u32)>,
    lengths: Vec<usize>,
    steps: usize,
    /// (T, B, q)
    x: Vec<f32>,
    /// Positions of words, whose outputs are computed.
    selected: Vec<u32>,
    /// The true tag of each.
    pub tags: Vec<u32>,
    /// One over the words of its sentence.
    pub weights: Vec<f32>,
    /// Sentence (of those chosen) and word of each.
    pub places: Vec<(u32, u32)>,
}

/// Gathers the sentences `chosen` into one batch for each network.
pub(super) fn gather(
    net: &TaggerNet,
    data: &Sentences,
    chosen: &[u32],
    chars: &mut CharRows,
    words: &mut WordRows,
) {
    let (delay, rows) = (net.words.delay(), chosen.len());
    chars.reset(data.spellings().len());
    words.lengths.clear();
    words.lengths.extend(chosen.iter().map(|&i| data.get(i as usize).len() + 2 + delay));
    words.steps = words.lengths.iter().copied().max().unwrap_or(0);
    words.elements.clear();
    words.elements.resize(words.steps * rows, (PAD, 0));
    for (row, &sentence) in chosen.iter().enumerate() {
        let sentence = data.get(sentence as usize);
        let special = |id: u32| (id, Spellings::of_special(id));
        let begin = std::iter::once(special(BEGIN));
        let each = sentence.iter().map(|&Word { word, spelling, .. }| (word, spelling));
        let end = after_last(delay).map(special);
        for (step, (word, spelling)) in begin.chain(each).chain(end).enumerate() {
            words.elements[step * rows + row] = (word, chars.row(spelling));
        }
    }
    words.select(data, chosen);
    chars.spell(data);
}

impl CharRows {
    fn reset(&mut self, spellings: usize) {
        for spelling in self.spellings.drain(..) {
            self.row_of[spelling as usize] = NONE;
        }
        self.row_of.resize(spellings, NONE);
    }

    fn row(&mut self, spelling: u32) -> u32 {
        let row = &mut self.row_of[spelling as usize];
        if *row == NONE {
            *row = self.spellings.len() as u32;
            self.spellings.push(spelling);
        }
        *row
    }

    fn spell(&mut self, data: &Sentences) {
        let spelling = |number: &u32| data.spellings().get(*number);
        self.lengths.clear();
        self.lengths.extend(self.spellings.iter().map(|number| spelling(number).len()));
        self.steps = self.lengths.iter().copied().max().unwrap_or(0);
        let rows = self.spellings.len();
        self.symbols.clear();
        self.symbols.resize(self.steps * rows, PAD);
        for (row, number) in self.spellings.iter().enumerate() {
            for (step, symbol) in spelling(number).iter().enumerate() {
                self.symbols[step * rows + row] = *symbol;
            }
        }
    }

    /// The batch, without outputs: only the last states are used.
    pub fn batch(&self) -> Batch<'_> {
        let batch = Batch::tokens(&self.symbols, Steps(self.steps), Rows(self.spellings.len()));
        batch.lengths(&self.lengths).select_outputs(&[])
    }

    /// Spellings.
    pub fn rows(&self) -> usize {
        self.spellings.len()
    }
}

impl WordRows {
    fn select(&mut self, data: &Sentences, chosen: &[u32]) {
        self.selected.clear();
        self.tags.clear();
        self.weights.clear();
        self.places.clear();
        let longest = chosen.iter().map(|&i| data.get(i as usize).len()).max().unwrap_or(0);
        for i in 0..longest {
            for (row, &sentence) in chosen.iter().enumerate() {
                let words = data.get(sentence as usize);
                if let Some(word) = words.get(i) {
                    self.selected.push(((i + 1) * chosen.len() + row) as u32);
                    self.tags.push(word.tag);
                    self.weights.push(data.tag_weight(word.tag) / words.len() as f32);
                    self.places.push((row as u32, i as u32));
                }
            }
        }
    }

    /// Concatenates encodings, the last states of `spellings` rows, with the vectors of words.
    pub fn join(&mut self, net: &TaggerNet, spellings: usize, encodings: &States, vectors: &[f32]) {
        let (encoding, width) = (net.encoding(), net.vector());
        let q = encoding + width;
        self.x.resize(self.elements.len() * q, 0.0);
        let parts = EncodingLayout::new(net, spellings);
        for (x, &(word, row)) in self.x.chunks_exact_mut(q).zip(&self.elements) {
            for (at, from, n) in parts.of_row(row as usize) {
                x[at..at + n].copy_from_slice(&encodings.h[from..from + n]);
            }
            x[encoding..].copy_from_slice(&vectors[word as usize * width..][..width]);
        }
    }

    /// After [`WordRows::join`].
    pub fn batch(&self) -> Batch<'_> {
        let batch = Batch::dense(&self.x, Steps(self.steps), Rows(self.lengths.len()));
        batch.lengths(&self.lengths).select_outputs(&self.selected)
    }

    /// Number of values of the joined input.
    pub fn x_len(&self) -> usize {
        self.x.len()
    }

    /// Adds the gradient of the joined input to those of encodings and vectors; `vectors` is None where
    /// they are frozen.
    pub fn part(
        &self,
        net: &TaggerNet,
        d_x: &[f32],
        spellings: usize,
        encodings: &mut States,
        mut vectors: Option<&mut [f32]>,
    ) {
        let (encoding, width) = (net.encoding(), net.vector());
        let (q, rows) = (encoding + width, self.lengths.len());
        let parts = EncodingLayout::new(net, spellings);
        for (slot, (d, &(word, row))) in d_x.chunks_exact(q).zip(&self.elements).enumerate() {
            if slot / rows >= self.lengths[slot % rows] {
                continue;
            }
            for (at, to, n) in parts.of_row(row as usize) {
                add(&mut encodings.h[to..to + n], &d[at..at + n]);
            }
            if let Some(vectors) = &mut vectors {
                add(&mut vectors[word as usize * width..][..width], &d[encoding..]);
            }
        }
    }
}

fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}
