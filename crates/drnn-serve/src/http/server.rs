//! The server: accepts connections, and stops gracefully.

use crate::http::body::DrainedBody;
use crate::http::client::Client;
use crate::http::connections::{Connection, Connections, STOPPING_WRITE_TIMEOUT};
use crate::http::routes::{Inner, Shared, router};
use crate::http::transport::Transport;
use crate::limits::budget::Budget;
use crate::limits::options::Options;
use crate::limits::streams::StreamCounts;
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

/// Maximum bytes of a request's head, and of buffered response data per connection.
pub const MAX_HEAD: usize = 16 << 10;
/// Size of the kernel's send buffer per connection, in bytes. Linux doubles it for bookkeeping.
const SEND_BUFFER: u32 = 128 << 10;
/// Connections that the kernel queues for accepting.
const BACKLOG: u32 = 1024;
/// Minimum time between warnings that connections cannot be accepted.
const WARN_INTERVAL: Duration = Duration::from_secs(10);
/// Time between checks for blocked connections.
const BLOCKED_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The connection that a request came on.
#[derive(Debug, Clone)]
pub struct Peer(pub Arc<Connection>);

/// A server that is bound to its address; [`Server::serve`] runs it.
pub struct Server {
    listener: TcpListener,
    router: Router,
    shared: Shared,
    stop: watch::Sender<bool>,
    ended: mpsc::Receiver<()>,
}

/// Stops a [`Server`]; clones stop the same one.
#[derive(Debug, Clone)]
pub struct StopHandle(watch::Sender<bool>);

impl StopHandle {
    /// Starts a graceful stop: the server accepts nothing more and finishes what it has accepted,
    /// within [`Options::drain`].
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    /// Binds to [`Options::listen`] and starts the threads of all models. Must be called in a Tokio
    /// runtime.
    ///
    /// Give each model a [`drnn::Cpu`] of one thread ([`drnn_tasks::live::LiveModel::on`]):
    /// concurrent requests and streams already use all cores.
    pub async fn bind(options: Options, models: Models) -> std::io::Result<Server> {
        let listener = listen(options.listen)?;
        let metrics = Metrics::new();
        let models = models.start(&options, &metrics)?;
        let (stop, stopping) = watch::channel(false);
        let (_alive, ended) = mpsc::channel(1);
        let streams = Arc::new(StreamCounts::default());
        let received = Budget::new(options.limits.received);
        let responses = Budget::new(options.limits.responses);
        let shared = Arc::new(Inner {
            options,
            models,
            metrics,
            streams,
            received,
            responses,
            stopping,
            _alive,
        });
        Ok(Server { listener, router: router(shared.clone()), shared, stop, ended })
    }

    /// The address that it listens at; useful if [`Options::listen`] had port 0.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Upper bound on the bytes that clients can make it allocate, without the models themselves.
    pub fn worst_case(&self) -> usize {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        self.shared.options.limits.worst_case(threads, self.shared.models.largest_stream())
    }

    /// A handle that stops it.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle(self.stop.clone())
    }

    /// Serves until it is stopped. True if everything accepted was finished within
    /// [`Options::drain`].
    pub async fn serve(self) -> bool {
        let Server { listener, router, shared, mut ended, stop: _stop } = self;
        let limits = &shared.options.limits;
        let connections = Arc::new(Connections::new(limits.connections));
        let closing = tokio::spawn(close_blocked(
            connections.clone(),
            limits.io_timeout,
            shared.stopping.clone(),
        ));
        let (mut stopping, mut warned) = (shared.stopping.clone(), None);
        loop {
            let accepted = async {
                match listener.accept().await {
                    Ok((stream, peer)) => {
                        let slot = connections.admit(Client::from(peer.ip())).await;
                        Some(Transport::new(stream, slot))
                    }
                    Err(e) => {
                        if warned.is_none_or(|at: Instant| at.elapsed() >= WARN_INTERVAL) {
                            tracing::warn!("cannot accept a connection: {e}; evicting an idle one");
                            warned = Some(Instant::now());
                        }
                        // Usually because file descriptors have run out.
                        connections.evict().await;
                        None
                    }
                }
            };
            tokio::select! {
                () = stop_requested(&mut stopping) => break,
                accepted = accepted => if let Some(transport) = accepted {
                    let (router, stopping) = (router.clone(), shared.stopping.clone());
                    tokio::spawn(serve_connection(transport, router, stopping, limits.io_timeout));
                },
            }
        }
        drop(listener);
        let drain = shared.options.drain;
        tracing::info!("stopping");
        drop((router, shared));
        // Nothing is ever sent: the channel closes when the last task drops the shared state.
        let finished = timeout(drain, ended.recv()).await.is_ok();
        closing.abort();
        finished
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if cfg!(unix) {
        socket.set_reuseaddr(true)?; // as TcpListener::bind does
    }
    // Inherited by connections. The default lets a client that does not read fill megabytes of
    // kernel memory.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Closes connections whose writes block, until the task is aborted.
async fn close_blocked(
    connections: Arc<Connections>,
    write_timeout: Duration,
    stopping: watch::Receiver<bool>,
) {
    let mut ticks = interval(BLOCKED_CHECK_INTERVAL);
    loop {
        ticks.tick().await;
        let write_timeout = match *stopping.borrow() {
            true => write_timeout.min(STOPPING_WRITE_TIMEOUT),
            false => write_timeout,
        };
        connections.close_blocked(write_timeout);
    }
}

/// Waits until the server is stopped.
pub async fn stop_requested(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await; // an error means that the server is gone
}

async fn serve_connection(
    transport: Transport,
    router: Router,
    mut stopping: watch::Receiver<bool>,
    io_timeout: Duration,
) {
    let _ = transport.set_options(io_timeout); // a broken connection fails at its first read
    let connection = transport.connection().clone();
    let stopped = stopping.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(connection.clone()));
        let request = DrainedBody::wrap(request, io_timeout, stopped.clone());
        router.clone().oneshot(request.map(Body::new))
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(io_timeout).max_buf_size(MAX_HEAD);
    let transport = TokioIo::new(transport);
    let mut connection = pin!(http.serve_connection(transport, service).with_upgrades());
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop_requested(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(e) = ended {
        tracing::debug!("a connection ended early: {e}");
    }
}
