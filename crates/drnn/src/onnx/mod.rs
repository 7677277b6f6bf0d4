//! Models as ONNX graphs, for ONNX Runtime, tract and whatever else runs those.
//!
//! ```text
//! whole    y (T, B, m), h, c = graph(x (T, B, q) [, h0, c0])   delay and padding inside
//! step     y (B, m), h, c    = graph(x (B, q), h0, c0)         y belongs to the element d before
//! ```
//!
//! ```
//! use drnn::onnx::GraphKind;
//! use drnn::{Cell, Model, NetSpec, Padding};
//!
//! let spec = NetSpec::builder(Cell::Lstm).dense(3).units([8]).outputs(2);
//! let model = Model::init(&spec.delay(4, Padding::Null).build()?, 1)?;
//! let onnx = model.to_onnx(GraphKind::Whole)?;
//! let inputs: Vec<String> = onnx.inputs.iter().map(|port| port.to_string()).collect();
//! assert_eq!(inputs, ["x: float [T, B, 3]", "h0: float [1, B, 8]", "c0: float [1, B, 8]"]);
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("model.onnx");
//! onnx.save(&path)?;
//! # Ok::<(), drnn::Error>(())
//! ```
//!
//! # Inputs and outputs
//!
//! T and B are symbols: one graph takes sequences of any length from 1 on, in batches of any size. All
//! sequences of a batch are equally long.
//!
//! | name | [`GraphKind::Whole`] | [`GraphKind::Step`] | |
//! |---|---|---|---|
//! | `x` | `float [T, B, q]` | `float [B, q]` | vectors, where the network reads those |
//! | `tokens` | `int64 [T, B]` | `int64 [B]` | symbols from 0 to V - 1, where it reads tokens |
//! | `h0`, `c0` | `float [layers * directions, B, n]` | the same | states to start from, PyTorch's `h_0` and `c_0`; `c0` for the LSTM only |
//! | `y` | `float [T, B, m]` | `float [B, m]` | outputs; without an output layer, the last layer's states |
//! | `h`, `c` | `float [layers * directions, B, n]` | the same | states after the last step |
//!
//! One tensor cannot hold the states of layers that differ in width. Each layer then has its own:
//! `h0_l0` (`[directions, B, n]`, n of layer 0), `h0_l1`, .., and so `c0_l0`, `h_l0`, `c_l0`.
//!
//! The states of a whole graph are optional unless [`GraphOptions::optional_states`] is false: `h0` and
//! `c0` are inputs that are also initialisers, zeros of shape `[layers * directions, 1, n]`, which the
//! graph expands to B sequences. ONNX Runtime lists them as overridable initialisers and accepts them
//! as any input (it warns once that they are not constants, which is intended). tract takes an input
//! that has an initialiser for a constant: there the states are always zeros, and a graph that shall
//! start from others needs `optional_states: false`. A graph of one step always needs its states.
//!
//! # Units
//!
//! With [`GraphOptions::input_scaling`] and [`GraphOptions::output_units`] a graph takes and gives the
//! units of the training data: `Sub` and `Div` before the network, `Mul` and `Add` (or `Softmax`, for
//! classes) after it. The mean is subtracted in two parts, `float(mean)` and the rest, because a float
//! alone would lose digits of a column whose mean is large and whose spread is small. With
//! [`GraphOptions::nan_is_mean`] a missing number is NaN and counts as the column's mean.
//!
//! # Delay
//!
//! A whole graph runs as [`Model::run`](crate::Model::run) does: d steps of padding after the end, the
//! first d outputs dropped, so that `y[t]` belongs to `x[t]`. With [`Padding::LookAhead`] nothing is
//! padded: `x` is `[T + d, B, q]` for T outputs.
//!
//! A graph of one step does what a [`Stream`](crate::Stream) does between two elements, and its caller
//! keeps the books: hand `h` and `c` back as `h0` and `c0`, ignore the first d outputs, and for the
//! last d outputs feed d elements more. Those are zero vectors for [`Padding::Null`] (NaN for a graph
//! that scales its input: it becomes 0), which among tokens is number V, made for the purpose; and that
//! token for [`Padding::Symbol`].
//!
//! # Form
//!
//! Standard operators of opset 17: one RNN, LSTM or GRU per layer, at most one Gather, Pad, Slice,
//! MatMul and Add, and those that scale or expand states. What the spec says is in the metadata: `drnn`
//! (the spec as JSON), `kind` (`whole` or `step`), `delay`, where there is one `padding` (`null`,
//! `look-ahead`, `symbol`), where a step must be fed one `padding_token`, `units` (`own` or
//! `standardised`), `nan` (`mean`, where it is read so), scales, and the caller's own entries ([`GraphOptions::metadata`]).
//!
//! ONNX Runtime runs all of them. tract 0.23 does not look at an RNN's activation: what it computes for
//! a plain RNN with relu is wrong, without a word.

mod graph;
mod interface;
mod network;
mod proto;

pub use interface::{Dim, Number, Port};

use crate::error::text::grouped;
use crate::error::{Error, Result};
use crate::io::atomic::write_atomically;
use crate::io::file::{in_file, refuse_because};
use crate::model::Model;
use crate::spec::{InputSpec, NetSpec, Padding};
use crate::stream::step::check_streams;
use prost::Message;
use std::io::Write;
use std::path::Path;

/// What a graph does in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphKind {
    /// Whole sequences.
    Whole,
    /// One element of each sequence, to run live. Forward networks only.
    Step,
}

/// The scaling of columns: `scaled = (own - mean) / sd`.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnScaling {
    /// Of each column.
    pub mean: Vec<f64>,
    /// Of each column, above 0.
    pub sd: Vec<f64>,
}

/// What `y` is.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum OutputUnits {
    /// The network's outputs.
    #[default]
    Network,
    /// Those in the targets' own units.
    Scaled(ColumnScaling),
    /// Their softmax.
    Probabilities,
}

/// How a model is exported.
#[derive(Debug, Clone, PartialEq)]
pub struct GraphOptions {
    /// Whole sequences, or one step.
    pub kind: GraphKind,
    /// Whether the states may be left out; for [`GraphKind::Whole`] only.
    pub optional_states: bool,
    /// Scaling of `x`, if it is in its own units.
    pub input_scaling: Option<ColumnScaling>,
    /// Whether NaN in `x` is read as the column's mean; only with a scaling. One step of a network with
    /// delay and [`Padding::Null`] always does so, because NaN is its padding.
    pub nan_is_mean: bool,
    /// What `y` is.
    pub output_units: OutputUnits,
    /// Further names and values for the metadata.
    pub metadata: Vec<(String, String)>,
}

impl From<GraphKind> for GraphOptions {
    /// The network as it is; the states of a whole graph are optional.
    fn from(kind: GraphKind) -> GraphOptions {
        GraphOptions {
            kind,
            optional_states: kind == GraphKind::Whole,
            input_scaling: None,
            nan_is_mean: false,
            output_units: OutputUnits::Network,
            metadata: Vec::new(),
        }
    }
}

impl GraphOptions {
    /// Whether NaN in `x` becomes 0.
    fn reads_nan(&self, spec: &NetSpec) -> bool {
        let pads = spec.delay() > 0 && spec.padding() == Padding::Null;
        self.input_scaling.is_some() && (self.nan_is_mean || (self.kind == GraphKind::Step && pads))
    }

    /// Whether the options fit the network.
    fn check(&self, spec: &NetSpec) -> Result<()> {
        let fail = |what: String| Err(Error::Spec(format!("ONNX: {what}")));
        let fits = |scaling: &ColumnScaling, width: usize| {
            let finite = scaling.mean.iter().chain(&scaling.sd).all(|x| x.is_finite());
            let positive = scaling.sd.iter().all(|sd| *sd as f32 > 0.0);
            [scaling.mean.len(), scaling.sd.len()] == [width; 2] && finite && positive
        };
        if let Some(scaling) = &self.input_scaling {
            match spec.input() {
                InputSpec::Dense(q) if fits(scaling, q) => {}
                _ => return fail(format!("the scaling of the inputs does not fit {spec}")),
            }
        }
        if let OutputUnits::Scaled(scaling) = &self.output_units
            && !fits(scaling, spec.output_width())
        {
            return fail(format!("the scaling of the outputs does not fit {spec}"));
        }
        if self.optional_states && self.kind == GraphKind::Step {
            return fail("a graph of one step needs its states".into());
        }
        Ok(())
    }
}

/// An exported model.
#[derive(Debug, Clone, PartialEq)]
pub struct Onnx {
    /// The file.
    pub bytes: Vec<u8>,
    /// What to feed: elements, then states.
    pub inputs: Vec<Port>,
    /// What comes out: outputs, then states.
    pub outputs: Vec<Port>,
    /// How it is fed, in a line.
    pub usage: String,
    /// The network in it: the model's, or an equal one without blocks.
    pub spec: NetSpec,
}

/// Operators as of ONNX 1.12: old enough for every runtime, and RNNs have not changed since for floats.
const OPSET: i64 = 17;
/// The file format of that release.
const IR_VERSION: i64 = 8;
/// What a protobuf message may have, and ONNX files are one.
const MAX_BYTES: usize = i32::MAX as usize;

/// An equal network without blocks; None where there are no blocks.
#[cfg(feature = "flatten")]
fn without_blocks(model: &Model) -> Result<Option<Model>> {
    model.without_blocks()
}

/// Blocks are refused: without flattening there is no way to undo it.
#[cfg(not(feature = "flatten"))]
fn without_blocks(model: &Model) -> Result<Option<Model>> {
    match model.spec().blocks() {
        None => Ok(None),
        Some(_) => {
            let why = "a network in blocks is exported only if drnn is built with its feature";
            Err(crate::Error::Flatten(format!("{why} `flatten`")))
        }
    }
}

impl Model {
    /// The model as an ONNX graph. A flattened stack is exported as the stack that it is, with the same
    /// outputs and states; blocks that begin one after another and are no stack have no standard operator.
    ///
    /// A [`GraphKind`] exports the network as it is; [`GraphOptions`] has units and states.
    pub fn to_onnx(&self, options: impl Into<GraphOptions>) -> Result<Onnx> {
        let options: GraphOptions = options.into();
        let kind = options.kind;
        let plain = without_blocks(self)?;
        let model = plain.as_ref().unwrap_or(self);
        let spec = model.spec();
        if kind == GraphKind::Step {
            check_streams(spec)?;
        }
        options.check(spec)?;
        if spec.projection().is_some() {
            let why = "ONNX's LSTM has no projection, so this network cannot be exported";
            return Err(Error::Spec(format!("{spec}: {why}")));
        }
        // Before the weights are copied; there is a little more to a file than they.
        check_size(spec.parameters().saturating_mul(size_of::<f32>()))?;

        let inputs = interface::inputs(spec, &options);
        let outputs = interface::outputs(spec, &options);
        let usage = usage(spec, &options);
        let graph::Graph { nodes, constants } = network::graph(model, &options);
        let message = proto::Model {
            ir_version: IR_VERSION,
            producer_name: "drnn".into(),
            producer_version: env!("CARGO_PKG_VERSION").into(),
            doc_string: format!("{spec}. {usage}"),
            graph: Some(proto::Graph {
                node: nodes,
                name: "drnn".into(),
                initializer: constants,
                input: inputs.iter().map(Port::declaration).collect(),
                output: outputs.iter().map(Port::declaration).collect(),
            }),
            opset_import: vec![proto::OperatorSet { version: OPSET }],
            metadata_props: metadata(spec, &options)?,
        };
        check_size(message.encoded_len())?;
        Ok(Onnx { bytes: message.encode_to_vec(), inputs, outputs, usage, spec: spec.clone() })
    }
}

impl Onnx {
    /// Writes the file. Where that fails, what was there before is untouched.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        write_atomically(path, |file| file.write_all(&self.bytes))
            .map_err(|e| in_file(refuse_because(format!("cannot be written: {e}"), e), path))
    }
}

fn check_size(bytes: usize) -> Result<()> {
    if bytes <= MAX_BYTES {
        return Ok(());
    }
    Err(Error::TooLarge(format!(
        "an ONNX file of {} bytes (at most {}, which is what protobuf allows)",
        grouped(bytes),
        grouped(MAX_BYTES)
    )))
}

fn usage(spec: &NetSpec, options: &GraphOptions) -> String {
    let (d, kind) = (spec.delay(), options.kind);
    match (kind, d, spec.padding()) {
        (GraphKind::Whole, 0, _) => "Whole sequences.".into(),
        (GraphKind::Whole, _, Padding::LookAhead) => {
            format!("Whole sequences: T + {d} elements get T outputs.")
        }
        (GraphKind::Whole, ..) => "Whole sequences; delay and padding are in the graph.".into(),
        (GraphKind::Step, 0, _) => "One step: hand the states back with the next element.".into(),
        (GraphKind::Step, _, padding) => {
            let (outputs, times) = match d {
                1 => ("output".into(), "once".into()),
                _ => (format!("{d} outputs"), format!("{d} times")),
            };
            let end = match (padding, padding_token(spec, kind)) {
                (Padding::LookAhead, _) => String::new(),
                (_, Some(token)) => format!("; after the end feed token {token}, {times}"),
                (_, None) if options.input_scaling.is_some() => {
                    format!("; after the end feed NaN, {times}")
                }
                (_, None) => format!("; after the end feed a zero vector, {times}"),
            };
            format!(
                "One step: hand the states back with the next element; the first {outputs} to come \
                 out count for nothing{end}."
            )
        }
    }
}

/// What says `nothing follows` to a graph of one step.
fn padding_token(spec: &NetSpec, kind: GraphKind) -> Option<usize> {
    match (kind, spec.padding(), spec.input()) {
        (GraphKind::Step, Padding::Symbol(id), InputSpec::Tokens { .. }) if spec.delay() > 0 => {
            Some(id as usize)
        }
        _ => interface::null_token(spec, kind),
    }
}

fn metadata(spec: &NetSpec, options: &GraphOptions) -> Result<Vec<proto::Entry>> {
    let kind = options.kind;
    let json = serde_json::to_string(spec).map_err(|e| Error::Spec(e.to_string()))?;
    let kind_name = if kind == GraphKind::Step { "step" } else { "whole" };
    let mut entries =
        vec![("drnn", json), ("kind", kind_name.into()), ("delay", spec.delay().to_string())];
    if spec.delay() > 0 {
        let padding = match spec.padding() {
            Padding::Null => "null",
            Padding::Symbol(_) => "symbol",
            Padding::LookAhead => "look-ahead",
        };
        entries.push(("padding", padding.into()));
        entries.extend(padding_token(spec, kind).map(|t| ("padding_token", t.to_string())));
    }
    let own = options.input_scaling.is_some() || options.output_units != OutputUnits::Network;
    entries.push(("units", if own { "own" } else { "standardised" }.into()));
    if options.reads_nan(spec) {
        entries.push(("nan", "mean".into()));
    }
    if let Some(scaling) = &options.input_scaling {
        entries.push(("input_mean", numbers(&scaling.mean)));
        entries.push(("input_sd", numbers(&scaling.sd)));
    }
    if let OutputUnits::Scaled(scaling) = &options.output_units {
        entries.push(("target_mean", numbers(&scaling.mean)));
        entries.push(("target_sd", numbers(&scaling.sd)));
    }
    let own = options.metadata.iter().map(|(key, value)| (key.as_str(), value.clone()));
    let entries = entries.into_iter().chain(own);
    Ok(entries.map(|(key, value)| proto::Entry { key: key.into(), value }).collect())
}

/// A list of numbers as JSON.
fn numbers(values: &[f64]) -> String {
    format!("[{}]", values.iter().map(f64::to_string).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests;
