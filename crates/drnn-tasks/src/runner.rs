//! Where whole sequences run: on the CPU, or on a GPU.

use crate::error::Result;
use drnn::{Batch, Model, NetSpec, Outputs, States};

/// Runs batches of whole sequences through one network. A [`Model`] does so on the CPU.
pub trait Runner: Sync {
    /// The network's spec.
    fn spec(&self) -> &NetSpec;

    /// Runs a batch from `start`, or from zero states, as [`Model::run`].
    fn run(&self, batch: &Batch, start: Option<&States>) -> Result<Outputs>;

    /// The same network without its delay, as [`Model::without_delay`].
    fn without_delay(&self) -> Result<Box<dyn Runner + '_>>;

    /// Maximum steps times rows of a batch: a larger batch is no faster and takes more memory.
    fn max_batch_slots(&self) -> usize;

    /// The model, where the CPU runs it: for what is done step by step.
    fn model(&self) -> Option<&Model> {
        None
    }
}

impl Runner for Model {
    fn spec(&self) -> &NetSpec {
        Model::spec(self)
    }

    fn run(&self, batch: &Batch, start: Option<&States>) -> Result<Outputs> {
        Ok(Model::run(self, batch, start)?)
    }

    fn without_delay(&self) -> Result<Box<dyn Runner + '_>> {
        Ok(Box::new(Model::without_delay(self)?))
    }

    fn max_batch_slots(&self) -> usize {
        16_384
    }

    fn model(&self) -> Option<&Model> {
        Some(self)
    }
}
