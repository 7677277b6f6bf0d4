//! The theorem as a plan: k layers over T steps in T + k - 1 waves.
//!
//! ```text
//! wave       0   1   2   3   4   5  ..        layer i at wave w runs step w - i: what it reads from
//! layer 0    0   1   2   3   4   5            the layer below was made one wave before, like its own
//! layer 1        0   1   2   3   4            state. So all layers of a wave can run side by side.
//! layer 2            0   1   2   3
//! ```
//!
//! A flattened stack is this plan as one network: block i begins i steps late, and ends so.

use crate::blocks::{Blocks, StartState};
use crate::spec::NetSpec;
use std::ops::Range;

/// The layers that run in wave `wave`, of `layers` over `steps` steps.
pub(crate) fn running(layers: usize, steps: usize, wave: usize) -> Range<usize> {
    let first = (wave + 1).saturating_sub(steps);
    first.min(layers)..layers.min(wave + 1).max(first.min(layers))
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
    }
}
