//! What a sweep needs from a task.

use crate::Failure;
use crate::args::network::NetworkKind;
use crate::args::shape::Shape;
use crate::memory::Needs;
use crate::training::place::Place;
use crate::training::suggested::Given;
use drnn::Cpu;
use drnn_train::baseline::Baseline;
use drnn_train::{Engine, MIN_EVAL_ROWS, Metric, OnData, Options, Validation, ValidationRun};

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

    /// Training, validation and test set. The last two are those of [`SweepTask::validation`], unless
    /// that has its own.
    fn data(&self) -> [&Data<Self>; 3];

    /// The number of sequences in each.
    fn sequences(&self) -> [usize; 3];

    /// The default delays.
    fn delays(&self) -> Vec<usize>;

    /// Whether such a network makes sense for the task; others are left out.
    fn accepts(&self, _kind: NetworkKind) -> bool {
        true
    }

    /// The longest useful delay: with it the whole sequence is read.
    fn max_delay(&self) -> usize;

    /// The default training options, where the command line gives this much.
    fn options(&self, given: Given) -> Options;

    /// A bidirectional network with no more parameters than the unidirectional one.
    fn same_size(&self, shape: Shape) -> Result<Shape, Failure>;

    /// The memory to train a network.
    fn needs(
        &self,
        place: &Place,
        shape: &Shape,
        options: &Options,
        threads: usize,
    ) -> Result<Needs, Failure>;

    /// What simple predictors achieve on the same rows; those with lagged inputs look ahead by the
    /// longest delay.
    fn baselines(&self, _longest_delay: usize) -> Result<Vec<Baseline>, Failure> {
        Ok(Vec::new())
    }

    /// A network to be trained.
    fn engine(
        &self,
        place: &Place,
        cpu: &Cpu,
        shape: &Shape,
        options: &Options,
    ) -> Result<Self::Engine, Failure>;

    /// How a network is measured: the validation set after every epoch, and in the end both sets. By
    /// default from the engine's losses.
    fn validation(
        &self,
        _shape: &Shape,
        part: Subset,
    ) -> Result<Box<dyn Validation<Self::Engine> + '_>, Failure> {
        let [_, valid, test] = self.data();
        let data = if part == Subset::Valid { valid } else { test };
        Ok(Box::new(OnData::new(data, self.metric())))
    }

    /// The measure of a trained network.
    fn evaluate(
        &self,
        engine: &mut Self::Engine,
        cpu: &Cpu,
        shape: &Shape,
        part: Subset,
    ) -> Result<f64, Failure> {
        let run = ValidationRun { epoch: 0, rows: MIN_EVAL_ROWS, cpu };
        Ok(self.validation(shape, part)?.validate(engine, &run)?.score)
    }
}
