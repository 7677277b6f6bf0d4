//! A sentence with its tags.

use crate::error::{Error, Result};

/// What a line of a sentence stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// A word.
    Word,
    /// Several words written as one, which follow ("3-4 du").
    Multiword,
    /// A word that is not written ("8.1").
    Empty,
}

/// A line of a sentence.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Token {
    /// As it is written.
    pub form: String,
    /// Its part of speech; `_` where the file does not say.
    pub tag: String,
    /// What it stands for.
    pub kind: TokenKind,
}

/// A sentence, and its lines where they are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sentence {
    /// Its tokens of all kinds.
    pub tokens: Vec<Token>,
    /// The number of its first line, comments included.
    pub line: u64,
    pub(super) lines: Option<String>,
    pub(super) tag_column: usize,
}

impl Sentence {
    /// Its words: what is scored.
    pub fn words(&self) -> impl Iterator<Item = &Token> {
        self.tokens.iter().filter(|token| token.kind == TokenKind::Word)
    }

    /// Its lines as they were, comments too; none where they were not kept.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.as_deref().unwrap_or_default().lines()
    }

    /// Its lines with the tags of its words replaced, one tag per word, and a blank line at the end.
    pub fn with_tags<T: AsRef<str>>(&self, tags: &[T]) -> Result<String> {
        let Some(lines) = &self.lines else {
            return Err(Error::Options("the sentence's lines were not kept".into()));
        };
        let words = self.words().count();
        if tags.len() != words {
            let what = format!("{} tags for a sentence of {words} words", tags.len());
            return Err(Error::Data(what));
        }
        let mut text = String::with_capacity(lines.len() + 1);
        let (mut tags, mut tokens) = (tags.iter(), self.tokens.iter());
        for line in lines.lines() {
            let is_comment = is_comment(line, self.tag_column);
            let is_word = !is_comment && tokens.next().is_some_and(|t| t.kind == TokenKind::Word);
            let tag = if is_word { tags.next() } else { None };
            for (i, column) in line.split('\t').enumerate() {
                if i > 0 {
                    text.push('\t');
                }
                text += match tag {
                    Some(tag) if i == self.tag_column => tag.as_ref(),
                    _ => column,
                };
            }
            text.push('\n');
        }
        text.push('\n');
        Ok(text)
    }
}

/// Whether a line is a comment. Where words come first one may begin with `#`, but then a TAB follows.
pub(super) fn is_comment(line: &str, tag_column: usize) -> bool {
    line.starts_with('#') && (tag_column != 1 || !line.contains('\t'))
}
