//! `drnn man`: manual pages.

use crate::files::paths::make_folder;
use crate::{Failure, Program, console::progress};
use clap::{Args, CommandFactory};
use clap_mangen::Man;
use std::io::Write;
use std::path::PathBuf;

/// Print the manual page, or write those of all commands to a folder
///
/// Examples:
///   drnn man | man -l -
///   drnn man --out ~/.local/share/man/man1
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Folder for drnn.1 and a page for each command: drnn-train.1, drnn-train-series.1, ...
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let program = Program::command();
    let Some(folder) = &arguments.out else {
        let mut page = Vec::new();
        Man::new(program).render(&mut page)?;
        return Ok(std::io::stdout().lock().write_all(&page)?);
    };
    make_folder(folder)?;
    clap_mangen::generate_to(program, folder)
        .map_err(|e| Failure::Input(format!("{}: cannot be written: {e}", folder.display())))?;
    progress!("wrote the manual pages to {}", folder.display());
    Ok(())
}
