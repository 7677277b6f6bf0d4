//! Sentences with tags, a blank line after each.
//!
//! ```text
//! # text = Gehn wir zum Markt         CoNLL-U: ten columns and TABs between them, ID FORM LEMMA UPOS ..
//! 1    Gehn   gehen  VERB  ..
//! 2    wir    wir    PRON  ..
//! 3-4  zum    _      _     ..         a multiword token: words 3 and 4 as they are written
//! 3    zu     zu     ADP   ..
//! 4    dem    der    DET   ..
//! 4.1  x      x      NOUN  ..         an empty node: a word that is not written
//! 5    Markt  Markt  NOUN  ..
//!
//! Gehn   VERB                         two columns: word TAB tag; a tag _ marks a multiword token
//! wir    PRON
//! ```
//!
//! The number of columns decides which it is. A comment begins with `#`; among two columns it has no TAB. Comments without a sentence are
//! dropped, a missing blank line at the end is not missed.

use super::limits::{MAX_SENTENCE_BYTES, MAX_SENTENCE_LINES, check_name};
use super::lines::Lines;
use super::open::Source;
use super::sentence::{Sentence, Token, TokenKind, is_comment};
use super::{quote, refuse};
use crate::error::Result;

/// How sentences are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaggedFormat {
    /// Ten columns, the tag is UPOS, the fourth.
    ConllU,
    /// Word and tag.
    TwoColumns,
}

/// Sentence after sentence; ends at the first error.
#[derive(Debug)]
pub struct Sentences {
    lines: Lines,
    format: Option<TaggedFormat>,
    keep_lines: bool,
    block: String,
    found: bool,
    ended: bool,
}

/// Reads sentences in `format`, or in the one of the first sentence.
pub fn sentences(source: Source, format: Option<TaggedFormat>) -> Sentences {
    let (lines, block) = (source.lines(), String::new());
    Sentences { lines, format, keep_lines: false, block, found: false, ended: false }
}

impl Sentences {
    /// Keeps the lines of each sentence with it, to be given back.
    pub fn keep_lines(self) -> Sentences {
        Sentences { keep_lines: true, ..self }
    }

    /// The format; None until the first sentence was read, unless it was given.
    pub fn format(&self) -> Option<TaggedFormat> {
        self.format
    }

    /// Reads the lines up to the next blank one; the number of the first, None at the end.
    fn read_block(&mut self) -> Result<Option<u64>> {
        self.block.clear();
        let (mut first, mut count) = (None, 0);
        while let Some(line) = self.lines.next()? {
            match (line.is_empty(), first) {
                (true, None) => continue,
                (true, _) => break,
                _ => {}
            }
            self.block += line;
            self.block.push('\n');
            count += 1;
            let first = *first.get_or_insert(self.lines.number());
            if count > MAX_SENTENCE_LINES || self.block.len() > MAX_SENTENCE_BYTES {
                let what = format!(
                    "the sentence that begins here has more than {MAX_SENTENCE_LINES} lines or {MAX_SENTENCE_BYTES} bytes; \
                     sentences end with a blank line"
                );
                return Err(refuse(self.lines.name(), first, what));
            }
        }
        Ok(first)
    }

    fn read_sentence(&mut self) -> Result<Option<Sentence>> {
        while let Some(line) = self.read_block()? {
            let format = self.format.or_else(|| self.guess());
            let parsed = match format {
                None if self.block.lines().all(|line| line.starts_with('#')) => continue,
                None => Err((0, self.say_columns())),
                Some(TaggedFormat::ConllU) => conll_u(&self.block),
                Some(TaggedFormat::TwoColumns) => two_columns(&self.block),
            };
            let mut tokens = parsed
                .map_err(|(at, reason)| refuse(self.lines.name(), line + at as u64, reason))?;
            if tokens.is_empty() {
                continue;
            }
            self.format = format;
            self.found = true;
            // For short sentences more than half of the capacity would be unused.
            tokens.shrink_to_fit();
            let lines = self.keep_lines.then(|| self.block.clone());
            let tag_column = if format == Some(TaggedFormat::ConllU) { 3 } else { 1 };
            return Ok(Some(Sentence { tokens, line, lines, tag_column }));
        }
        if !self.found {
            let what = "holds no sentences; expected CoNLL-U, or lines of word TAB tag";
            return Err(refuse(self.lines.name(), None, what));
        }
        Ok(None)
    }

    /// The format by the columns of the first line that can be no comment.
    fn guess(&self) -> Option<TaggedFormat> {
        let line = self.block.lines().find(|line| !line.starts_with('#'));
        let line = line.or_else(|| self.block.lines().find(|line| line.contains('\t')))?;
        match line.split('\t').count() {
            10 => Some(TaggedFormat::ConllU),
            2 => Some(TaggedFormat::TwoColumns),
            _ => None,
        }
    }

    fn say_columns(&self) -> String {
        let line = self.block.lines().find(|line| !line.starts_with('#')).unwrap_or_default();
        let columns = line.split('\t').count();
        format!(
            "{} has columns with TABs between them: {columns}, expected 10 (CoNLL-U) or 2 (word TAB tag)",
            quote(line)
        )
    }
}

impl Iterator for Sentences {
    type Item = Result<Sentence>;

    fn next(&mut self) -> Option<Result<Sentence>> {
        if self.ended {
            return None;
        }
        let next = self.read_sentence().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// Tokens, or which line is bad and why.
type Parsed = std::result::Result<Vec<Token>, (usize, String)>;

fn two_columns(block: &str) -> Parsed {
    let mut tokens = Vec::new();
    for (at, line) in block.lines().enumerate().filter(|(_, line)| !is_comment(line, 1)) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [form, tag] = columns[..] else {
            let (found, line) = (columns.len(), quote(line));
            return Err((at, format!("{line} has {found} columns, expected 2: word TAB tag")));
        };
        let kind = if tag == "_" { TokenKind::Multiword } else { TokenKind::Word };
        tokens.push(token(form, tag, kind).map_err(|reason| (at, reason))?);
    }
    Ok(tokens)
}

fn conll_u(block: &str) -> Parsed {
    let mut tokens = Vec::new();
    let mut ids = Ids::default();
    let mut last = 0;
    for (at, line) in block.lines().enumerate().filter(|(_, line)| !is_comment(line, 3)) {
        let columns = line.split('\t').count();
        let mut fields = line.split('\t');
        let (Some(id), Some(form), Some(_), Some(tag), 10) =
            (fields.next(), fields.next(), fields.next(), fields.next(), columns)
        else {
            let what = format!("{} has {columns} columns, expected 10 of CoNLL-U", quote(line));
            return Err((at, what));
        };
        let kind = ids.next(id).map_err(|reason| (at, reason))?;
        tokens.push(token(form, tag, kind).map_err(|reason| (at, reason))?);
        last = at;
    }
    if ids.covered > ids.words {
        let what = format!("the sentence ends before word {} of a multiword token", ids.covered);
        return Err((last, what));
    }
    Ok(tokens)
}

fn token(form: &str, tag: &str, kind: TokenKind) -> std::result::Result<Token, String> {
    if form.trim().is_empty() {
        return Err("the word is empty; write _ where there is none".into());
    }
    if tag.trim().is_empty() {
        return Err(format!("the tag of {} is empty; write _ where there is none", quote(form)));
    }
    check_name("the tag", tag)?;
    Ok(Token { form: form.into(), tag: tag.into(), kind })
}

/// What the ids of a sentence have come to.
#[derive(Default)]
struct Ids {
    words: u32,
    empty: u32,   // after the last word
    covered: u32, // the last word of the last multiword token
}

impl Ids {
    /// Words count 1, 2, ..; empty nodes 8.1, 8.2, .. after word 8; 3-4 stands before word 3.
    fn next(&mut self, id: &str) -> std::result::Result<TokenKind, String> {
        let number = |text: &str| match text.bytes().all(|b| b.is_ascii_digit()) {
            true => text.parse::<u32>().ok(),
            false => None,
        };
        if let Some((from, to)) = id.split_once('-') {
            let next = self.words + 1;
            match (number(from), number(to)) {
                (Some(from), Some(to)) if from == next && next > self.covered && to >= from => {
                    self.covered = to;
                    return Ok(TokenKind::Multiword);
                }
                _ => return Err(format!("ID {} cannot stand before word {next}", quote(id))),
            }
        }
        if let Some((word, empty)) = id.split_once('.') {
            let (word, empty) = (number(word), number(empty));
            if (word, empty) != (Some(self.words), Some(self.empty + 1)) {
                let expected = format!("{}.{}", self.words, self.empty + 1);
                return Err(format!("ID {} of an empty node, expected {expected}", quote(id)));
            }
            self.empty += 1;
            return Ok(TokenKind::Empty);
        }
        if number(id) != Some(self.words + 1) {
            return Err(format!("ID {}, expected {}", quote(id), self.words + 1));
        }
        (self.words, self.empty) = (self.words + 1, 0);
        Ok(TokenKind::Word)
    }
}

#[cfg(test)]
mod tests;
