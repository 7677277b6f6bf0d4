//! Batches that select some outputs: the output layer computes those rows only.
//!
//! ```text
//! states_i = H[row_i]               H (S + 2, B, W); row 0 is zeros, for padding
//! dH[row_i - B] = dstates_i         dH (S, B, W), zeros elsewhere
//! ```
//!
//! The two buffers for layer gradients, `d_above`, are free while the output layer runs: the first
//! holds the gathered states, the second their gradient until it is scattered into the first. If
//! all outputs are computed, the output layer reads H in place.

use crate::error::Result;
use crate::kernels::RowKernels;
use crate::kernels::params::{Gather, GatherHalf, Scatter, ScatterHalf, ptr, size};
use crate::runtime::gemm::Matrix;
use crate::runtime::memory::{Buffer, Pod};
use crate::step::pass::{Pass, THREADS};

/// Where outputs exist: position (step, row) has one if step + `delay` < `run`[row].
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputMask {
    /// Address of as many words as rows.
    pub run: u64,
    pub delay: usize,
    pub rows: usize,
}

impl Pass<'_> {
    /// Address of the rows of H that the selected outputs are computed from.
    fn selected_rows(&self) -> u64 {
        self.part(self.staged().selected_rows)
    }

    /// How kernels find out which outputs exist: number of steps of each row, delay, rows. Selected
    /// outputs are rows of a single step, which exists where the row of H is not 0.
    pub fn output_mask(&self) -> OutputMask {
        match self.shape.selected {
            None => {
                let (delay, rows) = (self.plan.spec.delay(), self.shape.rows);
                OutputMask { run: self.run(), delay, rows }
            }
            Some(rows) => OutputMask { run: self.selected_rows(), delay: 0, rows },
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
        let (places, to) = (ptr(self.selected_rows()), d_above[0].at(0));
        let width = width / kernels.vector_len();
        let (grid, count) = ([(selected * width).div_ceil(THREADS), 1], size(selected));
        let width = size(width);
        // SAFETY: H is as long as the shape says, and the rows that were staged lie within it.
        unsafe {
            match kernels {
                RowKernels::F32 { gather, .. } => {
                    let params = Gather { h: ptr(h), places, to: ptr(to), count, width };
                    gather.launch(self.stream, grid, THREADS, &params)
                }
                RowKernels::F16 { gather, .. } => {
                    let params = GatherHalf { h: ptr(h), places, to: ptr(to), count, width };
                    gather.launch(self.stream, grid, THREADS, &params)
                }
            }
        }
    }

    /// Where the output layer writes the gradient of its input states. The first d steps of dH,
    /// which have no output, are set to zero.
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
        let [to, from] = [0, 1].map(|place| d_above[place].at(0));
        let (places, rows) = (ptr(self.selected_rows()), size(self.shape.rows));
        let width = width / kernels.vector_len();
        let (grid, count) = ([(selected * width).div_ceil(THREADS), 1], size(selected));
        let width = size(width);
        // SAFETY: as in `gather`.
        unsafe {
            match kernels {
                RowKernels::F32 { scatter, .. } => {
                    let (from, to) = (ptr(from), ptr(to));
                    let params = Scatter { from, places, to, rows, count, width };
                    scatter.launch(self.stream, grid, THREADS, &params)
                }
                RowKernels::F16 { scatter, .. } => {
                    let (from, to) = (ptr(from), ptr(to));
                    let params = ScatterHalf { from, places, to, rows, count, width };
                    scatter.launch(self.stream, grid, THREADS, &params)
                }
            }
        }
    }
}
