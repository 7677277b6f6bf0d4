//! Masked characters: some characters of a text are hidden, and the network predicts them.
//!
//! Symbols are the alphabet's characters, then the mask. A character that is not in the alphabet is
//! read as the mask and never predicted.

mod alphabet;
mod task;

pub use alphabet::Alphabet;
pub use task::CharTask;
