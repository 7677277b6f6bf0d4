//! Training of delayed recurrent networks.
//!
//! ```text
//! loss -> gradient -> clipped at the global norm -> Adam        batch after batch, epoch after epoch
//! ```
//!
//! | what you want | where | |
//! |---|---|---|
//! | your data | [`read`] | tagged sentences, word vectors, text, tables; plain or packed, errors with file and line |
//! | sequences to learn from | [`Examples`] | in memory; batches in a seeded order |
//! | what answers are worth | [`loss`] | cross-entropy, squared error; positions that do not count |
//! | one step | [`Learner`] | forward, loss, backward, clip, [`Adam`] |
//! | a whole training | [`Fit`] | batch by batch; stops, evaluates; checkpoints that go on to the bit |
//! | several at once | [`lanes`] | side by side on threads; each ends when it ends |
//! | very many, one after another | [`campaign`], [`results`] | cells of a grid; killed, resumed, split over machines |
//! | the paper's tasks | [`reversal`], [`sine`] | data, bounds, accuracy |
//!
//! A training is a function of its options and data: not of threads, not of where it was interrupted.

#![deny(missing_docs)]

mod adam;
pub mod campaign;
mod checkpoint;
mod data;
mod error;
mod fit;
pub mod lanes;
mod learner;
mod loss;
pub mod paper;
pub mod read;
pub mod results;
pub mod reversal;
mod schedule;
pub mod sine;
mod stop;

pub use adam::{Adam, AdamOptions, clip_scale, norm};
pub use data::{Answers, Examples, Gathered, Inputs, order};
pub use error::{Error, Result};
pub use fit::{Advance, Epoch, Fit, Options, Progress};
pub use learner::{Learner, Step, check};
pub use loss::{IGNORE, LossSum, Targets, loss};
pub use paper::PaperNet;
pub use schedule::Schedule;
pub use stop::{Reason, Stopping};
