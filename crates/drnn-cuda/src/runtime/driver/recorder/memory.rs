//! Made-up addresses.

use std::collections::BTreeMap;

/// What is allocated.
#[derive(Debug, Default)]
pub(super) struct Memory {
    live: BTreeMap<u64, Held>,
    /// Addresses given away so far: none comes back, so that what was freed is never found again.
    used: u64,
}

/// An array.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Held {
    pub at: u64,
    pub len: usize,
    /// Rust's name of what it holds, and the bytes of each.
    pub element: &'static str,
    pub size: usize,
    /// Bytes from the beginning that came last from this machine, where any did: the others mean nothing.
    pub received: Option<usize>,
}

/// Where addresses begin: far from null and from all small numbers.
const FIRST: u64 = 1 << 40;
/// No less lies between two arrays, so that whoever misses one does not meet another.
const GAP: u64 = 1 << 30;

impl Held {
    pub fn bytes(&self) -> usize {
        self.len * self.size
    }
}

impl Memory {
    pub fn hold<T>(&mut self, len: usize) -> u64 {
        let (element, size) = (std::any::type_name::<T>(), size_of::<T>());
        let at = FIRST + self.used;
        self.used += (len * size) as u64 / GAP * GAP + 2 * GAP;
        self.live.insert(at, Held { at, len, element, size, received: None });
        at
    }

    /// What was there.
    pub fn free(&mut self, at: u64) -> Option<Held> {
        self.live.remove(&at)
    }

    /// The array that an address lies in, and how many bytes behind its beginning. Empty ones have a beginning too.
    pub fn find(&self, at: u64) -> Option<(Held, usize)> {
        let (_, held) = self.live.range(..=at).next_back()?;
        let offset = (at - held.at) as usize;
        (offset < held.bytes() || offset == 0).then_some((*held, offset))
    }

    /// Values have come from this machine.
    pub fn receive(&mut self, at: u64, bytes: usize) {
        if let Some(held) = self.live.get_mut(&at) {
            held.received = Some(bytes);
        }
    }

    /// Bytes of all arrays.
    pub fn bytes(&self) -> usize {
        self.live.values().map(Held::bytes).sum()
    }

    /// Arrays that there are.
    pub fn count(&self) -> usize {
        self.live.len()
    }
}
