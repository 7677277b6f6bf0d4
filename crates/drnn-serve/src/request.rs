//! The body of `POST /v1/run`.
//!
//! ```json
//! {"model": "sensor", "sequences": [[[0.5, 1], [0.25, 0]], [[1, 1]]]}
//! {"model": "chars-en", "texts": ["Th_ old man", "liv_s"]}
//! ```

use crate::refusal::Refusal;
use drnn_train::live::{Element, LiveModel, Reads};
use drnn_train::tagger::tokenize;
use serde::Deserialize;
use serde_json::Value;

/// A request as it is written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Which model; may be left out where there is one.
    pub model: Option<String>,
    sequences: Option<Vec<Vec<Value>>>,
    texts: Option<Vec<String>>,
}

/// Bytes of the longest word. Whoever reads a word reads it whole, and others wait for that.
const LONGEST_WORD: usize = 1000;

/// Reads a body.
pub fn parse(body: &[u8]) -> Result<Request, Refusal> {
    let request: Request = serde_json::from_slice(body)
        .map_err(|e| Refusal::malformed(format!("the body is not a request: {e}")))?;
    match (&request.sequences, &request.texts) {
        (Some(_), None) | (None, Some(_)) => Ok(request),
        _ => Err(Refusal::malformed("either sequences or texts, and one of them")),
    }
}

impl Request {
    /// Its sequences in the terms of `model`, of at most `most` elements in all.
    pub fn elements(self, model: &LiveModel, most: usize) -> Result<Vec<Vec<Element>>, Refusal> {
        let mut count = 0;
        let mut within = |more: usize| {
            count += more;
            match count > most {
                true => Err(Refusal::too_large(format!(
                    "more than {most} elements; send them in several requests, or as a stream"
                ))),
                false => Ok(()),
            }
        };
        let mut sequences = Vec::new();
        for (number, values) in self.sequences.into_iter().flatten().enumerate() {
            within(values.len().max(1))?;
            let read = |(at, value): (usize, &Value)| {
                element(model, value).map_err(|why| {
                    Refusal::element(format!("sequence {number}: element {at}: {why}"))
                })
            };
            sequences.push(values.iter().enumerate().map(read).collect::<Result<_, _>>()?);
        }
        for (number, text) in self.texts.iter().flatten().enumerate() {
            let elements = text_elements(model, text)
                .map_err(|why| Refusal::element(format!("text {number}: {why}")))?;
            within(elements.len().max(1))?;
            sequences.push(elements);
        }
        Ok(sequences)
    }
}

/// An element that is written as JSON.
pub fn element(model: &LiveModel, value: &Value) -> Result<Element, String> {
    let element = model.element(value).map_err(|e| e.to_string())?;
    match &element {
        Element::Word(word) => check_word(word).map(|()| element),
        _ => Ok(element),
    }
}

/// The elements of a text, of models that read one: characters, `_` masked; or words.
pub fn text_elements(model: &LiveModel, text: &str) -> Result<Vec<Element>, String> {
    match model.reads() {
        Reads::Characters => Ok(text
            .chars()
            .map(|c| if c == '_' { Element::Mask } else { Element::Char(c) })
            .collect()),
        Reads::Words => {
            let word = |word: &str| check_word(word).map(|()| Element::Word(word.into()));
            tokenize(text).into_iter().map(word).collect()
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
