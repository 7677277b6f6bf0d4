//! The memory that clients can make `drnn serve` hold stays within the bound that it logs at its
//! start, in the worst case too.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

const LIMITS: &str = "--max-connections 300 --max-streams 100 --max-streams-per-client 100 --max-body 200K \
    --max-elements 10000 --max-message 60K --max-in-flight 2000 --max-received 8M --max-answers 24M --patience 60s";

struct Server {
    child: Child,
    address: SocketAddr,
    /// The bound that it logs, in bytes.
    worst_case: usize,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start() -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_drnn"))
            .args("serve chars-en --listen 127.0.0.1:0 --threads 1".split(' '))
            .args(LIMITS.split_whitespace())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let listening = lines.next().unwrap();
        let address = listening.split("http://").nth(1).and_then(|a| a.split(' ').next()).unwrap();
        let says = lines.next().unwrap();
        let mb = says.split("at most ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        let (address, worst_case) =
            (address.parse().unwrap(), mb.parse::<usize>().unwrap() * 1_000_000);
        std::thread::spawn(move || lines.for_each(drop));
        Server { child, address, worst_case }
    }

    /// Bytes of memory that it holds.
    fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
    }

    /// A connection of one of several clients, which takes as little as possible of what it is sent.
    async fn connect(&self, client: usize) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, 2 + (client % 4) as u8], 0).into()).unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    async fn send(&self, client: usize, bytes: &[u8]) -> TcpStream {
        let mut stream = self.connect(client).await;
        // The server may stop reading before the end, because its buffers are full.
        let _ = timeout(Duration::from_secs(1), stream.write_all(bytes)).await;
        stream
    }

    /// Watches its memory until it is at least `expected` and has not grown for some seconds;
    /// returns the peak. A server that never gets there is given up after minutes.
    async fn watch(&self, expected: usize) -> usize {
        let (start, mut since, mut peak) = (Instant::now(), Instant::now(), 0);
        while (peak < expected && start.elapsed() < Duration::from_secs(300))
            || since.elapsed() < Duration::from_secs(3)
        {
            let now = self.memory();
            if now > peak {
                (peak, since) = (now, Instant::now());
            }
            sleep(Duration::from_millis(20)).await;
        }
        peak
    }

    async fn answer(&self, bytes: &[u8]) -> Vec<u8> {
        let mut answer = Vec::new();
        self.send(0, bytes).await.read_to_end(&mut answer).await.unwrap();
        answer
    }
}

fn post(body: &str) -> String {
    let length = body.len();
    format!(
        "POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// A frame as clients send them, with a mask of zeros.
fn frame(payload: &str) -> Vec<u8> {
    let length = (payload.len() as u16).to_be_bytes();
    [&[0x81, 0x80 | 126][..], &length, &[0; 4], payload.as_bytes()].concat()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_worst_that_clients_can_do_stays_within_the_bound() {
    let server = Server::start();
    // The largest request once: the model's workspace is allocated from then on.
    let masks = |count: usize| format!(r#"{{"texts": ["{}"]}}"#, "_".repeat(count));
    let close = "POST /v1/run HTTP/1.1\r\nConnection: close";
    let largest = post(&masks(10_000)).replacen("POST /v1/run HTTP/1.1", close, 1);
    assert!(server.answer(largest.as_bytes()).await.starts_with(b"HTTP/1.1 200"));
    let before = server.memory();

    let mut open = Vec::new();
    // Responses that nobody reads: those within the byte limit are computed, the others wait.
    let (large, small) = (post(&masks(10_000)), post(&masks(100)));
    for client in 0..50 {
        open.push(server.send(client, large.as_bytes()).await);
        open.push(server.send(client, small.as_bytes()).await);
    }
    let first = server.watch(0).await;
    // Heads and bodies that do not end; streams whose answers are not read, whose messages wait, and
    // whose last one does not end.
    let head = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}", "x".repeat(15_000));
    let body = post(&" ".repeat(200 << 10));
    for client in 0..45 {
        open.push(server.send(client, head.as_bytes()).await);
        open.push(server.send(client, &body.as_bytes()[..body.len() - 1]).await);
    }
    let upgrade = "GET /v1/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let message = frame(&format!(r#"{{"text": "{}"}}"#, "_".repeat(1900)));
    let endless = frame(&" ".repeat(60_000));
    for client in 0..100 {
        let bytes =
            [upgrade.as_bytes(), &message, &message, &endless[..endless.len() - 1]].concat();
        open.push(server.send(client, &bytes).await);
    }
    let peak = server.watch(before + server.worst_case / 4).await.max(first);
    let held = peak.saturating_sub(before);
    eprintln!("{held} bytes of {}, and {before} before", server.worst_case);
    assert!(held <= server.worst_case, "{held} bytes, the bound is {}", server.worst_case);
    assert!(held >= server.worst_case / 4, "{held} bytes only, the bound is {}", server.worst_case);
}
