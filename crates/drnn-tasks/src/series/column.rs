//! Columns of a table, and the network's inputs that they become.
//!
//! ```text
//! column                  inputs
//! x       0.5             x = 0.5
//! kWh     0,5             kWh = 0.5, where the column has decimal commas
//! date    2016-07-01 ..   date:hour-of-day:sin, date:hour-of-day:cos, date:day-of-week:sin, ..
//! colour  red             colour=blue = 0, colour=red = 1
//! ```
//!
//! Numbers are standardised afterwards; sines, cosines, zeros and ones stay as they are. A missing
//! field makes all its inputs NaN. A category that training did not have makes all its inputs 0.

use super::time::{Cycle, TimeFormat};
use crate::text::{TOO_LARGE, is_missing, number, quote};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::iter::repeat_n;

/// Maximum categories of a column unless the user allows more: each is an input of the network.
pub const MAX_CATEGORIES: usize = 256;

/// A column of a table that inputs are made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputColumn {
    /// Its name in the table's header.
    pub name: String,
    /// What its fields are.
    pub kind: ColumnKind,
}

/// What the fields of a column are, and the inputs that they become.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ColumnKind {
    /// Numbers: one input.
    Number,
    /// Numbers with a comma before their decimals, as `1,5`: one input.
    DecimalComma,
    /// Dates and times: sine and cosine of each cycle.
    Time {
        /// How they are written.
        format: TimeFormat,
        /// What inputs are made of.
        cycles: Vec<Cycle>,
    },
    /// Text: one input per category, 1 for the field's own and 0 for others.
    Category {
        /// The categories of the training part, in ascending order.
        names: Vec<String>,
    },
}

/// What a field was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoded {
    /// A value.
    Known,
    /// Empty, NA or NaN: its inputs are NaN.
    Missing,
    /// A category that training did not have: its inputs are 0.
    UnknownCategory,
}

impl InputColumn {
    /// A column of numbers.
    pub fn number(name: &str) -> InputColumn {
        InputColumn { name: name.into(), kind: ColumnKind::Number }
    }

    /// The number of inputs.
    pub fn width(&self) -> usize {
        match &self.kind {
            ColumnKind::Number | ColumnKind::DecimalComma => 1,
            ColumnKind::Time { cycles, .. } => 2 * cycles.len(),
            ColumnKind::Category { names } => names.len(),
        }
    }

    /// The names of the inputs.
    pub fn inputs(&self) -> Vec<String> {
        let name = &self.name;
        match &self.kind {
            ColumnKind::Number | ColumnKind::DecimalComma => vec![name.clone()],
            ColumnKind::Time { cycles, .. } => {
                let both = |cycle: &Cycle| ["sin", "cos"].map(|of| format!("{name}:{cycle}:{of}"));
                cycles.iter().flat_map(both).collect()
            }
            ColumnKind::Category { names } => {
                names.iter().map(|category| format!("{name}={category}")).collect()
            }
        }
    }

    /// Whether the inputs are standardised.
    pub fn is_standardised(&self) -> bool {
        matches!(self.kind, ColumnKind::Number | ColumnKind::DecimalComma)
    }

    /// Appends the inputs of a field.
    pub fn encode(&self, field: &str, to: &mut Vec<f32>) -> Result<Encoded, String> {
        let missing = is_missing(field);
        match &self.kind {
            ColumnKind::Number => {
                to.push(number(field).map_err(|why| self.refuse(why))?);
                return Ok(if missing { Encoded::Missing } else { Encoded::Known });
            }
            ColumnKind::DecimalComma => {
                to.push(decimal_comma(field).map_err(|why| self.refuse(why))?);
                return Ok(if missing { Encoded::Missing } else { Encoded::Known });
            }
            _ if missing => {
                to.extend(repeat_n(f32::NAN, self.width()));
                return Ok(Encoded::Missing);
            }
            ColumnKind::Time { format, cycles } => {
                let moment = format.parse(field).map_err(|why| self.refuse(why))?;
                to.extend(cycles.iter().flat_map(|cycle| moment.on_circle(*cycle)));
            }
            ColumnKind::Category { names } => {
                let start = to.len();
                to.extend(repeat_n(0.0, names.len()));
                match names.binary_search_by(|name| name.as_str().cmp(field)) {
                    Ok(at) => to[start + at] = 1.0,
                    Err(_) => return Ok(Encoded::UnknownCategory),
                }
            }
        }
        Ok(Encoded::Known)
    }

    /// Appends the inputs of a JSON value: a number, a text, or null if it is missing.
    pub fn encode_json(&self, value: &Value, to: &mut Vec<f32>) -> Result<Encoded, String> {
        match (&self.kind, value) {
            (_, Value::Null) => self.encode("", to),
            (ColumnKind::Number | ColumnKind::DecimalComma, value) => {
                match value.as_f64().map(|x| x as f32) {
                    Some(x) if x.is_finite() => {
                        to.push(x);
                        Ok(Encoded::Known)
                    }
                    Some(_) => Err(format!("{} {TOO_LARGE}", quote(&value.to_string()))),
                    None => Err(not("a number, or null if it is missing", value)),
                }
            }
            (_, Value::String(text)) => self.encode(text.trim(), to),
            (ColumnKind::Category { .. }, Value::Number(_) | Value::Bool(_))
            | (
                ColumnKind::Time { format: TimeFormat::Unix | TimeFormat::UnixMs, .. },
                Value::Number(_),
            ) => self.encode(&value.to_string(), to),
            (ColumnKind::Time { format, .. }, _) => {
                Err(self.refuse(not(&format!("a time as text, written as {format}"), value)))
            }
            (ColumnKind::Category { .. }, _) => Err(self.refuse(not("a category as text", value))),
        }
    }

    fn refuse(&self, why: String) -> String {
        format!("column {}: {why}", quote(&self.name))
    }

    /// Whether the description holds together.
    pub(super) fn check(&self) -> Result<(), String> {
        let name = quote(&self.name);
        match &self.kind {
            ColumnKind::Number | ColumnKind::DecimalComma => Ok(()),
            ColumnKind::Time { cycles, .. } if cycles.is_empty() => {
                Err(format!("column {name} has no cycles"))
            }
            ColumnKind::Category { names } if names.is_empty() => {
                Err(format!("column {name} has no categories"))
            }
            ColumnKind::Category { names } if !names.is_sorted_by(|a, b| a < b) => {
                Err(format!("the categories of column {name} are not in ascending order"))
            }
            _ => Ok(()),
        }
    }
}

/// Parses a number with a decimal comma, or a whole number. A point might separate thousands, so it is
/// refused.
pub fn decimal_comma(field: &str) -> Result<f32, String> {
    match field.contains('.') {
        true => Err(format!(
            "{} has a point, in a column of numbers with a decimal comma",
            quote(field)
        )),
        false => number(&field.replacen(',', ".", 1)),
    }
}

fn not(what: &str, found: &Value) -> String {
    format!("{} is not {what}", quote(&found.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns() -> Vec<InputColumn> {
        let cycles = vec![Cycle::HourOfDay, Cycle::DayOfYear];
        let time = ColumnKind::Time { format: TimeFormat::Iso, cycles };
        let category = ColumnKind::Category { names: vec!["blue".into(), "red".into()] };
        vec![
            InputColumn::number("x"),
            InputColumn { name: "date".into(), kind: time },
            InputColumn { name: "colour".into(), kind: category },
        ]
    }

    fn encoded(column: &InputColumn, field: &str) -> (Vec<f32>, Encoded) {
        let mut to = Vec::new();
        let found = column.encode(field, &mut to).unwrap();
        assert_eq!((to.len(), column.inputs().len()), (column.width(), column.width()));
        (to, found)
    }

    #[test]
    fn fields_become_inputs() {
        let [x, date, colour] = &columns()[..] else { panic!() };
        assert_eq!(encoded(x, "-2.5"), (vec![-2.5], Encoded::Known));
        assert_eq!(encoded(colour, "red"), (vec![0.0, 1.0], Encoded::Known));
        assert_eq!(encoded(colour, "green"), (vec![0.0; 2], Encoded::UnknownCategory));
        let (inputs, found) = encoded(date, "2016-01-01");
        assert_eq!((&inputs[..], found), (&[0.0, 1.0, 0.0, 1.0][..], Encoded::Known));
        for (column, field) in [(x, ""), (x, "NaN"), (date, "NA"), (colour, "na")] {
            let (inputs, found) = encoded(column, field);
            assert!(inputs.iter().all(|x| x.is_nan()) && found == Encoded::Missing);
        }
        assert_eq!(
            date.inputs(),
            ["hour-of-day:sin", "hour-of-day:cos", "day-of-year:sin", "day-of-year:cos"]
                .map(|name| format!("date:{name}"))
        );
        assert_eq!(colour.inputs(), ["colour=blue", "colour=red"]);
        let why = date.encode("2015-02-29", &mut Vec::new()).unwrap_err();
        assert!(why.starts_with("column `date`: `2015-02-29` is not a time that exists"), "{why}");
    }

    #[test]
    fn json_is_encoded_as_fields_are() {
        let values = serde_json::json!([[0.5, "2016-07-01 06:00", "red"], [null, null, null]]);
        for (json, fields) in
            [(&values[0], ["0.5", "2016-07-01 06:00", "red"]), (&values[1], [""; 3])]
        {
            for ((column, value), field) in
                columns().iter().zip(json.as_array().unwrap()).zip(fields)
            {
                let (mut a, mut b) = (Vec::new(), Vec::new());
                assert_eq!(column.encode_json(value, &mut a), column.encode(field, &mut b));
                assert_eq!(format!("{a:?}"), format!("{b:?}"));
            }
        }
        let why = |at: usize, value: Value| {
            columns()[at].encode_json(&value, &mut Vec::new()).unwrap_err()
        };
        assert!(why(0, "1".into()).contains("is not a number, or null"));
        assert!(why(1, 5.into()).contains("is not a time as text, written as iso"));
        assert!(why(2, Value::Array(vec![])).contains("is not a category as text"));
    }

    #[test]
    fn decimal_commas() {
        let column = InputColumn { name: "kWh".into(), kind: ColumnKind::DecimalComma };
        for (field, expected) in [("1,5", 1.5), ("-0,25", -0.25), ("7", 7.0), ("1,5e3", 1500.0)] {
            assert_eq!(encoded(&column, field), (vec![expected], Encoded::Known), "{field}");
        }
        assert_eq!(encoded(&column, "NA").1, Encoded::Missing);
        let why = |field: &str| column.encode(field, &mut Vec::new()).unwrap_err();
        assert!(why("1.234,5").contains("column `kWh`: `1.234,5` has a point"));
        assert!(why("1,2,3").contains("is not a number"));
        let mut to = Vec::new();
        column.encode_json(&serde_json::json!(1.5), &mut to).unwrap();
        assert_eq!((to, column.is_standardised()), (vec![1.5], true));
    }

    #[test]
    fn descriptions_survive_their_file() {
        for column in columns() {
            column.check().unwrap();
            let text = serde_json::to_string(&column).unwrap();
            assert_eq!(serde_json::from_str::<InputColumn>(&text).unwrap(), column, "{text}");
        }
        let unsorted = ColumnKind::Category { names: vec!["b".into(), "a".into()] };
        assert!(InputColumn { name: "c".into(), kind: unsorted }.check().is_err());
    }
}
