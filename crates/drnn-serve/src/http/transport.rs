//! A connection's bytes, in and out.
//!
//! Nothing is read from a client that does not take what it is sent: so whatever is made of requests,
//! messages and pings can pile up nowhere. How long it takes nothing is noted, for `connections`; of what
//! the system has buffered, the system knows.

use crate::http::connections::{Connection, Place};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A TCP connection, and its place among all.
#[derive(Debug)]
pub struct Transport {
    stream: TcpStream,
    place: Place,
    /// Whether what was last sent was not taken.
    blocked: bool,
}

impl Transport {
    pub fn new(stream: TcpStream, place: Place) -> Transport {
        Transport { stream, place, blocked: false }
    }

    pub fn connection(&self) -> &Arc<Connection> {
        &self.place.connection
    }

    /// Small pieces are sent at once, and the system closes the connection where what it has buffered is
    /// not taken for as long as `patience`; elsewhere than on Linux it decides for itself how long.
    pub fn set_options(&self, patience: Duration) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        socket2::SockRef::from(&self.stream).set_tcp_user_timeout(Some(patience))?;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let _ = patience;
        Ok(())
    }

    fn set_blocked(&mut self, blocked: bool) {
        self.blocked = blocked;
        self.connection().set_blocked(blocked);
    }

    /// After an attempt to send.
    fn sent(&mut self, sent: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &sent {
            Poll::Ready(_) => {
                self.set_blocked(false);
                self.connection().moved();
            }
            Poll::Pending => self.set_blocked(true),
        }
        sent
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
        buffer: &mut ReadBuf,
    ) -> Poll<io::Result<()>> {
        self.connection().check_open(cx.waker())?;
        if self.blocked {
            ready!(self.stream.poll_write_ready(cx))?;
            self.set_blocked(false);
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.connection().moved();
        }
        read
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.connection().check_open(cx.waker())?;
        let sent = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.sent(sent)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
        bytes: &[io::IoSlice],
    ) -> Poll<io::Result<usize>> {
        self.connection().check_open(cx.waker())?;
        let sent = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.sent(sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
