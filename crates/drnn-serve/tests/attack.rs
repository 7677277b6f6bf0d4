//! Hostile clients are disconnected, occupy nothing that others need, and do not affect others.

mod common;

use common::{Served, model, serve, within};
use drnn_serve::Options;
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

const IO_TIMEOUT: Duration = Duration::from_millis(500);

fn options() -> Options {
    let mut options = Options::default();
    options.limits.io_timeout = IO_TIMEOUT;
    options
}

/// A connection with the smallest receive buffer.
async fn connect(served: &Served) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(served.address).await.unwrap()
}

/// A stream that never reads.
async fn unread_stream(served: &Served) -> TcpStream {
    let mut stream = connect(served).await;
    let head = "GET /v1/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.readable().await.unwrap();
    stream
}

/// Sends this again and again, and reads nothing, until the server has closed the connection.
async fn flood(mut stream: TcpStream, bytes: Vec<u8>) {
    within(async { while stream.write_all(&bytes).await.is_ok() {} }).await;
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
            floods.push(tokio::spawn(flood(unread_stream(&served).await, bytes.clone())));
        }
        served.still_serves().await;
        for flood in floods {
            flood.await.unwrap();
        }
    }
    let metrics = served.get("/metrics", "").await.body;
    assert!(metrics.contains(r#"reason="too_slow"} 20"#), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_that_are_not_read_are_dropped() {
    let served = serve(&["chars"], options()).await;
    let body = json!({"texts": ["_".repeat(20_000)]}).to_string();
    let mut unread = Vec::new();
    for _ in 0..20 {
        let mut stream = connect(&served).await;
        stream.write_all(&run_request(&body)).await.unwrap();
        unread.push(stream);
    }
    served.still_serves().await;
    // The server closes all of them: those that got a response, and those that got an error because
    // the budget for responses was exhausted.
    for stream in unread {
        flood(stream, b"x".to_vec()).await;
    }
    // The budget is available again.
    assert_eq!(served.run(&body).await.status, 200);
    served.still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_gets_all_of_its_response() {
    let mut options = options();
    let io_timeout = Duration::from_secs(3);
    options.limits.io_timeout = io_timeout;
    let served = serve(&["chars"], options).await;
    let body = json!({"texts": ["_".repeat(10_000)]}).to_string();
    let mut stream = connect(&served).await;
    stream.write_all(&run_request(&body)).await.unwrap();
    // Reads for longer than the timeout, with pauses that are much shorter.
    let (mut response, mut piece, mut paused) = (Vec::new(), vec![0; 100_000], Duration::ZERO);
    while !response.ends_with(b"]]}") {
        let read = within(stream.read(&mut piece)).await.unwrap();
        assert!(read > 0, "closed after {} bytes", response.len());
        response.extend_from_slice(&piece[..read]);
        if paused < 3 * io_timeout / 2 {
            paused += io_timeout / 30;
            tokio::time::sleep(io_timeout / 30).await;
        }
    }
    assert!(response.len() > 1_000_000, "{}", response.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_are_evicted_for_new_ones() {
    let mut options = options();
    options.limits.io_timeout = Duration::from_secs(60); // so that only eviction closes them
    options.limits.connections = 10;
    let served = serve(&["chars"], options).await;
    let mut stream = served.ready("").await;
    let get = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000);
    let head = "POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n";
    for sent in ["", "GET / HTTP/1.1\r\nX:", get.as_str(), head] {
        let mut bad = Vec::new();
        for _ in 0..30 {
            let mut connection = connect(&served).await;
            let written = connection.write_all(sent.as_bytes());
            let _ = tokio::time::timeout(Duration::from_millis(20), written).await;
            bad.push(connection);
        }
        for _ in 0..5 {
            served.still_serves().await;
            assert_eq!(served.run(r#"{"texts": ["a_c"]}"#).await.status, 200);
        }
    }
    // A stream is not evicted, even if it has sent nothing.
    stream.say(r#"{"text": "abc", "flush": true}"#).await;
    assert_eq!(stream.until("flushed").await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_and_responses_have_budgets() {
    let mut options = options();
    options.limits.responses = 1 << 20;
    options.limits.received = 1 << 20;
    let served = serve(&["chars"], options).await;
    let text = |count: usize| json!({"texts": ["_".repeat(count)]}).to_string();
    let reply = served.run(&text(2000)).await;
    assert_eq!((reply.status, reply.code().as_str()), (413, "too_large"), "{}", reply.body);
    assert!(reply.body.contains("send fewer elements at a time"), "{}", reply.body);
    assert_eq!(served.run(&text(500)).await.status, 200);
    // Incomplete bodies exhaust the budget: small requests are served nevertheless.
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
async fn a_client_that_sends_all_before_it_reads_receives_the_error() {
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
            let mut response = vec![0; 12];
            within(stream.read_exact(&mut response)).await.unwrap();
            assert_eq!(response, format!("HTTP/1.1 {status}").as_bytes());
        }
    }
    // A client that waits for 100 Continue gets the error instead.
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let expects = head(
        "/v1/run",
        &format!("{json}Content-Length: {length}\r\nExpect: 100-continue\r\nConnection: close"),
    );
    stream.write_all(&expects).await.unwrap();
    let mut response = String::new();
    within(stream.read_to_string(&mut response)).await.unwrap();
    assert!(response.starts_with("HTTP/1.1 413"), "{response}");
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_do_not_delay_the_stop() {
    let mut options = Options::default();
    // A stop shortens the write timeout: otherwise the drain time would be over first.
    options.limits.io_timeout = Duration::from_secs(60);
    options.drain = Duration::from_secs(20);
    let served = serve(&["chars"], options).await;
    let text = json!({"text": "_".repeat(1000), "flush": true}).to_string();
    let stream = unread_stream(&served).await;
    let flood = tokio::spawn(flood(stream, frame(0x81, text.as_bytes())));
    let mut unread = connect(&served).await;
    let body = json!({"texts": ["_".repeat(20_000)]}).to_string();
    unread.write_all(&run_request(&body)).await.unwrap();
    let mut pipelined = connect(&served).await;
    let get = "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000);
    let _ = tokio::time::timeout(IO_TIMEOUT, pipelined.write_all(get.as_bytes())).await;
    unread.readable().await.unwrap();
    assert!(served.stop().await, "not all ended within the drain time");
    flood.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prediction_never_exceeds_its_bound() {
    for name in ["tagger", "dense", "tokens", "both", "chars"] {
        let model = model(name);
        let max = model.max_prediction_bytes();
        let elements = match name {
            "tagger" => ["Ants", "\u{1}\u{2}\u{3}", "run", "."].map(|word| json!(word)).to_vec(),
            "chars" => vec![json!("a"), json!(null), json!("b"), json!(" ")],
            "tokens" => (0..6).map(|token| json!(token)).collect(),
            _ => vec![json!([1e-30, -1e30]), json!([0.1, -3.337e-5])],
        };
        let elements: Vec<_> = elements.iter().map(|e| model.element(e).unwrap()).collect();
        let predictions = model.run(std::slice::from_ref(&elements)).unwrap().remove(0);
        for (element, prediction) in elements.iter().zip(predictions) {
            let bound = model.max_prediction_bytes_to(element, max);
            let length = prediction.json().len();
            assert!(length <= bound, "{name}: {} is {length} of {bound}", prediction.json());
            assert!(bound <= 6 * length + 200, "{name}: {bound} for {length}");
        }
    }
}
