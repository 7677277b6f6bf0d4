//! Options of a server, and the limits on what clients can make it hold.

use crate::http::guard::Token;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Options of a server. Start from the defaults and change fields:
///
/// ```
/// let mut options = drnn_serve::Options::default();
/// options.listen = ([127, 0, 0, 1], 0).into(); // any free port
/// options.limits.streams = 100;
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Address to listen at. Default 127.0.0.1:8080.
    pub listen: SocketAddr,
    /// The token that clients must send; None lets everyone in.
    pub token: Option<Token>,
    /// Other origins whose pages may use the API, such as `https://example.org`.
    pub origins: Vec<String>,
    /// Without a token: whether the Host header may have any name. The default allows localhost, IP
    /// addresses and the hosts of `origins`, which prevents DNS rebinding.
    pub any_host: bool,
    /// Maximum time that an element waits for elements of other streams, to be stepped with them.
    /// Default 1 ms.
    pub wait: Duration,
    /// Threads per model that run whole sequences. Default: the number of cores.
    pub threads: usize,
    /// After a stop, the time to finish what was accepted. Default 10 s.
    pub drain: Duration,
    /// Results of `drnn sweep`, as JSON, which the page shows.
    pub sweep: Option<String>,
    /// Limits on what clients can make the server hold.
    pub limits: Limits,
}

/// Limits on what clients can make the server hold. [`Limits::worst_case`] computes the memory that
/// follows from them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a request body.
    pub body: usize,
    /// Elements of a request, over all its sequences.
    pub elements: usize,
    /// Elements of requests that wait for a model.
    pub waiting: usize,
    /// Bytes of a stream's message.
    pub message: usize,
    /// Elements of a stream that wait to be read, and of one message.
    pub in_flight: usize,
    /// Bytes of waiting requests and messages, over all clients; one client gets at most half.
    pub received: usize,
    /// Bytes of responses that are computed or sent, over all clients; one client gets at most half.
    pub responses: usize,
    /// Open connections, including streams. At the limit, an idle connection is evicted for a new one.
    pub connections: usize,
    /// Live streams.
    pub streams: usize,
    /// Live streams of one client: an IPv4 address, or a /64 network of IPv6 addresses.
    pub streams_per_client: usize,
    /// Time after which a stream without messages is closed.
    pub idle: Duration,
    /// Maximum lifetime of a stream.
    pub max_lifetime: Duration,
    /// Maximum time for a client to send a request, and to accept data that it is sent.
    pub io_timeout: Duration,
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
            responses: 64 << 20,
            connections: 2048,
            streams: 1000,
            streams_per_client: 500,
            idle: Duration::from_secs(5 * 60),
            max_lifetime: Duration::from_secs(24 * 60 * 60),
            io_timeout: Duration::from_secs(10),
        }
    }
}
