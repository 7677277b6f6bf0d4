//! Sequences to train on: in memory ([`Examples`]), or generated from a few numbers ([`Made`]).

mod examples;
mod recipe;
mod source;

pub(crate) use examples::check_alone;
pub use examples::{Answers, Examples, Inputs};
pub use recipe::{Made, Recipe};
pub(crate) use source::check_widths;
pub use source::{Gathered, Source, order};
