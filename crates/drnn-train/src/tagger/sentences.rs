//! Sentences as numbers.

use crate::loss::IGNORE;
use drnn_tasks::tagger::{Spellings, Vocabulary};

/// One word of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// Its number in the vocabulary.
    pub word: u32,
    /// The number of its spelling here.
    pub spelling: u32,
    /// Its true tag; [`IGNORE`] where it is not known.
    pub tag: u32,
}

/// Sentences of words with their tags. Equal spellings are stored once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sentences {
    words: Vec<Word>,
    /// Where each sentence begins; and the end.
    starts: Vec<usize>,
    spellings: Spellings,
    /// By tag; empty where all count the same.
    tag_weights: Vec<f32>,
}

impl Sentences {
    /// No sentences.
    pub fn new() -> Sentences {
        Sentences { starts: vec![0], ..Sentences::default() }
    }

    /// The first `count` sentences, or all where there are fewer.
    pub fn first(mut self, count: usize) -> Sentences {
        self.starts.truncate(count + 1);
        self.words.truncate(self.starts.last().copied().unwrap_or(0));
        self
    }

    /// Adds a sentence: forms with their tags, or without.
    pub fn push<'a>(
        &mut self,
        vocabulary: &Vocabulary,
        tokens: impl Iterator<Item = (&'a str, Option<&'a str>)>,
    ) {
        for (form, tag) in tokens {
            self.words.push(Word {
                word: vocabulary.word(form),
                spelling: self.spellings.number(vocabulary, form),
                tag: tag.and_then(|tag| vocabulary.tag(tag)).unwrap_or(IGNORE),
            });
        }
        self.starts.push(self.words.len());
    }

    /// The same sentences with weights of tags in the gradient, one for each tag of the vocabulary.
    pub fn with_tag_weights(mut self, weights: Vec<f32>) -> Sentences {
        self.tag_weights = weights;
        self
    }

    /// The weight of a tag in the gradient: 1 unless weights were given.
    pub fn tag_weight(&self, tag: u32) -> f32 {
        self.tag_weights.get(tag as usize).copied().unwrap_or(1.0)
    }

    /// Removes all sentences; spellings stay.
    pub fn clear(&mut self) {
        self.words.clear();
        self.starts.truncate(1);
    }

    /// How many sentences.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there are no sentences.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Words of all sentences.
    pub fn words(&self) -> &[Word] {
        &self.words
    }

    /// Words of a sentence.
    pub fn get(&self, sentence: usize) -> &[Word] {
        &self.words[self.starts[sentence]..self.starts[sentence + 1]]
    }

    /// How words are spelt.
    pub fn spellings(&self) -> &Spellings {
        &self.spellings
    }
}
