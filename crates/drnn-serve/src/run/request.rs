//! The body of `POST /v1/run`, in its JSON form.
//!
//! ```json
//! {"model": "sensor", "sequences": [[[0.5, 1], [0.25, 0]], [[1, 1]]]}
//! {"model": "chars-en", "texts": ["Th_ old man", "liv_s"]}
//! ```

use crate::http::api_error::ApiError;
use crate::run::numbers;
use drnn_tasks::live::{Element, ElementKind, LiveModel};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A parsed request. Its elements are not parsed yet: their form depends on the model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request<'b> {
    /// The model's name; optional if the server has one model.
    pub model: Option<String>,
    #[serde(borrow)]
    sequences: Option<&'b RawValue>,
    texts: Option<Vec<String>>,
}

/// Maximum bytes of a word: a word is encoded in one go, while other requests wait.
const MAX_WORD_BYTES: usize = 1000;

/// Maximum nesting of arrays. Three levels are valid (sequences, elements, numbers); the others get
/// an error that names the element.
const MAX_DEPTH: usize = 16;

/// Parses a body.
pub fn parse(body: &[u8]) -> Result<Request<'_>, ApiError> {
    let request: Request = serde_json::from_slice(body).map_err(|e| malformed(&e))?;
    match (&request.sequences, &request.texts) {
        (Some(_), None) | (None, Some(_)) => Ok(request),
        _ => Err(ApiError::malformed("expected either sequences or texts")),
    }
}

fn malformed(error: &serde_json::Error) -> ApiError {
    ApiError::malformed(format!("the body is not a request: {error}"))
}

impl Request<'_> {
    /// An upper bound on the bytes of its elements that do not follow from the size of its text:
    /// categories, each of which becomes as many numbers as its column has.
    pub fn encoded_bytes(&self, model: &LiveModel) -> Result<usize, ApiError> {
        match (model.element_kind(), self.sequences) {
            (ElementKind::Fields(count), Some(raw)) => {
                Ok((values(raw.get())? / count.max(1) + 1).saturating_mul(model.encoded_bytes()))
            }
            _ => Ok(0),
        }
    }

    /// Its sequences, parsed for `model`, of at most `max_elements` elements in all.
    pub fn elements(
        self,
        model: &LiveModel,
        max_elements: usize,
    ) -> Result<Vec<Vec<Element>>, ApiError> {
        let mut count = 0;
        let mut check = |sequence: &Vec<Element>| {
            count += sequence.len().max(1); // an empty sequence costs something too
            if count > max_elements { Err(too_many(max_elements)) } else { Ok(()) }
        };
        match (self.sequences, self.texts) {
            (Some(raw), _) => {
                let width = match model.element_kind() {
                    ElementKind::Numbers(q) | ElementKind::Fields(q) => q,
                    _ => 1,
                };
                // Checked before any memory is allocated for them.
                let values = values(raw.get())?;
                if values > max_elements.saturating_mul(width + 2) + 1 {
                    return Err(too_many(max_elements));
                }
                let sequences = sequences(model, raw.get())?;
                sequences.iter().try_for_each(check)?;
                Ok(sequences)
            }
            (None, texts) => {
                let mut sequences = Vec::new();
                for (number, text) in texts.into_iter().flatten().enumerate() {
                    let refuse = |why| ApiError::element(format!("text {number}: {why}"));
                    let elements = text_elements(model, &text, max_elements).map_err(refuse)?;
                    check(&elements)?;
                    sequences.push(elements);
                }
                Ok(sequences)
            }
        }
    }
}

fn too_many(max_elements: usize) -> ApiError {
    ApiError::too_large(format!(
        "more than {max_elements} elements; send them in several requests, or as a stream"
    ))
}

/// An upper bound on the number of values in this JSON: commas and opening brackets outside strings.
fn values(json: &str) -> Result<usize, ApiError> {
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
            return Err(ApiError::malformed(
                "the body is not a request: nested beyond the recursion limit",
            ));
        }
    }
    Ok(count)
}

fn sequences(model: &LiveModel, json: &str) -> Result<Vec<Vec<Element>>, ApiError> {
    // Fast path for plain numbers; anything else is parsed again, element by element.
    if let Some(sequences) = numbers::sequences(model.element_kind(), json) {
        return Ok(sequences);
    }
    let values: Vec<Vec<Value>> = serde_json::from_str(json).map_err(|e| malformed(&e))?;
    let read = |(number, values): (usize, &Vec<Value>)| {
        let refuse = |at, why| ApiError::element(format!("sequence {number}: element {at}: {why}"));
        let read = |(at, value)| element(model, value).map_err(|why| refuse(at, why));
        values.iter().enumerate().map(read).collect()
    };
    values.iter().enumerate().map(read).collect()
}

/// Parses an element from JSON.
pub fn element(model: &LiveModel, value: &Value) -> Result<Element, String> {
    let element = model.element(value).map_err(|e| e.to_string())?;
    match &element {
        Element::Word(word) => check_word(word).map(|()| element),
        _ => Ok(element),
    }
}

/// The elements of a text, for models that read characters (`_` is masked) or words. Returns at most
/// `max_elements + 1`, enough for the caller to see that there are too many.
pub fn text_elements(
    model: &LiveModel,
    text: &str,
    max_elements: usize,
) -> Result<Vec<Element>, String> {
    let elements = model.text(text).map_err(|e| e.to_string())?;
    let checked = |element| match &element {
        Element::Word(word) => check_word(word).map(|()| element),
        _ => Ok(element),
    };
    elements.take(max_elements.saturating_add(1)).map(checked).collect()
}

fn check_word(word: &str) -> Result<(), String> {
    match word.len() {
        ..=MAX_WORD_BYTES => Ok(()),
        long => Err(format!("a word of {long} bytes, more than {MAX_WORD_BYTES}")),
    }
}
