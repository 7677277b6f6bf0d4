//! A whole conversation with a server over TCP: complete, split and broken WebSocket frames, pings,
//! messages, reads in between, and an end. Whatever a client sends, the server replies with valid
//! frames of JSON, outputs in order, and closes the connection.
//!
//! ```text
//! model u8    then one step after another:
//! 0 n b*      these n bytes as they are
//! 1 n b*      a text frame of them
//! 2 k n b*    a frame of kind k (its first byte)
//! 3 k         the message MESSAGES[k]
//! 4 k i       its bytes in two frames, parted at i
//! 5 n         what was sent so far, then n bytes are read
//! 6           from here each byte is sent alone
//! ```
#![no_main]

#[allow(dead_code, reason = "other targets use more of it")]
mod models;

use drnn_serve::{Models, Options, Server};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(5);
/// How long something to read is waited for in between, when there may be nothing.
const SHORT: Duration = Duration::from_millis(1);
/// How many models there are.
const MODELS: usize = 7;
const MESSAGES: [&str; 12] = [
    r#"{"element": [0.5, 1]}"#,
    r#"{"elements": [1, 2, 3], "position": 0}"#,
    r#"{"text": "ab_ba", "flush": true}"#,
    r#"{"text": "the ants"}"#,
    r#"{"element": {"a": 1, "b": null}}"#,
    r#"{"element": null}"#,
    r#"{"element": 9}"#,
    r#"{"flush": true}"#,
    r#"{"elements": [1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3]}"#,
    r#"{"element": "a", "position": 7}"#,
    "{}",
    "\u{e9}",
];

/// One server for all: what one client says must not show to the next.
static SERVER: LazyLock<SocketAddr> = LazyLock::new(|| {
    // A panic of the server's is caught there, so it is made to end the fuzzer here.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        hook(panic);
        std::process::abort();
    }));
    let mut served = Models::new();
    for (number, model) in models::all().into_iter().enumerate() {
        served.add(model.named(&format!("m{number}")).on(&drnn::Cpu::new(1))).unwrap();
    }
    let mut options = Options::default();
    options.listen = ([127, 0, 0, 1], 0).into();
    (options.limits.message, options.limits.in_flight) = (200, 10);
    options.limits.received = 4096;
    options.wait = Duration::ZERO;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let server = runtime.block_on(Server::bind(options, served)).unwrap();
    let address = server.address().unwrap();
    std::thread::spawn(move || runtime.block_on(server.serve()));
    address
});

struct Client {
    stream: TcpStream,
    to_send: Vec<u8>,
    one_by_one: bool,
    received: Vec<u8>,
}

impl Client {
    fn open(model: usize) -> Client {
        let mut stream = TcpStream::connect(*SERVER).unwrap();
        stream.set_nodelay(true).unwrap();
        let head = format!(
            "GET /v1/stream?model=m{model} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        assert!(head.starts_with(b"HTTP/1.1 101"));
        stream.set_read_timeout(Some(SHORT)).unwrap();
        Client { stream, to_send: Vec::new(), one_by_one: false, received: Vec::new() }
    }

    fn frame(&mut self, kind: u8, payload: &[u8]) {
        let mask = [1, 2, 3, 4];
        self.to_send.extend([kind, 0x80 | payload.len().min(125) as u8]);
        self.to_send.extend(mask);
        self.to_send.extend(payload.iter().take(125).zip(mask.iter().cycle()).map(|(b, m)| b ^ m));
    }

    /// The server may have ended it.
    fn send(&mut self) {
        let bytes = std::mem::take(&mut self.to_send);
        let size = if self.one_by_one { 1 } else { bytes.len().max(1) };
        for piece in bytes.chunks(size) {
            if self.stream.write_all(piece).is_err() {
                return;
            }
        }
    }

    fn read(&mut self, max: usize) -> std::io::Result<usize> {
        let mut bytes = vec![0; max];
        let count = self.stream.read(&mut bytes)?;
        self.received.extend(&bytes[..count]);
        Ok(count)
    }

    /// Reads until the server has ended the connection.
    fn read_to_end(&mut self) {
        self.stream.set_read_timeout(Some(LONG)).unwrap();
        loop {
            match self.read(4096) {
                Ok(0) => return,
                Ok(_) => {}
                Err(e) if e.kind() == ErrorKind::ConnectionReset => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {} // by the fuzzer's alarm
                Err(e) => panic!("the server neither replies nor closes the connection: {e}"),
            }
        }
    }
}

/// Frames as servers send them; one that is cut off by the end of the connection does not count.
fn frames(mut bytes: &[u8]) -> Vec<(u8, &[u8])> {
    let mut frames = Vec::new();
    while let [kind, length, rest @ ..] = bytes {
        let (length, rest) = match (length, rest) {
            (126, [a, b, rest @ ..]) => (usize::from(u16::from_be_bytes([*a, *b])), rest),
            (127, _) => panic!("a frame of more than 65,535 bytes"),
            (126, _) => break,
            (length, rest) => (usize::from(*length), rest),
        };
        let Some((payload, rest)) = rest.split_at_checked(length) else { break };
        frames.push((*kind, payload));
        bytes = rest;
    }
    frames
}

fn check(received: &[u8]) {
    let (mut next, mut closed) = ((0, None::<u64>), false);
    for (kind, payload) in frames(received) {
        assert!(!closed, "a frame after the last");
        match kind {
            0x81 => {
                let frame: Value = serde_json::from_slice(payload).unwrap();
                if let Some(sequence) = frame["sequence"].as_u64() {
                    let position = frame["position"].as_u64().unwrap();
                    assert_eq!(sequence, next.0);
                    assert!(next.1.is_none_or(|last| position == last + 1), "{frame}");
                    next.1 = Some(position);
                } else if let Some(sequence) = frame["flushed"]["sequence"].as_u64() {
                    assert_eq!(sequence, next.0);
                    next = (sequence + 1, None);
                } else {
                    assert!(frame["ready"].is_object() || frame["error"].is_object(), "{frame}");
                }
            }
            0x88 => closed = true,
            0x8a => assert!(payload.len() <= 125),
            other => panic!("a frame of kind {other:#x}"),
        }
    }
}

fn steps(client: &mut Client, mut script: &[u8]) -> Option<()> {
    let take = |script: &mut &[u8]| -> Option<Vec<u8>> {
        let length = usize::from(*script.split_off_first()?);
        Some(script.split_off(..length)?.to_vec())
    };
    loop {
        match script.split_off_first()? % 7 {
            0 => client.to_send.extend(take(&mut script)?),
            1 => client.frame(0x81, &take(&mut script)?),
            2 => {
                let kind = *script.split_off_first()?;
                client.frame(kind, &take(&mut script)?);
            }
            3 => {
                let message = MESSAGES[usize::from(*script.split_off_first()?) % MESSAGES.len()];
                client.frame(0x81, message.as_bytes());
            }
            4 => {
                let message = MESSAGES[usize::from(*script.split_off_first()?) % MESSAGES.len()];
                let at = usize::from(*script.split_off_first()?).min(message.len());
                client.frame(0x01, &message.as_bytes()[..at]);
                client.frame(0x80, &message.as_bytes()[at..]);
            }
            5 => {
                client.send();
                let _ = client.read(usize::from(*script.split_off_first()?).clamp(1, 30));
            }
            _ => client.one_by_one = true,
        }
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&model, script)) = input.split_first() else { return };
    let mut client = Client::open(usize::from(model) % MODELS);
    steps(&mut client, script);
    client.send();
    let _ = client.stream.shutdown(Shutdown::Write);
    client.read_to_end();
    check(&client.received);
});
