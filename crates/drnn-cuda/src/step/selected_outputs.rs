//! Batches that select some outputs: the output layer computes those rows only.
//!
//! ```text
//! states_i = H[row_i]               H (S + 2, B, W); row 0 is zeros, for padding
//! dH[row_i - B] = dstates_i         dH (S, B, W), zeros elsewhere
//! ```
//!
//! The two buffers for layer gradients, `d_above`, are free while the output layer runs: the first
//! holds the gathered states, the second their gradient until it is scattered into the first. If all
//! outputs are computed, the output layer reads H in place.

use crate::error::Result;
use crate::kernels::RowKernels;
use crate::runtime::gemm::Matrix;
use crate::runtime::memory::{Buffer, Pod};
use crate::runtime::stream::Arg;
use crate::step::pass::{Pass, THREADS};

impl Pass<'_> {
    /// Address of the rows of H that the selected outputs are computed from.
    fn selected_rows(&self) -> Arg {
        Arg::At(self.part(self.staged().selected_rows))
    }

    /// How kernels find out which outputs exist: number of steps of each row, delay, rows. Selected
    /// outputs are rows of a single step, which exists where the row of H is not 0.
    pub fn output_mask(&self) -> [Arg; 3] {
        match self.shape.selected {
            None => [self.run(), self.plan.spec.delay().into(), self.shape.rows.into()],
            Some(selected) => [self.selected_rows(), Arg::U32(0), selected.into()],
        }
    }

    /// Gathers the states of selected outputs from `h` into `d_above[0]`.
    pub fn gather<T: Pod>(
        &self,
        kernels: &RowKernels,
        h: u64,
        d_above: &[Buffer<T>; 2],
        width: usize,
    ) -> Result<()> {
        let Some(selected) = self.shape.selected else { return Ok(()) };
        let (ends, width) = ([h, d_above[0].at(0)].map(Arg::At), width / kernels.at_once);
        let args = [ends[0], self.selected_rows(), ends[1], selected.into(), width.into()];
        let blocks = (selected * width).div_ceil(THREADS);
        // SAFETY: arguments as the source names them.
        unsafe { kernels.gather.launch(self.stream, [blocks, 1], THREADS, &args) }
    }

    /// Where the output layer writes the gradient of its input states. The first d steps of dH, which
    /// have no output, are set to zero.
    pub fn output_gradient<T: Pod>(
        &self,
        d_above: &[Buffer<T>; 2],
        width: usize,
    ) -> Result<Matrix> {
        if self.shape.selected.is_some() {
            return Ok(Matrix { at: d_above[1].at(0), stride: width });
        }
        let dropped = self.plan.spec.delay() * self.shape.rows * width;
        self.stream.clear(&d_above[0], 0, dropped)?;
        Ok(Matrix { at: d_above[0].at(dropped), stride: width })
    }

    /// Scatters that gradient into dH, `d_above[0]`, which overwrites the gathered states.
    pub fn scatter<T: Pod>(
        &self,
        kernels: &RowKernels,
        d_above: &[Buffer<T>; 2],
        width: usize,
    ) -> Result<()> {
        let Some(selected) = self.shape.selected else { return Ok(()) };
        self.stream.clear(&d_above[0], 0, self.shape.step_rows() * width)?;
        let [to, from] = [0, 1].map(|buffer| Arg::At(d_above[buffer].at(0)));
        let width = width / kernels.at_once;
        let sizes = [self.shape.rows, selected, width].map(Arg::from);
        let args = [&[from, self.selected_rows(), to][..], &sizes].concat();
        let blocks = (selected * width).div_ceil(THREADS);
        // SAFETY: arguments as the source names them.
        unsafe { kernels.scatter.launch(self.stream, [blocks, 1], THREADS, &args) }
    }
}
