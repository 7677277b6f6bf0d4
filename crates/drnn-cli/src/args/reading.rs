//! The limit on how much of a data file is read.

use crate::Failure;
use clap::Args;
use drnn_train::read::{self, Input, ReadLimits, Source};
use std::path::Path;

/// The limit on the size of data files.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct Reading {
    /// Maximum bytes read from a data file, after decompression, such as 500M or 20G [default: 16G;
    /// for compressed files 8M plus 200 times their size; for pipes 256M]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_input: Option<u64>,
}

impl Reading {
    pub fn limits(self) -> ReadLimits {
        ReadLimits { max_input: self.max_input }
    }

    /// A file that is read once.
    pub fn open(self, path: &Path) -> Result<Source, Failure> {
        Ok(read::open_with(path, self.limits())?)
    }

    /// A file that is read more than once.
    pub fn input(self, path: &Path) -> Result<Input, Failure> {
        Ok(Input::new(path, self.limits())?)
    }
}

/// `500`, `64K`, `20M`, `3G`, `1T`.
fn size(text: &str) -> Result<u64, String> {
    let units = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let upper = text.to_ascii_uppercase();
    let unit = units.into_iter().find_map(|(unit, n)| Some((upper.strip_suffix(unit)?, n)));
    let (digits, shift) = unit.unwrap_or((&upper, 0));
    let bytes = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(1 << shift));
    bytes.filter(|n| *n > 0).ok_or("expected a number of bytes, like 500M or 20G".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let sizes = ["7", "2k", "3M", "16G", "1T"].map(|text| size(text).unwrap());
        assert_eq!(sizes, [7, 2 << 10, 3 << 20, 16 << 30, 1 << 40]);
        for wrong in ["", "0", "-1", "G", "1GG", "1.5G", "99999999999T"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
