//! Messages of a stream's client: one JSON object each.
//!
//! | message | meaning |
//! |---|---|
//! | `{"element": E}` | the next element |
//! | `{"elements": [E, ..]}` | the next elements |
//! | `{"text": "Th_ ants"}` | the next elements of a model that reads text: characters (`_` is masked) or words |
//! | `{"flush": true}` | ends the sequence, and requests the predictions still due; together with elements, it follows them |
//!
//! `"position": k` may accompany elements: the position of the first in its sequence, by the client's
//! count.

use crate::http::api_error::ApiError;
use crate::run::request::text_elements;
use drnn_tasks::live::{Element, LiveModel};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The JSON of a message.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMessage {
    #[serde(default, deserialize_with = "null_is_some")]
    element: Option<Value>,
    elements: Option<Vec<Value>>,
    text: Option<String>,
    position: Option<u64>,
    flush: Option<bool>,
}

/// `null` is an element (a masked character), not an absent field.
fn null_is_some<'d, D: Deserializer<'d>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// A message parsed for a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// The position of the first element by the client's count, if it sent one.
    pub position: Option<u64>,
    /// The elements before the first that is refused.
    pub elements: Vec<Element>,
    /// Why the next element is refused, and with it the rest of the message.
    pub refused: Option<String>,
    /// Whether the sequence ends after the elements.
    pub flush: bool,
}

/// Parses a message of at most `max_elements` elements. Errors are violations of the protocol; a bad
/// element is reported in [`Message::refused`].
pub fn parse(model: &LiveModel, text: &str, max_elements: usize) -> Result<Message, ApiError> {
    let RawMessage { element, elements, text, position, flush } = serde_json::from_str(text)
        .map_err(|e| ApiError::malformed(format!("the message is not valid: {e}")))?;
    let flush = flush.unwrap_or(false);
    let count = [element.is_some(), elements.is_some(), text.is_some()];
    let count = count.into_iter().filter(|given| *given).count();
    if count > 1 {
        return Err(ApiError::malformed("a message has only one of element, elements and text"));
    }
    if count == 0 && (!flush || position.is_some()) {
        let why = "the message is empty: expected element, elements, text, or flush: true";
        return Err(ApiError::malformed(why));
    }
    let (elements, refused) = match text {
        Some(text) => match text_elements(model, &text, max_elements) {
            Ok(elements) => (elements, None),
            Err(why) => (Vec::new(), Some(why)),
        },
        None => leading_elements(model, element.into_iter().chain(elements.into_iter().flatten())),
    };
    if elements.len() > max_elements {
        let why = format!("more than {max_elements} elements in one message");
        return Err(ApiError::too_large(why));
    }
    Ok(Message { position, elements, refused, flush })
}

/// The elements before the first that is refused, and why that one is.
fn leading_elements(
    model: &LiveModel,
    values: impl Iterator<Item = Value>,
) -> (Vec<Element>, Option<String>) {
    let mut elements = Vec::new();
    for value in values {
        match crate::run::request::element(model, &value) {
            Ok(element) => elements.push(element),
            Err(why) => return (elements, Some(why)),
        }
    }
    (elements, None)
}
