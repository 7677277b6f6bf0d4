//! One pass over the nodes of a graph, in the order in which they run, and over the graphs inside it.
//!
//! Every value is looked at once, so the time is linear in the file; a value that is used before a node
//! makes it (a cycle) is unknown.

use super::constant::{Budget, Constant, tensor, value};
use super::message::{Graph, MAX_NODES, Node, declared};
use super::recurrence::Recurrence;
use super::value::{Followed, Source, Steps, Unknown, Value, is_quantised};
use crate::error::Result;
use crate::error::text::short;
use crate::io::file::refuse;
use std::collections::{BTreeSet, HashMap};

/// Graphs inside graphs.
const MAX_DEPTH: usize = 16;
/// Recurrent nodes of a file.
const MAX_RECURRENCES: usize = 10_000;
/// Operators that read a value and are remembered, and kinds of operators.
const MAX_READERS: usize = 8;
const MAX_OPERATORS: usize = 200;

/// A matrix that turns tokens into vectors.
pub(super) struct Embedding<'a> {
    pub table: Constant<'a>,
}

/// A matrix product with states, and the bias that is added.
pub(super) struct Linear<'a> {
    pub name: &'a str,
    /// Rows are outputs: (m, n).
    pub weight: Constant<'a>,
    pub bias: Option<Constant<'a>>,
    pub source: Source,
    pub steps: Steps,
    /// Another entry is this one with its bias.
    pub replaced: bool,
}

/// What a graph contains, as far as drnn can use it.
#[derive(Default)]
pub(super) struct Found<'a> {
    pub embeddings: Vec<Embedding<'a>>,
    pub recurrences: Vec<Recurrence<'a>>,
    pub linears: Vec<Linear<'a>>,
    /// What else computes with the values of a source at all steps: operators.
    pub readers: HashMap<Source, Vec<&'a str>>,
    /// All kinds of operators.
    pub operators: BTreeSet<&'a str>,
    /// Recurrent nodes that are none of ONNX's own: their kind and name.
    pub others: Vec<(&'a str, &'a str)>,
    /// How many recurrent nodes have a title.
    pub titles: HashMap<&'a str, usize>,
    /// Names and shapes of the weights that the file stores.
    pub stored: Vec<(&'a str, Vec<usize>)>,
}

/// The state of the pass.
pub(super) struct Walk<'a> {
    pub found: Found<'a>,
    pub budget: Budget,
    /// The graph is drnn's own, whose delay is made of a `Pad` and a `Slice`.
    pub own: bool,
    scopes: Vec<HashMap<&'a str, Value<'a>>>,
    nodes: usize,
}

impl<'a> Walk<'a> {
    /// Everything in a graph of a file of `len` bytes.
    pub fn through(graph: &'a [u8], len: usize, own: bool) -> Result<Found<'a>> {
        let (found, scopes, budget) = (Found::default(), Vec::new(), Budget::new(len));
        let mut walk = Walk { found, budget, own, scopes, nodes: 0 };
        walk.graph(graph)?;
        Ok(walk.found)
    }

    fn graph(&mut self, bytes: &'a [u8]) -> Result<()> {
        if self.scopes.len() == MAX_DEPTH {
            return Err(refuse(format!("has more than {MAX_DEPTH} graphs inside each other")));
        }
        let graph = Graph::read(bytes)?;
        let mut values = HashMap::new();
        for input in graph.inputs {
            let (name, rank) = declared(input)?;
            let value = match (self.scopes.is_empty(), rank) {
                (true, Some(rank)) if rank <= super::constant::MAX_DIMENSIONS => {
                    let axes = (0..rank).map(|i| vec![super::axes::Factor::Any(i)]).collect();
                    Value::Followed(Followed::new(Source::Input, axes, Steps::All))
                }
                _ => Value::Unknown(Unknown::Input),
            };
            values.insert(name, value);
        }
        for initializer in graph.initializers {
            let (name, constant) = tensor(initializer)?;
            if let Ok(constant) = &constant
                && constant.is_float()
                && constant.len() > 1
            {
                self.found.stored.push((name, constant.shape.clone()));
            }
            values.insert(name, known(constant));
        }
        self.scopes.push(values);
        for node in graph.nodes {
            self.visit(&Node::read(node)?)?;
        }
        self.scopes.pop();
        Ok(())
    }

    fn visit(&mut self, node: &Node<'a>) -> Result<()> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(refuse(format!("has more than {MAX_NODES} nodes")));
        }
        if self.found.operators.len() < MAX_OPERATORS {
            self.found.operators.insert(node.operator);
        }
        for graph in node.graphs()? {
            self.graph(graph)?;
        }
        match (node.operator, node.is_standard()) {
            ("LSTM" | "GRU" | "RNN", true) => self.recurrence(node),
            ("Constant", true) => {
                let attributes = node.attributes()?;
                let unknown = Value::Unknown(Unknown::Computed(node.operator));
                let value = value(&attributes)?.map_or(unknown, known);
                self.set(node, 0, value);
                Ok(())
            }
            (operator, standard) => {
                if operator.ends_with("LSTM") || operator.ends_with("GRU") {
                    self.found.others.push((operator, node.title()));
                }
                let value = if standard { self.result(node)? } else { None };
                let unknown = Value::Unknown(Unknown::Computed(operator));
                self.read_by(node, value.as_ref());
                self.set(node, 0, value.unwrap_or_else(|| unknown.clone()));
                (1..node.outputs.len()).for_each(|at| self.set(node, at, unknown.clone()));
                Ok(())
            }
        }
    }

    fn recurrence(&mut self, node: &Node<'a>) -> Result<()> {
        let index = self.found.recurrences.len();
        if index == MAX_RECURRENCES {
            return Err(refuse(format!("has more than {MAX_RECURRENCES} recurrent nodes")));
        }
        let values: Vec<Option<Value>> =
            (0..8).map(|at| node.input(at).map(|name| self.value(name))).collect();
        let found = Recurrence::read(node, values, &self.found)?;
        let outputs = found.outputs(index);
        self.found.recurrences.push(found);
        *self.found.titles.entry(node.title()).or_default() += 1;
        for (at, value) in outputs.into_iter().enumerate() {
            self.set(node, at, value);
        }
        Ok(())
    }

    /// What is known about a value; the innermost graph that has it counts.
    pub fn value(&self, name: &str) -> Value<'a> {
        let known = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        known.cloned().unwrap_or(Value::Unknown(Unknown::Undefined))
    }

    fn set(&mut self, node: &Node<'a>, at: usize, value: Value<'a>) {
        let name = node.outputs.get(at).filter(|name| !name.is_empty());
        if let (Some(name), Some(scope)) = (name, self.scopes.last_mut()) {
            scope.insert(name, value);
        }
    }

    /// Remembers who computes with the network's values, unless they are only moved.
    fn read_by(&mut self, node: &Node<'a>, result: Option<&Value<'a>>) {
        let moved = match result {
            Some(Value::Followed(result)) => Some(result.source),
            Some(Value::Shape(_) | Value::Joined(_)) => return,
            _ => None,
        };
        let same_layer = |from: Source| match (moved, from) {
            (Some(Source::Linear(_)), Source::Linear(_)) => true, // its bias
            (Some(Source::Linear(_)), Source::Recurrence(_)) => true,
            (moved, from) => moved == Some(from),
        };
        for name in &node.inputs {
            let Value::Followed(from) = self.value(name) else { continue };
            if same_layer(from.source) || node.operator == "Shape" || from.steps == Steps::Final {
                continue;
            }
            let readers = self.found.readers.entry(from.source).or_default();
            if readers.len() < MAX_READERS && !readers.contains(&node.operator) {
                readers.push(node.operator);
            }
        }
    }
}

fn known(constant: core::result::Result<Constant<'_>, String>) -> Value<'_> {
    match constant {
        Ok(constant) => Value::Constant(constant),
        Err(why) => Value::Unknown(Unknown::Unreadable(why.into())),
    }
}

impl Found<'_> {
    /// Why there is no recurrence, as far as the operators show.
    pub fn nothing(&self, functions: &[&str]) -> crate::Error {
        if let Some((operator, name)) = self.others.first() {
            let (name, quantised) = (short(name), is_quantised(operator));
            let why = match quantised {
                true => "its weights are quantised; give the float model",
                false => "only ONNX's own LSTM, GRU and RNN are read",
            };
            return refuse(format!("node `{name}` is {operator}: {why}"));
        }
        if let Some(name) = functions.first() {
            return refuse(format!(
                "has its recurrent nodes in the function `{}`; inline it with \
                 onnx.inliner.inline_local_functions",
                short(name)
            ));
        }
        let listed: Vec<&str> = self.operators.iter().take(MAX_READERS).copied().collect();
        let more = if self.operators.len() > MAX_READERS { " .." } else { "" };
        let listed = if listed.is_empty() { "none".into() } else { listed.join(", ") };
        refuse(format!(
            "has no LSTM, GRU or RNN node, but may have one written out in simpler operators, which is \
             not recognised; its operators are {}{more}",
            short(&listed)
        ))
    }
}
