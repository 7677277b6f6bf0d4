//! How many streams there are, and whose.

use crate::http::api_error::Refusal;
use crate::http::client::Client;
use crate::limits::options::Limits;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Streams that are live, by client.
#[derive(Debug, Default)]
pub struct Seats {
    taken: Mutex<HashMap<Client, usize>>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct Seat {
    seats: Arc<Seats>,
    client: Client,
}

impl Seats {
    /// One more, if there may be.
    pub fn take(self: &Arc<Seats>, client: Client, limits: &Limits) -> Result<Seat, Refusal> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own): (usize, _) = (taken.values().sum(), taken.get(&client).copied());
        if all >= limits.streams {
            let most = limits.streams;
            return Err(Refusal::busy(format!("{most} streams are live, no more are taken now")));
        }
        if own.unwrap_or(0) >= limits.streams_per_client {
            let most = limits.streams_per_client;
            return Err(Refusal::too_many(format!("{most} streams of yours are live; end one")));
        }
        *taken.entry(client).or_default() += 1;
        Ok(Seat { seats: self.clone(), client })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.client);
            }
        }
    }
}
