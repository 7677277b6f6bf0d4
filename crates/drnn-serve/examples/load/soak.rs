//! Random good and bad clients: does every accepted element get its prediction, or is its stream closed
//! with a reason? Does the server survive?

use crate::Streams;
use crate::client::{Socket, element, open, say};
use crate::http::get;
use crate::memory::Memory;
use crate::server::restart_repeatedly;
use drnn::random::Rng;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::{Error, Message};

/// A stream was closed because its server stops.
const STOPPED: &str = "closed because the server stops";

fn is_stop(frame: &Option<Result<Message, Error>>) -> bool {
    matches!(frame, Some(Ok(Message::Close(Some(close)))) if u16::from(close.code) == 1012)
}

/// A hang guard.
const LONG: Duration = Duration::from_secs(30);

pub async fn run(to: Streams, server: Option<&str>, stop_every: f64) -> bool {
    let (query, stops) = (to.query(), server.is_some());
    let Streams { address, pid, streams, seconds, .. } = to;
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let memory = Memory::watch(pid);
    let each = (0..streams).map(|i| {
        let (address, query) = (address.clone(), query.clone());
        tokio::spawn(async move {
            let (mut rng, mut found) = (Rng::new(i as u64), BTreeMap::new());
            while Instant::now() < until {
                let (kind, outcome) = one(&address, &query, stops, &mut rng).await;
                let outcome = match outcome {
                    Ok(outcome) => format!("{kind}: {outcome}"),
                    Err(why) if stops && why == STOPPED => format!("{kind}: {why}"),
                    Err(why) => format!("{kind}: FAILED: {why}"),
                };
                *found.entry(outcome).or_insert(0usize) += 1;
            }
            found
        })
    });
    let each: Vec<_> = each.collect();
    let ends = async {
        match server {
            Some(program) => {
                let every = Duration::from_secs_f64(stop_every);
                restart_repeatedly(program, &address, every, until).await
            }
            None => Ok(Vec::new()),
        }
    };
    let clients = async {
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for one in each {
            let failed = |e| [(format!("FAILED: {e}"), 1)].into();
            for (outcome, count) in one.await.unwrap_or_else(failed) {
                *found.entry(outcome).or_default() += count;
            }
        }
        (found, all_gone(&address).await)
    };
    let ((found, gone), ends) = tokio::join!(clients, ends);
    found.iter().for_each(|(outcome, count)| println!("{count:>8} {outcome}"));
    println!("still serves, and no stream is left: {gone}");
    match &ends {
        Ok(ends) => ends.iter().for_each(|end| println!("the server ended: {end}")),
        Err(why) => println!("FAILED: {why}"),
    }
    if !stops {
        println!("memory of the server: {}", memory.report());
    }
    gone && ends.is_ok() && !found.keys().any(|outcome| outcome.contains("FAILED"))
}

/// Whether the server is healthy and counts no stream.
async fn all_gone(address: &str) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        let text = get(address, "/metrics").await.map(|(_, body)| body).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut left = text
            .lines()
            .filter(|line| line.starts_with("drnn_streams{") || line.starts_with("drnn_waiting{"));
        if !text.is_empty() && left.all(|line| line.ends_with(" 0")) {
            return get(address, "/healthz").await.is_ok_and(|(status, _)| status == 200);
        }
        sleep(Duration::from_millis(100)).await;
    }
    false
}

async fn one(
    address: &str,
    query: &str,
    stops: bool,
    rng: &mut Rng,
) -> (&'static str, Result<String, String>) {
    let (mut socket, model) = match timeout(LONG, open(address, query)).await {
        Ok(Ok(opened)) => opened,
        // Nothing was accepted.
        Ok(Err(_)) if stops => {
            sleep(Duration::from_millis(50)).await;
            return ("open", Ok("no server just now".into()));
        }
        Ok(Err(e)) => return ("open", Err(e.to_string())),
        Err(_) => return ("open", Err("no answer".into())),
    };
    let act = async {
        match rng.below(8) {
            0 => {
                some(&mut socket, &model, rng).await;
                drop(socket);
                ("vanishes", Ok("gone".into()))
            }
            1 => {
                ("says garbage", closed(&mut socket, Message::text("{\"element\": ["), 1007).await)
            }
            2 => ("says bytes", closed(&mut socket, Message::binary(vec![0; 100]), 1003).await),
            3 => {
                let large = Message::text("x".repeat(100_000 + rng.below(2_000_000)));
                ("says too much", closed(&mut socket, large, 1009).await)
            }
            4 => {
                let late = json!({"elements": [], "position": 1_000_000});
                (
                    "is out of order",
                    closed(&mut socket, Message::text(late.to_string()), 1008).await,
                )
            }
            5 => ("reads late", late(socket, &model, rng).await),
            _ => ("is good", good(&mut socket, &model, rng).await),
        }
    };
    timeout(LONG * 2, act).await.unwrap_or(("hangs", Err("no end".into())))
}

async fn some(socket: &mut Socket, model: &Value, rng: &mut Rng) {
    for _ in 0..rng.below(50) {
        let _ = say(socket, &json!({"element": element(model, rng)})).await;
    }
}

/// Several sequences, some elements of which are refused.
async fn good(socket: &mut Socket, model: &Value, rng: &mut Rng) -> Result<String, String> {
    for sequence in 0..3 {
        let (mut said, mut refused) = (0, 0);
        for _ in 0..rng.below(20) {
            let mut elements: Vec<Value> =
                (0..rng.below(30)).map(|_| element(model, rng)).collect();
            said += elements.len();
            if rng.below(4) == 0 {
                elements.push(json!({"no": "such"}));
                refused += 1;
            }
            // If it stops meanwhile, the next frames show it.
            let _ = say(socket, &json!({"elements": elements})).await;
        }
        let _ = say(socket, &json!({"flush": true})).await;
        let (mut answers, mut errors) = (0, 0);
        loop {
            let frame = socket.next().await;
            if is_stop(&frame) {
                return Err(STOPPED.into());
            }
            let Some(Ok(Message::Text(text))) = frame else {
                return Err("closed without a reason".into());
            };
            let frame: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
            if frame["error"]["code"] == json!("stopping") {
                continue; // the close comes next
            }
            if frame["flushed"].is_object() {
                break;
            } else if frame["error"].is_object() {
                errors += 1;
            } else if frame["position"] == json!(answers) && frame["sequence"] == json!(sequence) {
                answers += 1;
            } else {
                return Err("a prediction out of order".into());
            }
        }
        if (answers, errors) != (said, refused) {
            return Err("lost or invented predictions".into());
        }
    }
    Ok("all answered".into())
}

/// Expects that the stream is closed with this code.
async fn closed(socket: &mut Socket, message: Message, code: u16) -> Result<String, String> {
    // The server may close it before all was sent.
    let _ = socket.send(message).await;
    loop {
        match socket.next().await {
            frame if is_stop(&frame) => return Err(STOPPED.into()),
            Some(Ok(Message::Close(Some(close)))) if u16::from(close.code) == code => {
                return Ok(format!("closed with {code}"));
            }
            Some(Ok(Message::Close(close))) => return Err(format!("closed with {close:?}")),
            Some(Ok(_)) => {}
            // What was being sent can cross the close frame.
            Some(Err(_)) if code == 1009 => return Ok("reset while sending".into()),
            other => return Err(format!("{other:?}")),
        }
    }
}

/// Sends much and reads nothing for a while. Then all predictions are there, or the stream was closed.
async fn late(socket: Socket, model: &Value, rng: &mut Rng) -> Result<String, String> {
    let elements: Vec<Value> = (0..500).map(|_| element(model, rng)).collect();
    let message = Message::text(json!({"elements": elements, "flush": true}).to_string());
    let (messages, pause) = (rng.below(20), Duration::from_millis(rng.below(3000) as u64));
    let (mut to, mut from) = socket.split();
    let sender = tokio::spawn(async move {
        for _ in 0..messages {
            to.send(message.clone()).await?;
        }
        Ok::<_, tokio_tungstenite::tungstenite::Error>(to)
    });
    sleep(pause).await;
    let mut flushed = 0;
    while flushed < messages {
        match from.next().await {
            frame if is_stop(&frame) => return Err(STOPPED.into()),
            Some(Ok(Message::Text(text))) => flushed += usize::from(text.contains("\"flushed\"")),
            Some(Ok(Message::Close(Some(close)))) if close.reason.as_str() == "too_slow" => {
                return Ok("closed for it".into());
            }
            Some(Ok(_)) => {}
            other => return Err(format!("{other:?} after {flushed} of {messages}")),
        }
    }
    let _ = sender.await;
    Ok("all answered".into())
}
