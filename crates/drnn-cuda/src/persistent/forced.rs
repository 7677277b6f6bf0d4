//! `DRNN_TILING=units=16,rows=32,helpers=2` forces the sizes of blocks, and how many threads share
//! four cells in the backward pass, to measure what [`super::cost`] estimates. Each part may be left
//! out.

use super::tiling::{BLOCK_ROWS, BLOCK_UNITS, HELPERS};
use crate::error::{Error, Result};

const VARIABLE: &str = "DRNN_TILING";

/// Sizes of blocks that are given rather than chosen; `None` where they are chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ForcedTiling {
    pub units: Option<usize>,
    pub rows: Option<usize>,
    pub helpers: Option<usize>,
}

impl ForcedTiling {
    /// What the environment variable says; nothing if it is not set or empty.
    pub fn from_env() -> Result<ForcedTiling> {
        let text = std::env::var_os(VARIABLE).unwrap_or_default();
        ForcedTiling::parse(&text.to_string_lossy())
    }

    fn parse(text: &str) -> Result<ForcedTiling> {
        let bad = || {
            Error::Argument(format!(
                "{VARIABLE}={text} is not a tiling; expected some of units={}, rows={} and \
                 helpers={}, as in {VARIABLE}=units=16,rows=32",
                one_of(&BLOCK_UNITS),
                one_of(&BLOCK_ROWS),
                one_of(&HELPERS),
            ))
        };
        let mut forced = ForcedTiling::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(bad)?;
            let value = value.trim().parse().map_err(|_| bad())?;
            let (to, allowed) = match name.trim() {
                "units" => (&mut forced.units, &BLOCK_UNITS[..]),
                "rows" => (&mut forced.rows, &BLOCK_ROWS[..]),
                "helpers" => (&mut forced.helpers, &HELPERS[..]),
                _ => return Err(bad()),
            };
            if !allowed.contains(&value) || to.replace(value).is_some() {
                return Err(bad());
            }
        }
        Ok(forced)
    }

    pub fn is_given(self) -> bool {
        self != ForcedTiling::default()
    }

    pub fn allows(self, units: usize, rows: usize) -> bool {
        self.units.is_none_or(|given| given == units) && self.rows.is_none_or(|given| given == rows)
    }

    /// That no kernel of these sizes can run a network.
    pub fn refused(self, network: &str) -> Error {
        let parts = [("units", self.units), ("rows", self.rows), ("helpers", self.helpers)];
        let parts = parts.iter().filter_map(|(name, n)| n.map(|n| format!("{name}={n}")));
        let given = parts.collect::<Vec<_>>().join(",");
        Error::Unsupported(format!(
            "{VARIABLE}={given}: there are no kernels with blocks of these sizes for {network} on \
             this GPU; without {VARIABLE} sizes are chosen"
        ))
    }
}

fn one_of(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_or_refused_with_what_is_allowed() {
        let parse = ForcedTiling::parse;
        assert_eq!(parse(""), Ok(ForcedTiling::default()));
        let none = ForcedTiling::default();
        assert_eq!(parse("units=16"), Ok(ForcedTiling { units: Some(16), ..none }));
        assert_eq!(parse("helpers=2"), Ok(ForcedTiling { helpers: Some(2), ..none }));
        let both = ForcedTiling { units: Some(32), rows: Some(48), ..none };
        assert_eq!(parse("rows=48, units=32"), Ok(both));
        assert!(both.allows(32, 48) && !both.allows(32, 64) && !both.allows(16, 48));
        assert!(!none.is_given() && both.is_given());
        for text in ["16", "units", "units=", "units=17", "rows=8", "units=16,units=16", "rows=x"] {
            let why = parse(text).expect_err(text).to_string();
            assert!(why.starts_with(&format!("DRNN_TILING={text} is not a tiling")), "{why}");
            assert!(why.contains("units=32|16, rows=16|24|32|48|64 and helpers=1|2|4"), "{why}");
        }
        let why = both.refused("lstm(2000 units)").to_string();
        assert!(why.starts_with("DRNN_TILING=units=32,rows=48: there are no kernels"), "{why}");
    }
}
