//! One training from its first epoch to its last, and many of them side by side.

pub mod conformance;
mod engine;
pub mod lanes;
mod learner;
mod memory;
mod trainer;

pub use engine::{Batches, Engine, State, Steps};
pub use learner::Learner;
pub use memory::{EVALUATED, Estimate};
pub use trainer::{Advance, Epoch, Fit, Options, Progress, Resumed};
