//! The most memory that clients can make a server hold, by its limits.
//!
//! ```text
//! received + answers + connections * C + streams * S + threads * body * P
//! ```
//!
//! | | what one holds |
//! |---|---|
//! | C | the head of a request, what is buffered of a response, what needs no lease, the connection itself |
//! | S | a message that has not arrived whole, frames that wait to be sent, what waits for its answer in the network's delay |
//! | P | what a body becomes while it is read, on a thread of the server |
//!
//! The models themselves, and what their threads compute in, are not in it: they do not depend on clients.

use crate::http::server::MAX_HEAD;
use crate::limits::cost::{FREE_ANSWERS, FREE_RECEIVED};
use crate::limits::options::Limits;
use crate::stream::frames::MAX_QUEUED;
use crate::stream::socket::{FRAME_EXTRA, READ_BUFFER, WRITE_BUFFER};

/// What the connection itself takes: its task, its place, its timers.
const TASK: usize = 16 << 10;
/// Bytes that one of a body becomes while it is read: a number of JSON is a value of 32 bytes, in a vector that grows.
const PARSED: usize = 48;

/// Of a model, what a live stream of it holds.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamSize {
    /// Bytes of its longest answer.
    pub answer: usize,
    /// Answers that a flush makes at once, d.
    pub delay: usize,
    /// Bytes of the network's states.
    pub state: usize,
}

impl Limits {
    /// The most bytes that clients can make a server hold, where `threads` read requests and the largest of its models'
    /// streams is `stream`.
    pub fn worst_case(&self, threads: usize, stream: StreamSize) -> usize {
        let connection = 2 * MAX_HEAD + FREE_RECEIVED + FREE_ANSWERS + TASK;
        let frame = stream.answer + FRAME_EXTRA;
        let frames = WRITE_BUFFER + MAX_QUEUED + frame + stream.delay * stream.answer;
        let per_stream = READ_BUFFER + 2 * self.message + frames + stream.state;
        [
            self.received,
            self.answers,
            self.connections.saturating_mul(connection),
            self.streams.saturating_mul(per_stream),
            threads.saturating_mul(self.body).saturating_mul(PARSED),
        ]
        .into_iter()
        .fold(0, usize::saturating_add)
    }
}
