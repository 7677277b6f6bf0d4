//! The error type of this crate.

/// Why a model, an element or a sequence was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// From the library: a network, its file, or a stream.
    #[error(transparent)]
    Drnn(#[from] drnn::Error),

    /// An element, a sequence or a task description that does not fit its model.
    #[error("{0}")]
    Data(String),

    /// A failure of the device that runs the model, or a network that it cannot run.
    #[error("{0}")]
    Device(String),

    /// A model file that cannot be used.
    #[error("{file}: {reason}")]
    File {
        /// Its path.
        file: String,
        /// What is wrong, and what to do.
        reason: String,
        /// The error that the reason comes from.
        source: Box<Error>,
    },
}

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;
