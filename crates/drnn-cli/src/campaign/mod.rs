//! The whole paper as a campaign: a plan of tasks, and a results file for each.
//!
//! ```text
//! plan -> tasks -> trained anywhere -> DIR/tasks/ID.json -> merged -> report
//! ```
//!
//! | file | what |
//! |---|---|
//! | `task` | a task and its id |
//! | `plan` | all tasks, in their order |
//! | `effort` | the minutes that a task is expected to take |
//! | `record` | the results file of a task |
//! | `check` | whether a record is what its id says, by the protocol that it names |
//! | `folder` | a campaign's folder: records read, written and merged |
//! | `import` | results of single experiments as records |
//!
//! `commands/reproduce/all` runs tasks, `report/paper` shows them.

mod check;
mod effort;
mod folder;
mod import;
mod plan;
mod record;
mod task;

#[cfg(test)]
pub use check::paper_options;
pub use effort::minutes;
pub use folder::{Campaign, Merged};
pub use import::{Known, import};
pub use plan::{Plan, SINE_AHEADS};
pub use record::{DataFile, Outcome, TaskProvenance, TaskRecord, reversal_results};
pub use task::{Device, Experiment, Protocol, Task, Vectors};
