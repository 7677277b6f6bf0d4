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
//! | some that a few numbers say how to make | [`Recipe`], [`Generated`] | when they are asked for; on a device, by itself |
//! | what answers are worth | [`loss`], [`Confusion`] | cross-entropy, squared error; positions that do not count; what is taken for what |
//! | steps | [`Engine`], [`Learner`] | forward, loss, backward, clip, [`Adam`]; on the CPU |
//! | what a network is worth | [`Metric`], [`recommended_delay`] | and which delay is enough |
//! | a whole training | [`Trainer`] | batch by batch; stops, evaluates; checkpoints that go on to the bit |
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

pub mod chars;
pub mod checkpoint;
mod data;
mod error;
mod loss;
mod machine;
mod optim;
pub mod paper;
pub mod read;
pub mod seed;
pub mod series;
pub mod tagger;
mod training;

pub use data::{Dataset, Examples, Gathered, Generated, Inputs, Recipe, TargetData, order};
pub use error::{Error, Result};
pub use loss::{
    Confusion, IGNORE, LossSum, Metric, Square, Targets, loss, recommended_delay,
    weighted_cross_entropy,
};
pub use machine::{cpu_name, machine};
pub use optim::{Adam, AdamOptions, Reason, Schedule, Stopping, clip_scale, norm};
pub use paper::{PaperNet, reversal, sine};
pub use training::{
    Advance, Batches, Engine, Epoch, Estimate, Inspect, Learner, MIN_EVAL_ROWS, Options, Progress,
    Resumed, State, Steps, Trainer, conformance, lanes,
};
