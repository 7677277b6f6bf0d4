//! Training, validation and test part.
//!
//! ```text
//! several sequences   drawn at random
//! one sequence        cut by time: train | valid | test
//! ```
//!
//! The training part of one sequence is cut off, so it has seen nothing of what follows. Validation
//! and test part keep the rest of the sequence around them, whose targets do not count: a model in use
//! comes to these steps with a state, and reads on after them.

use super::sequences::Sequences;
use crate::data::order;
use crate::error::{Error, Result};
use std::ops::Range;

/// Shares of the whole; the rest is for training.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// For validation; 0 for none.
    pub valid: f64,
    /// For the test; 0 for none.
    pub test: f64,
}

/// The parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Parts {
    /// For training.
    pub train: Sequences,
    /// For validation.
    pub valid: Option<Sequences>,
    /// For the test.
    pub test: Option<Sequences>,
}

impl Sequences {
    /// Splits the sequences; which go where depends on `seed`. A share above 0 gets at least one.
    pub fn part(self, shares: Shares, seed: u64) -> Result<Parts> {
        let by_time = self.len() == 1;
        let count = if by_time { self.steps() } else { self.len() };
        let of = |share: f64| match share > 0.0 {
            true => ((share * count as f64).round() as usize).max(1),
            false => 0,
        };
        let (valid, test) = (of(shares.valid), of(shares.test));
        let Some(train) = count.checked_sub(valid + test).filter(|train| *train > 0) else {
            let what = if by_time { "rows of one sequence" } else { "sequences" };
            return Err(Error::Data(format!(
                "{count} {what} cannot be parted: {valid} for validation and {test} for the test leave none for \
                 training; use more of them, or other files for --valid and --test"
            )));
        };
        let cuts = [0..train, train..train + valid, train + valid..count];
        let [train, valid, test] = if by_time {
            let [train, valid, test] = cuts;
            let rest = |range: Range<usize>| match range.is_empty() {
                true => Ok(None),
                false => self.clone().only(range).map(Some),
            };
            [Some(self.select(&[train])), rest(valid)?, rest(test)?]
        } else {
            let order = order(seed, 0, count);
            cuts.map(|range| {
                let mut chosen: Vec<usize> = order[range].iter().map(|&i| i as usize).collect();
                chosen.sort_unstable();
                let ranges: Vec<_> = chosen.iter().map(|&i| self.range(i)).collect();
                (!ranges.is_empty()).then(|| self.select(&ranges))
            })
        };
        let [train, valid, test] = [train, valid, test].map(|part| {
            part.map(|mut part| {
                part.mask_beyond_end();
                part
            })
        });
        let train = train.ok_or_else(|| Error::Data("nothing to train on".into()))?;
        Ok(Parts { train, valid, test })
    }
}
