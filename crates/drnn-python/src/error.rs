//! Errors of the Rust crates as exceptions, with the same words.

use pyo3::exceptions::{
    PyFileNotFoundError, PyIsADirectoryError, PyMemoryError, PyOSError, PyPermissionError,
    PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use std::error::Error as StdError;
use std::io::ErrorKind;

/// A `ValueError`.
pub fn value_error(message: impl Into<String>) -> PyErr {
    PyValueError::new_err(message.into())
}

/// A `TypeError`.
pub fn type_error(message: impl Into<String>) -> PyErr {
    PyTypeError::new_err(message.into())
}

/// A `MemoryError` where the system would not even promise memory for `copies` of a network's
/// parameters. A failed allocation later would end the interpreter.
pub fn check_memory(spec: &drnn::NetSpec, copies: usize) -> PyResult<()> {
    let values = spec.parameters().saturating_mul(copies);
    Vec::<f32>::new().try_reserve_exact(values).map_err(|_| {
        PyMemoryError::new_err(format!("no memory for {copies} copies of the parameters: {spec}"))
    })
}

/// An error of the library: `OSError` and its kinds for files that cannot be read or written,
/// `TypeError` for the wrong kind of input, `ValueError` for everything else.
pub fn library(error: drnn::Error) -> PyErr {
    let message = error.to_string();
    match &error {
        drnn::Error::InputKind { .. } | drnn::Error::NoInputGradient => type_error(message),
        _ => by_cause(&error, message),
    }
}

/// An error of task models.
pub fn tasks(error: drnn_tasks::Error) -> PyErr {
    match error {
        drnn_tasks::Error::Drnn(error) => library(error),
        other => {
            let message = other.to_string();
            by_cause(&other, message)
        }
    }
}

/// An error of training and of readers of users' data.
pub fn training(error: drnn_train::Error) -> PyErr {
    let message = error.to_string();
    by_cause(&error, message)
}

/// `OSError` where the operating system refused something, else `ValueError`.
fn by_cause(error: &(dyn StdError + 'static), message: String) -> PyErr {
    let mut next = Some(error);
    while let Some(error) = next {
        let kind = match error.downcast_ref::<drnn::Error>() {
            Some(drnn::Error::File(file)) => file.io_kind(),
            _ => error.downcast_ref::<std::io::Error>().map(std::io::Error::kind),
        };
        match kind {
            Some(ErrorKind::NotFound) => return PyFileNotFoundError::new_err(message),
            Some(ErrorKind::PermissionDenied) => return PyPermissionError::new_err(message),
            Some(ErrorKind::IsADirectory) => return PyIsADirectoryError::new_err(message),
            Some(ErrorKind::InvalidData | ErrorKind::UnexpectedEof) => break,
            Some(_) => return PyOSError::new_err(message),
            None => next = error.source(),
        }
    }
    value_error(message)
}
