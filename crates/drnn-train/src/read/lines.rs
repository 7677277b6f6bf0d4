//! Lines of UTF-8, without their ends: LF, CRLF, or what becomes of that when it is converted twice (CR CR LF).

use super::limits::MAX_LINE_BYTES;
use super::open::{Source, broken};
use super::refuse;
use crate::error::{Error, Result};
use std::io::{BufRead, Read};

/// The lines of a file, one at a time in memory that is used again.
#[derive(Debug)]
pub struct Lines {
    source: Source,
    line: Vec<u8>,
    number: u64,
}

impl Source {
    /// Its lines.
    pub fn lines(self) -> Lines {
        Lines { source: self, line: Vec::new(), number: 0 }
    }
}

impl Lines {
    /// The next line; None at the end.
    #[allow(clippy::should_implement_trait)] // an iterator could not lend
    pub fn next(&mut self) -> Result<Option<&str>> {
        if self.number == 0 {
            self.source.check_text()?;
        }
        self.line.clear();
        let limit = MAX_LINE_BYTES as u64 + 2; // with its end
        let mut source = self.source.by_ref().take(limit);
        let count = source.read_until(b'\n', &mut self.line);
        if count.map_err(|e| broken(self.source.name(), e))? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let is_cut = self.line.len() as u64 == limit && !self.line.ends_with(b"\n");
        let mut line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        while let Some(rest) = line.strip_suffix(b"\r") {
            line = rest;
        }
        if line.len() > MAX_LINE_BYTES || is_cut {
            let what = format!(
                "the line is longer than {MAX_LINE_BYTES} bytes; is this a text file with line ends?"
            );
            return Err(self.refuse(what));
        }
        match std::str::from_utf8(line) {
            Ok(line) => Ok(Some(line)),
            Err(e) => Err(self.refuse(format!(
                "byte {} of the line is not UTF-8; convert the file: iconv -f LATIN1 -t UTF-8",
                e.valid_up_to() + 1
            ))),
        }
    }

    /// The number of the line that was read last, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// What errors call the file.
    pub fn name(&self) -> &str {
        self.source.name()
    }

    /// Says what is wrong with the line that was read last.
    pub fn refuse(&self, reason: impl ToString) -> Error {
        refuse(self.source.name(), self.number, reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Result<Vec<String>> {
        let mut lines = Source::from_bytes("a.txt", bytes.to_vec())?.lines();
        let mut all = Vec::new();
        while let Some(line) = lines.next()? {
            all.push(line.to_string());
        }
        Ok(all)
    }

    #[test]
    fn ends_and_marks() {
        assert_eq!(lines(b"").unwrap(), [""; 0]);
        assert_eq!(lines(b"\xef\xbb\xbfa\r\n\nb").unwrap(), ["a", "", "b"]);
        assert_eq!(lines(b"a\n\r\n").unwrap(), ["a", ""]);
        assert_eq!(lines(b"a\rb\r\r\r\n\r").unwrap(), ["a\rb", ""]);
        assert_eq!(lines(b"a\xef\xbb\xbf\n").unwrap(), ["a\u{feff}"]); // only at the start
    }

    #[test]
    fn bad_lines_are_named() {
        let message = lines(b"a\nb\xff\n").unwrap_err().to_string();
        assert_eq!(
            message,
            "a.txt:2: byte 2 of the line is not UTF-8; convert the file: iconv -f LATIN1 -t UTF-8"
        );
        let mut long = b"a\n".to_vec();
        long.extend(vec![b'x'; MAX_LINE_BYTES]);
        long.extend(b"\r\n");
        assert_eq!(lines(&long).unwrap()[1].len(), MAX_LINE_BYTES);
        long.insert(2, b'x');
        let message = lines(&long).unwrap_err().to_string();
        assert!(message.starts_with("a.txt:2: the line is longer than 1048576 bytes"), "{message}");
    }
}
