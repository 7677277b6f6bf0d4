//! `drnn reproduce`: what the paper shows, computed anew and checked.

mod depth;
mod mlm;
mod pos;
mod reversal;
mod sine;
mod theorem;

use crate::Failure;
use crate::paths::make_folder;
use crate::report::Origin;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// Reproduce what the paper shows: a table here, plot and data in a folder
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Debug, Subcommand)]
enum Experiment {
    Depth(depth::Arguments),
    Mlm(mlm::Arguments),
    Pos(pos::Arguments),
    Reversal(reversal::Arguments),
    Sine(sine::Arguments),
    Theorem(theorem::Arguments),
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.experiment {
        Experiment::Depth(arguments) => depth::run(arguments),
        Experiment::Mlm(arguments) => mlm::run(arguments),
        Experiment::Pos(arguments) => pos::run(arguments),
        Experiment::Reversal(arguments) => reversal::run(arguments),
        Experiment::Sine(arguments) => sine::run(arguments),
        Experiment::Theorem(arguments) => theorem::run(arguments),
    }
}

/// How a file of results begins that there is no report of: what it is, and where it comes from.
#[derive(Debug, Serialize)]
struct Head {
    kind: &'static str,
    format: u64,
    #[serde(flatten)]
    origin: Origin,
}

impl Head {
    fn new(kind: &'static str, command: String) -> Head {
        Head { kind, format: 1, origin: Origin::new(command) }
    }
}

/// Writes files of these names and contents to `folder`, which is made where there is none.
pub fn write_files(folder: &Path, files: &[(&str, impl AsRef<[u8]>)]) -> Result<(), Failure> {
    let refuse = |path: &Path, what: &str, error: std::io::Error| {
        Failure::Input(format!("{}: cannot be {what}: {error}", path.display()))
    };
    make_folder(folder)?;
    for (name, contents) in files {
        let path = folder.join(name);
        drnn::write_atomically(&path, |file| file.write_all(contents.as_ref()))
            .map_err(|e| refuse(&path, "written", e))?;
    }
    let names: Vec<_> = files.iter().map(|(name, _)| *name).collect();
    eprintln!("wrote {} to {}", names.join(", "), folder.display());
    Ok(())
}
