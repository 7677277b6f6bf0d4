//! All open connections, and which of them are closed by the server.
//!
//! | the server closes a connection | which one |
//! |---|---|
//! | because its client has accepted no byte for `--patience` (1 s while the server stops) | that one |
//! | to accept another, at `--max-connections` or when file descriptors run out | of the client with the most idle connections, the one idle for longest |
//!
//! A connection is *protected* from eviction while its request is being processed and while it
//! carries a live stream. So a client cannot occupy connections by sending nothing, by not reading
//! or by sending slowly.

use crate::http::client::Client;
use futures_util::task::AtomicWaker;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Time beyond the write timeout that a protected connection has to send its close frame.
pub const CLOSE_GRACE: Duration = Duration::from_millis(500);
/// The write timeout while the server stops.
pub const STOPPING_WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// A connection idle for less is not evicted: the server may not have read yet what it has sent.
const MIN_IDLE: Duration = Duration::from_millis(250);
/// An eviction closes one connection in this many of the client's idle ones, and at least one.
const EVICTED_FRACTION: usize = 64;
/// How long to wait for an evicted connection to end before evicting again.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(50);
/// The value of [`Connection::blocked_since`] while writes succeed.
const NOT_BLOCKED: u64 = u64::MAX;

/// Milliseconds since some fixed instant. Tests inject their own.
type Clock = fn() -> u64;

fn monotonic() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    START.elapsed().as_millis() as u64
}

/// All open connections.
#[derive(Debug)]
pub struct Connections {
    max: usize,
    clock: Clock,
    open: Mutex<Open>,
    /// Notified when a connection has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    all: HashMap<u64, Arc<Connection>>,
}

/// The state of a connection that all tasks share.
#[derive(Debug)]
pub struct Connection {
    client: Client,
    clock: Clock,
    /// When the last byte was read or written, in the clock's milliseconds.
    last_activity: AtomicU64,
    /// Since when writes block, or [`NOT_BLOCKED`].
    blocked_since: AtomicU64,
    /// Guards that protect it from eviction.
    guards: AtomicUsize,
    closed: AtomicBool,
    waker: AtomicWaker,
}

/// A connection's entry in [`Connections`], removed when it is dropped.
#[derive(Debug)]
pub struct ConnectionSlot {
    connections: Arc<Connections>,
    number: u64,
    pub connection: Arc<Connection>,
}

/// Protects a connection from eviction until it is dropped.
#[derive(Debug)]
pub struct EvictionGuard(Arc<Connection>);

impl Connections {
    /// Allows at most `max` open connections.
    pub fn new(max: usize) -> Connections {
        Connections::with_clock(max, monotonic)
    }

    fn with_clock(max: usize, clock: Clock) -> Connections {
        Connections { max, clock, open: Mutex::default(), ended: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for a new connection. At the limit, it evicts idle connections until there is one.
    pub async fn admit(self: &Arc<Self>, client: Client) -> ConnectionSlot {
        loop {
            match self.try_admit(client) {
                Some(slot) => return slot,
                None => self.evict().await,
            }
        }
    }

    /// Evicts idle connections and waits until one has ended, at most [`ACCEPT_BACKOFF`].
    pub async fn evict(&self) {
        self.close_idle();
        let _ = timeout(ACCEPT_BACKOFF, self.ended.notified()).await;
    }

    fn try_admit(self: &Arc<Self>, client: Client) -> Option<ConnectionSlot> {
        let mut open = self.lock();
        if open.all.len() >= self.max {
            return None;
        }
        let connection = Arc::new(Connection {
            client,
            clock: self.clock,
            last_activity: AtomicU64::new(0),
            blocked_since: AtomicU64::new(NOT_BLOCKED),
            guards: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        connection.record_activity();
        let number = open.next;
        open.next += 1;
        open.all.insert(number, connection.clone());
        Some(ConnectionSlot { connections: self.clone(), number, connection })
    }

    /// Closes idle connections of the client that has the most of them, those idle for longest
    /// first; between clients with equally many, the one with the connection idle for longest loses.
    /// Closes several if there are many, so that a burst of arrivals does not scan all connections
    /// for each.
    fn close_idle(&self) {
        let mut idle: HashMap<Client, Vec<Arc<Connection>>> = HashMap::new();
        for connection in self.lock().all.values().filter(|connection| connection.is_idle()) {
            idle.entry(connection.client).or_default().push(connection.clone());
        }
        let activity = |connection: &Arc<Connection>| {
            let last = &connection.last_activity;
            last.load(Ordering::Relaxed)
        };
        let order = |of: &Vec<_>| (of.len(), Reverse(of.iter().map(activity).min()));
        let Some(mut victims) = idle.into_values().max_by_key(order) else { return };
        let count = (victims.len() / EVICTED_FRACTION).max(1);
        victims.select_nth_unstable_by_key(count - 1, activity);
        victims[..count].iter().for_each(|connection| connection.close());
    }

    /// Closes connections whose writes have blocked for `write_timeout`.
    pub fn close_blocked(&self, write_timeout: Duration) {
        let is_blocked = |connection: &&Arc<Connection>| {
            let extra = if connection.is_protected() { CLOSE_GRACE } else { Duration::ZERO };
            connection.blocked_for().is_some_and(|time| time >= write_timeout + extra)
        };
        let blocked: Vec<_> = self.lock().all.values().filter(is_blocked).cloned().collect();
        // Without the lock: a task that is woken may end at once and drop its slot.
        blocked.iter().for_each(|connection| connection.close());
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.lock().all.remove(&self.number);
        self.connections.ended.notify_one();
    }
}

impl Connection {
    /// The client that per-client limits count it for.
    pub fn client(&self) -> Client {
        self.client
    }

    /// Protects it from eviction until the guard is dropped.
    pub fn protect(self: &Arc<Self>) -> EvictionGuard {
        self.guards.fetch_add(1, Ordering::Relaxed);
        EvictionGuard(self.clone())
    }

    fn is_protected(&self) -> bool {
        self.guards.load(Ordering::Relaxed) > 0
    }

    /// Whether it can be evicted.
    fn is_idle(&self) -> bool {
        let idle = (self.clock)().saturating_sub(self.last_activity.load(Ordering::Relaxed));
        !self.is_protected() && !self.is_closed() && idle >= MIN_IDLE.as_millis() as u64
    }

    /// Bytes were read or written.
    pub fn record_activity(&self) {
        self.last_activity.store((self.clock)(), Ordering::Relaxed);
    }

    /// Whether the last write blocked.
    pub fn set_blocked(&self, blocked: bool) {
        if !blocked {
            self.blocked_since.store(NOT_BLOCKED, Ordering::Relaxed);
        } else if self.blocked_for().is_none() {
            self.blocked_since.store((self.clock)(), Ordering::Relaxed);
        }
    }

    fn blocked_for(&self) -> Option<Duration> {
        match self.blocked_since.load(Ordering::Relaxed) {
            NOT_BLOCKED => None,
            since => Some(Duration::from_millis((self.clock)().saturating_sub(since))),
        }
    }

    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.waker.wake();
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// An error once it is closed; `waker` is woken then.
    pub fn check_open(&self, waker: &Waker) -> io::Result<()> {
        self.waker.register(waker);
        match self.is_closed() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(()),
        }
    }
}

impl Drop for EvictionGuard {
    fn drop(&mut self) {
        self.0.guards.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::net::IpAddr;

    thread_local!(static NOW: Cell<u64> = const { Cell::new(0) });

    fn advance(time: Duration) {
        NOW.set(NOW.get() + time.as_millis() as u64);
    }

    fn connections(max: usize) -> Arc<Connections> {
        Arc::new(Connections::with_clock(max, || NOW.get()))
    }

    fn client(last: u8) -> Client {
        IpAddr::from([10, 0, 0, last]).into()
    }

    const TICK: Duration = Duration::from_millis(5);

    /// Connections of these clients, each opened one tick after the previous one.
    fn admit<const N: usize>(all: &Arc<Connections>, clients: [u8; N]) -> [ConnectionSlot; N] {
        clients.map(|of| {
            advance(TICK);
            all.try_admit(client(of)).unwrap()
        })
    }

    fn closed<const N: usize>(slots: &[ConnectionSlot; N]) -> [bool; N] {
        slots.each_ref().map(|slot| slot.connection.is_closed())
    }

    #[test]
    fn the_longest_idle_connection_of_the_client_with_the_most_is_evicted() {
        let connections = connections(7);
        let slots = admit(&connections, [1, 2, 2, 2, 2, 2, 1]);
        assert!(connections.try_admit(client(3)).is_none());
        let _guard = slots[1].connection.protect();
        connections.close_idle();
        assert_eq!(closed(&slots), [false; 7], "closed before it could have been read");
        advance(MIN_IDLE);
        slots[2].connection.record_activity();
        connections.close_idle();
        assert_eq!(closed(&slots), [false, false, false, true, false, false, false]);
        // Now both clients have two idle connections, and the first has the one idle for longest.
        connections.close_idle();
        assert_eq!(closed(&slots), [true, false, false, true, false, false, false]);
        // Connections that are closed already do not count.
        advance(MIN_IDLE);
        (0..5).for_each(|_| connections.close_idle());
        assert_eq!(closed(&slots), [true, false, true, true, true, true, true]);
        drop(slots);
        assert!(connections.lock().all.is_empty());
    }

    #[test]
    fn blocked_connections_are_closed_after_the_write_timeout() {
        let connections = connections(3);
        let slots = admit(&connections, [1, 1, 1]);
        let [blocked, protected, good] = slots.each_ref().map(|slot| &slot.connection);
        let _guard = protected.protect();
        blocked.set_blocked(true);
        protected.set_blocked(true);
        good.set_blocked(true);
        advance(4 * TICK);
        blocked.set_blocked(true); // still
        good.set_blocked(false);
        connections.close_blocked(5 * TICK);
        assert_eq!(closed(&slots), [false; 3]);
        connections.close_blocked(4 * TICK);
        assert_eq!(closed(&slots), [true, false, false]);
        assert!(blocked.check_open(Waker::noop()).is_err());
        assert!(good.check_open(Waker::noop()).is_ok());
        advance(CLOSE_GRACE);
        connections.close_blocked(4 * TICK);
        assert_eq!(closed(&slots), [true, true, false]);
    }
}
