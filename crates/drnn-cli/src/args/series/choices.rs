//! Values of the options of series.

use clap::ValueEnum;
use drnn_tasks::series::{Cycle, TimeFormat};
use drnn_train::read::Missing;
use std::path::PathBuf;

/// What to do with missing inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum MissingName {
    /// Refuse the data
    Refuse,
    /// Use 0
    Zero,
    /// Use the column's mean in the training set
    Mean,
    /// Use the value of the previous row
    Previous,
    /// Leave the row out
    Drop,
}

impl From<MissingName> for Missing {
    fn from(name: MissingName) -> Missing {
        match name {
            MissingName::Refuse => Missing::Refuse,
            MissingName::Zero => Missing::Zero,
            MissingName::Mean => Missing::Mean,
            MissingName::Previous => Missing::Previous,
            MissingName::Drop => Missing::Drop,
        }
    }
}

/// How dates and times are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum TimeFormatName {
    /// Year first: 2016-07-01 13:45:00
    Iso,
    /// 31/12/2016 13:45
    DayFirst,
    /// 12/31/2016 1:45 PM
    MonthFirst,
    /// Seconds since 1970
    Unix,
    /// Milliseconds since 1970
    UnixMs,
}

impl From<TimeFormatName> for TimeFormat {
    fn from(name: TimeFormatName) -> TimeFormat {
        match name {
            TimeFormatName::Iso => TimeFormat::Iso,
            TimeFormatName::DayFirst => TimeFormat::DayFirst,
            TimeFormatName::MonthFirst => TimeFormat::MonthFirst,
            TimeFormatName::Unix => TimeFormat::Unix,
            TimeFormatName::UnixMs => TimeFormat::UnixMs,
        }
    }
}

/// A cycle that times are read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum CycleName {
    HourOfDay,
    DayOfWeek,
    DayOfYear,
}

impl From<CycleName> for Cycle {
    fn from(name: CycleName) -> Cycle {
        match name {
            CycleName::HourOfDay => Cycle::HourOfDay,
            CycleName::DayOfWeek => Cycle::DayOfWeek,
            CycleName::DayOfYear => Cycle::DayOfYear,
        }
    }
}

/// A validation or test set.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Held {
    Share(f64),
    Files(Vec<PathBuf>),
}

pub(super) fn held(text: &str) -> Result<Held, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..1.0).contains(&share) => Ok(Held::Share(share)),
        Ok(_) => Err("expected a share from 0 to below 1, or a file".into()),
        Err(_) => Ok(Held::Files(text.split(',').map(PathBuf::from).collect())),
    }
}

pub(super) fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        _ if matches!(text, "tab" | "\\t") => Ok(b'\t'),
        [c] => Ok(*c),
        _ => Err("expected one character, or tab".into()),
    }
}
