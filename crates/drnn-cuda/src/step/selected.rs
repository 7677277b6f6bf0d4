//! Batches that ask for some answers: the output layer has a row for each of those, and none for the others.
//!
//! ```text
//! states_i = H[place_i]             H (S + 2, B, W); place 0, a row of zeros, where there is nothing to answer
//! dH[place_i - B] = dstates_i       dH (S, B, W), zeros elsewhere
//! ```
//!
//! The layers' two places for gradients are free while the output layer is at work: the first has the states, the second what
//! those are told, until it goes to its rows of the first. Where all answers are asked for, states stay where they are.

use crate::error::Result;
use crate::kernels::RowKernels;
use crate::runtime::memory::{Buffer, Plain};
use crate::runtime::product::Matrix;
use crate::runtime::stream::Arg;
use crate::step::pass::{Pass, THREADS};

impl Pass<'_> {
    fn places(&self) -> Arg {
        Arg::At(self.part(self.staged().places))
    }

    /// What says where answers end: steps that each row takes, delay, rows. Those asked for are rows of a single step, which
    /// takes place where they have one.
    pub fn ends(&self) -> [Arg; 3] {
        match self.shape.asked {
            None => [self.run(), self.plan.spec.delay().into(), self.shape.rows.into()],
            Some(asked) => [self.places(), Arg::U32(0), asked.into()],
        }
    }

    /// Brings the states together that are asked for, out of H.
    pub fn gather<T: Plain>(
        &self,
        kernels: &RowKernels,
        h: u64,
        d_above: &[Buffer<T>; 2],
        width: usize,
    ) -> Result<()> {
        let Some(asked) = self.shape.asked else { return Ok(()) };
        let (ends, width) = ([h, d_above[0].at(0)].map(Arg::At), width / kernels.at_once);
        let args = [ends[0], self.places(), ends[1], asked.into(), width.into()];
        let blocks = (asked * width).div_ceil(THREADS);
        // SAFETY: arguments as the source names them.
        unsafe { kernels.gather.launch(self.stream, [blocks, 1], THREADS, &args) }
    }

    /// Where the output layer writes what it tells the states: zeros lie before, for steps that answer nothing.
    pub fn told<T: Plain>(&self, d_above: &[Buffer<T>; 2], width: usize) -> Result<Matrix> {
        if self.shape.asked.is_some() {
            return Ok(Matrix { at: d_above[1].at(0), stride: width });
        }
        let dropped = self.plan.spec.delay() * self.shape.rows * width;
        self.stream.clear(&d_above[0], 0, dropped)?;
        Ok(Matrix { at: d_above[0].at(dropped), stride: width })
    }

    /// Brings that back to where the last layer reads it. From here on the states are no longer there.
    pub fn scatter<T: Plain>(
        &self,
        kernels: &RowKernels,
        d_above: &[Buffer<T>; 2],
        width: usize,
    ) -> Result<()> {
        let Some(asked) = self.shape.asked else { return Ok(()) };
        self.stream.clear(&d_above[0], 0, self.shape.slots() * width)?;
        let [to, from] = [0, 1].map(|place| Arg::At(d_above[place].at(0)));
        let width = width / kernels.at_once;
        let sizes = [self.shape.rows, asked, width].map(Arg::from);
        let args = [&[from, self.places(), to][..], &sizes].concat();
        let blocks = (asked * width).div_ceil(THREADS);
        // SAFETY: arguments as the source names them.
        unsafe { kernels.scatter.launch(self.stream, [blocks, 1], THREADS, &args) }
    }
}
