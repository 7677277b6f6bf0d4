//! What training refuses, and why.

use std::path::Path;

/// The one error type.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// From the library.
    #[error(transparent)]
    Drnn(#[from] drnn::Error),

    /// From a task or a live model.
    #[error(transparent)]
    Task(#[from] drnn_tasks::Error),

    /// Data that cannot be trained on.
    #[error("{0}")]
    Data(String),

    /// Choices that make no sense together.
    #[error("{0}")]
    Options(String),

    /// What a device that trains could not do.
    #[error("{0}")]
    Device(String),

    /// A checkpoint that cannot be read or written, or is not of this training.
    #[error("{file}: {reason}")]
    Checkpoint {
        /// Its path.
        file: String,
        /// What is wrong with it.
        reason: String,
    },

    /// A training of which there are checkpoints, but no good one.
    #[error("{newest}; {previous}; remove both files to start this training from the beginning")]
    NoGoodCheckpoint {
        /// The newest, and what is wrong with it.
        newest: String,
        /// The one before, likewise.
        previous: String,
    },

    /// A file of data that cannot be read, or holds something else than it should.
    #[error("{file}{}: {reason}", .line.map(|line| format!(":{line}")).unwrap_or_default())]
    File {
        /// Its path.
        file: String,
        /// Where in it, counted from 1.
        line: Option<u64>,
        /// What is wrong, and what to do.
        reason: String,
    },

    /// A file of results that cannot be read or written, or is not of this campaign.
    #[error("{file}: {reason}")]
    Results {
        /// Its path.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Error {
    pub(crate) fn checkpoint(path: &Path, reason: impl ToString) -> Error {
        Error::Checkpoint { file: path.display().to_string(), reason: reason.to_string() }
    }
}

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;
