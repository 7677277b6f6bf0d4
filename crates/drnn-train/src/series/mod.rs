//! Series: sequences of numbers with a target at every step.
//!
//! ```text
//! table, arrays -> Sequences -> Parts -> Windows, scaled -> a training
//!                                   \--> Scorer -> Score, in the targets' own units
//! ```
//!
//! | file | what |
//! |---|---|
//! | `sequences` | inputs and targets in their own units; missing numbers |
//! | `columns` | which columns of a table are what, and what they hold |
//! | `reading`, `arrays` | from a table, or from two arrays |
//! | `forecast` | targets some steps after their rows |
//! | `categories` | categories that the training part has |
//! | `split` | training, validation and test part |
//! | `scaled` | the same in the units of the network |
//! | `windows` | windows of long sequences as batches |
//! | `task` | columns, classes and scaling of the training part, as a [`drnn_tasks::series::SeriesTask`] |
//! | `outputs` | what a model outputs in use: carried states, real look-ahead |
//! | `score` | errors per target, or accuracy and confusion of classes |
//! | `validation` | the same after every epoch of a training |
//! | `baselines` | what simple predictors achieve on the same rows |

mod arrays;
mod baselines;
mod categories;
mod columns;
mod forecast;
mod outputs;
mod reading;
mod scaled;
mod score;
mod sequences;
mod split;
mod task;
mod validation;
mod windows;

pub use arrays::from_arrays;
pub use baselines::{ScoredBaseline, SeriesBaselines, evaluation_baselines, series_baselines};
pub use columns::{Columns, InputChoice, InputRules};
pub use outputs::scoring_steps;
pub use reading::from_table;
pub use score::{Measures, Score, Scorer, TargetScore, score};
pub use sequences::Sequences;
pub use split::{Parts, Shares};
pub use task::learn_task;
pub use validation::SeriesValidation;
pub use windows::{Windows, suggested};

#[cfg(test)]
mod tests;
