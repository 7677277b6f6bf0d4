//! How good a tagger is: overall, by tag, for words that it knows and for those it does not.

use super::outputs::{TagWorkspace, outputs};
use super::sentences::Sentences;
use crate::error::Result;
use crate::loss::{Confusion, IGNORE};
use drnn_tasks::tagger::{NO_WORD, Tagger, UNKNOWN};

/// Right answers, of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// Right ones.
    pub right: u64,
    /// All.
    pub of: u64,
}

impl Share {
    fn add(&mut self, right: bool) {
        self.right += u64::from(right);
        self.of += 1;
    }

    /// None where there was nothing to answer.
    pub fn value(self) -> Option<f64> {
        (self.of > 0).then(|| self.right as f64 / self.of as f64)
    }
}

/// What was found on some sentences.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scores {
    /// Over words: what treebanks are scored by.
    pub words: Share,
    /// Of these, words that the vocabulary has.
    pub known: Share,
    /// And those it has not.
    pub unknown: Share,
    /// Over every line that was read, as the paper's authors count.
    pub lines: Share,
    /// By true tag, then by answer.
    pub confusion: Confusion,
    /// Words whose tag the tagger has never seen: they are wrong, and in no row of `confusion`.
    pub other_tags: u64,
}

/// Sentences at a time: enough to keep the kernels busy, few enough for the cache.
const ROWS: usize = 64;

impl Scores {
    /// Of `tagger` on `data`.
    pub fn of(tagger: &Tagger, data: &Sentences) -> Result<Scores> {
        let tags = tagger.vocabulary().tags().len();
        let no_word = tagger.vocabulary().tag(NO_WORD);
        let mut scores = Scores { confusion: Confusion::new(tags), ..Scores::default() };
        let mut workspace = TagWorkspace::default();
        // Those of like length together, so that none waits for others.
        let mut order: Vec<u32> = (0..data.len() as u32).collect();
        order.sort_by_key(|&i| data.get(i as usize).len());
        for chosen in order.chunks(ROWS) {
            outputs(tagger, data, chosen, &mut workspace, |sentence, word, y| {
                let word = data.get(chosen[sentence] as usize)[word];
                let answer = likeliest(y);
                let right = answer == word.tag as usize;
                scores.lines.add(right);
                if Some(word.tag) == no_word {
                    return;
                }
                scores.words.add(right);
                match word.word {
                    UNKNOWN => scores.unknown.add(right),
                    _ => scores.known.add(right),
                }
                match word.tag {
                    IGNORE => scores.other_tags += 1,
                    tag => scores.confusion.add(tag as usize, answer, 1),
                }
            })?;
        }
        Ok(scores)
    }

    /// Of a tag: how many there are, the share of them that was found, and the share of answers that were right.
    pub fn of_tag(&self, tag: usize) -> (u64, Option<f64>, Option<f64>) {
        let (right, all) = (self.confusion.right(tag), self.confusion.of_truth(tag));
        let answers = self.confusion.of_answer(tag);
        let (found, precise) = (Share { right, of: all }, Share { right, of: answers });
        (all, found.value(), precise.value())
    }
}

/// The place of the largest value, the first of equal ones.
pub fn likeliest(y: &[f32]) -> usize {
    let mut best = 0;
    for (i, value) in y.iter().enumerate() {
        if *value > y[best] {
            best = i;
        }
    }
    best
}
