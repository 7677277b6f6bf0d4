//! What a client says on a stream: one JSON object per message.
//!
//! | message | says |
//! |---|---|
//! | `{"element": E}` | the next element |
//! | `{"elements": [E, ..]}` | the next ones |
//! | `{"text": "Th_ ants"}` | the next ones, of a model that reads text: characters (`_` is masked) or words |
//! | `{"flush": true}` | the sequence ends: what is due is answered; may stand beside elements, and counts after them |
//!
//! `"position": k` may stand beside elements: that of the first in its sequence, as the client counts.

use crate::http::api_error::Refusal;
use crate::run::request::text_elements;
use drnn_tasks::live::{Element, LiveModel};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A message as it is written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default, deserialize_with = "even_null")]
    element: Option<Value>,
    elements: Option<Vec<Value>>,
    text: Option<String>,
    position: Option<u64>,
    flush: Option<bool>,
}

/// `null` is an element: a masked character.
fn even_null<'d, D: Deserializer<'d>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// A message in the terms of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Where the client says that it is.
    pub position: Option<u64>,
    /// Up to the first that is refused.
    pub elements: Vec<Element>,
    /// Why the next is refused, and all that follow in this message.
    pub refused: Option<String>,
    /// Whether the sequence ends behind them.
    pub flush: bool,
}

/// Reads a message of at most `most` elements. An error is one of the protocol; what is wrong with an element is in
/// [`Message::refused`].
pub fn parse(model: &LiveModel, text: &str, most: usize) -> Result<Message, Refusal> {
    let Written { element, elements, text, position, flush } =
        serde_json::from_str(text).map_err(|e| {
            Refusal::malformed(format!("the message is not what a client may say: {e}"))
        })?;
    let flush = flush.unwrap_or(false);
    let count = [element.is_some(), elements.is_some(), text.is_some()];
    let count = count.into_iter().filter(|given| *given).count();
    if count > 1 {
        return Err(Refusal::malformed("one of element, elements and text at a time"));
    }
    if count == 0 && (!flush || position.is_some()) {
        let said = "the message says nothing: element, elements, text, or flush that is true";
        return Err(Refusal::malformed(said));
    }
    let (elements, refused) = match text {
        Some(text) => match text_elements(model, &text, most) {
            Ok(elements) => (elements, None),
            Err(why) => (Vec::new(), Some(why)),
        },
        None => as_far_as_read(model, element.into_iter().chain(elements.into_iter().flatten())),
    };
    if elements.len() > most {
        return Err(Refusal::too_large(format!("more than {most} elements in one message")));
    }
    Ok(Message { position, elements, refused, flush })
}

fn as_far_as_read(
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
