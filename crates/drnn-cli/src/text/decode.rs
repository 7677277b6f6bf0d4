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
}

/// The text before a bad byte, and the error.
type Bad<'a> = (&'a str, String);

impl Decoder {
    /// Adds a piece and returns all characters that are complete now.
    pub fn take(&mut self, more: &[u8]) -> Result<&str, Bad<'_>> {
        self.bytes.drain(..self.taken);
        self.offset += self.taken as u64;
        self.bytes.extend_from_slice(more);
        let (valid, broken) = match std::str::from_utf8(&self.bytes) {
            Ok(text) => (text.len(), false),
            Err(e) => (e.valid_up_to(), e.error_len().is_some()),
        };
        self.taken = valid;
        let text = std::str::from_utf8(&self.bytes[..valid]).unwrap_or_default();
        if broken { Err((text, self.wrong())) } else { Ok(text) }
    }

    /// The text has ended: refuses a character that has not.
    pub fn end(&mut self) -> Result<(), Bad<'_>> {
        if self.taken == self.bytes.len() { Ok(()) } else { Err(("", self.wrong())) }
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
