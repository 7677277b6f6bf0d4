//! Device memory of step-by-step recurrences; [`crate::step::plan`] has the shapes.

use crate::error::Result;
use crate::runtime::device::Device;
use crate::runtime::memory::Buffer;
use crate::step::plan::{Plan, Recurrence, Shape};
use drnn::Cell;

/// Buffers of one direction of a layer.
#[derive(Debug)]
pub(crate) struct RecurrenceWorkspace {
    /// (S, B, gates n): gates, overwritten by their gradients.
    pub gates: Buffer<f32>,
    /// GRU: (S, B, n), W_hn h' + b_hn, overwritten by its gradient.
    pub from_h: Buffer<f32>,
    /// LSTM: (S + 2, B, n).
    pub c: Buffer<f32>,
}

/// Buffers of all layers.
#[derive(Debug)]
pub(crate) struct PlainWorkspace {
    /// Layer by layer: (S + 2, B, directions n).
    pub h: Vec<Buffer<f32>>,
    pub recurrences: Vec<Vec<RecurrenceWorkspace>>,
    /// Gradients of layers' outputs and inputs, used alternately: (S, B, widest) each. Before that,
    /// gathered states; see [`crate::step::selected_outputs`].
    pub d_above: [Buffer<f32>; 2],
    /// (B, n) each, carried from step to step of the backward pass.
    pub d_h: Buffer<f32>,
    pub d_c: Buffer<f32>,
}

impl PlainWorkspace {
    pub fn new(device: &Device, plan: &Plan, capacity: Shape) -> Result<PlainWorkspace> {
        let (slots, rows, padded_rows) =
            (capacity.step_rows(), capacity.rows, (capacity.steps + 2) * capacity.rows);
        let zeros = |len: usize| Buffer::<f32>::zeros(device, len);
        let recurrence = |r: &Recurrence| {
            Ok(RecurrenceWorkspace {
                gates: zeros(slots * r.gates)?,
                from_h: zeros(if plan.cell == Cell::Gru { slots * r.n } else { 0 })?,
                c: zeros(if plan.cell.has_cell_state() { padded_rows * r.n } else { 0 })?,
            })
        };
        let layer = |l: &Vec<Recurrence>| l.iter().map(recurrence).collect::<Result<Vec<_>>>();
        let max_units = plan.spec.units().iter().max().copied().unwrap_or(0);
        Ok(PlainWorkspace {
            h: plan
                .layers
                .iter()
                .map(|l| zeros(padded_rows * l[0].width))
                .collect::<Result<_>>()?,
            recurrences: plan.layers.iter().map(layer).collect::<Result<_>>()?,
            d_above: [zeros(slots * plan.widest())?, zeros(slots * plan.widest())?],
            d_h: zeros(rows * max_units)?,
            d_c: zeros(rows * max_units)?,
        })
    }

    /// The states that outputs are computed from, (A, B, n) or (selected, n): their buffer, and the
    /// offset of the first.
    pub fn output_states(&self, plan: &Plan, shape: Shape) -> (&Buffer<f32>, usize) {
        let first = (1 + plan.spec.delay()) * shape.rows * plan.spec.hidden_width();
        match shape.selected {
            None => (self.h.last().expect("a layer"), first),
            Some(_) => (&self.d_above[0], 0),
        }
    }

    pub fn bytes(&self) -> usize {
        let recurrences = self.recurrences.iter().flatten();
        let recurrences = recurrences.map(|r| r.gates.bytes() + r.from_h.bytes() + r.c.bytes());
        let floats = self.h.iter().chain(&self.d_above).map(Buffer::bytes);
        recurrences.chain(floats).sum()
    }
}
