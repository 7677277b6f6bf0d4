//! Frames on their way from the thread that makes them to the connection that sends them.
//!
//! The thread never waits. Instead it leaves streams alone whose frames are not taken
//! ([`FrameSender::is_full`]), until the connection has sent enough of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc;

/// Bytes of frames beyond which no more are made for a stream.
pub const MAX_QUEUED: usize = 32 << 10;

/// What the thread tells a stream.
#[derive(Debug, PartialEq)]
pub enum StreamEvent {
    /// A frame for the client.
    Frame(String),
    /// All that was said has been read.
    Finished,
    /// The client's own count is another: it would take answers for those to other elements.
    Misplaced(String),
    /// A fault of ours.
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

/// The thread's end.
#[derive(Debug)]
pub struct FrameSender {
    to: mpsc::UnboundedSender<StreamEvent>,
    queued: Arc<AtomicUsize>,
}

/// The connection's end.
#[derive(Debug)]
pub struct FrameReceiver {
    from: mpsc::UnboundedReceiver<StreamEvent>,
    queued: Arc<AtomicUsize>,
    resumed: bool,
}

/// Both ends.
pub fn queue() -> (FrameSender, FrameReceiver) {
    let (to, from) = mpsc::unbounded_channel();
    let queued = Arc::new(AtomicUsize::new(0));
    (FrameSender { to, queued: queued.clone() }, FrameReceiver { from, queued, resumed: false })
}

impl FrameSender {
    pub fn send(&self, event: StreamEvent) {
        self.queued.fetch_add(event.bytes(), Ordering::Relaxed);
        let _ = self.to.send(event); // the connection may have gone just now
    }

    /// Whether the stream should be left alone until [`FrameReceiver::has_resumed`].
    pub fn is_full(&self) -> bool {
        self.queued.load(Ordering::Relaxed) >= MAX_QUEUED
    }
}

impl FrameReceiver {
    pub async fn recv(&mut self) -> Option<StreamEvent> {
        let event = self.from.recv().await?;
        Some(self.took(event))
    }

    pub fn try_recv(&mut self) -> Option<StreamEvent> {
        let event = self.from.try_recv().ok()?;
        Some(self.took(event))
    }

    #[cfg(test)]
    pub fn blocking_recv(&mut self) -> Option<StreamEvent> {
        let event = self.from.blocking_recv()?;
        Some(self.took(event))
    }

    #[cfg(test)]
    pub fn queued(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    fn took(&mut self, event: StreamEvent) -> StreamEvent {
        let before = self.queued.fetch_sub(event.bytes(), Ordering::Relaxed);
        self.resumed |= before >= MAX_QUEUED && before - event.bytes() < MAX_QUEUED;
        event
    }

    /// Whether it was full and is no longer, since it was last asked: the thread must be told.
    pub fn has_resumed(&mut self) -> bool {
        std::mem::take(&mut self.resumed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_was_full_says_when_it_is_no_longer() {
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
