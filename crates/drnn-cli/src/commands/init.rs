//! `drnn init`: writes a network with random weights.

use crate::Failure;
use crate::args::network::NetworkArguments;
use crate::console::progress;
use crate::memory::{Force, Needs, Smaller};
use crate::training::place::Place;
use clap::Args;
use drnn::{Model, NetSpec, memory};
use std::io::Write;
use std::path::PathBuf;

/// Write a network with random weights, initialised as PyTorch does
///
/// Example:
///   drnn init --net lstm --layers 4 --units 64 --inputs 10 --outputs 5 -o stack.safetensors
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(flatten)]
    net: NetworkArguments,
    /// File for the model
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Random seed of the weights
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    force: Force,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let spec = arguments.net.spec()?;
    let needs = |spec: &NetSpec| Needs::new("weights", memory::model(spec));
    let smaller = Smaller {
        size: arguments.net.widest(),
        needs: &|n| arguments.net.spec_up_to(n).ok().map(|spec| needs(&spec)),
        shown: &|n| format!("--units {n}"),
    };
    let less = "fewer --units or --layers";
    needs(&spec).check_sized(arguments.force, &Place::Cpu, less, Some(smaller))?;
    let model = Model::init(&spec, arguments.seed)?;
    model.save(&arguments.output)?;
    writeln!(std::io::stdout().lock(), "{model}")?;
    progress!("wrote {}", arguments.output.display());
    Ok(())
}
