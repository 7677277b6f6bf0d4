//! `GET /v1/stream`: the WebSocket of a stream, which carries live sequences one after another.
//!
//! ```text
//! server   {"ready": {..}}            {"sequence":0,"position":0,..} ..             {"flushed": {..}}
//! client                   {"elements": [..]} ..              .. {"flush": true}
//! ```
//!
//! | problem | the client receives | the stream |
//! |---|---|---|
//! | an element that the model does not accept | `{"error": ..}` with the next position | continues; the rest of the message is dropped |
//! | any other | `{"error": ..}` and a close frame | ends, after the predictions for earlier messages |
//!
//! The elements that a client has in flight are bounded: at the limit the server stops reading from
//! it. A client that does not read what it is sent, predictions or pongs, is disconnected.

use crate::http::api_error::ApiError;
use crate::http::client::Client;
use crate::http::connections::{CLOSE_GRACE, EvictionGuard};
use crate::http::guard::protocols;
use crate::http::routes::Shared;
use crate::http::server::{Peer, stop_requested};
use crate::limits::budget::Lease;
use crate::limits::cost::{self, FREE_RECEIVED};
use crate::limits::streams::StreamPermit;
use crate::models::Served;
use crate::stream::frames::{FrameReceiver, StreamEvent};
use crate::stream::message::{self, Message};
use crate::stream::stepper::{Stepper, StreamHandle};
use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message as Frame, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, HeaderValue, Uri};
use axum::response::Response;
use futures_util::SinkExt;
use serde_json::json;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Instant;
use tokio::time::{sleep, sleep_until, timeout};
use tungstenite::error::{Error as WsError, ProtocolError};

/// The subprotocol that a client may offer, in addition to the one with its token.
const PROTOCOL: &str = "drnn.v1";
/// Size of a stream's read buffer, in bytes.
pub const READ_BUFFER: usize = 8 << 10;
/// Size of a stream's write buffer, in bytes.
pub const WRITE_BUFFER: usize = 16 << 10;
/// Bytes that a frame may have in addition to a prediction: the word that it repeats, an error,
/// pongs.
pub const FRAME_EXTRA: usize = 16 << 10;
/// Frames that are written before a flush.
const MAX_FRAMES_PER_FLUSH: usize = 64;
/// After parsing a message of more bytes, the task yields to others.
const LARGE_MESSAGE: usize = 2 << 10;

/// The reasons in close frames.
#[cfg(test)]
pub const CLOSE_REASONS: [&str; 10] = [
    "binary",
    "idle",
    "internal",
    "malformed",
    "out_of_order",
    "protocol",
    "stopping",
    "too_large",
    "too_long",
    "too_slow",
];

/// Why a stream ends.
#[derive(Debug, Clone, PartialEq)]
pub struct CloseReason {
    /// For programs: in the error, the close frame and the metrics.
    reason: &'static str,
    /// The WebSocket close code; None if the client is gone.
    code: Option<u16>,
    message: String,
}

impl CloseReason {
    fn new(reason: &'static str, code: u16, message: impl Into<String>) -> CloseReason {
        #[cfg(test)]
        assert!(CLOSE_REASONS.contains(&reason), "{reason}");
        CloseReason { reason, code: Some(code), message: message.into() }
    }

    fn gone(reason: &'static str) -> CloseReason {
        CloseReason { reason, code: None, message: String::new() }
    }

    fn of(error: &ApiError) -> CloseReason {
        let code = if error.code() == "too_large" { 1009 } else { 1007 };
        CloseReason::new(error.code(), code, error.message())
    }

    fn internal() -> CloseReason {
        CloseReason::new("internal", 1011, "the server failed on this stream")
    }
}

/// Opens a stream.
pub async fn open(
    State(shared): State<Shared>,
    Extension(Peer(connection)): Extension<Peer>,
    uri: Uri,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, ApiError> {
    let mut upgrade =
        upgrade.map_err(|e| ApiError::malformed(format!("expected a WebSocket upgrade: {e}")))?;
    // Models' names need no percent-encoding.
    let mut query = uri.query().unwrap_or_default().split('&');
    let served = shared.models.get(query.find_map(|pair| pair.strip_prefix("model=")))?;
    if served.stepper.is_none() {
        return Err(ApiError::cannot_stream(
            "the model is bidirectional: it needs the end of a sequence; send whole sequences to POST /v1/run",
        ));
    }
    if *shared.stopping.borrow() {
        return Err(ApiError::stopping("the server is stopping"));
    }
    let permit = shared.streams.acquire(connection.client(), &shared.options.limits)?;
    // A browser expects one of the subprotocols that it offered.
    let offered: Vec<&str> = protocols(&headers).collect();
    let chosen = offered.iter().find(|name| **name == PROTOCOL).or(offered.first());
    if let Some(chosen) = chosen.and_then(|name| HeaderValue::from_str(name).ok()) {
        upgrade.set_selected_protocol(chosen);
    }
    let max_message = shared.options.limits.message;
    let max_frame = served.max_prediction.max(served.facts.len()) + FRAME_EXTRA;
    let upgrade = upgrade
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_write_buffer_size(WRITE_BUFFER + max_frame)
        .max_message_size(max_message)
        .max_frame_size(max_message);
    let (client, guard) = (connection.client(), connection.protect());
    Ok(upgrade.on_upgrade(move |socket| serve(socket, shared, served, client, (permit, guard))))
}

async fn serve(
    mut socket: WebSocket,
    shared: Shared,
    served: Arc<Served>,
    client: Client,
    _held: (StreamPermit, EvictionGuard),
) {
    let Some(stepper) = &served.stepper else { return };
    let (name, opened) = (served.model.name(), Instant::now());
    let mut closing = CountOnDrop { shared: &shared, name, reason: "internal" };
    shared.metrics.stream_opened(name);
    tracing::info!(model = name, "stream opened");
    let why = Conversation::new(&shared, &served, client, stepper, &mut socket).run().await;
    closing.reason = why.reason;
    let seconds = opened.elapsed().as_secs_f64();
    tracing::info!(model = name, reason = why.reason, seconds, "stream closed");
    close(&mut socket, &why).await;
}

/// Counts the end of a stream, also after a panic.
struct CountOnDrop<'a> {
    shared: &'a Shared,
    name: &'a str,
    reason: &'static str,
}

impl Drop for CountOnDrop<'_> {
    fn drop(&mut self) {
        self.shared.metrics.stream_closed(self.name, self.reason);
    }
}

struct Conversation<'a> {
    shared: &'a Shared,
    served: &'a Served,
    socket: &'a mut WebSocket,
    client: Client,
    stream: StreamHandle,
    out: FrameReceiver,
    /// A message that is not yet sent to the stepping thread.
    received: Option<Received>,
    /// Why the stream closes once all earlier messages are processed; nothing more is read.
    closing: Option<CloseReason>,
}

/// A message on its way to the stepping thread.
enum Received {
    /// Waits for the lease of the bytes that its parsed form takes.
    Text(Utf8Bytes),
    /// Waits for permits of the elements in flight.
    Message(Message, Lease),
}

impl<'a> Conversation<'a> {
    fn new(
        shared: &'a Shared,
        served: &'a Served,
        client: Client,
        stepper: &Stepper,
        socket: &'a mut WebSocket,
    ) -> Conversation<'a> {
        let (stream, out) = stepper.join(shared.options.limits.in_flight);
        Conversation { shared, served, socket, client, stream, out, received: None, closing: None }
    }

    async fn run(mut self) -> CloseReason {
        let ready = format!("{{\"ready\":{}}}", self.served.facts);
        match self.send(ready).await {
            Ok(()) => self.run_until_closed().await.err().unwrap_or_else(CloseReason::internal),
            Err(why) => why,
        }
    }

    async fn run_until_closed(&mut self) -> Result<(), CloseReason> {
        let limits = &self.shared.options.limits;
        let (opened, mut last_frame) = (Instant::now(), Instant::now());
        let mut stopping = self.shared.stopping.clone();
        let mut finishing = false;
        loop {
            if self.closing.is_some() && self.received.is_none() && !finishing {
                finishing = true;
                self.stream.finish();
            }
            let (open, waits) = (self.closing.is_none(), self.received.is_some());
            let encoded = self.served.model.encoded_bytes();
            let (idle, too_long) = (last_frame + limits.idle, opened + limits.max_lifetime);
            tokio::select! {
                event = self.out.recv() => self.send_events(event).await?,
                ready = ready(&self.received, &self.stream, self.shared, self.client, encoded), if waits => {
                    self.forward(ready).await;
                }
                frame = self.socket.recv(), if open && !waits => {
                    last_frame = Instant::now();
                    match self.receive(frame) {
                        Err(why) if why.code.is_some() => self.closing = Some(why),
                        Err(gone) => return Err(gone),
                        // Sends the pong to a ping before more is read.
                        Ok(()) => self.flush().await?,
                    }
                }
                () = sleep_until(idle.min(too_long).into()) => return Err(match too_long <= idle {
                    true => CloseReason::new("too_long", 1008, "the stream has reached its maximum lifetime"),
                    false => CloseReason::new("idle", 1008, "the stream has been idle for too long"),
                }),
                () = stop_requested(&mut stopping), if open => {
                    let why = "the server is stopping; everything received before was processed";
                    self.closing = Some(CloseReason::new("stopping", 1012, why));
                }
            }
        }
    }

    /// Takes a frame from the client.
    fn receive(&mut self, frame: Option<Result<Frame, axum::Error>>) -> Result<(), CloseReason> {
        match frame {
            Some(Ok(Frame::Text(text))) => {
                self.received = Some(Received::Text(text));
                Ok(())
            }
            Some(Ok(Frame::Binary(_))) => {
                Err(CloseReason::new("binary", 1003, "messages must be text frames with JSON"))
            }
            Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => Ok(()),
            Some(Ok(Frame::Close(_))) | None => Err(CloseReason::gone("client_closed")),
            Some(Err(e)) => Err(match e.into_inner().downcast_ref() {
                Some(WsError::Capacity(_)) => {
                    let max = self.shared.options.limits.message;
                    CloseReason::new(
                        "too_large",
                        1009,
                        format!("a message has more than {max} bytes"),
                    )
                }
                Some(WsError::Utf8(_)) => {
                    CloseReason::new("malformed", 1007, "a message is not UTF-8")
                }
                Some(WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => {
                    CloseReason::gone("client_gone")
                }
                Some(WsError::Protocol(_)) => {
                    CloseReason::new("protocol", 1002, "invalid WebSocket frames")
                }
                error => lost(error),
            }),
        }
    }

    /// Parses the received message, or sends it to the stepping thread.
    async fn forward(&mut self, ready: Ready) {
        match (self.received.take(), ready) {
            (Some(Received::Text(text)), Ready::Parse(Some(lease))) => {
                let max_elements = self.shared.options.limits.in_flight;
                match message::parse(&self.served.model, &text, max_elements) {
                    Ok(message) => self.received = Some(Received::Message(message, lease)),
                    Err(error) => self.closing = Some(CloseReason::of(&error)),
                }
                if text.len() > LARGE_MESSAGE {
                    tokio::task::yield_now().await;
                }
            }
            (Some(Received::Text(text)), Ready::Parse(None)) => {
                let why = format!(
                    "a message of {} bytes exceeds one client's share of --max-received",
                    text.len()
                );
                self.closing = Some(CloseReason::new("too_large", 1009, why));
            }
            (Some(Received::Message(message, lease)), _) => self.stream.send(message, lease),
            _ => {}
        }
    }

    /// Sends an event of the stepping thread, and others that are queued already.
    async fn send_events(&mut self, first: Option<StreamEvent>) -> Result<(), CloseReason> {
        let mut next = Some(first.ok_or_else(CloseReason::internal)?);
        let mut fed = 0;
        let outcome = loop {
            match next {
                Some(StreamEvent::Frame(frame)) => self.feed(frame).await?,
                Some(StreamEvent::Finished) => {
                    break Err(self.closing.take().unwrap_or_else(CloseReason::internal));
                }
                Some(StreamEvent::Misplaced(why)) => {
                    break Err(CloseReason::new("out_of_order", 1008, why));
                }
                Some(StreamEvent::Failed) => break Err(CloseReason::internal()),
                None => break Ok(()),
            }
            fed += 1;
            next = if fed < MAX_FRAMES_PER_FLUSH { self.out.try_recv() } else { None };
        };
        if self.out.has_resumed() {
            self.stream.resume();
        }
        self.flush().await.and(outcome)
    }

    async fn send(&mut self, frame: String) -> Result<(), CloseReason> {
        self.feed(frame).await?;
        self.flush().await
    }

    async fn feed(&mut self, frame: String) -> Result<(), CloseReason> {
        let write_timeout = self.shared.options.limits.io_timeout;
        written(timeout(write_timeout, self.socket.feed(Frame::text(frame))).await)
    }

    async fn flush(&mut self) -> Result<(), CloseReason> {
        written(timeout(self.shared.options.limits.io_timeout, self.socket.flush()).await)
    }
}

/// What a received message is ready for.
enum Ready {
    /// To be parsed; None if it exceeds the client's share of the budget.
    Parse(Option<Lease>),
    /// To be sent to the stepping thread.
    Send,
}

/// Waits for the lease or the permits that the message needs next. Cancel-safe.
async fn ready(
    received: &Option<Received>,
    stream: &StreamHandle,
    shared: &Shared,
    client: Client,
    encoded: usize,
) -> Ready {
    match received {
        Some(Received::Text(text)) => {
            let bytes = cost::message(text.len(), shared.options.limits.in_flight, encoded);
            // The first pending message is free up to a size, so that a stream always makes progress.
            let free = if stream.is_idle() { FREE_RECEIVED } else { 0 };
            Ready::Parse(shared.received.lease(client, bytes.saturating_sub(free)).await)
        }
        Some(Received::Message(message, _)) => {
            stream.acquire(message.elements.len()).await;
            Ready::Send
        }
        None => std::future::pending().await,
    }
}

/// Why a connection broke.
fn lost(error: Option<&WsError>) -> CloseReason {
    match error {
        // Closed because writes blocked, by the server or by the kernel.
        Some(WsError::Io(e)) if e.kind() == ErrorKind::TimedOut => CloseReason::gone("too_slow"),
        _ => CloseReason::gone("client_gone"),
    }
}

fn written<T>(written: Result<Result<(), axum::Error>, T>) -> Result<(), CloseReason> {
    match written {
        Ok(Ok(())) => Ok(()),
        Ok(Err(e)) => Err(lost(e.into_inner().downcast_ref())),
        Err(_) => {
            Err(CloseReason::new("too_slow", 1008, "the client does not read what it is sent"))
        }
    }
}

/// Sends the error and the close frame, and waits up to [`CLOSE_GRACE`] for the client to read them.
async fn close(socket: &mut WebSocket, why: &CloseReason) {
    let Some(code) = why.code else { return };
    let CloseReason { reason, message, .. } = why;
    let error = json!({"error": {"code": reason, "message": message}}).to_string();
    let last = async {
        socket.feed(Frame::text(error)).await?;
        socket.send(Frame::Close(Some(CloseFrame { code, reason: (*reason).into() }))).await?;
        while let Some(frame) = socket.recv().await {
            if frame.is_err() {
                // The rest of the input cannot be read. Closing with unread bytes would reset the
                // connection, and the client might lose the error.
                sleep(CLOSE_GRACE).await;
            }
        }
        Ok::<(), axum::Error>(())
    };
    let _ = timeout(CLOSE_GRACE, last).await;
}
