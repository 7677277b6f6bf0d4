//! The body of `POST /v1/run`.
//!
//! ```json
//! {"model": "sensor", "sequences": [[[0.5, 1], [0.25, 0]], [[1, 1]]]}
//! {"model": "chars-en", "texts": ["Th_ old man", "liv_s"]}
//! ```

use crate::http::api_error::Refusal;
use crate::run::numbers;
use drnn_tasks::live::{Element, LiveModel, Reads};
use drnn_tasks::tagger::tokenize;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A request as it is written. What its elements are is only known by its model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request<'b> {
    /// Which model; may be left out where there is one.
    pub model: Option<String>,
    #[serde(borrow)]
    sequences: Option<&'b RawValue>,
    texts: Option<Vec<String>>,
}

/// Bytes of the longest word. Whoever reads a word reads it whole, and others wait for that.
const LONGEST_WORD: usize = 1000;

/// Nested arrays of a request: sequences, elements, numbers; and some that are refused with the place.
const MAX_DEPTH: usize = 16;

/// Reads a body.
pub fn parse(body: &[u8]) -> Result<Request<'_>, Refusal> {
    let request: Request = serde_json::from_slice(body).map_err(|e| malformed(&e))?;
    match (&request.sequences, &request.texts) {
        (Some(_), None) | (None, Some(_)) => Ok(request),
        _ => Err(Refusal::malformed("either sequences or texts, and one of them")),
    }
}

fn malformed(error: &serde_json::Error) -> Refusal {
    Refusal::malformed(format!("the body is not a request: {error}"))
}

impl Request<'_> {
    /// Its sequences in the terms of `model`, of at most `most` elements in all.
    pub fn elements(self, model: &LiveModel, most: usize) -> Result<Vec<Vec<Element>>, Refusal> {
        let mut count = 0;
        let mut check = |sequence: &Vec<Element>| {
            count += sequence.len().max(1); // an empty sequence is not for nothing either
            if count > most { Err(too_many(most)) } else { Ok(()) }
        };
        match (self.sequences, self.texts) {
            (Some(raw), _) => {
                let width = match model.reads() {
                    Reads::Numbers(q) => q,
                    _ => 1,
                };
                // Before any memory is taken for them.
                let values = values(raw.get())?;
                if values > most.saturating_mul(width + 2) + 1 {
                    return Err(too_many(most));
                }
                let sequences = sequences(model, raw.get())?;
                sequences.iter().try_for_each(check)?;
                Ok(sequences)
            }
            (None, texts) => {
                let mut sequences = Vec::new();
                for (number, text) in texts.into_iter().flatten().enumerate() {
                    let refuse = |why| Refusal::element(format!("text {number}: {why}"));
                    let elements = text_elements(model, &text, most).map_err(refuse)?;
                    check(&elements)?;
                    sequences.push(elements);
                }
                Ok(sequences)
            }
        }
    }
}

fn too_many(most: usize) -> Refusal {
    Refusal::too_large(format!(
        "more than {most} elements; send them in several requests, or as a stream"
    ))
}

/// At least as many values as this JSON has: commas and opening brackets that are not part of a string.
fn values(json: &str) -> Result<usize, Refusal> {
    let (mut count, mut depth, mut quoted, mut escaped) = (0, 0_usize, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b',' => count += 1,
            b'[' | b'{' => (count, depth) = (count + 1, depth + 1),
            b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(Refusal::malformed(
                "the body is not a request: nested beyond the recursion limit",
            ));
        }
    }
    Ok(count)
}

fn sequences(model: &LiveModel, json: &str) -> Result<Vec<Vec<Element>>, Refusal> {
    // Most are plain numbers, and read at once; whatever is not is read again, to be told apart or refused.
    if let Some(sequences) = numbers::sequences(model.reads(), json) {
        return Ok(sequences);
    }
    let values: Vec<Vec<Value>> = serde_json::from_str(json).map_err(|e| malformed(&e))?;
    let read = |(number, values): (usize, &Vec<Value>)| {
        let refuse = |at, why| Refusal::element(format!("sequence {number}: element {at}: {why}"));
        let read = |(at, value)| element(model, value).map_err(|why| refuse(at, why));
        values.iter().enumerate().map(read).collect()
    };
    values.iter().enumerate().map(read).collect()
}

/// An element that is written as JSON.
pub fn element(model: &LiveModel, value: &Value) -> Result<Element, String> {
    let element = model.element(value).map_err(|e| e.to_string())?;
    match &element {
        Element::Word(word) => check_word(word).map(|()| element),
        _ => Ok(element),
    }
}

/// The elements of a text, of models that read one: characters, `_` masked; or words. Of more than `most` it is enough
/// to know that there are more.
pub fn text_elements(model: &LiveModel, text: &str, most: usize) -> Result<Vec<Element>, String> {
    let enough = most.saturating_add(1);
    match model.reads() {
        Reads::Characters => {
            let element = |c| if c == '_' { Element::Mask } else { Element::Char(c) };
            Ok(text.chars().take(enough).map(element).collect())
        }
        Reads::Words => {
            let word = |word: &str| check_word(word).map(|()| Element::Word(word.into()));
            tokenize(text).into_iter().take(enough).map(word).collect()
        }
        reads => Err(format!("the model reads {reads}, no text")),
    }
}

fn check_word(word: &str) -> Result<(), String> {
    match word.len() {
        ..=LONGEST_WORD => Ok(()),
        long => Err(format!("a word of {long} bytes, more than {LONGEST_WORD}")),
    }
}
