//! The word net's input for a word: `[e_w ; v_w]`, the char net's encoding of its spelling, and its
//! vector.

use super::encoding::EncodingLayout;
use super::model::Tagger;
use super::spellings::Spellings;
use super::vocabulary::{BEGIN, END, PAD};
use crate::error::Result;
use crate::runner::Runner;
use drnn::{Batch, Rows, Steps};
use std::collections::HashMap;

/// Maximum number of cached encodings.
const MAX_CACHED: usize = 20_000;
/// Words of more bytes are not cached: they seldom recur, and would fill memory.
const MAX_CACHED_BYTES: usize = 64;

/// Steps that a word is expected to take, of those that a batch of the char net may have: 256 words
/// a batch on the CPU.
const SLOTS_OF_WORD: usize = 64;

/// Encodes words, and caches their encodings.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    encodings: HashMap<String, Vec<f32>>,
}

/// What to encode.
pub(crate) enum Form<'a> {
    /// BEGIN, END or PAD.
    Special(u32),
    Word(&'a str),
}

impl Encoder {
    /// Encodes words ahead of time, in batches, where `chars` runs the tagger's network of
    /// characters; on the CPU with the same bits as one by one.
    pub fn prepare<'a>(
        &mut self,
        tagger: &Tagger,
        chars: &dyn Runner,
        words: impl Iterator<Item = &'a str>,
    ) -> Result<()> {
        let new = |key: &String| key.len() <= MAX_CACHED_BYTES && !self.encodings.contains_key(key);
        let mut keys: Vec<String> = words.map(key).filter(new).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.truncate(MAX_CACHED);
        if self.encodings.len() + keys.len() > MAX_CACHED {
            self.encodings.clear();
        }
        for keys in keys.chunks(chars.max_batch_slots() / SLOTS_OF_WORD) {
            let mut spellings = Spellings::default();
            let numbers: Vec<u32> =
                keys.iter().map(|key| spellings.number(tagger.vocabulary(), &key[1..])).collect();
            let lengths: Vec<usize> = numbers.iter().map(|n| spellings.get(*n).len()).collect();
            let (steps, rows) = (lengths.iter().copied().max().unwrap_or(0), keys.len());
            let mut symbols = vec![PAD; steps * rows];
            for (row, number) in numbers.iter().enumerate() {
                for (step, symbol) in spellings.get(*number).iter().enumerate() {
                    symbols[step * rows + row] = *symbol;
                }
            }
            let batch = Batch::tokens(&symbols, Steps(steps), Rows(rows))
                .lengths(&lengths)
                .select_outputs(&[]);
            let last = chars.run(&batch, None)?.last;
            let parts = EncodingLayout::new(tagger.net(), rows);
            for (row, key) in keys.iter().enumerate() {
                let mut x = vec![0.0; tagger.net().encoding()];
                for (at, from, n) in parts.of_row(row) {
                    x[at..at + n].copy_from_slice(&last.h[from..from + n]);
                }
                self.encodings.insert(key.clone(), x);
            }
        }
        Ok(())
    }

    /// The word net's input: encoding, then vector.
    pub fn encode(&mut self, tagger: &Tagger, form: Form) -> Result<Vec<f32>> {
        let encoding = tagger.net().encoding();
        let mut x = Vec::with_capacity(encoding + tagger.net().vector());
        let (key, word) = match form {
            Form::Special(BEGIN) => ("\u{1}".into(), BEGIN),
            Form::Special(END) => ("\u{2}".into(), END),
            Form::Special(_) => ("\u{3}".into(), PAD),
            Form::Word(form) => (key(form), tagger.vocabulary().word(form)),
        };
        if let Some(known) = self.encodings.get(&key) {
            x.extend_from_slice(known);
        } else {
            let mut spellings = Spellings::default();
            let number = match form {
                Form::Special(special) => Spellings::of_special(special),
                Form::Word(form) => spellings.number(tagger.vocabulary(), form),
            };
            let symbols = spellings.get(number);
            let batch = Batch::tokens(symbols, Steps(symbols.len()), Rows(1)).select_outputs(&[]);
            let last = tagger.chars.run(&batch, None)?.last;
            // With one row, the last layer's states are the last values, direction after direction.
            x.extend_from_slice(&last.h[last.h.len() - encoding..]);
            if self.encodings.len() >= MAX_CACHED {
                self.encodings.clear();
            }
            if key.len() <= MAX_CACHED_BYTES {
                self.encodings.insert(key, x.clone());
            }
        }
        x.extend_from_slice(tagger.vector(word));
        Ok(x)
    }
}

/// The cache key of a word. The space separates it from the keys of BEGIN, END and PAD.
fn key(form: &str) -> String {
    format!(" {form}")
}
