//! A model's live sequences, for those who have one: join, say, finish, leave. The thread that reads what they say is
//! `steps`.

use crate::message::Message;
use crate::metrics::WorkMetrics;
use crate::steps::Steps;
use drnn_train::live::LiveModel;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc};

/// A model's live sequences. When it and all its streams are dropped, its thread ends.
pub struct Stepper {
    to: Sender<(u64, Command)>,
    joined: AtomicU64,
}

/// What a stream tells the thread.
pub enum Command {
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
            // Faults in a step are dealt with there. After any other all streams end, and new ones can come.
            while let Ok(mut steps) = Steps::new(&model, wait, metrics.clone()) {
                match catch_unwind(AssertUnwindSafe(|| steps.serve(&commands))) {
                    Ok(()) => return,
                    Err(_) => tracing::error!(model = model.name(), "all streams are closed"),
                }
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
