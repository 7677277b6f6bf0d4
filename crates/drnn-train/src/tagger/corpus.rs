//! Treebanks: which of their lines are read, and as what.

use super::sentences::Sentences;
use super::vocabulary::Vocabulary;
use crate::error::Result;
use crate::read::{self, ReadLimits, TokenKind};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The tag of lines that are no words.
pub const NO_WORD: &str = "_";

/// Which lines of a sentence are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counting {
    /// Words, as treebanks are scored.
    #[default]
    Words,
    /// Every line, as the paper's authors do: several words written as one ("3-4 du"), and words that are not
    /// written ("8.1"), are read as well, and to be tagged [`NO_WORD`]. Their accuracy is over all of these.
    Lines,
}

/// A sentence as it was read.
pub use read::Sentence;

/// All sentences of a file.
pub fn read_sentences(path: &Path, limits: ReadLimits) -> Result<Vec<Sentence>> {
    read::sentences(read::open_with(path, limits)?, None).collect()
}

impl Counting {
    /// Forms and tags of what is read of a sentence.
    pub fn tokens(self, sentence: &Sentence) -> impl Iterator<Item = (&str, &str)> {
        let all = self == Counting::Lines;
        let read = sentence.tokens.iter().filter(move |t| all || t.kind == TokenKind::Word);
        read.map(|token| match token.kind {
            TokenKind::Word => (token.form.as_str(), token.tag.as_str()),
            _ => (token.form.as_str(), NO_WORD),
        })
    }

    /// Sentences as numbers.
    pub fn encode(self, vocabulary: &Vocabulary, from: &[Sentence]) -> Sentences {
        let mut to = Sentences::new();
        for sentence in from {
            to.push(vocabulary, self.tokens(sentence).map(|(form, tag)| (form, Some(tag))));
        }
        to
    }
}
