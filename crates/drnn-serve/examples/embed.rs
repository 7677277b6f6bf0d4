//! A server inside another program: starts it on a free port, sends a request, stops it.
//! `cargo run --release --example embed`

use drnn::{Cell, Cpu, Model, NetSpec, Padding};
use drnn_serve::{Models, Options, Server};
use drnn_tasks::live::LiveModel;
use std::error::Error;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // A model: here one with random parameters; LiveModel::load reads a file.
    let spec = NetSpec::builder(Cell::Lstm).dense(1).units([16]).delay(2, Padding::Null);
    let model = Model::init(&spec.outputs(1).build()?, 1)?;
    let mut models = Models::new();
    // The server runs requests concurrently, so that each needs one thread only.
    models.add(LiveModel::new("demo", model)?.on(&Cpu::new(1)))?;

    // Port 0 is any that is free. The other options have defaults.
    let mut options = Options::default();
    options.listen = "127.0.0.1:0".parse()?;
    let server = Server::bind(options, models).await?;
    let (address, stop) = (server.address()?, server.stop_handle());
    let serving = tokio::spawn(server.serve());

    let request = r#"{"model": "demo", "sequences": [[[0.1], [0.2], [0.3]]]}"#;
    println!("{request}");
    println!("{}", post(address, "/v1/run", request).await?);

    stop.stop();
    println!("everything that was accepted was finished: {}", serving.await?);
    Ok(())
}

/// A plain HTTP client: what a reply has after its head. Your program will use a library.
async fn post(address: SocketAddr, path: &str, body: &str) -> Result<String, Box<dyn Error>> {
    let mut connection = TcpStream::connect(address).await?;
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    connection.write_all(format!("{head}{body}").as_bytes()).await?;
    let mut reply = String::new();
    connection.read_to_string(&mut reply).await?;
    let (head, body) = reply.split_once("\r\n\r\n").ok_or("not HTTP")?;
    match head.starts_with("HTTP/1.1 200") {
        true => Ok(body.into()),
        false => Err(reply.into()),
    }
}
