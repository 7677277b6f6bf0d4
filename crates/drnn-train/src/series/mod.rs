//! Series: sequences of numbers with a target at every step.
//!
//! ```text
//! table, arrays -> Sequences -> Parts -> Windows, scaled -> a training
//!                                   \--> whole and scaled -> Score, in the targets' own units
//! ```
//!
//! | file | what |
//! |---|---|
//! | `sequences` | inputs and targets in their own units; missing numbers |
//! | `reading` | from a table, or from two arrays |
//! | `split` | training, validation and test part |
//! | `windows` | windows of long sequences, scaled, as batches |
//! | `task` | columns, classes and scaling of the training part, as a [`drnn_tasks::series::SeriesTask`] |
//! | `score` | errors per target, or accuracy and confusion of classes |

mod reading;
mod score;
mod sequences;
mod split;
mod task;
mod windows;

pub use reading::{Columns, from_arrays, from_table};
pub use score::{Measures, Score, TargetScore, score};
pub use sequences::Sequences;
pub use split::{Parts, Shares};
pub use task::learn_task;
pub use windows::Windows;

#[cfg(test)]
mod tests;
