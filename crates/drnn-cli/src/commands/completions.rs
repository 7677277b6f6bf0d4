//! `drnn completions`: completion scripts for shells.

use crate::{Failure, Program};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use std::io::Write;

/// Print a completion script for a shell
///
/// Examples:
///   drnn completions bash > ~/.local/share/bash-completion/completions/drnn
///   drnn completions zsh > ~/.zfunc/_drnn
///   drnn completions fish > ~/.config/fish/completions/drnn.fish
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The shell to write for
    shell: Shell,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    // First into memory: clap_complete panics where writing fails, as in `| head`.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Program::command(), "drnn", &mut script);
    Ok(std::io::stdout().lock().write_all(&script)?)
}
