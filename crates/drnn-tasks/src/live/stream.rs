//! One live sequence of a model.

use super::element::Element;
use super::model::LiveModel;
use super::prediction::Prediction;
use super::reader::Reader;
use super::sequence::Sequence;
use super::snapshot;
use crate::error::Result;
use drnn::{Model, Stream};

/// A live sequence of a model; see the [module](super)'s example. Its memory is constant.
pub struct LiveStream<'m> {
    reader: Reader<'m>,
    stream: Stream<&'m Model>,
    sequence: Sequence,
}

impl<'m> LiveStream<'m> {
    /// A sequence that has not begun. Fails for a bidirectional model.
    pub fn new(model: &'m LiveModel) -> Result<LiveStream<'m>> {
        model.check_streams()?;
        let stream = Stream::new(model.network())?;
        Ok(LiveStream { reader: Reader::new(model), stream, sequence: Sequence::default() })
    }

    /// Reads the next element; returns the prediction for the element d before it, if there is one. A
    /// refused element changes nothing.
    pub fn push(&mut self, element: &Element) -> Result<Option<Prediction<'m>>> {
        let read = self.reader.read(element, &self.sequence)?;
        if self.sequence.position() == 0
            && let Some(begin) = self.reader.begin()?
        {
            self.sequence.begin();
            if let Some(y) = self.stream.push(begin.element())? {
                self.sequence.predict(self.reader.model, y);
            }
        }
        self.sequence.push(read.awaited, read.numbers);
        let y = self.stream.push(read.input.element())?;
        Ok(y.and_then(|y| self.sequence.predict(self.reader.model, y)))
    }

    /// Ends the sequence: returns the predictions still due, in order. The next element then begins a
    /// new sequence.
    ///
    /// A model without a task whose network uses look-ahead padding ([`drnn::Padding::LookAhead`]) has
    /// no predictions for its last d elements, as in a run over the whole sequence.
    pub fn flush(&mut self) -> Result<Vec<Prediction<'m>>> {
        let mut predictions = Vec::new();
        if self.sequence.position() > 0 {
            for input in self.reader.end()? {
                let y = self.stream.push(input.element())?;
                predictions.extend(y.and_then(|y| self.sequence.predict(self.reader.model, y)));
            }
        }
        for y in self.stream.finish() {
            predictions.extend(self.sequence.predict(self.reader.model, &y));
        }
        self.sequence = Sequence::default();
        Ok(predictions)
    }

    /// The state as bytes, to go on later or elsewhere: see [`LiveStream::restore`].
    pub fn snapshot(&mut self) -> Vec<u8> {
        snapshot::save(&self.sequence, &self.stream.snapshot())
    }

    /// Goes on from a snapshot. Bytes of another model are refused, and nothing changes.
    pub fn restore(&mut self, bytes: &[u8]) -> Result<()> {
        let (sequence, network) = snapshot::load(self.reader.model, bytes)?;
        self.stream.restore(network)?;
        self.sequence = sequence;
        Ok(())
    }

    /// The number of elements read since the sequence began: the position of the next one.
    pub fn position(&self) -> u64 {
        self.sequence.position()
    }
}
