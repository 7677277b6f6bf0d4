//! Memory for passes over batches up to some size; see [`crate::plan`] for the shapes.

use crate::device::Device;
use crate::error::Result;
use crate::memory::{Buffer, Pinned};
use crate::persistent::HalfWork;
use crate::plan::{Goal, Plan, Shape, Staged};
use crate::stream::Event;
use drnn::{Cell, InputSpec};

/// Of a direction of a layer.
#[derive(Debug)]
pub(crate) struct RecurrenceWork {
    /// (S, B, gates n): gates, then their gradients.
    pub gates: Buffer<f32>,
    /// GRU: (S, B, n), W_hn h' + b_hn, then its gradient.
    pub from_h: Buffer<f32>,
    /// LSTM: (S + 2, B, n).
    pub c: Buffer<f32>,
}

/// Chunks of the sums over rows that biases' gradients are.
pub(crate) const CHUNKS: usize = 64;
/// Batches that go to the GPU together, at most; small networks' steps are shorter than the calls that start them.
pub(crate) const BUNDLE: usize = 8;
/// Bundles that may be on their way at once.
const SLOTS: usize = 3;

/// A place for batches on this machine, and when it was last read from.
#[derive(Debug)]
pub(crate) struct Slot {
    pub words: Pinned,
    pub read: Event,
}

#[derive(Debug)]
pub(crate) struct Work {
    /// The largest shape that there is room for.
    pub room: Shape,
    pub goal: Goal,
    pub slots: Vec<Slot>,
    /// The batches at hand, one after another.
    pub batch: Buffer<u32>,
    /// Tokens: x (S, B, E).
    pub embedded: Buffer<f32>,
    /// Layer by layer: (S + 2, B, directions n).
    pub h: Vec<Buffer<f32>>,
    pub recurrences: Vec<Vec<RecurrenceWork>>,
    /// (A, B, m) each.
    pub answers: Buffer<f32>,
    pub d_answers: Buffer<f32>,
    /// (A, B) each.
    pub losses: Buffer<f32>,
    pub hits: Buffer<u32>,
    /// Gradients of what layers give and read: (S, B, widest) each.
    pub d_above: [Buffer<f32>; 2],
    /// (B, n) each, from step to step.
    pub d_h: Buffer<f32>,
    pub d_c: Buffer<f32>,
    /// (chunks, widest): sums over chunks of rows.
    pub partial: Buffer<f32>,
    /// What stands for most of that where recurrences are persistent.
    pub half: Option<HalfWork>,
}

impl Work {
    /// `half` is whether recurrences are persistent.
    pub fn new(device: &Device, plan: &Plan, room: Shape, goal: Goal, half: bool) -> Result<Work> {
        let spec = &plan.spec;
        let (slots, rows, m) = (room.slots(), room.rows, spec.answer_width());
        let zeros = |len: usize| Buffer::<f32>::zeros(device, len);
        let plain = |len: usize| zeros(if half { 0 } else { len });
        let kept = (room.steps + 2) * rows;
        let words = BUNDLE * Staged::new(spec, room, goal).words;
        let staging =
            || Ok(Slot { words: Pinned::zeros(device, words)?, read: Event::new(device)? });
        let embedded = match spec.input() {
            InputSpec::Tokens { embedding, .. } => slots * embedding,
            InputSpec::Dense(_) => 0,
        };
        let recurrence = |n: usize| {
            Ok(RecurrenceWork {
                gates: plain(slots * plan.cell.gates() * n)?,
                from_h: plain(if plan.cell == Cell::Gru { slots * n } else { 0 })?,
                c: plain(if plan.cell.has_cell_state() { kept * n } else { 0 })?,
            })
        };
        let layer = |layer: &Vec<crate::plan::Recurrence>| {
            layer.iter().map(|r| recurrence(r.n)).collect::<Result<Vec<_>>>()
        };
        let most_units = spec.units().iter().max().copied().unwrap_or(0);
        let most_columns = (plan.cell.gates() * most_units).max(m);
        Ok(Work {
            room,
            goal,
            slots: (0..SLOTS).map(|_| staging()).collect::<Result<_>>()?,
            batch: Buffer::zeros(device, words)?,
            embedded: zeros(embedded)?,
            h: plan.layers.iter().map(|l| plain(kept * l[0].width)).collect::<Result<_>>()?,
            recurrences: plan.layers.iter().map(layer).collect::<Result<_>>()?,
            answers: zeros(room.positions() * m)?,
            d_answers: zeros(room.positions() * m)?,
            losses: zeros(room.positions())?,
            hits: Buffer::zeros(device, room.positions())?,
            d_above: [plain(slots * plan.widest())?, plain(slots * plan.widest())?],
            d_h: zeros(rows * most_units)?,
            d_c: zeros(rows * most_units)?,
            partial: zeros(CHUNKS * most_columns)?,
            half: half.then(|| HalfWork::new(device, plan, room)).transpose()?,
        })
    }

    /// Whether a batch of that shape fits.
    pub fn holds(&self, shape: Shape, goal: Goal) -> bool {
        self.room.steps >= shape.steps
            && self.room.answers >= shape.answers
            && self.room.rows >= shape.rows
            && self.goal == goal
    }

    pub fn bytes(&self) -> usize {
        let recurrences = self.recurrences.iter().flatten();
        let recurrences = recurrences.map(|r| r.gates.bytes() + r.from_h.bytes() + r.c.bytes());
        let h: usize = self.h.iter().map(Buffer::bytes).sum();
        let answers = self.answers.bytes() + self.d_answers.bytes();
        let above: usize = self.d_above.iter().map(Buffer::bytes).sum();
        let half = self.half.as_ref().map_or(0, HalfWork::bytes);
        recurrences.sum::<usize>() + h + answers + above + half + self.batch.bytes()
    }
}
