//! Text for messages and tables: numbers with separators, long text cut short. The drnn program and
//! its crates share it.

use crate::prelude::*;

/// Characters of a name or a text from a file that a message shows.
const MAX_SHOWN: usize = 60;
/// Characters of a whole message about a file.
const MAX_MESSAGE: usize = 1_000;

/// A number with thousands separators: `1234567` as `1,234,567`.
pub fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// A number of things: `1 sequence`, `2,000 sequences`.
pub fn counted(n: usize, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}

/// The beginning of a text, `max` characters of it, and `..` where it goes on.
pub fn shortened(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_string(),
    }
}

/// A name from a file as messages show it.
pub(crate) fn short(name: &str) -> String {
    shortened(name, MAX_SHOWN)
}

/// A message that may hold text from a file, fit for a terminal: of bounded length, and what would
/// move the cursor is written as `\u{1b}`.
pub(crate) fn printable(message: &str) -> String {
    let short = shortened(message, MAX_MESSAGE);
    let plain = short.chars().map(|c| match c.is_control() {
        true => c.escape_unicode().to_string(),
        false => c.to_string(),
    });
    plain.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_and_many() {
        let all = [0, 1, 2000].map(|n| counted(n, "repetition")).join(", ");
        assert_eq!(all, "0 repetitions, 1 repetition, 2,000 repetitions");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shortened("né", 2), "né");
        assert_eq!(shortened("néé", 2), "né..");
        assert_eq!(printable("a\x1bb"), "a\\u{1b}b");
        assert_eq!(printable(&"é".repeat(5000)).chars().count(), MAX_MESSAGE + 2);
    }
}
