//! A client of a stream, and elements for its model.

use drnn::random::Rng;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

pub type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Opens a stream; returns it with the description of its model.
pub async fn open(address: &str, query: &str) -> Result<(Socket, Value), Error> {
    let (mut socket, _) = connect_async(format!("ws://{address}/v1/stream{query}")).await?;
    match socket.next().await {
        Some(Ok(Message::Text(text))) => {
            let ready: Value = serde_json::from_str(&text).unwrap_or_default();
            Ok((socket, ready["ready"].clone()))
        }
        Some(Err(e)) => Err(e),
        _ => Err(Error::ConnectionClosed),
    }
}

/// An element for the model.
pub fn element(model: &Value, rng: &mut Rng) -> Value {
    const WORDS: [&str; 8] = ["the", "ants", "run", "to", "Paris", "quickly", ",", "unheard-of"];
    let count = model["reads"]["count"].as_u64().unwrap_or(1) as usize;
    match model["reads"]["kind"].as_str() {
        Some("characters") if rng.below(5) == 0 => Value::Null,
        Some("characters") => json!(char::from(b'a' + rng.below(26) as u8)),
        Some("words") => json!(WORDS[rng.below(WORDS.len())]),
        Some("tokens") => json!(rng.below(count)),
        _ => json!((0..count).map(|_| rng.normal()).collect::<Vec<f32>>()),
    }
}

pub async fn say(socket: &mut Socket, message: &Value) -> Result<(), Error> {
    socket.send(Message::text(message.to_string())).await
}
