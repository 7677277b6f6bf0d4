//! What a sweep needs from a task.

use crate::Failure;
use crate::args::shape::Shape;
use crate::memory::Needs;
use crate::training::place::Place;
use drnn::Cpu;
use drnn_train::{Engine, Metric, Options};

/// The data that an engine is trained on.
pub type Data<T> = <<T as SweepTask>::Engine as Engine>::Data;

/// The validation or the test set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subset {
    Valid,
    Test,
}

/// A task with its data.
pub trait SweepTask {
    /// The engine that trains its networks.
    type Engine: Engine;
    /// Whether there is one for GPUs.
    const ON_GPU: bool = true;

    /// Its name, such as `reversal`.
    fn name(&self) -> &'static str;

    /// Describes task and data; a checkpoint of others is refused.
    fn describe(&self) -> String;

    /// The measure by which networks are compared.
    fn metric(&self) -> Metric;

    /// Training, validation and test set.
    fn data(&self) -> [&Data<Self>; 3];

    /// The number of sequences in each.
    fn sequences(&self) -> [usize; 3];

    /// The default delays.
    fn delays(&self) -> Vec<usize>;

    /// The longest useful delay: with it the whole sequence is read.
    fn max_delay(&self) -> usize;

    /// The default training options.
    fn options(&self) -> Options;

    /// A bidirectional network with no more parameters than the unidirectional one.
    fn same_size(&self, shape: Shape) -> Result<Shape, Failure>;

    /// The memory to train a network.
    fn needs(
        &self,
        place: &Place,
        shape: &Shape,
        batch: usize,
        threads: usize,
    ) -> Result<Needs, Failure>;

    /// A network to be trained.
    fn engine(
        &self,
        place: &Place,
        cpu: &Cpu,
        shape: &Shape,
        options: &Options,
    ) -> Result<Self::Engine, Failure>;

    /// The metric of a trained network; by default computed from its loss.
    fn evaluate(
        &self,
        engine: &mut Self::Engine,
        _cpu: &Cpu,
        part: Subset,
    ) -> Result<f64, Failure> {
        let [_, valid, test] = self.data();
        let data = if part == Subset::Valid { valid } else { test };
        Ok(self.metric().of(&engine.loss(data, 0, 500)?))
    }
}
