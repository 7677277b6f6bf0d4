//! The training state in device memory: parameters, Adam's moments, gradient, running sums.

use crate::error::Result;
use crate::kernels::Kernels;
use crate::kernels::params::{AdamStep, Finish, SumSquares, ptr, size};
use crate::runtime::device::Device;
use crate::runtime::memory::Buffer;
use crate::runtime::stream::Stream;
use crate::step::pass::{THREADS, launch_each};
use drnn_train::{Adam, AdamOptions, LossSum, State, Steps};

/// Blocks of the first pass of reductions, as the kernel `finish` expects them.
const SQUARES: usize = 256;
pub(crate) const LOSSES: usize = 64;

/// Length in f64 of `struct Totals`: loss, norms, count, right, stopped, taken.
const TOTALS: usize = 6;

/// Everything that an optimiser step reads and writes.
#[derive(Debug)]
pub(crate) struct DeviceState {
    options: AdamOptions,
    pub params: Buffer<f32>,
    mean: Buffer<f32>,
    square: Buffer<f32>,
    pub gradient: Buffer<f32>,
    totals: Buffer<f64>,
    coefficients: Buffer<u32>,
    squares: Buffer<f64>,
    /// (blocks, 2): partial sums of losses and hits.
    pub losses: Buffer<f64>,
}

impl DeviceState {
    /// `params`, zero moments, no steps taken.
    pub fn new(device: &Device, params: &[f32], options: AdamOptions) -> Result<DeviceState> {
        let count = params.len();
        Ok(DeviceState {
            options,
            params: Buffer::from(device, params)?,
            mean: Buffer::zeros(device, count)?,
            square: Buffer::zeros(device, count)?,
            gradient: Buffer::zeros(device, count)?,
            totals: Buffer::zeros(device, TOTALS)?,
            coefficients: Buffer::zeros(device, 4)?,
            squares: Buffer::zeros(device, SQUARES)?,
            losses: Buffer::zeros(device, 2 * LOSSES)?,
        })
    }

    /// Clears the sums of the previous call and its stop flag; the number of Adam's steps stays.
    pub fn reset_totals(&self, stream: &Stream) -> Result<()> {
        stream.clear(&self.totals, 0, TOTALS - 1)
    }

    /// Losses and norms summed since [`DeviceState::reset_totals`]. `values` is whether targets are
    /// values, not classes. The stream must have been synchronised.
    pub fn steps(&self, values: bool) -> Result<Steps> {
        let totals = self.totals.get(0, TOTALS)?;
        let right = (!values).then_some(totals[3] as usize);
        let loss = LossSum { sum: totals[0], count: totals[2] as usize, correct: right };
        Ok(Steps { loss, norms: totals[1] })
    }

    /// Submits the end of a step: gradient norm, clipping, Adam. `header` is the address of the
    /// batch's `struct Header`.
    pub fn step(&self, kernels: &Kernels, stream: &Stream, header: u64) -> Result<()> {
        let count = self.params.len();
        let AdamOptions { beta1, beta2, eps, .. } = self.options;
        let sum_squares = SumSquares {
            values: ptr(self.gradient.at(0)),
            partial: ptr(self.squares.at(0)),
            count: size(count),
        };
        let finish = Finish {
            header: ptr(header),
            squares: ptr(self.squares.at(0)),
            losses: ptr(self.losses.at(0)),
            totals: ptr(self.totals.at(0)),
            coefficients: ptr(self.coefficients.at(0)),
            beta1,
            beta2,
        };
        let adam = AdamStep {
            coefficients: ptr(self.coefficients.at(0)),
            gradient: ptr(self.gradient.at(0)),
            params: ptr(self.params.at(0)),
            mean: ptr(self.mean.at(0)),
            square: ptr(self.square.at(0)),
            beta1,
            beta2,
            eps,
            count: size(count),
        };
        // SAFETY: all of these buffers have the lengths that the kernels expect.
        unsafe {
            kernels.sum_squares.launch(stream, [SQUARES, 1], THREADS, &sum_squares)?;
            kernels.finish.launch(stream, [1, 1], SQUARES, &finish)?;
            launch_each(&kernels.adam, stream, count, &adam)
        }
    }

    /// Losses of the latest batch of an evaluation, `count` positions. `values` as above.
    pub fn losses(&self, count: usize, values: bool) -> Result<LossSum> {
        let partial = self.losses.get(0, 2 * LOSSES)?;
        let sum = |from: usize| partial.iter().skip(from).step_by(2).sum::<f64>();
        Ok(LossSum { sum: sum(0), count, correct: (!values).then_some(sum(1) as usize) })
    }

    /// Adam's constants.
    pub fn options(&self) -> AdamOptions {
        self.options
    }

    /// A copy in host memory. The stream must have been synchronised.
    pub fn get(&self) -> Result<State> {
        let count = self.params.len();
        let mut adam = Adam::new(self.options, 0);
        adam.steps = self.totals.get(0, TOTALS)?[TOTALS - 1] as u64;
        (adam.mean, adam.square) = (self.mean.get(0, count)?, self.square.get(0, count)?);
        Ok(State { params: self.params.get(0, count)?, adam })
    }

    /// Overwrites everything; the caller has checked the lengths.
    pub fn set(&mut self, state: &State) -> Result<()> {
        self.options = state.adam.options();
        self.params.set(&state.params)?;
        self.mean.set(&state.adam.mean)?;
        self.square.set(&state.adam.square)?;
        let mut totals = vec![0.0; TOTALS];
        totals[TOTALS - 1] = state.adam.steps as f64;
        self.totals.set(&totals)
    }

    pub fn bytes(&self) -> usize {
        4 * self.params.bytes()
    }
}
