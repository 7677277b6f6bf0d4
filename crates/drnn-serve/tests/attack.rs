//! Clients that mean harm: they are closed, hold nothing that others need, and others do not notice.

mod common;

use common::{Served, model, serve, within};
use drnn_serve::Options;
use serde_json::json;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

const PATIENCE: Duration = Duration::from_millis(500);

fn options() -> Options {
    let mut options = Options::default();
    options.limits.patience = PATIENCE;
    options
}

/// A connection that takes as little as possible of what it is sent.
async fn connect(served: &Served) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(served.address).await.unwrap()
}

/// A stream that never reads.
async fn deaf_stream(served: &Served) -> TcpStream {
    let mut stream = connect(served).await;
    let head = "GET /v1/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.readable().await.unwrap();
    stream
}

/// Sends this until the server has closed the connection, and tells how long no more could be sent.
async fn flood(mut stream: TcpStream, bytes: Vec<u8>) -> Duration {
    let mut sent = Instant::now();
    within(async {
        while stream.write_all(&bytes).await.is_ok() {
            sent = Instant::now();
        }
    })
    .await;
    sent.elapsed()
}

/// A frame as clients send them, with a mask of zeros.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u16;
    [&[kind, 0x80 | 126][..], &length.to_be_bytes(), &[0; 4], payload].concat()
}

fn ping() -> Vec<u8> {
    [&[0x89, 0x80 | 125, 0, 0, 0, 0][..], &[b'x'; 125]].concat()
}

fn run_request(body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_never_read_are_closed_whatever_they_send() {
    let served = serve(&["chars"], options()).await;
    let text = json!({"text": "_".repeat(1000), "flush": true}).to_string();
    let refused = json!({"element": "x".repeat(1000)}).to_string();
    for bytes in [
        ping().repeat(100),
        frame(0x81, text.as_bytes()),
        frame(0x81, refused.as_bytes()),
        [&[0x81, 0x80 | 15, 0, 0, 0, 0][..], br#"{"flush": true}"#].concat(),
    ] {
        let mut floods = Vec::new();
        for _ in 0..5 {
            floods.push(tokio::spawn(flood(deaf_stream(&served).await, bytes.clone())));
        }
        served.still_serves().await;
        for flood in floods {
            let waited = flood.await.unwrap();
            assert!(waited < PATIENCE + Duration::from_secs(5), "{waited:?}");
        }
    }
    let metrics = served.get("/metrics", "").await.body;
    assert!(metrics.contains(r#"reason="too_slow"} 20"#), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_not_read_are_dropped() {
    let served = serve(&["chars"], options()).await;
    let body = json!({"texts": ["_".repeat(20_000)]}).to_string();
    let mut deaf = Vec::new();
    for _ in 0..20 {
        let mut stream = connect(&served).await;
        stream.write_all(&run_request(&body)).await.unwrap();
        deaf.push(stream);
    }
    served.still_serves().await;
    // Those that were answered are closed by now, and so are those for whose answers there were no bytes.
    tokio::time::sleep(2 * PATIENCE + Duration::from_secs(1)).await;
    for mut stream in deaf {
        let mut answer = Vec::new();
        let _ = within(stream.read_to_end(&mut answer)).await;
        assert!(answer.len() < 4_000_000, "{}", answer.len());
    }
    served.still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_gets_all_of_its_answer() {
    let served = serve(&["chars"], options()).await;
    let body = json!({"texts": ["_".repeat(10_000)]}).to_string();
    let mut stream = connect(&served).await;
    stream.write_all(&run_request(&body)).await.unwrap();
    // Longer in all than patience lasts.
    let (mut answer, mut piece, begun) = (Vec::new(), vec![0; 100_000], Instant::now());
    while !answer.ends_with(b"]]}") {
        let read = within(stream.read(&mut piece)).await.unwrap();
        assert!(read > 0, "closed after {} bytes", answer.len());
        answer.extend_from_slice(&piece[..read]);
        if begun.elapsed() < 3 * PATIENCE {
            tokio::time::sleep(PATIENCE / 20).await;
        }
    }
    assert!(answer.len() > 1_000_000, "{}", answer.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_others_need_are_kept_by_nobody() {
    let mut options = options();
    options.limits.patience = Duration::from_secs(60); // so that only others' needs close them
    options.limits.connections = 10;
    let served = serve(&["chars"], options).await;
    let mut stream = served.ready("").await;
    let get = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000);
    let head = "POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n";
    for said in ["", "GET / HTTP/1.1\r\nX:", get.as_str(), head] {
        let mut bad = Vec::new();
        for _ in 0..30 {
            let mut connection = connect(&served).await;
            let written = connection.write_all(said.as_bytes());
            let _ = tokio::time::timeout(Duration::from_millis(20), written).await;
            bad.push(connection);
        }
        for _ in 0..5 {
            served.still_serves().await;
            assert_eq!(served.run(r#"{"texts": ["a_c"]}"#).await.status, 200);
        }
    }
    // A stream stays, however long it has said nothing.
    stream.say(r#"{"text": "abc", "flush": true}"#).await;
    assert_eq!(stream.until("flushed").await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_and_answers_have_budgets() {
    let mut options = options();
    options.limits.answers = 1 << 20;
    options.limits.received = 1 << 20;
    let served = serve(&["chars"], options).await;
    let text = |count: usize| json!({"texts": ["_".repeat(count)]}).to_string();
    let reply = served.run(&text(2000)).await;
    assert_eq!((reply.status, reply.code().as_str()), (413, "too_large"), "{}", reply.body);
    assert!(reply.body.contains("send fewer elements at a time"), "{}", reply.body);
    assert_eq!(served.run(&text(500)).await.status, 200);
    // Bodies that never come take all that there is: small requests are answered all the same.
    let padded = |count| format!(r#"{{"texts": ["abc"]}}{}"#, " ".repeat(count));
    let mut stalled = Vec::new();
    for _ in 0..40 {
        let mut stream = connect(&served).await;
        let large = run_request(&padded(400_000));
        stream.write_all(&large[..large.len() - 1]).await.unwrap();
        stalled.push(stream);
    }
    assert_eq!(served.run(&text(50)).await.status, 200);
    let large = served.run(&padded(400_000)).await;
    assert!([200, 503].contains(&large.status), "{}", large.body);
    assert_eq!(served.run(&padded(600_000)).await.code(), "too_large");
    let mut client = served.ready("").await;
    client.say(r#"{"text": "abc", "flush": true}"#).await;
    assert_eq!(client.until("flushed").await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_sends_all_before_it_reads_is_told_why_it_is_refused() {
    let served = serve(&["chars"], Options::default()).await;
    let head = |path: &str, rest: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{rest}\r\n\r\n").into_bytes()
    };
    let (length, json) = (20 << 20, "Content-Type: application/json\r\n");
    for (head, status) in [
        (head("/v1/run", &format!("{json}Content-Length: {length}")), "413"),
        (head("/v1/run", &format!("{json}Transfer-Encoding: chunked")), "413"),
        (head("/v1/run", &format!("Content-Length: {length}")), "415"),
        (head("/nowhere", &format!("Content-Length: {length}")), "404"),
    ] {
        let chunked = String::from_utf8_lossy(&head).contains("chunked");
        for _ in 0..5 {
            let mut stream = TcpStream::connect(served.address).await.unwrap();
            stream.write_all(&head).await.unwrap();
            let piece = vec![b'x'; 1 << 20];
            for _ in 0..20 {
                if chunked {
                    stream.write_all(b"100000\r\n").await.unwrap();
                }
                within(stream.write_all(&piece)).await.unwrap();
                if chunked {
                    stream.write_all(b"\r\n").await.unwrap();
                }
            }
            if chunked {
                stream.write_all(b"0\r\n\r\n").await.unwrap();
            }
            let mut answer = vec![0; 12];
            within(stream.read_exact(&mut answer)).await.unwrap();
            assert_eq!(answer, format!("HTTP/1.1 {status}").as_bytes());
        }
    }
    // One that waits to be told to go on is told at once that it need not.
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let expects = head(
        "/v1/run",
        &format!("{json}Content-Length: {length}\r\nExpect: 100-continue\r\nConnection: close"),
    );
    stream.write_all(&expects).await.unwrap();
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_do_not_hold_up_the_end() {
    let mut options = Options::default();
    options.limits.patience = Duration::from_secs(60);
    options.drain = Duration::from_secs(20);
    let served = serve(&["chars"], options).await;
    let text = json!({"text": "_".repeat(1000), "flush": true}).to_string();
    let stream = deaf_stream(&served).await;
    let flood = tokio::spawn(flood(stream, frame(0x81, text.as_bytes())));
    let mut answers = connect(&served).await;
    let body = json!({"texts": ["_".repeat(20_000)]}).to_string();
    answers.write_all(&run_request(&body)).await.unwrap();
    let mut pipelined = connect(&served).await;
    let get = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000);
    let _ = tokio::time::timeout(PATIENCE, pipelined.write_all(get.as_bytes())).await;
    answers.readable().await.unwrap();
    let begun = Instant::now();
    assert!(served.stop().await, "not all ended in time");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    flood.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_never_longer_than_was_expected() {
    for name in ["tagger", "dense", "tokens", "both", "chars"] {
        let model = model(name);
        let longest = model.longest_answer();
        let elements = match name {
            "tagger" => ["Ants", "\u{1}\u{2}\u{3}", "run", "."].map(|word| json!(word)).to_vec(),
            "chars" => vec![json!("a"), json!(null), json!("b"), json!(" ")],
            "tokens" => (0..6).map(|token| json!(token)).collect(),
            _ => vec![json!([1e-30, -1e30]), json!([0.1, -3.337e-5])],
        };
        let elements: Vec<_> = elements.iter().map(|e| model.element(e).unwrap()).collect();
        let answers = model.run(std::slice::from_ref(&elements)).unwrap().remove(0);
        for (element, answer) in elements.iter().zip(answers) {
            let most = model.longest_answer_to(element, longest);
            let length = answer.json().len();
            assert!(length <= most, "{name}: {} is {length} of {most}", answer.json());
            assert!(most <= 6 * length + 200, "{name}: {most} for {length}");
        }
    }
}
