//! Readers of the users' data.
//!
//! ```text
//! path -> Source -> Lines or pieces of text -> sentences, vectors, symbols, rows
//! ```
//!
//! | what is in the file | reader | |
//! |---|---|---|
//! | anything | [`open`](open()), [`Input`] | plain, gzip, zstd or zip, told by its first bytes; once or several times |
//! | sentences with tags | [`sentences`] | CoNLL-U, or word TAB tag; one sentence after the other |
//! | word vectors | [`vectors`](vectors()) | GloVe and word2vec as text; only the words you want |
//! | a text | [`Alphabet`], [`Symbols`] | characters as numbers, one byte each where that is enough |
//! | series, features | [`table`](table()) | CSV with a header, or a NumPy array |
//! | an array | [`array`] | NumPy's `.npy` |
//!
//! How much they read has [limits](ReadLimits), all of them in `limits`.
//!
//! All of them read from the front to the end once and keep what they give back, not the file. Errors name the file
//! and the line, `train.conllu:17: ..`; what they quote from a file has its control characters escaped.

mod alphabet;
mod building;
mod csv;
mod input;
mod limits;
mod lines;
mod npy;
mod open;
mod pieces;
mod sentence;
mod table;
mod tagged;
mod text;
mod vectors;
mod zip;
mod zstd;

pub use alphabet::Alphabet;
pub(crate) use csv::Fields;
pub use input::Input;
pub use limits::{
    LONGEST_LINE, LONGEST_SENTENCE, MAX_CLASSES, MAX_COLUMNS, MAX_EXPANSION, MAX_INPUT, MAX_NAME,
    MAX_VECTOR_WIDTH, MIN_EXPANDED, ReadLimits,
};
pub use lines::Lines;
pub use npy::{Array, Values, array};
pub use open::{Source, open, open_with};
pub use sentence::{Sentence, Token, TokenKind};
pub use table::{Choice, Missing, Names, Table, is_text, table};
pub(crate) use table::{Places, TOO_LARGE, number};
pub use tagged::{Sentences, TaggedFormat, sentences};
pub use text::Symbols;
pub use vectors::{Vectors, vectors};

use crate::error::Error;
use std::fmt::Write;

/// Says what is wrong with a file.
pub(crate) fn refuse(file: &str, line: impl Into<Option<u64>>, reason: impl ToString) -> Error {
    Error::File { file: file.to_string(), line: line.into(), reason: reason.to_string() }
}

/// Longer quotations are cut.
const LONGEST_QUOTE: usize = 60;

/// Text from a file, fit for a terminal: cut where it is long, escaped where it would steer the terminal.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = escape(text.chars().take(LONGEST_QUOTE));
    if text.chars().nth(LONGEST_QUOTE).is_some() {
        quoted += "..";
    }
    format!("`{quoted}`")
}

/// Control characters, and those that turn the direction of writing or cannot be seen, as `\u{..}`.
fn escape(text: impl Iterator<Item = char>) -> String {
    let mut escaped = String::new();
    for c in text {
        let hides = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
        if c.is_control() || hides {
            let _ = write!(escaped, "{}", c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// The names in a list for an error message, the first of them where there are many.
pub(crate) fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = names.len();
    let mut shown: Vec<String> = names.take(12).map(quote).collect();
    if count > shown.len() {
        shown.push(format!("and {} more", count - shown.len()));
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotations_are_short_and_steer_no_terminal() {
        assert_eq!(quote("né"), "`né`");
        assert_eq!(quote("a\x1b[2J\tb\u{202e}"), "`a\\u{1b}[2J\\tb\\u{202e}`");
        assert_eq!(quote(&"x".repeat(99)).len(), 2 + 60 + 2);
        let names: Vec<String> = (0..20).map(|i| i.to_string()).collect();
        assert!(listed(names.iter().map(String::as_str)).ends_with("`11`, and 8 more"));
    }
}
