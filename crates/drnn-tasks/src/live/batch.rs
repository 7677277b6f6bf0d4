//! Many live sequences of one model, stepped together as a batch.

use super::element::Element;
use super::model::LiveModel;
use super::prediction::Prediction;
use super::reader::{Input, Reader};
use super::sequence::Sequence;
use crate::error::{Error, Result};
use drnn::{Model, StreamBatch, StreamId};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Identifies a sequence of a [`LiveBatch`]; never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LiveId(u64);

impl fmt::Display for LiveId {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "stream {}", self.0)
    }
}

/// Live sequences that join and leave. Each gets the predictions of a [`super::LiveStream`], to the
/// bit.
pub struct LiveBatch<'m> {
    reader: Reader<'m>,
    streams: StreamBatch<&'m Model>,
    live: HashMap<LiveId, Live>,
    by_stream: HashMap<StreamId, LiveId>,
    joined: u64,
    changes: u64,
}

struct Live {
    stream: StreamId,
    sequence: Sequence,
}

impl<'m> LiveBatch<'m> {
    /// An empty batch. Fails for a bidirectional model.
    pub fn new(model: &'m LiveModel) -> Result<LiveBatch<'m>> {
        model.check_streams()?;
        let streams = StreamBatch::new(model.network())?;
        let (live, by_stream) = Default::default();
        let reader = Reader::new(model);
        Ok(LiveBatch { reader, streams, live, by_stream, joined: 0, changes: 0 })
    }

    /// The number of live sequences.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether there are no live sequences.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Adds a sequence.
    pub fn join(&mut self) -> LiveId {
        let id = LiveId(self.joined);
        self.joined += 1;
        let stream = self.streams.join();
        self.by_stream.insert(stream, id);
        self.live.insert(id, Live { stream, sequence: Sequence::default() });
        id
    }

    /// Removes a sequence, without the predictions still due.
    pub fn leave(&mut self, id: LiveId) -> Result<()> {
        let stream = self.get(id)?.stream;
        self.streams.leave(stream)?;
        self.by_stream.remove(&stream);
        self.live.remove(&id);
        Ok(())
    }

    /// The number of elements read since the sequence began.
    pub fn position(&self, id: LiveId) -> Result<u64> {
        Ok(self.get(id)?.sequence.position())
    }

    /// How often states began to change. If it is the same after a panic, no state has changed and
    /// the batch can still be used.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether `id` would accept this as its next element; so that a bad element need not fail the
    /// whole step.
    pub fn check(&mut self, id: LiveId, element: &Element) -> Result<()> {
        let live = self.live.get(&id).ok_or_else(|| gone(id))?;
        self.reader.read(element, &live.sequence).map(|_| ())
    }

    /// Reads one element of each named sequence and passes on the predictions that are due. If any
    /// element is refused, nothing changes.
    pub fn step(
        &mut self,
        elements: &[(LiveId, Element)],
        mut output: impl FnMut(LiveId, Prediction<'m>),
    ) -> Result<()> {
        self.check_once(elements.iter().map(|(id, _)| *id))?;
        let mut reads = Vec::with_capacity(elements.len());
        for (id, element) in elements {
            let live = self.live.get(id).ok_or_else(|| gone(*id))?;
            let read = self.reader.read(element, &live.sequence);
            reads.push((*id, read.map_err(|e| Error::Data(format!("{id}: {e}")))?));
        }
        self.changes += 1;
        if let Some(begin) = self.reader.begin()? {
            let mut first = Vec::new();
            for (id, _) in elements {
                let live = self.live.get_mut(id).ok_or_else(|| gone(*id))?;
                if live.sequence.position() == 0 {
                    live.sequence.begin();
                    first.push((*id, begin.clone()));
                }
            }
            self.read(&first, &mut output)?;
        }
        let mut inputs = Vec::with_capacity(reads.len());
        for (id, read) in reads {
            let live = self.live.get_mut(&id).ok_or_else(|| gone(id))?;
            live.sequence.push(read.awaited, read.numbers);
            inputs.push((id, read.input));
        }
        self.read(&inputs, &mut output)
    }

    /// Ends the named sequences: passes on the predictions still due, in order. A new sequence then
    /// begins under each id.
    pub fn flush(
        &mut self,
        ids: &[LiveId],
        mut output: impl FnMut(LiveId, Prediction<'m>),
    ) -> Result<()> {
        self.check_once(ids.iter().copied())?;
        self.changes += 1;
        let begun: Vec<LiveId> =
            ids.iter().copied().filter(|id| self.position(*id).is_ok_and(|at| at > 0)).collect();
        for input in self.reader.end()? {
            let inputs: Vec<_> = begun.iter().map(|id| (*id, input.clone())).collect();
            self.read(&inputs, &mut output)?;
        }
        let streams: Vec<StreamId> = begun.iter().map(|id| self.live[id].stream).collect();
        let LiveBatch { reader, streams: all, live, by_stream, .. } = self;
        all.finish(&streams, |stream, y| {
            if let Some((id, found)) = named(reader.model, by_stream, live, stream, y) {
                output(id, found);
            }
        })?;
        for id in begun {
            let stream = self.streams.join();
            self.by_stream.insert(stream, id);
            if let Some(old) = self.live.insert(id, Live { stream, sequence: Sequence::default() })
            {
                self.by_stream.remove(&old.stream);
            }
        }
        Ok(())
    }

    /// Moves all sequences but the named ones to a new batch. For a caller that has caught a panic in
    /// a step: the named sequences took part in it, their states are unknown and are not read.
    pub fn without(mut self, ids: &[LiveId]) -> Result<LiveBatch<'m>> {
        let mut new = LiveBatch::new(self.reader.model)?;
        new.joined = self.joined;
        for (id, live) in std::mem::take(&mut self.live) {
            if !ids.contains(&id) {
                let stream = new.streams.join();
                new.streams.restore(stream, &self.streams.snapshot(live.stream)?)?;
                new.by_stream.insert(stream, id);
                new.live.insert(id, Live { stream, sequence: live.sequence });
            }
        }
        Ok(new)
    }

    /// One step of the network.
    fn read(
        &mut self,
        inputs: &[(LiveId, Input)],
        output: &mut impl FnMut(LiveId, Prediction<'m>),
    ) -> Result<()> {
        let LiveBatch { reader, streams, live, by_stream, .. } = self;
        let elements: Vec<_> =
            inputs.iter().map(|(id, input)| (live[id].stream, input.element())).collect();
        streams.step(&elements, |stream, y| {
            if let Some((id, found)) = named(reader.model, by_stream, live, stream, y) {
                output(id, found);
            }
        })?;
        Ok(())
    }

    fn get(&self, id: LiveId) -> Result<&Live> {
        self.live.get(&id).ok_or_else(|| gone(id))
    }

    /// Checks that all are live and named once.
    fn check_once(&self, ids: impl Iterator<Item = LiveId>) -> Result<()> {
        let mut seen = HashSet::new();
        for id in ids {
            self.get(id)?;
            if !seen.insert(id) {
                return Err(Error::Data(format!("{id} is named twice in one step")));
            }
        }
        Ok(())
    }
}

/// The prediction that belongs to an output of a network's stream, if it is not skipped.
fn named<'m>(
    model: &'m LiveModel,
    by_stream: &HashMap<StreamId, LiveId>,
    live: &mut HashMap<LiveId, Live>,
    stream: StreamId,
    y: &[f32],
) -> Option<(LiveId, Prediction<'m>)> {
    let id = *by_stream.get(&stream)?;
    Some((id, live.get_mut(&id)?.sequence.predict(model, y)?))
}

fn gone(id: LiveId) -> Error {
    Error::Data(format!("{id} is not live: it has left, or belongs to another batch"))
}
