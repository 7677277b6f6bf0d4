//! Small models that are built into the program.

use std::path::Path;

/// `models/README.md` describes how they were trained, and on what data. Statics, not constants: of a
/// constant, every crate that uses it has a copy.
static TAGGER: &[u8] = include_bytes!("../../models/tagger-en.safetensors");
static CHARACTERS: &[u8] = include_bytes!("../../models/chars-en.safetensors");
static CHARACTERS_LSTM: &[u8] = include_bytes!("../../models/chars-en-lstm.safetensors");
static CHARACTERS_BILSTM: &[u8] = include_bytes!("../../models/chars-en-bilstm.safetensors");

/// All of them, by name.
pub static ALL: [(&str, &[u8]); 4] = [
    ("chars-en", CHARACTERS),
    ("chars-en-lstm", CHARACTERS_LSTM),
    ("chars-en-bilstm", CHARACTERS_BILSTM),
    ("tagger-en", TAGGER),
];

/// Names of the models that commands use without one.
pub const DEFAULT_CHARACTERS: &str = "chars-en";
pub const DEFAULT_TAGGER: &str = "tagger-en";

/// The model of that name.
pub fn find(name: &Path) -> Option<&'static [u8]> {
    ALL.iter().find(|(known, _)| Path::new(known) == name).map(|(_, bytes)| *bytes)
}

/// All names, for messages.
pub fn names() -> String {
    ALL.map(|(name, _)| name).join(", ")
}
