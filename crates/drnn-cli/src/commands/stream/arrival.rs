//! Bytes as they arrive, read by a thread of their own.

use crate::Failure;
use crate::training::stop::Stop;
use std::io::{ErrorKind, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

/// Bytes of one piece, and pieces that may wait: the writer of what we read waits for us beyond that.
const PIECE: usize = 4096;
const MOST_WAITING: usize = 16;
/// How long Ctrl-C may go unnoticed.
const NOTICE: Duration = Duration::from_millis(100);

type Piece = Result<Vec<u8>, std::io::Error>;

/// What has arrived.
pub struct Arrival {
    receive: Receiver<Piece>,
    stop: Stop,
    /// The piece that was looked at last, or is to be next.
    piece: Vec<u8>,
    waiting: Option<Piece>,
    ended: bool,
}

/// What is there now.
pub enum Arrived<'a> {
    Bytes(&'a [u8]),
    /// Nothing at the moment; [`Arrival::wait`] for more.
    Nothing,
    End,
    Failed(String),
}

impl Arrival {
    /// Of standard input. The thread is not joined: it may wait for input for ever.
    pub fn of_stdin(stop: Stop) -> Arrival {
        let (send, receive) = sync_channel(MOST_WAITING);
        std::thread::spawn(move || read(std::io::stdin().lock(), &send));
        Arrival { receive, stop, piece: Vec::new(), waiting: None, ended: false }
    }

    /// What is there, without waiting.
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

    /// Waits until something is there, or the end, or Ctrl-C.
    pub fn wait(&mut self) -> Result<(), Failure> {
        loop {
            if self.stop.pressed() {
                return Err(Failure::Interrupted("stopped; what was known is written".into()));
            }
            match self.receive.recv_timeout(NOTICE) {
                Ok(piece) => self.waiting = Some(piece),
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => {}
            }
            return Ok(());
        }
    }

    /// Whether the end has come.
    pub fn ended(&self) -> bool {
        self.ended
    }
}

/// Sends what comes until there is no more, or nobody listens.
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
