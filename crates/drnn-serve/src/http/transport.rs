//! The bytes of a connection, in and out.
//!
//! The server does not read from a client while writes to it block, so responses to requests,
//! messages and pings cannot accumulate. For how long writes have blocked is recorded for
//! `connections`; data in the kernel's send buffer falls under the TCP user timeout.

use crate::http::connections::{Connection, ConnectionSlot};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A TCP connection with its slot among all connections.
#[derive(Debug)]
pub struct Transport {
    stream: TcpStream,
    slot: ConnectionSlot,
    /// Whether the last write blocked.
    blocked: bool,
}

impl Transport {
    pub fn new(stream: TcpStream, slot: ConnectionSlot) -> Transport {
        Transport { stream, slot, blocked: false }
    }

    pub fn connection(&self) -> &Arc<Connection> {
        &self.slot.connection
    }

    /// Disables Nagle's algorithm. On Linux, sets the TCP user timeout, so that the kernel closes the
    /// connection if sent data stay unacknowledged for `write_timeout`; other systems have their own.
    pub fn set_options(&self, write_timeout: Duration) -> io::Result<()> {
        self.stream.set_nodelay(true)?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        socket2::SockRef::from(&self.stream).set_tcp_user_timeout(Some(write_timeout))?;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        let _ = write_timeout;
        Ok(())
    }

    fn set_blocked(&mut self, blocked: bool) {
        self.blocked = blocked;
        self.connection().set_blocked(blocked);
    }

    /// Records the result of a write.
    fn record(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(_) => {
                self.set_blocked(false);
                self.connection().record_activity();
            }
            Poll::Pending => self.set_blocked(true),
        }
        written
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
            self.connection().record_activity();
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
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.record(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context,
        bytes: &[io::IoSlice],
    ) -> Poll<io::Result<usize>> {
        self.connection().check_open(cx.waker())?;
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.record(written)
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
