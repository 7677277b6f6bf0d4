//! The `drnn` program.
//!
//! | folder | contents |
//! |---|---|
//! | `commands` | a module for each subcommand: `drnn train` is `commands/train` |
//! | `args` | groups of arguments that several commands share: networks, series, texts, limits of reading |
//! | `files` | model files, the built-in models, NumPy arrays, states, output folders |
//! | `training` | a training while it runs: progress, Ctrl-C, CPU or GPU, treebanks |
//! | `memory` | the memory that a command will need, compared with what is free |
//! | `report` | HTML and Markdown pages made from results files |
//! | `plot` | plots as SVG and PNG |
//! | `text` | text as it arrives: UTF-8 in pieces, masks |
//! | `failure` | errors and exit codes |
//!
//! Exit codes: 0 done, 1 a check failed, 2 bad usage or bad input, 130 stopped by Ctrl-C.

mod args;
mod commands;
mod failure;
mod files;
mod memory;
mod plot;
mod report;
mod text;
mod training;

pub use failure::Failure;

use clap::Parser;
use commands::Command;
use std::process::ExitCode;

/// Delayed recurrent networks: RNN, LSTM and GRU whose answer to input t is read d steps later.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    training::place::prepare();
    match Arguments::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
