//! `DRNN_TILING=units=16,rows=32,helpers=2,prefetch=1` forces the sizes of blocks, how many threads
//! share four cells in the backward pass and whether later steps' data are prefetched to L2, to
//! measure what [`super::cost`] estimates. `kind=` names one of the [`Kind`]s, or `any` of them.
//! Each part may be left out.

use super::single_block;
use super::tiling::{self, BLOCK_UNITS, HELPERS, Kind};
use crate::error::{Error, Result};

const VARIABLE: &str = "DRNN_TILING";

/// Rows of a block: one of many that share a layer's units, or one that has them all.
const ROWS: [&[usize]; 2] = [&tiling::BLOCK_ROWS, &single_block::BLOCK_ROWS];

/// Which kinds of recurrences may be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kinds {
    Only(Kind),
    Any,
}

impl Kinds {
    /// The others have not been measured yet.
    pub const USUAL: Kinds = Kinds::Only(Kind::Exchange);
}

const KINDS: [(&str, Kinds); 4] = [
    ("exchange", Kinds::Only(Kind::Exchange)),
    ("single-block", Kinds::Only(Kind::SingleBlock)),
    ("step-by-step", Kinds::Only(Kind::StepByStep)),
    ("any", Kinds::Any),
];

/// What is given rather than chosen; `None` where it is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ForcedTiling {
    pub kinds: Kinds,
    pub units: Option<usize>,
    pub rows: Option<usize>,
    pub helpers: Option<usize>,
    /// 0 or 1.
    pub prefetch: Option<usize>,
}

impl Default for ForcedTiling {
    fn default() -> ForcedTiling {
        ForcedTiling::NOTHING
    }
}

impl ForcedTiling {
    pub const NOTHING: ForcedTiling = ForcedTiling {
        kinds: Kinds::USUAL,
        units: None,
        rows: None,
        helpers: None,
        prefetch: None,
    };

    /// What the environment variable says; nothing if it is not set or empty.
    pub fn from_env() -> Result<ForcedTiling> {
        let text = std::env::var_os(VARIABLE).unwrap_or_default();
        ForcedTiling::parse(&text.to_string_lossy())
    }

    fn parse(text: &str) -> Result<ForcedTiling> {
        let bad = || {
            Error::Argument(format!(
                "{VARIABLE}={text} is not a tiling; expected some of units={}, rows={}, \
                 helpers={}, prefetch=0|1 and kind={}, as in {VARIABLE}=units=16,rows=32",
                one_of(&BLOCK_UNITS),
                one_of(&ROWS.concat()),
                one_of(&HELPERS),
                KINDS.map(|(name, _)| name).join("|"),
            ))
        };
        let (mut forced, rows, mut kinds) = (ForcedTiling::default(), ROWS.concat(), None);
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(bad)?;
            let (name, value) = (name.trim(), value.trim());
            if name == "kind" {
                let named = KINDS.iter().find(|(known, _)| *known == value).ok_or_else(bad)?;
                if kinds.replace(named.1).is_some() {
                    return Err(bad());
                }
                continue;
            }
            let value = value.parse().map_err(|_| bad())?;
            let (to, allowed) = match name {
                "units" => (&mut forced.units, &BLOCK_UNITS[..]),
                "rows" => (&mut forced.rows, &rows[..]),
                "helpers" => (&mut forced.helpers, &HELPERS[..]),
                "prefetch" => (&mut forced.prefetch, &[0, 1][..]),
                _ => return Err(bad()),
            };
            if !allowed.contains(&value) || to.replace(value).is_some() {
                return Err(bad());
            }
        }
        Ok(ForcedTiling { kinds: kinds.unwrap_or(forced.kinds), ..forced })
    }

    pub fn is_given(self) -> bool {
        self != ForcedTiling::default()
    }

    /// Whether recurrences may be of this kind, with so many units and rows of the batch per block.
    /// Only blocks that exchange h have units, helpers and prefetches to choose.
    pub fn allows(self, kind: Kind, units: usize, rows: usize) -> bool {
        let of_exchange = self.units.or(self.helpers).or(self.prefetch);
        let sizes = match kind {
            Kind::Exchange => self.units.is_none_or(|given| given == units),
            Kind::SingleBlock => of_exchange.is_none(),
            Kind::StepByStep => of_exchange.or(self.rows).is_none(),
        };
        let allowed = self.kinds == Kinds::Any || self.kinds == Kinds::Only(kind);
        allowed && sizes && self.rows.is_none_or(|given| given == rows)
    }

    /// That no kernel of these sizes can run a network.
    pub fn refused(self, network: &str) -> Error {
        let sizes = [("units", self.units), ("rows", self.rows), ("helpers", self.helpers)];
        let parts = [sizes.as_slice(), &[("prefetch", self.prefetch)]].concat();
        let parts = parts.iter().filter_map(|(name, n)| n.map(|n| format!("{name}={n}")));
        let kinds = KINDS.iter().filter(|(_, kinds)| *kinds != Kinds::USUAL);
        let kind = kinds.filter(|(_, kinds)| *kinds == self.kinds).map(|(name, _)| name);
        let parts = parts.chain(kind.map(|name| format!("kind={name}")));
        let given = parts.collect::<Vec<_>>().join(",");
        Error::Unsupported(format!(
            "{VARIABLE}={given}: there are no such kernels for {network} on this GPU; without \
             {VARIABLE} they are chosen"
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
        let exchange = |units, rows| both.allows(Kind::Exchange, units, rows);
        assert!(exchange(32, 48) && !exchange(32, 64) && !exchange(16, 48));
        assert!(!none.allows(Kind::SingleBlock, 64, 8) && !none.allows(Kind::StepByStep, 64, 8));
        let alone = parse("kind=single-block,rows=8").expect("a tiling");
        assert!(alone.allows(Kind::SingleBlock, 64, 8) && !alone.allows(Kind::SingleBlock, 64, 4));
        assert!(!alone.allows(Kind::Exchange, 32, 8) && !alone.allows(Kind::StepByStep, 64, 8));
        let any = parse("kind=any").expect("a tiling");
        assert!([Kind::Exchange, Kind::SingleBlock, Kind::StepByStep].iter().all(|kind| {
            any.allows(*kind, 32, 16) && !parse("kind=any,units=16").unwrap().allows(*kind, 32, 16)
        }));
        assert!(!none.is_given() && both.is_given());
        let bad = ["16", "units", "units=", "units=17", "rows=9", "units=16,units=16", "rows=x"];
        for text in bad.into_iter().chain(["kind=", "kind=fast", "kind=any,kind=any"]) {
            let why = parse(text).expect_err(text).to_string();
            assert!(why.starts_with(&format!("DRNN_TILING={text} is not a tiling")), "{why}");
            assert!(why.contains("units=32|16, rows=16|24|32|48|64|8|4, helpers=1|2|4"), "{why}");
        }
        let why = both.refused("lstm(2000 units)").to_string();
        assert!(why.starts_with("DRNN_TILING=units=32,rows=48: there are no such"), "{why}");
        let why = alone.refused("lstm(2000 units)").to_string();
        assert!(why.starts_with("DRNN_TILING=rows=8,kind=single-block: there"), "{why}");
    }
}
