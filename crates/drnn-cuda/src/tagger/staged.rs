//! Sizes and layout of a staged batch: one array of 32-bit words, one copy.
//!
//! ```text
//! T = longest sentence + 2 + d steps of B sentences        E elements that are read
//! S steps of W spellings, W rounded up                     K symbols that are read
//! D distinct words                                         P words with outputs
//! ```

use crate::step::plan::HEADER;

/// The number of spellings is rounded up to a multiple of this, so that a plan of the char
/// network's recurrence serves many batches.
pub(super) const SPELLINGS_STEP: usize = 32;

/// Sizes of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct BatchSizes {
    /// Of the alphabet, V.
    pub symbols: usize,
    /// S, W and K.
    pub char_steps: usize,
    pub spellings: usize,
    pub symbols_read: usize,
    /// T, B and E.
    pub word_steps: usize,
    pub sentences: usize,
    pub elements: usize,
    /// D; 0 where vectors of words are not trained.
    pub vectors: usize,
    /// P.
    pub selected: usize,
}

impl BatchSizes {
    /// Steps and rows of the char network's recurrence.
    pub fn char_shape(&self) -> [usize; 2] {
        [self.char_steps, self.spellings]
    }

    /// Steps and rows of the word network's recurrence.
    pub fn word_shape(&self) -> [usize; 2] {
        [self.word_steps, self.sentences]
    }

    /// S W.
    pub fn char_slots(&self) -> usize {
        self.char_steps * self.spellings
    }

    /// T B.
    pub fn word_slots(&self) -> usize {
        self.word_steps * self.sentences
    }
}

/// Offsets of the parts of a staged batch, in words, in this order after the header. Every part
/// begins at a multiple of four. A list by some key is `starts` (keys + 1) and, key by key, the
/// items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Staged {
    /// Steps of each spelling, (W); 0 for those added by rounding up.
    pub char_lengths: usize,
    /// (S, W), NONE after a spelling's end.
    pub symbols: usize,
    /// (step, row) pairs by symbol.
    pub symbol_starts: usize,
    pub by_symbol: usize,
    /// Steps of each sentence, (B).
    pub word_lengths: usize,
    /// Word and row of the spelling of each element, (T, B); NONE after a sentence's end.
    pub words: usize,
    pub rows: usize,
    /// (step, sentence) pairs by row of their spelling.
    pub row_starts: usize,
    pub by_row: usize,
    /// The distinct words, (D), and (step, sentence) pairs by these.
    pub vectors: usize,
    pub vector_starts: usize,
    pub by_vector: usize,
    /// The row of y (T, B, ..) of each output, its class, and its weight in the gradient, (P).
    pub selected: usize,
    pub tags: usize,
    pub weights: usize,
    /// Length of the whole batch.
    pub words_in_all: usize,
}

impl Staged {
    pub fn new(sizes: &BatchSizes) -> Staged {
        let mut end = HEADER;
        let mut add = |words: usize| {
            let start = end;
            end += words.next_multiple_of(4);
            start
        };
        let starts = |keys: usize| if keys == 0 { 0 } else { keys + 1 };
        let listed = if sizes.vectors == 0 { 0 } else { sizes.elements };
        Staged {
            char_lengths: add(sizes.spellings),
            symbols: add(sizes.char_slots()),
            symbol_starts: add(sizes.symbols + 1),
            by_symbol: add(sizes.symbols_read),
            word_lengths: add(sizes.sentences),
            words: add(sizes.word_slots()),
            rows: add(sizes.word_slots()),
            row_starts: add(sizes.spellings + 1),
            by_row: add(sizes.elements),
            vectors: add(sizes.vectors),
            vector_starts: add(starts(sizes.vectors)),
            by_vector: add(listed),
            selected: add(sizes.selected),
            tags: add(sizes.selected),
            weights: add(sizes.selected),
            words_in_all: add(0),
        }
    }
}
