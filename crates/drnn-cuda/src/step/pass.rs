//! What a pass works with, and what both ways of a recurrence have around them: embeddings and losses.

use crate::error::Result;
use crate::kernels::Kernels;
use crate::runtime::memory::Buffer;
use crate::runtime::product::{Matrix, Products};
use crate::runtime::stream::{Arg, Stream};
use crate::step::plan::{Goal, Plan, Shape, Staged};
use crate::step::state::{DeviceState, LOSSES};
use crate::step::work::{CHUNKS, Work};
use drnn::InputSpec;

pub(crate) const THREADS: usize = 256;

/// How far a batch goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Until {
    /// To the last layer's states.
    States,
    /// To what the output layer makes of them.
    Answers,
    /// To the losses.
    Losses,
    /// Back again, and parameters have changed.
    Step,
}

#[derive(Clone, Copy)]
pub(crate) struct Pass<'a> {
    pub plan: &'a Plan,
    pub shape: Shape,
    /// Where the batch begins among those at hand.
    pub first_word: usize,
    pub kernels: &'a Kernels,
    pub products: &'a Products,
    pub stream: &'a Stream,
    /// One that runs beside it.
    pub beside: &'a Stream,
    pub state: &'a DeviceState,
    pub work: &'a Work,
}

/// A row-major matrix that begins with value `at` of a buffer.
pub(crate) fn matrix(of: &Buffer<f32>, at: usize, stride: usize) -> Matrix {
    Matrix { at: of.at(at), stride }
}

impl Pass<'_> {
    pub fn staged(&self) -> Staged {
        Staged::new(&self.plan.spec, self.shape, self.work.goal)
    }

    /// Address of a part of the batch.
    pub fn part(&self, word: usize) -> u64 {
        self.work.batch.at(self.first_word + word)
    }

    pub fn run(&self) -> Arg {
        Arg::At(self.part(self.staged().run))
    }

    /// x of tokens, (S, B, E).
    pub fn embed(&self) -> Result<()> {
        let InputSpec::Tokens { embedding, .. } = self.plan.spec.input() else { return Ok(()) };
        let slots = self.shape.slots();
        let args = [
            Arg::At(self.part(self.staged().input)),
            Arg::At(self.state.params.at(0)), // the first of all parameters
            Arg::At(self.work.embedded.at(0)),
            slots.into(),
            embedding.into(),
        ];
        let blocks = (slots * embedding).div_ceil(THREADS);
        // SAFETY: arguments as the source names them.
        unsafe { self.kernels.embed.launch(self.stream, [blocks, 1], THREADS, &args) }
    }

    /// The gradient of the embeddings, out of that of x.
    pub fn embed_backward(&self, d_x: &Buffer<f32>) -> Result<()> {
        let InputSpec::Tokens { symbols, embedding } = self.plan.spec.input() else {
            return Ok(());
        };
        let staged = self.staged();
        let args = [
            Arg::At(self.part(staged.starts)),
            Arg::At(self.part(staged.by_symbol)),
            Arg::At(d_x.at(0)),
            Arg::At(self.state.gradient.at(0)), // the first of all parameters
            embedding.into(),
        ];
        // SAFETY: arguments as the source names them; 128 threads is what its shared memory is for.
        unsafe { self.kernels.embed_backward.launch(self.stream, [symbols, embedding], 128, &args) }
    }

    /// Losses of answers (A, B, m), or of those asked for, and the gradient of those.
    pub fn loss(&self, answers: u64) -> Result<()> {
        let (positions, m) = (self.shape.made(), self.plan.spec.answer_width());
        let kernel = match self.work.goal {
            Goal::Classes => &self.kernels.cross_entropy,
            Goal::Values => &self.kernels.squared_error,
        };
        let args = [
            Arg::At(self.part(0)),
            Arg::At(answers),
            Arg::At(self.part(self.staged().targets)),
            Arg::At(self.work.d_answers.at(0)),
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

    /// Sums over rows into the gradient at `to`, and at `again`.
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
