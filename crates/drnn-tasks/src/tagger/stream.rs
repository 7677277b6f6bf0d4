//! Tags while words arrive: each d words late.

use super::encoder::{Encoder, Form};
use super::model::Tagger;
use super::vocabulary::{BEGIN, END, PAD};
use crate::error::Result;
use drnn::Stream;

/// A sentence under way.
pub struct TagStream<'t> {
    tagger: &'t Tagger,
    words: Stream<&'t drnn::Model>,
    encoder: Encoder,
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
        Ok(TagStream { tagger, words, encoder: Encoder::default(), due: 0, begun: false })
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
        let x = self.encoder.encode(self.tagger, form)?;
        let seen = self.words.seen();
        let answer = self.words.push(x.as_slice())?;
        // The answer is to the element d before this one; BEGIN (0) and END are not asked for.
        let late = self.tagger.net().words.delay() as u64;
        if seen < late + 1 || self.due == 0 {
            return Ok(None);
        }
        self.due -= usize::from(answer.is_some());
        Ok(answer.map(<[f32]>::to_vec))
    }
}
