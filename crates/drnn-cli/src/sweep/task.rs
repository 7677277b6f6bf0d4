//! What a sweep needs to know of a task.

use crate::Failure;
use crate::shape::Shape;
use drnn::Cpu;
use drnn_train::{Engine, Metric, Options};

/// The data an engine learns from.
pub type Data<T> = <<T as Task>::Engine as Engine>::Data;

/// A task, its data at hand.
pub trait Task {
    /// What trains its networks.
    type Engine: Engine;

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

    /// A network to be trained.
    fn engine(&self, cpu: &Cpu, shape: &Shape, options: &Options) -> Result<Self::Engine, Failure>;
}
