//! Dropout in training passes: what a layer passes on, with some units set to zero.
//!
//! ```text
//! passed on = h * factor        factor = 0 with probability P, else 1 / (1 - P)
//! ```
//!
//! Factors stand between the layers of a stack and between the last layer and the outputs, where
//! PyTorch's `nn.LSTM(dropout=P)` and an `nn.Dropout(P)` after it have them. The recurrence reads
//! its own h without factors, and so do the states that a pass returns.

use crate::error::{Error, Result};
use crate::exec::net::Net;
use crate::exec::pass::LaneWork;
use crate::prelude::*;
use crate::random::Rng;
use core::ops::Range;

/// Dropout of one pass. Each factor follows from the seed and from its place alone, so passes on any
/// number of threads have the same factors, and a seed has the same ones again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    rate: f32,
    seed: u64,
    /// Whether the last layer's outputs are dropped too.
    outputs: bool,
}

impl Dropout {
    /// Zero with probability `rate`, which is at least 0 and less than 1. Every pass needs another seed.
    pub fn new(rate: f32, seed: u64) -> Result<Dropout> {
        match (0.0..1.0).contains(&rate) {
            true => Ok(Dropout { rate, seed, outputs: true }),
            false => Err(Error::Dropout { rate }),
        }
    }

    /// The same rate with another seed, which follows from this one and `number`: for one of many passes.
    pub fn of_pass(&self, number: u64) -> Dropout {
        Dropout { seed: Rng::new(self.seed).bits() ^ number, ..*self }
    }

    /// The same between layers alone, as `nn.LSTM(dropout=P)` has it: all that the last layer passes on
    /// reaches the outputs.
    pub fn between_layers(self) -> Dropout {
        Dropout { outputs: false, ..self }
    }

    /// The probability of a zero.
    pub fn rate(&self) -> f32 {
        self.rate
    }

    /// Factors of the `units` units of (layer, direction) at one step of one sequence: `step` counts
    /// the steps of that direction's recurrence, `row` the sequences of the batch, `rows` in all.
    /// [Between layers](Dropout::between_layers) alone, those of the last layer are not used.
    pub fn factors(
        &self,
        (layer, direction): (usize, usize),
        (step, row, rows): (usize, usize, usize),
        units: usize,
    ) -> Vec<f32> {
        let mut factors = vec![1.0; units];
        self.apply((layer, direction), step * rows + row, &mut factors);
        factors
    }

    /// Multiplies what the units of (layer, direction) pass on at `position`, step * B + row.
    pub(crate) fn apply(&self, (layer, direction): (usize, usize), position: usize, h: &mut [f32]) {
        let next = |seed: u64, number: usize| Rng::new(seed).bits() ^ number as u64;
        let mut rng = Rng::new(next(next(self.seed, 2 * layer + direction), position));
        let zeros = (f64::from(self.rate) * (1u64 << 32) as f64) as u32;
        let scale = 1.0 / (1.0 - self.rate);
        // 32 random bits decide on a unit.
        for pair in h.chunks_mut(2) {
            let bits = rng.bits();
            for (x, bits) in pair.iter_mut().zip([bits as u32, (bits >> 32) as u32]) {
                *x = if bits < zeros { 0.0 } else { *x * scale };
            }
        }
    }
}

impl LaneWork {
    /// Some packed rows of `dropped`: the states of (layer, direction) times their factors.
    ///
    /// # Safety
    /// The recurrence is done, and nobody else writes these rows.
    pub unsafe fn drop_states(
        &self,
        net: &Net,
        layer: usize,
        direction: usize,
        rows: Range<usize>,
    ) {
        let n = net.spec.hidden(layer);
        let to = self.layers[net.place(layer, direction)].dropped.shared();
        // SAFETY: rows of both buffers, the second of which the caller has to itself.
        unsafe {
            let h = self.states(net, layer, direction).add(rows.start * n);
            core::ptr::copy_nonoverlapping(h, to.at(rows.start * n), rows.len() * n);
            self.apply_factors(net, layer, direction, rows);
        }
    }

    /// Multiplies some packed rows of `dropped` by their factors.
    ///
    /// # Safety
    /// Nobody else uses these rows.
    pub unsafe fn apply_factors(
        &self,
        net: &Net,
        layer: usize,
        direction: usize,
        rows: Range<usize>,
    ) {
        let (Some(dropout), s) = (self.dropout, &self.schedule) else { return };
        if layer + 1 == net.spec.layers() && !dropout.outputs {
            return;
        }
        let n = net.spec.hidden(layer);
        let to = self.layers[net.place(layer, direction)].dropped.shared();
        let mut t = s.offsets.partition_point(|&o| o <= rows.start) - 1;
        for p in rows {
            while s.offsets[t + 1] <= p {
                t += 1;
            }
            let position = t * s.rows() + s.order[p - s.offsets[t]] as usize;
            // SAFETY: the caller's rows.
            let row = unsafe { core::slice::from_raw_parts_mut(to.at(p * n), n) };
            dropout.apply((layer, direction), position, row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_have_the_rate_and_the_mean_and_follow_from_their_place() {
        let dropout = Dropout::new(0.3, 5).unwrap();
        let all: Vec<f32> =
            (0..200).flat_map(|step| dropout.factors((1, 0), (step, 3, 7), 101)).collect();
        let zeros = all.iter().filter(|f| **f == 0.0).count() as f64 / all.len() as f64;
        let mean = all.iter().sum::<f32>() / all.len() as f32;
        assert!((zeros - 0.3).abs() < 0.015 && (mean - 1.0).abs() < 0.02, "{zeros} {mean}");
        assert!(all.iter().all(|f| *f == 0.0 || *f == 1.0 / 0.7));
        let at =
            |seed, place, position| Dropout::new(0.5, seed).unwrap().factors(place, position, 64);
        let one = at(1, (0, 0), (2, 1, 4));
        assert_eq!(one, at(1, (0, 0), (2, 1, 4)));
        let others = [
            at(2, (0, 0), (2, 1, 4)),
            at(1, (1, 0), (2, 1, 4)),
            at(1, (0, 1), (2, 1, 4)),
            at(1, (0, 0), (3, 1, 4)),
            at(1, (0, 0), (2, 2, 4)),
        ];
        assert!(others.iter().all(|other| *other != one));
        assert_eq!(Dropout::new(0.0, 1).unwrap().factors((0, 0), (0, 0, 1), 9), [1.0; 9]);
    }

    #[test]
    fn passes_have_factors_of_their_own() {
        let all = Dropout::new(0.5, 3).unwrap();
        let of = |pass| all.of_pass(pass).factors((0, 0), (0, 0, 1), 64);
        assert!(of(0) != of(1) && of(1) == of(1) && all.of_pass(7).rate() == 0.5);
    }

    #[test]
    fn rates_from_0_to_below_1() {
        for rate in [-0.1, 1.0, f32::NAN, f32::INFINITY] {
            let error = Dropout::new(rate, 1).unwrap_err().to_string();
            assert!(error.contains("dropout of") && error.contains("less than 1"), "{error}");
        }
    }
}
