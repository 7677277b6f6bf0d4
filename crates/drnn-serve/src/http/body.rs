//! A request body that is read to its end.
//!
//! A handler that refuses a request may leave its body unread. Closing a connection with unread bytes
//! resets it, and a client that is still sending never sees the response. So the rest of a body is
//! read and discarded, until the time for sending a request is over.

use axum::body::{Bytes, HttpBody};
use axum::http::{Request, header};
use http_body_util::BodyExt;
use hyper::body::{Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

/// A body whose unread rest is discarded when it is dropped.
pub struct DrainedBody {
    /// None once it is dropped.
    body: Option<Incoming>,
    /// Whether the client waits for `100 Continue`, which has not been sent.
    expects_continue: bool,
    deadline: Instant,
    stopping: watch::Receiver<bool>,
}

impl DrainedBody {
    /// Wraps the body of a request that must arrive within `read_timeout`.
    pub fn wrap(
        request: Request<Incoming>,
        read_timeout: Duration,
        stopping: watch::Receiver<bool>,
    ) -> Request<DrainedBody> {
        let expects_continue = request.headers().contains_key(header::EXPECT);
        let deadline = Instant::now() + read_timeout;
        request.map(|body| DrainedBody { body: Some(body), expects_continue, deadline, stopping })
    }
}

impl HttpBody for DrainedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.expects_continue = false;
        self.body.as_mut().map_or(Poll::Ready(None), |body| Pin::new(body).poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(HttpBody::size_hint).unwrap_or_default()
    }
}

impl Drop for DrainedBody {
    fn drop(&mut self) {
        let Some(mut body) = self.body.take() else { return };
        if body.is_end_stream() || self.expects_continue {
            return;
        }
        let (deadline, mut stopping) = (self.deadline, self.stopping.clone());
        tokio::spawn(async move {
            tokio::select! {
                _ = timeout_at(deadline, async { while let Some(Ok(_)) = body.frame().await {} }) => {}
                () = crate::http::server::stop_requested(&mut stopping) => {}
            }
        });
    }
}
