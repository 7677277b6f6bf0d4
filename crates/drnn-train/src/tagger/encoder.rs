//! A word as the word net reads it: `[e_w ; v_w]`, what the char net makes of its spelling, and its vector.

use super::model::Tagger;
use super::sentences::Spellings;
use super::vocabulary::{BEGIN, END, PAD};
use crate::error::Result;
use drnn::Batch;
use std::collections::HashMap;

/// Encodings of words that are kept, because words come again.
const MOST_KEPT: usize = 20_000;
/// Bytes of the longest that is: longer ones seldom come again, and would fill memory.
const LONGEST_KEPT: usize = 64;

/// Encodes one word after another.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    encodings: HashMap<String, Vec<f32>>,
}

/// What is encoded.
pub(crate) enum Form<'a> {
    /// BEGIN, END or PAD.
    Special(u32),
    Word(&'a str),
}

impl Encoder {
    pub fn encode(&mut self, tagger: &Tagger, form: Form) -> Result<Vec<f32>> {
        let encoding = tagger.net().encoding();
        let mut x = Vec::with_capacity(encoding + tagger.net().vector());
        let (key, word) = match form {
            Form::Special(BEGIN) => ("\u{1}".into(), BEGIN),
            Form::Special(END) => ("\u{2}".into(), END),
            Form::Special(_) => ("\u{3}".into(), PAD),
            Form::Word(form) => (format!(" {form}"), tagger.vocabulary().word(form)),
        };
        if let Some(known) = self.encodings.get(&key) {
            x.extend_from_slice(known);
        } else {
            let mut spellings = Spellings::default();
            let number = match form {
                // Spellings 0, 1, 2 are those of BEGIN, END and PAD.
                Form::Special(special) => special - BEGIN,
                Form::Word(form) => spellings.number(tagger.vocabulary(), form),
            };
            let symbols = spellings.get(number);
            let batch = Batch::tokens(symbols, symbols.len(), 1).asking(&[]);
            let last = tagger.chars.run(&batch, None)?.last;
            // The last layer's states, direction after direction, are the last of all for one row.
            x.extend_from_slice(&last.h[last.h.len() - encoding..]);
            if self.encodings.len() >= MOST_KEPT {
                self.encodings.clear();
            }
            if key.len() <= LONGEST_KEPT {
                self.encodings.insert(key, x.clone());
            }
        }
        x.extend_from_slice(tagger.vector(word));
        Ok(x)
    }
}
