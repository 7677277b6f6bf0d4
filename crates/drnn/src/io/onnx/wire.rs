//! The fields of a protobuf message, read in place.
//!
//! A message borrows the file's bytes: nothing is copied before it is known to be needed, and nothing
//! is allocated by what a length claims.

use crate::error::{Error, Result};
use crate::io::file::refuse;

/// One field's value, as far as the encoding shows what it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    /// Text, bytes, a message, or packed numbers.
    Bytes(&'a [u8]),
}

/// A message's bytes that are not read yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a>(pub &'a [u8]);

/// The error about a file whose bytes are no protobuf message.
pub(super) fn broken(what: &str) -> Error {
    refuse(format!("is not a whole ONNX file: {what}"))
}

impl<'a> Message<'a> {
    /// The next field and its number; None at the end.
    pub fn next(&mut self) -> Result<Option<(u64, Field<'a>)>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let key = self.varint()?;
        let field = match key & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(self.fixed()?),
            2 => {
                let len = self.varint()?;
                let at = usize::try_from(len).ok().filter(|&len| len <= self.0.len());
                let Some(at) = at else {
                    let left = self.0.len();
                    return Err(broken(&format!("a field has {len} bytes, but {left} are left")));
                };
                let (bytes, rest) = self.0.split_at(at);
                self.0 = rest;
                Field::Bytes(bytes)
            }
            5 => Field::Fixed32(self.fixed()?),
            kind => return Err(broken(&format!("a field has wire type {kind}"))),
        };
        Ok(Some((key >> 3, field)))
    }

    pub fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for (i, &byte) in self.0.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7F) << (7 * i);
            if byte < 0x80 {
                self.0 = &self.0[i + 1..];
                return Ok(value);
            }
        }
        Err(broken("a number does not end"))
    }

    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (bytes, rest) =
            self.0.split_first_chunk().ok_or_else(|| broken("it ends too early"))?;
        self.0 = rest;
        Ok(*bytes)
    }
}

impl<'a> Field<'a> {
    pub fn bytes(self) -> Result<&'a [u8]> {
        match self {
            Field::Bytes(bytes) => Ok(bytes),
            _ => Err(broken("a number stands in place of text or a message")),
        }
    }

    pub fn text(self) -> Result<&'a str> {
        core::str::from_utf8(self.bytes()?).map_err(|_| broken("a name is not text"))
    }

    pub fn int(self) -> Result<i64> {
        match self {
            Field::Varint(value) => Ok(value.cast_signed()),
            _ => Err(broken("expected an integer")),
        }
    }

    /// Adds the integers of a repeated field, packed or one by one.
    pub fn ints(self, to: &mut Vec<i64>) -> Result<()> {
        match self {
            Field::Bytes(bytes) => {
                let mut rest = Message(bytes);
                while !rest.0.is_empty() {
                    to.push(rest.varint()?.cast_signed());
                }
            }
            one => to.push(one.int()?),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_encoding() {
        let mut message = Message(b"\x08\x96\x01\x12\x02ab\x1d\0\0\x80\x3f\x21\0\0\0\0\0\0\0\0");
        let expected = [
            (1, Field::Varint(150)),
            (2, Field::Bytes(b"ab")),
            (3, Field::Fixed32(1f32.to_le_bytes())),
            (4, Field::Fixed64([0; 8])),
        ];
        for field in expected {
            assert_eq!(message.next().unwrap(), Some(field));
        }
        assert_eq!(message.next().unwrap(), None);
        let mut ints = Vec::new();
        Field::Bytes(b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01").ints(&mut ints).unwrap();
        assert_eq!(ints, [1, -1]);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        for bytes in [
            b"\x0a\x05ab".as_slice(),
            b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x80",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x0b",
            b"\x0d\0",
        ] {
            assert!(Message(bytes).next().is_err(), "{}", bytes.escape_ascii());
        }
        assert!(Field::Bytes(b"\xff").text().is_err());
        assert!(Field::Varint(1).bytes().is_err());
    }
}
