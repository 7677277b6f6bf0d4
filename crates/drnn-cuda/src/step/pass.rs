//! A forward or backward pass over a batch, and the parts that do not depend on how the recurrence
//! runs: embeddings, losses, bias gradients.

use crate::error::Result;
use crate::kernels::Kernels;
use crate::runtime::gemm::{Gemm, Matrix};
use crate::runtime::memory::Buffer;
use crate::runtime::stream::{Arg, Stream};
use crate::step::plan::{Plan, Shape, Staged, TargetType};
use crate::step::state::{DeviceState, LOSSES};
use crate::step::workspace::{CHUNKS, Workspace};
use drnn::InputSpec;

/// Threads of a block of elementwise kernels.
pub(crate) const THREADS: usize = 256;

/// The last thing computed for a batch; each variant includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Until {
    /// The hidden states of the last layer.
    States,
    /// The outputs: logits or values, before the loss.
    Outputs,
    /// The losses.
    Losses,
    /// The backward pass and the optimiser step.
    Step,
}

/// What a pass over one batch works with. The methods submit work to `stream`.
#[derive(Clone, Copy)]
pub(crate) struct Pass<'a> {
    pub plan: &'a Plan,
    pub shape: Shape,
    /// Where the batch begins in [`Workspace::batch`], in words.
    pub first_word: usize,
    pub kernels: &'a Kernels,
    pub gemm: &'a Gemm,
    pub stream: &'a Stream,
    /// A stream of lower priority for work that may overlap with the pass.
    pub side_stream: &'a Stream,
    pub state: &'a DeviceState,
    pub work: &'a Workspace,
}

/// The row-major matrix that begins at value `at` of a buffer.
pub(crate) fn matrix(of: &Buffer<f32>, at: usize, stride: usize) -> Matrix {
    Matrix { at: of.at(at), stride }
}

impl Pass<'_> {
    /// Where the parts of the staged batch lie.
    pub fn staged(&self) -> Staged {
        Staged::new(&self.plan.spec, self.shape, self.work.target_type)
    }

    /// Device address of word `word` of the staged batch.
    pub fn part(&self, word: usize) -> u64 {
        self.work.batch.at(self.first_word + word)
    }

    /// Address of the number of steps of each row, (B).
    pub fn run(&self) -> Arg {
        Arg::At(self.part(self.staged().run))
    }

    /// Looks up the embeddings of tokens: x (S, B, E).
    pub fn embed(&self) -> Result<()> {
        let InputSpec::Tokens { embedding, .. } = self.plan.spec.input() else { return Ok(()) };
        let slots = self.shape.step_rows();
        let args = [
            Arg::At(self.part(self.staged().input)),
            Arg::At(self.state.params.at(0)), // embeddings are the first parameters
            Arg::At(self.work.embedded.at(0)),
            slots.into(),
            embedding.into(),
        ];
        let blocks = (slots * embedding).div_ceil(THREADS);
        // SAFETY: arguments as the source names them.
        unsafe { self.kernels.embed.launch(self.stream, [blocks, 1], THREADS, &args) }
    }

    /// The gradient of the embeddings from `d_x` (S, B, E).
    pub fn embed_backward(&self, d_x: &Buffer<f32>) -> Result<()> {
        let InputSpec::Tokens { symbols, embedding } = self.plan.spec.input() else {
            return Ok(());
        };
        let staged = self.staged();
        let args = [
            Arg::At(self.part(staged.starts)),
            Arg::At(self.part(staged.by_symbol)),
            Arg::At(d_x.at(0)),
            Arg::At(self.state.gradient.at(0)), // embeddings are the first parameters
            embedding.into(),
        ];
        // SAFETY: arguments as the source names them; 128 threads is what its shared memory is for.
        unsafe { self.kernels.embed_backward.launch(self.stream, [symbols, embedding], 128, &args) }
    }

    /// Losses of `outputs` (A, B, m), or of the selected ones, and their gradient.
    pub fn loss(&self, outputs: u64) -> Result<()> {
        let (positions, m) = (self.shape.computed_outputs(), self.plan.spec.output_width());
        let kernel = match self.work.target_type {
            TargetType::Classes => &self.kernels.cross_entropy,
            TargetType::Values => &self.kernels.squared_error,
        };
        let args = [
            Arg::At(self.part(0)),
            Arg::At(outputs),
            Arg::At(self.part(self.staged().targets)),
            Arg::At(self.work.d_outputs.at(0)),
            Arg::At(self.work.losses.at(0)),
            Arg::At(self.work.hits.at(0)),
            positions.into(),
            m.into(),
        ];
        let sums = [
            Arg::At(self.work.losses.at(0)),
            Arg::At(self.work.hits.at(0)),
            Arg::At(self.state.losses.at(0)),
            positions.into(),
        ];
        // SAFETY: arguments as the sources name them; a warp per position.
        unsafe {
            kernel.launch(self.stream, [(positions * 32).div_ceil(THREADS), 1], THREADS, &args)?;
            self.kernels.sum_losses.launch(self.stream, [LOSSES, 1], THREADS, &sums)
        }
    }

    /// Sums `values` (rows, columns) over rows into the gradient at `to`, and at `again` if given.
    pub fn sum_columns(
        &self,
        values: u64,
        [rows, columns]: [usize; 2],
        to: usize,
        again: Option<usize>,
    ) -> Result<()> {
        let (partial, gradient) = (self.work.partial.at(0), &self.state.gradient);
        let chunks = CHUNKS.min(rows.div_ceil(32));
        let again = again.map_or(0, |at| gradient.at(at));
        let first = [Arg::At(values), Arg::At(partial), rows.into(), columns.into()];
        let second = [
            Arg::At(partial),
            Arg::At(gradient.at(to)),
            Arg::At(again),
            chunks.into(),
            columns.into(),
        ];
        let kernels = self.kernels;
        // SAFETY: arguments as the sources name them; 256 threads is what the shared memory is for.
        unsafe {
            kernels.sum_columns.launch(self.stream, [columns.div_ceil(32), chunks], 256, &first)?;
            let blocks = columns.div_ceil(THREADS);
            kernels.sum_chunks.launch(self.stream, [blocks, 1], THREADS, &second)
        }
    }
}
