//! The error type of this crate.

use std::io;
use std::path::Path;
use std::sync::Arc;

/// Why data, options or a file were refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// From the network.
    #[error(transparent)]
    Drnn(#[from] drnn::Error),

    /// From a task or a live model.
    #[error(transparent)]
    Task(#[from] drnn_tasks::Error),

    /// Data that cannot be trained on.
    #[error("{0}")]
    Data(String),

    /// Options that are out of range or contradict each other.
    #[error("{0}")]
    Options(String),

    /// A failure of the device that trains.
    #[error("{0}")]
    Device(String),

    /// A checkpoint that cannot be read or written, or is not of this training.
    #[error("{file}: {reason}")]
    #[non_exhaustive]
    Checkpoint {
        /// Its path.
        file: String,
        /// What is wrong with it.
        reason: String,
        /// The I/O error, where one caused it.
        source: Option<IoCause>,
    },

    /// A training whose checkpoints are all damaged.
    #[error("{newest}; {previous}; remove both files to start this training from the beginning")]
    #[non_exhaustive]
    NoGoodCheckpoint {
        /// The newest, and what is wrong with it.
        newest: String,
        /// The previous one, likewise.
        previous: String,
    },

    /// A data file that cannot be read, or whose contents are refused.
    #[error("{file}{}: {reason}", .line.map(|line| format!(":{line}")).unwrap_or_default())]
    #[non_exhaustive]
    File {
        /// Its path.
        file: String,
        /// The line, counted from 1, where one is to blame.
        line: Option<u64>,
        /// What is wrong, and what to do.
        reason: String,
        /// The I/O error, where one caused it.
        source: Option<IoCause>,
    },

    /// A results file that cannot be read or written, or is not of this campaign.
    #[error("{file}: {reason}")]
    #[non_exhaustive]
    Results {
        /// Its path.
        file: String,
        /// What is wrong with it.
        reason: String,
        /// The I/O error, where one caused it.
        source: Option<IoCause>,
    },
}

/// The I/O error that caused an [`Error`]. Equal if the kinds are.
#[derive(Debug, Clone, thiserror::Error)]
#[error(transparent)]
pub struct IoCause(Arc<io::Error>);

impl IoCause {
    /// Its kind.
    pub fn kind(&self) -> io::ErrorKind {
        self.0.kind()
    }
}

impl PartialEq for IoCause {
    fn eq(&self, other: &IoCause) -> bool {
        self.kind() == other.kind()
    }
}

impl Error {
    pub(crate) fn checkpoint(path: &Path, reason: impl ToString) -> Error {
        let (file, reason) = (path.display().to_string(), reason.to_string());
        Error::Checkpoint { file, reason, source: None }
    }

    /// The same error with the I/O error that caused it.
    pub(crate) fn caused_by(mut self, cause: io::Error) -> Error {
        if let Error::Checkpoint { source, .. }
        | Error::File { source, .. }
        | Error::Results { source, .. } = &mut self
        {
            *source = Some(IoCause(Arc::new(cause)));
        }
        self
    }

    /// The kind of the I/O error that caused this one, where one did.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Error::Checkpoint { source, .. }
            | Error::File { source, .. }
            | Error::Results { source, .. } => source.as_ref().map(IoCause::kind),
            _ => None,
        }
    }
}

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::io::ErrorKind;
    use std::path::Path;

    #[test]
    fn errors_of_files_have_their_cause() {
        let error = crate::read::open(Path::new("no/such/file")).unwrap_err();
        assert_eq!(error.io_kind(), Some(ErrorKind::NotFound));
        assert!(error.to_string().starts_with("no/such/file: cannot be read: "));
        let cause = error.source().unwrap();
        assert!(error.to_string().contains(&cause.to_string()));
        let mut lines = crate::read::Source::from_bytes("a", vec![0; 9]).unwrap().lines();
        assert_eq!(lines.next().unwrap_err().io_kind(), None);
        let results = crate::sine::results::read(Path::new("no/such/file")).unwrap_err();
        assert_eq!(results.io_kind(), Some(ErrorKind::NotFound));
    }
}
