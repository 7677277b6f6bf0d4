//! Load tests of a server, which check its responses.
//!
//! ```text
//! cargo run --release -p drnn-serve --example load -- streams --streams 200 --rate 50 --seconds 60
//! cargo run --release -p drnn-serve --example load -- soak --streams 50 --seconds 60
//! cargo run --release -p drnn-serve --example load -- attack --kind pings --seconds 60
//! cargo run --release -p drnn-serve --example load -- http --connections 32 --seconds 10 --body request.json
//! ```
//!
//! Exit code 1 if anything was lost, out of order or unexplained.

mod attack;
mod client;
mod http;
mod memory;
mod server;
mod soak;
mod streams;

use clap::{Args, Parser};
use std::path::PathBuf;
use std::process::ExitCode;

/// Load tests of a server, which check its responses
#[derive(Debug, Parser)]
enum Load {
    /// Live streams at a steady rate: do all predictions arrive, in order and in time?
    Streams {
        #[command(flatten)]
        to: Streams,
        /// Elements per second of each stream
        #[arg(long, default_value_t = 50.0)]
        rate: f64,
    },
    /// Good and bad clients of every kind: do all predictions arrive, or are streams closed with a reason?
    Soak {
        #[command(flatten)]
        to: Streams,
        /// Starts the server itself, repeatedly: the program and its arguments, at --address
        #[arg(long, value_name = "PROGRAM")]
        server: Option<String>,
        /// Seconds until that server gets a SIGTERM
        #[arg(long, default_value_t = 60.0, requires = "server")]
        stop_every: f64,
    },
    /// Attackers together with good clients: are the good ones still served?
    Attack(attack::Attack),
    /// Whole sequences: how many requests per second?
    Http {
        /// The server's address
        #[arg(long, default_value = "127.0.0.1:8080")]
        address: String,
        #[arg(long, default_value_t = 32)]
        connections: usize,
        #[arg(long, default_value_t = 10.0)]
        seconds: f64,
        /// The file with the body of every request
        #[arg(long)]
        body: PathBuf,
        #[arg(long, default_value = "/v1/run")]
        path: String,
    },
}

/// Options of the streams.
#[derive(Debug, Clone, Args)]
pub struct Streams {
    /// The server's address
    #[arg(long, default_value = "127.0.0.1:8080")]
    address: String,
    /// The model, if there are several
    #[arg(long)]
    model: Option<String>,
    /// The server's process, to watch its memory
    #[arg(long)]
    pid: Option<u32>,
    #[arg(long, default_value_t = 200)]
    streams: usize,
    #[arg(long, default_value_t = 60.0)]
    seconds: f64,
}

impl Streams {
    /// The query of a stream's URL.
    fn query(&self) -> String {
        self.model.as_ref().map_or(String::new(), |name| format!("?model={name}"))
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let good = match Load::parse() {
        Load::Streams { to, rate } => streams::run(to, rate).await,
        Load::Soak { to, server, stop_every } => soak::run(to, server.as_deref(), stop_every).await,
        Load::Attack(attack) => attack::run(attack).await,
        Load::Http { address, connections, seconds, body, path } => match std::fs::read(&body) {
            Ok(body) => http::run(address, path, body, connections, seconds).await,
            Err(e) => {
                eprintln!("{}: {e}", body.display());
                return ExitCode::from(2);
            }
        },
    };
    ExitCode::from(u8::from(!good))
}

/// A quantile of sorted times, in milliseconds.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN) * 1e3
}
