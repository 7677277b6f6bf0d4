//! One live sequence of a model.

use super::answer::Answer;
use super::element::Element;
use super::model::LiveModel;
use super::reader::Reader;
use super::sequence::Sequence;
use crate::error::Result;
use drnn::{Model, Stream};

/// A live sequence. Its memory does not grow.
pub struct LiveStream<'m> {
    reader: Reader<'m>,
    stream: Stream<&'m Model>,
    sequence: Sequence,
}

impl<'m> LiveStream<'m> {
    /// A sequence that has not begun. A bidirectional model is refused.
    pub fn new(model: &'m LiveModel) -> Result<LiveStream<'m>> {
        model.check_streams()?;
        let stream = Stream::new(model.network())?;
        Ok(LiveStream { reader: Reader::new(model), stream, sequence: Sequence::default() })
    }

    /// Reads the next element; answers the one d before it, once there is one. An element that is refused changes
    /// nothing.
    pub fn push(&mut self, element: &Element) -> Result<Option<Answer<'m>>> {
        let read = self.reader.read(element, &self.sequence)?;
        if self.sequence.position() == 0
            && let Some(begin) = self.reader.begin()?
        {
            self.sequence.begin();
            if let Some(y) = self.stream.push(begin.element())? {
                self.sequence.answer(self.reader.model, y);
            }
        }
        self.sequence.ask(read.asked, read.numbers);
        let y = self.stream.push(read.input.element())?;
        Ok(y.and_then(|y| self.sequence.answer(self.reader.model, y)))
    }

    /// Ends the sequence: the answers still due, in order. Then it begins anew.
    ///
    /// A plain network that only looks ahead ([`drnn::Padding::LookAhead`]) does not answer its last d elements, as
    /// in a run over the whole sequence.
    pub fn flush(&mut self) -> Result<Vec<Answer<'m>>> {
        let mut answers = Vec::new();
        if self.sequence.position() > 0 {
            for input in self.reader.end()? {
                let y = self.stream.push(input.element())?;
                answers.extend(y.and_then(|y| self.sequence.answer(self.reader.model, y)));
            }
        }
        for y in self.stream.finish() {
            answers.extend(self.sequence.answer(self.reader.model, &y));
        }
        self.sequence = Sequence::default();
        Ok(answers)
    }

    /// Elements read since the sequence began: the position of the next.
    pub fn position(&self) -> u64 {
        self.sequence.position()
    }
}
