//! Parameters in drnn's order: both directions apart, and gates as PyTorch orders them.

use super::choose::Chain;
use super::constant::{Constant, Type};
use super::parts::Parts;
use super::recurrence::Weights;
use super::value::Value;
use super::walk::Found;
use crate::error::Result;
use crate::io::file::refuse;
use crate::model::Model;
use crate::spec::params::Layout;
use crate::spec::{Cell, NetSpec, NetSpecBuilder, Padding};

/// A model, and what was needed for it.
pub(super) struct ReadModel<'a> {
    pub model: Model,
    /// Names of the initialisers.
    pub used: Vec<&'a str>,
    pub notes: Vec<String>,
}

/// Where a gate of drnn's order is in ONNX's: LSTM i, f, g, o in i, o, f, c; GRU r, z, n in z, r, h.
fn order(cell: Cell) -> &'static [usize] {
    match cell {
        Cell::RnnTanh | Cell::RnnRelu => &[0],
        Cell::Lstm => &[0, 2, 3, 1],
        Cell::Gru | Cell::GruResetBefore => &[1, 0, 2],
    }
}

/// The model of these nodes and parts, from a file of `len` bytes.
pub(super) fn read<'a>(
    found: &Found<'a>,
    chain: &Chain,
    parts: &Parts<'_, 'a>,
    own: Option<&NetSpec>,
    len: usize,
) -> Result<ReadModel<'a>> {
    let nodes = chain.iter().map(|&index| &found.recurrences[index]);
    let layers: Vec<&Weights> =
        nodes.clone().filter_map(|node| node.weights.as_ref().ok()).collect();
    let first = &found.recurrences[chain[0]];
    let inputs = layers.first().map_or(0, |layer| layer.inputs);
    let units: Vec<usize> = layers.iter().map(|layer| layer.units).collect();
    let mut builder = NetSpec::builder(first.cell).units(units);
    if first.directions == 2 {
        builder = builder.bidirectional();
    }
    if let Some(output) = parts.output {
        builder = builder.outputs(output.weight.shape[0]);
    }
    let symbols = match parts.embedding {
        Some(embedding) => Some(embedding_rows(&embedding.table, inputs)?),
        None => None,
    };
    let mut notes = Vec::new();
    let spec = spec(builder, symbols, inputs, own, &mut notes)?;
    let layout = Layout::new(&spec);
    if layout.len() > len {
        let values = layout.len();
        return Err(refuse(format!("claims {values} weights, but the whole file has {len} bytes")));
    }
    let mut params = vec![0.0; layout.len()];
    let mut used = Vec::new();
    let mut f64s = layers.iter().any(|layer| layer.has_f64());
    let mut fill = |constant: &Constant<'a>, to: &mut [f32]| {
        let values = constant.floats();
        f64s |= constant.kind == Type::F64;
        used.extend(constant.origins.iter().copied());
        let count = to.len().min(values.len()); // a token that stands for padding is not drnn's
        to[..count].copy_from_slice(&values[..count]);
    };
    if let (Some(embedding), Some(range)) = (parts.embedding, layout.embedding()) {
        fill(&embedding.table, &mut params[range]);
    }
    if let (Some(output), Some([weight, bias])) = (parts.output, layout.output()) {
        fill(&output.weight, &mut params[weight]);
        if let Some(constant) = &output.bias {
            fill(constant, &mut params[bias]);
        }
    }
    for (index, layer) in layers.iter().enumerate() {
        used.extend(layer.w.origins.iter().chain(layer.r.origins.iter()).copied());
        used.extend(layer.b.iter().flat_map(|b| b.origins.iter().copied()));
        for direction in 0..first.directions {
            let [w_ih, w_hh, b_ih, b_hh] = layout.layer(index, direction);
            let gates = order(first.cell);
            copy(&layer.w, direction, 0, gates, &mut params[w_ih]);
            copy(&layer.r, direction, 0, gates, &mut params[w_hh]);
            if let Some(b) = &layer.b {
                copy(b, direction, 0, gates, &mut params[b_ih]);
                copy(b, direction, gates.len(), gates, &mut params[b_hh]);
            }
        }
    }
    if f64s {
        notes.push("float64 weights are rounded to float32".into());
    }
    let starts = nodes.flat_map(|node| &node.starts);
    if !all_zero(starts, len) {
        notes.push(
            "the graph starts from states of its own, which are not part of the model; --h0 and --c0 \
             give states to start from"
                .into(),
        );
    }
    Ok(ReadModel { model: Model::from_params(&spec, params)?, used, notes })
}

/// The spec; a graph of drnn's own states its delay in its metadata.
fn spec(
    builder: NetSpecBuilder,
    symbols: Option<usize>,
    inputs: usize,
    own: Option<&NetSpec>,
    notes: &mut Vec<String>,
) -> Result<NetSpec> {
    let with = |rows: Option<usize>, delay: usize, padding: Padding| {
        let builder = builder.clone().delay(delay, padding);
        match rows {
            Some(rows) => builder.tokens(rows, inputs).build(),
            None => builder.dense(inputs).build(),
        }
    };
    let Some(own) = own.filter(|own| own.delay() > 0) else {
        return with(symbols, 0, Padding::Null);
    };
    // A graph of one step may have one token more, for the zero vector.
    let fewer = symbols.and_then(|rows| rows.checked_sub(1));
    for rows in [symbols, fewer] {
        if let Ok(spec) = with(rows, own.delay(), own.padding())
            && spec == *own
        {
            return Ok(spec);
        }
    }
    let delay = own.delay();
    notes.push(format!(
        "the network was exported with a delay of {delay} steps, which is not part of what is read here"
    ));
    with(symbols, 0, Padding::Null)
}

fn embedding_rows(table: &Constant, inputs: usize) -> Result<usize> {
    match *table.shape.as_slice() {
        [rows, columns] if columns == inputs => Ok(rows),
        _ => {
            let shape = &table.shape;
            Err(refuse(format!(
                "the embedding has shape {shape:?}, expected {inputs} columns: it does not fit the \
                 recurrence"
            )))
        }
    }
}

/// The gates of one direction in drnn's order, from gate `start` on.
fn copy(from: &Constant, direction: usize, start: usize, gates: &[usize], to: &mut [f32]) {
    let rows = from.shape.get(1).copied().unwrap_or(0);
    let biases = from.shape.len() == 2; // both biases of all gates
    let n = rows / if biases { 2 * gates.len() } else { gates.len() };
    let size = to.len() / gates.len();
    for (gate, to) in gates.iter().zip(to.chunks_mut(size.max(1))) {
        let at = (start + gate) * n;
        let part =
            from.sliced(0, direction, direction + 1).and_then(|one| one.sliced(1, at, at + n));
        let values = part.map(|part| part.floats()).unwrap_or_default();
        if values.len() == to.len() {
            to.copy_from_slice(&values);
        }
    }
}

/// Whether the states to start from are zeros, or come from the user. Of more values than the file has
/// bytes, which are shared, nothing is looked at.
fn all_zero<'v, 'a: 'v>(starts: impl Iterator<Item = &'v Value<'a>>, len: usize) -> bool {
    let mut left = len;
    for start in starts {
        let zero = match start {
            Value::Constant(constant) => match left.checked_sub(constant.len()) {
                Some(rest) => {
                    left = rest;
                    constant.is_zero()
                }
                None => false,
            },
            Value::Filled { zero } => *zero,
            _ => true,
        };
        if !zero {
            return false;
        }
    }
    true
}
