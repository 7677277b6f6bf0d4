//! `drnn reproduce`: repeats the paper's experiments and checks them.

mod depth;
mod mlm;
mod pos;
mod reversal;
mod sine;
mod theorem;

use crate::Failure;
use crate::report::Origin;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::path::Path;

/// Reproduce the paper's experiments: prints a table, writes plots and data to a folder
///
/// Results of an earlier run in the folder are never overwritten: --out chooses another folder, and
/// --resume, where there is one, continues the run.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
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

/// Refuses a folder with results of an earlier run, which would be overwritten.
fn check_unused(out: &Path, results: &[&str], instead: &str) -> Result<(), Failure> {
    match results.iter().map(|name| out.join(name)).find(|file| file.exists()) {
        None => Ok(()),
        Some(file) => {
            let file = file.display();
            Err(Failure::Input(format!("{file}: is the result of an earlier run; {instead}")))
        }
    }
}

/// What helps where a run cannot be resumed.
const ANOTHER: &str = "choose another --out";

/// The head of a results file without a report: its kind and origin.
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
