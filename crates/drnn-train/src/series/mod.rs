//! Series: sequences of numbers, with something to be answered at every step.
//!
//! ```text
//! table, arrays -> Sequences -> Parts -> Windows, scaled -> a training
//!                                   \--> whole and scaled -> Score, in the targets' own units
//! ```
//!
//! | file | what |
//! |---|---|
//! | `sequences` | inputs and targets as they are, sequence after sequence; missing numbers |
//! | `reading` | from a table, or from two arrays |
//! | `split` | a part to learn from, one to judge by, one to test with |
//! | `windows` | long sequences in pieces, scaled, as batches |
//! | `task` | columns, classes and scaling of the training part, as a [`drnn_tasks::series::SeriesTask`] |
//! | `score` | what answers are worth: errors per target, or classes and what they are taken for |

mod reading;
mod score;
mod sequences;
mod split;
mod task;
mod windows;

pub use reading::{Columns, from_arrays, from_table};
pub use score::{Found, Score, TargetScore, score};
pub use sequences::Sequences;
pub use split::{Parts, Shares};
pub use task::learn_task;
pub use windows::Windows;

#[cfg(test)]
mod tests;
