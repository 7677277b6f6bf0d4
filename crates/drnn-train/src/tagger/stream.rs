//! Tags while words arrive: each d words late.

use super::model::Tagger;
use super::sentences::Spellings;
use super::vocabulary::{BEGIN, END, PAD};
use crate::error::Result;
use drnn::{Batch, Stream};
use std::collections::HashMap;

/// Encodings of words that are kept, because words come again.
const MOST_KEPT: usize = 20_000;

/// A sentence under way.
pub struct TagStream<'t> {
    tagger: &'t Tagger,
    words: Stream<&'t drnn::Model>,
    encodings: HashMap<String, Vec<f32>>,
    x: Vec<f32>,
    /// Words pushed and not answered yet, BEGIN among them.
    due: usize,
    begun: bool,
}

/// Answers of a push or of the end, one value per tag each.
pub type Late = Vec<Vec<f32>>;

impl<'t> TagStream<'t> {
    /// A sentence that has not begun. A bidirectional word net cannot stream: the error says so.
    pub fn new(tagger: &'t Tagger) -> Result<TagStream<'t>> {
        let words = Stream::new(&tagger.words)?;
        let x = vec![0.0; tagger.net().encoding() + tagger.net().vector()];
        Ok(TagStream { tagger, words, encodings: HashMap::new(), x, due: 0, begun: false })
    }

    /// The next word of the sentence; the answer to the one d before it, where there is one.
    pub fn push(&mut self, form: &str) -> Result<Option<Vec<f32>>> {
        if !self.begun {
            self.begun = true;
            self.element(Form::Special(BEGIN))?;
        }
        self.due += 1;
        self.element(Form::Word(form))
    }

    /// Ends the sentence: the answers still due, in order. The stream is then as new.
    pub fn finish(&mut self) -> Result<Late> {
        let mut rest = Vec::new();
        if self.begun {
            let late = self.tagger.net().words.delay();
            let end = std::iter::once(END).chain(std::iter::repeat_n(PAD, late));
            for special in end {
                rest.extend(self.element(Form::Special(special))?);
            }
        }
        self.words.finish();
        (self.due, self.begun) = (0, false);
        Ok(rest)
    }

    /// Words that were pushed and wait for their answers.
    pub fn due(&self) -> usize {
        self.due
    }

    fn element(&mut self, form: Form) -> Result<Option<Vec<f32>>> {
        self.join(&form)?;
        let seen = self.words.seen();
        let answer = self.words.push(self.x.as_slice())?;
        // The answer is to the element d before this one; BEGIN (0) and END are not asked for.
        let late = self.tagger.net().words.delay() as u64;
        if seen < late + 1 || self.due == 0 {
            return Ok(None);
        }
        self.due -= usize::from(answer.is_some());
        Ok(answer.map(<[f32]>::to_vec))
    }

    /// Encoding and vector of a word.
    fn join(&mut self, form: &Form) -> Result<()> {
        let encoding = self.tagger.net().encoding();
        let (key, word) = match form {
            Form::Special(BEGIN) => ("\u{1}".into(), BEGIN),
            Form::Special(END) => ("\u{2}".into(), END),
            Form::Special(_) => ("\u{3}".into(), PAD),
            Form::Word(form) => (format!(" {form}"), self.tagger.vocabulary().word(form)),
        };
        if let Some(known) = self.encodings.get(&key) {
            self.x[..encoding].copy_from_slice(known);
        } else {
            let mut spellings = Spellings::default();
            let number = match form {
                // Spellings 0, 1, 2 are those of BEGIN, END and PAD.
                Form::Special(special) => special - BEGIN,
                Form::Word(form) => spellings.number(self.tagger.vocabulary(), form),
            };
            let symbols = spellings.get(number);
            let batch = Batch::tokens(symbols, symbols.len(), 1).asking(&[]);
            let last = self.tagger.chars.run(&batch, None)?.last;
            // The last layer's states, direction after direction, are the last of all for one row.
            self.x[..encoding].copy_from_slice(&last.h[last.h.len() - encoding..]);
            if self.encodings.len() >= MOST_KEPT {
                self.encodings.clear();
            }
            self.encodings.insert(key, self.x[..encoding].to_vec());
        }
        self.x[encoding..].copy_from_slice(self.tagger.vector(word));
        Ok(())
    }
}

enum Form<'a> {
    Special(u32),
    Word(&'a str),
}
