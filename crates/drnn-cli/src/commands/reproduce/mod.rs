//! `drnn reproduce`: repeats the paper's experiments and checks them.

mod all;
mod depth;
mod mlm;
mod pos;
mod relax;
mod reversal;
mod runtime;
mod sine;
mod theorem;

use crate::Failure;
use crate::training::Running;
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};

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
    All(all::Arguments),
    Depth(depth::Arguments),
    Mlm(mlm::Arguments),
    Pos(pos::Arguments),
    Reversal(reversal::Arguments),
    Runtime(runtime::Arguments),
    Sine(sine::Arguments),
    Theorem(theorem::Arguments),
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.experiment {
        Experiment::All(arguments) => all::run(arguments),
        Experiment::Depth(arguments) => depth::run(arguments),
        Experiment::Mlm(arguments) => mlm::run(arguments),
        Experiment::Pos(arguments) => pos::run(arguments),
        Experiment::Reversal(arguments) => reversal::run(arguments),
        Experiment::Runtime(arguments) => runtime::run(arguments),
        Experiment::Sine(arguments) => sine::run(arguments),
        Experiment::Theorem(arguments) => theorem::run(arguments),
    }
}

/// Where a campaign runs an experiment: its data, the folder for checkpoints, threads and device.
struct Job {
    data: PathBuf,
    folder: PathBuf,
    running: Running,
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
