//! What a sweep needs to know of a task.

use crate::Failure;
use crate::args::shape::Shape;
use crate::memory::Needs;
use crate::training::place::Place;
use drnn::Cpu;
use drnn_train::{Engine, Metric, Options};

/// The data an engine learns from.
pub type Data<T> = <<T as Task>::Engine as Engine>::Data;

/// A part of the data that is not learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Valid,
    Test,
}

/// A task, its data at hand.
pub trait Task {
    /// What trains its networks.
    type Engine: Engine;
    /// Whether a GPU can do that.
    const ON_GPU: bool = true;

    /// One word: `reversal`.
    fn name(&self) -> &'static str;

    /// The task with everything that changes it: a checkpoint of another is refused.
    fn describe(&self) -> String;

    /// What a network is judged by.
    fn metric(&self) -> Metric;

    /// Sequences to learn from, to judge by, to test with.
    fn data(&self) -> [&Data<Self>; 3];

    /// How many of each.
    fn sequences(&self) -> [usize; 3];

    /// Delays where nobody names any.
    fn delays(&self) -> Vec<usize>;

    /// A longer one sees nothing more.
    fn longest_delay(&self) -> usize;

    /// How networks are trained where nobody says.
    fn options(&self) -> Options;

    /// Bidirectional networks no larger than plain ones.
    fn same_size(&self, shape: Shape) -> Result<Shape, Failure>;

    /// The memory that its training takes.
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

    /// What a trained network is worth: the metric of its loss, where a task does not say otherwise.
    fn worth(&self, engine: &mut Self::Engine, _cpu: &Cpu, part: Part) -> Result<f64, Failure> {
        let [_, valid, test] = self.data();
        let data = if part == Part::Valid { valid } else { test };
        Ok(self.metric().of(&engine.loss(data, 0, 500)?))
    }
}
