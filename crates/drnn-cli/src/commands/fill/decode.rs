//! UTF-8 in pieces: a character may begin in one and end in the next.

/// What was read of a character that has not ended, and where in the text.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Of the last piece: its whole characters, then what remains.
    bytes: Vec<u8>,
    /// Bytes before those.
    offset: u64,
    /// Those of `bytes` that were handed out.
    taken: usize,
}

/// What is wrong, behind the text before it.
type Bad<'a> = (&'a str, String);

impl Decoder {
    /// The whole characters that are there with `more`.
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

    /// That no character is left open.
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
    fn characters_are_whole_and_bad_bytes_have_a_place() {
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
