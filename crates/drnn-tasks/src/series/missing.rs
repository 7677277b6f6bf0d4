//! What replaces missing numbers.

use serde::{Deserialize, Serialize};

/// What replaces missing numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// Missing numbers are an error.
    #[default]
    Refuse,
    /// 0.
    Zero,
    /// The column's mean over the whole file.
    Mean,
    /// The number of the row before, in the same sequence.
    Previous,
    /// Nothing: rows with missing numbers are left out.
    Drop,
    /// Nothing: they stay NaN, for a caller that handles them.
    #[serde(skip)]
    Keep,
}
