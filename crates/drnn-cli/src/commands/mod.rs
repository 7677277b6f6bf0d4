//! The subcommands, a module each.

mod bench;
mod completions;
mod eval;
mod export;
mod fill;
mod flatten;
mod init;
mod inspect;
mod man;
mod page;
mod predict;
mod quantize;
mod report;
mod reproduce;
mod run;
mod serve;
mod stream;
mod sweep;
mod tag;
mod train;

use crate::Failure;
use clap::Subcommand;

#[derive(Subcommand)]
pub enum Command {
    Bench(bench::Arguments),
    Completions(completions::Arguments),
    Eval(eval::Arguments),
    Export(export::Arguments),
    Fill(fill::Arguments),
    Flatten(flatten::Flatten),
    Init(init::Arguments),
    Inspect(inspect::Arguments),
    Man(man::Arguments),
    Page(page::Arguments),
    Predict(predict::Arguments),
    Quantize(quantize::Arguments),
    Report(report::Arguments),
    Reproduce(reproduce::Arguments),
    Run(run::Arguments),
    Serve(serve::Arguments),
    Stream(stream::Arguments),
    Sweep(sweep::Arguments),
    Tag(tag::Arguments),
    Train(train::Arguments),
    Unflatten(flatten::Unflatten),
}

impl Command {
    /// Runs the command to its end.
    pub fn run(&self) -> Result<(), Failure> {
        match self {
            Command::Bench(arguments) => bench::run(arguments),
            Command::Completions(arguments) => completions::run(arguments),
            Command::Eval(arguments) => eval::run(arguments),
            Command::Export(arguments) => export::run(arguments),
            Command::Fill(arguments) => fill::run(arguments),
            Command::Flatten(arguments) => flatten::flatten(arguments),
            Command::Init(arguments) => init::run(arguments),
            Command::Inspect(arguments) => inspect::run(arguments),
            Command::Man(arguments) => man::run(arguments),
            Command::Page(arguments) => page::run(arguments),
            Command::Predict(arguments) => predict::run(arguments),
            Command::Quantize(arguments) => quantize::run(arguments),
            Command::Report(arguments) => report::run(arguments),
            Command::Reproduce(arguments) => reproduce::run(arguments),
            Command::Run(arguments) => run::run(arguments),
            Command::Serve(arguments) => serve::run(arguments),
            Command::Stream(arguments) => stream::run(arguments),
            Command::Sweep(arguments) => sweep::run(arguments),
            Command::Tag(arguments) => tag::run(arguments),
            Command::Train(arguments) => train::run(arguments),
            Command::Unflatten(arguments) => flatten::unflatten(arguments),
        }
    }
}
