//! Whole sequences by HTTP: the same bits as a stream, and every error of a request.

mod common;

use common::{alone, model, serve, within};
use drnn_serve::Options;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn elements(name: &str, count: usize) -> Vec<Value> {
    let one = |i: usize| match name {
        "tokens" => json!(i * 5 % 6),
        "chars" => [json!("a"), json!(null), json!("C"), json!("é")][i % 4].clone(),
        "tagger" => [json!("The"), json!("ants"), json!("run")][i % 3].clone(),
        _ => json!([(i as f32 * 0.37).sin(), (i as f32 * 1.1).cos()]),
    };
    (0..count).map(one).collect()
}

/// Predictions as they are in a response.
fn without_sequence(frames: Vec<String>) -> String {
    let predictions: Vec<String> =
        frames.iter().map(|f| f.replacen("\"sequence\":0,", "", 1)).collect();
    format!("[{}]", predictions.join(","))
}

#[tokio::test(flavor = "multi_thread")]
async fn predictions_are_those_of_streams_to_the_bit() {
    let names = ["dense", "tokens", "chars", "tagger"];
    let served = serve(&names, Options::default()).await;
    for name in names {
        let lengths = [3, 0, 40, 1];
        let sequences: Vec<_> = lengths.iter().map(|length| elements(name, *length)).collect();
        let reply = served.run(&json!({"model": name, "sequences": sequences}).to_string()).await;
        let expected: Vec<String> =
            sequences.iter().map(|s| without_sequence(alone(&model(name), 0, s))).collect();
        let expected = format!(r#"{{"model":"{name}","answers":[{}]}}"#, expected.join(","));
        assert_eq!((reply.status, reply.body), (200, expected));
    }
    assert!(served.stop().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_do_not_mix() {
    let served = std::sync::Arc::new(serve(&["dense", "tokens"], Options::default()).await);
    let clients = (0..32).map(|i| {
        let served = served.clone();
        tokio::spawn(async move {
            for round in 0..5 {
                let name = if (i + round) % 2 == 0 { "dense" } else { "tokens" };
                let sequence = elements(name, i * 3 + round);
                let body = json!({"model": name, "sequences": [sequence]}).to_string();
                let expected = without_sequence(alone(&model(name), 0, &sequence));
                let expected = format!(r#"{{"model":"{name}","answers":[{expected}]}}"#);
                assert_eq!(served.run(&body).await.body, expected);
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
}

#[tokio::test]
async fn texts_and_bidirectional_models() {
    let served = serve(&["tagger", "chars", "both"], Options::default()).await;
    let reply = served.run(r#"{"model": "tagger", "texts": ["Ants don't run.", ""]}"#).await.json();
    let words: Vec<_> =
        reply["answers"][0].as_array().unwrap().iter().map(|a| a["word"].clone()).collect();
    assert_eq!(words, ["Ants", "do", "n't", "run", "."]);
    assert_eq!(reply["answers"][1], json!([]));
    let reply = served.run(r#"{"model": "chars", "texts": ["a_b"]}"#).await.json();
    let masked = [0, 1, 2].map(|i| reply["answers"][0][i]["masked"].clone());
    assert_eq!(masked, [false, true, false]);
    let reply = served.run(r#"{"model": "both", "sequences": [[[1, 2], [3, 4]]]}"#).await;
    let both = model("both");
    let run = both.run(&[vec![
        drnn_tasks::live::Element::Numbers(vec![1.0, 2.0]),
        drnn_tasks::live::Element::Numbers(vec![3.0, 4.0]),
    ]]);
    let expected: Vec<String> =
        run.unwrap()[0].iter().map(|prediction| prediction.json()).collect();
    assert_eq!(reply.body, format!(r#"{{"model":"both","answers":[[{}]]}}"#, expected.join(",")));
}

#[tokio::test]
async fn the_one_model_need_not_be_named() {
    let served = serve(&["tokens"], Options::default()).await;
    assert_eq!(served.run(r#"{"sequences": [[1]]}"#).await.status, 200);
    let served = serve(&["tokens", "dense"], Options::default()).await;
    let reply = served.run(r#"{"sequences": [[1]]}"#).await;
    assert_eq!((reply.status, reply.code()), (400, "malformed".into()));
    assert!(
        reply.body.contains("the model is missing; available: dense, tokens"),
        "{}",
        reply.body
    );
}

#[tokio::test]
async fn errors_name_their_cause_and_change_nothing() {
    let mut options = Options::default();
    (options.limits.body, options.limits.elements) = (4096, 100);
    let served = serve(&["tokens", "dense", "chars"], options).await;
    let open = format!(r#"{{"model":"dense","sequences":{}}}"#, "[".repeat(2000));
    let deep =
        format!(r#"{{"model":"dense","sequences":{}{}}}"#, "[".repeat(1500), "]".repeat(1500));
    let many = format!(r#"{{"model":"tokens","sequences":[[{}0]]}}"#, "0,".repeat(100));
    let empty = format!(r#"{{"model":"tokens","sequences":[{}[]]}}"#, "[],".repeat(100));
    let large = format!(r#"{{"model":"tokens","sequences":[[{}0]]}}"#, "0,".repeat(4000));
    for (body, status, code, why) in [
        ("", 400, "malformed", "EOF while parsing"),
        ("{", 400, "malformed", "the body is not a request"),
        ("[]", 400, "malformed", "the body is not a request"),
        (&open, 400, "malformed", "the body is not a request"),
        (&deep, 400, "malformed", "recursion limit"),
        (r#"{"model": "dense", "sequences": 5}"#, 400, "malformed", "expected a sequence"),
        (r#"{"model": "tokens"}"#, 400, "malformed", "either sequences or texts"),
        (r#"{"sequences": [], "texts": []}"#, 400, "malformed", "either sequences or texts"),
        (r#"{"sequences": [], "more": 1}"#, 400, "malformed", "unknown field `more`"),
        (r#"{"model": "tokens", "sequences": [[NaN]]}"#, 400, "malformed", "expected value"),
        (r#"{"model": "dense", "sequences": [[[1, 1e999]]]}"#, 400, "malformed", "out of range"),
        (r#"{"model": "x", "sequences": []}"#, 404, "unknown_model", "chars, dense, tokens"),
        (
            r#"{"model": "../tokens", "sequences": []}"#,
            404,
            "unknown_model",
            "unknown model; available",
        ),
        (
            r#"{"model": "/etc/passwd", "sequences": []}"#,
            404,
            "unknown_model",
            "unknown model; available",
        ),
        (
            r#"{"model": "tokens", "sequences": [[1], [0, 6]]}"#,
            422,
            "element_refused",
            "sequence 1: element 1: token 6 is not below 6",
        ),
        (
            r#"{"model": "tokens", "sequences": [[1, -1]]}"#,
            422,
            "element_refused",
            "sequence 0: element 1: `-1` is not a token",
        ),
        (
            r#"{"model": "dense", "sequences": [[[1]]]}"#,
            422,
            "element_refused",
            "1 numbers, expected 2",
        ),
        (r#"{"model": "dense", "sequences": [[[1, null]]]}"#, 422, "element_refused", "or missing"),
        (
            r#"{"model": "dense", "sequences": [[[1, 1e39]]]}"#,
            422,
            "element_refused",
            "is too large",
        ),
        (
            r#"{"model": "dense", "texts": ["a"]}"#,
            422,
            "element_refused",
            "the model reads 2 numbers, not text",
        ),
        (
            r#"{"model": "chars", "sequences": [["ab"]]}"#,
            422,
            "element_refused",
            "is not one character",
        ),
        (&many, 413, "too_large", "more than 100 elements"),
        (&empty, 413, "too_large", "more than 100 elements"),
        (&large, 413, "too_large", "more than 4096 bytes"),
    ] {
        let reply = served.run(body).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{body}: {}", reply.body);
        assert!(reply.body.contains(why), "{body}: {}", reply.body);
    }
    let not_utf8 =
        served.post(b"{\"model\": \"\xff\"}", "Content-Type: application/json\r\n").await;
    assert_eq!((not_utf8.status, not_utf8.code().as_str()), (400, "malformed"));
    for media in
        ["", "Content-Type: text/plain\r\n", "Content-Type: application/x-www-form-urlencoded\r\n"]
    {
        let reply = served.post("{}", media).await;
        assert_eq!((reply.status, reply.code().as_str()), (415, "media_type"));
    }
    // Chunked, so without a Content-Length.
    let chunk = "0".repeat(5000);
    let reply = served
        .raw(format!("POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n{:x}\r\n{chunk}\r\n0\r\n\r\n", chunk.len()).as_bytes())
        .await;
    assert_eq!((reply.status, reply.code().as_str()), (413, "too_large"));
    served.still_serves().await;
}

#[tokio::test]
async fn paths_and_methods() {
    let sweep = Some(r#"{"kind":"sweep"}"#.into());
    let mut options = Options::default();
    options.sweep = sweep;
    let served = serve(&["tokens"], options).await;
    for (path, status) in [
        ("/", 200),
        ("/healthz", 200),
        ("/metrics", 200),
        ("/openapi.json", 200),
        ("/v1/models", 200),
        ("/v1/sweep", 200),
        ("/v1/run", 405),
        ("/v1/stream", 400),
        ("/v1/models/../../etc/passwd", 404),
        ("/..%2f..%2fetc/passwd", 404),
        ("/v2", 404),
    ] {
        let reply = served.get(path, "").await;
        assert_eq!(reply.status, status, "{path}");
        assert!(reply.head.contains("x-content-type-options: nosniff"), "{path}");
        if status >= 400 {
            assert!(!reply.code().is_empty(), "{path}: {}", reply.body);
        }
    }
    assert_eq!(served.get("/v1/sweep", "").await.body, r#"{"kind":"sweep"}"#);
    let none = serve(&["tokens"], Options::default()).await;
    assert_eq!(none.get("/v1/sweep", "").await.code(), "not_found");
    let garbage = served.raw(b"\x16\x03\x01\x02\x00\x01garbage\r\n\r\n").await;
    assert_eq!(garbage.status, 400);
    let long = served.get("/", &format!("X: {}\r\n", "x".repeat(1_000_000))).await;
    assert!([400, 431].contains(&long.status), "{}", long.status);
    served.still_serves().await;
}

#[tokio::test]
async fn a_client_that_sends_too_slowly_gets_an_error() {
    let mut options = Options::default();
    options.limits.io_timeout = Duration::from_secs(1);
    let served = serve(&["tokens"], options).await;
    let head = "POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 30\r\n\r\n{";
    let reply = served.raw(head.as_bytes()).await;
    assert_eq!((reply.status, reply.code().as_str()), (408, "too_slow"));
    // A connection with an incomplete head is closed.
    let mut incomplete = tokio::net::TcpStream::connect(served.address).await.unwrap();
    incomplete.write_all(b"GET /healthz HT").await.unwrap();
    let mut rest = Vec::new();
    let _ = within(incomplete.read_to_end(&mut rest)).await;
    served.still_serves().await;
}

#[tokio::test]
async fn metrics_count_requests_streams_and_elements() {
    let served = serve(&["tokens"], Options::default()).await;
    served.run(r#"{"sequences": [[1, 2, 3], [4]]}"#).await;
    served.run(r#"{"sequences": [[9]]}"#).await;
    served.get("/no/such/path", "").await;
    let mut client = served.ready("").await;
    client.say(r#"{"elements": [1, 2], "flush": true}"#).await;
    client.until("flushed").await;
    client.send(tokio_tungstenite::tungstenite::Message::binary(vec![1])).await;
    client.close_reason().await;
    drop(client);
    let text = within(async {
        loop {
            let text = served.get("/metrics", "").await.body;
            if text.contains(r#"drnn_streams{model="tokens"} 0"#) {
                break text;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    for line in [
        r#"drnn_requests_total{route="/v1/run",status="200"} 1"#,
        r#"drnn_requests_total{route="/v1/run",status="422"} 1"#,
        r#"drnn_requests_total{route="other",status="404"} 1"#,
        r#"drnn_elements_total{model="tokens",way="run"} 4"#,
        r#"drnn_answers_total{model="tokens",way="run"} 4"#,
        r#"drnn_elements_total{model="tokens",way="stream"} 2"#,
        r#"drnn_answers_total{model="tokens",way="stream"} 2"#,
        r#"drnn_streams_opened_total{model="tokens"} 1"#,
        r#"drnn_stream_closes_total{reason="binary"} 1"#,
        r#"drnn_waiting{model="tokens",way="stream"} 0"#,
        r#"drnn_waiting{model="tokens",way="run"} 0"#,
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    for name in ["drnn_batch_bucket", "drnn_answer_seconds_bucket"] {
        assert!(text.contains(name), "{name}");
    }
}
