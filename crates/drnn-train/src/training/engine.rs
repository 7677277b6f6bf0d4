//! What trains one model, at the level of whole batches: the CPU's is [`crate::Learner`].
//!
//! ```text
//! batch -> forward -> loss -> backward -> clip -> Adam        params, m, v stay where they are
//! ```
//!
//! An engine keeps parameters and optimiser where it works, on this machine or on a device, and hands them
//! out only when asked. [`crate::training::conformance`] is what every engine must keep.

use crate::error::Result;
use crate::loss::{LossSum, Targets};
use crate::optim::Adam;
use drnn::Cpu;
use std::ops::DerefMut;

/// Everything that a step changes.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// All parameters, flat.
    pub params: Vec<f32>,
    /// Adam's memory.
    pub adam: Adam,
}

/// Some batches of an epoch, one step each.
#[derive(Debug, Clone, Copy)]
pub struct Batches<'a> {
    /// The epoch, counted from 0.
    pub visit: usize,
    /// The sequences, in order.
    pub chosen: &'a [u32],
    /// Sequences of a batch; the last one may have fewer.
    pub batch: usize,
    /// Learning rate.
    pub rate: f32,
    /// Largest norm of a gradient; None for no clipping.
    pub clip: Option<f64>,
}

/// What some steps found.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Steps {
    /// Their losses, each before its step.
    pub loss: LossSum,
    /// Sum of the norms of their gradients, before clipping: no number where one was none.
    pub norms: f64,
}

/// A model in training.
pub trait Engine: Send {
    /// What it learns from.
    type Data: ?Sized + Sync;

    /// What kind of network it is: a checkpoint of another is refused.
    fn describe(&self) -> String;

    /// Sequences of `data`; the error says why it cannot be learned from.
    fn sequences(&self, data: &Self::Data) -> Result<usize>;

    /// Takes a step on each of some batches. At the first whose loss or gradient is no number it ends, changing
    /// nothing there.
    fn train(&mut self, data: &Self::Data, batches: &Batches) -> Result<Steps>;

    /// Batches that [`Engine::train`] should be given at once: more than one where waiting for each would cost.
    fn stride(&self) -> usize {
        1
    }

    /// Runs all of `data`, `rows` sequences at a time, showing each batch's answers and targets to `look`.
    /// Changes nothing that training depends on.
    fn evaluate(
        &mut self,
        data: &Self::Data,
        visit: usize,
        rows: usize,
        look: &mut dyn FnMut(&[f32], Targets),
    ) -> Result<LossSum>;

    /// The same where nobody looks at the answers.
    fn loss(&mut self, data: &Self::Data, visit: usize, rows: usize) -> Result<LossSum> {
        self.evaluate(data, visit, rows, &mut |_, _| {})
    }

    /// Parameters and optimiser as they are now.
    fn state(&mut self) -> Result<State>;

    /// Goes on from there; refused where the lengths do not fit.
    fn set_state(&mut self, state: State) -> Result<()>;

    /// Goes on with other threads; results do not depend on them.
    fn use_cpu(&mut self, _cpu: &Cpu) {}

    /// Bytes held for passes.
    fn memory(&self) -> usize;
}

/// What holds an engine is one: a box, or whatever else knows more of it.
impl<T: DerefMut<Target: Engine> + Send> Engine for T {
    type Data = <T::Target as Engine>::Data;

    fn describe(&self) -> String {
        (**self).describe()
    }

    fn sequences(&self, data: &Self::Data) -> Result<usize> {
        (**self).sequences(data)
    }

    fn train(&mut self, data: &Self::Data, batches: &Batches) -> Result<Steps> {
        (**self).train(data, batches)
    }

    fn stride(&self) -> usize {
        (**self).stride()
    }

    fn evaluate(
        &mut self,
        data: &Self::Data,
        visit: usize,
        rows: usize,
        look: &mut dyn FnMut(&[f32], Targets),
    ) -> Result<LossSum> {
        (**self).evaluate(data, visit, rows, look)
    }

    fn loss(&mut self, data: &Self::Data, visit: usize, rows: usize) -> Result<LossSum> {
        (**self).loss(data, visit, rows)
    }

    fn state(&mut self) -> Result<State> {
        (**self).state()
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
