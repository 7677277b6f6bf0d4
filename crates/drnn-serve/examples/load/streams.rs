//! Many streams at a steady rate: do all predictions arrive in order, and how long after they were due?
//!
//! The prediction for element t is due when element t + d has been sent: latency is measured from there.

use crate::client::{element, open};
use crate::http::post;
use crate::memory::Memory;
use crate::{Streams, quantile};
use drnn::random::Rng;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::tungstenite::Message;

/// Streams whose predictions are compared with those of `POST /v1/run`.
const COMPARED: usize = 8;
/// Elements of each that are: a request may not have more.
const MAX_COMPARED: usize = 10_000;

struct Found {
    seconds: Vec<f64>,
    elements: Vec<Value>,
    answers: Vec<Value>,
    model: String,
}

pub async fn run(to: Streams, rate: f64) -> bool {
    let query = to.query();
    let Streams { address, pid, streams, seconds, .. } = to;
    let memory = Memory::watch(pid);
    let count = (rate * seconds) as usize;
    let each = (0..streams).map(|i| {
        let (address, query) = (address.clone(), query.clone());
        // Spread over the time between two elements, as clients are.
        let begin = Duration::from_secs_f64((i as f64 / streams as f64) / rate + 1.0);
        tokio::spawn(async move { one(&address, &query, i, count, rate, begin).await })
    });
    let (mut all, mut failed) = (Vec::new(), 0);
    for (i, stream) in each.collect::<Vec<_>>().into_iter().enumerate() {
        match stream.await.map_err(|e| e.to_string()).and_then(|found| found) {
            Ok(found) => all.push(found),
            Err(why) => {
                failed += 1;
                eprintln!("stream {i}: {why}");
            }
        }
    }
    let held = memory.report();
    let mut compared = 0;
    for found in all.iter().take(COMPARED).filter(|_| count <= MAX_COMPARED) {
        match equal(&address, found).await {
            true => compared += 1,
            false => failed += 1,
        }
    }
    let mut times: Vec<f64> = all.iter().flat_map(|found| found.seconds.iter().copied()).collect();
    times.sort_by(f64::total_cmp);
    println!(
        "{streams} streams, {rate} elements/s each, {seconds} s: {failed} failed; {compared} compared with /v1/run"
    );
    println!(
        "answers {}: p50 {:.2} ms, p99 {:.2} ms, most {:.2} ms after they were due",
        times.len(),
        quantile(&times, 0.5),
        quantile(&times, 0.99),
        quantile(&times, 1.0)
    );
    println!("memory of the server: {held}");
    failed == 0
}

async fn one(
    address: &str,
    query: &str,
    seed: usize,
    count: usize,
    rate: f64,
    begin: Duration,
) -> Result<Found, String> {
    let (socket, model) = open(address, query).await.map_err(|e| e.to_string())?;
    let delay = model["delay"].as_u64().unwrap_or(0) as usize;
    let mut rng = Rng::new(seed as u64);
    let elements: Vec<Value> = (0..count).map(|_| element(&model, &mut rng)).collect();
    let sent = Arc::new(Mutex::new(Vec::with_capacity(count)));
    let (mut to, mut from) = socket.split();
    let sender = {
        let (elements, sent) = (elements.clone(), sent.clone());
        tokio::spawn(async move {
            let mut clock =
                interval_at((Instant::now() + begin).into(), Duration::from_secs_f64(1.0 / rate));
            clock.set_missed_tick_behavior(MissedTickBehavior::Burst);
            for (position, element) in elements.iter().enumerate() {
                clock.tick().await;
                sent.lock().map_err(|e| e.to_string())?.push(Instant::now());
                let message = json!({"element": element, "position": position}).to_string();
                to.send(Message::text(message)).await.map_err(|e| e.to_string())?;
            }
            let flush = json!({"flush": true}).to_string();
            to.send(Message::text(flush)).await.map_err(|e| e.to_string())?;
            Ok::<_, String>(to)
        })
    };
    let (mut seconds, mut answers) = (Vec::with_capacity(count), Vec::with_capacity(count));
    loop {
        let frame = timeout(Duration::from_secs(30), from.next()).await;
        let now = Instant::now();
        let text = match frame {
            Ok(Some(Ok(Message::Text(text)))) => text,
            Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => continue,
            other => return Err(format!("{other:?} after {} answers", answers.len())),
        };
        let mut frame: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
        if frame["flushed"].is_object() {
            let said = frame["flushed"]["answers"].as_u64().unwrap_or(0) as usize;
            if (said, answers.len()) != (count, count) {
                return Err(format!(
                    "{} answers, {said} reported, {count} elements",
                    answers.len()
                ));
            }
            break;
        }
        if frame["position"] != json!(answers.len()) || frame["sequence"] != 0 {
            return Err(format!("{text} instead of the answer to {}", answers.len()));
        }
        if let Some(due) = sent.lock().map_err(|e| e.to_string())?.get(answers.len() + delay) {
            seconds.push((now - *due).as_secs_f64());
        }
        frame.as_object_mut().map(|frame| frame.remove("sequence"));
        answers.push(frame);
    }
    drop(sender.await.map_err(|e| e.to_string())??);
    let model = model["name"].as_str().unwrap_or_default().into();
    Ok(Found { seconds, elements, answers, model })
}

/// Whether `POST /v1/run` gives the same predictions.
async fn equal(address: &str, found: &Found) -> bool {
    let body = json!({"model": found.model, "sequences": [found.elements]}).to_string();
    let Ok((200, body)) = post(address, "/v1/run", body.as_bytes()).await else { return false };
    let whole: Value = serde_json::from_slice(&body).unwrap_or_default();
    whole["answers"][0] == json!(found.answers)
}
