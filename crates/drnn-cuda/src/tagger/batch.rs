//! A batch of sentences on the host, as both networks read it.
//!
//! ```text
//! BEGIN w_1 .. w_n END PAD ..      one PAD per step of the word network's delay
//! ```
//!
//! The order of everything is that of the CPU's engine: outputs by position in the sentence, then
//! by sentence.

use super::staged::{BatchSizes, SPELLINGS_STEP, Staged};
use crate::step::plan::TargetType;
use crate::step::staging::{NONE, Step, by_symbol, write_header};
use drnn::{InputSpec, Padding};
use drnn_tasks::tagger::{BEGIN, Spellings, TaggerNet, after_last};
use drnn_train::tagger::{Sentences, Word};
use drnn_train::{Error, IGNORE, Result};

/// Numbers things in the order in which they first occur.
#[derive(Debug, Default)]
struct Numbering {
    /// By thing: its number in this batch, or [`NONE`].
    numbers: Vec<u32>,
    /// By number: the thing.
    things: Vec<u32>,
}

impl Numbering {
    fn reset(&mut self, count: usize) {
        for thing in self.things.drain(..) {
            self.numbers[thing as usize] = NONE;
        }
        self.numbers.resize(count, NONE);
    }

    /// The number of a thing below the count.
    fn number(&mut self, thing: u32) -> u32 {
        let number = &mut self.numbers[thing as usize];
        if *number == NONE {
            *number = self.things.len() as u32;
            self.things.push(thing);
        }
        *number
    }
}

/// A gathered batch, in memory that is reused.
#[derive(Debug, Default)]
pub(super) struct HostBatch {
    pub sizes: BatchSizes,
    spellings: Numbering,
    /// Words, if their vectors are trained.
    vectors: Numbering,
    lengths: Vec<u32>,
    /// (T, B), NONE after a sentence's end: the word, the row of its spelling, the number of its
    /// vector.
    words: Vec<u32>,
    rows: Vec<u32>,
    vector_numbers: Vec<u32>,
    selected: Vec<u32>,
    tags: Vec<u32>,
    weights: Vec<f32>,
}

impl HostBatch {
    /// Gathers the sentences `chosen`. Fails if the data does not fit the networks.
    pub fn gather(&mut self, net: &TaggerNet, data: &Sentences, chosen: &[u32]) -> Result<()> {
        let (delay, sentences) = (net.words.delay(), chosen.len());
        let sentence = |i: &u32| data.get(*i as usize);
        let learned = net.frozen.is_none();
        self.spellings.reset(data.spellings().len());
        self.vectors.reset(if learned { net.vector_rows() } else { 0 });
        self.lengths.clear();
        self.lengths.extend(chosen.iter().map(|i| (sentence(i).len() + 2 + delay) as u32));
        let steps = self.lengths.iter().copied().max().unwrap_or(0) as usize;
        for array in [&mut self.words, &mut self.rows, &mut self.vector_numbers] {
            array.clear();
            array.resize(steps * sentences, NONE);
        }
        for (column, words) in chosen.iter().map(sentence).enumerate() {
            let special = |id: u32| (id, Spellings::of_special(id));
            let each = words.iter().map(|&Word { word, spelling, .. }| (word, spelling));
            let all = std::iter::once(special(BEGIN)).chain(each);
            for (step, (word, spelling)) in all.chain(after_last(delay).map(special)).enumerate() {
                let slot = step * sentences + column;
                check(word as usize, net.vector_rows(), "word")?;
                self.words[slot] = word;
                self.rows[slot] = self.spellings.number(spelling);
                if learned {
                    self.vector_numbers[slot] = self.vectors.number(word);
                }
            }
        }
        self.select(net, data, chosen)?;
        self.measure(net, data, [steps, sentences]);
        Ok(())
    }

    /// Outputs, their tags and weights.
    fn select(&mut self, net: &TaggerNet, data: &Sentences, chosen: &[u32]) -> Result<()> {
        let (delay, m) = (net.words.delay(), net.words.output_width());
        self.selected.clear();
        self.tags.clear();
        self.weights.clear();
        let longest = chosen.iter().map(|&i| data.get(i as usize).len()).max().unwrap_or(0);
        for i in 0..longest {
            for (column, &sentence) in chosen.iter().enumerate() {
                let words = data.get(sentence as usize);
                let Some(&Word { tag, .. }) = words.get(i) else { continue };
                if tag != IGNORE {
                    check(tag as usize, m, "tag")?;
                }
                self.selected.push(((i + 1 + delay) * chosen.len() + column) as u32);
                self.tags.push(tag);
                self.weights.push(data.tag_weight(tag) / words.len() as f32);
            }
        }
        Ok(())
    }

    fn measure(&mut self, net: &TaggerNet, data: &Sentences, [steps, sentences]: [usize; 2]) {
        let InputSpec::Tokens { symbols, .. } = net.chars.input() else { return };
        let (delay, padded) = (net.chars.delay(), padding(net) != NONE);
        let (mut longest, mut read) = (0, 0);
        for &spelling in &self.spellings.things {
            let len = data.spellings().get(spelling).len();
            longest = longest.max(len);
            read += len + if padded { delay } else { 0 };
        }
        self.sizes = BatchSizes {
            symbols,
            char_steps: longest + delay,
            spellings: self.spellings.things.len().next_multiple_of(SPELLINGS_STEP),
            symbols_read: read,
            word_steps: steps,
            sentences,
            elements: self.lengths.iter().map(|length| *length as usize).sum(),
            vectors: self.vectors.things.len(),
            selected: self.selected.len(),
        };
    }

    /// Writes the gathered batch to `to`. Fails if a spelling has a symbol that the network does not
    /// have.
    pub fn write(
        &self,
        net: &TaggerNet,
        data: &Sentences,
        step: Step,
        at: &Staged,
        to: &mut [u32],
    ) -> Result<()> {
        write_header(&mut to[..at.char_lengths], self.counted(), TargetType::Classes, step);
        self.spell(net, data, at, to)?;
        let sizes = &self.sizes;
        to[at.word_lengths..][..sizes.sentences].copy_from_slice(&self.lengths);
        to[at.words..][..sizes.word_slots()].copy_from_slice(&self.words);
        to[at.rows..][..sizes.word_slots()].copy_from_slice(&self.rows);
        list(
            &self.rows,
            sizes.spellings,
            &mut to[at.row_starts..at.vectors],
            at.by_row - at.row_starts,
        );
        if sizes.vectors > 0 {
            to[at.vectors..][..sizes.vectors].copy_from_slice(&self.vectors.things);
            let (keys, items) = (sizes.vectors, at.by_vector - at.vector_starts);
            list(&self.vector_numbers, keys, &mut to[at.vector_starts..at.selected], items);
        }
        to[at.selected..][..sizes.selected].copy_from_slice(&self.selected);
        to[at.tags..][..sizes.selected].copy_from_slice(&self.tags);
        let weights = to[at.weights..].iter_mut().zip(&self.weights);
        weights.for_each(|(to, weight)| *to = weight.to_bits());
        Ok(())
    }

    /// Symbols of the spellings, padded with what the char network reads after the end.
    fn spell(&self, net: &TaggerNet, data: &Sentences, at: &Staged, to: &mut [u32]) -> Result<()> {
        let BatchSizes { symbols, spellings, .. } = self.sizes;
        let (delay, padding, slots) = (net.chars.delay(), padding(net), self.sizes.char_slots());
        to[at.char_lengths..][..spellings].fill(0);
        to[at.symbols..][..slots].fill(NONE);
        for (row, &spelling) in self.spellings.things.iter().enumerate() {
            let read = data.spellings().get(spelling);
            let padded = read.iter().copied().chain(std::iter::repeat_n(padding, delay));
            for (step, symbol) in padded.enumerate() {
                if symbol != NONE {
                    check(symbol as usize, symbols, "symbol")?;
                }
                to[at.symbols + step * spellings + row] = symbol;
            }
            to[at.char_lengths + row] = (read.len() + delay) as u32;
        }
        let (before, lists) = to.split_at_mut(at.symbol_starts);
        list(
            &before[at.symbols..][..slots],
            symbols,
            &mut lists[..at.word_lengths - at.symbol_starts],
            at.by_symbol - at.symbol_starts,
        );
        Ok(())
    }

    /// Tags of the outputs.
    pub fn tags(&self) -> &[u32] {
        &self.tags
    }

    /// Outputs that count.
    pub fn counted(&self) -> usize {
        self.tags.iter().filter(|tag| **tag != IGNORE).count()
    }
}

/// Positions of `keys` by key; the items begin at `items`.
fn list(keys: &[u32], count: usize, to: &mut [u32], items: usize) {
    let (starts, items) = to.split_at_mut(items);
    by_symbol(keys, count, starts, items);
}

/// The symbol that the char network reads after the end; NONE for zeros.
fn padding(net: &TaggerNet) -> u32 {
    match net.chars.padding() {
        Padding::Symbol(id) if net.chars.delay() > 0 => id,
        _ => NONE,
    }
}

/// Kernels do not check indices.
fn check(found: usize, count: usize, what: &str) -> Result<()> {
    match found < count {
        true => Ok(()),
        false => Err(Error::Data(format!(
            "{what} {found}, but the tagger has {count}: other data than its vocabulary's"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drnn_tasks::tagger::{Limits, PAD, Vocabulary};
    use drnn_train::PaperNet::DLstm;
    use drnn_train::tagger::Sizes;

    /// Sentences `a b` and `a`, where `b` has an unknown tag; delays of 1 and 2.
    #[test]
    fn spellings_occur_once_and_lists_say_where() {
        let words = [("a", "X"), ("a", "X"), ("b", "Y"), ("b", "Y")];
        let vocabulary = Vocabulary::of(words.into_iter(), None, &Limits::default()).unwrap();
        let mut data = Sentences::new();
        data.push(&vocabulary, [("a", Some("X")), ("b", None)].into_iter());
        data.push(&vocabulary, [("a", Some("Y"))].into_iter());
        let data = data.with_tag_weights(vec![3.0, 5.0]);
        let sizes = Sizes { symbol: 2, chars: 3, word: 2, words: 3, ..Sizes::default() };
        let net = sizes.build(&vocabulary, [DLstm(1), DLstm(2)], None).unwrap();
        let mut batch = HostBatch::default();
        for _ in 0..2 {
            batch.gather(&net, &data, &[0, 1]).unwrap(); // the second time in used memory
        }
        let (sizes, at) = (batch.sizes, Staged::new(&batch.sizes));
        assert_eq!((sizes.char_shape(), sizes.word_shape()), ([4, SPELLINGS_STEP], [6, 2]));
        // BEGIN, a, b, END and PAD, in the order of their occurrence; BEGIN and END are in a and b.
        assert_eq!(
            (sizes.vectors, sizes.elements, sizes.symbols_read),
            (5, 11, 1 + 3 + 3 + 1 + 1 + 5)
        );
        let mut to = vec![9; at.words_in_all];
        batch.write(&net, &data, Step { rate: 0.5, clip: None }, &at, &mut to).unwrap();
        let part = |at: usize, len: usize| &to[at..][..len];
        assert_eq!(part(at.char_lengths, 6), [2, 4, 4, 2, 2, 0]);
        let first: Vec<u32> = (0..4).map(|step| to[at.symbols + step * SPELLINGS_STEP]).collect();
        assert_eq!(first, [BEGIN, PAD, NONE, NONE]);
        // By position: sentence 0, sentence 1.
        let rows = [0, 0, 1, 1, 2, 3, 3, 4, 4, 4, 4, NONE];
        assert_eq!((part(at.word_lengths, 2), part(at.rows, 12)), (&[6, 5][..], &rows[..]));
        assert_eq!(part(at.row_starts, 7), [0, 2, 4, 5, 7, 11, 11]);
        assert_eq!(part(at.by_row, 11), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        assert_eq!(part(at.vector_starts, 6), [0, 2, 4, 5, 7, 11]);
        assert_eq!(part(at.by_vector, 11), part(at.by_row, 11));
        // States of two steps later: position 1 of both sentences, then position 2 of the first.
        assert_eq!((part(at.selected, 3), part(at.tags, 3)), (&[6, 7, 8][..], &[0, 1, IGNORE][..]));
        let weights = [3.0 / 2.0, 5.0, 1.0 / 2.0].map(f32::to_bits);
        assert_eq!((part(at.weights, 3), to[4]), (&weights[..], 2));
    }
}
