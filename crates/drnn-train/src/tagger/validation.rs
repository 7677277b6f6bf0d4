//! Validation of a tagger in training: accuracy over words, as [`super::Scores`] counts it.

use super::sentences::Sentences;
use crate::error::Result;
use crate::loss::{Metric, Targets, argmax};
use crate::training::{Engine, Measure, Validated, Validation, ValidationRun};
use drnn_tasks::tagger::{NO_WORD, Vocabulary};

/// Sentences, and the tag of lines that are no words, which do not count. Words with a tag that the
/// tagger does not have count as wrong.
#[derive(Debug, Clone, Copy)]
pub struct TaggerValidation<'a> {
    data: &'a Sentences,
    no_word: Option<u32>,
}

impl<'a> TaggerValidation<'a> {
    /// For taggers of this vocabulary.
    pub fn new(vocabulary: &Vocabulary, data: &'a Sentences) -> TaggerValidation<'a> {
        TaggerValidation { data, no_word: vocabulary.tag(NO_WORD) }
    }
}

/// With any engine that trains taggers.
impl<E: Engine<Data = Sentences>> Validation<E> for TaggerValidation<'_> {
    fn measure(&self) -> Measure {
        Measure::new(Metric::Accuracy).of("words")
    }

    fn sequences(&self, engine: &E) -> usize {
        engine.sequences(self.data)
    }

    fn check(&self, engine: &E) -> Result<()> {
        engine.check(self.data)
    }

    fn validate(&self, engine: &mut E, run: &ValidationRun) -> Result<Validated> {
        let (mut correct, mut words) = (0, 0);
        let loss = engine.evaluate(self.data, 0, run.rows, &mut |outputs, targets| {
            let Targets::Classes(tags) = targets else { return };
            let m = (outputs.len() / tags.len().max(1)).max(1);
            let counted = outputs.chunks_exact(m).zip(tags).filter(|t| Some(*t.1) != self.no_word);
            for (y, tag) in counted {
                words += 1;
                correct += usize::from(argmax(y) == *tag as usize);
            }
        })?;
        Ok(Validated { loss, score: correct as f64 / words.max(1) as f64 })
    }
}
