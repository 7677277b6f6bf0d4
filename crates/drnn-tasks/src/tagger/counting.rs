//! Which lines of a treebank's sentence count as words.

use serde::{Deserialize, Serialize};

/// The tag of lines that are not words.
pub const NO_WORD: &str = "_";

/// Which lines of a sentence are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counting {
    /// Words, as treebanks are scored.
    #[default]
    Words,
    /// Every line, as the paper's authors do: multiword tokens ("3-4 du") and empty nodes ("8.1") are
    /// read as well, with [`NO_WORD`] as their tag. The paper's accuracy is over all of these lines.
    Lines,
}
