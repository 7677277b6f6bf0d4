//! One training from its first epoch to its last, and many of them side by side.

pub mod conformance;
mod engine;
mod evaluate;
pub mod lanes;
mod learner;
mod memory;
mod plan;
mod recommendation;
mod saver;
mod scheduler;
mod trainer;
mod validation;

pub use engine::{Batches, Engine, Inspect, State, Steps};
pub use evaluate::evaluate;
pub use learner::Learner;
pub(crate) use learner::forward;
pub use memory::{Estimate, MIN_EVAL_ROWS};
pub use plan::{Given, Plan};
pub use recommendation::{
    Comparison, DelayScores, NEGLIGIBLE, Recommendation, Tolerance, Verdict, late_improvement,
    negligible, recommend,
};
pub(crate) use saver::{SavePolicy, Saver};
pub(crate) use scheduler::{Queue, Scheduler, Turn};
pub(crate) use trainer::Stint;
pub use trainer::{Advance, Epoch, Options, Progress, Resumed, Trainer};
pub use validation::{Measure, OnData, Validated, Validation, ValidationRun};
