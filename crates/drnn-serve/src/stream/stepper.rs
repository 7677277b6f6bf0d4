//! A model's live sequences, for those who have one: join, say, finish, leave. The thread that reads what they say is
//! `steps`.

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

/// A model's live sequences. When it and all its streams are dropped, its thread ends.
pub struct Stepper {
    to: Sender<(u64, Command)>,
    joined: AtomicU64,
}

/// What a stream tells the thread.
pub enum Command {
    Join {
        out: FrameSender,
        room: Arc<Semaphore>,
    },
    /// A message that came just now, with the bytes that it takes until it is read.
    Say(Message, Instant, Lease),
    /// Its frames are taken again.
    Resume,
    /// It says no more; [`StreamEvent::Finished`](crate::stream::frames::StreamEvent) comes when all is read.
    Finish,
    Leave,
}

/// One live sequence after another. When it is dropped, it leaves.
pub struct LiveSeat {
    to: Sender<(u64, Command)>,
    id: u64,
    room: Arc<Semaphore>,
    /// Of an empty stream.
    all_room: usize,
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
    pub fn join(&self, in_flight: usize) -> (LiveSeat, FrameReceiver) {
        let id = self.joined.fetch_add(1, Ordering::Relaxed);
        let (out, frames) = queue();
        // A message takes room of its own: a flush alone does too.
        let all_room = in_flight + 1;
        let room = Arc::new(Semaphore::new(all_room));
        // Should the thread have ended, `out` is dropped and the stream sees that.
        let _ = self.to.send((id, Command::Join { out, room: room.clone() }));
        (LiveSeat { to: self.to.clone(), id, room, all_room }, frames)
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

    /// Whether nothing waits to be read.
    pub fn is_idle(&self) -> bool {
        self.room.available_permits() == self.all_room
    }

    /// After [`LiveSeat::room`]. The lease ends when the message is read.
    pub fn say(&self, message: Message, lease: Lease) {
        let _ = self.to.send((self.id, Command::Say(message, Instant::now(), lease)));
    }

    /// Its frames are taken again ([`FrameReceiver::has_resumed`]).
    pub fn resume(&self) {
        let _ = self.to.send((self.id, Command::Resume));
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
