//! `drnn serve`: serves models by HTTP and WebSocket.
//!
//! | file | what |
//! |---|---|
//! | `models` | models on the command line: files, built-in ones, names |
//! | `quantity` | bytes and times on the command line |
//! | `logs`, `log_limit` | logs on stderr, and their rate limit |

mod log_limit;
mod logs;
mod models;
mod quantity;

use crate::Failure;
use crate::args::import::ImportArguments;
use clap::Args;
use drnn_serve::{Limits, Options, Server, Token};
use drnn_train::sine::results::MAX_RESULTS;
use logs::Level;
use quantity::{bytes, time};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Serve models: whole sequences by HTTP, live ones by WebSocket, and a page to try them at /
///
/// Without arguments, the built-in models are served. The API is at /openapi.json and in docs/SERVING.md.
/// Examples:
///   drnn serve
///   drnn serve out/series/model.safetensors tags=out/tagger/model.safetensors
///   drnn serve --listen 0.0.0.0:8080 --token-file token model.safetensors
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Model files, or built-in models such as chars-en and tagger-en; NAME=FILE sets the name of a model
    #[arg(value_name = "MODEL")]
    models: Vec<String>,
    /// Address to listen at; beyond this machine only with --token-file or --insecure
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// File with the token that clients must send: 16 to 256 letters, digits and -._~ and the like
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Accept every client that can reach the address, and any Host header
    #[arg(long, conflicts_with = "token_file")]
    insecure: bool,
    /// Another origin whose pages may send requests (CORS), like https://example.org; may repeat
    #[arg(long = "origin", value_name = "URL", value_parser = origin)]
    origins: Vec<String>,
    /// How long an element of a stream waits for those of other streams, to form a batch
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = time)]
    wait: Duration,
    /// Threads per model for whole sequences [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// On shutdown, time limit to finish accepted requests
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    drain: Duration,
    /// Results of `drnn sweep` (sweep.json), for the page
    #[arg(long, value_name = "FILE")]
    sweep: Option<PathBuf>,
    /// Log level
    #[arg(long, value_enum, value_name = "LEVEL", default_value = "info")]
    log: Level,
    /// Log as JSON, an object per line
    #[arg(long)]
    log_json: bool,
    #[command(flatten)]
    import: ImportArguments,
    #[command(flatten)]
    limits: LimitArguments,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
struct LimitArguments {
    /// Maximum bytes of a request body
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = bytes)]
    max_body: usize,
    /// Maximum elements of a request, over all sequences
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = count())]
    max_elements: u32,
    /// Maximum bytes of a stream's message
    #[arg(long, value_name = "BYTES", default_value = "64K", value_parser = bytes)]
    max_message: usize,
    /// Maximum queued elements of a stream, and of one message
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = count())]
    max_in_flight: u32,
    /// Maximum bytes of queued requests and messages of all clients; one client gets at most half
    #[arg(long, value_name = "BYTES", default_value = "32M", value_parser = bytes)]
    max_received: usize,
    /// Maximum bytes of responses in progress to all clients; one client gets at most half
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = bytes)]
    max_answers: usize,
    /// Maximum open connections, including streams; beyond it an idle one is closed
    #[arg(long, value_name = "N", default_value_t = 2048, value_parser = count())]
    max_connections: u32,
    /// Maximum live streams
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = count())]
    max_streams: u32,
    /// Maximum live streams of one client: an IPv4 address, or a /64 network of IPv6
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = count())]
    max_streams_per_client: u32,
    /// Maximum idle time of a stream
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
    idle: Duration,
    /// Maximum lifetime of a stream
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = time)]
    longest: Duration,
    /// Time limit for a client to send a request, or to accept a response
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    patience: Duration,
}

fn count() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=10_000_000)
}

fn origin(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match host {
        Some(host) if !host.is_empty() && !host.contains(['/', '*', ' ']) => Ok(text.into()),
        _ => Err("expected http:// or https:// and a host, without a path".into()),
    }
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let options = options(arguments)?;
    let models = models::load(&arguments.models, &arguments.import)?;
    logs::begin(arguments.log, arguments.log_json);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|e| Failure::Input(format!("cannot start threads: {e}")))?;
    let finished = runtime.block_on(serve(options, models));
    // Connections that are still open do not delay the end.
    runtime.shutdown_background();
    finished
}

async fn serve(options: Options, models: drnn_serve::Models) -> Result<(), Failure> {
    let (listen, names) = (options.listen, models.names().join(", "));
    let cannot = |e| {
        Failure::Input(format!("cannot listen at {listen}: {e}; --listen sets another address"))
    };
    let server = Server::bind(options, models).await.map_err(cannot)?;
    let address = server.address().map_err(cannot)?;
    // Before the address is announced: its reader may stop the server at once.
    let signals = Signals::new()?;
    tracing::info!(models = names, "listening at http://{address}");
    let mb = server.worst_case().div_ceil(1_000_000);
    tracing::info!("clients can make it use at most {mb} MB (docs/SERVING.md, Memory)");
    let handle = server.stop_handle();
    let signals = tokio::spawn(async move {
        let mut signals = signals;
        signals.next().await;
        handle.stop();
        signals.next().await;
        std::process::exit(130);
    });
    let finished = server.serve().await;
    signals.abort();
    match finished {
        true => tracing::info!("all accepted requests are finished"),
        false => tracing::warn!("not all requests were finished within --drain"),
    }
    Ok(())
}

/// Ctrl-C, and SIGTERM on Unix. Both are caught from `new` on, also before `next` is called.
struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(windows)]
    interrupt: tokio::signal::windows::CtrlC,
}

impl Signals {
    fn new() -> Result<Signals, Failure> {
        let cannot = |e| Failure::Input(format!("signals cannot be caught: {e}"));
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
            let terminate = signal(SignalKind::terminate()).map_err(cannot)?;
            Ok(Signals { interrupt, terminate })
        }
        #[cfg(windows)]
        Ok(Signals { interrupt: tokio::signal::windows::ctrl_c().map_err(cannot)? })
    }

    async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(windows)]
        self.interrupt.recv().await;
    }
}

fn options(arguments: &Arguments) -> Result<Options, Failure> {
    let token = arguments.token_file.as_deref().map(read_token).transpose()?;
    if !arguments.listen.ip().is_loopback() && token.is_none() && !arguments.insecure {
        return Err(Failure::Input(format!(
            "--listen {}: other machines can reach that address; use --token-file FILE, or --insecure to accept every client",
            arguments.listen
        )));
    }
    let mut options = Options::default();
    options.listen = arguments.listen;
    options.token = token;
    options.origins = arguments.origins.clone();
    options.any_host = arguments.insecure;
    options.wait = arguments.wait;
    options.threads = arguments.threads.map_or(options.threads, usize::from);
    options.drain = arguments.drain;
    options.sweep = arguments.sweep.as_deref().map(read_sweep).transpose()?;
    arguments.limits.apply(&mut options.limits);
    Ok(options)
}

impl LimitArguments {
    fn apply(&self, limits: &mut Limits) {
        limits.body = self.max_body;
        limits.elements = self.max_elements as usize;
        limits.message = self.max_message;
        limits.in_flight = self.max_in_flight as usize;
        limits.received = self.max_received;
        limits.responses = self.max_answers;
        limits.connections = self.max_connections as usize;
        limits.streams = self.max_streams as usize;
        limits.streams_per_client = self.max_streams_per_client as usize;
        limits.idle = self.idle;
        limits.max_lifetime = self.longest;
        limits.io_timeout = self.patience;
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    let cannot =
        |e: std::io::Error| Failure::Input(format!("{}: cannot be read: {e}", path.display()));
    let bytes = drnn::io::read_file(path, MAX_RESULTS).map_err(cannot)?;
    String::from_utf8(bytes).map_err(|_| cannot(std::io::ErrorKind::InvalidData.into()))
}

fn read_token(path: &Path) -> Result<Token, Failure> {
    Token::new(&read(path)?).map_err(|why| Failure::Input(format!("{}: {why}", path.display())))
}

/// Results of a sweep for the page, checked to be that.
pub fn read_sweep(path: &Path) -> Result<String, Failure> {
    let text = read(path)?;
    let kind = serde_json::from_str(&text).map(|value: serde_json::Value| value["kind"] == "sweep");
    match kind {
        Ok(true) => Ok(text),
        Ok(false) => Err(Failure::Input(format!(
            "{}: not a results file of `drnn sweep`, whose kind is \"sweep\"",
            path.display()
        ))),
        Err(e) => Err(Failure::Input(format!("{}: not JSON: {e}", path.display()))),
    }
}
