//! Whole sequences: of elements as JSON, of texts, of plain numbers and tokens.

use drnn::{Batch, InputSpec, Outputs, Rows, Steps};
use drnn_tasks::live::{Element, LiveModel, Predicted, Prediction};
use serde::Deserialize;
use serde_json::Value;

/// What to run, as in the body of the server's `POST /v1/run`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Request {
    Sequences(Vec<Vec<Value>>),
    Texts(Vec<String>),
}

/// Predictions for whole sequences, `{"sequences": [[element, ..], ..]}` or `{"texts": ["Th_ old man"]}`:
/// an array for each, as in the server's `answers`.
pub fn run(model: &LiveModel, request: &str) -> Result<String, String> {
    let request: Request =
        serde_json::from_str(request).map_err(|e| format!("not sequences or texts: {e}"))?;
    let sequences: Result<Vec<Vec<Element>>, String> = match request {
        Request::Sequences(sequences) => {
            let read = |(number, values): (usize, &Vec<Value>)| {
                let at = |at, e| format!("sequence {number}: element {at}: {e}");
                let read = |(i, value)| model.element(value).map_err(|e| at(i, e));
                values.iter().enumerate().map(read).collect()
            };
            sequences.iter().enumerate().map(read).collect()
        }
        Request::Texts(texts) => {
            let read = |(number, text): (usize, &String)| {
                let elements = model.text(text).map_err(|e| format!("text {number}: {e}"))?;
                Ok(elements.collect())
            };
            texts.iter().enumerate().map(read).collect()
        }
    };
    json(&model.run(&sequences?).map_err(|e| e.to_string())?)
}

/// The text with its masks, `_` and `[MASK]`, filled in: what `drnn fill` writes.
pub fn fill(model: &LiveModel, text: &str) -> Result<String, String> {
    if model.task() != "chars" {
        return Err(format!("the model's task is {}; filling in needs chars", model.task()));
    }
    let letter = |prediction: Prediction| match prediction.value {
        Predicted::Character { character, .. } => Some(character),
        _ => None,
    };
    let text = text.replace("[MASK]", "_");
    let found = one(model, model.text(&text).map_err(|e| e.to_string())?.collect())?;
    Ok(found.into_iter().filter_map(letter).collect())
}

/// Words with their tags, as JSON: of a text, or of words where JSON names them (`["old", "man"]`).
pub fn tag(model: &LiveModel, text: &str, words: bool) -> Result<String, String> {
    if model.task() != "tagger" {
        return Err(format!("the model's task is {}; tagging needs tagger", model.task()));
    }
    if !words {
        return json(&one(model, model.text(text).map_err(|e| e.to_string())?.collect())?);
    }
    let words: Vec<String> =
        serde_json::from_str(text).map_err(|e| format!("not an array of words: {e}"))?;
    json(&one(model, words.into_iter().map(Element::Word).collect())?)
}

/// Predictions for one sequence.
fn one(model: &LiveModel, elements: Vec<Element>) -> Result<Vec<Prediction<'_>>, String> {
    let mut found = model.run(&[elements]).map_err(|e| e.to_string())?;
    Ok(found.pop().unwrap_or_default())
}

/// Numbers of the network for which there are bytes: x (T, B, q) or tokens (T, B), then B lengths if
/// `lengths` is set. Outputs (T', B, m), where T' is the number of output steps of the longest.
pub fn run_network(
    model: &LiveModel,
    bytes: &[u8],
    (steps, rows): (usize, usize),
    lengths: bool,
) -> Result<Vec<f32>, String> {
    let spec = model.spec();
    let width = match spec.input() {
        InputSpec::Dense(q) => q,
        InputSpec::Tokens { .. } => 1,
    };
    let expected = steps.checked_mul(rows).and_then(|n| n.checked_mul(width));
    let head = expected.and_then(|n| n.checked_mul(4)).unwrap_or(usize::MAX);
    let tail = if lengths { rows.saturating_mul(4) } else { 0 };
    if bytes.len() != head.saturating_add(tail) {
        let found = bytes.len().saturating_sub(tail) / 4;
        let shape = format!("{steps} steps of {rows} sequences");
        return Err(match spec.input() {
            InputSpec::Dense(q) => format!("{found} numbers, expected {shape} of {q} numbers"),
            InputSpec::Tokens { .. } => format!("{found} tokens, expected {shape}"),
        });
    }
    let (elements, rest) = bytes.split_at(head);
    let given: Option<Vec<usize>> = lengths.then(|| u32s(rest).map(|n| n as usize).collect());
    let run = |batch: Batch| {
        let outputs: Outputs = match &given {
            Some(lengths) => model.network().run(&batch.lengths(lengths), None),
            None => model.network().run(&batch, None),
        }
        .map_err(|e| e.to_string())?;
        Ok(outputs.values)
    };
    match spec.input() {
        InputSpec::Dense(_) => {
            let x: Vec<f32> = u32s(elements).map(f32::from_bits).collect();
            run(Batch::dense(&x, Steps(steps), Rows(rows)))
        }
        InputSpec::Tokens { .. } => {
            let tokens: Vec<u32> = u32s(elements).collect();
            run(Batch::tokens(&tokens, Steps(steps), Rows(rows)))
        }
    }
}

/// Little-endian words of bytes; what is left over at the end is not read.
pub fn u32s(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

/// As JSON. Predictions are strings and numbers, which can always be serialised.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, String> {
    serde_json::to_string(value).map_err(|e| e.to_string())
}
