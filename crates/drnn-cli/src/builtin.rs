//! Small models that are part of the program, so that it works with nothing else at hand.

use crate::Failure;
use drnn_train::tagger::Tagger;
use std::path::Path;

/// `models/README.md` says how it was trained, and on what.
const TAGGER: &[u8] = include_bytes!("../../../models/tagger-en.safetensors");

/// The tagger in a file, or the one that is built in.
pub fn tagger(path: Option<&Path>) -> Result<Tagger, Failure> {
    Ok(match path {
        Some(path) => Tagger::load(path)?,
        None => Tagger::from_bytes(TAGGER)?,
    })
}
