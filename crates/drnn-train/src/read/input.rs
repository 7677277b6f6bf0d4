//! A file that is looked at more than once.

use super::limits::ReadLimits;
use super::open::{Source, display, open_with};
use super::refuse;
use crate::error::Result;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that can be opened again and again. What can be read only once, a pipe, is kept in
/// memory.
#[derive(Debug, Clone)]
pub struct Input {
    path: PathBuf,
    limits: ReadLimits,
    held: Option<Arc<[u8]>>,
}

impl Input {
    /// Of the file at `path`.
    pub fn new(path: &Path, limits: ReadLimits) -> Result<Input> {
        let fail = |e: std::io::Error| {
            let hint = match e.kind() {
                ErrorKind::FileTooLarge => {
                    "; save it as a file first, or allow more with --max-input SIZE"
                }
                _ => "",
            };
            refuse(&display(path), None, format!("cannot be read: {e}{hint}")).caused_by(e)
        };
        let is_file = std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
        let held = match is_file {
            true => None,
            false => {
                let max = limits.max_input.unwrap_or(drnn::io::MAX_STREAM);
                Some(drnn::io::read_file(path, max).map_err(fail)?.into())
            }
        };
        Ok(Input { path: path.into(), limits, held })
    }

    /// From its beginning.
    pub fn open(&self) -> Result<Source> {
        match &self.held {
            Some(bytes) => Source::held(&display(&self.path), bytes.clone(), self.limits),
            None => open_with(&self.path, self.limits),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
