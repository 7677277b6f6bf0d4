//! A report independent of its format: HTML, Markdown or text.

use super::paper::Claim;
use crate::plot::Picture;
use drnn::text::shortened;
use std::fmt::Write;

/// A report.
pub struct Page {
    pub title: String,
    pub parts: Vec<Part>,
}

/// A part of a page. Its text is plain; the writers escape it.
pub enum Part {
    Heading(&'static str),
    /// What the page is about, under its title.
    Lead(String),
    /// Links to these headings.
    Contents(Vec<&'static str>),
    /// Claims with their verdicts.
    Claims(Vec<Claim>),
    Text(String),
    /// A sentence that must not be overlooked.
    Alarm(String),
    List(Vec<String>),
    Code(String),
    /// Names and values.
    Facts(Vec<(&'static str, String)>),
    Table(Table),
    Figure(Figure),
}

/// Maximum characters of a cell on a terminal, and in a report.
const MAX_TEXT_CELL: usize = 60;
pub const MAX_CELL: usize = 200;
/// Maximum characters of a title.
pub const MAX_TITLE: usize = 200;

/// The first column names the row; the others hold numbers.
pub struct Table {
    pub caption: String,
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

/// A picture, which is also written as `name`.svg.
pub struct Figure {
    pub name: &'static str,
    pub picture: Box<dyn Picture>,
    pub caption: String,
}

impl Table {
    /// As text for a terminal, with long cells cut.
    pub fn text(&self) -> String {
        let cut = |row: &Vec<String>| -> Vec<String> {
            row.iter().map(|cell| shortened(cell, MAX_TEXT_CELL)).collect()
        };
        let all: Vec<Vec<String>> = [&self.head].into_iter().chain(&self.rows).map(cut).collect();
        let rows = || all.iter();
        let width = |i: usize| {
            rows().filter_map(|row| row.get(i)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut out = String::new();
        for row in rows() {
            for (i, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                // Names must not move the cursor or change colours.
                let cell = cell.replace(char::is_control, "\u{fffd}");
                let _ = match i {
                    0 => write!(out, "{cell:width$}"),
                    _ => write!(out, "  {cell:>width$}"),
                };
            }
            out.truncate(out.trim_end().len());
            out.push('\n');
        }
        out
    }
}

/// `0.731 ± 0.002`: mean, and standard deviation where there are several.
pub fn mean_sd(values: &[f64], decimals: usize) -> String {
    let (mean, sd) = moments(values);
    match sd {
        _ if !mean.is_finite() => "not finite".into(),
        Some(sd) => format!("{mean:.decimals$} ± {sd:.decimals$}"),
        None => format!("{mean:.decimals$}"),
    }
}

/// Mean; standard deviation (by n - 1) of more than one value.
pub fn moments(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let square = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>();
    (mean, (values.len() > 1).then(|| (square / (n - 1.0)).sqrt()))
}

/// Four digits, whatever the size: `54.85`, `0.001234`, `3.210e-9`.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 {
        "0".into()
    } else if (1e-3..1e4).contains(&size) {
        let decimals = (3.0 - size.log10().floor()).max(0.0) as usize;
        format!("{value:.decimals$}")
    } else {
        format!("{value:.3e}")
    }
}

/// `+0.004`, `−0.012`.
pub fn signed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "not finite".into();
    }
    let text = format!("{:.decimals$}", value.abs());
    let nothing = text.chars().all(|c| matches!(c, '0' | '.'));
    let sign = if nothing {
        ""
    } else if value < 0.0 {
        "\u{2212}"
    } else {
        "+"
    };
    format!("{sign}{text}")
}

/// `30.1 s`, `2 min 51 s`, `1 h 02 min`.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round();
    let (minutes, rest) = ((whole / 60.0).floor(), whole % 60.0);
    if !seconds.is_finite() {
        "not finite".into()
    } else if seconds < 59.95 {
        format!("{seconds:.1} s")
    } else if minutes < 60.0 {
        format!("{minutes:.0} min {rest:02.0} s")
    } else {
        format!("{:.0} h {:02.0} min", (minutes / 60.0).floor(), minutes % 60.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_cells_are_cut() {
        let (caption, head) = (String::new(), vec!["name".into(), "n".into()]);
        let table = Table { caption, head, rows: vec![vec!["é".repeat(70_000), "1".into()]] };
        assert_eq!(table.text().lines().nth(1).unwrap().chars().count(), 60 + 2 + 2 + 1);
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(mean_sd(&[0.5], 3), "0.500");
        assert_eq!(mean_sd(&[1.0, 2.0, 3.0], 1), "2.0 ± 1.0");
        assert_eq!(mean_sd(&[1.0, f64::NAN], 1), "not finite");
        let numbers = [0.0, 54.8546, -0.0012341, 9999.4, 12345.0, 3.21e-9].map(number).join(" ");
        assert_eq!(numbers, "0 54.85 -0.001234 9999 1.234e4 3.210e-9");
        assert_eq!(signed(-0.0123, 3), "\u{2212}0.012");
        assert_eq!((signed(0.1, 2), signed(-0.0001, 3)), ("+0.10".into(), "0.000".into()));
        let durations = [0.04, 59.94, 59.96, 171.2, 3599.9, 7320.0].map(duration).join(", ");
        assert_eq!(durations, "0.0 s, 59.9 s, 1 min 00 s, 2 min 51 s, 1 h 00 min, 2 h 02 min");
    }
}
