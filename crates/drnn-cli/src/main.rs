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
//! | `console` | progress, notes and warnings on stderr; `--quiet` |
//! | `failure` | errors and exit codes |
//!
//! Exit codes: 0 done, 1 a check failed, 2 bad usage or bad input, 130 stopped by Ctrl-C.

mod args;
mod commands;
mod console;
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

/// Delayed recurrent networks: RNN, LSTM and GRU whose output for input t is read d steps later
///
/// DRNN_THREADS sets the number of threads (default: all cores), DRNN_ISA the instruction set of the
/// kernels (default: the fastest).
#[derive(Parser)]
#[command(name = "drnn", version, arg_required_else_help = true)]
pub struct Program {
    #[command(subcommand)]
    command: Command,
    /// Show no progress and no notes; warnings, errors and results stay
    #[arg(long, short, global = true)]
    quiet: bool,
}

fn main() -> ExitCode {
    training::place::prepare();
    let Program { command, quiet } = Program::parse();
    console::set_quiet(quiet);
    match check_environment().and_then(|()| command.run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// A bad `DRNN_THREADS` or `DRNN_ISA` is an error, whether the command computes anything or not.
fn check_environment() -> Result<(), Failure> {
    drnn::Cpu::from_env()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn arguments_of_all_commands_are_consistent() {
        Program::command().debug_assert();
    }
}
