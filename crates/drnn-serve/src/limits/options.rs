//! What can be chosen, and how much of everything there may be.

use crate::http::guard::Token;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// How a server behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where it listens.
    pub listen: SocketAddr,
    /// What clients must show; None lets everyone in.
    pub token: Option<Token>,
    /// Other origins whose pages may ask, `https://example.org`.
    pub origins: Vec<String>,
    /// Whether a host of any name is answered without a token. Otherwise only addresses and localhost are, so that
    /// no page can reach a server on its visitor's machine by a name of its own.
    pub any_host: bool,
    /// How long an element waits for those of other streams.
    pub wait: Duration,
    /// Threads that run whole sequences, of each model.
    pub threads: usize,
    /// How long what was accepted has to be finished at the end.
    pub drain: Duration,
    /// Results of `drnn sweep`, as JSON, for the page.
    pub sweep: Option<String>,
    /// How much there may be.
    pub limits: Limits,
}

/// How much there may be of everything that clients can make grow.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of the body of a request.
    pub body: usize,
    /// Elements of a request, all sequences together.
    pub elements: usize,
    /// Elements of requests that wait for a model.
    pub waiting: usize,
    /// Bytes of a message of a stream.
    pub message: usize,
    /// Elements of a stream that wait to be read.
    pub in_flight: usize,
    /// Bytes of requests and messages that wait, of all clients; one gets at most half of it.
    pub received: usize,
    /// Bytes of answers to requests that are being made or sent, likewise.
    pub answers: usize,
    /// Open connections, streams included; for one more, an idle one is closed.
    pub connections: usize,
    /// Live streams.
    pub streams: usize,
    /// Of one client: an IPv4 address, or a /64 network of IPv6.
    pub streams_per_client: usize,
    /// How long a stream may say nothing.
    pub idle: Duration,
    /// How long a stream may live.
    pub longest: Duration,
    /// How long a client may take to send a request, or to accept what it is sent.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080),
            token: None,
            origins: Vec::new(),
            any_host: false,
            wait: Duration::from_millis(1),
            threads: std::thread::available_parallelism().map_or(1, |n| n.get()),
            drain: Duration::from_secs(10),
            sweep: None,
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body: 1 << 20,
            elements: 20_000,
            waiting: 200_000,
            message: 64 << 10,
            in_flight: 4096,
            received: 32 << 20,
            answers: 64 << 20,
            connections: 2048,
            streams: 1000,
            streams_per_client: 500,
            idle: Duration::from_secs(5 * 60),
            longest: Duration::from_secs(24 * 60 * 60),
            patience: Duration::from_secs(10),
        }
    }
}
