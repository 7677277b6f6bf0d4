//! Which part of a text is for what.
//!
//! ```text
//! | training | validation | test |        in the text's own order
//! ```

use crate::error::{Error, Result};
use std::ops::Range;
use std::str::FromStr;

/// How much of a text is held back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Held {
    /// A share of all, below 1.
    Share(f64),
    /// So many characters.
    Characters(usize),
}

impl Held {
    fn of(self, len: usize) -> usize {
        match self {
            Held::Share(share) => (len as f64 * share) as usize,
            Held::Characters(count) => count,
        }
    }
}

/// The parts of a text of `len` characters: training, then validation, then test.
pub fn split(len: usize, valid: Held, test: Held) -> Result<[Range<usize>; 3]> {
    let (valid, test) = (valid.of(len), test.of(len));
    let held = valid.checked_add(test).filter(|held| *held < len).ok_or_else(|| {
        Error::Data(format!(
            "{valid} characters for validation (--valid) and {test} for the test (--test) leave none \
             of {len} for training"
        ))
    })?;
    Ok([0..len - held, len - held..len - test, len - test..len])
}

impl FromStr for Held {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Held, String> {
        if let Ok(count) = text.parse() {
            return Ok(Held::Characters(count));
        }
        match text.parse::<f64>() {
            Ok(share) if (0.0..1.0).contains(&share) => Ok(Held::Share(share)),
            _ => Err(format!("`{text}`: expected a share below 1, or a number of characters")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other() {
        let five = Held::Share(0.05);
        assert_eq!(split(1000, five, five).unwrap(), [0..900, 900..950, 950..1000]);
        let held = Held::Characters(5_000_000);
        let parts = split(74_081_952, held, held).unwrap();
        assert_eq!(parts, [0..64_081_952, 64_081_952..69_081_952, 69_081_952..74_081_952]);
        assert_eq!(split(10, Held::Characters(4), Held::Characters(0)).unwrap()[2], 10..10);
        let error = split(10, Held::Characters(7), Held::Characters(3)).unwrap_err().to_string();
        assert!(error.contains("leave none of 10"), "{error}");
        assert!(split(10, Held::Characters(usize::MAX), Held::Characters(3)).is_err());
    }

    #[test]
    fn as_they_are_written() {
        assert_eq!("0.05".parse(), Ok(Held::Share(0.05)));
        assert_eq!("5000".parse(), Ok(Held::Characters(5000)));
        for text in ["1.0", "-1", "nan", "", "valid.txt"] {
            assert!(text.parse::<Held>().is_err(), "{text}");
        }
    }
}
