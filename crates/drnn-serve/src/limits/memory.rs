//! The worst-case memory that clients can make a server allocate, from its limits.
//!
//! ```text
//! received + responses + connections * C + streams * S + threads * body * P
//! ```
//!
//! | | bytes per |
//! |---|---|
//! | C | connection: the head of a request, buffered response data, bytes that need no lease, the task |
//! | S | stream: an incomplete message, queued frames, the network's states, d predictions of a flush |
//! | P | byte of a body: its parsed form, while one of the server's threads parses it |
//!
//! The models and the workspaces of their threads are not included: they do not depend on clients.

use crate::http::server::MAX_HEAD;
use crate::limits::cost::{FREE_RECEIVED, FREE_RESPONSE};
use crate::limits::options::Limits;
use crate::stream::frames::MAX_QUEUED;
use crate::stream::socket::{FRAME_EXTRA, READ_BUFFER, WRITE_BUFFER};

/// Bytes of a connection's task, slot and timers.
const TASK: usize = 16 << 10;
/// Bytes per byte of a body while it is parsed: a JSON number becomes a value of 32 bytes, in a
/// vector that grows.
const PARSED: usize = 48;

/// What a live stream of a model holds.
#[derive(Debug, Clone, Copy, Default)]
pub struct StreamSize {
    /// Maximum bytes of a prediction as JSON.
    pub prediction: usize,
    /// Predictions that a flush makes at once, d.
    pub delay: usize,
    /// Bytes of the network's states.
    pub state: usize,
}

impl Limits {
    /// Upper bound on the bytes that clients can make a server allocate. `threads` is the number of
    /// threads that parse requests, `stream` the largest stream of its models.
    pub fn worst_case(&self, threads: usize, stream: StreamSize) -> usize {
        let connection = 2 * MAX_HEAD + FREE_RECEIVED + FREE_RESPONSE + TASK;
        let frame = stream.prediction + FRAME_EXTRA;
        let frames = WRITE_BUFFER + MAX_QUEUED + frame + stream.delay * stream.prediction;
        let per_stream = READ_BUFFER + 2 * self.message + frames + stream.state;
        [
            self.received,
            self.responses,
            self.connections.saturating_mul(connection),
            self.streams.saturating_mul(per_stream),
            threads.saturating_mul(self.body).saturating_mul(PARSED),
        ]
        .into_iter()
        .fold(0, usize::saturating_add)
    }
}
