//! Requests as fast as responses arrive, over persistent connections.

use crate::quantile;
use std::io::{Error, ErrorKind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

pub async fn run(
    address: String,
    path: String,
    body: Vec<u8>,
    connections: usize,
    seconds: f64,
) -> bool {
    let seconds = Duration::from_secs_f64(seconds);
    let request: Arc<[u8]> = request(&address, &path, &body).into();
    let begun = Instant::now();
    let each = (0..connections).map(|_| {
        let (address, request) = (address.clone(), request.clone());
        tokio::spawn(async move { again_and_again(&address, &request, begun + seconds).await })
    });
    let (mut times, mut failed) = (Vec::new(), 0);
    for connection in each.collect::<Vec<_>>() {
        match connection.await.map_err(Error::other).and_then(|found| found) {
            Ok((own, bad)) => {
                times.extend(own);
                failed += bad;
            }
            Err(e) => {
                failed += 1;
                eprintln!("{e}");
            }
        }
    }
    let rate = times.len() as f64 / begun.elapsed().as_secs_f64();
    times.sort_by(f64::total_cmp);
    println!(
        r#"{{"requests_per_second": {rate:.1}, "p50_ms": {:.3}, "p99_ms": {:.3}, "requests": {}, "failed": {failed}}}"#,
        quantile(&times, 0.5),
        quantile(&times, 0.99),
        times.len(),
    );
    failed == 0
}

async fn again_and_again(
    address: &str,
    request: &[u8],
    until: Instant,
) -> std::io::Result<(Vec<f64>, usize)> {
    let mut stream = connect(address).await?;
    let (mut times, mut failed) = (Vec::new(), 0);
    while Instant::now() < until {
        let begun = Instant::now();
        let (status, _) = exchange(&mut stream, request).await?;
        times.push(begun.elapsed().as_secs_f64());
        failed += usize::from(status != 200);
    }
    Ok((times, failed))
}

/// One request: status and body.
pub async fn post(address: &str, path: &str, body: &[u8]) -> std::io::Result<(u16, Vec<u8>)> {
    exchange(&mut connect(address).await?, &request(address, path, body)).await
}

/// A GET request.
pub async fn get(address: &str, path: &str) -> std::io::Result<(u16, Vec<u8>)> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    exchange(&mut connect(address).await?, request.as_bytes()).await
}

async fn connect(address: &str) -> std::io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(BufReader::new(stream))
}

fn request(address: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

async fn exchange(
    stream: &mut BufReader<TcpStream>,
    request: &[u8],
) -> std::io::Result<(u16, Vec<u8>)> {
    stream.write_all(request).await?;
    let (mut line, mut status, mut length) = (String::new(), 0, 0);
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end().split_once(':') {
            None if line.starts_with("HTTP/1.1 ") => status = line[9..12].parse().unwrap_or(0),
            None => break,
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap_or(0);
            }
            Some(_) => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok((status, body))
}
