//! UTF-8 in pieces: a character may begin in one and end in the next.

/// Splits bytes that arrive in pieces into whole characters.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Of the last piece: its whole characters, then the beginning of one that has not ended.
    bytes: Vec<u8>,
    /// Offset of `bytes` in the text.
    offset: u64,
    /// Those of `bytes` that were returned.
    taken: usize,
    /// Bytes that are not UTF-8 are read as U+FFFD.
    lossy: bool,
    /// The last piece, where it has such bytes.
    replaced: String,
}

/// The text before a bad byte, and the error.
type Bad<'a> = (&'a str, String);

impl Decoder {
    /// Reads bytes that are not UTF-8 as U+FFFD instead of refusing them.
    pub fn lossy() -> Decoder {
        Decoder { lossy: true, ..Decoder::default() }
    }

    /// Adds a piece and returns all characters that are complete now.
    pub fn take(&mut self, more: &[u8]) -> Result<&str, Bad<'_>> {
        self.bytes.drain(..self.taken);
        self.offset += self.taken as u64;
        self.bytes.extend_from_slice(more);
        if self.lossy {
            return Ok(self.take_lossy());
        }
        let (valid, broken) = match std::str::from_utf8(&self.bytes) {
            Ok(text) => (text.len(), false),
            Err(e) => (e.valid_up_to(), e.error_len().is_some()),
        };
        self.taken = valid;
        let text = std::str::from_utf8(&self.bytes[..valid]).unwrap_or_default();
        if broken { Err((text, self.wrong())) } else { Ok(text) }
    }

    /// All complete characters, and a replacement for each sequence of bytes that cannot be one.
    fn take_lossy(&mut self) -> &str {
        self.replaced.clear();
        let mut rest = self.bytes.as_slice();
        loop {
            let (valid, bad) = match std::str::from_utf8(rest) {
                Ok(text) => (text.len(), None),
                Err(e) => (e.valid_up_to(), e.error_len()),
            };
            self.replaced += std::str::from_utf8(&rest[..valid]).unwrap_or_default();
            let Some(bad) = bad else {
                self.taken = self.bytes.len() - (rest.len() - valid);
                return &self.replaced;
            };
            self.replaced.push(char::REPLACEMENT_CHARACTER);
            rest = &rest[valid + bad..];
        }
    }

    /// The text has ended: refuses a character that has not.
    pub fn end(&mut self) -> Result<(), Bad<'_>> {
        let whole = self.taken == self.bytes.len() || self.lossy;
        if whole { Ok(()) } else { Err(("", self.wrong())) }
    }

    fn wrong(&self) -> String {
        let at = self.offset + self.taken as u64;
        format!("byte {at} (counted from 0) is not UTF-8; convert the text to UTF-8")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In pieces of `size` bytes.
    fn read(bytes: &[u8], size: usize) -> (String, Option<String>) {
        let mut decoder = Decoder::default();
        let mut text = String::new();
        for piece in bytes.chunks(size) {
            match decoder.take(piece) {
                Ok(more) => text += more,
                Err((more, why)) => return (text + more, Some(why)),
            }
        }
        let why = decoder.end().err().map(|(_, why)| why);
        (text, why)
    }

    #[test]
    fn bad_bytes_can_be_replaced() {
        for size in 1..12 {
            let mut decoder = Decoder::lossy();
            let pieces = b"a\xffb\xc3\xa4\xe2\x82c\xff\xff\n".chunks(size);
            let text: String =
                pieces.map(|piece| decoder.take(piece).unwrap().to_string()).collect();
            assert_eq!(text, "a\u{fffd}bä\u{fffd}c\u{fffd}\u{fffd}\n", "{size}");
            assert!(decoder.end().is_ok());
        }
    }

    #[test]
    fn characters_are_whole_and_errors_name_the_offset() {
        for size in 1..12 {
            let whole = "aπ€𝄞b\n€";
            assert_eq!(read(whole.as_bytes(), size), (whole.into(), None));
            for (bytes, before, at) in [
                (&b"ab\xffc"[..], "ab", "byte 2 "),
                (b"\xe2\x82", "", "byte 0 "),
                (b"\xc3\xa4\xe2\x82a", "ä", "byte 2 "),
            ] {
                let (text, why) = read(bytes, size);
                assert_eq!(text, before);
                assert!(why.as_ref().unwrap().starts_with(at), "{size} {why:?}");
            }
        }
    }
}
