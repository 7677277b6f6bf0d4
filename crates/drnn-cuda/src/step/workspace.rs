//! Device memory for passes over batches up to some size; [`crate::step::plan`] has the shapes.

use crate::error::Result;
use crate::persistent::PersistentWorkspace;
use crate::plain::PlainWorkspace;
use crate::runtime::device::Device;
use crate::runtime::memory::{Buffer, Pinned};
use crate::runtime::stream::Event;
use crate::step::plan::{Plan, Shape, Staged, TargetType};
use drnn::InputSpec;

/// Chunks of rows in the first pass of bias gradients.
pub(crate) const CHUNKS: usize = 64;
/// Batches per copy and graph launch: steps of small networks are shorter than a launch takes.
pub(crate) const MAX_BATCHES_PER_GRAPH: usize = 8;
/// Host buffers for staged batches: so many copies may be in flight.
const STAGING_BUFFERS: usize = 3;

/// Page-locked memory for staged batches, and the event after which it may be overwritten.
#[derive(Debug)]
pub(crate) struct StagingBuffer {
    pub words: Pinned,
    pub read: Event,
}

/// Workspace of the recurrences, by the kernels that run them.
#[derive(Debug)]
pub(crate) enum Recurrent {
    Plain(PlainWorkspace),
    Persistent(Box<PersistentWorkspace>),
}

/// Everything a pass needs besides parameters.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The largest shape that fits; `selected` is `None`.
    pub capacity: Shape,
    pub target_type: TargetType,
    pub staging: Vec<StagingBuffer>,
    /// Staged batches on the device, one after another.
    pub batch: Buffer<u32>,
    /// Tokens: x (S, B, E).
    pub embedded: Buffer<f32>,
    pub recurrent: Recurrent,
    /// (A, B, m) each, or (selected, m).
    pub outputs: Buffer<f32>,
    pub d_outputs: Buffer<f32>,
    /// (A, B) each, or (selected).
    pub losses: Buffer<f32>,
    pub hits: Buffer<u32>,
    /// (chunks, widest): partial sums over chunks of rows.
    pub partial: Buffer<f32>,
}

impl Workspace {
    /// `persistent` selects the recurrences' workspace.
    pub fn new(
        device: &Device,
        plan: &Plan,
        capacity: Shape,
        target_type: TargetType,
        persistent: bool,
    ) -> Result<Workspace> {
        let (spec, m) = (&plan.spec, plan.spec.output_width());
        let zeros = |len: usize| Buffer::<f32>::zeros(device, len);
        // A batch that selects every output has the longest staged form.
        let selected = capacity.with_selected(capacity.positions());
        let words = MAX_BATCHES_PER_GRAPH * Staged::new(spec, selected, target_type).words;
        let staging = || {
            Ok(StagingBuffer { words: Pinned::zeros(device, words)?, read: Event::new(device)? })
        };
        let embedded = match spec.input() {
            InputSpec::Tokens { embedding, .. } => capacity.step_rows() * embedding,
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
            recurrent: match persistent {
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

    /// Whether a batch of that shape and target type fits.
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
