//! What went wrong with a file.

use super::text::printable;
use crate::prelude::*;
use alloc::sync::Arc;
use core::error::Error as StdError;
use core::fmt;
#[cfg(feature = "std")]
use std::{io, path::Path};

/// A file that cannot be read or written, or whose contents are refused.
#[derive(Clone)]
pub struct FileError {
    file: String,
    reason: String,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl FileError {
    /// About a file whose path is not known yet. `reason` may quote the file.
    pub(crate) fn new(reason: &str) -> FileError {
        FileError { file: "model file".into(), reason: printable(reason), source: None }
    }

    /// The same error with what caused it.
    pub(crate) fn caused_by(mut self, source: impl StdError + Send + Sync + 'static) -> FileError {
        self.source = Some(Arc::new(source));
        self
    }

    /// The same error about the file at a path.
    #[cfg(feature = "std")]
    pub(crate) fn at(mut self, path: &Path) -> FileError {
        self.file = path.display().to_string();
        self
    }

    /// Path of the file; `model file` where only its bytes are known.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// What is wrong with it, without its path.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// Kind of the `std::io::Error` that caused it, where one did.
    #[cfg(feature = "std")]
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        Some(self.source.as_ref()?.downcast_ref::<io::Error>()?.kind())
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.reason)
    }
}

impl fmt::Debug for FileError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("FileError")
            .field("file", &self.file)
            .field("reason", &self.reason)
            .field("source", &self.source)
            .finish()
    }
}

impl StdError for FileError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.source.as_deref()? as _)
    }
}

/// Equal if the messages are.
impl PartialEq for FileError {
    fn eq(&self, other: &FileError) -> bool {
        (&self.file, &self.reason) == (&other.file, &other.reason)
    }
}
