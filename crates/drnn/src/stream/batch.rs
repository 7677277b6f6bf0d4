//! Many live sequences of one model, stepped together; they join and leave at any time.

use crate::error::{Error, Result};
use crate::model::ModelRef;
use crate::prelude::*;
use crate::stream::snapshot;
use crate::stream::step::{Element, Steps};
use core::sync::atomic::{AtomicUsize, Ordering};

/// Names a stream of a [`StreamBatch`]. Never reused: a stream that has left is not mistaken for
/// one that came later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId {
    /// Which batch it belongs to.
    batch: u64,
    slot: u32,
    /// How many streams had the slot before.
    turn: u64,
}

/// Live sequences of one model. A step allocates nothing unless more streams are live than ever.
///
/// ```
/// use drnn::{Cell, Model, NetSpec, Padding, StreamBatch};
///
/// let spec = NetSpec::builder(Cell::Lstm).tokens(5, 3).units([8]).outputs(5);
/// let spec = spec.delay(1, Padding::Symbol(0)).build()?;
/// let model = Model::init(&spec, 1)?;
/// let mut streams = StreamBatch::new(&model)?;
/// let (a, b) = (streams.join(), streams.join());
/// let mut answered = Vec::new();
/// streams.step(&[(a, 2.into()), (b, 4.into())], |_, _| unreachable!("one element late"))?;
/// streams.step(&[(b, 1.into())], |id, _| answered.push(id))?; // only b has an element
/// streams.finish(&[a], |id, _| answered.push(id))?; // a has ended: padding, last output, leaves
/// assert_eq!(answered, [b, a]);
/// # Ok::<(), drnn::Error>(())
/// ```
pub struct StreamBatch<M> {
    model: M,
    steps: Steps,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// No other batch of this process has it.
    number: u64,
    /// Number of the current call, by which a stream named twice is noticed.
    call: u64,
}

#[derive(Clone)]
struct Slot {
    turn: u64,
    live: bool,
    called: u64,
}

impl Slot {
    /// The name of the stream that has this slot of a batch now.
    fn id(&self, batch: u64, slot: usize) -> StreamId {
        StreamId { batch, slot: slot as u32, turn: self.turn }
    }
}

impl<M: ModelRef> StreamBatch<M> {
    /// No stream yet. Bidirectional networks cannot stream.
    pub fn new(model: M) -> Result<StreamBatch<M>> {
        let steps = Steps::new(model.model())?;
        let (slots, free) = (Vec::new(), Vec::new());
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed) as u64;
        Ok(StreamBatch { model, steps, slots, free, number, call: 0 })
    }

    /// Live streams.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether no stream is live.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A new stream, from zero states.
    pub fn join(&mut self) -> StreamId {
        if self.free.is_empty() {
            let (old, new) = (self.slots.len(), (self.slots.len() * 2).max(8));
            self.steps.grow(&self.model.model().net(), new);
            self.slots.resize(new, Slot { turn: 0, live: false, called: 0 });
            self.free.extend((old as u32..new as u32).rev());
        }
        let slot = self.free.pop().unwrap_or_default();
        self.slots[slot as usize].live = true;
        self.id(slot as usize)
    }

    /// Ends a stream without its last outputs.
    pub fn leave(&mut self, id: StreamId) -> Result<()> {
        let slot = self.slot(id)?;
        self.steps.reset(&self.model.model().net(), slot);
        self.slots[slot].live = false;
        self.slots[slot].turn += 1;
        self.free.push(id.slot);
        Ok(())
    }

    /// Reads one element of each stream named, and hands on the outputs that are known by it. Where
    /// any element is refused, no stream has moved.
    pub fn step<'a>(
        &mut self,
        elements: &[(StreamId, Element<'a>)],
        mut output: impl FnMut(StreamId, &[f32]),
    ) -> Result<()> {
        self.call += 1;
        for (row, (id, element)) in elements.iter().enumerate() {
            let slot = self.once(*id)?;
            element.check(self.model.model().spec(), self.steps.seen(slot), row)?;
        }
        let model = self.model.model();
        let net = model.net();
        self.steps.clear();
        for (id, element) in elements {
            self.steps.add(&net, id.slot as usize, *element);
        }
        self.steps.run(&net, model);
        for (slot, row) in self.steps.outputs(model.spec()) {
            output(self.id(slot), row);
        }
        Ok(())
    }

    /// Ends streams: hands on the outputs still due, each stream's in order, and lets them leave.
    pub fn finish(
        &mut self,
        ids: &[StreamId],
        mut output: impl FnMut(StreamId, &[f32]),
    ) -> Result<()> {
        self.call += 1;
        for &id in ids {
            self.once(id)?;
        }
        let model = self.model.model();
        let net = model.net();
        let slots = ids.iter().map(|id| id.slot as usize);
        let (live, number) = (&self.slots, self.number);
        self.steps.drain(&net, model, slots, |slot, row| output(live[slot].id(number, slot), row));
        ids.iter().try_for_each(|&id| self.leave(id))
    }

    /// Elements that a stream has read.
    pub fn seen(&self, id: StreamId) -> Result<u64> {
        Ok(self.steps.seen(self.slot(id)?))
    }

    /// A stream's state as bytes; [`crate::Stream`] reads the same.
    pub fn snapshot(&mut self, id: StreamId) -> Result<Vec<u8>> {
        let slot = self.slot(id)?;
        let model = self.model.model();
        Ok(snapshot::save(&model.net(), model, &mut self.steps, slot))
    }

    /// Lets a stream go on from a snapshot. Bytes of another network are refused, and nothing
    /// changes.
    pub fn restore(&mut self, id: StreamId, bytes: &[u8]) -> Result<()> {
        let slot = self.slot(id)?;
        let model = self.model.model();
        snapshot::load(&model.net(), model, &mut self.steps, slot, bytes)
    }

    /// The slot of a stream that is live and was not yet named in this call.
    fn once(&mut self, id: StreamId) -> Result<usize> {
        let slot = self.slot(id)?;
        if core::mem::replace(&mut self.slots[slot].called, self.call) == self.call {
            return Err(Error::StreamId(format!("{id:?} is named twice in one call")));
        }
        Ok(slot)
    }

    fn slot(&self, id: StreamId) -> Result<usize> {
        match self.slots.get(id.slot as usize) {
            Some(slot) if slot.live && self.id(id.slot as usize) == id => Ok(id.slot as usize),
            _ => Err(Error::StreamId(format!(
                "{id:?} is not live here: it has left, or joined another batch"
            ))),
        }
    }

    /// The name of the stream that has the slot now.
    fn id(&self, slot: usize) -> StreamId {
        self.slots[slot].id(self.number, slot)
    }
}
