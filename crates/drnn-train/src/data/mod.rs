//! Sequences to train on: in memory ([`Examples`]), or generated from a few numbers ([`Generated`]).

mod examples;
mod recipe;
mod source;
mod stored;

pub(crate) use examples::check_alone;
pub use examples::{Examples, Inputs, TargetData};
pub use recipe::{Generated, Recipe};
pub(crate) use source::check_widths;
pub use source::{Dataset, Gathered, order};
pub(crate) use stored::Key;
pub use stored::{Part, Stored};
