//! Models from ONNX files: LSTM, GRU and RNN nodes, with an embedding before and a linear layer after.
//!
//! | file | what |
//! |---|---|
//! | `wire`, `message` | protobuf and ONNX's messages, read in place |
//! | `constant` | weights: views of the file, and what operators make of them |
//! | `axes`, `value` | what is known about a value: where it comes from, what its axes are |
//! | `walk` | one pass over all nodes, which follows values from layer to layer |
//! | `operators`, `moves` | what single nodes make of them |
//! | `recurrence` | a recurrent node: cell, widths, weights, what is refused |
//! | `choose` | stacks of such nodes, and which of them is the model |
//! | `parts` | the embedding and the output layer, by the connections of the graph |
//! | `model` | parameters in drnn's order |
//!
//! prost, which writes graphs, is not used to read them: it copies every weight, and allocates
//! many times a hostile file's length before anything could be counted.

mod axes;
mod choose;
mod constant;
mod message;
mod model;
mod moves;
mod operators;
mod parts;
mod recurrence;
mod value;
mod walk;
mod wire;

use crate::error::Result;
use crate::error::text::{printable, short};
use crate::io::file::refuse;
use crate::io::format::Format;
use crate::io::import::Import;
use crate::io::imported::Imported;
use crate::spec::{Cell, NetSpec};
use alloc::collections::BTreeSet;
use choose::Chain;
use message::Node;
use parts::Parts;
use walk::{Found, Walk};

/// The model in an ONNX file.
pub(crate) fn import(bytes: &[u8], options: &Import) -> Result<Imported> {
    let file = message::Model::read(bytes)?;
    let graph = file.graph.ok_or_else(|| wire::broken("it has no graph"))?;
    let own = own_spec(&file)?;
    let found = Walk::through(graph, bytes.len(), own.is_some())?;
    if found.recurrences.is_empty() {
        return Err(found.nothing(&functions(&file)?));
    }
    let chain = choose::choose(&found, options.prefix.as_deref())?;
    if let Some((node, why)) = chain.iter().find_map(|&index| {
        let node = &found.recurrences[index];
        node.weights.as_ref().err().map(|why| (node, why))
    }) {
        return Err(refuse(format!("node `{}`: {why}", short(&node.title))));
    }
    let cell = found.recurrences[chain[0]].cell;
    if options.relu && cell != Cell::RnnRelu {
        return Err(refuse("states its activations itself, and they are not relu"));
    }
    let ends = [chain[0], chain[chain.len() - 1]];
    let parts = parts::parts(&found, ends, [&options.embedding, &options.output])?;
    let read = model::read(&found, &chain, &parts, own.as_ref(), bytes.len())?;
    let used: BTreeSet<&str> = read.used.into_iter().collect();
    let unused = found.stored.iter().filter(|(name, _)| !used.contains(name));
    let ignored = unused.map(|(name, shape)| printable(&format!("{} {shape:?}", short(name))));
    let notes = notes(&found, &chain, &parts, read.notes);
    Ok(Imported { model: read.model, format: Format::Onnx, ignored: ignored.collect(), notes })
}

/// The network that drnn exported, from the metadata of its file.
fn own_spec(file: &message::Model) -> Result<Option<NetSpec>> {
    if file.producer != "drnn" {
        return Ok(None);
    }
    Ok(file.metadata("drnn")?.and_then(|json| serde_json::from_str(json).ok()))
}

/// Functions of the file that have recurrent nodes.
fn functions<'a>(file: &message::Model<'a>) -> Result<Vec<&'a str>> {
    let mut found = Vec::new();
    for function in &file.functions {
        // FunctionProto: name is field 1, nodes are field 7.
        let (mut name, mut recurrent, mut message) = ("", false, wire::Message(function));
        while let Some((number, field)) = message.next()? {
            match number {
                1 => name = field.text()?,
                7 => {
                    let node = Node::read(field.bytes()?)?;
                    recurrent |= matches!(node.operator, "LSTM" | "GRU" | "RNN");
                }
                _ => {}
            }
        }
        found.extend(recurrent.then_some(name));
    }
    Ok(found)
}

/// What was decided, and how to decide otherwise.
fn notes(found: &Found, chain: &Chain, parts: &Parts, more: Vec<String>) -> Vec<String> {
    let mut notes = Vec::new();
    let titles: Vec<String> =
        chain.iter().map(|&i| format!("`{}`", short(&found.recurrences[i].title))).collect();
    if chain.len() > 1 {
        let titles = titles.join(", ");
        notes.push(format!("{titles} are read as the layers of one stack; --prefix takes one"));
    }
    if parts.recognised {
        let embedding = parts.embedding.map(|embedding| {
            let name = embedding.table.origins.first().copied().unwrap_or("Gather");
            format!("`{} {:?}`", short(name), embedding.table.shape)
        });
        let output = parts
            .output
            .map(|output| format!("`{} {:?}`", short(output.name), output.weight.shape));
        let options = [
            embedding.as_ref().map(|_| "--embedding-layer none"),
            output.as_ref().map(|_| "--output-layer none"),
        ];
        let options: Vec<&str> = options.into_iter().flatten().collect();
        let network = Some(titles.join(" -> "));
        let line: Vec<String> = [embedding, network, output].into_iter().flatten().collect();
        notes.push(format!(
            "read as one model: {}; {} takes the recurrence alone",
            line.join(" -> "),
            options.join(" ")
        ));
    }
    notes.extend(parts.notes.iter().cloned());
    notes.extend(more);
    notes.iter().map(|note| printable(note)).collect()
}
