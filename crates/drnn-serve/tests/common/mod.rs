//! A server in this process, and plain clients for it.

#![allow(dead_code, reason = "each test file uses a part of it")]

use drnn::{Cell, Cpu, Model, NetSpec, Padding};
use drnn_serve::{Models, Options, Server, StopHandle};
use drnn_tasks::chars::{Alphabet, CharTask};
use drnn_tasks::live::{LiveModel, LiveStream};
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

const TAGGER: &[u8] = include_bytes!("../../../drnn-cli/models/tagger-en.safetensors");
/// A hang guard: nothing here takes nearly as long.
const LONG: Duration = Duration::from_secs(30);

/// A model of each task; every call makes the same one.
pub fn model(name: &str) -> LiveModel {
    let net = |delay, padding| NetSpec::builder(Cell::Lstm).units([9]).delay(delay, padding);
    let init = |builder: drnn::NetSpecBuilder| Model::init(&builder.build().unwrap(), 3).unwrap();
    let model = match name {
        "tagger" => return LiveModel::from_bytes("tagger", TAGGER).unwrap().on(&Cpu::new(1)),
        "dense" => init(net(2, Padding::Null).dense(2).outputs(3)),
        "tokens" => init(net(1, Padding::Symbol(0)).tokens(6, 4)),
        "both" => init(NetSpec::builder(Cell::Gru).dense(2).units([3]).bidirectional()),
        _ => {
            let alphabet = Alphabet::new(" abc".chars().collect()).unwrap();
            let model = init(net(3, Padding::LookAhead).tokens(5, 3).outputs(4));
            CharTask::new(alphabet, 20, 0.2).put_into(model).unwrap()
        }
    };
    LiveModel::new(name, model).unwrap().on(&Cpu::new(1))
}

/// A server under test.
pub struct Served {
    pub address: SocketAddr,
    pub handle: StopHandle,
    pub ended: JoinHandle<bool>,
}

/// Serves these models on a free port.
pub async fn serve(names: &[&str], mut options: Options) -> Served {
    let mut models = Models::new();
    names.iter().for_each(|name| models.add(model(name)).unwrap());
    options.listen = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(options, models).await.unwrap();
    let (address, handle) = (server.address().unwrap(), server.stop_handle());
    Served { address, handle, ended: tokio::spawn(server.serve()) }
}

pub async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(LONG, future).await.expect("in time")
}

/// An HTTP response.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// The code of an error response.
    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().into()
    }
}

impl Served {
    /// Sends these bytes as they are, and reads until the connection ends.
    pub async fn raw(&self, bytes: &[u8]) -> Reply {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // The server may refuse the request before it has read all of it.
        let _ = stream.write_all(bytes).await;
        let mut response = Vec::new();
        let _ = within(stream.read_to_end(&mut response)).await;
        let response = String::from_utf8(response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
        Reply { status, head: head.to_lowercase(), body: body.into() }
    }

    /// A GET request with these headers, each on a line of its own.
    pub async fn get(&self, path: &str, headers: &str) -> Reply {
        let host = match headers.to_lowercase().contains("host:") {
            true => String::new(),
            false => format!("Host: {}\r\n", self.address),
        };
        let head = format!("GET {path} HTTP/1.1\r\n{host}Connection: close\r\n{headers}\r\n");
        self.raw(head.as_bytes()).await
    }

    pub async fn post(&self, body: impl AsRef<[u8]>, headers: &str) -> Reply {
        let body = body.as_ref();
        let (host, length) = (self.address, body.len());
        let head = format!(
            "POST /v1/run HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        self.raw(&[head.as_bytes(), body].concat()).await
    }

    /// A JSON request to `/v1/run`.
    pub async fn run(&self, body: &str) -> Reply {
        self.post(body, "Content-Type: application/json\r\n").await
    }

    /// Opens a stream, or returns the status and body of the error.
    pub async fn stream(
        &self,
        query: &str,
        headers: &[(&str, &str)],
    ) -> Result<Client, (u16, String)> {
        let url = format!("ws://{}/v1/stream{query}", self.address);
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
        }
        match within(connect_async(request)).await {
            Ok((socket, _)) => Ok(Client { socket }),
            Err(Error::Http(response)) => {
                let body = response.body().clone().unwrap_or_default();
                Err((response.status().as_u16(), String::from_utf8(body).unwrap()))
            }
            Err(other) => panic!("{other}"),
        }
    }

    /// A stream that has sent its first frame.
    pub async fn ready(&self, query: &str) -> Client {
        let mut client = self.stream(query, &[]).await.unwrap();
        let ready = client.frame().await.unwrap();
        assert!(ready.starts_with("{\"ready\":"), "{ready}");
        client
    }

    /// Asserts that both requests and streams still work.
    pub async fn still_serves(&self) {
        assert_eq!(self.get("/healthz", "").await.status, 200);
        let first = self.get("/v1/models", "").await.json()["models"][0]["name"].clone();
        let mut client = self.ready(&format!("?model={}", first.as_str().unwrap())).await;
        client.say(r#"{"flush": true}"#).await;
        assert_eq!(client.frame().await.unwrap(), r#"{"flushed":{"answers":0,"sequence":0}}"#);
    }

    pub async fn stop(self) -> bool {
        self.handle.stop();
        within(self.ended).await.unwrap()
    }
}

/// A client of a stream.
pub struct Client {
    pub socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl Client {
    pub async fn say(&mut self, text: &str) {
        self.send(Message::text(text)).await;
    }

    pub async fn send(&mut self, message: Message) {
        within(self.socket.send(message)).await.unwrap();
    }

    /// The next frame; None if the stream was closed.
    pub async fn frame(&mut self) -> Option<String> {
        loop {
            match within(self.socket.next()).await? {
                Ok(Message::Text(text)) => return Some(text.as_str().into()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    /// All frames up to the first that contains this.
    pub async fn until(&mut self, what: &str) -> Vec<String> {
        let mut frames = Vec::new();
        while !frames.last().is_some_and(|frame: &String| frame.contains(what)) {
            match self.frame().await {
                Some(frame) => frames.push(frame),
                None => panic!("closed instead of {what}, after {frames:?}"),
            }
        }
        frames
    }

    /// How the server closes it: the code of its error, the close code and the reason.
    pub async fn close_reason(&mut self) -> (String, u16, String) {
        let mut error = String::new();
        loop {
            match within(self.socket.next()).await {
                Some(Ok(Message::Text(text))) => {
                    let frame: Value = serde_json::from_str(&text).unwrap();
                    error = frame["error"]["code"].as_str().unwrap_or_default().into();
                }
                Some(Ok(Message::Close(Some(close)))) => {
                    return (error, close.code.into(), close.reason.as_str().into());
                }
                Some(Ok(_)) => {}
                other => panic!("{other:?} without a reason, after {error:?}"),
            }
        }
    }
}

/// The frames of a sequence run on its own: what the server must send.
pub fn alone(model: &LiveModel, sequence: u64, elements: &[Value]) -> Vec<String> {
    let mut stream = LiveStream::new(model).unwrap();
    let mut predictions = Vec::new();
    for element in elements {
        predictions.extend(stream.push(&model.element(element).unwrap()).unwrap());
    }
    predictions.extend(stream.flush().unwrap());
    let frame = |json: String| json.replacen('{', &format!("{{\"sequence\":{sequence},"), 1);
    predictions.iter().map(|prediction| frame(prediction.json())).collect()
}
