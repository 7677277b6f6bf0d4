//! The embedding before a recurrence and the output layer after it, by the connections of the graph.

use super::recurrence::Feed;
use super::value::{Source, Steps};
use super::walk::{Embedding, Found, Linear};
use crate::error::Result;
use crate::error::text::short;
use crate::io::file::refuse;
use crate::io::import::Part;

/// Operators that may follow the last layer: what they read is the model's output.
const FINAL: [&str; 11] = [
    "Softmax",
    "LogSoftmax",
    "Sigmoid",
    "Hardmax",
    "ArgMax",
    "TopK",
    "Mul",
    "Div",
    "Add",
    "Sub",
    "Cast",
];
/// Endings of the names of weights.
const ENDINGS: [&str; 5] = [".weight", "_weight", ".bias", "/kernel", "_w"];
/// Layers that a note names.
const MAX_POSSIBLE: usize = 4;

/// Layers around a recurrence.
#[derive(Default)]
pub(super) struct Parts<'f, 'a> {
    pub embedding: Option<&'f Embedding<'a>>,
    pub output: Option<&'f Linear<'a>>,
    /// What a user should know, in sentences.
    pub notes: Vec<String>,
    /// Whether one was taken without being named.
    pub recognised: bool,
}

/// The parts that were named, and those that the graph connects.
pub(super) fn parts<'f, 'a>(
    found: &'f Found<'a>,
    [first, last]: [usize; 2],
    [embedding, output]: [&Part; 2],
) -> Result<Parts<'f, 'a>> {
    let mut parts = Parts::default();
    let feed = found.recurrences[first].feed;
    let table = match feed {
        Feed::Embedding(index) => found.embeddings.get(index),
        _ => None,
    };
    match (embedding, table) {
        (Part::None, _) => {}
        (Part::Recognised, table) => {
            parts.embedding = table;
            parts.recognised |= table.is_some();
        }
        (Part::Named(name), Some(table)) if is_called(name, table.table.origins.iter()) => {
            parts.embedding = Some(table);
        }
        (Part::Named(name), _) => {
            let (name, node) = (short(name), short(&found.recurrences[first].title));
            return Err(refuse(format!("has no embedding `{name}` that feeds `{node}` directly")));
        }
    }
    if let Some(note) = before(found, feed) {
        parts.notes.push(note);
    }
    let layers: Vec<(usize, &Linear)> = found.linears.iter().enumerate().collect();
    let reads = |layer: &Linear| layer.source == Source::Recurrence(last) && !layer.replaced;
    let layers: Vec<(usize, &Linear)> =
        layers.into_iter().filter(|(_, layer)| reads(layer)).collect();
    match output {
        Part::None => {}
        Part::Named(name) => {
            let called = |layer: &Linear| is_called(name, layer.names().iter());
            let layer = layers.iter().find(|(_, layer)| called(layer)).ok_or_else(|| {
                let name = short(name);
                refuse(format!(
                    "has no MatMul or Gemm `{name}` that reads the states directly{}",
                    possible(&layers, "; those that do: ")
                ))
            })?;
            take(&mut parts, found, *layer);
        }
        Part::Recognised => recognise(&mut parts, found, last, &layers),
    }
    Ok(parts)
}

/// Takes the only layer that reads the states, unless more of the graph does.
fn recognise<'f, 'a>(
    parts: &mut Parts<'f, 'a>,
    found: &'f Found<'a>,
    last: usize,
    layers: &[(usize, &'f Linear<'a>)],
) {
    let others = found.readers.get(&Source::Recurrence(last));
    let both_ends =
        |layer: &Linear| layer.steps == Steps::Final && found.recurrences[last].directions == 2;
    let ends = |index: usize| {
        let after = found.readers.get(&Source::Linear(index));
        after.is_none_or(|after| after.iter().all(|operator| FINAL.contains(operator)))
    };
    match (layers, others) {
        (&[(index, layer)], None) if ends(index) && !both_ends(layer) => {
            take(parts, found, (index, layer));
            parts.recognised = true;
        }
        (&[], None) => {}
        (layers, others) => {
            let mut read: Vec<&str> = others.into_iter().flatten().copied().collect();
            read.extend(layers.iter().map(|_| "MatMul").take(1));
            let (read, possible) = (read.join(", "), possible(layers, "; to use one: "));
            parts.notes.push(format!(
                "its states are read by {read} and more, which is not part of the model{possible}"
            ));
        }
    }
}

fn take<'f, 'a>(
    parts: &mut Parts<'f, 'a>,
    found: &Found<'a>,
    (index, layer): (usize, &'f Linear<'a>),
) {
    parts.output = Some(layer);
    if layer.steps != Steps::All {
        let note = "the graph applies its output layer to the last step only; drnn applies it at every \
                    step";
        parts.notes.push(note.into());
    }
    if let Some(after) = found.readers.get(&Source::Linear(index)) {
        let after = after.join(", ");
        parts.notes.push(format!(
            "outputs are those before {after}, which is not part of the model (before a softmax or \
             sigmoid: logits)"
        ));
    }
}

/// What computes the inputs, if it is not part of the model.
fn before(found: &Found, feed: Feed) -> Option<String> {
    let what = match feed {
        Feed::Input | Feed::Embedding(_) => return None,
        Feed::Below(index) => format!("`{}`", short(&found.recurrences[index].title)),
        Feed::Computed(operator) => short(operator),
    };
    Some(format!("its inputs are computed by {what} in the graph, which is not part of the model"))
}

/// Names of layers as options that take them.
fn possible(layers: &[(usize, &Linear)], before: &str) -> String {
    let options = layers.iter().take(MAX_POSSIBLE);
    let options = options.map(|(_, layer)| format!("--output-layer {}", short(layer.name)));
    let options: Vec<String> = options.collect();
    match options.is_empty() {
        true => String::new(),
        false => format!("{before}{}", options.join(", ")),
    }
}

impl<'a> Linear<'a> {
    /// Names that it may be given by: its node's, its weight's, its bias's.
    fn names(&self) -> Vec<&'a str> {
        let origins =
            self.weight.origins.iter().chain(self.bias.iter().flat_map(|b| b.origins.iter()));
        core::iter::once(&self.name).chain(origins).copied().collect()
    }
}

/// Whether `given` is one of the names, without an ending such as `.weight`, or a part of one.
fn is_called<'n>(given: &str, mut names: impl Iterator<Item = &'n &'n str>) -> bool {
    let plain = |text: &str| text.trim_matches(['.', '/', ':']).replace(['/', ':'], ".");
    let wanted = plain(given);
    names.any(|name| {
        let base = ENDINGS.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let (name, base) = (plain(name), plain(base));
        name == wanted || base == wanted || format!(".{name}.").contains(&format!(".{wanted}."))
    })
}
