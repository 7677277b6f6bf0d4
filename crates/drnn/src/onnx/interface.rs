//! What goes into an exported graph and what comes out: names, shapes, meanings.

use super::proto::{Dimension, TensorShape, TensorType, Type, ValueInfo};
use super::{GraphKind, GraphOptions, OutputUnits};
use crate::spec::{InputSpec, NetSpec, Padding};
use core::fmt;
use serde::Serialize;

/// An input or output of an exported graph. Prints as `x: float [T, B, 3]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Port {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub number: Number,
    /// Its dimensions.
    pub shape: Vec<Dim>,
    /// What to feed, or what to read.
    pub meaning: String,
    /// Whether it may be left out: the graph has a default for it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub optional: bool,
}

fn is_false(optional: &bool) -> bool {
    !optional
}

/// Type of a port's values, by ONNX's codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Number {
    /// f32
    Float = 1,
    /// i64
    Int64 = 7,
}

/// A dimension of a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Dim {
    /// Known when the graph runs: `B`, `T`, `T + 3`.
    Symbol(String),
    /// Always this.
    Size(usize),
}

impl Number {
    /// Bytes of one.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Number::Float => 4,
            Number::Int64 => 8,
        }
    }
}

impl From<&str> for Dim {
    fn from(name: &str) -> Dim {
        Dim::Symbol(name.into())
    }
}

impl From<usize> for Dim {
    fn from(size: usize) -> Dim {
        Dim::Size(size)
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Number::Float => "float",
            Number::Int64 => "int64",
        })
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Dim::Symbol(name) => f.write_str(name),
            Dim::Size(size) => size.fmt(f),
        }
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let dims: Vec<_> = self.shape.iter().map(Dim::to_string).collect();
        write!(f, "{}: {} [{}]", self.name, self.number, dims.join(", "))
    }
}

impl Port {
    fn floats(name: &str, shape: impl Into<Vec<Dim>>, meaning: String) -> Port {
        let (name, number, shape) = (name.into(), Number::Float, shape.into());
        Port { name, number, shape, meaning, optional: false }
    }

    /// The message that declares it.
    pub(crate) fn declaration(&self) -> ValueInfo {
        let dim = |dim: &Dim| match dim {
            Dim::Symbol(name) => Dimension { dim_param: Some(name.clone()), dim_value: None },
            Dim::Size(size) => Dimension { dim_value: Some(*size as i64), dim_param: None },
        };
        let shape = Some(TensorShape { dim: self.shape.iter().map(dim).collect() });
        let tensor = Some(TensorType { elem_type: self.number as i32, shape });
        let doc_string = self.meaning.clone();
        ValueInfo { name: self.name.clone(), kind: Some(Type { tensor }), doc_string }
    }
}

/// The token that stands for a zero vector in the graph of one step: one more than there are.
///
/// A whole graph pads after the embedding; who feeds step by step has nothing but tokens to say it with.
pub(crate) fn null_token(spec: &NetSpec, kind: GraphKind) -> Option<usize> {
    match (kind, spec.padding(), spec.input()) {
        (GraphKind::Step, Padding::Null, InputSpec::Tokens { symbols, .. }) if spec.delay() > 0 => {
            Some(symbols)
        }
        _ => None,
    }
}

/// Whether one tensor holds the states of all layers.
pub(crate) fn one_state(spec: &NetSpec) -> bool {
    spec.units().iter().all(|&n| n == spec.units()[0])
}

/// All inputs: elements, then states.
pub(crate) fn inputs(spec: &NetSpec, options: &GraphOptions) -> Vec<Port> {
    let kind = options.kind;
    let from = match (kind, options.optional_states) {
        (_, true) => "to start from; optional, zeros by default",
        (GraphKind::Whole, _) => "to start from, zeros if there are none",
        (GraphKind::Step, _) => "after the step before, zeros to begin with",
    };
    let mut ports = vec![elements(spec, kind)];
    if options.input_scaling.is_some() {
        ports[0].meaning += ", in their own units";
    }
    states(spec, "0", from, &mut ports);
    ports.iter_mut().skip(1).for_each(|port| port.optional = options.optional_states);
    ports
}

/// All results of the graph: outputs, then states.
pub(crate) fn outputs(spec: &NetSpec, options: &GraphOptions) -> Vec<Port> {
    let kind = options.kind;
    let (d, m) = (spec.delay(), spec.output_width());
    let read = elements(spec, kind).name;
    let (steps, meaning) = match (kind, d, spec.padding()) {
        (GraphKind::Step, 0, _) => (None, format!("outputs for {read}")),
        (GraphKind::Step, ..) => {
            let steps = if d == 1 { "one step".into() } else { format!("{d} steps") };
            (None, format!("outputs for what was fed {steps} before"))
        }
        (GraphKind::Whole, d, Padding::LookAhead) if d > 0 => {
            (Some("T"), format!("outputs for the first T of {read}"))
        }
        (GraphKind::Whole, ..) => (Some("T"), format!("outputs for {read}")),
    };
    let shape = steps.into_iter().chain(["B"]).map(Dim::from).chain([Dim::from(m)]);
    let meaning = match &options.output_units {
        OutputUnits::Network => meaning,
        OutputUnits::Scaled(_) => format!("{meaning}, in the targets' own units"),
        OutputUnits::Probabilities => format!("{meaning}: probabilities of the classes"),
    };
    let y = Port::floats("y", shape.collect::<Vec<_>>(), meaning);
    let after = match (kind, d, spec.padding()) {
        (GraphKind::Step, ..) => "after this step".into(),
        (GraphKind::Whole, 0, _) | (_, _, Padding::LookAhead) => "after the last step".to_string(),
        (GraphKind::Whole, d, _) => format!("after the last step, {d} after the last element"),
    };
    let mut ports = vec![y];
    states(spec, "", &after, &mut ports);
    ports
}

/// What the network reads.
fn elements(spec: &NetSpec, kind: GraphKind) -> Port {
    let d = spec.delay();
    let (time, more) = match spec.padding() {
        Padding::LookAhead if d > 0 => (format!("T + {d}"), format!(", and {d} that follow")),
        _ => ("T".into(), String::new()),
    };
    let steps = (kind == GraphKind::Whole).then_some(Dim::Symbol(time));
    let mut shape: Vec<Dim> = steps.into_iter().chain([Dim::from("B")]).collect();
    let one = if kind == GraphKind::Step { ", one element each" } else { &more };
    match spec.input() {
        InputSpec::Dense(q) => {
            shape.push(q.into());
            Port::floats("x", shape, format!("B sequences of vectors{one}"))
        }
        InputSpec::Tokens { symbols, .. } => {
            let mut meaning = format!("B sequences of symbols, 0 to {}{one}", symbols - 1);
            if let Some(token) = null_token(spec, kind) {
                meaning += &format!("; {token} is the zero vector");
            }
            let (name, number) = ("tokens".into(), Number::Int64);
            Port { name, number, shape, meaning, optional: false }
        }
    }
}

/// `h0` and `c0`, or `h0_l0`, `h0_l1`, .. where layers differ in width.
fn states(spec: &NetSpec, suffix: &str, when: &str, ports: &mut Vec<Port>) {
    let directions = spec.direction().count();
    let parts: &[(&str, &str)] = match spec.cell().has_cell_state() {
        true => &[("h", "states"), ("c", "cell states")],
        false => &[("h", "states")],
    };
    for (part, what) in parts {
        let mut add = |name: String, rows: usize, n: usize, of: String| {
            let shape = [rows.into(), "B".into(), n.into()];
            ports.push(Port::floats(&name, shape, format!("{what}{of} {when}")));
        };
        if one_state(spec) {
            let rows = spec.layers() * directions;
            add(format!("{part}{suffix}"), rows, spec.units()[0], String::new());
            continue;
        }
        for (layer, &n) in spec.units().iter().enumerate() {
            let of = format!(" of layer {layer}");
            add(format!("{part}{suffix}_l{layer}"), directions, n, of);
        }
    }
}
