//! Training of delayed recurrent networks.
//!
//! ```text
//! loss -> gradient -> clipped at the global norm -> Adam        batch after batch, epoch after epoch
//! ```
//!
//! | what you want | where | |
//! |---|---|---|
//! | your data | [`read`] | tagged sentences, word vectors, text, tables; plain or packed, errors with file and line |
//! | sequences to learn from | [`Source`], [`Examples`] | batches in a seeded order; sequences in memory |
//! | some that a few numbers say how to make | [`Recipe`], [`Made`] | when they are asked for; on a device, by itself |
//! | what answers are worth | [`loss`], [`Confusion`] | cross-entropy, squared error; positions that do not count; what is taken for what |
//! | steps | [`Engine`], [`Learner`] | forward, loss, backward, clip, [`Adam`]; on the CPU |
//! | what a network is worth | [`Metric`], [`recommended`] | and which delay is enough |
//! | a whole training | [`Fit`] | batch by batch; stops, evaluates; checkpoints that go on to the bit |
//! | that a training goes on after a fault | [`checkpoint`] | a good one on disk at any moment |
//! | several at once | [`lanes`] | side by side on threads; each ends when it ends |
//! | very many, one after another | [`campaign`], [`results`] | cells of a grid; killed, resumed, split over machines |
//! | text with holes | [`chars`] | masked characters |
//! | series of numbers | [`series`] | tables as sequences: parts, scaling, windows, scores |
//! | predictions while input arrives | [`drnn_tasks::live`] | any model that streams, alone or many together |
//! | what memory a training takes | [`Estimate`] | before anything is allocated |
//! | the paper's tasks | [`reversal`], [`sine`] | data, bounds, accuracy |
//!
//! A training is a function of its options and data: not of threads, not of where it was interrupted.

#![deny(missing_docs)]

mod adam;
pub mod campaign;
pub mod chars;
pub mod checkpoint;
mod confusion;
pub mod contract;
mod data;
mod engine;
mod error;
mod fit;
pub mod lanes;
mod learner;
mod loss;
mod machine;
mod memory;
mod metric;
pub mod paper;
pub mod read;
mod recipe;
pub mod results;
pub mod reversal;
mod schedule;
pub mod series;
pub mod sine;
mod source;
mod stop;
pub mod tagger;

pub use adam::{Adam, AdamOptions, clip_scale, norm};
pub use confusion::{Confusion, Square};
pub use data::{Answers, Examples, Inputs};
pub use engine::{Batches, Engine, State, Steps};
pub use error::{Error, Result};
pub use fit::{Advance, Epoch, Fit, Options, Progress, Resumed};
pub use learner::Learner;
pub use loss::{IGNORE, LossSum, Targets, loss, weighted_cross_entropy};
pub use machine::{cpu_name, machine};
pub use memory::{EVALUATED, Estimate};
pub use metric::{Metric, recommended};
pub use paper::PaperNet;
pub use recipe::{Made, Recipe};
pub use schedule::Schedule;
pub use source::{Gathered, Source, order};
pub use stop::{Reason, Stopping};
