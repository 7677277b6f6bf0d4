//! A model read from a file of another program, and what of the file is not in it.

use crate::io::format::Format;
use crate::model::Model;

/// A model from a file, and what of the file is not in it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Imported {
    /// The model.
    pub model: Model,
    /// What the file is.
    pub format: Format,
    /// Tensors that the model does not use, each with its shape: `fc.weight [10, 32]`.
    pub ignored: Vec<String>,
    /// What else a user should know, in sentences.
    pub notes: Vec<String>,
}
