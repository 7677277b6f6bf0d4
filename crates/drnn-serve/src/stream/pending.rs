//! A stream's messages that have arrived and are not yet processed, in order.

use crate::limits::budget::Lease;
use crate::metrics::WorkMetrics;
use crate::stream::frames::{FrameSender, StreamEvent};
use crate::stream::message::Message;
use drnn_tasks::live::{Element, LiveId, Prediction};
use serde_json::json;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Semaphore;

/// A stream as the stepping thread sees it.
pub struct StreamState {
    pub live: LiveId,
    out: FrameSender,
    /// Permits of elements and messages in flight, returned as they are processed.
    permits: Arc<Semaphore>,
    pending: VecDeque<PendingMessage>,
    /// Whether the client sends nothing more.
    finished: bool,
    /// Whether it is skipped until its connection has sent some of its frames.
    pub paused: bool,
    /// When the message that is being processed arrived.
    pub since: Instant,
    /// Index of the current sequence: the number of flushes so far.
    sequence: u64,
    /// Predictions sent for the current sequence.
    predictions: u64,
}

/// A message that is not yet processed to its end.
struct PendingMessage {
    elements: std::vec::IntoIter<Element>,
    begun: bool,
    message: Message,
    arrived: Instant,
    /// The bytes that it occupies.
    _lease: Lease,
}

/// What a stream does in its next turn.
pub enum Next {
    Element(Element),
    Flush,
    /// No element is due; an error frame may have been sent.
    Nothing,
    /// The stream is closed.
    Close,
}

impl StreamState {
    pub fn new(live: LiveId, out: FrameSender, permits: Arc<Semaphore>) -> StreamState {
        let (pending, since) = (VecDeque::new(), Instant::now());
        let (finished, paused, sequence, predictions) = (false, false, 0, 0);
        StreamState { live, out, permits, pending, finished, paused, since, sequence, predictions }
    }

    pub fn push(&mut self, mut message: Message, arrived: Instant, lease: Lease) {
        let elements = std::mem::take(&mut message.elements).into_iter();
        let begun = false;
        self.pending.push_back(PendingMessage { elements, begun, message, arrived, _lease: lease });
    }

    /// Pauses the stream if its frame queue is full. Returns whether it is paused.
    pub fn pause_if_full(&mut self) -> bool {
        self.paused = self.out.is_full();
        self.paused
    }

    /// When the first pending message arrived.
    pub fn waiting_since(&self) -> Option<Instant> {
        self.pending.front().map(|pending| pending.arrived)
    }

    /// Number of elements that are not yet read.
    pub fn waiting(&self) -> usize {
        self.pending.iter().map(|pending| pending.elements.len()).sum()
    }

    /// The client sends nothing more.
    pub fn finish(&mut self) {
        self.finished = true;
        self.settle();
    }

    pub fn send(&self, event: StreamEvent) {
        self.out.send(event);
    }

    pub fn send_prediction(&mut self, prediction: &Prediction) {
        self.predictions += 1;
        let json = prediction.json();
        let fields = json.strip_prefix('{').unwrap_or(&json);
        self.send(StreamEvent::Frame(format!("{{\"sequence\":{},{fields}", self.sequence)));
    }

    /// Confirms a flush; the next element starts a new sequence.
    pub fn flushed(&mut self) {
        let (sequence, answers) = (self.sequence, self.predictions);
        let frame = json!({"flushed": {"sequence": sequence, "answers": answers}});
        self.send(StreamEvent::Frame(frame.to_string()));
        (self.sequence, self.predictions) = (sequence + 1, 0);
    }

    /// The next thing to do, at this position of the sequence.
    pub fn next(&mut self, position: u64, metrics: &WorkMetrics) -> Next {
        let Some(pending) = self.pending.front_mut() else { return Next::Nothing };
        self.since = pending.arrived;
        if !std::mem::replace(&mut pending.begun, true)
            && let Some(expected) = pending.message.position
            && expected != position
        {
            self.send(StreamEvent::Misplaced(format!(
                "the message is for position {expected}, but position {position} is next"
            )));
            return Next::Close;
        }
        if let Some(element) = pending.elements.next() {
            self.permits.add_permits(1);
            metrics.waiting.dec();
            return Next::Element(element);
        }
        if let Some(why) = pending.message.refused.take() {
            self.refuse(position, format!("element {position}: {why}"), metrics);
            return Next::Nothing;
        }
        let flush = pending.message.flush;
        self.end_message();
        if flush { Next::Flush } else { Next::Nothing }
    }

    /// Sends an error for an element, and drops the rest of its message.
    pub fn refuse(&mut self, position: u64, why: String, metrics: &WorkMetrics) {
        let (code, sequence) = ("element_refused", self.sequence);
        let error =
            json!({"code": code, "message": why, "sequence": sequence, "position": position});
        self.send(StreamEvent::Frame(json!({ "error": error }).to_string()));
        if let Some(pending) = self.pending.front() {
            let rest = pending.elements.len();
            self.permits.add_permits(rest);
            metrics.waiting.dec_by(rest as i64);
        }
        self.end_message();
    }

    /// After a turn: drops a message that was processed to its end. Returns whether more is pending.
    pub fn settle(&mut self) -> bool {
        let is_done = |pending: &PendingMessage| {
            let Message { refused, flush, .. } = &pending.message;
            pending.begun && pending.elements.len() == 0 && refused.is_none() && !flush
        };
        if self.pending.front().is_some_and(is_done) {
            self.end_message();
        }
        if self.finished && self.pending.is_empty() {
            self.send(StreamEvent::Finished);
        }
        !self.pending.is_empty()
    }

    fn end_message(&mut self) {
        self.pending.pop_front();
        self.permits.add_permits(1);
    }
}
