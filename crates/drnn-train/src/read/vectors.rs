//! Word vectors as text.
//!
//! ```text
//! 3 2                    word2vec and fastText: how many words, how wide; GloVe begins with the first word
//! the 0.418 0.24968
//! New York 0.013 -0.1    the last numbers are the vector, so a word may hold spaces
//! ```
//!
//! Only the words you want are kept; lines of others are looked over for width and letters, not parsed. Of a word
//! that comes twice the first vector counts.

use super::limits::MAX_VECTOR_WIDTH;
use super::open::Source;
use super::{quote, refuse};
use crate::error::Result;
use drnn_tasks::text::not_finite;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Vectors of words, all of one width.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Vectors {
    width: usize,
    rows: HashMap<Box<str>, usize>,
    values: Vec<f32>,
    duplicates: usize,
    seen: u64,
    header: Option<(u64, usize)>,
}

impl Vectors {
    /// Numbers per word.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Words that were wanted and found.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The vector of a word.
    pub fn get(&self, word: &str) -> Option<&[f32]> {
        self.rows.get(word).map(|row| &self.values[row * self.width..][..self.width])
    }

    /// Wanted words that came again, which was ignored.
    pub fn duplicates(&self) -> usize {
        self.duplicates
    }

    /// Vectors in the file.
    pub fn seen(&self) -> u64 {
        self.seen
    }
}

/// Reads the vectors of the words that are wanted.
pub fn vectors(source: Source, mut wanted: impl FnMut(&str) -> bool) -> Result<Vectors> {
    let mut lines = source.lines();
    let mut vectors = Vectors::default();
    while let Some(line) = lines.next()? {
        vectors.take(line, &mut wanted).map_err(|reason| lines.refuse(reason))?;
    }
    let fail = |reason: String| Err(refuse(lines.name(), None, reason));
    match vectors.header {
        Some((count, _)) if count != vectors.seen => fail(format!(
            "says {count} words in its first line and holds {}; is it whole?",
            vectors.seen
        )),
        _ if vectors.seen == 0 => fail("holds no vectors".into()),
        _ => Ok(vectors),
    }
}

impl Vectors {
    fn take(
        &mut self,
        line: &str,
        wanted: &mut impl FnMut(&str) -> bool,
    ) -> std::result::Result<(), String> {
        let line = line.trim_end_matches(SPACES);
        if line.is_empty() {
            return Ok(());
        }
        if self.width == 0 {
            if let Some((count, width)) = header(line) {
                (self.header, self.width) = (Some((count, width)), width);
                return check_width(width);
            }
            self.width = width(line);
            check_width(self.width)?;
        }
        let (word, numbers) = self.split(line)?;
        self.seen += 1;
        if !wanted(word) {
            return Ok(());
        }
        let Entry::Vacant(entry) = self.rows.entry(word.into()) else {
            self.duplicates += 1;
            return Ok(());
        };
        for number in numbers.split(SPACES) {
            match number.parse::<f32>() {
                Ok(value) if value.is_finite() => self.values.push(value),
                Ok(_) => {
                    let (why, word) = (not_finite(number), quote(word));
                    return Err(format!("{} of {word} {why}", quote(number)));
                }
                Err(_) => return Err(not_a_number(number, word)),
            }
        }
        entry.insert(self.values.len() / self.width - 1);
        Ok(())
    }

    /// The word, and the `width` fields after it that may be numbers.
    fn split<'a>(&self, line: &'a str) -> std::result::Result<(&'a str, &'a str), String> {
        let width = self.width;
        let start = match width {
            0 => None,
            _ => line.rmatch_indices(SPACES).nth(width - 1).map(|(at, _)| at),
        };
        let Some(start) = start.filter(|at| *at > 0) else {
            let found = line.split(SPACES).count() - 1;
            return Err(match width {
                0 => format!("{} has no numbers; expected a word and its vector", quote(line)),
                _ => format!("{} has {found} numbers, expected {width}", quote(line)),
            });
        };
        let (word, numbers) = (&line[..start], &line[start + 1..]);
        let could_be =
            |b: u8| matches!(b, b'0'..=b'9' | b'.' | b'-' | b'+' | b'e' | b'E' | b' ' | b'\t');
        if !numbers.bytes().all(could_be) {
            let odd = numbers.split(SPACES).find(|n| !n.bytes().all(could_be));
            return Err(not_a_number(odd.unwrap_or_default(), word));
        }
        // A word may end with a number, but hardly after a space: then this vector is wider than the others.
        if let Some((_, end)) = word.rsplit_once(SPACES)
            && end.parse::<f64>().is_ok_and(f64::is_finite)
        {
            return Err(format!(
                "{} has more than {width} numbers; one space stands before each",
                quote(line)
            ));
        }
        Ok((word, numbers))
    }
}

fn check_width(width: usize) -> std::result::Result<(), String> {
    match width {
        ..=MAX_VECTOR_WIDTH => Ok(()),
        _ => Err(format!("vectors of {width} numbers (at most {MAX_VECTOR_WIDTH})")),
    }
}

const SPACES: [char; 2] = [' ', '\t'];

fn not_a_number(number: &str, word: &str) -> String {
    format!("{} of {} is not a number", quote(number), quote(word))
}

/// How many words and how wide: two whole numbers and nothing else.
fn header(line: &str) -> Option<(u64, usize)> {
    let (count, width) = line.split_once(SPACES)?;
    let width: usize = width.parse().ok()?;
    Some((count.parse().ok()?, width)).filter(|_| width > 0)
}

/// How many numbers a line ends with; the first thing on it is a word, whatever it looks like.
fn width(line: &str) -> usize {
    let fields = line.split(SPACES).count();
    let is_number = |field: &&str| field.parse::<f32>().is_ok();
    line.rsplit(SPACES).take_while(is_number).count().min(fields - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vectors> {
        vectors(Source::from_bytes("a", text.into()).unwrap(), |word| word != "no")
    }

    #[test]
    fn wide_vectors_are_refused() {
        let wide = format!("the{}\n", " 1".repeat(10_001));
        for text in ["1 10000000\nthe 1 2\n", &wide] {
            let message = read(text).unwrap_err().to_string();
            assert!(message.starts_with("a:1: vectors of 1000"), "{message}");
        }
        let message = read("the 1 2\nof 1e39 1\n").unwrap_err().to_string();
        assert!(message.contains("a:2: `1e39` of `of` is too large"), "{message}");
    }

    #[test]
    fn both_formats_and_odd_words() {
        let glove = "the 0.5 -1e-3\n. . . 1 2\nno 3 4\nthe 5 6\n5 7 8\n\u{a0} 1 1\n";
        let found = read(glove).unwrap();
        assert_eq!([found.width(), found.len(), found.duplicates()], [2, 4, 1]);
        assert_eq!(found.seen(), 6);
        assert_eq!(found.get("the"), Some(&[0.5, -1e-3][..]));
        assert_eq!(found.get(". . ."), Some(&[1.0, 2.0][..]));
        assert_eq!(found.get("5"), Some(&[7.0, 8.0][..]));
        assert_eq!(found.get("no"), None);
        let word2vec = read(&format!("6 2\n{}", glove.replace('\n', " \r\n"))).unwrap();
        assert_eq!(word2vec.values, found.values);
        assert_eq!(read(&glove.replace(' ', "\t")).unwrap().values, found.values);
        assert_eq!(read("New York 1 2\n").unwrap().get("New York"), Some(&[1.0, 2.0][..]));
        assert_eq!(read("1 1.5\n").unwrap().get("1"), Some(&[1.5][..]));
        assert!(read("no 1.5\n").unwrap().is_empty());
    }

    #[test]
    fn bad_vectors() {
        for (text, message) in [
            ("", "a: holds no vectors"),
            ("\n\n", "a: holds no vectors"),
            ("0 3\n", "a: holds no vectors"),
            ("3 2\na 1 2\n", "a: says 3 words in its first line and holds 1; is it whole?"),
            ("this is prose\n", "a:1: `this is prose` has no numbers"),
            ("word\n", "a:1: `word` has no numbers"),
            ("a 1 2\nb 1\n", "a:2: `b 1` has 1 numbers, expected 2"),
            ("a 1 2\nb 1 2 3\n", "a:2: `b 1 2 3` has more than 2 numbers"),
            ("1 2\na 1 2 3\n", "a:2: `a 1 2 3` has more than 2 numbers"),
            ("a 1 2\n 1 2\n", "a:2: ` 1 2` has 2 numbers, expected 2"),
            ("a 1 2\nb 1 x\x1b\n", "a:2: `x\\u{1b}` of `b` is not a number"),
            ("a 1 2\nno 1 x\n", "a:2: `x` of `no` is not a number"),
            ("a 1 2\nb  2\n", "a:2: `` of `b` is not a number"),
            ("a 1 2\nb 1 -\n", "a:2: `-` of `b` is not a number"),
            ("a 1 2\nb 1  2\n", "a:2: `b 1  2` has more than 2 numbers; one space"),
            ("a 1 2\nb nan 2\n", "a:2: `nan` of `b` is not a number"),
            ("a 1 2\nb 1 inf\n", "a:2: `inf` of `b` is not a number"),
            ("a 1 2\nb 1 1e99\n", "a:2: `1e99` of `b` is too large"),
        ] {
            let found = read(text).unwrap_err().to_string();
            assert!(found.starts_with(message), "{text:?}: {found}");
        }
    }
}
