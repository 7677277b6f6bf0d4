//! The number of live streams, in total and per client.

use crate::http::api_error::ApiError;
use crate::http::client::Client;
use crate::limits::options::Limits;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Live streams by client.
#[derive(Debug, Default)]
pub struct StreamCounts {
    by_client: Mutex<HashMap<Client, usize>>,
}

/// Permission for one stream, returned when it is dropped.
#[derive(Debug)]
pub struct StreamPermit {
    counts: Arc<StreamCounts>,
    client: Client,
}

impl StreamCounts {
    /// Permission for one more stream, if the limits allow it.
    pub fn acquire(
        self: &Arc<StreamCounts>,
        client: Client,
        limits: &Limits,
    ) -> Result<StreamPermit, ApiError> {
        let mut counts = self.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, own): (usize, _) = (counts.values().sum(), counts.get(&client).copied());
        if all >= limits.streams {
            let max = limits.streams;
            return Err(ApiError::busy(format!("all {max} streams are in use; retry later")));
        }
        if own.unwrap_or(0) >= limits.streams_per_client {
            let max = limits.streams_per_client;
            let why = format!("this client already has {max} streams; close one");
            return Err(ApiError::too_many(why));
        }
        *counts.entry(client).or_default() += 1;
        Ok(StreamPermit { counts: self.clone(), client })
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut counts = self.counts.by_client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = counts.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                counts.remove(&self.client);
            }
        }
    }
}
