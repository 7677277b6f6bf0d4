//! Treebanks: which of their lines are read, and as what.

use super::sentences::Sentences;
use crate::error::Result;
use crate::read::{self, ReadLimits, TokenKind};
use drnn_tasks::tagger::{Counting, NO_WORD, Vocabulary};
use std::path::Path;

/// A sentence as it was read.
pub use read::Sentence;

/// All sentences of a file.
pub fn read_sentences(path: &Path, limits: ReadLimits) -> Result<Vec<Sentence>> {
    read::sentences(read::open_with(path, limits)?, None).collect()
}

/// Forms and tags of the lines of a sentence that are read.
pub fn tokens(counting: Counting, sentence: &Sentence) -> impl Iterator<Item = (&str, &str)> {
    let all = counting == Counting::Lines;
    let read = sentence.tokens.iter().filter(move |t| all || t.kind == TokenKind::Word);
    read.map(|token| match token.kind {
        TokenKind::Word => (token.form.as_str(), token.tag.as_str()),
        _ => (token.form.as_str(), NO_WORD),
    })
}

/// Sentences as numbers.
pub fn encode(counting: Counting, vocabulary: &Vocabulary, from: &[Sentence]) -> Sentences {
    let mut to = Sentences::new();
    for sentence in from {
        to.push(vocabulary, tokens(counting, sentence).map(|(form, tag)| (form, Some(tag))));
    }
    to
}
