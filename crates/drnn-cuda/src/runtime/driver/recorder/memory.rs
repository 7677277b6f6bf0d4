//! Device memory without a device: allocations and their addresses.

use std::collections::BTreeMap;

/// All live allocations.
#[derive(Debug, Default)]
pub(super) struct Memory {
    live: BTreeMap<u64, Allocation>,
    /// Views of parts of allocations, by address; the latest last.
    views: BTreeMap<u64, Vec<Allocation>>,
    /// Address space used so far. Addresses are never reused, so that use after free is found.
    used: u64,
}

/// An allocation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Allocation {
    pub at: u64,
    pub len: usize,
    /// Rust's name of the element type, and its bytes.
    pub element: &'static str,
    pub size: usize,
    /// Bytes that the latest copy from the host wrote, if any: those after them are stale.
    pub received: Option<usize>,
}

/// The first address: far from null and from small numbers.
const FIRST: u64 = 1 << 40;
/// Minimal distance between allocations, so that an access beyond one does not fall into the next.
const GAP: u64 = 1 << 30;

impl Allocation {
    pub fn bytes(&self) -> usize {
        self.len * self.size
    }
}

impl Memory {
    /// At a simulated address, or at `place`.
    pub fn allocate<T>(&mut self, len: usize, place: Option<u64>) -> u64 {
        let (element, size) = (std::any::type_name::<T>(), size_of::<T>());
        let at = place.unwrap_or(FIRST + self.used);
        self.used += (len * size) as u64 / GAP * GAP + 2 * GAP;
        self.live.insert(at, Allocation { at, len, element, size, received: None });
        at
    }

    /// The allocation that began there.
    pub fn free(&mut self, at: u64) -> Option<Allocation> {
        self.live.remove(&at)
    }

    /// The allocation that contains an address, and the offset in it; a view if there is one. An
    /// empty one contains its first address.
    pub fn find(&self, at: u64) -> Option<(Allocation, usize)> {
        let view = self.views.range(..=at).next_back().and_then(|(_, views)| views.last());
        let (_, whole) = self.live.range(..=at).next_back()?;
        let contains = |allocation: &&Allocation| {
            let offset = (at - allocation.at) as usize;
            offset < allocation.bytes() || offset == 0
        };
        let found = view.into_iter().chain([whole]).find(contains)?;
        Some((*found, (at - found.at) as usize))
    }

    /// Makes a view of a part of an allocation. The error says why there is none.
    pub fn borrow<T>(&mut self, at: u64, len: usize) -> Result<(), String> {
        let (element, size) = (std::any::type_name::<T>(), size_of::<T>());
        let view = Allocation { at, len, element, size, received: None };
        let whole = self.live.range(..=at).next_back().map(|(_, whole)| *whole);
        match whole.filter(|whole| at + view.bytes() as u64 <= whole.at + whole.bytes() as u64) {
            None => Err(format!("{len} {element} outside of all allocations")),
            Some(_) if !at.is_multiple_of(size as u64) => Err(format!("{element} not aligned")),
            Some(_) => {
                self.views.entry(at).or_default().push(view);
                Ok(())
            }
        }
    }

    /// Ends [`Memory::borrow`].
    pub fn end_borrow(&mut self, at: u64) {
        if let Some(views) = self.views.get_mut(&at) {
            views.pop();
            if views.is_empty() {
                self.views.remove(&at);
            }
        }
    }

    /// Number of views.
    pub fn views(&self) -> usize {
        self.views.values().map(Vec::len).sum()
    }

    /// Notes a copy from the host.
    pub fn receive(&mut self, at: u64, bytes: usize) {
        if let Some(allocation) = self.live.get_mut(&at) {
            allocation.received = Some(bytes);
        }
    }

    /// Bytes of all allocations.
    pub fn bytes(&self) -> usize {
        self.live.values().map(Allocation::bytes).sum()
    }

    /// Number of allocations.
    pub fn count(&self) -> usize {
        self.live.len()
    }
}
