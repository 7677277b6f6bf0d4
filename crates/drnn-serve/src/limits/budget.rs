//! Memory budgets: bytes held for all clients together, of which one client gets at most half.
//!
//! ```text
//! lease = budget.lease(client, bytes)     waits until that many are available
//! ```
//!
//! The first bytes of a request, and of a stream's first pending message, need no lease, so that small
//! ones are served even while others exhaust the budget. The number of connections bounds them.

use crate::http::client::Client;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Clients without a lease are removed from the table once it has more entries.
const REMEMBERED_CLIENTS: usize = 1024;

/// A number of bytes in total, and a share per client.
#[derive(Debug)]
pub struct Budget {
    all: Arc<Semaphore>,
    /// Maximum bytes of one client.
    share: usize,
    clients: Mutex<HashMap<Client, Weak<Semaphore>>>,
}

/// Bytes taken from a budget, returned when it is dropped.
#[derive(Debug)]
pub struct Lease {
    /// From the client's share.
    own: OwnedSemaphorePermit,
    all: OwnedSemaphorePermit,
}

impl Budget {
    /// A budget of this many bytes.
    pub fn new(bytes: usize) -> Budget {
        let bytes = bytes.min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
        let all = Arc::new(Semaphore::new(bytes));
        Budget { all, share: bytes.div_ceil(2), clients: Mutex::default() }
    }

    /// Maximum bytes of one client.
    pub fn share(&self) -> usize {
        self.share
    }

    /// Waits for `bytes`, first come, first served. None if that exceeds a client's share.
    pub async fn lease(&self, client: Client, bytes: usize) -> Option<Lease> {
        let bytes = u32::try_from(bytes).ok().filter(|bytes| *bytes as usize <= self.share)?;
        // The client's share first: a client that waits for it takes nothing from others.
        let own = self.of(client).acquire_many_owned(bytes).await.ok()?;
        let all = self.all.clone().acquire_many_owned(bytes).await.ok()?;
        Some(Lease { own, all })
    }

    fn of(&self, client: Client) -> Arc<Semaphore> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = clients.get(&client).and_then(Weak::upgrade) {
            return own;
        }
        if clients.len() > REMEMBERED_CLIENTS {
            clients.retain(|_, own| own.strong_count() > 0);
        }
        let own = Arc::new(Semaphore::new(self.share));
        clients.insert(client, Arc::downgrade(&own));
        own
    }
}

impl Lease {
    /// A lease of no bytes.
    #[cfg(test)]
    pub fn nothing() -> Lease {
        let none = || Arc::new(Semaphore::new(0)).try_acquire_many_owned(0).unwrap();
        Lease { own: none(), all: none() }
    }

    /// Grows to `bytes` if they are available. It does not wait: two leases that waited for more
    /// while holding some could deadlock.
    pub fn try_grow_to(&mut self, bytes: usize) -> bool {
        let missing = bytes.saturating_sub(self.own.num_permits());
        let take = |from: &Arc<Semaphore>| {
            let missing = u32::try_from(missing).ok()?;
            from.clone().try_acquire_many_owned(missing).ok()
        };
        let (Some(own), Some(all)) = (take(self.own.semaphore()), take(self.all.semaphore()))
        else {
            return false;
        };
        self.own.merge(own);
        self.all.merge(all);
        true
    }

    /// Returns the bytes beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let excess = self.own.num_permits().saturating_sub(bytes);
        drop((self.own.split(excess), self.all.split(excess)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use std::net::IpAddr;

    fn client(last: u8) -> Client {
        IpAddr::from([10, 0, 0, last]).into()
    }

    /// A lease that is available without waiting.
    fn now(budget: &Budget, of: u8, bytes: usize) -> Option<Lease> {
        budget.lease(client(of), bytes).now_or_never().flatten()
    }

    #[test]
    fn the_budget_and_half_of_it_per_client_are_not_exceeded() {
        let budget = Budget::new(100);
        assert_eq!(budget.share(), 50);
        assert!(budget.lease(client(1), 51).now_or_never().unwrap().is_none());
        let mut first = now(&budget, 1, 50).unwrap();
        assert!(now(&budget, 1, 1).is_none(), "the client's share is used up");
        let second = now(&budget, 2, 50).unwrap();
        assert!(now(&budget, 3, 1).is_none(), "the budget is used up");
        let nothing = now(&budget, 3, 0).unwrap();
        assert!(!first.try_grow_to(51) && first.try_grow_to(50) && first.try_grow_to(1));
        first.shrink_to(4);
        assert!(!first.try_grow_to(51) && first.try_grow_to(5));
        first.shrink_to(7);
        assert!(now(&budget, 1, 46).is_none());
        let third = now(&budget, 3, 45).unwrap();
        drop((first, second, third, nothing));
        assert_eq!(budget.all.available_permits(), 100);
        assert!(now(&budget, 1, 50).is_some());
    }

    #[tokio::test]
    async fn a_waiting_client_gets_bytes_that_are_returned() {
        let budget = Arc::new(Budget::new(100));
        let held = now(&budget, 1, 50).unwrap();
        let waiting = tokio::spawn({
            let budget = budget.clone();
            async move { budget.lease(client(1), 30).await.is_some() }
        });
        tokio::task::yield_now().await;
        assert!(now(&budget, 2, 50).is_some(), "others do not wait for its share");
        drop(held);
        assert!(waiting.await.unwrap());
        assert_eq!(budget.all.available_permits(), 100);
    }

    #[test]
    fn clients_are_forgotten() {
        let budget = Budget::new(1000);
        let _held = now(&budget, 1, 1).unwrap();
        for i in 0..5 * REMEMBERED_CLIENTS {
            let client = IpAddr::from((i as u32 + 1).to_be_bytes()).into();
            budget.lease(client, 1).now_or_never().unwrap().unwrap();
        }
        let clients = budget.clients.lock().unwrap();
        assert!(clients.len() <= REMEMBERED_CLIENTS + 1, "{}", clients.len());
        assert!(clients.contains_key(&client(1)));
    }
}
