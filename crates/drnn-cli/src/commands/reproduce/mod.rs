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

/// Reproduce the paper's experiments: prints a table, writes plots and data to a folder
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
