//! Targets some steps after their rows.
//!
//! ```text
//! row         0    1    2    3
//! y           10   20   30   40
//! y+1         20   30   40   -        the last rows have no target; they are still read
//! y+2         30   40   -    -
//! ```

use super::sequences::{Sequences, Span};
use crate::data::TargetData;
use crate::error::{Error, Result};
use crate::loss::IGNORE;
use drnn_tasks::series::Forecast;
use std::ops::Range;

impl Sequences {
    /// Replaces the targets by those `ahead` steps later, in the same sequence.
    pub fn forecast(mut self, ahead: &[usize]) -> Result<Sequences> {
        if ahead.is_empty() {
            return Ok(self);
        }
        if self.is_classes() && ahead.len() > 1 {
            let what = "classes can be forecast at one horizon: --ahead H, or a model for each";
            return Err(Error::Options(what.into()));
        }
        let forecast = Forecast { columns: self.targets.clone(), ahead: ahead.to_vec() };
        let ranges: Vec<Range<usize>> = (0..self.len()).map(|i| self.range(i)).collect();
        let (steps, m) = (self.steps(), self.targets.len());
        let y = match &self.y {
            TargetData::Values(y) => {
                TargetData::Values(shifted(y, m, ahead, &ranges, steps, f32::NAN))
            }
            TargetData::Classes(y) => {
                TargetData::Classes(shifted(y, 1, ahead, &ranges, steps, IGNORE))
            }
        };
        self.targets = forecast.names();
        self.now = Some(std::mem::replace(&mut self.y, y));
        self.forecast = Some(forecast);
        match self.without_targets() {
            None => Ok(self),
            Some(name) => Err(Error::Data(format!(
                "there is no target {name}: sequences have at most {} rows; --ahead must be shorter",
                self.longest()
            ))),
        }
    }

    /// Removes targets that lie beyond the last step that counts of their sequence. After a cut by time they would
    /// be values of the next part: the training part would learn from the validation part.
    pub fn mask_beyond_end(&mut self) {
        let Some(forecast) = &self.forecast else { return };
        let width = self.targets.len();
        let counted: Vec<Range<usize>> = self.spans().map(|span| span.counted).collect();
        for (at, (_, ahead)) in forecast.horizons().enumerate() {
            for range in &counted {
                let first = range.end.saturating_sub(ahead).max(range.start);
                match &mut self.y {
                    TargetData::Values(y) => {
                        (first..range.end).for_each(|step| y[step * width + at] = f32::NAN);
                    }
                    TargetData::Classes(y) => y[first..range.end].fill(IGNORE),
                }
            }
        }
    }

    /// The targets at the rows themselves: those that a forecast starts from. None where the
    /// targets are no forecast.
    pub fn now(&self) -> Option<&TargetData> {
        self.now.as_ref()
    }

    /// A target of which no value is known.
    pub fn without_targets(&self) -> Option<&String> {
        let width = self.targets.len();
        let known = |at: usize| {
            self.spans().any(|Span { counted, .. }| match &self.y {
                TargetData::Values(y) => {
                    let y = &y[counted.start * width..counted.end * width];
                    y.iter().skip(at).step_by(width).any(|y| !y.is_nan())
                }
                TargetData::Classes(y) => y[counted].iter().any(|y| *y != IGNORE),
            })
        };
        self.targets.iter().enumerate().find(|(at, _)| !known(*at)).map(|(_, name)| name)
    }
}

/// For each of `m` targets its values at all horizons.
fn shifted<T: Copy>(
    y: &[T],
    m: usize,
    ahead: &[usize],
    sequences: &[Range<usize>],
    steps: usize,
    none: T,
) -> Vec<T> {
    let mut all = Vec::with_capacity(steps * m * ahead.len());
    for range in sequences {
        for step in range.clone() {
            for (target, h) in (0..m).flat_map(|target| ahead.iter().map(move |h| (target, *h))) {
                let later = step.checked_add(h).filter(|later| *later < range.end);
                all.push(later.map_or(none, |later| y[later * m + target]));
            }
        }
    }
    all
}
