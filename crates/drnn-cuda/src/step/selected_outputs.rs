//! Batches that ask for some answers: the output layer has a row for each of those, and none for the others.
//!
//! ```text
//! states_i = H[place_i]             H (S + 2, B, W); place 0, a row of zeros, where there is nothing to answer
//! dH[place_i - B] = dstates_i       dH (S, B, W), zeros elsewhere
//! ```
//!
//! The layers' two selected_rows for gradients are free while the output layer is at work: the first has the states, the second what
//! those are told, until it goes to its rows of the first. Where all answers are selected for, states stay where they are.

use crate::error::Result;
use crate::kernels::RowKernels;
use crate::runtime::gemm::Matrix;
use crate::runtime::memory::{Buffer, Pod};
use crate::runtime::stream::Arg;
use crate::step::pass::{Pass, THREADS};

impl Pass<'_> {
    fn selected_rows(&self) -> Arg {
        Arg::At(self.part(self.staged().selected_rows))
    }

    /// What says where answers end: steps that each row takes, delay, rows. Those selected for are rows of a single step, which
    /// takes place where they have one.
    pub fn output_mask(&self) -> [Arg; 3] {
        match self.shape.selected {
            None => [self.run(), self.plan.spec.delay().into(), self.shape.rows.into()],
            Some(selected) => [self.selected_rows(), Arg::U32(0), selected.into()],
        }
    }

    /// Brings the states together that are selected for, out of H.
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

    /// Where the output layer writes what it tells the states: zeros lie before, for steps that answer nothing.
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

    /// Brings that back to where the last layer reads it. From here on the states are no longer there.
    pub fn scatter<T: Pod>(
        &self,
        kernels: &RowKernels,
        d_above: &[Buffer<T>; 2],
        width: usize,
    ) -> Result<()> {
        let Some(selected) = self.shape.selected else { return Ok(()) };
        self.stream.clear(&d_above[0], 0, self.shape.slots() * width)?;
        let [to, from] = [0, 1].map(|place| Arg::At(d_above[place].at(0)));
        let width = width / kernels.at_once;
        let sizes = [self.shape.rows, selected, width].map(Arg::from);
        let args = [&[from, self.selected_rows(), to][..], &sizes].concat();
        let blocks = (selected * width).div_ceil(THREADS);
        // SAFETY: arguments as the source names them.
        unsafe { kernels.scatter.launch(self.stream, [blocks, 1], THREADS, &args) }
    }
}
