//! Small models that are built into the program.

use crate::Failure;
use drnn::Model;
use drnn_tasks::tagger::Tagger;
use std::path::Path;

/// `models/README.md` describes how they were trained, and on what data.
const TAGGER: &[u8] = include_bytes!("../../models/tagger-en.safetensors");
const CHARACTERS: &[u8] = include_bytes!("../../models/chars-en.safetensors");
const CHARACTERS_LSTM: &[u8] = include_bytes!("../../models/chars-en-lstm.safetensors");
const CHARACTERS_BILSTM: &[u8] = include_bytes!("../../models/chars-en-bilstm.safetensors");

/// All of them, by file name.
pub const ALL: [(&str, &[u8]); 4] = [
    ("chars-en", CHARACTERS),
    ("chars-en-lstm", CHARACTERS_LSTM),
    ("chars-en-bilstm", CHARACTERS_BILSTM),
    ("tagger-en", TAGGER),
];

/// The tagger in a file, or the built-in one.
pub fn tagger(path: Option<&Path>) -> Result<Tagger, Failure> {
    Ok(match path {
        Some(path) => Tagger::load(path)?,
        None => Tagger::from_bytes(TAGGER)?,
    })
}

/// The model in a file, or the built-in one for characters.
pub fn characters(path: Option<&Path>) -> Result<Model, Failure> {
    Ok(match path {
        Some(path) => Model::load(path)?,
        None => Model::from_bytes(CHARACTERS)?,
    })
}
