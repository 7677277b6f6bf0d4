//! What trains one model, at the level of whole batches: the CPU's is [`crate::Learner`].
//!
//! ```text
//! batch -> forward -> loss -> backward -> clip -> Adam        params, m, v stay where they are
//! ```
//!
//! An engine owns parameters and optimiser state where it works, on this machine or on a device, and
//! copies them only in [`Engine::state`]. [`crate::conformance`] has the tests that every engine must
//! pass.

use crate::error::Result;
use crate::loss::{LossSum, Targets};
use crate::optim::Adam;
use drnn::{Cpu, Dropout};
use std::ops::DerefMut;

/// Everything that a step changes.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// All parameters, flat.
    pub params: Vec<f32>,
    /// The optimiser's state.
    pub adam: Adam,
}

/// Some batches of an epoch, one step each.
#[derive(Debug, Clone, Copy)]
pub struct Batches<'a> {
    /// The epoch, counted from 0.
    pub epoch: usize,
    /// Indices of the sequences, in order.
    pub chosen: &'a [u32],
    /// Sequences of a batch; the last one may have fewer.
    pub batch: usize,
    /// Learning rate.
    pub rate: f32,
    /// Maximum norm of a gradient; None for no clipping.
    pub clip: Option<f64>,
    /// Dropout; each step takes [`Dropout::of_pass`] of its number, Adam's steps so far.
    pub dropout: Option<Dropout>,
}

/// Sums over some steps.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Steps {
    /// Their losses, each before its step.
    pub loss: LossSum,
    /// Sum of the norms of their gradients, before clipping: NaN if any norm was not finite.
    pub norms: f64,
}

/// A model in training.
pub trait Engine: Send {
    /// What it trains on.
    type Data: ?Sized + Sync;

    /// What is trained, as text that no version of drnn changes ([`drnn::NetSpec::canonical`]): a
    /// checkpoint with another text is refused.
    fn identity(&self) -> String;

    /// The same as version 0.1.0 wrote it, so that its checkpoints are still recognised.
    fn identity_of_0_1(&self) -> String;

    /// Number of sequences in `data`.
    fn sequences(&self, data: &Self::Data) -> usize;

    /// Whether `data` fits the network; the error says why it cannot be trained on.
    fn check(&self, data: &Self::Data) -> Result<()>;

    /// Takes a step on each of some batches. Stops at the first whose loss or gradient is not finite,
    /// which changes nothing.
    fn train(&mut self, data: &Self::Data, batches: &Batches) -> Result<Steps>;

    /// Batches to give [`Engine::train`] per call: more than one where waiting for each would cost.
    fn batches_per_call(&self) -> usize {
        1
    }

    /// Runs the sequences `chosen` of `data` as one batch, as they are in epoch `epoch`. `inspect` gets
    /// outputs and targets. Changes nothing that training depends on.
    fn evaluate_batch(
        &mut self,
        data: &Self::Data,
        epoch: usize,
        chosen: &[u32],
        inspect: &mut Inspect,
    ) -> Result<LossSum>;

    /// Maximum number of sequences of `data` to evaluate as one batch.
    fn max_eval_rows(&self, _data: &Self::Data) -> usize {
        usize::MAX
    }

    /// Runs all of `data`, `rows` sequences at a time, and passes each batch's outputs and targets to
    /// `inspect`.
    fn evaluate(
        &mut self,
        data: &Self::Data,
        epoch: usize,
        rows: usize,
        inspect: &mut Inspect,
    ) -> Result<LossSum> {
        let all: Vec<u32> = (0..self.sequences(data) as u32).collect();
        let mut total = LossSum::default();
        for chosen in all.chunks(rows.min(self.max_eval_rows(data)).max(1)) {
            total.add(self.evaluate_batch(data, epoch, chosen, inspect)?);
        }
        Ok(total)
    }

    /// [`Engine::evaluate`] for the loss alone.
    fn loss(&mut self, data: &Self::Data, epoch: usize, rows: usize) -> Result<LossSum> {
        self.evaluate(data, epoch, rows, &mut |_, _| {})
    }

    /// A copy of parameters and optimiser state.
    fn state(&mut self) -> Result<State>;

    /// A copy of the parameters alone.
    fn params(&mut self) -> Result<Vec<f32>> {
        Ok(self.state()?.params)
    }

    /// Continues from `state`; refused where its lengths do not fit.
    fn set_state(&mut self, state: State) -> Result<()>;

    /// Continues on other threads; results do not depend on them.
    fn use_cpu(&mut self, _cpu: &Cpu) {}

    /// Bytes held for passes.
    fn memory(&self) -> usize;
}

/// Gets a batch's outputs, (steps, B, m), and its targets.
pub type Inspect<'a> = dyn FnMut(&[f32], Targets) + 'a;

/// A box of an engine, or any other owner, is an engine too.
impl<T: DerefMut<Target: Engine> + Send> Engine for T {
    type Data = <T::Target as Engine>::Data;

    fn identity(&self) -> String {
        (**self).identity()
    }

    fn identity_of_0_1(&self) -> String {
        (**self).identity_of_0_1()
    }

    fn sequences(&self, data: &Self::Data) -> usize {
        (**self).sequences(data)
    }

    fn check(&self, data: &Self::Data) -> Result<()> {
        (**self).check(data)
    }

    fn train(&mut self, data: &Self::Data, batches: &Batches) -> Result<Steps> {
        (**self).train(data, batches)
    }

    fn batches_per_call(&self) -> usize {
        (**self).batches_per_call()
    }

    fn evaluate_batch(
        &mut self,
        data: &Self::Data,
        epoch: usize,
        chosen: &[u32],
        inspect: &mut Inspect,
    ) -> Result<LossSum> {
        (**self).evaluate_batch(data, epoch, chosen, inspect)
    }

    fn max_eval_rows(&self, data: &Self::Data) -> usize {
        (**self).max_eval_rows(data)
    }

    fn evaluate(
        &mut self,
        data: &Self::Data,
        epoch: usize,
        rows: usize,
        inspect: &mut Inspect,
    ) -> Result<LossSum> {
        (**self).evaluate(data, epoch, rows, inspect)
    }

    fn loss(&mut self, data: &Self::Data, epoch: usize, rows: usize) -> Result<LossSum> {
        (**self).loss(data, epoch, rows)
    }

    fn state(&mut self) -> Result<State> {
        (**self).state()
    }

    fn params(&mut self) -> Result<Vec<f32>> {
        (**self).params()
    }

    fn set_state(&mut self, state: State) -> Result<()> {
        (**self).set_state(state)
    }

    fn use_cpu(&mut self, cpu: &Cpu) {
        (**self).use_cpu(cpu);
    }

    fn memory(&self) -> usize {
        (**self).memory()
    }
}
