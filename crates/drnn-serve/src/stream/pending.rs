//! What a stream has said and is still to be read, in order.

use crate::limits::budget::Lease;
use crate::metrics::WorkMetrics;
use crate::stream::frames::{FrameSender, StreamEvent};
use crate::stream::message::Message;
use drnn_tasks::live::{Answer, Element, LiveId};
use serde_json::json;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Semaphore;

/// A stream as the thread that reads it has it.
pub struct Stream {
    pub live: LiveId,
    out: FrameSender,
    room: Arc<Semaphore>,
    said: VecDeque<Said>,
    finished: bool,
    /// Whether it is left alone until its frames are taken.
    pub paused: bool,
    /// When what is being read arrived.
    pub since: Instant,
    /// Flushes before, and answers since.
    sequence: u64,
    answers: u64,
}

struct Said {
    elements: std::vec::IntoIter<Element>,
    begun: bool,
    message: Message,
    since: Instant,
    /// The bytes that it takes.
    _lease: Lease,
}

/// What a stream does next.
pub enum Next {
    Element(Element),
    Flush,
    /// It has told its client something, and reads nothing this time.
    Nothing,
    Gone,
}

impl Stream {
    pub fn new(live: LiveId, out: FrameSender, room: Arc<Semaphore>) -> Stream {
        let (said, since) = (VecDeque::new(), Instant::now());
        let (finished, paused, sequence, answers) = (false, false, 0, 0);
        Stream { live, out, room, said, finished, paused, since, sequence, answers }
    }

    pub fn say(&mut self, mut message: Message, since: Instant, lease: Lease) {
        let elements = std::mem::take(&mut message.elements).into_iter();
        self.said.push_back(Said { elements, begun: false, message, since, _lease: lease });
    }

    /// Pauses it if its frames are not taken. Whether it is paused.
    pub fn pause_if_full(&mut self) -> bool {
        self.paused = self.out.is_full();
        self.paused
    }

    /// When the first message that is not read arrived.
    pub fn waiting_since(&self) -> Option<Instant> {
        self.said.front().map(|said| said.since)
    }

    /// Elements that are not read.
    pub fn waiting(&self) -> usize {
        self.said.iter().map(|said| said.elements.len()).sum()
    }

    /// It will say no more.
    pub fn finish(&mut self) {
        self.finished = true;
        self.settle();
    }

    pub fn tell(&self, event: StreamEvent) {
        self.out.send(event);
    }

    pub fn answer(&mut self, answer: &Answer) {
        self.answers += 1;
        let json = answer.json();
        let fields = json.strip_prefix('{').unwrap_or(&json);
        self.tell(StreamEvent::Frame(format!("{{\"sequence\":{},{fields}", self.sequence)));
    }

    /// The sequence has ended, and another begins.
    pub fn flushed(&mut self) {
        let (sequence, answers) = (self.sequence, self.answers);
        let frame = json!({"flushed": {"sequence": sequence, "answers": answers}});
        self.tell(StreamEvent::Frame(frame.to_string()));
        (self.sequence, self.answers) = (sequence + 1, 0);
    }

    /// What it does next, at this position of its sequence.
    pub fn next(&mut self, position: u64, metrics: &WorkMetrics) -> Next {
        let Some(said) = self.said.front_mut() else { return Next::Nothing };
        self.since = said.since;
        if !std::mem::replace(&mut said.begun, true)
            && let Some(expected) = said.message.position
            && expected != position
        {
            self.tell(StreamEvent::Misplaced(format!(
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
    pub fn refuse(&mut self, position: u64, why: String, metrics: &WorkMetrics) {
        let (code, sequence) = ("element_refused", self.sequence);
        let error =
            json!({"code": code, "message": why, "sequence": sequence, "position": position});
        self.tell(StreamEvent::Frame(json!({ "error": error }).to_string()));
        if let Some(said) = self.said.front() {
            let rest = said.elements.len();
            self.room.add_permits(rest);
            metrics.waiting.dec_by(rest as i64);
        }
        self.end_message();
    }

    /// After a turn: forgets a message of which everything was read. Whether there is more to read.
    pub fn settle(&mut self) -> bool {
        let read = |said: &Said| {
            let Message { refused, flush, .. } = &said.message;
            said.begun && said.elements.len() == 0 && refused.is_none() && !flush
        };
        if self.said.front().is_some_and(read) {
            self.end_message();
        }
        if self.finished && self.said.is_empty() {
            self.tell(StreamEvent::Finished);
        }
        !self.said.is_empty()
    }

    fn end_message(&mut self) {
        self.said.pop_front();
        self.room.add_permits(1);
    }
}
