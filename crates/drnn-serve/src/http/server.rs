//! Connections in, an orderly end.

use crate::http::body::Received;
use crate::http::client::Client;
use crate::http::connections::{Connection, Connections, STOPPING_PATIENCE};
use crate::http::routes::{Inner, Shared, router};
use crate::http::transport::Transport;
use crate::limits::budget::Budget;
use crate::limits::options::Options;
use crate::limits::streams::Seats;
use crate::metrics::Metrics;
use crate::models::Models;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{mpsc, watch};
use tokio::time::{interval, timeout};
use tower::ServiceExt;

/// Bytes of the head of a request, and of what is buffered of a connection's responses.
pub const MAX_HEAD: usize = 16 << 10;
/// Bytes that the system buffers of what a client is sent. Linux doubles it for its own needs.
const SEND_BUFFER: u32 = 128 << 10;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// How often the log says that no connection can be accepted.
const WARN_EVERY: Duration = Duration::from_secs(10);
/// How often it is looked for clients that do not take what they are sent.
const TICK: Duration = Duration::from_millis(100);

/// The connection that a request came on.
#[derive(Debug, Clone)]
pub struct Peer(pub Arc<Connection>);

/// A server that listens.
pub struct Server {
    listener: TcpListener,
    router: Router,
    shared: Shared,
    stop: watch::Sender<bool>,
    ended: mpsc::Receiver<()>,
}

/// Asks a server for its end.
#[derive(Debug, Clone)]
pub struct Stopping(watch::Sender<bool>);

impl Stopping {
    /// From now on nothing more is accepted; what was is finished.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    /// Listens, and starts the threads of all models. Each should run on one thread of its own
    /// ([`drnn_tasks::live::LiveModel::on`]): several requests and streams run at once as it is.
    pub async fn bind(options: Options, models: Models) -> std::io::Result<Server> {
        let listener = listen(options.listen)?;
        let metrics = Metrics::new();
        let models = models.start(&options, &metrics)?;
        let (stop, stopping) = watch::channel(false);
        let (_alive, ended) = mpsc::channel(1);
        let seats = Arc::new(Seats::default());
        let received = Budget::new(options.limits.received);
        let answers = Budget::new(options.limits.answers);
        let shared = Arc::new(Inner {
            options,
            models,
            metrics,
            seats,
            received,
            answers,
            stopping,
            _alive,
        });
        Ok(Server { listener, router: router(shared.clone()), shared, stop, ended })
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The most bytes that clients can make it hold, besides its models.
    pub fn worst_case(&self) -> usize {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        self.shared.options.limits.worst_case(threads, self.shared.models.largest_stream())
    }

    /// To ask it for its end.
    pub fn stopping(&self) -> Stopping {
        Stopping(self.stop.clone())
    }

    /// Serves until it is asked for its end: whether everything that was accepted was finished in time.
    pub async fn serve(self) -> bool {
        let Server { listener, router, shared, mut ended, stop: _stop } = self;
        let limits = &shared.options.limits;
        let connections = Arc::new(Connections::new(limits.connections));
        let closing = tokio::spawn(close_blocked(
            connections.clone(),
            limits.patience,
            shared.stopping.clone(),
        ));
        let (mut stopping, mut warned) = (shared.stopping.clone(), None);
        loop {
            let accepted = async {
                match listener.accept().await {
                    Ok((stream, peer)) => {
                        let place = connections.admit(Client::from(peer.ip())).await;
                        Some(Transport::new(stream, place))
                    }
                    Err(e) => {
                        if warned.is_none_or(|at: Instant| at.elapsed() >= WARN_EVERY) {
                            tracing::warn!(
                                "a connection cannot be accepted: {e}; an idle one is closed"
                            );
                            warned = Some(Instant::now());
                        }
                        // Mostly because there are no more file descriptors.
                        connections.make_way().await;
                        None
                    }
                }
            };
            tokio::select! {
                () = asked(&mut stopping) => break,
                accepted = accepted => if let Some(transport) = accepted {
                    let (router, stopping) = (router.clone(), shared.stopping.clone());
                    tokio::spawn(serve_connection(transport, router, stopping, limits.patience));
                },
            }
        }
        drop(listener);
        let drain = shared.options.drain;
        tracing::info!("stopping");
        drop((router, shared));
        // Nobody sends anything: it is over when nobody holds what is shared.
        let finished = timeout(drain, ended.recv()).await.is_ok();
        closing.abort();
        finished
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if cfg!(unix) {
        socket.set_reuseaddr(true)?; // as TcpListener::bind has it
    }
    // Connections inherit it. Otherwise a client that does not read makes the system buffer megabytes.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Closes connections that do not take what they are sent, for as long as it runs.
async fn close_blocked(
    connections: Arc<Connections>,
    patience: Duration,
    stopping: watch::Receiver<bool>,
) {
    let mut ticks = interval(TICK);
    loop {
        ticks.tick().await;
        let patience = match *stopping.borrow() {
            true => patience.min(STOPPING_PATIENCE),
            false => patience,
        };
        connections.close_blocked(patience);
    }
}

/// Waits until the end is asked for.
pub async fn asked(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await; // should nobody be left to ask, it is over too
}

async fn serve_connection(
    transport: Transport,
    router: Router,
    mut stopping: watch::Receiver<bool>,
    patience: Duration,
) {
    let _ = transport.set_options(patience); // a connection that is broken already shows soon
    let connection = transport.connection().clone();
    let stopped = stopping.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(connection.clone()));
        let request = Received::of(request, patience, stopped.clone());
        router.clone().oneshot(request.map(Body::new))
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(patience).max_buf_size(MAX_HEAD);
    let transport = TokioIo::new(transport);
    let mut connection = pin!(http.serve_connection(transport, service).with_upgrades());
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = asked(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(e) = ended {
        tracing::debug!("a connection ended early: {e}");
    }
}
