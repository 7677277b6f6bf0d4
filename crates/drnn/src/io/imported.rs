//! A model read from a file of another program, and what of the file is not in it.

use crate::io::format::Format;
use crate::model::Model;
use crate::prelude::*;

/// A model from a file, and what of the file is not in it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Imported {
    /// The model.
    pub model: Model,
    /// What the file is.
    pub format: Format,
    /// What the model does not use: tensors with their shapes, `fc.weight [10, 32]`, then everything
    /// that is no tensor, `epoch`.
    pub ignored: Vec<String>,
    /// What else a user should know, in sentences.
    pub notes: Vec<String>,
}

impl Imported {
    /// A model of drnn's own, which says everything itself.
    pub(crate) fn own(model: Model) -> Imported {
        let (ignored, notes) = (Vec::new(), Vec::new());
        Imported { model, format: Format::Safetensors, ignored, notes }
    }
}
