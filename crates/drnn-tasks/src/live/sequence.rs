//! Which answer of the network belongs to which element.
//!
//! ```text
//! network reads     BEGIN  w_1  w_2  END  PAD        d = 1
//! network answers          -    w_1  w_2  -          what was not asked for is dropped
//! ```

use super::answer::Answer;
use super::model::LiveModel;
use std::collections::VecDeque;

/// What is known of an element that waits for its answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Asked {
    /// All is in the answer.
    Number,
    /// A character, None where it is to be filled in.
    Char(Option<char>),
    Word(String),
}

/// A live sequence, whoever steps it. At most d + 1 elements wait.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    read: u64,
    answered: u64,
    /// Answers to come that nobody asked for: those to BEGIN.
    skip: usize,
    waiting: VecDeque<Asked>,
    before: Vec<f32>,
}

impl Sequence {
    /// The next element's, from 0.
    pub fn position(&self) -> u64 {
        self.read
    }

    /// Numbers of the element before, where they may be needed again.
    pub fn before(&self) -> &[f32] {
        &self.before
    }

    /// The network reads something else before the first element.
    pub fn begin(&mut self) {
        self.skip = 1;
    }

    /// The network reads an element.
    pub fn ask(&mut self, asked: Asked, numbers: Option<Vec<f32>>) {
        self.read += 1;
        self.waiting.push_back(asked);
        if let Some(numbers) = numbers {
            self.before = numbers;
        }
    }

    /// The network has answered.
    pub fn answer<'m>(&mut self, model: &'m LiveModel, y: &[f32]) -> Option<Answer<'m>> {
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        let asked = self.waiting.pop_front()?;
        let position = self.answered;
        self.answered += 1;
        Some(Answer { position, value: model.value(y, asked) })
    }
}
