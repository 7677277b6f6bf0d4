//! Rows of numbers: CSV with a header, or a NumPy array.
//!
//! ```text
//! time,x,y,class          columns are chosen by name; by default all are numbers
//! 0.0,1.5,NA,walk         empty, NA and NaN are missing numbers
//!
//! (T,), (T, q), (N, T, q) arrays: columns are called 0, 1, .., so are the N sequences
//! ```

use super::building::Building;
use super::csv::Rows;
use super::header::{Delimiter, Header};
use super::limits::{MAX_COLUMNS, check_name};
use super::npy::{self, Array, Values};
use super::open::Source;
use super::{MAX_CLASSES, Missing, listed, quote, refuse};
use crate::error::{Error, Result};
use drnn_tasks::series::{ColumnKind, Encoded, InputColumn};
use std::collections::HashMap;

/// What is wanted of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Columns that become numbers; None for all but the two below and the rows' names, as they are.
    pub columns: Option<Vec<InputColumn>>,
    /// A column of text that says what a row is.
    pub label: Option<String>,
    /// A column of text that says which sequence a row belongs to.
    pub sequence: Option<String>,
    /// What becomes of missing numbers.
    pub missing: Missing,
    /// Between the columns of CSV.
    pub delimiter: Delimiter,
    /// Different texts that the label may have.
    pub max_labels: usize,
    /// How many of the columns, the last ones, are targets.
    pub targets: usize,
    /// Whether errors name the options of a training that help.
    pub names_options: bool,
}

impl Default for Choice {
    fn default() -> Choice {
        Choice {
            columns: None,
            label: None,
            sequence: None,
            missing: Missing::default(),
            delimiter: Delimiter::default(),
            max_labels: MAX_CLASSES,
            targets: 0,
            names_options: true,
        }
    }
}

/// A column of text: the different ones in the order in which they come, and which of them each row has.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Names {
    /// The different texts.
    pub names: Vec<String>,
    /// Per row; [`crate::IGNORE`] where the label is missing and missing ones are kept.
    pub ids: Vec<u32>,
}

/// Rows of finite numbers, but for missing ones that were to be kept.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Table {
    /// Names of the numbers, see [`InputColumn::inputs`].
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
    /// Fields with a category that their column does not have.
    pub unknown: usize,
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
    let (mut rows, header) = open_table(source, choice.delimiter)?;
    let names = &header.names;
    let places = Places::new(&header, choice).map_err(|reason| rows.refuse(reason))?;
    let mut building = Building::new(places.inputs(), choice);
    let mut numbers = Vec::new();
    while rows.next()? {
        if rows.len() != names.len() {
            let help = if choice.names_options { DELIMITER_HELP } else { "" };
            return Err(rows.refuse(wrong_length(rows.len(), names.len()) + help));
        }
        numbers.clear();
        let mut unknown = 0;
        for (i, (column, &place)) in places.columns.iter().zip(&places.at).enumerate() {
            let is_target = i + choice.targets >= places.columns.len();
            let encoded = column.encode(rows.field(place), &mut numbers);
            let encoded = encoded.map_err(|reason| {
                let help = if choice.names_options { help(column, is_target) } else { "" };
                rows.refuse(format!("{reason}{help}"))
            })?;
            unknown += usize::from(encoded == Encoded::UnknownCategory);
        }
        let [label, sequence] =
            [places.label, places.sequence].map(|place| place.map(|at| rows.field(at)));
        let pushed = building.push(&numbers, label, sequence, Some(rows.line()), unknown);
        pushed.map_err(|reason| rows.refuse(reason))?;
    }
    building.finish().map_err(|reason| refuse(rows.name(), None, reason))
}

/// The option that helps with a column that holds something else.
fn help(column: &InputColumn, is_target: bool) -> &'static str {
    match &column.kind {
        _ if is_target => "; --classify reads classes, --target names another column",
        ColumnKind::Time { .. } => {
            "; --time-format names another form, --inputs chooses the columns to read"
        }
        _ => "; --inputs chooses the columns to read",
    }
}

/// The option that helps with rows of other lengths.
const DELIMITER_HELP: &str = "; --delimiter names what separates them";

/// Reads a table's header.
pub(super) fn open_table(source: Source, delimiter: Delimiter) -> Result<(Rows, Header)> {
    let (Delimiter::Exactly(between) | Delimiter::Likely(between)) = delimiter;
    if !matches!(between, b'\t' | b' '..=b'~') || between == b'"' {
        return Err(Error::Options("columns are separated by an ASCII character, no quote".into()));
    }
    let name = source.name().to_string();
    let opened = Rows::open(source.lines(), delimiter)?;
    opened.ok_or_else(|| refuse(&name, None, "is empty; expected a line with the columns' names"))
}

/// What to say of a row that has too many or too few fields.
pub(super) fn wrong_length(found: usize, expected: usize) -> String {
    format!("the row has {found} columns, the header has {expected}")
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
    let names: Vec<String> = (0..width).map(|i| i.to_string()).collect();
    let header = Header { names, row_names: false, delimiter: b',' };
    let places = Places::new(&header, choice)?;
    if let Some(column) = places.columns.iter().find(|column| column.kind != ColumnKind::Number) {
        let name = quote(&column.name);
        return Err(format!("is an array of numbers; column {name} holds none"));
    }
    let mut building = Building::new(places.inputs(), choice);
    let mut numbers = Vec::new();
    for (i, row) in values.chunks_exact(width).enumerate() {
        numbers.clear();
        numbers.extend(places.at.iter().map(|at| row[*at]));
        if let Some(column) = numbers.iter().position(|x| x.is_infinite()) {
            let column = &header.names[places.at[column]];
            return Err(format!("row {i}, column {column} is not finite"));
        }
        let sequence = count.map(|_| (i / steps).to_string());
        let pushed = building.push(&numbers, None, sequence.as_deref(), None, 0);
        pushed.map_err(|reason| format!("row {i}, {reason}"))?;
    }
    building.finish()
}

/// Which columns are read, and where they are.
pub(crate) struct Places {
    pub columns: Vec<InputColumn>,
    pub at: Vec<usize>,
    pub label: Option<usize>,
    pub sequence: Option<usize>,
}

impl Places {
    pub fn new(header: &Header, choice: &Choice) -> std::result::Result<Places, String> {
        let names = &header.names;
        if names.len() > MAX_COLUMNS {
            let columns = names.len();
            return Err(format!("the header has {columns} columns (at most {MAX_COLUMNS})"));
        }
        let mut places = HashMap::new();
        for (i, name) in names.iter().enumerate() {
            check_name(&format!("column {}", i + 1), name)?;
            if places.insert(name.as_str(), i).is_some() {
                return Err(format!("the header has column {} twice", quote(name)));
            }
        }
        let find = |name: &String| {
            places.get(name.as_str()).copied().ok_or_else(|| no_column(name, names))
        };
        let label = choice.label.as_ref().map(find).transpose()?;
        let sequence = choice.sequence.as_ref().map(find).transpose()?;
        let (columns, at): (Vec<InputColumn>, Vec<usize>) = match &choice.columns {
            Some(columns) => {
                let at: std::result::Result<_, _> = columns.iter().map(|c| find(&c.name)).collect();
                (columns.clone(), at?)
            }
            None => {
                let first = usize::from(header.row_names);
                let others =
                    (first..names.len()).filter(|i| ![label, sequence].contains(&Some(*i)));
                others.map(|i| (InputColumn::number(&names[i]), i)).unzip()
            }
        };
        if columns.is_empty() {
            return Err("has no column of numbers, or none was chosen".into());
        }
        Ok(Places { columns, at, label, sequence })
    }

    /// Names of the numbers that a row becomes.
    fn inputs(&self) -> Vec<String> {
        self.columns.iter().flat_map(InputColumn::inputs).collect()
    }
}

/// What to say of a column that is not there.
pub(crate) fn no_column(name: &str, names: &[String]) -> String {
    let there = listed(names.iter().map(String::as_str));
    let alone = names.len() == 1 && names[0].contains([';', '\t', '|', ' ', ':', ',']);
    let hint = if alone { "; --delimiter names what separates columns" } else { "" };
    format!("has no column {}; there are {there}{hint}", quote(name))
}

#[cfg(test)]
mod tests;
