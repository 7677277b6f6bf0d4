//! Which output of the network belongs to which element.
//!
//! ```text
//! network reads     BEGIN  w_1  w_2  END  PAD        d = 1
//! network outputs          -    w_1  w_2  -          outputs for BEGIN and END are dropped
//! ```

use super::model::LiveModel;
use super::prediction::Prediction;
use std::collections::VecDeque;

/// An element that waits for its prediction.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Awaited {
    /// The prediction does not repeat it.
    Number,
    /// A character, or None if it is masked.
    Char(Option<char>),
    Word(String),
}

/// The state of a sequence besides the network's: at most d + 1 elements that wait.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    read: u64,
    predicted: u64,
    /// Outputs to drop: that for BEGIN.
    skip: usize,
    waiting: VecDeque<Awaited>,
    previous: Vec<f32>,
}

impl Sequence {
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
