//! Elements of a sequence, parsed from a line of text or from JSON.
//!
//! | model | line | JSON |
//! |---|---|---|
//! | plain, dense; series | `0.5 1` or `0.5,1`; NA or an empty field is missing | `[0.5, null]`, `{"x": 0.5, "y": 1}`, `0.5` |
//! | plain, tokens | `7` | `7` |
//! | chars | `a`, or `_` for a masked one | `"a"`, `null` for a masked one |
//! | tagger | `ants` | `"ants"` |

use super::model::{LiveModel, LiveTask};
use crate::error::{Error, Result};
use crate::text::{TOO_LARGE, number, quote};
use drnn::InputSpec;
use serde_json::Value;

/// One element of a live sequence.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Element {
    /// q numbers in their own units, in the model's order; NaN if missing.
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
                let field = |name: &String| match map.get(name) {
                    Some(value) => float(value),
                    None => refuse(format!("has no {}; use null if it is missing", quote(name))),
                };
                Ok(Element::Numbers(task.inputs.iter().map(field).collect::<Result<_>>()?))
            }
            (_, InputSpec::Dense(_), Value::Array(values)) => {
                Ok(Element::Numbers(values.iter().map(float).collect::<Result<_>>()?))
            }
            (_, InputSpec::Dense(1), value) => Ok(Element::Numbers(vec![float(value)?])),
            (_, InputSpec::Dense(q), value) => expected(&format!("an array of {q} numbers"), value),
        }
    }
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
