//! `drnn train`: trains a network on the user's data.
//!
//! | file | what |
//! |---|---|
//! | `frame` | what all tasks share: from an engine and its data to a model file and a report |
//! | `chars` | masked characters of a text |
//! | `series` | sequences of numbers |
//! | `tagger` | tags of words |

pub mod chars;
pub mod frame;
pub mod series;
pub mod tagger;

use crate::Failure;
use clap::{Args, Subcommand};

/// Train a network on your own data: a model file, and a report
///
/// A training that was interrupted with Ctrl-C or killed continues with --resume, to the same result.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(subcommand)]
    task: TrainTask,
}

#[derive(Debug, Subcommand)]
enum TrainTask {
    Chars(Box<chars::Arguments>),
    Series(Box<series::Arguments>),
    Tagger(Box<tagger::Arguments>),
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.task {
        TrainTask::Chars(arguments) => chars::run(arguments),
        TrainTask::Series(arguments) => series::run(arguments),
        TrainTask::Tagger(arguments) => tagger::run(arguments),
    }
}
