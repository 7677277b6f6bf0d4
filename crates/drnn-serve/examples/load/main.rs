//! Puts load on a server, and checks what it says.
//!
//! ```text
//! cargo run --release -p drnn-serve --example load -- streams --streams 200 --rate 50 --seconds 60
//! cargo run --release -p drnn-serve --example load -- soak --streams 50 --seconds 60
//! cargo run --release -p drnn-serve --example load -- http --connections 32 --seconds 10 --body request.json
//! ```
//!
//! | option | what | default |
//! |---|---|---|
//! | `--address` | of the server | 127.0.0.1:8080 |
//! | `--model` | its name | that of the only one |
//! | `--pid` | of the server, to watch its memory | |
//! | `--streams`, `--rate`, `--seconds` | how many, elements a second of each, how long | 200, 50, 60 |
//! | `--connections`, `--body`, `--path` | `http`: how many, the file that each sends again and again, where to | 32, , /v1/run |
//!
//! Exit code 1 where anything was lost, out of order or unexplained.

mod client;
mod http;
mod memory;
mod soak;
mod streams;

use std::collections::HashMap;
use std::process::ExitCode;

/// `--name value` of the command line.
pub struct Options(HashMap<String, String>);

impl Options {
    fn get(&self, name: &str, default: &str) -> String {
        self.0.get(name).cloned().unwrap_or_else(|| default.into())
    }

    fn number<T: std::str::FromStr>(&self, name: &str, default: T) -> T {
        match self.0.get(name) {
            Some(text) => text.parse().unwrap_or_else(|_| panic!("--{name} {text}")),
            None => default,
        }
    }

    fn address(&self) -> String {
        self.get("address", "127.0.0.1:8080")
    }

    /// Behind the path of a stream.
    fn query(&self) -> String {
        self.0.get("model").map_or(String::new(), |name| format!("?model={name}"))
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().unwrap_or_default();
    let mut options = Options(HashMap::new());
    while let Some(name) = arguments.next() {
        let value = arguments.next().unwrap_or_else(|| panic!("{name} without a value"));
        options.0.insert(name.trim_start_matches("--").into(), value);
    }
    let good = match mode.as_str() {
        "streams" => streams::run(options).await,
        "soak" => soak::run(options).await,
        "http" => http::run(options).await,
        _ => panic!("streams, soak or http"),
    };
    ExitCode::from(u8::from(!good))
}

/// A share of sorted times, in milliseconds.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN) * 1e3
}
