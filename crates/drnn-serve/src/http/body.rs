//! The body of a request.
//!
//! Whoever refuses a request may not have read its body. A connection that is closed with bytes unread
//! is reset, and the client, which is still sending, never sees the answer. So what is left of a body is
//! read and thrown away, until the client has had as long as it may take to send one.

use axum::body::{Bytes, HttpBody};
use axum::http::{Request, header};
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// A body of which nothing is left unread.
pub struct Received {
    /// None once it is dropped.
    body: Option<Incoming>,
    /// Whether the client sends it only after it was told to go on, and has not been.
    held_back: bool,
    until: Instant,
    stopping: watch::Receiver<bool>,
}

impl Received {
    /// The request with this kind of body.
    pub fn of(
        request: Request<Incoming>,
        patience: Duration,
        stopping: watch::Receiver<bool>,
    ) -> Request<Received> {
        let held_back = request.headers().contains_key(header::EXPECT);
        let until = Instant::now() + patience;
        request.map(|body| Received { body: Some(body), held_back, until, stopping })
    }
}

impl HttpBody for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.held_back = false;
        self.body.as_mut().map_or(Poll::Ready(None), |body| Pin::new(body).poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(HttpBody::size_hint).unwrap_or_default()
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        let Some(mut body) = self.body.take() else { return };
        if body.is_end_stream() || self.held_back {
            return;
        }
        let (until, mut stopping) = (self.until, self.stopping.clone());
        tokio::spawn(async move {
            tokio::select! {
                _ = timeout_at(until, async { while let Some(Ok(_)) = body.frame().await {} }) => {}
                () = crate::http::server::asked(&mut stopping) => {}
            }
        });
    }
}
