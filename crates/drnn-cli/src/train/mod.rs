//! `drnn train`: a network on the user's own data.
//!
//! | file | what |
//! |---|---|
//! | `frame` | what all tasks have in common: from an engine and its data to a model file and a report |
//! | `chars` | masked characters of a text |

pub mod chars;
pub mod frame;

use crate::Failure;
use clap::{Args, Subcommand};

/// Train a network on your own data: a model file, and a report on it
///
/// Interrupted with Ctrl-C, or killed, it goes on with --resume, to the same result.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(subcommand)]
    task: Which,
}

#[derive(Debug, Subcommand)]
enum Which {
    Chars(chars::Arguments),
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.task {
        Which::Chars(arguments) => chars::run(arguments),
    }
}
