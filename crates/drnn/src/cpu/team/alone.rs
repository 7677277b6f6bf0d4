//! A team of one: where there is no std there are no threads of the system.

use super::{Barrier, Member};
use crate::cpu::denormals::FlushDenormals;

/// The caller's thread.
pub struct Team;

impl Team {
    /// A team of one, however many threads are requested.
    pub fn new(_threads: usize) -> Team {
        Team
    }

    /// Members, the caller included.
    pub fn threads(&self) -> usize {
        1
    }

    /// Calls `f(i)` once for each i in 0..items, in that order.
    pub fn each(&self, items: usize, f: impl Fn(usize) + Sync) {
        let _flush = FlushDenormals::on();
        (0..items).for_each(f);
    }

    /// Calls `f` once, with the only member.
    pub fn parallel_region(&self, f: impl Fn(&Member) + Sync) {
        let _flush = FlushDenormals::on();
        f(&Member { index: 0, count: 1, barrier: &Barrier::default() });
    }
}
