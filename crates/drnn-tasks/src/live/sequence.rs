//! Which output of the network belongs to which element.
//!
//! ```text
//! network reads     BEGIN  w_1  w_2  END  PAD        d = 1
//! network outputs          -    w_1  w_2  -          outputs for BEGIN and END are dropped
//! ```

use super::model::{ElementKind, LiveModel};
use super::prediction::Prediction;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// An element that waits for its prediction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Awaited {
    /// The prediction does not repeat it.
    Number,
    /// A character, or None if it is masked.
    Char(Option<char>),
    Word(String),
}

/// The state of a sequence besides the network's: at most d + 1 elements that wait.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sequence {
    read: u64,
    predicted: u64,
    /// Outputs to drop: that for BEGIN.
    skip: usize,
    waiting: VecDeque<Awaited>,
    previous: Vec<f32>,
}

impl Sequence {
    /// Whether a sequence of `model` can be like this after its network has read `seen` elements; for
    /// sequences from outside.
    pub fn fits(&self, model: &LiveModel, seen: u64) -> bool {
        let kind = |awaited: &Awaited| match (model.element_kind(), awaited) {
            (ElementKind::Characters, Awaited::Char(_)) => true,
            (ElementKind::Words, Awaited::Word(_)) => true,
            (ElementKind::Characters | ElementKind::Words, _) => false,
            (_, awaited) => *awaited == Awaited::Number,
        };
        let delay = model.latency() as u64;
        // The network of a tagger reads BEGIN too, and its output is dropped once it is there.
        let begin = u64::from(model.tagger().is_some() && self.read > 0);
        let outputs = seen.saturating_sub(delay);
        let skipped = begin.min(outputs);
        let previous = model.series().map_or(0, |task| task.inputs.len());
        seen == self.read.saturating_add(begin)
            && self.predicted == outputs - skipped
            && self.skip as u64 == begin - skipped
            && Some(self.waiting.len() as u64) == self.read.checked_sub(self.predicted)
            && self.waiting.iter().all(kind)
            && [0, previous].contains(&self.previous.len())
    }

    /// The position of the next element.
    pub fn position(&self) -> u64 {
        self.read
    }

    /// Numbers of the previous element, if missing numbers are replaced by them.
    pub fn previous(&self) -> &[f32] {
        &self.previous
    }

    /// The network reads BEGIN before the first element.
    pub fn begin(&mut self) {
        self.skip = 1;
    }

    /// The network reads an element.
    pub fn push(&mut self, awaited: Awaited, numbers: Option<Vec<f32>>) {
        self.read += 1;
        self.waiting.push_back(awaited);
        if let Some(numbers) = numbers {
            self.previous = numbers;
        }
    }

    /// The prediction that belongs to the network's next output `y`.
    pub fn predict<'m>(&mut self, model: &'m LiveModel, y: &[f32]) -> Option<Prediction<'m>> {
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        let awaited = self.waiting.pop_front()?;
        let position = self.predicted;
        self.predicted += 1;
        Some(Prediction { position, value: model.value(y, awaited) })
    }
}
