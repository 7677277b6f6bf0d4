//! Many live sequences of one model, stepped together: for whoever serves many at once.

use super::answer::Answer;
use super::element::Element;
use super::model::LiveModel;
use super::reader::{Input, Reader};
use super::sequence::Sequence;
use crate::error::{Error, Result};
use drnn::{Model, StreamBatch, StreamId};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Names a sequence of a [`LiveBatch`]; never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LiveId(u64);

impl fmt::Display for LiveId {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "stream {}", self.0)
    }
}

/// Live sequences that come and go. Each is answered as a [`super::LiveStream`] would, to the bit.
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
    /// None yet. A bidirectional model is refused.
    pub fn new(model: &'m LiveModel) -> Result<LiveBatch<'m>> {
        model.check_streams()?;
        let streams = StreamBatch::new(model.network())?;
        let (live, by_stream) = Default::default();
        let reader = Reader::new(model);
        Ok(LiveBatch { reader, streams, live, by_stream, joined: 0, changes: 0 })
    }

    /// How many are live.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// A new one.
    pub fn join(&mut self) -> LiveId {
        let id = LiveId(self.joined);
        self.joined += 1;
        let stream = self.streams.join();
        self.by_stream.insert(stream, id);
        self.live.insert(id, Live { stream, sequence: Sequence::default() });
        id
    }

    /// One ends without its last answers, and is no more.
    pub fn leave(&mut self, id: LiveId) -> Result<()> {
        let stream = self.get(id)?.stream;
        self.streams.leave(stream)?;
        self.by_stream.remove(&stream);
        self.live.remove(&id);
        Ok(())
    }

    /// Elements that one has read since its sequence began.
    pub fn position(&self, id: LiveId) -> Result<u64> {
        Ok(self.get(id)?.sequence.position())
    }

    /// How often sequences began to move. The same after a panic says that none has: whoever caught it may go on.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether one would take this as its next element; so that a bad one need not stop the others.
    pub fn check(&mut self, id: LiveId, element: &Element) -> Result<()> {
        let live = self.live.get(&id).ok_or_else(|| gone(id))?;
        self.reader.read(element, &live.sequence).map(|_| ())
    }

    /// Reads an element of each that is named, and hands on the answers that are known by it. Where any is refused,
    /// none has moved.
    pub fn step(
        &mut self,
        elements: &[(LiveId, Element)],
        mut answer: impl FnMut(LiveId, Answer<'m>),
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
            self.read(&first, &mut answer)?;
        }
        let mut inputs = Vec::with_capacity(reads.len());
        for (id, read) in reads {
            let live = self.live.get_mut(&id).ok_or_else(|| gone(id))?;
            live.sequence.ask(read.asked, read.numbers);
            inputs.push((id, read.input));
        }
        self.read(&inputs, &mut answer)
    }

    /// Ends the sequences of those named: hands on what is still due, each one's in order. They stay, and begin anew.
    pub fn flush(
        &mut self,
        ids: &[LiveId],
        mut answer: impl FnMut(LiveId, Answer<'m>),
    ) -> Result<()> {
        self.check_once(ids.iter().copied())?;
        self.changes += 1;
        let begun: Vec<LiveId> =
            ids.iter().copied().filter(|id| self.position(*id).is_ok_and(|at| at > 0)).collect();
        for input in self.reader.end()? {
            let inputs: Vec<_> = begun.iter().map(|id| (*id, input.clone())).collect();
            self.read(&inputs, &mut answer)?;
        }
        let streams: Vec<StreamId> = begun.iter().map(|id| self.live[id].stream).collect();
        let LiveBatch { reader, streams: all, live, by_stream, .. } = self;
        all.finish(&streams, |stream, y| {
            if let Some((id, found)) = named(reader.model, by_stream, live, stream, y) {
                answer(id, found);
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

    /// The same sequences in a batch of its own memory, without those named, whose state is not looked at: for
    /// whoever has caught a panic in a step, of those who took part in it. The others are as they were.
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
        answer: &mut impl FnMut(LiveId, Answer<'m>),
    ) -> Result<()> {
        let LiveBatch { reader, streams, live, by_stream, .. } = self;
        let elements: Vec<_> =
            inputs.iter().map(|(id, input)| (live[id].stream, input.element())).collect();
        streams.step(&elements, |stream, y| {
            if let Some((id, found)) = named(reader.model, by_stream, live, stream, y) {
                answer(id, found);
            }
        })?;
        Ok(())
    }

    fn get(&self, id: LiveId) -> Result<&Live> {
        self.live.get(&id).ok_or_else(|| gone(id))
    }

    /// That all are live, and none is named twice.
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

/// What the network says to one of its streams, if that was asked for.
fn named<'m>(
    model: &'m LiveModel,
    by_stream: &HashMap<StreamId, LiveId>,
    live: &mut HashMap<LiveId, Live>,
    stream: StreamId,
    y: &[f32],
) -> Option<(LiveId, Answer<'m>)> {
    let id = *by_stream.get(&stream)?;
    Some((id, live.get_mut(&id)?.sequence.answer(model, y)?))
}

fn gone(id: LiveId) -> Error {
    Error::Data(format!("{id} is not live: it has left, or joined another batch"))
}
