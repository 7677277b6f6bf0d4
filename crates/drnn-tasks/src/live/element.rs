//! Elements of a sequence, parsed from a line of text or from JSON.
//!
//! | model | line | JSON |
//! |---|---|---|
//! | plain, dense; series | `0.5 1` or `0.5,1`; NA or an empty field is missing | `[0.5, null]`, `{"x": 0.5, "y": 1}`, `0.5` |
//! | series with times and categories | `0.5,2016-07-01 13:45,red` | `[0.5, "2016-07-01 13:45", "red"]`, or an object |
//! | plain, tokens | `7` | `7` |
//! | chars | `a`, or `_` for a masked one | `"a"`, `null` for a masked one |
//! | tagger | `ants` | `"ants"` |

use super::model::{ElementKind, LiveModel, LiveTask};
use crate::error::{Error, Result};
use crate::series::{Encoded, InputColumn, SeriesTask};
use crate::tagger::tokenize;
use crate::text::{TOO_LARGE, listed, number, quote};
use drnn::InputSpec;
use serde_json::Value;

/// One element of a live sequence.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Element {
    /// The network's q inputs in their own units, in the model's order; NaN if missing. Times and
    /// categories of a series are encoded already, see [`crate::series::InputColumn`].
    Numbers(Vec<f32>),
    /// The id of a symbol.
    Token(u32),
    /// A character.
    Char(char),
    /// A masked character.
    Mask,
    /// A word.
    Word(String),
}

/// The line for a masked character.
const MASK: &str = "_";

impl LiveModel {
    /// Parses an element from a line of text.
    pub fn line(&self, line: &str) -> Result<Element> {
        match (&self.task, self.network().spec().input()) {
            (LiveTask::Tagger(_), _) => Ok(Element::Word(line.trim().into())),
            (LiveTask::Chars(..), _) if line == MASK => Ok(Element::Mask),
            (LiveTask::Chars(..), _) => one_char(line),
            (_, InputSpec::Tokens { .. }) => match line.trim().parse() {
                Ok(token) => Ok(Element::Token(token)),
                Err(_) => refuse(format!("{} is not a token, a number from 0", quote(line))),
            },
            (LiveTask::Series(_, task), _) if task.columns.is_some() => columns_of_line(task, line),
            (_, InputSpec::Dense(_)) => {
                let field = |field: &str| number(field.trim()).map_err(Error::Data);
                let numbers: Result<Vec<f32>> = match line.contains(',') {
                    true => line.split(',').map(field).collect(),
                    false => line.split_whitespace().map(field).collect(),
                };
                Ok(Element::Numbers(numbers?))
            }
        }
    }

    /// Parses an element from JSON text.
    pub fn json(&self, text: &str) -> Result<Element> {
        let value = serde_json::from_str(text)
            .map_err(|e| Error::Data(format!("{} is not JSON: {e}", quote(text))))?;
        self.element(&value)
    }

    /// The elements of a text, for models that read characters (`_` is masked) or words.
    pub fn text<'t>(&self, text: &'t str) -> Result<Box<dyn Iterator<Item = Element> + 't>> {
        match self.element_kind() {
            ElementKind::Characters => {
                let element = |c| if c == '_' { Element::Mask } else { Element::Char(c) };
                Ok(Box::new(text.chars().map(element)))
            }
            ElementKind::Words => {
                Ok(Box::new(tokenize(text).into_iter().map(|word| Element::Word(word.into()))))
            }
            reads => refuse(format!("the model reads {reads}, not text")),
        }
    }

    /// Converts a JSON value to an element.
    pub fn element(&self, value: &Value) -> Result<Element> {
        match (&self.task, self.network().spec().input(), value) {
            (LiveTask::Tagger(_), _, Value::String(word)) => Ok(Element::Word(word.clone())),
            (LiveTask::Tagger(_), ..) => expected("a string, the word", value),
            (LiveTask::Chars(..), _, Value::Null) => Ok(Element::Mask),
            (LiveTask::Chars(..), _, Value::String(text)) => one_char(text),
            (LiveTask::Chars(..), ..) => {
                expected("a string of one character, or null for a masked one", value)
            }
            (_, InputSpec::Tokens { .. }, _) => {
                match value.as_u64().and_then(|token| u32::try_from(token).ok()) {
                    Some(token) => Ok(Element::Token(token)),
                    None => expected("a token, a number from 0", value),
                }
            }
            (LiveTask::Series(_, task), _, Value::Object(map)) => {
                let mut inputs = Vec::with_capacity(task.inputs.len());
                for column in task.input_columns().iter() {
                    let Some(value) = map.get(&column.name) else {
                        let name = quote(&column.name);
                        return refuse(format!("has no {name}; use null if it is missing"));
                    };
                    column.encode_json(value, &mut inputs).map_err(Error::Data)?;
                }
                Ok(Element::Numbers(inputs))
            }
            (LiveTask::Series(_, task), _, value) if task.columns.is_some() => {
                columns_of_json(task, value)
            }
            (_, InputSpec::Dense(_), Value::Array(values)) => {
                Ok(Element::Numbers(values.iter().map(float).collect::<Result<_>>()?))
            }
            (_, InputSpec::Dense(1), value) => Ok(Element::Numbers(vec![float(value)?])),
            (_, InputSpec::Dense(q), value) => expected(&format!("an array of {q} numbers"), value),
        }
    }
}

impl LiveModel {
    /// Fields of an element whose category training did not have. They are read as none of the
    /// categories that it had: all inputs of their columns are 0.
    pub fn unknown_categories(&self, element: &Element) -> usize {
        match (self.series(), element) {
            (Some(task), Element::Numbers(inputs)) => task.unknown_categories(inputs),
            _ => 0,
        }
    }
}

/// Encodes the fields of a line, separated as the model's table was, by commas, or by spaces where
/// neither is there.
fn columns_of_line(task: &SeriesTask, line: &str) -> Result<Element> {
    let columns = task.input_columns();
    let own = Some(task.delimiter).filter(|own| *own != ' ');
    let between = own.into_iter().chain([',']).find(|between| line.contains(*between));
    let fields: Vec<&str> = match (columns.len(), between) {
        (1, _) => vec![line.trim()],
        (_, Some(between)) => line.split(between).map(str::trim).collect(),
        (_, None) => line.split_whitespace().collect(),
    };
    encoded(&columns, &fields, |column, field, to| column.encode(field, to))
}

fn columns_of_json(task: &SeriesTask, value: &Value) -> Result<Element> {
    let values = match value {
        Value::Array(values) => values.as_slice(),
        one => std::slice::from_ref(one),
    };
    encoded(&task.input_columns(), values, InputColumn::encode_json)
}

fn encoded<F>(
    columns: &[InputColumn],
    fields: &[F],
    encode: impl Fn(&InputColumn, &F, &mut Vec<f32>) -> std::result::Result<Encoded, String>,
) -> Result<Element> {
    if fields.len() != columns.len() {
        let (found, expected) = (fields.len(), columns.len());
        let names = listed(columns.iter().map(|column| column.name.as_str()));
        return refuse(format!("{found} fields, expected {expected}: {names}"));
    }
    let mut inputs = Vec::new();
    for (column, field) in columns.iter().zip(fields) {
        encode(column, field, &mut inputs).map_err(Error::Data)?;
    }
    Ok(Element::Numbers(inputs))
}

fn one_char(text: &str) -> Result<Element> {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(one), None) => Ok(Element::Char(one)),
        _ => refuse(format!("{} is not one character", quote(text))),
    }
}

/// A finite number, or NaN for null.
fn float(value: &Value) -> Result<f32> {
    match (value, value.as_f64().map(|x| x as f32)) {
        (Value::Null, _) => Ok(f32::NAN),
        (_, Some(x)) if x.is_finite() => Ok(x),
        (_, Some(_)) => refuse(format!("{} {TOO_LARGE}", quote(&value.to_string()))),
        _ => expected("a number, or null if it is missing", value),
    }
}

fn expected<T>(what: &str, found: &Value) -> Result<T> {
    refuse(format!("{} is not {what}", quote(&found.to_string())))
}

fn refuse<T>(why: String) -> Result<T> {
    Err(Error::Data(why))
}
