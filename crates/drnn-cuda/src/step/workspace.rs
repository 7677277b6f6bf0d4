//! Memory for passes over batches up to some size; see [`crate::step::plan`] for the shapes.

use crate::error::Result;
use crate::persistent::PersistentWorkspace;
use crate::plain::PlainWorkspace;
use crate::runtime::device::Device;
use crate::runtime::memory::{Buffer, Pinned};
use crate::runtime::stream::Event;
use crate::step::plan::{Plan, Shape, Staged, TargetType};
use drnn::InputSpec;

/// Chunks of the sums over rows that biases' gradients are.
pub(crate) const CHUNKS: usize = 64;
/// Batches that go to the GPU together, at most; small networks' steps are shorter than the calls that start them.
pub(crate) const MAX_BATCHES_PER_GRAPH: usize = 8;
/// Bundles that may be on their way at once.
const STAGING_BUFFERS: usize = 3;

/// A place for batches on this machine, and when it was last read from.
#[derive(Debug)]
pub(crate) struct StagingBuffer {
    pub words: Pinned,
    pub read: Event,
}

/// What recurrences need, by the way that they take.
#[derive(Debug)]
pub(crate) enum Recurrent {
    Plain(PlainWorkspace),
    Persistent(Box<PersistentWorkspace>),
}

#[derive(Debug)]
pub(crate) struct Workspace {
    /// The largest shape that there is room for, whatever is asked for.
    pub capacity: Shape,
    pub target_type: TargetType,
    pub staging: Vec<StagingBuffer>,
    /// The batches at hand, one after another.
    pub batch: Buffer<u32>,
    /// Tokens: x (S, B, E).
    pub embedded: Buffer<f32>,
    pub recurrent: Recurrent,
    /// (A, B, m) each, or those asked for.
    pub outputs: Buffer<f32>,
    pub d_outputs: Buffer<f32>,
    /// (A, B) each, likewise.
    pub losses: Buffer<f32>,
    pub hits: Buffer<u32>,
    /// (chunks, widest): sums over chunks of rows.
    pub partial: Buffer<f32>,
}

impl Workspace {
    /// `half` is whether recurrences are persistent.
    pub fn new(
        device: &Device,
        plan: &Plan,
        capacity: Shape,
        target_type: TargetType,
        half: bool,
    ) -> Result<Workspace> {
        let (spec, m) = (&plan.spec, plan.spec.answer_width());
        let zeros = |len: usize| Buffer::<f32>::zeros(device, len);
        // Batches that ask for all they have, slot by slot, have the most to say.
        let asking = capacity.with_selected(capacity.positions());
        let words = MAX_BATCHES_PER_GRAPH * Staged::new(spec, asking, target_type).words;
        let staging = || {
            Ok(StagingBuffer { words: Pinned::zeros(device, words)?, read: Event::new(device)? })
        };
        let embedded = match spec.input() {
            InputSpec::Tokens { embedding, .. } => capacity.slots() * embedding,
            InputSpec::Dense(_) => 0,
        };
        let max_units = spec.units().iter().max().copied().unwrap_or(0);
        let max_columns = (plan.cell.gates() * max_units).max(m);
        Ok(Workspace {
            capacity,
            target_type,
            staging: (0..STAGING_BUFFERS).map(|_| staging()).collect::<Result<_>>()?,
            batch: Buffer::zeros(device, words)?,
            embedded: zeros(embedded)?,
            recurrent: match half {
                true => Recurrent::Persistent(Box::new(PersistentWorkspace::new(
                    device, plan, capacity,
                )?)),
                false => Recurrent::Plain(PlainWorkspace::new(device, plan, capacity)?),
            },
            outputs: zeros(capacity.positions() * m)?,
            d_outputs: zeros(capacity.positions() * m)?,
            losses: zeros(capacity.positions())?,
            hits: Buffer::zeros(device, capacity.positions())?,
            partial: zeros(CHUNKS * max_columns)?,
        })
    }

    /// Whether a batch of that shape fits.
    pub fn fits(&self, shape: Shape, target_type: TargetType) -> bool {
        self.capacity.steps >= shape.steps
            && self.capacity.outputs >= shape.outputs
            && self.capacity.rows >= shape.rows
            && self.target_type == target_type
    }

    pub fn bytes(&self) -> usize {
        let recurrent = match &self.recurrent {
            Recurrent::Plain(work) => work.bytes(),
            Recurrent::Persistent(work) => work.bytes(),
        };
        recurrent + self.outputs.bytes() + self.d_outputs.bytes() + self.batch.bytes()
    }
}
