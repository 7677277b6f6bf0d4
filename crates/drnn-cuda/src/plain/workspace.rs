//! Memory for a pass on the plain way; see [`crate::step::plan`] for the shapes.

use crate::error::Result;
use crate::runtime::device::Device;
use crate::runtime::memory::Buffer;
use crate::step::plan::{Plan, Recurrence, Shape};
use drnn::Cell;

/// Of a direction of a layer.
#[derive(Debug)]
pub(crate) struct RecurrenceWorkspace {
    /// (S, B, gates n): gates, then their gradients.
    pub gates: Buffer<f32>,
    /// GRU: (S, B, n), W_hn h' + b_hn, then its gradient.
    pub from_h: Buffer<f32>,
    /// LSTM: (S + 2, B, n).
    pub c: Buffer<f32>,
}

#[derive(Debug)]
pub(crate) struct PlainWorkspace {
    /// Layer by layer: (S + 2, B, directions n).
    pub h: Vec<Buffer<f32>>,
    pub recurrences: Vec<Vec<RecurrenceWorkspace>>,
    /// Gradients of what layers give and read: (S, B, widest) each. Before, states that are asked for; see [`crate::step::selected_outputs`].
    pub d_above: [Buffer<f32>; 2],
    /// (B, n) each, from step to step.
    pub d_h: Buffer<f32>,
    pub d_c: Buffer<f32>,
}

impl PlainWorkspace {
    pub fn new(device: &Device, plan: &Plan, capacity: Shape) -> Result<PlainWorkspace> {
        let (slots, rows, kept) =
            (capacity.slots(), capacity.rows, (capacity.steps + 2) * capacity.rows);
        let zeros = |len: usize| Buffer::<f32>::zeros(device, len);
        let recurrence = |r: &Recurrence| {
            Ok(RecurrenceWorkspace {
                gates: zeros(slots * r.gates)?,
                from_h: zeros(if plan.cell == Cell::Gru { slots * r.n } else { 0 })?,
                c: zeros(if plan.cell.has_cell_state() { kept * r.n } else { 0 })?,
            })
        };
        let layer = |l: &Vec<Recurrence>| l.iter().map(recurrence).collect::<Result<Vec<_>>>();
        let max_units = plan.spec.units().iter().max().copied().unwrap_or(0);
        Ok(PlainWorkspace {
            h: plan.layers.iter().map(|l| zeros(kept * l[0].width)).collect::<Result<_>>()?,
            recurrences: plan.layers.iter().map(layer).collect::<Result<_>>()?,
            d_above: [zeros(slots * plan.widest())?, zeros(slots * plan.widest())?],
            d_h: zeros(rows * max_units)?,
            d_c: zeros(rows * max_units)?,
        })
    }

    /// The states that answers are made of, (A, B, n), or those asked for: where they lie, and the first value's place there.
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
