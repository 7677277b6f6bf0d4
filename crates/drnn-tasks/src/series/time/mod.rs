//! Dates and times of a table, and the cyclic inputs that they become.
//!
//! ```text
//! iso           2016-07-01, 2016-07-01 13:45, 2016-07-01T13:45:00.5+02:00, 20160701T134500Z, 2016/7/1
//! day-first     01/07/2016, 1.7.2016 13:45, 01-07-2016 1:45 PM
//! month-first   07/01/2016, 7/1/2016 1:45 PM
//! unix          1467380700, seconds since 1970 in UTC
//! unix-ms       1467380700000, milliseconds
//!
//! phase p of a cycle, in [0, 1)   ->   sin(2 pi p), cos(2 pi p)
//! ```
//!
//! The cycles of a day and of a week follow the clock on the wall, so an offset from UTC (`+02:00`,
//! `Z`) does not change the inputs. It counts where times are compared.

use crate::text::quote;
use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::temporal::Pieces;
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;
use std::fmt;

/// How a column's dates and times are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeFormat {
    /// Year, month, day: ISO 8601, also with `/` and without leading zeros.
    Iso,
    /// Day, month, year, separated by `/`, `.` or `-`.
    DayFirst,
    /// Month, day, year, separated by `/`, `.` or `-`.
    MonthFirst,
    /// Seconds since 1970 in UTC.
    Unix,
    /// Milliseconds since 1970 in UTC.
    UnixMs,
}

/// A cycle that a time is a point of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cycle {
    /// From midnight to midnight.
    HourOfDay,
    /// From Monday to Sunday.
    DayOfWeek,
    /// From 1 January to 31 December; a leap year has one more day.
    DayOfYear,
}

/// A date and time of day, with its offset from UTC if it was written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    local: DateTime,
    /// Seconds east of Greenwich; 0 if not written.
    offset: i32,
}

const DAY: f64 = 86_400.0;

impl TimeFormat {
    /// Formats that are recognised without being named.
    pub const RECOGNISED: [TimeFormat; 3] =
        [TimeFormat::Iso, TimeFormat::DayFirst, TimeFormat::MonthFirst];

    /// Parses a field.
    pub fn parse(self, field: &str) -> Result<Moment, String> {
        let field = field.trim();
        let parsed = match self {
            TimeFormat::Unix => unix(field, 1e9),
            TimeFormat::UnixMs => unix(field, 1e6),
            TimeFormat::Iso => iso(field).or_else(|| in_order(field, [0, 1, 2])),
            TimeFormat::DayFirst => in_order(field, [2, 1, 0]),
            TimeFormat::MonthFirst => in_order(field, [2, 0, 1]),
        };
        parsed.ok_or_else(|| {
            format!(
                "{} is not a time that exists, written as {self} like {}",
                quote(field),
                self.example()
            )
        })
    }

    /// Whether times are written as numbers.
    pub fn is_number(self) -> bool {
        matches!(self, TimeFormat::Unix | TimeFormat::UnixMs)
    }

    fn example(self) -> &'static str {
        match self {
            TimeFormat::Iso => "2016-07-01 13:45:00",
            TimeFormat::DayFirst => "31/12/2016 13:45",
            TimeFormat::MonthFirst => "12/31/2016 13:45",
            TimeFormat::Unix => "1467380700",
            TimeFormat::UnixMs => "1467380700000",
        }
    }
}

impl fmt::Display for TimeFormat {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            TimeFormat::Iso => "iso",
            TimeFormat::DayFirst => "day-first",
            TimeFormat::MonthFirst => "month-first",
            TimeFormat::Unix => "unix",
            TimeFormat::UnixMs => "unix-ms",
        })
    }
}

/// A count of units of so many nanoseconds since 1970.
fn unix(field: &str, unit: f64) -> Option<Moment> {
    let count: f64 = field.parse().ok()?;
    let nanoseconds = count * unit;
    if !nanoseconds.is_finite() {
        return None;
    }
    let at = jiff::Timestamp::from_nanosecond(nanoseconds.round() as i128).ok()?;
    Some(Moment { local: jiff::tz::Offset::UTC.to_datetime(at), offset: 0 })
}

fn iso(field: &str) -> Option<Moment> {
    let pieces = Pieces::parse(field).ok()?;
    let time = pieces.time().unwrap_or_default();
    let offset = pieces.to_numeric_offset().map_or(0, |offset| offset.seconds());
    Some(Moment { local: pieces.date().to_datetime(time), offset })
}

/// A date of three numbers, where `order` gives the places of year, month and day; then perhaps a
/// time of day, perhaps an offset.
fn in_order(field: &str, order: [usize; 3]) -> Option<Moment> {
    let (date, rest) = match field.split_once([' ', 'T']) {
        Some((date, rest)) => (date, rest.trim()),
        None => (field, ""),
    };
    let separator = date.chars().find(|c| matches!(c, '/' | '.' | '-'))?;
    let mut parts = date.split(separator);
    let texts = [parts.next()?, parts.next()?, parts.next()?];
    if parts.next().is_some() {
        return None;
    }
    // Two digits would leave the century open.
    let [year, month, day] = order.map(|place| texts[place]);
    if year.len() != 4 || !(1..=2).contains(&month.len()) || !(1..=2).contains(&day.len()) {
        return None;
    }
    let date = Date::new(
        digits(year)?.try_into().ok()?,
        digits(month)?.try_into().ok()?,
        digits(day)?.try_into().ok()?,
    );
    let (time, offset) = time_of_day(rest)?;
    Some(Moment { local: date.ok()?.to_datetime(time), offset })
}

/// `13:45`, `13:45:00.5`, `1:45 PM`, `13:45+02:00`, or nothing for midnight.
fn time_of_day(text: &str) -> Option<(Time, i32)> {
    if text.is_empty() {
        return Some((Time::midnight(), 0));
    }
    let upper = text.to_ascii_uppercase();
    let half = [("AM", 0), ("PM", 12)].into_iter().find_map(|(name, hours)| {
        let clock = upper.strip_suffix(name)?.trim_end();
        Some((clock.to_string(), hours))
    });
    let (clock, noon) = half.map_or((upper, None), |(clock, hours)| (clock, Some(hours)));
    let (clock, offset) = match clock.find(['+', '-', 'Z']) {
        Some(at) => (clock[..at].trim_end(), offset(&clock[at..])?),
        None => (clock.as_str(), 0),
    };
    let mut parts = clock.split(':');
    let (hour, minute) = (digits(parts.next()?)?, digits(parts.next()?)?);
    let (second, fraction) = match parts.next() {
        None => (0, 0),
        Some(text) => match text.split_once('.') {
            None => (digits(text)?, 0),
            Some((second, fraction)) => (digits(second)?, nanoseconds(fraction)?),
        },
    };
    let hour = match noon {
        None => hour,
        Some(_) if !(1..=12).contains(&hour) => return None,
        Some(noon) => hour % 12 + noon,
    };
    if parts.next().is_some() {
        return None;
    }
    let small = |n: i32| i8::try_from(n).ok();
    Some((Time::new(small(hour)?, small(minute)?, small(second)?, fraction).ok()?, offset))
}

/// Seconds of `Z`, `+02:00` or `-0330`.
fn offset(text: &str) -> Option<i32> {
    let sign = match text.as_bytes() {
        b"Z" => return Some(0),
        [b'+', ..] => 1,
        _ => -1,
    };
    let plain: String = text[1..].chars().filter(|c| *c != ':').collect();
    let number = digits(&plain).filter(|_| matches!(plain.len(), 2 | 4))?;
    let (hours, minutes) =
        if plain.len() == 2 { (number, 0) } else { (number / 100, number % 100) };
    (hours <= 25 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// At most nine digits as a number; no sign.
fn digits(text: &str) -> Option<i32> {
    let plain = (1..=9).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

fn nanoseconds(fraction: &str) -> Option<i32> {
    let kept: String = fraction.chars().take(9).collect();
    fraction.bytes().all(|b| b.is_ascii_digit()).then_some(())?;
    Some(digits(&kept)? * 10_i32.pow(9 - kept.len() as u32))
}

impl Moment {
    /// Seconds since 1970, in UTC where an offset was written.
    pub fn seconds(&self) -> f64 {
        let days = self.local.date().since(Date::constant(1970, 1, 1));
        let days = days.map_or(0, |span| span.get_days());
        f64::from(days) * DAY + self.second_of_day() - f64::from(self.offset)
    }

    fn second_of_day(&self) -> f64 {
        let time = self.local.time();
        let whole = i32::from(time.hour()) * 3600
            + i32::from(time.minute()) * 60
            + i32::from(time.second());
        f64::from(whole) + f64::from(time.subsec_nanosecond()) * 1e-9
    }

    /// The point of a cycle that it is, in [0, 1).
    pub fn phase(&self, cycle: Cycle) -> f64 {
        let day = self.second_of_day() / DAY;
        let date = self.local.date();
        match cycle {
            Cycle::HourOfDay => day,
            Cycle::DayOfWeek => (f64::from(date.weekday().to_monday_zero_offset()) + day) / 7.0,
            Cycle::DayOfYear => {
                (f64::from(date.day_of_year() - 1) + day) / f64::from(date.days_in_year())
            }
        }
    }

    /// Sine and cosine of its phase.
    pub fn on_circle(&self, cycle: Cycle) -> [f32; 2] {
        let (sin, cos) = (TAU * self.phase(cycle)).sin_cos();
        [sin as f32, cos as f32]
    }
}

impl Cycle {
    /// All of them, the shortest first.
    pub const ALL: [Cycle; 3] = [Cycle::HourOfDay, Cycle::DayOfWeek, Cycle::DayOfYear];

    /// Its length in seconds.
    pub fn seconds(self) -> f64 {
        match self {
            Cycle::HourOfDay => DAY,
            Cycle::DayOfWeek => 7.0 * DAY,
            Cycle::DayOfYear => 365.25 * DAY,
        }
    }

    /// The cycles that times with this step and span can show: at least two times in each, and one
    /// and a half of them in all. Less is a trend that does not come back.
    pub fn shown_by(step: f64, span: f64) -> Vec<Cycle> {
        let shown = |cycle: &Cycle| step * 2.0 <= cycle.seconds() && span >= 1.5 * cycle.seconds();
        Cycle::ALL.into_iter().filter(shown).collect()
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Cycle::HourOfDay => "hour-of-day",
            Cycle::DayOfWeek => "day-of-week",
            Cycle::DayOfYear => "day-of-year",
        })
    }
}

#[cfg(test)]
mod tests;
