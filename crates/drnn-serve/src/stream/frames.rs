//! The queue of frames between the stepping thread, which makes them, and a connection, which sends
//! them.
//!
//! The thread never waits: it pauses a stream whose queue is full ([`FrameSender::is_full`]) until the
//! connection has sent enough of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;

/// Bytes of queued frames at which a stream is paused.
pub const MAX_QUEUED: usize = 32 << 10;

/// What the stepping thread sends to a connection.
#[derive(Debug, PartialEq)]
pub enum StreamEvent {
    /// A frame for the client.
    Frame(String),
    /// All messages of the client have been processed.
    Finished,
    /// The client's position disagrees with the server's: it would attribute predictions to the
    /// wrong elements.
    Misplaced(String),
    /// The step failed.
    Failed,
}

impl StreamEvent {
    fn bytes(&self) -> usize {
        match self {
            StreamEvent::Frame(text) => size_of::<StreamEvent>() + text.len(),
            _ => 0,
        }
    }
}

/// The stepping thread's end of the queue.
#[derive(Debug)]
pub struct FrameSender {
    to: mpsc::UnboundedSender<StreamEvent>,
    queued: Arc<AtomicUsize>,
}

/// The connection's end of the queue.
#[derive(Debug)]
pub struct FrameReceiver {
    from: mpsc::UnboundedReceiver<StreamEvent>,
    queued: Arc<AtomicUsize>,
    resumed: bool,
}

/// Makes an empty queue.
pub fn queue() -> (FrameSender, FrameReceiver) {
    let (to, from) = mpsc::unbounded_channel();
    let queued = Arc::new(AtomicUsize::new(0));
    (FrameSender { to, queued: queued.clone() }, FrameReceiver { from, queued, resumed: false })
}

impl FrameSender {
    pub fn send(&self, event: StreamEvent) {
        self.queued.fetch_add(event.bytes(), Ordering::Relaxed);
        let _ = self.to.send(event); // the connection may have ended
    }

    /// Whether the stream must be paused until [`FrameReceiver::has_resumed`].
    pub fn is_full(&self) -> bool {
        self.queued.load(Ordering::Relaxed) >= MAX_QUEUED
    }
}

impl FrameReceiver {
    pub async fn recv(&mut self) -> Option<StreamEvent> {
        let event = self.from.recv().await?;
        Some(self.account(event))
    }

    pub fn try_recv(&mut self) -> Option<StreamEvent> {
        let event = self.from.try_recv().ok()?;
        Some(self.account(event))
    }

    #[cfg(test)]
    pub fn blocking_recv(&mut self) -> Option<StreamEvent> {
        let event = self.from.blocking_recv()?;
        Some(self.account(event))
    }

    #[cfg(test)]
    pub fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    fn account(&mut self, event: StreamEvent) -> StreamEvent {
        let before = self.queued.fetch_sub(event.bytes(), Ordering::Relaxed);
        self.resumed |= before >= MAX_QUEUED && before - event.bytes() < MAX_QUEUED;
        event
    }

    /// Whether the queue stopped being full since the last call: the thread must be notified.
    pub fn has_resumed(&mut self) -> bool {
        std::mem::take(&mut self.resumed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_reports_when_it_is_no_longer_full() {
        let (to, mut from) = queue();
        let long = || StreamEvent::Frame("x".repeat(MAX_QUEUED / 2));
        to.send(long());
        assert!(!to.is_full());
        to.send(long());
        to.send(StreamEvent::Finished);
        assert!(to.is_full() && !from.has_resumed());
        from.try_recv().unwrap();
        assert!(!to.is_full() && from.has_resumed() && !from.has_resumed());
        from.try_recv().unwrap();
        assert_eq!(from.try_recv(), Some(StreamEvent::Finished));
        assert!(from.try_recv().is_none() && !from.has_resumed());
        assert_eq!(from.queued(), 0);
    }
}
