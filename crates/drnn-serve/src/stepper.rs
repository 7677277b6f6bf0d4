//! The thread that steps all streams of a model together.
//!
//! ```text
//! stream 1   e e e ]            each step takes the first element of every stream that has one;
//! stream 2   e ]        step    an element waits for those of other streams, but not longer than `wait`
//! stream 3   ]                  from its arrival
//! ```
//!
//! What is wrong with an element is its own stream's affair: the others' step goes on. Should a step panic, the
//! streams that took part in it are closed, because nobody knows what they have read; the others move to new memory
//! as they were.

use crate::message::Message;
use crate::metrics::WorkMetrics;
use drnn_train::live::{Answer, Element, LiveBatch, LiveId, LiveModel};
use serde_json::json;
use std::collections::{HashMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc};

/// A model's live sequences. When it and all its streams are dropped, its thread ends.
pub struct Stepper {
    to: Sender<(u64, Command)>,
    joined: AtomicU64,
}

/// What a stream tells the thread.
enum Command {
    Join {
        out: mpsc::UnboundedSender<Told>,
        room: Arc<Semaphore>,
    },
    Say(Message, Instant),
    /// It says no more; [`Told::Finished`] comes when all is read.
    Finish,
    Leave,
}

/// What the thread tells a stream.
#[derive(Debug, PartialEq)]
pub enum Told {
    /// A frame for the client.
    Frame(String),
    /// All that was said has been read.
    Finished,
    /// The client's own count is another: it would take answers for those to other elements.
    Misplaced(String),
    /// A fault of ours.
    Failed,
}

/// One live sequence after another. When it is dropped, it leaves.
pub struct LiveSeat {
    to: Sender<(u64, Command)>,
    id: u64,
    room: Arc<Semaphore>,
}

impl Stepper {
    pub fn start(
        model: &Arc<LiveModel>,
        wait: Duration,
        metrics: WorkMetrics,
    ) -> std::io::Result<Stepper> {
        let (to, commands) = channel();
        let model = model.clone();
        let name = format!("step {}", model.name());
        std::thread::Builder::new().name(name).spawn(move || {
            let steps = Steps::new(&model, wait, metrics);
            match steps {
                Ok(mut steps) => steps.serve(&commands),
                Err(e) => tracing::error!(model = model.name(), "cannot stream: {e}"),
            }
        })?;
        Ok(Stepper { to, joined: AtomicU64::new(0) })
    }

    /// A new stream, of which at most `in_flight` elements wait to be read.
    pub fn join(&self, in_flight: usize) -> (LiveSeat, mpsc::UnboundedReceiver<Told>) {
        let id = self.joined.fetch_add(1, Ordering::Relaxed);
        let (out, frames) = mpsc::unbounded_channel();
        // A message takes room of its own: a flush alone does too.
        let room = Arc::new(Semaphore::new(in_flight + 1));
        // Should the thread have ended, `out` is dropped and the stream sees that.
        let _ = self.to.send((id, Command::Join { out, room: room.clone() }));
        (LiveSeat { to: self.to.clone(), id, room }, frames)
    }
}

impl LiveSeat {
    /// Waits until there is room for a message of so many elements.
    pub async fn room(&self, elements: usize) {
        let room = u32::try_from(elements + 1).unwrap_or(u32::MAX);
        if let Ok(room) = self.room.acquire_many(room).await {
            room.forget();
        }
    }

    /// After [`LiveSeat::room`].
    pub fn say(&self, message: Message) {
        let _ = self.to.send((self.id, Command::Say(message, Instant::now())));
    }

    /// There is no more to say.
    pub fn finish(&self) {
        let _ = self.to.send((self.id, Command::Finish));
    }
}

impl Drop for LiveSeat {
    fn drop(&mut self) {
        let _ = self.to.send((self.id, Command::Leave));
    }
}

struct Steps<'m> {
    model: &'m LiveModel,
    wait: Duration,
    metrics: WorkMetrics,
    batch: LiveBatch<'m>,
    streams: HashMap<u64, Stream>,
    by_live: HashMap<LiveId, u64>,
    /// Streams that have something to be read.
    ready: Vec<u64>,
}

struct Stream {
    live: LiveId,
    out: mpsc::UnboundedSender<Told>,
    room: Arc<Semaphore>,
    said: VecDeque<Said>,
    finished: bool,
    /// When what is being read arrived.
    since: Instant,
    /// Flushes before, and answers since.
    sequence: u64,
    answers: u64,
}

struct Said {
    elements: std::vec::IntoIter<Element>,
    begun: bool,
    message: Message,
    since: Instant,
}

/// What a stream does next.
enum Next {
    Element(Element),
    Flush,
    /// It has told its client something, and reads nothing this time.
    Nothing,
    Gone,
}

impl<'m> Steps<'m> {
    fn new(
        model: &'m LiveModel,
        wait: Duration,
        metrics: WorkMetrics,
    ) -> drnn_train::Result<Steps<'m>> {
        let batch = LiveBatch::new(model)?;
        let (streams, by_live, ready) = Default::default();
        Ok(Steps { model, wait, metrics, batch, streams, by_live, ready })
    }

    fn serve(&mut self, commands: &Receiver<(u64, Command)>) {
        loop {
            if self.ready.is_empty() {
                match commands.recv() {
                    Ok((id, command)) => self.take(id, command),
                    Err(_) => return,
                }
            }
            while let Ok((id, command)) = commands.try_recv() {
                self.take(id, command);
            }
            let arrived = self.ready.iter().filter_map(|id| self.streams[id].said.front());
            let until = arrived.map(|said| said.since).min().map(|first| first + self.wait);
            // Once all have something to read there is nobody to wait for.
            while let Some(left) =
                until.and_then(|until| until.checked_duration_since(Instant::now()))
                && self.ready.len() < self.streams.len()
            {
                match commands.recv_timeout(left) {
                    Ok((id, command)) => self.take(id, command),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
            self.turn();
        }
    }

    fn take(&mut self, id: u64, command: Command) {
        match command {
            Command::Join { out, room } => {
                let live = self.batch.join();
                self.by_live.insert(live, id);
                let (said, since) = (VecDeque::new(), Instant::now());
                let stream = Stream {
                    live,
                    out,
                    room,
                    said,
                    finished: false,
                    since,
                    sequence: 0,
                    answers: 0,
                };
                self.streams.insert(id, stream);
            }
            Command::Say(mut message, since) => {
                // One that was closed may still be talking.
                let Some(stream) = self.streams.get_mut(&id) else { return };
                self.metrics.waiting.inc_by(message.elements.len() as i64);
                if stream.said.is_empty() {
                    self.ready.push(id);
                }
                let elements = std::mem::take(&mut message.elements).into_iter();
                stream.said.push_back(Said { elements, begun: false, message, since });
            }
            Command::Finish => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.finished = true;
                    if stream.said.is_empty() {
                        stream.tell(Told::Finished);
                    }
                }
            }
            Command::Leave => self.leave(id, None),
        }
    }

    /// Reads the next of every stream that has something.
    fn turn(&mut self) {
        let (mut elements, mut flushed, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        let turn = std::mem::take(&mut self.ready);
        for &id in &turn {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            let position = self.batch.position(stream.live).unwrap_or_default();
            match stream.next(position, &self.metrics) {
                Next::Element(element) => elements.push((stream.live, element)),
                Next::Flush => flushed.push(stream.live),
                Next::Nothing => {}
                Next::Gone => gone.push(id),
            }
        }
        gone.into_iter().for_each(|id| self.leave(id, None));
        if !elements.is_empty() {
            self.metrics.batch.observe(elements.len() as f64);
            self.step(elements);
        }
        if !flushed.is_empty() {
            self.flush(&flushed);
        }
        for id in turn {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            stream.settle();
            if !stream.said.is_empty() {
                self.ready.push(id);
            } else if stream.finished {
                stream.tell(Told::Finished);
            }
        }
    }

    fn step(&mut self, mut elements: Vec<(LiveId, Element)>) {
        let ids: Vec<LiveId> = elements.iter().map(|(id, _)| *id).collect();
        let stepped = self.attempt(&ids, |batch, answer| batch.step(&elements, answer));
        if stepped == Some(false) {
            // One or more are refused, and none has moved: the good ones once more, and the bad ones are told why.
            elements.retain(|(live, element)| match self.batch.check(*live, element) {
                Ok(()) => true,
                Err(why) => {
                    let position = self.batch.position(*live).unwrap_or_default();
                    if let Some(stream) =
                        self.by_live.get(live).and_then(|id| self.streams.get_mut(id))
                    {
                        stream.refuse(position, why.to_string(), &self.metrics);
                    }
                    false
                }
            });
            let ids: Vec<LiveId> = elements.iter().map(|(id, _)| *id).collect();
            if self.attempt(&ids, |batch, answer| batch.step(&elements, answer)) == Some(false) {
                self.fail(&ids);
            }
        }
        self.metrics.elements.inc_by(elements.len() as u64);
    }

    fn flush(&mut self, ids: &[LiveId]) {
        if self.attempt(ids, |batch, answer| batch.flush(ids, answer)) == Some(false) {
            self.fail(ids);
        }
        for id in ids {
            if let Some(stream) = self.by_live.get(id).and_then(|id| self.streams.get_mut(id)) {
                let (sequence, answers) = (stream.sequence, stream.answers);
                let frame = json!({"flushed": {"sequence": sequence, "answers": answers}});
                stream.tell(Told::Frame(frame.to_string()));
                (stream.sequence, stream.answers) = (sequence + 1, 0);
            }
        }
    }

    /// Does something with these streams and hands on the answers: whether it was done; None after a panic, with
    /// which they are gone.
    fn attempt(
        &mut self,
        ids: &[LiveId],
        act: impl FnOnce(
            &mut LiveBatch<'m>,
            &mut dyn FnMut(LiveId, Answer<'m>),
        ) -> drnn_train::Result<()>,
    ) -> Option<bool> {
        let Steps { batch, streams, by_live, metrics, .. } = self;
        let mut answer = |live: LiveId, answer: Answer<'m>| {
            if let Some(stream) = by_live.get(&live).and_then(|id| streams.get_mut(id)) {
                stream.answer(&answer);
                metrics.answered_after(stream.since.elapsed());
            }
        };
        match catch_unwind(AssertUnwindSafe(|| act(batch, &mut answer))) {
            Ok(outcome) => Some(outcome.is_ok()),
            Err(_) => {
                self.fail(ids);
                None
            }
        }
    }

    /// Closes these; the others move on in new memory.
    fn fail(&mut self, ids: &[LiveId]) {
        tracing::error!(model = self.model.name(), streams = ids.len(), "a step failed");
        let Ok(empty) = LiveBatch::new(self.model) else { return };
        let others = std::mem::replace(&mut self.batch, empty).without(ids);
        let lost: Vec<u64> = match others {
            Ok(others) => {
                self.batch = others;
                ids.iter().filter_map(|live| self.by_live.get(live).copied()).collect()
            }
            Err(_) => self.streams.keys().copied().collect(),
        };
        lost.into_iter().for_each(|id| self.leave(id, Some(Told::Failed)));
    }

    fn leave(&mut self, id: u64, last: Option<Told>) {
        let Some(stream) = self.streams.remove(&id) else { return };
        last.into_iter().for_each(|last| stream.tell(last));
        self.by_live.remove(&stream.live);
        self.ready.retain(|ready| *ready != id);
        let waiting: usize = stream.said.iter().map(|said| said.elements.len()).sum();
        self.metrics.waiting.dec_by(waiting as i64);
        let _ = self.batch.leave(stream.live); // after a failure it is not there
    }
}

impl Stream {
    fn tell(&self, out: Told) {
        let _ = self.out.send(out); // it may have gone just now
    }

    fn answer(&mut self, answer: &Answer) {
        self.answers += 1;
        let json = answer.json();
        let frame =
            format!("{{\"sequence\":{},{}", self.sequence, json.strip_prefix('{').unwrap_or(&json));
        self.tell(Told::Frame(frame));
    }

    /// What it does next, at this position of its sequence.
    fn next(&mut self, position: u64, metrics: &WorkMetrics) -> Next {
        let Some(said) = self.said.front_mut() else { return Next::Nothing };
        self.since = said.since;
        if !std::mem::replace(&mut said.begun, true)
            && let Some(expected) = said.message.position
            && expected != position
        {
            self.tell(Told::Misplaced(format!(
                "the message is for position {expected}, but position {position} is next"
            )));
            return Next::Gone;
        }
        if let Some(element) = said.elements.next() {
            self.room.add_permits(1);
            metrics.waiting.dec();
            return Next::Element(element);
        }
        if let Some(why) = said.message.refused.take() {
            self.refuse(position, format!("element {position}: {why}"), metrics);
            return Next::Nothing;
        }
        let flush = said.message.flush;
        self.end_message();
        if flush { Next::Flush } else { Next::Nothing }
    }

    /// The client is told that an element was not read, and the rest of its message is not either.
    fn refuse(&mut self, position: u64, why: String, metrics: &WorkMetrics) {
        let (code, sequence) = ("element_refused", self.sequence);
        let error =
            json!({"code": code, "message": why, "sequence": sequence, "position": position});
        self.tell(Told::Frame(json!({ "error": error }).to_string()));
        if let Some(said) = self.said.front() {
            let rest = said.elements.len();
            self.room.add_permits(rest);
            metrics.waiting.dec_by(rest as i64);
        }
        self.end_message();
    }

    /// Forgets a message of which everything was read.
    fn settle(&mut self) {
        let read = |said: &Said| {
            let Message { refused, flush, .. } = &said.message;
            said.begun && said.elements.len() == 0 && refused.is_none() && !flush
        };
        if self.said.front().is_some_and(read) {
            self.end_message();
        }
    }

    fn end_message(&mut self) {
        self.said.pop_front();
        self.room.add_permits(1);
    }
}
