//! Who is connected, and which connections are closed for the sake of others.
//!
//! | a connection is closed when | |
//! |---|---|
//! | it has not taken a byte of what it is sent for `--patience` | while the server stops: for a second |
//! | there is one more than `--max-connections`, or than the system has descriptors for | of the client with the most, those that have moved no byte for longest |
//!
//! One whose request is being answered, or that is a live stream, is *held*: it is not closed to make
//! way for others. So nobody keeps a connection that others need by being silent, by not reading, or by
//! sending slowly.

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

/// How long a connection that is held may take beyond its patience: a stream tells its client why it
/// is closed.
pub const FAREWELL: Duration = Duration::from_millis(500);
/// While the server stops, how long a client may take nothing of what it is sent.
pub const STOPPING_PATIENCE: Duration = Duration::from_secs(1);
/// How long a connection has moved no byte that can make way: what it has sent may not be read yet.
const MIN_QUIET: Duration = Duration::from_millis(250);
/// Of so many idle connections one is closed at once.
const CLOSED_AT_ONCE: usize = 64;
/// How long one that was closed is waited for, before all are looked through again.
const RETRY: Duration = Duration::from_millis(50);
/// Of [`Connection::blocked_since`]: it is not.
const NEVER: u64 = u64::MAX;

/// Milliseconds since some fixed moment. Tests put one of their own in its place.
type Clock = fn() -> u64;

fn monotonic() -> u64 {
    static BEGUN: LazyLock<Instant> = LazyLock::new(Instant::now);
    BEGUN.elapsed().as_millis() as u64
}

/// All open connections.
#[derive(Debug)]
pub struct Connections {
    most: usize,
    clock: Clock,
    open: Mutex<Open>,
    left: Notify,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    all: HashMap<u64, Arc<Connection>>,
}

/// One of them, as everybody sees it.
#[derive(Debug)]
pub struct Connection {
    client: Client,
    clock: Clock,
    /// When a byte last came or went, in milliseconds.
    moved: AtomicU64,
    /// Since when what is sent is not taken.
    blocked_since: AtomicU64,
    holders: AtomicUsize,
    closed: AtomicBool,
    waker: AtomicWaker,
}

/// Its place among them, until it is dropped.
#[derive(Debug)]
pub struct Place {
    connections: Arc<Connections>,
    number: u64,
    pub connection: Arc<Connection>,
}

/// Keeps a connection from being closed to make way for others.
#[derive(Debug)]
pub struct Held(Arc<Connection>);

impl Connections {
    /// At most so many.
    pub fn new(most: usize) -> Connections {
        Connections::with_clock(most, monotonic)
    }

    fn with_clock(most: usize, clock: Clock) -> Connections {
        Connections { most, clock, open: Mutex::default(), left: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection; another is closed for it where all are taken.
    pub async fn admit(self: &Arc<Self>, client: Client) -> Place {
        loop {
            match self.try_admit(client) {
                Some(place) => return place,
                None => self.make_way().await,
            }
        }
    }

    /// Closes some, and waits for a moment until one has left.
    pub async fn make_way(&self) {
        self.close_quietest();
        let _ = timeout(RETRY, self.left.notified()).await;
    }

    fn try_admit(self: &Arc<Self>, client: Client) -> Option<Place> {
        let mut open = self.lock();
        if open.all.len() >= self.most {
            return None;
        }
        let connection = Arc::new(Connection {
            client,
            clock: self.clock,
            moved: AtomicU64::new(0),
            blocked_since: AtomicU64::new(NEVER),
            holders: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        connection.moved();
        let number = open.next;
        open.next += 1;
        open.all.insert(number, connection.clone());
        Some(Place { connections: self.clone(), number, connection })
    }

    /// Closes some that nobody holds: of the client with the most of them, those that have moved no byte
    /// for longest; of two clients with as many, the one with the quietest. One at least, and more where there are many, so that many who arrive at once do not
    /// have all looked through for each.
    fn close_quietest(&self) {
        let mut idle: HashMap<Client, Vec<Arc<Connection>>> = HashMap::new();
        for connection in self.lock().all.values().filter(|connection| connection.is_idle()) {
            idle.entry(connection.client).or_default().push(connection.clone());
        }
        let moved = |connection: &Arc<Connection>| connection.moved.load(Ordering::Relaxed);
        let order = |of: &Vec<_>| (of.len(), Reverse(of.iter().map(moved).min()));
        let Some(mut quiet) = idle.into_values().max_by_key(order) else { return };
        let count = (quiet.len() / CLOSED_AT_ONCE).max(1);
        quiet.select_nth_unstable_by_key(count - 1, moved);
        quiet[..count].iter().for_each(|connection| connection.close());
    }

    /// Closes those that have not taken a byte of what they are sent for as long as `patience`.
    pub fn close_blocked(&self, patience: Duration) {
        let is_blocked = |connection: &&Arc<Connection>| {
            let extra = if connection.is_held() { FAREWELL } else { Duration::ZERO };
            connection.blocked_for().is_some_and(|time| time >= patience + extra)
        };
        let blocked: Vec<_> = self.lock().all.values().filter(is_blocked).cloned().collect();
        // Without the lock: whoever is woken may end at once, and give up its place.
        blocked.iter().for_each(|connection| connection.close());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().all.remove(&self.number);
        self.connections.left.notify_one();
    }
}

impl Connection {
    /// Whose it is.
    pub fn client(&self) -> Client {
        self.client
    }

    /// Until the guard is dropped, it is not closed to make way for others.
    pub fn hold(self: &Arc<Self>) -> Held {
        self.holders.fetch_add(1, Ordering::Relaxed);
        Held(self.clone())
    }

    fn is_held(&self) -> bool {
        self.holders.load(Ordering::Relaxed) > 0
    }

    /// Whether it can make way for others.
    fn is_idle(&self) -> bool {
        let quiet = (self.clock)().saturating_sub(self.moved.load(Ordering::Relaxed));
        !self.is_held() && !self.is_closed() && quiet >= MIN_QUIET.as_millis() as u64
    }

    /// A byte came or went.
    pub fn moved(&self) {
        self.moved.store((self.clock)(), Ordering::Relaxed);
    }

    /// What is sent is taken, or not.
    pub fn set_blocked(&self, blocked: bool) {
        if !blocked {
            self.blocked_since.store(NEVER, Ordering::Relaxed);
        } else if self.blocked_for().is_none() {
            self.blocked_since.store((self.clock)(), Ordering::Relaxed);
        }
    }

    fn blocked_for(&self) -> Option<Duration> {
        match self.blocked_since.load(Ordering::Relaxed) {
            NEVER => None,
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

    /// An error once it was closed; `waker` is woken then.
    pub fn check_open(&self, waker: &Waker) -> io::Result<()> {
        self.waker.register(waker);
        match self.is_closed() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(()),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.holders.fetch_sub(1, Ordering::Relaxed);
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

    fn connections(most: usize) -> Arc<Connections> {
        Arc::new(Connections::with_clock(most, || NOW.get()))
    }

    fn client(last: u8) -> Client {
        IpAddr::from([10, 0, 0, last]).into()
    }

    const MOMENT: Duration = Duration::from_millis(5);

    /// Connections of these clients, each begun a moment after the one before.
    fn admit<const N: usize>(all: &Arc<Connections>, clients: [u8; N]) -> [Place; N] {
        clients.map(|of| {
            advance(MOMENT);
            all.try_admit(client(of)).unwrap()
        })
    }

    fn closed<const N: usize>(places: &[Place; N]) -> [bool; N] {
        places.each_ref().map(|place| place.connection.is_closed())
    }

    #[test]
    fn the_quietest_of_the_client_with_the_most_makes_way() {
        let connections = connections(7);
        let places = admit(&connections, [1, 2, 2, 2, 2, 2, 1]);
        assert!(connections.try_admit(client(3)).is_none());
        let _held = places[1].connection.hold();
        connections.close_quietest();
        assert_eq!(closed(&places), [false; 7], "closed before it could have been read");
        advance(MIN_QUIET);
        places[2].connection.moved();
        connections.close_quietest();
        assert_eq!(closed(&places), [false, false, false, true, false, false, false]);
        // Now the clients have two each that are idle, and the first has the quietest.
        connections.close_quietest();
        assert_eq!(closed(&places), [true, false, false, true, false, false, false]);
        // What is closed already is not closed again.
        advance(MIN_QUIET);
        (0..5).for_each(|_| connections.close_quietest());
        assert_eq!(closed(&places), [true, false, true, true, true, true, true]);
        drop(places);
        assert!(connections.lock().all.is_empty());
    }

    #[test]
    fn those_that_take_nothing_are_closed_in_time() {
        let connections = connections(3);
        let places = admit(&connections, [1, 1, 1]);
        let [blocked, held, good] = places.each_ref().map(|place| &place.connection);
        let _guard = held.hold();
        blocked.set_blocked(true);
        held.set_blocked(true);
        good.set_blocked(true);
        advance(4 * MOMENT);
        blocked.set_blocked(true); // still
        good.set_blocked(false);
        connections.close_blocked(5 * MOMENT);
        assert_eq!(closed(&places), [false; 3]);
        connections.close_blocked(4 * MOMENT);
        assert_eq!(closed(&places), [true, false, false]);
        assert!(blocked.check_open(Waker::noop()).is_err());
        assert!(good.check_open(Waker::noop()).is_ok());
        advance(FAREWELL);
        connections.close_blocked(4 * MOMENT);
        assert_eq!(closed(&places), [true, true, false]);
    }
}
