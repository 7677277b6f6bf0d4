//! Small models that are part of the program, so that it works with nothing else at hand.

use crate::Failure;
use drnn::Model;
use drnn_tasks::tagger::Tagger;
use std::path::Path;

/// `models/README.md` says how they were trained, and on what.
const TAGGER: &[u8] = include_bytes!("../../models/tagger-en.safetensors");
const CHARACTERS: &[u8] = include_bytes!("../../models/chars-en.safetensors");
const AT_ONCE: &[u8] = include_bytes!("../../models/chars-en-lstm.safetensors");
const AT_THE_END: &[u8] = include_bytes!("../../models/chars-en-bilstm.safetensors");

/// All of them, by the names of their files.
pub const ALL: [(&str, &[u8]); 4] = [
    ("chars-en", CHARACTERS),
    ("chars-en-lstm", AT_ONCE),
    ("chars-en-bilstm", AT_THE_END),
    ("tagger-en", TAGGER),
];

/// The tagger in a file, or the one that is built in.
pub fn tagger(path: Option<&Path>) -> Result<Tagger, Failure> {
    Ok(match path {
        Some(path) => Tagger::load(path)?,
        None => Tagger::from_bytes(TAGGER)?,
    })
}

/// The model in a file, or the one for characters that is built in.
pub fn characters(path: Option<&Path>) -> Result<Model, Failure> {
    Ok(match path {
        Some(path) => Model::load(path)?,
        None => Model::from_bytes(CHARACTERS)?,
    })
}
