//! A text in pieces of whole characters, for those who do not care for lines.

use super::open::{Source, broken};
use super::refuse;
use crate::error::Result;
use std::io::{BufRead, Read};

/// Hands the text of a file to `take`, piece by piece: all of it, or as many characters as are
/// wanted, and no more is read then. Strict UTF-8.
pub(super) fn pieces(source: &mut Source, mut take: impl FnMut(&str)) -> Result<()> {
    source.check_text()?;
    let mut place = Place { line: 1, column: 1 };
    let mut left = source.max_characters();
    while left > 0 {
        let buffer = source.fill_buf();
        let bytes = match buffer {
            Ok([]) => return Ok(()),
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(broken(source.name(), e)),
        };
        let (text, rest) = match std::str::from_utf8(bytes) {
            Ok(text) => (text, None),
            Err(e) => {
                let (text, rest) = bytes.split_at(e.valid_up_to());
                let text = std::str::from_utf8(text).unwrap_or_default();
                (text, Some((rest.first().copied(), e.error_len())))
            }
        };
        let text = beginning(text, &mut left);
        let rest = rest.filter(|_| left > 0);
        take(text);
        place.pass(text.as_bytes());
        let count = text.len();
        source.consume(count);
        // A character that begins here and ends in the next buffer is put together.
        if let Some((first, error_len)) = rest {
            let len = match (error_len, first) {
                (None, Some(0xc0..=0xdf)) => 2,
                (None, Some(0xe0..=0xef)) => 3,
                (None, Some(_)) => 4,
                _ => 0,
            };
            let mut character = [0; 4];
            let whole = source.read_exact(&mut character[..len]);
            match (len, whole) {
                (0, _) => return Err(place.refuse(source)),
                (_, Err(e)) if e.kind() != std::io::ErrorKind::UnexpectedEof => {
                    return Err(broken(source.name(), e));
                }
                _ => {}
            }
            let Ok(text) = std::str::from_utf8(&character[..len]) else {
                return Err(place.refuse(source));
            };
            let text = beginning(text, &mut left);
            take(text);
            place.pass(text.as_bytes());
        }
    }
    Ok(())
}

/// The first characters of `text`, as many as there are `left`, which become fewer.
fn beginning<'a>(text: &'a str, left: &mut u64) -> &'a str {
    if *left == u64::MAX {
        return text; // nobody counts
    }
    let count = text.chars().count() as u64;
    if count <= *left {
        *left -= count;
        return text;
    }
    let end = text.char_indices().nth(*left as usize).map_or(text.len(), |(at, _)| at);
    *left = 0;
    &text[..end]
}

/// Where in a text.
struct Place {
    line: u64,
    column: u64,
}

impl Place {
    fn pass(&mut self, text: &[u8]) {
        let ends = text.iter().filter(|b| **b == b'\n').count() as u64;
        self.line += ends;
        match text.iter().rposition(|b| *b == b'\n') {
            Some(end) => self.column = (text.len() - end) as u64,
            None => self.column += text.len() as u64,
        }
    }

    fn refuse(&self, source: &Source) -> crate::error::Error {
        let what = format!(
            "byte {} of the line is not UTF-8; convert the file: iconv -f LATIN1 -t UTF-8",
            self.column
        );
        refuse(source.name(), self.line, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::BufReader;

    /// With buffers of any size, so that characters are cut in all places.
    fn read(bytes: &[u8], buffer: usize) -> Result<String> {
        let bytes = std::io::Cursor::new(bytes.to_vec());
        let mut source = Source::new("a", BufReader::with_capacity(buffer, bytes))?;
        let mut text = String::new();
        pieces(&mut source, |piece| text += piece)?;
        Ok(text)
    }

    #[test]
    fn characters_are_whole() {
        let text = "abcdef\nπ€𝄞 ab€\nπ€𝄞";
        for buffer in 1..30 {
            assert_eq!(read(text.as_bytes(), buffer).unwrap(), text);
        }
    }

    #[test]
    fn the_place_of_a_bad_byte() {
        for buffer in 1..30 {
            for (bytes, at) in [
                (&b"abcdefgh\n\nx\xffy"[..], "a:3: byte 2 "),
                (b"abcdefgh\n\xe2\x82", "a:2: byte 1 "),
                (b"abcdefgh\nab\xe2\x82\n", "a:2: byte 3 "),
                ("abcdefgh\n€\u{1d11e}".as_bytes().split_last().unwrap().1, "a:2: byte 4 "),
                (b"\xed\xa0\x80", "a:1: byte 1 "), // half of a UTF-16 pair
            ] {
                let message = read(bytes, buffer).unwrap_err().to_string();
                assert!(message.starts_with(at), "{buffer} {message}");
            }
        }
    }
}
