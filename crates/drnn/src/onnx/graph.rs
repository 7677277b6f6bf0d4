//! A graph of ONNX operators, put together node by node.

use super::interface::Number;
use super::proto::{Attribute, AttributeKind, Node, Tensor};

/// Nodes in the order of execution, and their constants.
#[derive(Default)]
pub struct Graph {
    pub nodes: Vec<Node>,
    pub constants: Vec<Tensor>,
}

impl Graph {
    /// Adds an operator; it is called after the first output that it has.
    pub fn add(
        &mut self,
        operator: &str,
        inputs: &[&str],
        outputs: &[&str],
        attributes: impl Into<Vec<Attribute>>,
    ) {
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
        let name = outputs.iter().find(|name| !name.is_empty()).map_or("", |name| name);
        self.nodes.push(Node {
            input: names(inputs),
            output: names(outputs),
            name: format!("{operator}_{name}"),
            op_type: operator.into(),
            attribute: attributes.into(),
        });
    }

    /// Gives the last node's output another name.
    pub fn rename_last(&mut self, name: &str) {
        if let Some(node) = self.nodes.last_mut() {
            node.output = vec![name.into()];
            node.name = format!("{}_{name}", node.op_type);
        }
    }

    /// A constant of floats.
    pub fn floats(&mut self, name: &str, dims: &[usize], values: impl IntoIterator<Item = f32>) {
        let mut raw_data = Vec::with_capacity(4 * dims.iter().product::<usize>());
        values.into_iter().for_each(|x| raw_data.extend(x.to_le_bytes()));
        self.constant(name, dims, Number::Float, raw_data);
    }

    /// A constant of integers.
    pub fn integers(&mut self, name: &str, dims: &[usize], values: &[i64]) {
        let raw_data = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.constant(name, dims, Number::Int64, raw_data);
    }

    /// A list of integers, which is how operators take axes, shapes and sizes.
    pub fn list(&mut self, name: &str, values: &[i64]) {
        self.integers(name, &[values.len()], values);
    }

    fn constant(&mut self, name: &str, dims: &[usize], number: Number, raw_data: Vec<u8>) {
        debug_assert_eq!(raw_data.len(), dims.iter().product::<usize>() * number.bytes(), "{name}");
        let dims = dims.iter().map(|&n| n as i64).collect();
        self.constants.push(Tensor { dims, data_type: number as i32, name: name.into(), raw_data });
    }
}

/// An attribute that is a number.
pub fn int(name: &str, i: i64) -> Attribute {
    let kind = AttributeKind::Int as i32;
    Attribute { name: name.into(), i: Some(i), kind, ..Attribute::default() }
}

/// An attribute that is a list of numbers.
pub fn ints(name: &str, ints: &[i64]) -> Attribute {
    let kind = AttributeKind::Ints as i32;
    Attribute { name: name.into(), ints: ints.to_vec(), kind, ..Attribute::default() }
}

/// An attribute that is a word.
pub fn word(name: &str, s: &str) -> Attribute {
    let kind = AttributeKind::String as i32;
    Attribute { name: name.into(), s: Some(s.into()), kind, ..Attribute::default() }
}

/// An attribute that is the same word `count` times.
pub fn words(name: &str, s: &str, count: usize) -> Attribute {
    let (kind, strings) = (AttributeKind::Strings as i32, vec![s.into(); count]);
    Attribute { name: name.into(), strings, kind, ..Attribute::default() }
}
