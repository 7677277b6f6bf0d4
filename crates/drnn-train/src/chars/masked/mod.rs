//! Windows of a text, some of their characters masked.

use crate::data::{Dataset, Gathered};
use crate::error::{Error, Result};
use crate::loss::IGNORE;
use crate::read::Symbols;
use crate::seed;
use drnn::memory::BatchSize;
use drnn::random::Rng;
use drnn::{InputSpec, NetSpec};
use std::ops::Range;
use std::sync::Arc;

/// How characters are masked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Masking {
    /// Characters of a window, T.
    pub window: usize,
    /// Share of characters that are masked.
    pub share: f64,
    /// The mask's number, one above the alphabet's last; also read for characters not in the alphabet.
    pub mask: u32,
    /// What is masked follows from it, from the epoch and from the window.
    pub seed: u64,
}

/// A part of a text, in windows that do not overlap. What remains at its end is left out.
#[derive(Debug, Clone)]
pub struct Masked {
    text: Arc<Symbols>,
    range: Range<usize>,
    masking: Masking,
}

/// Windows evaluated at once: their states are held in memory.
const ROWS_AT_ONCE: usize = 128;
/// Characters read at once.
const PIECE: usize = 1 << 16;

impl Masked {
    /// The part `range` of a text, `name` in errors.
    pub fn new(
        name: &str,
        text: Arc<Symbols>,
        range: Range<usize>,
        masking: Masking,
    ) -> Result<Masked> {
        let Masking { window, share, .. } = masking;
        let refuse = |why: String| Err(Error::Data(format!("{name}: {why}")));
        if !(share > 0.0 && share <= 1.0) {
            let why = "is masked (--mask); expected above 0, at most 1";
            return refuse(format!("a share of {share} {why}"));
        }
        if range.end > text.len() || range.start > range.end {
            return refuse(format!("characters {range:?} of a text of {}", text.len()));
        }
        if window == 0 || range.len() < window {
            return refuse(format!(
                "{} characters, fewer than a window of {window}; take more text or a shorter --window",
                range.len()
            ));
        }
        if range.len() / window > u32::MAX as usize {
            let why = "windows are too many; a longer --window makes fewer";
            return refuse(format!("{} {why}", range.len() / window));
        }
        Ok(Masked { text, range, masking })
    }

    /// Characters of it.
    pub fn characters(&self) -> usize {
        self.range.len()
    }

    /// Characters of the alphabet.
    pub(crate) fn symbols(&self) -> usize {
        self.masking.mask as usize
    }

    /// Calls `look` with each character of it, none masked; one that is not in the alphabet is the
    /// mask's number.
    pub(crate) fn each_symbol(&self, mut look: impl FnMut(u32)) {
        let mut piece = Vec::new();
        for start in self.range.clone().step_by(PIECE) {
            let end = self.range.end.min(start + PIECE);
            self.text.get(start..end, &mut piece).expect("the part lies in the text");
            piece.iter().for_each(|symbol| look(*symbol));
        }
    }
}

impl Dataset for Masked {
    fn len(&self) -> usize {
        self.range.len() / self.masking.window
    }

    fn fits(&self, spec: &NetSpec) -> Result<()> {
        let classes = self.masking.mask as usize;
        let tokens = match spec.input() {
            InputSpec::Tokens { symbols, .. } => Some(symbols),
            InputSpec::Dense(_) => None,
        };
        if tokens != Some(classes + 1) || spec.output_width() != classes {
            return Err(Error::Data(format!(
                "{classes} characters and a mask do not fit {spec}: expected {} symbols in, {classes} out",
                classes + 1
            )));
        }
        Ok(())
    }

    fn max_eval_rows(&self) -> usize {
        ROWS_AT_ONCE
    }

    fn batch_size(&self, rows: usize) -> BatchSize {
        let (steps, rows) = (self.masking.window, rows.min(self.len()));
        let slots = steps.saturating_mul(rows);
        // What is masked is drawn: a little more than the share, to be sure.
        let selected = (slots as f64 * self.masking.share * 1.05) as usize + 64;
        BatchSize { steps, rows, selected: Some(selected.min(slots)) }
    }

    /// After the end of the part everything is masked.
    fn gather(&self, epoch: usize, chosen: &[u32], to: &mut Gathered) {
        let Masking { window, share, mask, seed } = self.masking;
        let (rows, steps) = (chosen.len(), window + to.look_ahead);
        (to.rows, to.steps) = (rows, steps);
        to.lengths.clear();
        let (tokens, truth) = (to.inputs.tokens(), to.targets.classes());
        tokens.resize(steps * rows, mask);
        truth.resize(window * rows, IGNORE);
        let mut characters = Vec::with_capacity(steps);
        for (row, &number) in chosen.iter().enumerate() {
            let first = self.range.start + number as usize * window;
            let end = self.range.end.min(first + steps);
            self.text.get(first..end, &mut characters).expect("windows lie in the text");
            // The first T draws do not depend on the look-ahead: networks of all delays are trained on
            // the same masks.
            let mut rng = Rng::new(seed::derive(seed, &[epoch as u64, number.into()]));
            for (step, &character) in characters.iter().enumerate() {
                let hidden = f64::from(rng.uniform()) < share;
                if !hidden {
                    tokens[step * rows + row] = character;
                } else if step < window && character != mask {
                    truth[step * rows + row] = character;
                }
            }
        }
        let selected = to.selected.get_or_insert_default();
        selected.clear();
        let mut slots = 0..;
        truth.retain(|&character| {
            selected.extend(slots.next().filter(|_| character != IGNORE));
            character != IGNORE
        });
    }
}

#[cfg(test)]
mod tests;
