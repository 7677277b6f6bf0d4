//! Sequences that are parts of arrays in memory and the same in every epoch.
//!
//! ```text
//! x (elements, q)         . . . . [ . . . . . . ] . . .      a part reads some elements
//! y (elements, m)         . . . . [ . . . . ] . . . . .      and predicts the first of them
//! ```
//!
//! A device may hold a copy of the arrays and take batches from it by their parts, instead of being sent
//! every batch.

use crate::loss::Targets;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sequences of vectors, as parts of arrays that do not change.
pub trait Stored {
    /// A number that only copies of these arrays share, within this run of the program.
    fn key(&self) -> u64;

    /// Input vectors of all elements, (elements, q). Finite.
    fn x(&self) -> &[f32];

    /// Targets of all elements: classes, or values (elements, m).
    fn y(&self) -> Targets<'_>;

    /// q and m.
    fn widths(&self) -> [usize; 2];

    /// Where sequence `i` lies.
    fn part(&self, i: usize) -> Part;
}

/// Where a sequence lies in arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its first element.
    pub start: usize,
    /// Elements that it reads.
    pub read: usize,
    /// Elements whose targets count, the first ones.
    pub predicted: usize,
}

/// Identifies arrays and their copies, which cannot change, among all that exist in the program.
/// Ignored by `==`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key(pub u64);

impl Key {
    pub fn new() -> Key {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Key(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl PartialEq for Key {
    fn eq(&self, _: &Key) -> bool {
        true
    }
}
