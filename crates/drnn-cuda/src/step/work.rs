//! Memory for passes over batches up to some size; see [`crate::step::plan`] for the shapes.

use crate::error::Result;
use crate::persistent::HalfWork;
use crate::plain::PlainWork;
use crate::runtime::device::Device;
use crate::runtime::memory::{Buffer, Pinned};
use crate::runtime::stream::Event;
use crate::step::plan::{Goal, Plan, Shape, Staged};
use drnn::InputSpec;

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

/// What recurrences need, by the way that they take.
#[derive(Debug)]
pub(crate) enum Recurrent {
    Plain(PlainWork),
    Half(Box<HalfWork>),
}

#[derive(Debug)]
pub(crate) struct Work {
    /// The largest shape that there is room for, whatever is asked for.
    pub room: Shape,
    pub goal: Goal,
    pub slots: Vec<Slot>,
    /// The batches at hand, one after another.
    pub batch: Buffer<u32>,
    /// Tokens: x (S, B, E).
    pub embedded: Buffer<f32>,
    pub recurrent: Recurrent,
    /// (A, B, m) each, or those asked for.
    pub answers: Buffer<f32>,
    pub d_answers: Buffer<f32>,
    /// (A, B) each, likewise.
    pub losses: Buffer<f32>,
    pub hits: Buffer<u32>,
    /// (chunks, widest): sums over chunks of rows.
    pub partial: Buffer<f32>,
}

impl Work {
    /// `half` is whether recurrences are persistent.
    pub fn new(device: &Device, plan: &Plan, room: Shape, goal: Goal, half: bool) -> Result<Work> {
        let (spec, m) = (&plan.spec, plan.spec.answer_width());
        let zeros = |len: usize| Buffer::<f32>::zeros(device, len);
        // Batches that ask for all they have, slot by slot, have the most to say.
        let asking = room.asking(room.positions());
        let words = BUNDLE * Staged::new(spec, asking, goal).words;
        let staging =
            || Ok(Slot { words: Pinned::zeros(device, words)?, read: Event::new(device)? });
        let embedded = match spec.input() {
            InputSpec::Tokens { embedding, .. } => room.slots() * embedding,
            InputSpec::Dense(_) => 0,
        };
        let most_units = spec.units().iter().max().copied().unwrap_or(0);
        let most_columns = (plan.cell.gates() * most_units).max(m);
        Ok(Work {
            room,
            goal,
            slots: (0..SLOTS).map(|_| staging()).collect::<Result<_>>()?,
            batch: Buffer::zeros(device, words)?,
            embedded: zeros(embedded)?,
            recurrent: match half {
                true => Recurrent::Half(Box::new(HalfWork::new(device, plan, room)?)),
                false => Recurrent::Plain(PlainWork::new(device, plan, room)?),
            },
            answers: zeros(room.positions() * m)?,
            d_answers: zeros(room.positions() * m)?,
            losses: zeros(room.positions())?,
            hits: Buffer::zeros(device, room.positions())?,
            partial: zeros(CHUNKS * most_columns)?,
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
        let recurrent = match &self.recurrent {
            Recurrent::Plain(work) => work.bytes(),
            Recurrent::Half(work) => work.bytes(),
        };
        recurrent + self.answers.bytes() + self.d_answers.bytes() + self.batch.bytes()
    }
}
