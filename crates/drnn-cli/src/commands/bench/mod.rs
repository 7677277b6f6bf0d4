//! `drnn bench`: the kernels compared with this machine's peak. For other software: `bench/peers.py`.

mod cases;
mod cuda;
mod cuda_shape;
mod shape;

pub use cuda::{Same, character_batch};

use crate::Failure;
use crate::memory::Force;
use crate::training::place::{Place, PlaceArguments};
use cases::{CASES, Work};
use clap::Args;
use drnn::peak::Peak;
use drnn::{Cpu, InstructionSet};
use serde::Serialize;
use std::io::Write;
use std::time::{Duration, Instant};

/// Compare the kernels with this machine's peak performance
///
/// The limit is measured in the same run: fused multiply-adds on registers, and a large product.
/// Times are medians over rounds. On a busy machine trust the fraction of the limit, not the times.
/// With --net, one network of any shape is measured instead of the cases, forward and in training;
/// with --shapes, all shapes of a file. On a GPU (--device cuda) device events time the states, the
/// outputs and a whole step, and a clock times steps of a training on data in memory.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Case to run; may repeat [default: all]
    #[arg(long = "case", value_name = "NAME", value_parser = names())]
    cases: Vec<String>,
    #[command(flatten)]
    shape: shape::ShapeArguments,
    /// Rounds per case
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Minimum seconds per round
    #[arg(long, default_value_t = 0.2, value_parser = seconds)]
    seconds: f64,
    /// Do not measure the machine's limit
    #[arg(long)]
    no_peak: bool,
    /// Threads [default: all cores]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// Instruction set: avx512, avx2, neon or portable [default: the fastest here]
    #[arg(long)]
    isa: Option<String>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    force: Force,
    #[command(flatten)]
    place: PlaceArguments,
}

/// Names of the cases for the CPU, then for a GPU.
fn names() -> Vec<&'static str> {
    CASES.iter().map(|c| c.name).chain(cuda::CASES.iter().map(|c| c.name)).collect()
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number from 0 to 3600".into()),
    }
}

#[derive(Serialize)]
struct Report {
    version: &'static str,
    threads: usize,
    isa: &'static str,
    /// The higher of the two limits, registers and a large product, to which cases are compared.
    peak_gflops: Option<f64>,
    fma_gflops: Option<f64>,
    product_gflops: Option<f64>,
    cases: Vec<Outcome>,
}

#[derive(Serialize)]
struct Outcome {
    name: String,
    what: String,
    /// Of one unit of work, per round.
    seconds: Vec<f64>,
    median_s: f64,
    gflops: f64,
    share_of_peak: Option<f64>,
    /// Memory of a training step.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
}

#[derive(Serialize, Clone, Copy)]
struct Memory {
    /// Gates, cell states and states of every step.
    #[serde(rename = "must_keep_bytes")]
    must_save_bytes: usize,
    /// Everything allocated that grows with the batch.
    held_bytes: usize,
    /// Packed weights and the workspace of their gradients, independent of the batch.
    fixed_bytes: usize,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let shapes = arguments.shape.shapes()?;
    arguments.shape.check_device(arguments.place, &shapes)?;
    let place = arguments.place.find()?;
    if let Place::Cuda(device, precision, _) = &place {
        let min_time = Duration::from_secs_f64(arguments.seconds);
        let rounds = arguments.rounds as usize;
        if shapes.is_empty() {
            return cuda::run(&place, &arguments.cases, rounds, min_time, arguments.json);
        }
        let run = cuda_shape::Run {
            device,
            precision: *precision,
            kinds: arguments.shape.kinds(),
            rounds,
            min_time,
            json: arguments.json,
            wait: arguments.shape.wait(),
        };
        return run.all(&shapes, arguments.force, arguments.threads.map(|n| n as usize));
    }
    let cpu = Cpu::from_env()?;
    let threads = arguments.threads.map_or(cpu.threads(), |n| n as usize);
    let isa = arguments.isa.as_deref().unwrap_or(cpu.instruction_set().name());
    let set = isa.parse::<InstructionSet>();
    let cpu = set.and_then(|set| Cpu::with_instruction_set(set, threads)).map_err(|_| {
        let runs: Vec<&str> = InstructionSet::available().iter().map(|set| set.name()).collect();
        Failure::Input(format!("--isa {isa}: this processor runs {}", runs.join(", ")))
    })?;
    let passes = arguments.shape.passes(&shapes, arguments.force, cpu.threads())?;
    let mut out = std::io::stdout().lock();
    let limits = (!arguments.no_peak).then(|| Peak::measure(&cpu));
    let peak = limits.map(|Peak { fma, product }| fma.max(product));
    if !arguments.json {
        write!(out, "{} threads, {}", cpu.threads(), cpu.instruction_set())?;
        if let (Some(peak), Some(Peak { fma, product })) = (peak, limits) {
            write!(
                out,
                "; limit {peak:.0} GFLOP/s (registers {fma:.0}, large product {product:.0})"
            )?;
        }
        writeln!(out, "\n\n{:18} {:>11} {:>9} {:>9}  work", "case", "time", "GFLOP/s", "of limit")?;
    }
    let mut outcomes = Vec::new();
    let mut one = |name: &str, what: &str, work: Work| -> Result<(), Failure> {
        let outcome = measure(name, what, work, arguments, peak)?;
        if !arguments.json {
            print(&mut out, &outcome)?;
        }
        outcomes.push(outcome);
        Ok(())
    };
    for pass in &passes {
        one(&pass.name, &pass.what, pass.work(&cpu)?)?;
    }
    let named =
        |name: &str| arguments.cases.is_empty() || arguments.cases.iter().any(|n| n == name);
    for case in CASES.iter().filter(|case| passes.is_empty() && named(case.name)) {
        one(case.name, case.what, (case.make)(&cpu)?)?;
    }
    if arguments.json {
        let report = Report {
            version: env!("CARGO_PKG_VERSION"),
            threads: cpu.threads(),
            isa: cpu.instruction_set().name(),
            peak_gflops: peak,
            fma_gflops: limits.map(|l| l.fma),
            product_gflops: limits.map(|l| l.product),
            cases: outcomes,
        };
        serde_json::to_writer(&mut out, &report).map_err(std::io::Error::from)?;
        writeln!(out)?;
    }
    Ok(())
}

/// A line of the table, and one about memory if it is known.
fn print(out: &mut impl Write, outcome: &Outcome) -> std::io::Result<()> {
    let Outcome { name, what, gflops, .. } = outcome;
    let time = human_time(outcome.median_s);
    let share = outcome.share_of_peak.map_or("-".into(), |x| format!("{:.0}%", x * 100.0));
    writeln!(out, "{name:18} {time:>11} {gflops:>9.1} {share:>9}  {what}")?;
    if let Some(m) = outcome.memory {
        let mb = |bytes: usize| bytes as f64 / 1e6;
        let (must, held, fixed) = (mb(m.must_save_bytes), mb(m.held_bytes), mb(m.fixed_bytes));
        writeln!(
            out,
            "{:49}  holds {held:.1} MB, {:.2} x the {must:.1} MB that must be saved; {fixed:.1} MB for weights",
            "",
            held / must
        )?;
    }
    Ok(())
}

fn measure(
    name: &str,
    what: &str,
    mut work: Work,
    arguments: &Arguments,
    peak: Option<f64>,
) -> Result<Outcome, Failure> {
    let min_time = Duration::from_secs_f64(arguments.seconds);
    let warm_up = Instant::now();
    while warm_up.elapsed() < min_time / 2 {
        (work.unit)()?;
    }
    let mut seconds = Vec::new();
    for _ in 0..arguments.rounds {
        let mut times = Vec::new();
        let round = Instant::now();
        while round.elapsed() < min_time || times.len() < 3 {
            let start = Instant::now();
            (work.unit)()?;
            times.push(start.elapsed().as_secs_f64() / work.per_call as f64);
        }
        seconds.push(median(&times));
    }
    let median_s = median(&seconds);
    let gflops = work.flop / median_s / 1e9;
    let memory = (work.memory)();
    Ok(Outcome {
        name: name.into(),
        what: what.into(),
        seconds,
        median_s,
        gflops,
        share_of_peak: peak.map(|peak| gflops / peak),
        memory,
    })
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0
}

fn human_time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.2} us", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
