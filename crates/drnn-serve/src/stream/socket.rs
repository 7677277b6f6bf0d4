//! `GET /v1/stream`: a connection with a live sequence, one after another.
//!
//! ```text
//! server   {"ready": {..}}            {"sequence":0,"position":0,..} ..             {"flushed": {..}}
//! client                   {"elements": [..]} ..              .. {"flush": true}
//! ```
//!
//! | what goes wrong | the client is told | the stream |
//! |---|---|---|
//! | an element that the model does not read | `{"error": ..}` with the position that is next | goes on; the rest of the message is not read |
//! | anything else | `{"error": ..}` | is closed with a code; what was said before is answered first |
//!
//! What a client has in flight is bounded: beyond that we do not read from it, and one who does not read from us, be it
//! answers or pongs, is closed.

use crate::http::api_error::Refusal;
use crate::http::client::Client;
use crate::http::connections::{FAREWELL, Held};
use crate::http::guard::protocols;
use crate::http::routes::Shared;
use crate::http::server::{Peer, asked};
use crate::limits::budget::Lease;
use crate::limits::cost::{self, FREE_RECEIVED};
use crate::limits::streams::Seat;
use crate::models::Served;
use crate::stream::frames::{FrameReceiver, StreamEvent};
use crate::stream::message::{self, Message};
use crate::stream::stepper::{LiveSeat, Stepper};
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

/// The protocol that a client may name, beside the one with its token.
const PROTOCOL: &str = "drnn.v1";
/// Bytes that are read at once; each stream has as many.
pub const READ_BUFFER: usize = 8 << 10;
/// Bytes of frames that are sent at once.
pub const WRITE_BUFFER: usize = 16 << 10;
/// Bytes that a frame has besides an answer: the word that it repeats, an error, pongs.
pub const FRAME_EXTRA: usize = 16 << 10;
/// Frames that are sent at once.
const TOGETHER: usize = 64;
/// Bytes of a message that takes long enough to read for others to have their turn then.
const LARGE: usize = 2 << 10;

/// Reasons that a client is told.
#[cfg(test)]
pub const ENDINGS: [&str; 10] = [
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
pub struct Ending {
    /// For machines: in the error, in the close frame, in the metrics.
    reason: &'static str,
    /// None where nobody is there to be told.
    code: Option<u16>,
    message: String,
}

impl Ending {
    fn new(reason: &'static str, code: u16, message: impl Into<String>) -> Ending {
        #[cfg(test)]
        assert!(ENDINGS.contains(&reason), "{reason}");
        Ending { reason, code: Some(code), message: message.into() }
    }

    fn gone(reason: &'static str) -> Ending {
        Ending { reason, code: None, message: String::new() }
    }

    fn of(refusal: &Refusal) -> Ending {
        let code = if refusal.code() == "too_large" { 1009 } else { 1007 };
        Ending::new(refusal.code(), code, refusal.message())
    }

    fn internal() -> Ending {
        Ending::new("internal", 1011, "the server failed on this stream")
    }
}

/// Opens a stream, or says why not.
pub async fn open(
    State(shared): State<Shared>,
    Extension(Peer(connection)): Extension<Peer>,
    uri: Uri,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Refusal> {
    let mut upgrade = upgrade.map_err(|e| Refusal::malformed(format!("a WebSocket it is: {e}")))?;
    // Names of models need no percent signs.
    let mut query = uri.query().unwrap_or_default().split('&');
    let served = shared.models.get(query.find_map(|pair| pair.strip_prefix("model=")))?;
    if served.stepper.is_none() {
        return Err(Refusal::cannot_stream(
            "the model is bidirectional: it answers nothing before the end has come; POST /v1/run takes whole sequences",
        ));
    }
    if *shared.stopping.borrow() {
        return Err(Refusal::stopping("the server ends"));
    }
    let seat = shared.seats.take(connection.client(), &shared.options.limits)?;
    // A browser expects one of those that it named.
    let named: Vec<&str> = protocols(&headers).collect();
    let chosen = named.iter().find(|name| **name == PROTOCOL).or(named.first());
    if let Some(chosen) = chosen.and_then(|name| HeaderValue::from_str(name).ok()) {
        upgrade.set_selected_protocol(chosen);
    }
    let most = shared.options.limits.message;
    let largest = served.longest_answer.max(served.facts.len()) + FRAME_EXTRA;
    let upgrade = upgrade
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER)
        .max_write_buffer_size(WRITE_BUFFER + largest)
        .max_message_size(most)
        .max_frame_size(most);
    let (client, held) = (connection.client(), connection.hold());
    Ok(upgrade.on_upgrade(move |socket| serve(socket, shared, served, client, (seat, held))))
}

async fn serve(
    mut socket: WebSocket,
    shared: Shared,
    served: Arc<Served>,
    client: Client,
    _until_the_end: (Seat, Held),
) {
    let Some(stepper) = &served.stepper else { return };
    let (name, begun) = (served.model.name(), Instant::now());
    let mut counted = Counted { shared: &shared, name, reason: "internal" };
    shared.metrics.stream_begins(name);
    tracing::info!(model = name, "stream begins");
    let ending = Talk::new(&shared, &served, client, stepper, &mut socket).all().await;
    counted.reason = ending.reason;
    let seconds = begun.elapsed().as_secs_f64();
    tracing::info!(model = name, reason = ending.reason, seconds, "stream ends");
    farewell(&mut socket, &ending).await;
}

/// Counts the end, also where it is a panic.
struct Counted<'a> {
    shared: &'a Shared,
    name: &'a str,
    reason: &'static str,
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.shared.metrics.stream_ends(self.name, self.reason);
    }
}

struct Talk<'a> {
    shared: &'a Shared,
    served: &'a Served,
    socket: &'a mut WebSocket,
    client: Client,
    live: LiveSeat,
    out: FrameReceiver,
    /// What came from the client and is not handed over yet.
    pending: Option<Pending>,
    /// Why nothing more is read; what was said before is answered first.
    closing: Option<Ending>,
}

/// A message that waits.
enum Pending {
    /// For the bytes that it takes to be read.
    Text(Utf8Bytes),
    /// For those before it.
    Message(Message, Lease),
}

impl<'a> Talk<'a> {
    fn new(
        shared: &'a Shared,
        served: &'a Served,
        client: Client,
        stepper: &Stepper,
        socket: &'a mut WebSocket,
    ) -> Talk<'a> {
        let (live, out) = stepper.join(shared.options.limits.in_flight);
        Talk { shared, served, socket, client, live, out, pending: None, closing: None }
    }

    async fn all(mut self) -> Ending {
        let ready = format!("{{\"ready\":{}}}", self.served.facts);
        match self.send(ready).await {
            Ok(()) => self.until_the_end().await.err().unwrap_or_else(Ending::internal),
            Err(ending) => ending,
        }
    }

    async fn until_the_end(&mut self) -> Result<(), Ending> {
        let limits = &self.shared.options.limits;
        let (begun, mut heard) = (Instant::now(), Instant::now());
        let mut stopping = self.shared.stopping.clone();
        let mut finishing = false;
        loop {
            if self.closing.is_some() && self.pending.is_none() && !finishing {
                finishing = true;
                self.live.finish();
            }
            let (open, waits) = (self.closing.is_none(), self.pending.is_some());
            let (idle, longest) = (heard + limits.idle, begun + limits.longest);
            tokio::select! {
                out = self.out.recv() => self.tell(out).await?,
                next = next(&self.pending, &self.live, self.shared, self.client), if waits => {
                    self.hand_over(next).await;
                }
                frame = self.socket.recv(), if open && !waits => {
                    heard = Instant::now();
                    match self.hear(frame) {
                        Err(ending) if ending.code.is_some() => self.closing = Some(ending),
                        Err(gone) => return Err(gone),
                        // The answer to a ping is sent before more is read.
                        Ok(()) => self.flush().await?,
                    }
                }
                () = sleep_until(idle.min(longest).into()) => return Err(match longest <= idle {
                    true => Ending::new("too_long", 1008, "the stream has lived as long as it may"),
                    false => Ending::new("idle", 1008, "the stream has been idle for too long"),
                }),
                () = asked(&mut stopping), if open => {
                    let why = "the server ends; what was read is answered";
                    self.closing = Some(Ending::new("stopping", 1012, why));
                }
            }
        }
    }

    /// Something came from the client.
    fn hear(&mut self, frame: Option<Result<Frame, axum::Error>>) -> Result<(), Ending> {
        match frame {
            Some(Ok(Frame::Text(text))) => {
                self.pending = Some(Pending::Text(text));
                Ok(())
            }
            Some(Ok(Frame::Binary(_))) => {
                Err(Ending::new("binary", 1003, "messages are text, as JSON"))
            }
            Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => Ok(()),
            Some(Ok(Frame::Close(_))) | None => Err(Ending::gone("client_closed")),
            Some(Err(e)) => Err(match e.into_inner().downcast_ref() {
                Some(WsError::Capacity(_)) => {
                    let most = self.shared.options.limits.message;
                    Ending::new("too_large", 1009, format!("a message has more than {most} bytes"))
                }
                Some(WsError::Utf8(_)) => Ending::new("malformed", 1007, "a message is not UTF-8"),
                Some(WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => {
                    Ending::gone("client_gone")
                }
                Some(WsError::Protocol(_)) => {
                    Ending::new("protocol", 1002, "frames are not as WebSocket has them")
                }
                error => lost(error),
            }),
        }
    }

    /// The message that waits can be read, or handed over.
    async fn hand_over(&mut self, next: Next) {
        match (self.pending.take(), next) {
            (Some(Pending::Text(text)), Next::Read(Some(lease))) => {
                let most = self.shared.options.limits.in_flight;
                match message::parse(&self.served.model, &text, most) {
                    Ok(message) => self.pending = Some(Pending::Message(message, lease)),
                    Err(refusal) => self.closing = Some(Ending::of(&refusal)),
                }
                if text.len() > LARGE {
                    tokio::task::yield_now().await;
                }
            }
            (Some(Pending::Text(text)), Next::Read(None)) => {
                let why =
                    format!("a message of {} bytes, more than one client can have", text.len());
                self.closing = Some(Ending::new("too_large", 1009, why));
            }
            (Some(Pending::Message(message, lease)), _) => self.live.say(message, lease),
            _ => {}
        }
    }

    /// Something comes from the stepper: what else is there goes out with it.
    async fn tell(&mut self, first: Option<StreamEvent>) -> Result<(), Ending> {
        let mut next = Some(first.ok_or_else(Ending::internal)?);
        let mut fed = 0;
        let ending = loop {
            match next {
                Some(StreamEvent::Frame(frame)) => self.feed(frame).await?,
                Some(StreamEvent::Finished) => {
                    break Err(self.closing.take().unwrap_or_else(Ending::internal));
                }
                Some(StreamEvent::Misplaced(why)) => {
                    break Err(Ending::new("out_of_order", 1008, why));
                }
                Some(StreamEvent::Failed) => break Err(Ending::internal()),
                None => break Ok(()),
            }
            fed += 1;
            next = if fed < TOGETHER { self.out.try_recv() } else { None };
        };
        if self.out.has_resumed() {
            self.live.resume();
        }
        self.flush().await.and(ending)
    }

    async fn send(&mut self, frame: String) -> Result<(), Ending> {
        self.feed(frame).await?;
        self.flush().await
    }

    async fn feed(&mut self, frame: String) -> Result<(), Ending> {
        let patience = self.shared.options.limits.patience;
        sent(timeout(patience, self.socket.feed(Frame::text(frame))).await)
    }

    async fn flush(&mut self) -> Result<(), Ending> {
        sent(timeout(self.shared.options.limits.patience, self.socket.flush()).await)
    }
}

/// What a message waited for.
enum Next {
    Read(Option<Lease>),
    Say,
}

/// Waits for what the message needs next. Where it is dropped, nothing has happened.
async fn next(pending: &Option<Pending>, live: &LiveSeat, shared: &Shared, client: Client) -> Next {
    match pending {
        Some(Pending::Text(text)) => {
            let bytes = cost::message(text.len(), shared.options.limits.in_flight);
            // The first that waits is free up to a size, so that a stream always goes on.
            let free = if live.is_idle() { FREE_RECEIVED } else { 0 };
            Next::Read(shared.received.lease(client, bytes.saturating_sub(free)).await)
        }
        Some(Pending::Message(message, _)) => {
            live.room(message.elements.len()).await;
            Next::Say
        }
        None => std::future::pending().await,
    }
}

/// A connection that is no more: why.
fn lost(error: Option<&WsError>) -> Ending {
    match error {
        // Closed for not taking what it is sent, by us or by the system.
        Some(WsError::Io(e)) if e.kind() == ErrorKind::TimedOut => Ending::gone("too_slow"),
        _ => Ending::gone("client_gone"),
    }
}

fn sent<T>(sent: Result<Result<(), axum::Error>, T>) -> Result<(), Ending> {
    match sent {
        Ok(Ok(())) => Ok(()),
        Ok(Err(e)) => Err(lost(e.into_inner().downcast_ref())),
        Err(_) => Err(Ending::new("too_slow", 1008, "the client does not read its answers")),
    }
}

/// Tells the client why, and waits a moment for it to have read that.
async fn farewell(socket: &mut WebSocket, ending: &Ending) {
    let Some(code) = ending.code else { return };
    let Ending { reason, message, .. } = ending;
    let error = json!({"error": {"code": reason, "message": message}}).to_string();
    let last = async {
        socket.feed(Frame::text(error)).await?;
        socket.send(Frame::Close(Some(CloseFrame { code, reason: (*reason).into() }))).await?;
        while let Some(frame) = socket.recv().await {
            if frame.is_err() {
                // What is still coming cannot be read; a connection that ends with it unread would take the
                // message along.
                sleep(FAREWELL).await;
            }
        }
        Ok::<(), axum::Error>(())
    };
    let _ = timeout(FAREWELL, last).await;
}
