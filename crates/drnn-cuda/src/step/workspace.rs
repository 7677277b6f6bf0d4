//! Device memory for passes over batches up to some size; [`crate::step::plan`] has the shapes.

use crate::error::Result;
use crate::persistent::PersistentWorkspace;
use crate::plain::PlainWorkspace;
use crate::runtime::device::Device;
use crate::runtime::memory::{Buffer, Pinned};
use crate::runtime::stream::{Event, Stream};
use crate::step::plan::{Plan, Shape, Staged, TargetType};
use crate::step::stored;
use drnn::InputSpec;

/// Chunks of rows in the first pass of bias gradients.
pub(crate) const CHUNKS: usize = 64;
/// Batches per copy and graph launch: steps of small networks are shorter than a launch takes.
pub(crate) const MAX_BATCHES_PER_GRAPH: usize = 8;
/// And so many words, unless a single batch has more: a graph of large batches needs no others.
pub(crate) const MAX_WORDS_PER_GRAPH: usize = 4 << 20;
/// Buffers for staged batches: while the device works on the contents of one, the next is copied and
/// the host writes the one after it.
pub(crate) const STAGING_BUFFERS: usize = 3;

/// Staged batches on their way to the device, which copies them in a stream of its own.
#[derive(Debug)]
pub(crate) struct StagingBuffer {
    pub words: Pinned,
    /// The copy, which becomes [`Workspace::batch`] when the device has finished the batches before.
    pub arrived: Buffer<u32>,
    /// After it `words` may be overwritten.
    pub copied: Event,
    /// After it `arrived` may be overwritten.
    pub taken: Event,
}

impl StagingBuffer {
    pub fn new(device: &Device, words: usize) -> Result<StagingBuffer> {
        Ok(StagingBuffer {
            words: Pinned::zeros(device, words)?,
            arrived: Buffer::zeros(device, words)?,
            copied: Event::new(device)?,
            taken: Event::new(device)?,
        })
    }

    /// Copies the first `words` to the device in `copies`, and from there to `batch` in `stream`.
    pub fn send(
        &self,
        words: usize,
        copies: &Stream,
        stream: &Stream,
        batch: &Buffer<u32>,
    ) -> Result<()> {
        copies.wait_event(&self.taken)?;
        // SAFETY: the host does not touch the words until `copied` has happened.
        unsafe { copies.copy(&self.words, words, &self.arrived)? };
        self.copied.record(copies)?;
        stream.wait_event(&self.copied)?;
        stream.copy_within(self.arrived.at(0), batch.at(0), words * size_of::<u32>())?;
        self.taken.record(stream)
    }
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
    /// Batches on the device, one after another. Of data that lie there: their headers and parts,
    /// then the batch that was taken last.
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
        let batch = Staged::new(spec, selected, target_type).words;
        let batches = (MAX_WORDS_PER_GRAPH / batch).clamp(1, MAX_BATCHES_PER_GRAPH);
        let words = batches * batch + MAX_BATCHES_PER_GRAPH * stored::words(capacity.rows);
        let embedded = match spec.input() {
            InputSpec::Tokens { embedding, .. } => capacity.step_rows() * embedding,
            InputSpec::Dense(_) => 0,
        };
        let max_units = spec.units().iter().max().copied().unwrap_or(0);
        let max_columns = (plan.cell.gates() * max_units).max(m);
        Ok(Workspace {
            capacity,
            target_type,
            staging: (0..STAGING_BUFFERS)
                .map(|_| StagingBuffer::new(device, words))
                .collect::<Result<_>>()?,
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
        let batches = (1 + self.staging.len()) * self.batch.bytes();
        recurrent + self.outputs.bytes() + self.d_outputs.bytes() + batches
    }
}
