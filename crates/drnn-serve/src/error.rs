//! Errors in the configuration of a server.

/// A model or token that a server cannot use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A model's name that cannot appear in a path, a label or a log.
    #[error(
        "{0:?} is not a name for a model: use up to 100 letters, digits, `.`, `_` and `-`; \
         NAME=FILE gives it another name"
    )]
    ModelName(String),

    /// Two models with this name.
    #[error("two models are called {0}; NAME=FILE gives one another name")]
    DuplicateModel(String),

    /// A token that is too short, too long, or has characters that a header cannot carry.
    #[error("{0}")]
    Token(String),
}
