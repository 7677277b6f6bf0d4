//! Rows of numbers: CSV with a header, or a NumPy array.
//!
//! ```text
//! time,x,y,class          columns are chosen by name; by default all that hold numbers
//! 0.0,1.5,NA,walk         empty, NA and NaN are missing numbers
//!
//! (T,), (T, q), (N, T, q) arrays: columns are called 0, 1, .., so are the N sequences
//! ```

use super::building::Building;
use super::csv::Rows;
use super::limits::{MAX_COLUMNS, check_name};
use super::npy::{self, Array, Values};
use super::open::Source;
use super::{MAX_CLASSES, Missing, listed, quote, refuse};
use crate::error::{Error, Result};
use drnn_tasks::text::number;
use std::collections::HashMap;

/// What is wanted of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Columns of numbers; None for all but the two below.
    pub numbers: Option<Vec<String>>,
    /// A column of text that says what a row is.
    pub label: Option<String>,
    /// A column of text that says which sequence a row belongs to.
    pub sequence: Option<String>,
    /// What becomes of missing numbers.
    pub missing: Missing,
    /// Between the columns of CSV.
    pub delimiter: u8,
    /// Different texts that the label may have.
    pub max_labels: usize,
}

impl Default for Choice {
    fn default() -> Choice {
        let missing = Missing::default();
        Choice {
            numbers: None,
            label: None,
            sequence: None,
            missing,
            delimiter: b',',
            max_labels: MAX_CLASSES,
        }
    }
}

/// A column of text: the different ones in the order in which they come, and which of them each row has.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Names {
    /// The different texts.
    pub names: Vec<String>,
    /// Per row.
    pub ids: Vec<u32>,
}

/// Rows of finite numbers, but for missing ones that were to be kept.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// Names of the columns of numbers.
    pub columns: Vec<String>,
    /// Row after row.
    pub values: Vec<f32>,
    /// Line of each row, from 1; none of an array.
    pub lines: Vec<u64>,
    /// The label of each row, where [`Choice::label`] names a column.
    pub label: Option<Names>,
    /// The sequence of each row, where [`Choice::sequence`] names a column; always with arrays (N, T, q).
    pub sequence: Option<Names>,
    /// Missing numbers that were filled in.
    pub filled: usize,
    /// Rows that were left out.
    pub dropped: usize,
}

impl Table {
    /// Rows.
    pub fn len(&self) -> usize {
        self.values.len() / self.columns.len().max(1)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The numbers of row `i`.
    pub fn row(&self, i: usize) -> &[f32] {
        &self.values[i * self.columns.len()..][..self.columns.len()]
    }
}

/// Reads a table.
pub fn table(source: Source, choice: &Choice) -> Result<Table> {
    if source.is_array() {
        let name = source.name().to_string();
        return from_array(npy::array(source)?, choice).map_err(|e| refuse(&name, None, e));
    }
    if !matches!(choice.delimiter, b'\t' | b' '..=b'~') || choice.delimiter == b'"' {
        return Err(Error::Options("columns are separated by an ASCII character, no quote".into()));
    }
    let mut rows = Rows::new(source.lines(), choice.delimiter);
    if !rows.next()? {
        return Err(refuse(rows.name(), None, EMPTY));
    }
    let header: Vec<String> = (0..rows.len()).map(|i| rows.field(i).to_string()).collect();
    let places = Places::new(&header, choice).map_err(|reason| rows.refuse(reason))?;
    let mut building = Building::new(places.names(&header), choice);
    let mut numbers = Vec::new();
    while rows.next()? {
        if rows.len() != header.len() {
            let (found, expected) = (rows.len(), header.len());
            let what = format!("the row has {found} columns, the header has {expected}");
            return Err(rows.refuse(what));
        }
        numbers.clear();
        for &place in &places.numbers {
            let number = number(rows.field(place)).map_err(|reason| {
                rows.refuse(format!("column {}: {reason}", quote(&header[place])))
            })?;
            numbers.push(number);
        }
        let [label, sequence] =
            [places.label, places.sequence].map(|place| place.map(|at| rows.field(at)));
        let pushed = building.push(&numbers, label, sequence, Some(rows.line()));
        pushed.map_err(|reason| rows.refuse(reason))?;
    }
    building.finish().map_err(|reason| refuse(rows.name(), None, reason))
}

const EMPTY: &str = "is empty; expected a line with the columns' names";

/// Whether a column of CSV holds text: its first field that is not missing is not a number. Arrays hold none.
pub fn is_text(source: Source, column: &str, delimiter: u8) -> Result<bool> {
    if source.is_array() {
        return Ok(false);
    }
    let mut rows = Rows::new(source.lines(), delimiter);
    if !rows.next()? {
        return Err(refuse(rows.name(), None, EMPTY));
    }
    let header: Vec<String> = (0..rows.len()).map(|i| rows.field(i).to_string()).collect();
    let choice = Choice { numbers: Some(vec![column.to_string()]), ..Choice::default() };
    let place = Places::new(&header, &choice).map_err(|reason| rows.refuse(reason))?.numbers[0];
    while rows.next()? {
        let field = if place < rows.len() { rows.field(place) } else { "" };
        match number(field) {
            Ok(number) if number.is_nan() => {}
            found => return Ok(found.is_err() && field.parse::<f32>().is_err()),
        }
    }
    Ok(false)
}

fn from_array(array: Array, choice: &Choice) -> std::result::Result<Table, String> {
    let (count, steps, width) = match array.shape[..] {
        [steps] => (None, steps, 1),
        [steps, width] => (None, steps, width),
        [count, steps, width] => (Some(count), steps, width),
        _ => {
            return Err(format!("has shape {:?}; expected (T,), (T, q) or (N, T, q)", array.shape));
        }
    };
    if choice.label.is_some() || choice.sequence.is_some() {
        return Err("is an array, which has no columns of text".into());
    }
    let values = match array.values {
        Values::Floats(values) => values,
        Values::Integers(values) => values.into_iter().map(|value| value as f32).collect(),
    };
    if values.is_empty() {
        return Err("holds no rows".into());
    }
    let header: Vec<String> = (0..width).map(|i| i.to_string()).collect();
    let places = Places::new(&header, choice)?;
    let mut building = Building::new(places.names(&header), choice);
    let mut numbers = Vec::new();
    for (i, row) in values.chunks_exact(width).enumerate() {
        numbers.clear();
        numbers.extend(places.numbers.iter().map(|at| row[*at]));
        if let Some(column) = numbers.iter().position(|x| x.is_infinite()) {
            let column = &header[places.numbers[column]];
            return Err(format!("row {i}, column {column} is not finite"));
        }
        let sequence = count.map(|_| (i / steps).to_string());
        let pushed = building.push(&numbers, None, sequence.as_deref(), None);
        pushed.map_err(|reason| format!("row {i}, {reason}"))?;
    }
    building.finish()
}

/// Which columns are read.
pub(crate) struct Places {
    pub numbers: Vec<usize>,
    pub label: Option<usize>,
    pub sequence: Option<usize>,
}

impl Places {
    pub fn new(header: &[String], choice: &Choice) -> std::result::Result<Places, String> {
        if header.len() > MAX_COLUMNS {
            let columns = header.len();
            return Err(format!("the header has {columns} columns (at most {MAX_COLUMNS})"));
        }
        let mut places = HashMap::new();
        for (i, name) in header.iter().enumerate() {
            check_name(&format!("column {}", i + 1), name)?;
            if places.insert(name.as_str(), i).is_some() {
                return Err(format!("the header has column {} twice", quote(name)));
            }
        }
        let find = |name: &String| {
            places.get(name.as_str()).copied().ok_or_else(|| {
                let there = listed(header.iter().map(String::as_str));
                let alone = header.len() == 1 && header[0].contains([';', '\t', '|']);
                let hint =
                    if alone { ". What separates them? Expected another delimiter" } else { "" };
                format!("has no column {}; there are {there}{hint}", quote(name))
            })
        };
        let label = choice.label.as_ref().map(find).transpose()?;
        let sequence = choice.sequence.as_ref().map(find).transpose()?;
        let numbers: Vec<usize> = match &choice.numbers {
            Some(names) => names.iter().map(find).collect::<std::result::Result<_, _>>()?,
            None => (0..header.len()).filter(|i| ![label, sequence].contains(&Some(*i))).collect(),
        };
        if numbers.is_empty() {
            return Err("has no column of numbers, or none was chosen".into());
        }
        Ok(Places { numbers, label, sequence })
    }

    fn names(&self, header: &[String]) -> Vec<String> {
        self.numbers.iter().map(|at| header[*at].clone()).collect()
    }
}

#[cfg(test)]
mod tests;
