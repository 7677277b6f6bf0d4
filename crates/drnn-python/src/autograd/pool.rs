//! Memory and threads that calls share.

use super::to_python;
use super::work::Work;
use drnn::{Cpu, Model, NetSpec};
use pyo3::prelude::*;
use std::mem;
use std::sync::{Mutex, MutexGuard};

/// Values that a pool holds on to: workspaces and models of a network shape, teams of threads.
const MAX_POOLED: usize = 4;

/// The lock, also after a panic elsewhere: what it guards is valid at any time.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// A team of threads of this process. A forked process has none of its parent's threads and begins
/// its own.
pub(super) fn cpu(threads: usize) -> PyResult<Cpu> {
    static TEAMS: Pool<Cpu> = Pool(Mutex::new(Vec::new()));
    TEAMS.shared((std::process::id(), threads), || {
        Ok(Cpu::from_env().map_err(to_python)?.with_threads(threads))
    })
}

/// The process and the number of threads that something pooled belongs to.
pub(super) type Owner = (u32, usize);

/// Values for the next calls.
pub(super) struct Pool<T>(Mutex<Vec<(Owner, T)>>);

impl<T> Default for Pool<T> {
    fn default() -> Pool<T> {
        Pool(Mutex::default())
    }
}

impl<T> Pool<T> {
    /// A pooled value on `threads` of this process, one that `prefer` accepts if there is any.
    pub(super) fn take(&self, threads: usize, prefer: impl Fn(&T) -> bool) -> Option<T> {
        let here = (std::process::id(), threads);
        let mut pool = lock(&self.0);
        let best = pool.iter().position(|(owner, value)| *owner == here && prefer(value));
        let any = || pool.iter().position(|(owner, _)| *owner == here);
        best.or_else(any).map(|at| pool.swap_remove(at).1)
    }

    pub(super) fn give_back(&self, owner: Owner, value: T) {
        insert(&mut lock(&self.0), owner, value);
    }

    /// The pooled value of `owner`, or a new one; it stays in the pool.
    fn shared(&self, owner: Owner, make: impl FnOnce() -> PyResult<T>) -> PyResult<T>
    where
        T: Clone,
    {
        let mut pool = lock(&self.0);
        if let Some((_, value)) = pool.iter().find(|(other, _)| *other == owner) {
            return Ok(value.clone());
        }
        let value = make()?;
        insert(&mut pool, owner, value.clone());
        Ok(value)
    }

    pub(super) fn clear(&self) {
        for (owner, value) in mem::take(&mut *lock(&self.0)) {
            if owner.0 != std::process::id() {
                mem::forget(value);
            }
        }
    }

    pub(super) fn sum(&self, of: impl Fn(&T) -> usize) -> usize {
        lock(&self.0).iter().map(|(_, value)| of(value)).sum()
    }
}

/// Puts a value into a pool. What a forked process has of its parent's is leaked: it waits for
/// threads that do not exist.
fn insert<T>(pool: &mut Vec<(Owner, T)>, owner: Owner, value: T) {
    let here = std::process::id();
    let (own, parents) = mem::take(pool).into_iter().partition(|(owner, _)| owner.0 == here);
    *pool = own;
    mem::forget::<Vec<(Owner, T)>>(parents);
    if owner.0 != here {
        mem::forget(value);
    } else {
        if pool.len() == MAX_POOLED {
            pool.remove(0);
        }
        pool.push((owner, value));
    }
}

/// What calls share: a spec, and memory for the next ones.
pub(super) struct Shape {
    pub(super) spec: NetSpec,
    pub(super) work: Pool<Work>,
    pub(super) models: Pool<Model>,
}
