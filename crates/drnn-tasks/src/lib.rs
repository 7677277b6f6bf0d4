//! Tasks of delayed recurrent networks: what a model's file says about its data, and inference with
//! it, one element at a time or on whole sequences.
//!
//! ```
//! use drnn::{Cell, Model, NetSpec, Padding};
//! use drnn_tasks::live::{LiveModel, LiveStream};
//!
//! let spec = NetSpec::builder(Cell::Gru).dense(2).units([8]).delay(1, Padding::Null).build()?;
//! let model = LiveModel::new("sensor", Model::init(&spec, 1)?)?; // or LiveModel::load(path)?
//! let mut stream = LiveStream::new(&model)?;
//! for line in ["0.5 1", "0.25 0", "1 1"] {
//!     if let Some(prediction) = stream.push(&model.line(line)?)? {
//!         println!("{}", prediction.json());
//!     }
//! }
//! let rest = stream.flush()?; // the predictions still due
//! assert_eq!(rest.len(), 1);
//! # Ok::<(), drnn_tasks::Error>(())
//! ```
//!
//! | you want | module |
//! |---|---|
//! | to run any model file on elements as they arrive, or on whole sequences | [`live`] |
//! | the alphabet of a character model | [`chars`] |
//! | columns, classes and scaling of a series model | [`series`] |
//! | a part-of-speech tagger: its vocabulary, networks and tokeniser | [`tagger`] |
//! | to run networks elsewhere than on the CPU | [`Runner`] |
//! | users' text in messages, and numbers from text | [`text`] |
//!
//! Training, and readers of users' data, are in the crate `drnn-train`; a server for these models is
//! in `drnn-serve`.

#![deny(missing_docs)]

pub mod chars;
mod error;
pub mod live;
mod runner;
pub mod series;
pub mod tagger;
pub mod text;

pub use error::{Error, Result};
pub use runner::Runner;

/// Maximum number of classes or tags unless the user allows more: a network has an output for each
/// of them at every step. The richest tag sets have some thousand; a column with more distinct
/// values holds names or numbers.
pub const MAX_CLASSES: usize = 5_000;
