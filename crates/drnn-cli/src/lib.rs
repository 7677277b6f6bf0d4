//! The `drnn` program, as a library: `main.rs` is an executable around it, and the Python package has
//! another.
//!
//! | folder | contents |
//! |---|---|
//! | `commands` | a module for each subcommand: `drnn train` is `commands/train` |
//! | `campaign` | the whole paper as tasks, and their results files |
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
mod campaign;
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
pub use files::builtin;

use clap::Parser;
use commands::Command;
use std::ffi::OsString;
use std::io::Write;
use std::sync::OnceLock;

/// The command line, for results that say how they were made.
static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Delayed recurrent networks: RNN, LSTM and GRU whose output for input t is read d steps later
///
/// DRNN_THREADS sets the number of threads (default: all cores), DRNN_ISA the instruction set of the
/// kernels (default: the fastest).
#[derive(Parser)]
#[command(name = "drnn", version, long_version = report::version(), arg_required_else_help = true)]
pub struct Program {
    #[command(subcommand)]
    command: Command,
    /// Show no progress and no notes; warnings, errors and results stay
    #[arg(long, short, global = true)]
    quiet: bool,
}

/// What is set before the program runs and before any thread is started.
pub fn prepare() {
    training::place::prepare();
}

/// Runs the program, once in a process. `arguments` begin with its name. Returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments = ARGUMENTS.get_or_init(|| arguments.into_iter().collect());
    let code = match Program::try_parse_from(arguments) {
        Ok(Program { command, quiet }) => {
            console::set_quiet(quiet);
            let result = check_environment().and_then(|()| command.run());
            result.map_or_else(Failure::report, |()| 0)
        }
        Err(usage) => {
            // If stderr is closed there is nowhere to report it.
            let _ = usage.print();
            if usage.use_stderr() { 2 } else { 0 }
        }
    };
    // Python ends the process without it.
    let _ = std::io::stdout().flush();
    code
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
