//! Tasks of delayed recurrent networks: what a model's file says about its data, and inference with
//! it, one element at a time or on whole sequences.
//!
//! | you want | module |
//! |---|---|
//! | to run any model file on elements as they arrive, or on whole sequences | [`live`] |
//! | the alphabet of a character model | [`chars`] |
//! | columns, classes and scaling of a series model | [`series`] |
//! | a part-of-speech tagger: its vocabulary, networks and tokeniser | [`tagger`] |
//!
//! Training, and readers of users' data, are in the crate `drnn-train`.

#![deny(missing_docs)]

pub mod chars;
mod error;
pub mod live;
pub mod series;
pub mod tagger;
pub mod text;

pub use error::{Error, Result};

/// Maximum number of classes or tags unless the user allows more: a network has an output for each
/// of them at every step. The richest tag sets have some thousand; a column with more distinct
/// values holds names or numbers.
pub const MAX_CLASSES: usize = 5_000;
