//! The messages of an ONNX file that matter here, with the field numbers of `onnx.proto`. All of them
//! borrow the file.

use super::wire::{Field, Message, broken};
use crate::error::Result;
use crate::io::file::refuse;

/// Nodes of a graph, of all graphs inside it, and of functions; large models have some ten thousand.
pub(super) const MAX_NODES: usize = 200_000;
/// Initialisers and inputs of one graph.
const MAX_VALUES: usize = 100_000;

/// `ModelProto`
#[derive(Default)]
pub(super) struct Model<'a> {
    pub producer: &'a str,
    pub graph: Option<&'a [u8]>,
    /// Key and value, as bytes of `StringStringEntryProto`.
    pub metadata: Vec<&'a [u8]>,
    pub functions: Vec<&'a [u8]>,
}

/// `GraphProto`: its parts are read when they are visited.
#[derive(Default)]
pub(super) struct Graph<'a> {
    pub nodes: Vec<&'a [u8]>,
    pub initializers: Vec<&'a [u8]>,
    pub inputs: Vec<&'a [u8]>,
    pub outputs: Vec<&'a [u8]>,
}

/// `NodeProto`
#[derive(Default)]
pub(super) struct Node<'a> {
    pub inputs: Vec<&'a str>,
    pub outputs: Vec<&'a str>,
    pub name: &'a str,
    pub operator: &'a str,
    domain: &'a str,
    attributes: Vec<&'a [u8]>,
}

/// `AttributeProto`
#[derive(Default)]
pub(super) struct Attribute<'a> {
    pub name: &'a str,
    pub float: Option<f32>,
    pub int: Option<i64>,
    pub text: Option<&'a [u8]>,
    pub tensor: Option<&'a [u8]>,
    pub graphs: Vec<&'a [u8]>,
    pub floats: usize,
    pub ints: Vec<i64>,
    pub texts: Vec<&'a [u8]>,
}

/// Adds to a list that has a limit.
fn push<'a>(to: &mut Vec<&'a [u8]>, field: Field<'a>, max: usize, what: &str) -> Result<()> {
    if to.len() == max {
        return Err(refuse(format!("has more than {max} {what}")));
    }
    to.push(field.bytes()?);
    Ok(())
}

impl<'a> Model<'a> {
    pub fn read(bytes: &'a [u8]) -> Result<Model<'a>> {
        let (mut model, mut message) = (Model::default(), Message(bytes));
        while let Some((number, field)) = message.next()? {
            match number {
                2 => model.producer = field.text()?,
                7 => model.graph = Some(field.bytes()?),
                14 => push(&mut model.metadata, field, MAX_VALUES, "entries of metadata")?,
                25 => push(&mut model.functions, field, MAX_VALUES, "functions")?,
                _ => {}
            }
        }
        Ok(model)
    }

    /// The value of a key of the metadata.
    pub fn metadata(&self, key: &str) -> Result<Option<&'a str>> {
        for &entry in &self.metadata {
            let (mut found, mut message) = (["", ""], Message(entry));
            while let Some((number, field)) = message.next()? {
                match number {
                    1 => found[0] = field.text()?,
                    2 => found[1] = field.text()?,
                    _ => {}
                }
            }
            if found[0] == key {
                return Ok(Some(found[1]));
            }
        }
        Ok(None)
    }
}

impl<'a> Graph<'a> {
    pub fn read(bytes: &'a [u8]) -> Result<Graph<'a>> {
        let (mut graph, mut message) = (Graph::default(), Message(bytes));
        while let Some((number, field)) = message.next()? {
            match number {
                1 => push(&mut graph.nodes, field, MAX_NODES, "nodes")?,
                5 => push(&mut graph.initializers, field, MAX_VALUES, "initialisers")?,
                11 => push(&mut graph.inputs, field, MAX_VALUES, "inputs")?,
                12 => push(&mut graph.outputs, field, MAX_VALUES, "outputs")?,
                _ => {}
            }
        }
        Ok(graph)
    }
}

impl<'a> Node<'a> {
    pub fn read(bytes: &'a [u8]) -> Result<Node<'a>> {
        let (mut node, mut message) = (Node::default(), Message(bytes));
        while let Some((number, field)) = message.next()? {
            match number {
                1 => node.inputs.push(field.text()?),
                2 => node.outputs.push(field.text()?),
                3 => node.name = field.text()?,
                4 => node.operator = field.text()?,
                5 => node.attributes.push(field.bytes()?),
                7 => node.domain = field.text()?,
                _ => {}
            }
        }
        Ok(node)
    }

    /// Whether it is one of the operators of ONNX itself.
    pub fn is_standard(&self) -> bool {
        matches!(self.domain, "" | "ai.onnx")
    }

    /// What messages call it: by its name, or what it computes.
    pub fn title(&self) -> &'a str {
        let outputs = self.outputs.iter().copied();
        core::iter::once(self.name).chain(outputs).find(|name| !name.is_empty()).unwrap_or_default()
    }

    /// Name of an input; None if it is left out.
    pub fn input(&self, at: usize) -> Option<&'a str> {
        self.inputs.get(at).copied().filter(|name| !name.is_empty())
    }

    /// All attributes.
    pub fn attributes(&self) -> Result<Vec<Attribute<'a>>> {
        self.attributes.iter().map(|bytes| Attribute::read(bytes)).collect()
    }

    pub fn attribute(&self, name: &str) -> Result<Option<Attribute<'a>>> {
        Ok(self.attributes()?.into_iter().find(|attribute| attribute.name == name))
    }

    pub fn int(&self, name: &str, default: i64) -> Result<i64> {
        Ok(self.attribute(name)?.and_then(|attribute| attribute.int).unwrap_or(default))
    }

    pub fn ints(&self, name: &str) -> Result<Option<Vec<i64>>> {
        Ok(self.attribute(name)?.map(|attribute| attribute.ints))
    }

    /// The graphs inside it: branches of an `If`, the body of a `Loop`.
    pub fn graphs(&self) -> Result<Vec<&'a [u8]>> {
        Ok(self.attributes()?.into_iter().flat_map(|attribute| attribute.graphs).collect())
    }
}

impl<'a> Attribute<'a> {
    fn read(bytes: &'a [u8]) -> Result<Attribute<'a>> {
        let (mut attribute, mut message) = (Attribute::default(), Message(bytes));
        while let Some((number, field)) = message.next()? {
            match number {
                1 => attribute.name = field.text()?,
                2 => attribute.float = Some(float(field)?),
                3 => attribute.int = Some(field.int()?),
                4 => attribute.text = Some(field.bytes()?),
                5 => attribute.tensor = Some(field.bytes()?),
                6 | 11 => attribute.graphs.push(field.bytes()?),
                7 => attribute.floats += 1,
                8 => field.ints(&mut attribute.ints)?,
                9 => attribute.texts.push(field.bytes()?),
                _ => {}
            }
        }
        Ok(attribute)
    }
}

fn float(field: Field) -> Result<f32> {
    match field {
        Field::Fixed32(bytes) => Ok(f32::from_le_bytes(bytes)),
        _ => Err(broken("expected a number of 32 bits")),
    }
}

/// Name of a `ValueInfoProto`, and the number of its dimensions where it states them.
pub(super) fn declared(bytes: &[u8]) -> Result<(&str, Option<usize>)> {
    let (mut name, mut rank, mut message) = ("", None, Message(bytes));
    while let Some((number, field)) = message.next()? {
        match number {
            1 => name = field.text()?,
            2 => rank = dimensions(field.bytes()?)?,
            _ => {}
        }
    }
    Ok((name, rank))
}

/// `TypeProto` -> `tensor_type` -> `shape` -> number of `dim`.
fn dimensions(bytes: &[u8]) -> Result<Option<usize>> {
    let inner = |bytes, wanted: u64| -> Result<Option<&[u8]>> {
        let (mut found, mut message) = (None, Message(bytes));
        while let Some((number, field)) = message.next()? {
            if number == wanted {
                found = Some(field.bytes()?);
            }
        }
        Ok(found)
    };
    let Some(tensor) = inner(bytes, 1)? else { return Ok(None) };
    let Some(shape) = inner(tensor, 2)? else { return Ok(None) };
    let (mut count, mut message) = (0, Message(shape));
    while let Some((number, _)) = message.next()? {
        count += usize::from(number == 1);
    }
    Ok(Some(count))
}
