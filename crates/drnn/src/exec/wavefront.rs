//! The theorem as a plan: k layers over T steps in T + k - 1 waves.
//!
//! ```text
//! wave       0   1   2   3   4   5  ..        layer i at wave w runs step w - i: what it reads from
//! layer 0    0   1   2   3   4   5            the layer below was made one wave before, like its own
//! layer 1        0   1   2   3   4            state. So all layers of a wave can run side by side.
//! layer 2            0   1   2   3
//! ```
//!
//! A flattened stack is this plan as one network: block i begins i steps late, and ends so ([`Hold`]).
//! The engine runs stacks by it where threads would otherwise have too little to share: a few sequences
//! only. There the steps of the plan are chunks of steps ([`Wavefront`]), so that a thread that has a
//! layer of a wave seldom has to wait for another. Backward the same, with layers and chunks from the last.

use crate::cpu::team::spin_until;
use crate::prelude::*;
use crate::spec::NetSpec;
use crate::spec::blocks::{Blocks, StartState};
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

/// How the layers of a stack are run. Results never depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Plan {
    /// Whichever is faster.
    #[default]
    Auto,
    /// Each layer over all steps before the next.
    LayerByLayer,
    /// Layers side by side, each a little later than the one below.
    Wavefront,
}

/// The layers that run in wave `wave`, of `layers` over `steps` steps.
pub(crate) fn running(layers: usize, steps: usize, wave: usize) -> Range<usize> {
    let begun = wave.saturating_add(1); // a stream's snapshot may claim any number of steps
    let first = begun.saturating_sub(steps).min(layers);
    first..layers.min(begun).max(first)
}

/// Steps of a chunk, for `rows` sequences: enough that waiting for another thread's chunk is rare.
fn chunk(rows: usize) -> usize {
    (CHUNK_ROWS / rows.max(1)).max(1)
}

/// Rows of x that a chunk multiplies at once.
const CHUNK_ROWS: usize = 32;

/// Progress of the layers of one sequence batch, shared by the threads of a team.
#[derive(Default)]
pub(crate) struct Wavefront {
    layers: usize,
    steps: usize,
    chunk: usize,
    /// Number of the next tile to be taken.
    next: AtomicUsize,
    /// Chunks that each layer has done.
    done: Vec<AtomicUsize>,
}

impl Wavefront {
    /// Nothing done yet of `layers` over `steps` steps of `rows` sequences.
    pub fn set(&mut self, layers: usize, steps: usize, rows: usize) {
        (self.layers, self.steps, self.chunk) = (layers, steps, chunk(rows));
        self.next = AtomicUsize::new(0);
        self.done.clear();
        self.done.resize_with(layers, || AtomicUsize::new(0));
    }

    /// Tiles (layer, chunk), wave after wave: each comes after those it waits for.
    fn tiles(&self) -> impl Iterator<Item = (usize, usize)> {
        let (layers, chunks) = (self.layers, self.steps.div_ceil(self.chunk));
        let waves = if chunks == 0 { 0 } else { chunks + layers - 1 };
        (0..waves).flat_map(move |wave| {
            running(layers, chunks, wave).map(move |layer| (layer, wave - layer))
        })
    }

    /// One thread's part: calls `work` with a layer and the steps that are due, as long as there are any.
    pub fn run(&self, mut work: impl FnMut(usize, Range<usize>)) {
        let mut mine = self.next.fetch_add(1, Ordering::Relaxed);
        for (number, (layer, chunk)) in self.tiles().enumerate() {
            if number != mine {
                continue;
            }
            let done = |layer: usize| self.done[layer].load(Ordering::Acquire);
            // What this tile reads stands before it, so some thread is at work on it.
            spin_until(|| done(layer) >= chunk && (layer == 0 || done(layer - 1) > chunk));
            work(layer, chunk * self.chunk..self.steps.min((chunk + 1) * self.chunk));
            self.done[layer].store(chunk + 1, Ordering::Release);
            mine = self.next.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.done.capacity() * size_of::<AtomicUsize>()
    }
}

/// Which units of a layer in blocks run at a step, where blocks begin and end one after another.
#[derive(Clone, Copy)]
pub(crate) struct Hold<'a> {
    blocks: &'a Blocks,
    /// Whether those yet to begin wait; if not they have run since the first step.
    waits: bool,
}

impl<'a> Hold<'a> {
    /// None where all units always run.
    pub fn of(spec: &'a NetSpec) -> Option<Hold<'a>> {
        let blocks =
            spec.blocks().filter(|b| b.start_state() != StartState::Free && b.count() > 1)?;
        Some(Hold { blocks, waits: blocks.start_state() == StartState::Held })
    }

    /// The units that run at step t of a sequence that takes `steps` steps in all, or goes on if None.
    pub fn live(&self, t: usize, steps: Option<usize>) -> Range<usize> {
        let k = self.blocks.count();
        let steps = steps.map_or(usize::MAX, |steps| steps.saturating_sub(k - 1));
        let live = running(k, steps, t);
        self.blocks.units_of(live.start..if self.waits { live.end } else { k })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layer_runs_every_step_in_order() {
        for (layers, steps) in [(1, 1), (3, 1), (3, 2), (3, 7), (5, 5)] {
            let mut done = vec![0; layers];
            for wave in 0..steps + layers - 1 {
                for layer in running(layers, steps, wave) {
                    assert_eq!(done[layer], wave - layer);
                    done[layer] += 1;
                }
            }
            assert!(done.iter().all(|&d| d == steps), "{done:?}");
            assert!(running(layers, steps, steps + layers - 1).is_empty());
        }
        assert_eq!(running(3, usize::MAX, usize::MAX), 0..3); // a stream that never ends
    }
}
