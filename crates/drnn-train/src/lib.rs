//! Training of delayed recurrent networks, and readers of the data they are trained on.
//!
//! ```text
//! data -> batches -> forward -> loss -> backward -> clip -> Adam        epoch after epoch
//! ```
//!
//! A network with a delay of d outputs its answer to step t after it has read step t + d, so it can use
//! what follows t. This trains one on a task that cannot be solved without looking ahead:
//!
//! ```
//! use drnn::{Cell, Cpu, NetSpec, Padding};
//! use drnn_train::reversal::Reversal;
//! use drnn_train::{Advance, Engine, Options, Trainer};
//!
//! // Sequences of 4 symbols out of 2, to be output backwards: 200 to train on, 50 to validate.
//! let task = Reversal { steps: 4, symbols: 2 };
//! let (train, valid) = (task.examples(200, 1)?, task.examples(50, 2)?);
//!
//! // A delay of 3 has read the whole sequence before the first output.
//! let spec = NetSpec::builder(Cell::Gru).dense(2).units([16]).outputs(2);
//! let spec = spec.delay(3, Padding::Null).build()?;
//! let options = Options { epochs: 20, batch: 20, rate: 0.02, ..Options::default() };
//! let mut trainer = Trainer::new(&Cpu::from_env()?, &spec, options, "example", &train, &valid)?;
//! while !matches!(trainer.advance()?, Advance::Ended(_)) {}
//!
//! let loss = trainer.engine().loss(&valid, 0, 50)?;
//! assert!(loss.accuracy() > Some(0.9)); // without delay 0.75 is the best possible
//! let model = trainer.engine().model()?; // a drnn::Model, to be run or saved
//! assert_eq!(model.spec().delay(), 3);
//! # Ok::<(), drnn_train::Error>(())
//! ```
//!
//! The example program `train_series` trains on a CSV file, saves the model and runs it on a stream.
//!
//! | you want | here | |
//! |---|---|---|
//! | to read your data | [`read`] | tagged sentences, word vectors, text, tables; plain or compressed; errors name file and line |
//! | a data set | [`Examples`], [`Dataset`] | sequences in memory, or any source of batches |
//! | series of numbers | [`series`] | tables as sequences: split, scaling, windows, scores |
//! | masked characters | [`chars`] | windows of a text |
//! | part-of-speech taggers | [`tagger`] | sentences, the char net and the word net |
//! | to train | [`Trainer`], [`Options`] | batch by batch; evaluates, stops early, writes and resumes [checkpoints](checkpoint) |
//! | to choose what is validated | [`Validation`] | one measure that is logged, chooses the model and stops the training |
//! | to train several networks | [`lanes`] | on the threads of a machine |
//! | losses and metrics | [`loss()`], [`Metric`], [`Confusion`] | cross-entropy, squared error; accuracy, recall, precision |
//! | a batch size and epochs that suit the data | [`Plan`] | what counts is the number of updates |
//! | the shortest delay that is good enough | [`recommend`] | from one or several trainings with each delay |
//! | simple predictors to compare with | [`baseline`] | mean, persistence, ridge regression, frequencies |
//! | to estimate memory | [`Estimate`] | before anything is allocated |
//! | another device | [`Engine`], [`conformance`] | what trains a model; the CPU's is [`Learner`] |
//! | the paper's synthetic tasks | [`reversal`], [`sine`] | data, bounds; a campaign of thousands of trainings |
//!
//! A trained model is a `drnn::Model`; the crate `drnn-tasks` runs it on live data.
//!
//! Results depend on options and data alone: not on the number of threads, nor on where a training was
//! interrupted and resumed. Every random number follows from [`Options::seed`] (see [`seed`]).

#![deny(missing_docs)]

pub mod baseline;
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

pub use data::{
    Dataset, Examples, Gathered, Generated, Inputs, Part, Recipe, Stored, TargetData, order,
};
pub use error::{Error, IoCause, Result};
pub use loss::{
    Confusion, ConfusionMatrix, IGNORE, LossSum, MAX_CLASS_WEIGHT, Metric, Targets, argmax,
    balanced_class_weights, class_weighted_cross_entropy, loss, named_class_weights,
    weighted_cross_entropy,
};
pub use machine::{cpu_name, machine};
pub use optim::{Adam, AdamOptions, Reason, Schedule, Stopping, clip_scale, norm};
pub use paper::{PaperNet, reversal, sine};
pub use training::{
    Advance, Batches, Comparison, DelayScores, Engine, Epoch, Estimate, Given, Inspect, Learner,
    MIN_EVAL_ROWS, Measure, NEGLIGIBLE, OnData, Options, Plan, Progress, Recommendation, Resumed,
    State, Steps, Tolerance, Trainer, Validated, Validation, ValidationRun, Verdict, conformance,
    evaluate, lanes, late_improvement, negligible, recommend,
};
