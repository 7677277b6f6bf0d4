//! The `drnn` program.
//!
//! | file | what |
//! |---|---|
//! | `net`, `shape` | a network on the command line; its kind and size for whatever data |
//! | `import` | a model file on the command line |
//! | `model_file` | a model file of any kind, one network or several; its task for people |
//! | `init` | `drnn init`: a network with random weights |
//! | `run` | `drnn run`: whole sequences through a model file |
//! | `npy`, `states`, `paths` | NumPy arrays; states in PyTorch's shapes; what may be written where |
//! | `flatten` | `drnn flatten`, `drnn unflatten`: a stack as one delayed layer and back |
//! | `export` | `drnn export`: a model for other runtimes |
//! | `inspect` | `drnn inspect`: what a model file holds, or a network is made of |
//! | `block_table`, `block_picture` | what connects the layers of a network, as text and as a picture |
//! | `bench` | `drnn bench`: the kernels against the machine's limit |
//! | `fill` | `drnn fill`: a text with holes in, the completed text out |
//! | `reproduce` | `drnn reproduce`: what the paper shows, computed anew and checked |
//! | `train`, `series_data` | `drnn train`: a network on the user's own data; series on the command line |
//! | `eval` | `drnn eval`: what a model is worth on data, by its task |
//! | `stream` | `drnn stream`: elements in, answers out, as each is known |
//! | `serve` | `drnn serve`: models behind HTTP and WebSocket |
//! | `sweep` | `drnn sweep`: quality against delay, and the delay that is enough |
//! | `characters` | a text as masked characters, for training and sweeps |
//! | `tag` | `drnn tag`: words in, tags out |
//! | `builtin` | small models that are part of the program |
//! | `tagging` | treebanks as data, and scores for people |
//! | `reading` | how much is read of users' files |
//! | `place` | where networks are trained: processor or GPU |
//! | `memory`, `free_memory`, `memory_use` | what a command is about to take, against what is free; what networks take |
//! | `training`, `stop` | what is seen of a training while it goes on; Ctrl-C |
//! | `training_folder` | the folder that trainings write to, locked |
//! | `report` | `drnn report`: pages for people, made from results files |
//! | `plot` | plots as SVG, and as bitmaps |
//!
//! Exit codes: 0 done, 1 a check failed, 2 bad usage or bad input, 130 stopped by Ctrl-C.

mod bench;
mod block_picture;
mod block_table;
mod builtin;
mod characters;
mod eval;
mod export;
mod fill;
mod flatten;
mod free_memory;
mod import;
mod init;
mod inspect;
mod memory;
mod memory_use;
mod model_file;
mod net;
mod npy;
mod paths;
mod place;
mod plot;
mod reading;
mod report;
mod reproduce;
mod run;
mod series_data;
mod serve;
mod shape;
mod states;
mod stop;
mod stream;
mod sweep;
mod tag;
mod tagging;
mod train;
mod training;
mod training_folder;

use clap::{Parser, Subcommand};
use std::io::ErrorKind;
use std::process::ExitCode;

/// Delayed recurrent networks: RNN, LSTM and GRU whose answer to input t is read d steps later.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(bench::Arguments),
    Eval(eval::Arguments),
    Export(export::Arguments),
    Fill(fill::Arguments),
    Flatten(flatten::Flatten),
    Init(init::Arguments),
    Inspect(inspect::Arguments),
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

/// Why the program ends before its work is done.
#[derive(Debug)]
pub enum Failure {
    /// The user can mend it: exit code 2.
    Input(String),
    /// The system failed us while writing the result.
    Output(std::io::Error),
    /// What should hold does not: exit code 1.
    Check(String),
    /// Ctrl-C, with all that was done on disk: exit code 130.
    Interrupted(String),
}

impl From<drnn::Error> for Failure {
    fn from(error: drnn::Error) -> Failure {
        Failure::Input(error.to_string())
    }
}

impl From<drnn_tasks::Error> for Failure {
    fn from(error: drnn_tasks::Error) -> Failure {
        Failure::Input(error.to_string())
    }
}

impl From<drnn_train::Error> for Failure {
    fn from(error: drnn_train::Error) -> Failure {
        Failure::Input(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::Output(error)
    }
}

/// Characters of an error message.
const MAX_MESSAGE: usize = 4_000;

fn main() -> ExitCode {
    place::prepare();
    let result = match Arguments::parse().command {
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Eval(arguments) => eval::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Fill(arguments) => fill::run(&arguments),
        Command::Flatten(arguments) => flatten::flatten(&arguments),
        Command::Init(arguments) => init::run(&arguments),
        Command::Inspect(arguments) => inspect::run(&arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Stream(arguments) => stream::run(&arguments),
        Command::Sweep(arguments) => sweep::run(&arguments),
        Command::Tag(arguments) => tag::run(&arguments),
        Command::Train(arguments) => train::run(&arguments),
        Command::Unflatten(arguments) => flatten::unflatten(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads our output has seen enough: `drnn bench | head`.
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(Failure::Output(error)) => {
            eprintln!("error: cannot write the result: {error}");
            ExitCode::from(2)
        }
        Err(Failure::Input(message)) => {
            // Whatever a message quotes from a file, it stays one that can be read.
            eprintln!("error: {}", drnn::shortened(&message, MAX_MESSAGE));
            ExitCode::from(2)
        }
        Err(Failure::Check(message)) => {
            eprintln!("check failed: {message}");
            ExitCode::from(1)
        }
        Err(Failure::Interrupted(message)) => {
            eprintln!("{message}");
            ExitCode::from(130)
        }
    }
}
