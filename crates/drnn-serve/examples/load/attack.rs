//! Attackers together with good clients: are the good ones still served, how much memory does it cost,
//! and how soon are the attackers disconnected?

use crate::client::{open, say};
use crate::http::post;
use crate::memory::Memory;
use crate::quantile;
use clap::{Args, ValueEnum};
use futures_util::StreamExt;
use serde_json::json;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;

/// Options of an attack.
#[derive(Debug, Clone, Args)]
pub struct Attack {
    /// What attackers do
    #[arg(long, value_enum)]
    kind: AttackKind,
    /// How many of them
    #[arg(long, default_value_t = 200)]
    attackers: usize,
    /// Good clients: half of them streams, the others requests on a connection each
    #[arg(long, default_value_t = 20)]
    good: usize,
    /// The server's address
    #[arg(long, default_value = "127.0.0.1:8080")]
    address: SocketAddr,
    /// The attackers' address; by default that of the good clients
    #[arg(long, default_value = "127.0.0.1")]
    from: std::net::IpAddr,
    /// The character model that attackers use
    #[arg(long, default_value = "chars-en")]
    model: String,
    /// The character model that good clients use; by default the same
    #[arg(long)]
    good_model: Option<String>,
    /// The server's process, to watch its memory
    #[arg(long)]
    pid: Option<u32>,
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AttackKind {
    /// None: good clients only
    Nothing,
    /// Streams that ping and do not read
    Pings,
    /// Streams that send elements and do not read
    Frames,
    /// Streams that send elements as fast as predictions arrive
    Chatter,
    /// Streams that send elements of 40 kB, which are refused
    Refused,
    /// Requests whose responses are not read
    Answers,
    /// Pipelined requests for /openapi.json whose responses are not read
    Pipeline,
    /// Connections that send nothing
    Silent,
    /// Requests whose head never ends
    Heads,
    /// Requests whose body never ends
    Bodies,
}

/// What happened to the attackers.
#[derive(Default)]
struct Fared {
    connected: AtomicUsize,
    closed: AtomicUsize,
    /// Maximum time from an attacker's last successful write until it was disconnected, in milliseconds.
    longest: AtomicUsize,
}

pub async fn run(attack: Attack) -> bool {
    let until = Instant::now() + Duration::from_secs_f64(attack.seconds);
    let memory = Memory::watch(attack.pid);
    let fared = Arc::new(Fared::default());
    if attack.kind != AttackKind::Nothing {
        for _ in 0..attack.attackers {
            let (attack, fared) = (attack.clone(), fared.clone());
            tokio::spawn(async move {
                while Instant::now() < until {
                    let _ = attacker(&attack, &fared, until).await;
                    sleep(Duration::from_secs(1)).await;
                }
            });
        }
    }
    let good = (0..attack.good).map(|i| {
        let attack = attack.clone();
        tokio::spawn(async move { good(&attack, i, until).await })
    });
    let (mut times, mut failed) = (Vec::new(), 0);
    for client in good.collect::<Vec<_>>() {
        match client.await.map_err(io::Error::other).and_then(|found| found) {
            Ok(own) => times.extend(own),
            Err(e) => {
                failed += 1;
                eprintln!("a good client: {e}");
            }
        }
    }
    times.sort_by(f64::total_cmp);
    let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    println!(
        "{:?}: {} attackers, {} connections, {} closed by the server, {:.1} s at most after they could last send",
        attack.kind,
        attack.attackers,
        count(&fared.connected),
        count(&fared.closed),
        count(&fared.longest) as f64 / 1e3,
    );
    println!(
        "  {} good clients, {failed} failed: {} answers, p50 {:.1} ms, p99 {:.1} ms, most {:.1} ms",
        attack.good,
        times.len(),
        quantile(&times, 0.5),
        quantile(&times, 0.99),
        quantile(&times, 1.0),
    );
    println!("  memory of the server: {}", memory.report());
    failed == 0
}

/// Sends a few characters now and then, and measures the time until all predictions have arrived.
async fn good(attack: &Attack, number: usize, until: Instant) -> io::Result<Vec<f64>> {
    let (address, pause) = (attack.address.to_string(), Duration::from_millis(100));
    let model = attack.good_model.as_ref().unwrap_or(&attack.model);
    let mut times = Vec::new();
    if number.is_multiple_of(2) {
        let body = json!({"model": model, "texts": ["th_ old man liv_s in paris"]}).to_string();
        while Instant::now() < until {
            let begun = Instant::now();
            let (status, _) = patient(post(&address, "/v1/run", body.as_bytes())).await??;
            if status != 200 {
                return Err(io::Error::other(format!("status {status}")));
            }
            times.push(begun.elapsed().as_secs_f64());
            sleep(pause).await;
        }
        return Ok(times);
    }
    let query = format!("?model={model}");
    let (mut socket, _) = patient(open(&address, &query)).await?.map_err(io::Error::other)?;
    while Instant::now() < until {
        let begun = Instant::now();
        let message = json!({"text": "th_", "flush": true});
        say(&mut socket, &message).await.map_err(io::Error::other)?;
        loop {
            match patient(socket.next()).await? {
                Some(Ok(Message::Text(frame))) if frame.contains("flushed") => break,
                Some(Ok(_)) => {}
                other => return Err(io::Error::other(format!("{other:?}"))),
            }
        }
        times.push(begun.elapsed().as_secs_f64());
        sleep(pause).await;
    }
    Ok(times)
}

async fn patient<T>(future: impl Future<Output = T>) -> io::Result<T> {
    timeout(Duration::from_secs(5), future).await.map_err(|_| io::ErrorKind::TimedOut.into())
}

/// One connection of an attacker, until the server closes it.
async fn attacker(attack: &Attack, fared: &Fared, until: Instant) -> io::Result<()> {
    let mut stream = connect(attack).await?;
    fared.connected.fetch_add(1, Ordering::Relaxed);
    let mut sent = Instant::now();
    let attacked = async {
        let (first, again) = said(attack);
        stream.write_all(&first).await?;
        if attack.kind == AttackKind::Chatter {
            let (mut from, mut to) = stream.split();
            let read = async { tokio::io::copy(&mut from, &mut tokio::io::sink()).await.map(drop) };
            let write = async {
                loop {
                    to.write_all(&again).await?;
                }
            };
            return tokio::select! { ended = read => ended, ended = write => ended };
        }
        while !again.is_empty() {
            // Sends until the server blocks, and until it closes the connection.
            let taken = stream.write(&again).await?;
            if taken < again.len() {
                stream.write_all(&again[taken..]).await?;
            }
            sent = Instant::now();
        }
        closed(&mut stream).await
    };
    tokio::select! {
        _ = attacked => {
            let waited = sent.elapsed().as_millis() as usize;
            fared.closed.fetch_add(1, Ordering::Relaxed);
            fared.longest.fetch_max(waited, Ordering::Relaxed);
        }
        () = sleep_until(until.into()) => {}
    }
    Ok(())
}

/// Waits until the server has closed the connection, without reading: if data has been received, a
/// failing write shows it.
async fn closed(stream: &mut TcpStream) -> io::Result<()> {
    loop {
        sleep(Duration::from_millis(100)).await;
        match timeout(Duration::from_millis(1), stream.peek(&mut [0])).await {
            Ok(Ok(0)) => return Ok(()),
            Ok(Ok(_)) => match stream.try_write(b"\r\n") {
                Err(e) if e.kind() != io::ErrorKind::WouldBlock => return Err(e),
                _ => {}
            },
            Ok(Err(e)) => return Err(e),
            Err(_) => {}
        }
    }
}

async fn connect(attack: &Attack) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((attack.from, 0).into())?;
    // The smallest receive buffer.
    socket.set_recv_buffer_size(4096)?;
    let mut stream = socket.connect(attack.address).await?;
    let streams = [AttackKind::Pings, AttackKind::Frames, AttackKind::Chatter, AttackKind::Refused];
    if streams.contains(&attack.kind) {
        let head = format!(
            "GET /v1/stream?model={} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            attack.model, attack.address
        );
        stream.write_all(head.as_bytes()).await?;
        let _ = stream.read(&mut [0; 256]).await?;
    }
    Ok(stream)
}

/// What an attacker sends first, and then repeatedly.
fn said(attack: &Attack) -> (Vec<u8>, Vec<u8>) {
    let Attack { kind, model, address, .. } = attack;
    let head = |length: usize| {
        format!(
            "POST /v1/run HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    let message = |message: serde_json::Value| frame(0x81, message.to_string().as_bytes());
    match kind {
        AttackKind::Nothing | AttackKind::Silent => (vec![], vec![]),
        AttackKind::Pings => (vec![], frame(0x89, &[b'x'; 125]).repeat(100)),
        AttackKind::Frames => (vec![], message(json!({"text": "_".repeat(1000), "flush": true}))),
        AttackKind::Chatter => (vec![], message(json!({"text": "_", "flush": true}))),
        AttackKind::Refused => (vec![], message(json!({"element": "x".repeat(40_000)}))),
        AttackKind::Answers => {
            let body = json!({"model": model, "texts": ["_".repeat(20_000)]}).to_string();
            ([head(body.len()).as_bytes(), body.as_bytes()].concat(), vec![])
        }
        AttackKind::Pipeline => {
            let get = format!("GET /openapi.json HTTP/1.1\r\nHost: {address}\r\n\r\n");
            (vec![], get.repeat(100).into_bytes())
        }
        AttackKind::Heads => {
            let head = format!("GET / HTTP/1.1\r\nHost: {address}\r\nX: {}", "x".repeat(15_000));
            (head.into_bytes(), vec![])
        }
        AttackKind::Bodies => {
            let length = 1 << 20;
            ([head(length).into_bytes(), vec![b' '; length - 1]].concat(), vec![])
        }
    }
}

/// A frame as clients send them, with a mask of zeros.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = match payload.len() {
        short @ ..126 => vec![0x80 | short as u8],
        long => [&[0x80 | 126][..], &(long as u16).to_be_bytes()].concat(),
    };
    [&[kind][..], &length, &[0; 4], payload].concat()
}
