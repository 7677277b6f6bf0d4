//! The connections' side of a model's stepping thread: join, send messages, finish, leave. The thread
//! itself is in `steps`.

use crate::limits::budget::Lease;
use crate::metrics::WorkMetrics;
use crate::stream::frames::{FrameReceiver, FrameSender, queue};
use crate::stream::message::Message;
use crate::stream::steps::Steps;
use drnn_tasks::live::LiveModel;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Starts and addresses a model's stepping thread, which ends when this and all its streams are
/// dropped.
pub struct Stepper {
    to: Sender<(u64, Command)>,
    joined: AtomicU64,
}

/// What a stream sends to the thread.
pub enum Command {
    Join {
        out: FrameSender,
        permits: Arc<Semaphore>,
    },
    /// A message, when it arrived, and the bytes that it occupies until it is processed.
    Message(Message, Instant, Lease),
    /// Its frame queue is no longer full.
    Resume,
    /// No more messages follow; [`StreamEvent::Finished`](crate::stream::frames::StreamEvent) is sent
    /// when all are processed.
    Finish,
    Leave,
}

/// A stream: live sequences, one after another. It leaves the thread when it is dropped.
pub struct StreamHandle {
    to: Sender<(u64, Command)>,
    id: u64,
    permits: Arc<Semaphore>,
    /// Permits available while nothing is pending.
    max_permits: usize,
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
            // Panics in a step are handled there. After any other, all streams end and new ones can join.
            while let Ok(mut steps) = Steps::new(&model, wait, metrics.clone()) {
                match catch_unwind(AssertUnwindSafe(|| steps.serve(&commands))) {
                    Ok(()) => return,
                    Err(_) => tracing::error!(
                        model = model.name(),
                        "the stepping thread failed; all its streams are closed"
                    ),
                }
            }
        })?;
        Ok(Stepper { to, joined: AtomicU64::new(0) })
    }

    /// A stepper whose commands the test processes itself.
    #[cfg(test)]
    pub fn without_thread() -> (Stepper, std::sync::mpsc::Receiver<(u64, Command)>) {
        let (to, commands) = channel();
        (Stepper { to, joined: AtomicU64::new(0) }, commands)
    }

    /// Adds a stream with at most `in_flight` pending elements.
    pub fn join(&self, in_flight: usize) -> (StreamHandle, FrameReceiver) {
        let id = self.joined.fetch_add(1, Ordering::Relaxed);
        let (out, frames) = queue();
        // A message takes a permit of its own, so that flushes without elements are bounded too.
        let max_permits = in_flight + 1;
        let permits = Arc::new(Semaphore::new(max_permits));
        // If the thread has ended, `out` is dropped and the receiver sees a closed queue.
        let _ = self.to.send((id, Command::Join { out, permits: permits.clone() }));
        (StreamHandle { to: self.to.clone(), id, permits, max_permits }, frames)
    }
}

impl StreamHandle {
    /// Waits for the permits of a message with this many elements.
    pub async fn acquire(&self, elements: usize) {
        let count = u32::try_from(elements + 1).unwrap_or(u32::MAX);
        if let Ok(permits) = self.permits.acquire_many(count).await {
            permits.forget(); // the thread returns them
        }
    }

    /// Whether no message is pending.
    pub fn is_idle(&self) -> bool {
        self.permits.available_permits() == self.max_permits
    }

    /// Sends a message, after [`StreamHandle::acquire`]. The lease ends when it is processed.
    pub fn send(&self, message: Message, lease: Lease) {
        let _ = self.to.send((self.id, Command::Message(message, Instant::now(), lease)));
    }

    /// The frame queue is no longer full ([`FrameReceiver::has_resumed`]).
    pub fn resume(&self) {
        let _ = self.to.send((self.id, Command::Resume));
    }

    /// No more messages follow.
    pub fn finish(&self) {
        let _ = self.to.send((self.id, Command::Finish));
    }
}

impl Drop for StreamHandle {
    fn drop(&mut self) {
        let _ = self.to.send((self.id, Command::Leave));
    }
}
