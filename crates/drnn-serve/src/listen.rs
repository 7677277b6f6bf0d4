//! Connections in, an orderly end.

use crate::metrics::Metrics;
use crate::models::Models;
use crate::options::Options;
use crate::routes::{Inner, Shared, router};
use crate::seats::Seats;
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
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};
use tower::ServiceExt;

/// Bytes of the head of a request.
const MOST_HEAD: usize = 64 << 10;
/// Where no more connections can be had, some may end soon.
const BREATH: Duration = Duration::from_millis(50);

/// The client's address.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

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
    /// ([`drnn_train::live::LiveModel::on`]): several requests and streams run at once as it is.
    pub async fn bind(options: Options, models: Models) -> std::io::Result<Server> {
        let listener = TcpListener::bind(options.listen).await?;
        let metrics = Metrics::new();
        let models = models.start(&options, &metrics)?;
        let (stop, stopping) = watch::channel(false);
        let (_alive, ended) = mpsc::channel(1);
        let seats = Arc::new(Seats::default());
        let shared = Arc::new(Inner { options, models, metrics, seats, stopping, _alive });
        Ok(Server { listener, router: router(shared.clone()), shared, stop, ended })
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// To ask it for its end.
    pub fn stopping(&self) -> Stopping {
        Stopping(self.stop.clone())
    }

    /// Serves until it is asked for its end: whether everything that was accepted was finished in time.
    pub async fn serve(self) -> bool {
        let Server { listener, router, shared, mut ended, stop: _stop } = self;
        let limits = shared.options.limits.clone();
        let room = Arc::new(Semaphore::new(limits.connections));
        let mut stopping = shared.stopping.clone();
        loop {
            let accepted = async {
                let place = room.clone().acquire_owned().await;
                (listener.accept().await, place)
            };
            let ((stream, peer), place) = tokio::select! {
                () = asked(&mut stopping) => break,
                accepted = accepted => match accepted {
                    (Ok(accepted), Ok(place)) => (accepted, place),
                    (Err(e), _) => {
                        tracing::warn!("a connection cannot be accepted: {e}");
                        sleep(BREATH).await;
                        continue;
                    }
                    (_, Err(_)) => break,
                },
            };
            let (router, stopping) = (router.clone(), shared.stopping.clone());
            let patience = limits.patience;
            tokio::spawn(async move {
                connection(stream, peer, router, stopping, patience).await;
                drop(place);
            });
        }
        drop(listener);
        let drain = shared.options.drain;
        tracing::info!("stopping");
        drop((router, shared));
        // Nobody sends anything: it is over when nobody holds what is shared.
        timeout(drain, ended.recv()).await.is_ok()
    }
}

/// Waits until the end is asked for.
pub async fn asked(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stop| *stop).await; // should nobody be left to ask, it is over too
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    mut stopping: watch::Receiver<bool>,
    patience: Duration,
) {
    // Answers are small and must not wait for each other.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Peer(peer));
        router.clone().oneshot(request.map(Body::new))
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(patience).max_buf_size(MOST_HEAD);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service).with_upgrades());
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
