//! Bytes of stdin as they arrive, read by a thread of its own.

use crate::Failure;
use crate::training::stop::Stop;
use std::io::{ErrorKind, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

/// Bytes per piece, and pieces in the queue; then the writer of our input has to wait.
const PIECE: usize = 4096;
const MAX_QUEUED: usize = 16;
/// How often Ctrl-C is checked while waiting.
const POLL: Duration = Duration::from_millis(100);

type Piece = Result<Vec<u8>, std::io::Error>;

/// Input that has arrived.
pub struct Arrival {
    receive: Receiver<Piece>,
    stop: Stop,
    /// The piece that was returned last.
    piece: Vec<u8>,
    waiting: Option<Piece>,
    ended: bool,
}

/// What is available now.
pub enum Arrived<'a> {
    Bytes(&'a [u8]),
    /// Nothing for now; [`Arrival::wait`] for more.
    Nothing,
    End,
    Failed(String),
}

impl Arrival {
    /// Reads standard input. The thread is not joined: it may wait for input forever.
    pub fn of_stdin(stop: Stop) -> Arrival {
        let (send, receive) = sync_channel(MAX_QUEUED);
        std::thread::spawn(move || read(std::io::stdin().lock(), &send));
        Arrival { receive, stop, piece: Vec::new(), waiting: None, ended: false }
    }

    /// Returns what is available, without waiting.
    pub fn next(&mut self) -> Arrived<'_> {
        let piece = match self.waiting.take().map_or_else(|| self.receive.try_recv(), Ok) {
            _ if self.stop.pressed() => return Arrived::Nothing,
            Ok(piece) => piece,
            Err(TryRecvError::Empty) => return Arrived::Nothing,
            Err(TryRecvError::Disconnected) => {
                self.ended = true;
                return Arrived::End;
            }
        };
        match piece {
            Ok(piece) => {
                self.piece = piece;
                Arrived::Bytes(&self.piece)
            }
            Err(e) => Arrived::Failed(format!("cannot be read: {e}")),
        }
    }

    /// Waits for input, the end of it, or Ctrl-C.
    pub fn wait(&mut self) -> Result<(), Failure> {
        loop {
            if self.stop.pressed() {
                return Err(Failure::Interrupted("stopped; all known outputs are written".into()));
            }
            match self.receive.recv_timeout(POLL) {
                Ok(piece) => self.waiting = Some(piece),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => {}
            }
            return Ok(());
        }
    }

    /// Whether the input has ended.
    pub fn ended(&self) -> bool {
        self.ended
    }
}

/// Sends all input, until it ends or the receiver is gone.
fn read(mut from: impl Read, send: &SyncSender<Piece>) {
    let mut buffer = vec![0; PIECE];
    loop {
        let piece = match from.read(&mut buffer) {
            Ok(0) => return,
            Ok(count) => Ok(buffer[..count].to_vec()),
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => Err(e),
        };
        let failed = piece.is_err();
        if send.send(piece).is_err() || failed {
            return;
        }
    }
}
