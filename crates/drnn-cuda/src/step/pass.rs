//! A forward or backward pass over a batch, and the parts that do not depend on how the recurrence
//! runs: embeddings, losses, bias gradients.

use crate::error::Result;
use crate::kernels::Kernels;
use crate::kernels::params::{
    CrossEntropy, Embed, EmbedBackward, Params, SquaredError, SumChunks, SumColumns, SumLosses,
    ptr, size,
};
use crate::runtime::gemm::{Gemm, Matrix};
use crate::runtime::kernel::Kernel;
use crate::runtime::memory::Buffer;
use crate::runtime::stream::Stream;
use crate::step::plan::{Plan, Shape, Staged, TargetType};
use crate::step::state::LOSSES;
use crate::step::workspace::{CHUNKS, Workspace};
use drnn::InputSpec;

/// Threads of a block of elementwise kernels.
pub(crate) const THREADS: usize = 256;

/// Launches an elementwise kernel with at least `threads` threads, one for each value.
///
/// # Safety
/// As [`Kernel::launch`].
pub(crate) unsafe fn launch_each<P: Params>(
    kernel: &Kernel<P>,
    stream: &Stream,
    threads: usize,
    params: &P,
) -> Result<()> {
    // SAFETY: the caller's contract.
    unsafe { kernel.launch(stream, [threads.div_ceil(THREADS), 1], THREADS, params) }
}

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
    /// The parameters, and where their gradient goes.
    pub params: Tensors<'a>,
    pub gradient: Tensors<'a>,
    /// Address of the partial sums of losses and hits, (blocks, 2).
    pub partial_losses: u64,
    pub work: &'a Workspace,
}

/// Where the parameters of a network, or their gradients, lie in device memory. Tensors are found
/// by the place of their first value in the parameter vector ([`drnn::params::Layout`]).
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tensors<'a> {
    /// The vector itself.
    Vector(&'a Buffer<f32>),
    /// An array for each tensor: its place in the vector, ascending from 0, and its address.
    Arrays(&'a [(usize, u64)]),
}

impl Tensors<'_> {
    /// Device address of a value of the parameter vector.
    pub fn at(self, value: usize) -> u64 {
        match self {
            Tensors::Vector(vector) => vector.at(value),
            Tensors::Arrays(arrays) => {
                let (first, address) = arrays[arrays.partition_point(|(at, _)| *at <= value) - 1];
                address + ((value - first) * size_of::<f32>()) as u64
            }
        }
    }

    /// The row-major matrix that begins at value `at`.
    pub fn matrix(self, at: usize, stride: usize) -> Matrix {
        Matrix { at: self.at(at), stride }
    }
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
    pub fn run(&self) -> u64 {
        self.part(self.staged().run)
    }

    /// Looks up the embeddings of tokens: x (S, B, E).
    pub fn embed(&self) -> Result<()> {
        let InputSpec::Tokens { embedding, .. } = self.plan.spec.input() else { return Ok(()) };
        let slots = self.shape.step_rows();
        let params = Embed {
            tokens: ptr(self.part(self.staged().input)),
            table: ptr(self.params.at(0)), // embeddings are the first parameters
            x: ptr(self.work.embedded.at(0)),
            slots: size(slots),
            e: size(embedding),
        };
        let blocks = (slots * embedding).div_ceil(THREADS);
        // SAFETY: the workspace is large enough for the shape; staged tokens are symbols or NONE.
        unsafe { self.kernels.embed.launch(self.stream, [blocks, 1], THREADS, &params) }
    }

    /// The gradient of the embeddings from `d_x` (S, B, E).
    pub fn embed_backward(&self, d_x: &Buffer<f32>) -> Result<()> {
        let InputSpec::Tokens { symbols, embedding } = self.plan.spec.input() else {
            return Ok(());
        };
        let staged = self.staged();
        let params = EmbedBackward {
            starts: ptr(self.part(staged.starts)),
            by_symbol: ptr(self.part(staged.by_symbol)),
            d_x: ptr(d_x.at(0)),
            d_table: ptr(self.gradient.at(0)), // embeddings are the first parameters
            e: size(embedding),
        };
        let grid = [symbols, embedding];
        // SAFETY: a block per symbol and dimension; the kernel's shared memory is for 128 threads.
        unsafe { self.kernels.embed_backward.launch(self.stream, grid, 128, &params) }
    }

    /// Losses of `outputs` (A, B, m), or of the selected ones, and their gradient.
    pub fn loss(&self, outputs: u64) -> Result<()> {
        let (positions, m) = (self.shape.computed_outputs(), self.plan.spec.output_width());
        let (header, targets) = (ptr(self.part(0)), self.part(self.staged().targets));
        let (outputs, d_outputs) = (ptr(outputs), ptr(self.work.d_outputs.at(0)));
        let [losses, hits] = [self.work.losses.at(0), self.work.hits.at(0)];
        let sums = SumLosses {
            losses: ptr(losses),
            hits: ptr(hits),
            partial: ptr(self.partial_losses),
            positions: size(positions),
        };
        let (losses, hits, m) = (ptr(losses), ptr(hits), size(m));
        let (grid, positions) = ([(positions * 32).div_ceil(THREADS), 1], size(positions));
        // SAFETY: the workspace is large enough for the shape; a warp per position.
        unsafe {
            match self.work.target_type {
                TargetType::Classes => {
                    let classes = ptr(targets);
                    let params = CrossEntropy {
                        header,
                        outputs,
                        classes,
                        d_outputs,
                        losses,
                        hits,
                        positions,
                        m,
                    };
                    self.kernels.cross_entropy.launch(self.stream, grid, THREADS, &params)?;
                }
                TargetType::Values => {
                    let targets = ptr(targets);
                    let params = SquaredError {
                        header,
                        outputs,
                        targets,
                        d_outputs,
                        losses,
                        hits,
                        positions,
                        m,
                    };
                    self.kernels.squared_error.launch(self.stream, grid, THREADS, &params)?;
                }
            }
            self.kernels.sum_losses.launch(self.stream, [LOSSES, 1], THREADS, &sums)
        }
    }

    /// Sums `values` (rows, columns) over rows into the gradient at `to`, and at `copy` if given.
    pub fn sum_columns(
        &self,
        values: u64,
        [rows, columns]: [usize; 2],
        to: usize,
        copy: Option<usize>,
    ) -> Result<()> {
        let (gradient, copy) = (self.gradient, copy.map_or(0, |at| self.gradient.at(at)));
        let sums = ColumnSums { rows, columns, partial: &self.work.partial };
        sums.submit(self.kernels, self.stream, values, [gradient.at(to), copy])
    }
}

/// Sums of the columns of a matrix.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnSums<'a> {
    pub rows: usize,
    pub columns: usize,
    /// ([`CHUNKS`], columns) at least.
    pub partial: &'a Buffer<f32>,
}

impl ColumnSums<'_> {
    /// Sums `values` (rows, columns) over rows into the first array, and the second unless null.
    pub fn submit(
        self,
        kernels: &Kernels,
        stream: &Stream,
        values: u64,
        [sums, copy]: [u64; 2],
    ) -> Result<()> {
        let ColumnSums { rows, columns, partial } = self;
        let chunks = CHUNKS.min(rows.div_ceil(32));
        let by_chunk = SumColumns {
            values: ptr(values),
            partial: ptr(partial.at(0)),
            rows: size(rows),
            columns: size(columns),
        };
        let over_chunks = SumChunks {
            partial: ptr(partial.at(0)),
            sums: ptr(sums),
            copy: ptr(copy),
            chunks: size(chunks),
            columns: size(columns),
        };
        let Kernels { sum_columns, sum_chunks, .. } = kernels;
        let grid = [columns.div_ceil(32), chunks];
        // SAFETY: `partial` is large enough for the chunks; the kernel's shared memory is for 256
        // threads.
        unsafe {
            sum_columns.launch(stream, grid, 256, &by_chunk)?;
            let blocks = columns.div_ceil(THREADS);
            sum_chunks.launch(stream, [blocks, 1], THREADS, &over_chunks)
        }
    }
}
