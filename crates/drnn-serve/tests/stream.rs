//! Live sequences by WebSocket: batching does not change predictions, and every error of a client.

mod common;

use common::{Served, alone, model, serve, within};
use drnn_serve::Options;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::MaybeTlsStream;
use tokio_tungstenite::tungstenite::Message;

fn tokens(count: usize, seed: usize) -> Vec<Value> {
    (0..count).map(|i| json!((i * i + seed) % 6)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn batching_many_streams_does_not_change_predictions() {
    let served = std::sync::Arc::new(serve(&["tokens", "chars"], Options::default()).await);
    let clients = (0..50).map(|i| {
        let served = served.clone();
        tokio::spawn(async move {
            let mut client = served.ready("?model=tokens").await;
            for sequence in 0..3 {
                let elements = tokens(i + 3 * sequence as usize, i);
                for (at, part) in elements.chunks(7).enumerate() {
                    client.say(&json!({"elements": part, "position": 7 * at}).to_string()).await;
                }
                client.say(r#"{"flush": true}"#).await;
                let mut found = client.until("flushed").await;
                let count = elements.len();
                let last = format!(r#"{{"flushed":{{"answers":{count},"sequence":{sequence}}}}}"#);
                assert_eq!(found.pop(), Some(last));
                assert_eq!(found, alone(&model("tokens"), sequence, &elements));
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        client.await.unwrap();
    }
}

#[tokio::test]
async fn a_prediction_is_sent_as_soon_as_it_is_due() {
    let served = serve(&["dense"], Options::default()).await; // delay 2
    let mut client = served.stream("", &[]).await.unwrap();
    let ready: Value = serde_json::from_str(&client.frame().await.unwrap()).unwrap();
    assert_eq!((&ready["ready"]["delay"], &ready["ready"]["name"]), (&json!(2), &json!("dense")));
    let elements: Vec<Value> = (0..6).map(|i| json!([i, 0.5])).collect();
    let expected = alone(&model("dense"), 0, &elements);
    for (i, element) in elements.iter().enumerate() {
        client.say(&json!({ "element": element }).to_string()).await;
        if i >= 2 {
            assert_eq!(client.frame().await.unwrap(), expected[i - 2]);
        }
    }
}

#[tokio::test]
async fn text_is_characters_or_words() {
    let served = serve(&["chars", "tagger", "tokens"], Options::default()).await;
    let mut client = served.ready("?model=chars").await;
    client.say(r#"{"text": "a_"}"#).await;
    client.say(r#"{"element": null, "flush": true}"#).await;
    let expected = alone(&model("chars"), 0, &[json!("a"), json!(null), json!(null)]);
    assert_eq!(client.until("flushed").await[..3], expected);
    let mut client = served.ready("?model=tagger").await;
    client.say(r#"{"text": "Ants don't run.", "flush": true}"#).await;
    let expected = alone(&model("tagger"), 0, &["Ants", "do", "n't", "run", "."].map(Value::from));
    assert_eq!(client.until("flushed").await[..5], expected);
    let mut client = served.ready("?model=tokens").await;
    client.say(r#"{"text": "1 2"}"#).await;
    let frame = client.frame().await.unwrap();
    assert!(frame.contains("the model reads tokens below 6, not text"), "{frame}");
}

#[tokio::test]
async fn streams_of_unknown_or_bidirectional_models_are_refused() {
    let served = serve(&["both", "tokens"], Options::default()).await;
    let refused = |query: &'static str| async {
        let (status, body) = served.stream(query, &[]).await.err().unwrap();
        let code: Value = serde_json::from_str(&body).unwrap();
        (status, code["error"]["code"].as_str().unwrap().to_string(), body)
    };
    let (status, code, body) = refused("?model=both").await;
    assert_eq!((status, code.as_str()), (422, "cannot_stream"));
    assert!(body.contains("bidirectional"), "{body}");
    assert_eq!(refused("?model=x").await.1, "unknown_model");
    assert_eq!(refused("?model=..%2Ftokens").await.1, "unknown_model");
    assert_eq!(refused("").await.1, "malformed");
    let models = served.get("/v1/models", "").await.json();
    let streams: Vec<_> =
        models["models"].as_array().unwrap().iter().map(|m| m["streams"].clone()).collect();
    assert_eq!(streams, [false, true]);
}

#[tokio::test]
async fn an_element_that_is_refused_closes_nothing() {
    let served = serve(&["tokens", "dense"], Options::default()).await;
    let mut client = served.ready("?model=tokens").await;
    for (message, position) in [
        (r#"{"elements": [1, 6, 2]}"#, 1),
        (r#"{"element": "x"}"#, 1),
        (r#"{"element": null}"#, 1),
        (r#"{"element": [[[1]]]}"#, 1),
        (r#"{"elements": [2, 4294967296], "flush": true}"#, 2),
        (r#"{"text": "words"}"#, 2),
    ] {
        client.say(message).await;
        let frame: Value =
            serde_json::from_str(&client.until("error").await.pop().unwrap()).unwrap();
        let error = &frame["error"];
        assert_eq!(
            (&error["code"], &error["position"]),
            (&json!("element_refused"), &json!(position))
        );
    }
    client.say(r#"{"element": 3, "position": 2, "flush": true}"#).await;
    let found = client.until("flushed").await;
    assert_eq!(found[..2], alone(&model("tokens"), 0, &[json!(1), json!(2), json!(3)])[1..]);
    let mut client = served.ready("?model=dense").await;
    for (message, why) in [
        (r#"{"element": [1]}"#, "1 numbers, expected 2"),
        (r#"{"element": [1, null]}"#, "or missing"),
        (r#"{"element": [1, 1e39]}"#, "is too large"),
        (r#"{"element": 5}"#, "an array of 2 numbers"),
    ] {
        client.say(message).await;
        let frame = client.frame().await.unwrap();
        assert!(frame.contains(why), "{message}: {frame}");
    }
}

/// How the server closes a stream after this message.
async fn closed_after(served: &Served, message: Message) -> (String, u16, String) {
    let mut client = served.ready("?model=tokens").await;
    let _ = client.socket.send(message).await;
    client.close_reason().await
}

#[tokio::test]
async fn a_broken_protocol_is_closed_with_the_reason() {
    let mut options = Options::default();
    (options.limits.message, options.limits.in_flight) = (10_000, 50);
    let served = serve(&["tokens"], options).await;
    let deep = format!(r#"{{"element": {}"#, "[".repeat(5000));
    let many = format!(r#"{{"elements": [{}0]}}"#, "0,".repeat(50));
    for (message, code, close) in [
        ("", "malformed", 1007),
        ("hello", "malformed", 1007),
        ("[1]", "malformed", 1007),
        ("{}", "malformed", 1007),
        (r#"{"flush": false}"#, "malformed", 1007),
        (r#"{"position": 0}"#, "malformed", 1007),
        (r#"{"element": NaN}"#, "malformed", 1007),
        (r#"{"element": 1, "elements": []}"#, "malformed", 1007),
        (r#"{"element": 1, "element": 2}"#, "malformed", 1007),
        (r#"{"element": 1, "other": 2}"#, "malformed", 1007),
        (r#"{"element": 1, "position": -1}"#, "malformed", 1007),
        (r#"{"text": 5}"#, "malformed", 1007),
        (&deep, "malformed", 1007),
        (r#"{"element": 1, "position": 1}"#, "out_of_order", 1008),
        (&many, "too_large", 1009),
    ] {
        let found = closed_after(&served, Message::text(message)).await;
        assert_eq!(found, (code.into(), close, code.into()), "{message}");
    }
    let large = Message::text(format!(r#"{{"text": "{}"}}"#, "x".repeat(10_000)));
    assert_eq!(closed_after(&served, large).await.1, 1009);
    assert_eq!(
        closed_after(&served, Message::binary(b"{}".to_vec())).await,
        ("binary".into(), 1003, "binary".into())
    );
    // Not UTF-8: a masked text frame of one byte, 0xff.
    let mut client = served.ready("").await;
    let MaybeTlsStream::Plain(raw) = client.socket.get_mut() else { panic!("plain") };
    raw.write_all(&[0x81, 0x81, 0, 0, 0, 0, 0xff]).await.unwrap();
    assert_eq!(client.close_reason().await.1, 1007);
    // Not even a frame.
    let mut client = served.ready("").await;
    let MaybeTlsStream::Plain(raw) = client.socket.get_mut() else { panic!("plain") };
    raw.write_all(&[0xff; 30]).await.unwrap();
    assert_eq!(client.close_reason().await.1, 1002);
    served.still_serves().await;
}

#[tokio::test]
async fn streams_out_of_order_close_only_themselves() {
    let served = serve(&["tokens"], Options::default()).await;
    let (mut good, mut bad) = (served.ready("").await, served.ready("").await);
    good.say(r#"{"elements": [1, 2], "position": 0}"#).await;
    bad.say(r#"{"elements": [1, 2], "position": 0}"#).await;
    bad.say(r#"{"elements": [1, 2], "position": 4}"#).await;
    assert_eq!(bad.close_reason().await.1, 1008);
    good.say(r#"{"elements": [3], "position": 2, "flush": true}"#).await;
    let expected = alone(&model("tokens"), 0, &[json!(1), json!(2), json!(3)]);
    assert_eq!(good.until("flushed").await[..3], expected);
}

#[tokio::test]
async fn streams_have_limits() {
    let mut options = Options::default();
    (options.limits.streams, options.limits.streams_per_client) = (2, 2);
    let served = serve(&["tokens"], options.clone()).await;
    let (first, _second) = (served.ready("").await, served.ready("").await);
    assert_eq!(served.stream("", &[]).await.err().unwrap().0, 503);
    drop(first);
    // The server allows another once it has noticed.
    within(async {
        while served.stream("", &[]).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    options.limits.streams_per_client = 1;
    let served = serve(&["tokens"], options).await;
    let _first = served.ready("").await;
    assert_eq!(served.stream("", &[]).await.err().unwrap().0, 429);
}

#[tokio::test]
async fn time_has_limits() {
    let mut options = Options::default();
    options.limits.idle = Duration::from_millis(300);
    let served = serve(&["tokens"], options.clone()).await;
    assert_eq!(served.ready("").await.close_reason().await, ("idle".into(), 1008, "idle".into()));
    options.limits.idle = Duration::from_secs(60);
    options.limits.max_lifetime = Duration::from_millis(300);
    let served = serve(&["tokens"], options).await;
    assert_eq!(served.ready("").await.close_reason().await.0, "too_long");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_reads_is_disconnected_and_no_other_waits() {
    let mut options = Options::default();
    options.limits.io_timeout = Duration::from_millis(500);
    let served = serve(&["chars"], options).await;
    let mut unread = served.ready("").await;
    let mut good = served.ready("").await;
    let text = json!({"text": "_".repeat(4000), "flush": true}).to_string();
    let flood = tokio::spawn(async move {
        // Until it is disconnected: then sending fails.
        while unread.socket.send(Message::text(text.clone())).await.is_ok() {}
        unread
    });
    for _ in 0..20 {
        good.say(r#"{"text": "abc", "flush": true}"#).await;
        assert_eq!(good.until("flushed").await.len(), 4);
    }
    let mut unread = within(flood).await.unwrap();
    // It can still read what was sent before.
    while let Some(Ok(_)) = within(unread.socket.next()).await {}
    within(async {
        while !served.get("/metrics", "").await.body.contains(r#"reason="too_slow"} 1"#) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    served.still_serves().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_stop_accepted_elements_are_processed() {
    let served = serve(&["tokens"], Options::default()).await; // delay 1
    let mut client = served.ready("").await;
    let elements = tokens(3000, 1);
    client.say(&json!({ "elements": elements }).to_string()).await;
    let first = client.frame().await.unwrap();
    served.handle.stop();
    let expected = alone(&model("tokens"), 0, &elements);
    let (mut found, mut last) = (vec![first], None);
    while let Some(frame) = client.frame().await {
        match frame.contains("error") {
            true => last = Some(frame),
            false => found.push(frame),
        }
    }
    assert_eq!(found, expected[..2999]); // the last is not due: its sequence was not flushed
    assert!(last.unwrap().contains("stopping"));
    assert!(within(served.ended).await.unwrap());
    assert!(tokio::net::TcpStream::connect(served.address).await.is_err());
}

#[tokio::test]
async fn a_stop_waits_no_longer_than_the_drain_time() {
    let mut options = Options::default();
    options.drain = Duration::from_millis(300);
    let served = serve(&["tokens"], options).await;
    let mut slow = tokio::net::TcpStream::connect(served.address).await.unwrap();
    let head = "POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 30\r\nExpect: 100-continue\r\n\r\n";
    slow.write_all(head.as_bytes()).await.unwrap();
    // The server waits for the body, which never comes.
    let mut response = vec![0; 12];
    within(slow.read_exact(&mut response)).await.unwrap();
    assert_eq!(response, b"HTTP/1.1 100");
    assert!(!served.stop().await);
}
