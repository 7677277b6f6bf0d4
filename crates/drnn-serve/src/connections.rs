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

use crate::client::Client;
use futures_util::task::AtomicWaker;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

/// All open connections.
#[derive(Debug)]
pub struct Connections {
    most: usize,
    begun: Instant,
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
    begun: Instant,
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
        let (open, left) = (Mutex::default(), Notify::new());
        Connections { most, begun: Instant::now(), open, left }
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
            begun: self.begun,
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
    /// for longest. One at least, and more where there are many, so that many who arrive at once do not
    /// have all looked through for each.
    fn close_quietest(&self) {
        let mut idle: HashMap<Client, Vec<Arc<Connection>>> = HashMap::new();
        for connection in self.lock().all.values().filter(|connection| connection.is_idle()) {
            idle.entry(connection.client).or_default().push(connection.clone());
        }
        let Some(mut quiet) = idle.into_values().max_by_key(Vec::len) else { return };
        let count = (quiet.len() / CLOSED_AT_ONCE).max(1);
        quiet.select_nth_unstable_by_key(count - 1, |c| c.moved.load(Ordering::Relaxed));
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
        let quiet = self.now().saturating_sub(self.moved.load(Ordering::Relaxed));
        !self.is_held() && !self.is_closed() && quiet >= MIN_QUIET.as_millis() as u64
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// A byte came or went.
    pub fn moved(&self) {
        self.moved.store(self.now(), Ordering::Relaxed);
    }

    /// What is sent is taken, or not.
    pub fn set_blocked(&self, blocked: bool) {
        if !blocked {
            self.blocked_since.store(NEVER, Ordering::Relaxed);
        } else if self.blocked_for().is_none() {
            self.blocked_since.store(self.now(), Ordering::Relaxed);
        }
    }

    fn blocked_for(&self) -> Option<Duration> {
        match self.blocked_since.load(Ordering::Relaxed) {
            NEVER => None,
            since => Some(Duration::from_millis(self.now().saturating_sub(since))),
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
    use std::net::IpAddr;
    use std::thread::sleep;

    fn client(last: u8) -> Client {
        IpAddr::from([10, 0, 0, last]).into()
    }

    const MOMENT: Duration = Duration::from_millis(5);

    #[test]
    fn the_quietest_of_the_client_with_the_most_makes_way() {
        let connections = Arc::new(Connections::new(6));
        let admit = |of: u8| {
            sleep(MOMENT);
            connections.try_admit(client(of))
        };
        let places = [1, 2, 2, 2, 2, 1].map(|of| admit(of).unwrap());
        assert!(admit(3).is_none());
        let _held = places[1].connection.hold();
        let closed_none = || places.iter().all(|place| !place.connection.is_closed());
        connections.close_quietest();
        assert!(closed_none(), "closed before it could have been read");
        sleep(MIN_QUIET);
        places[2].connection.moved();
        connections.close_quietest();
        let closed = || places.each_ref().map(|place| place.connection.is_closed());
        assert_eq!(closed(), [false, false, false, true, false, false]);
        // What is closed already is not closed again.
        sleep(MIN_QUIET);
        (0..4).for_each(|_| connections.close_quietest());
        assert_eq!(closed(), [true, false, true, true, true, true]);
        drop(places);
        assert!(connections.lock().all.is_empty());
    }

    #[test]
    fn those_that_take_nothing_are_closed_in_time() {
        let connections = Arc::new(Connections::new(3));
        let places = [1, 1, 1].map(|of| connections.try_admit(client(of)).unwrap());
        let [blocked, held, good] = places.each_ref().map(|place| &place.connection);
        let _guard = held.hold();
        blocked.set_blocked(true);
        held.set_blocked(true);
        good.set_blocked(true);
        sleep(4 * MOMENT);
        blocked.set_blocked(true); // still
        good.set_blocked(false);
        connections.close_blocked(2 * MOMENT);
        assert!(blocked.is_closed() && !held.is_closed() && !good.is_closed());
        assert!(blocked.check_open(Waker::noop()).is_err());
        assert!(good.check_open(Waker::noop()).is_ok());
    }
}
