//! Accuracy of a tagger: overall, by tag, and for known and unknown words.

use super::outputs::{TagWorkspace, outputs_of};
use super::sentences::Sentences;
use crate::error::Result;
use crate::loss::{Confusion, IGNORE, argmax};
use drnn_tasks::Runner;
use drnn_tasks::tagger::{NO_WORD, Tagger, UNKNOWN};

/// Correct predictions, and their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ratio {
    /// Correct predictions.
    pub correct: u64,
    /// All predictions.
    pub total: u64,
}

impl Ratio {
    fn add(&mut self, correct: bool) {
        self.correct += u64::from(correct);
        self.total += 1;
    }

    /// The share of correct ones; None where there are no predictions.
    pub fn value(self) -> Option<f64> {
        (self.total > 0).then(|| self.correct as f64 / self.total as f64)
    }
}

/// Scores of a tagger on some sentences.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scores {
    /// Over words, as treebanks are scored.
    pub words: Ratio,
    /// Over words of the vocabulary.
    pub known: Ratio,
    /// Over all other words.
    pub unknown: Ratio,
    /// Over every line that was read, as the paper's authors count.
    pub lines: Ratio,
    /// Counts by true and predicted tag.
    pub confusion: Confusion,
    /// Words whose tag is not among the tagger's: they count as wrong and are not in `confusion`.
    pub other_tags: u64,
}

/// Sentences at a time: enough to keep the kernels busy, few enough for the cache.
const ROWS: usize = 64;

impl Scores {
    /// Scores `tagger` on `data`, on the CPU.
    pub fn of(tagger: &Tagger, data: &Sentences) -> Result<Scores> {
        Scores::with_runners(tagger, [tagger.char_model(), tagger.word_model()], data)
    }

    /// The same where its networks of characters and of words run.
    pub fn with_runners(
        tagger: &Tagger,
        networks: [&dyn Runner; 2],
        data: &Sentences,
    ) -> Result<Scores> {
        let tags = tagger.vocabulary().tags().len();
        let no_word = tagger.vocabulary().tag(NO_WORD);
        let mut scores = Scores { confusion: Confusion::new(tags), ..Scores::default() };
        let mut workspace = TagWorkspace::default();
        // Sentences of similar length in a batch, so that no step computes padding.
        let mut order: Vec<u32> = (0..data.len() as u32).collect();
        order.sort_by_key(|&i| data.get(i as usize).len());
        for chosen in order.chunks(ROWS) {
            outputs_of(networks, tagger, data, chosen, &mut workspace, |sentence, word, y| {
                let word = data.get(chosen[sentence] as usize)[word];
                let predicted = argmax(y);
                let correct = predicted == word.tag as usize;
                scores.lines.add(correct);
                if Some(word.tag) == no_word {
                    return;
                }
                scores.words.add(correct);
                match word.word {
                    UNKNOWN => scores.unknown.add(correct),
                    _ => scores.known.add(correct),
                }
                match word.tag {
                    IGNORE => scores.other_tags += 1,
                    tag => scores.confusion.add(tag as usize, predicted, 1),
                }
            })?;
        }
        Ok(scores)
    }
}
