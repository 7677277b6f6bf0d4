//! `drnn sweep`: trains networks of several delays on one task, and compares quality with latency.
//!
//! | file | what |
//! |---|---|
//! | `task` | what a sweep needs from a task |
//! | `synthetic` | the paper's tasks |
//! | `chars` | masked characters of the user's text |
//! | `tagger` | tags of words |
//! | `series` | the user's own series |

mod chars;
mod series;
mod synthetic;
mod tagger;
mod task;

use crate::Failure;
use crate::args::network::NetworkKind;
use crate::args::regularisation::Regularisation;
use crate::args::shape::Shape;
use crate::console::{note, progress, warning};
use crate::memory::Needs;
use crate::report::sweep::{Run, SweepResults};
use crate::report::{Provenance, Reported, publish};
use crate::training::suggested::Given;
use crate::training::{self, LESS, Running, Watch};
use clap::{Args, Subcommand};
use drnn::Cpu;
use drnn_train::{Engine, Options, Reason, Schedule, Trainer, seed};
use std::path::PathBuf;
use std::time::SystemTime;
use task::{Subset, SweepTask};

/// Train networks of several delays on a task: quality against latency, and the delay that is enough
///
/// Every delay and network is trained on its own, in parallel on all cores. The recommended delay is
/// the smallest whose quality on the validation set is within the tolerance of the best. A sweep that
/// was interrupted with Ctrl-C or killed continues with --resume.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(subcommand)]
    task: Which,
}

#[derive(Debug, Subcommand)]
enum Which {
    Chars(chars::CharsTask),
    Reversal(synthetic::ReversalTask),
    Series(Box<series::SeriesSweep>),
    Sine(synthetic::SineTask),
    Tagger(tagger::TaggerSweep),
}

/// Arguments that all tasks share.
#[derive(Debug, Args)]
pub struct Sweep {
    /// Networks: delayed ones (dlstm, dgru, drnn) are trained with every delay, others once, for
    /// comparison
    #[arg(
        long,
        value_enum,
        value_name = "NET,..",
        value_delimiter = ',',
        default_value = "dlstm,bilstm"
    )]
    nets: Vec<NetworkKind>,
    /// Delays, each once [default: as the task suggests]
    #[arg(long, value_name = "D,..", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(0..=1000))]
    delays: Option<Vec<u16>>,
    /// Units per layer; a bidirectional network gets fewer, for the same number of parameters
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=4096))]
    units: u16,
    /// Number of layers
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=20))]
    layers: u8,
    /// Trainings of each network, from different seeds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    repeats: u16,
    /// Maximum number of epochs [default: as the task suggests]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    epochs: Option<u32>,
    /// Learning rate of the first epoch, with a cosine schedule [default: as the task suggests]
    #[arg(long, value_name = "R", value_parser = training::rate)]
    rate: Option<f32>,
    /// Sequences per batch [default: as the task suggests]
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    batch: Option<u32>,
    #[command(flatten)]
    regularisation: Regularisation,
    /// How far from the best is good enough: a difference of accuracies, or a fraction of the lowest error
    /// [default: 0.01 of accuracy, 0.05 of an error]
    #[arg(long, value_name = "X", value_parser = tolerance)]
    tolerance: Option<f64>,
    /// Random seed of data, parameters and batch order
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Output folder for results, plot and checkpoints [default: out/sweep-TASK]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    pub running: Running,
    /// Print the contents of sweep.json instead of text
    #[arg(long)]
    json: bool,
}

fn tolerance(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|e| format!("{e}"))?;
    if (0.0..=10.0).contains(&value) { Ok(value) } else { Err("expected 0 to 10".into()) }
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.task {
        Which::Chars(task) => task.sweep.run(&task.ready(task.sweep.seed)?),
        Which::Reversal(task) => task.sweep.run(&task.ready(task.sweep.seed)?),
        Which::Series(task) => task.sweep.run(&task.ready(task.sweep.seed)?),
        Which::Sine(task) => task.sweep.run(&task.ready(task.sweep.seed)?),
        Which::Tagger(task) => task.sweep.run(&task.ready()?),
    }
}

impl Sweep {
    fn run<T: SweepTask>(&self, task: &T) -> Result<(), Failure> {
        let started = SystemTime::now();
        let cpu = training::cpu(self.running.threads)?;
        let place = match T::ON_GPU {
            true => self.running.place.find()?,
            false => self.running.place.only_cpu("taggers")?,
        };
        let out = self.out.clone().unwrap_or_else(|| format!("out/sweep-{}", task.name()).into());
        let (shapes, options) = (self.shapes(task)?, self.options(task));
        let one = cpu.with_threads(1);
        let lanes = shapes.len() * usize::from(self.repeats);
        let mut needs = Vec::new();
        for shape in &shapes {
            let threads = cpu.threads().div_ceil(lanes);
            let one = task.needs(&place, shape, &options, threads)?;
            needs.extend(std::iter::repeat_n(one, self.repeats.into()));
        }
        let needs = Needs::side_by_side(needs, place.threads(&cpu, lanes));
        needs.check_at(
            self.running.force,
            &place,
            &format!("{LESS}, fewer --delays or --repeats"),
        )?;
        let [train, ..] = task.data();
        let mut which = Vec::new();
        let mut trainers = Vec::new();
        // All engines before the folder is created: if one is refused, nothing is written.
        for repetition in 0..usize::from(self.repeats) {
            for shape in &shapes {
                let seed = seed::of_repetition(self.seed, repetition);
                let options = Options { seed, ..options };
                let engine = task.engine(&place, &one, shape, &options)?;
                let name = format!("{} {shape} {repetition}", task.describe());
                let valid = task.validation(shape, Subset::Valid)?;
                trainers.push(Trainer::with_validation(engine, options, &name, train, valid)?);
                which.push((shape, repetition));
            }
        }
        let folder = self.running.folder(&out, &["sweep.json"], training::EARLIER)?;
        let names: Vec<String> =
            which.iter().map(|(shape, repetition)| format!("{shape}-{repetition}")).collect();
        let lanes = trainers.into_iter().zip(&names);
        let lanes = lanes.map(|(trainer, name)| self.running.lane(trainer, &folder, name));
        let mut lanes: Vec<_> = lanes.collect::<Result<_, _>>()?;
        self.announce(task, &shapes, &options, &cpu);
        let command = training::command();
        let watch = Watch::new(names, task.metric(), &out.join("log.jsonl"))?;
        self.running.run(&cpu, &place, &mut lanes, &watch, &command, &|_| Ok(()))?;
        let mut runs = Vec::new();
        for (lane, (shape, repetition)) in lanes.iter_mut().zip(which) {
            let progress = lane.trainer.progress().clone();
            let ended = progress.ended.unwrap_or(Reason::Epochs);
            let engine = lane.trainer.engine();
            let mut evaluate = |part| match ended {
                Reason::NotFinite => Ok(None),
                _ => task.evaluate(engine, &cpu, shape, part).map(Some),
            };
            let (valid, test) = (evaluate(Subset::Valid)?, evaluate(Subset::Test)?);
            runs.push(Run {
                net: shape.to_string(),
                repetition,
                delay: shape.latency(),
                compared: !shape.kind.delayed(),
                parameters: engine.state()?.params.len(),
                valid,
                test,
                epochs: progress.history.len(),
                ended,
                seconds: progress.seconds,
            });
        }
        let longest = shapes.iter().map(|shape| shape.delay).max().unwrap_or(0);
        let mut results = SweepResults {
            kind: SweepResults::KIND.into(),
            format: SweepResults::FORMAT,
            provenance: Provenance::new(command, self.seed, &cpu, &place, started, watch.earlier()),
            task: task.name().into(),
            what: task.describe(),
            sequences: task.sequences(),
            metric: task.metric(),
            tolerance: self.tolerance.unwrap_or(task.metric().tolerance()),
            options,
            runs,
            baselines: task.baselines(longest)?,
            warning: None,
        };
        results.warning = results.no_better_than_a_baseline();
        results.warning.iter().for_each(|warning| warning!("{warning}"));
        publish(&results, &out, self.json)?;
        let ran_away = results.runs.iter().filter(|run| run.ended == Reason::NotFinite);
        training::check_finite(ran_away.map(|run| run.net.as_str()))
    }

    /// The delays from --delays, or the suggested ones.
    fn delays(&self, suggested: &[usize]) -> Vec<usize> {
        match &self.delays {
            Some(delays) => delays.iter().map(|&d| d.into()).collect(),
            None => suggested.to_vec(),
        }
    }

    /// All networks, the slowest first, so that threads finish at about the same time.
    fn shapes<T: SweepTask>(&self, task: &T) -> Result<Vec<Shape>, Failure> {
        let refuse = |why: String| Err(Failure::Input(why));
        let mut delays = self.delays(&task.delays());
        delays.sort_unstable_by(|a, b| b.cmp(a));
        if let Some(twice) = delays.windows(2).find(|pair| pair[0] == pair[1]) {
            return refuse(format!("--delays: {} is given twice", twice[0]));
        }
        if let Some(&longest) = delays.first()
            && longest > task.max_delay()
        {
            return refuse(format!(
                "--delays: {longest}, but the longest sequence has {} elements: with a delay of {} all of it is read",
                task.max_delay() + 1,
                task.max_delay()
            ));
        }
        let units = vec![usize::from(self.units); self.layers.into()];
        let mut shapes: Vec<Shape> = Vec::new();
        for &kind in &self.nets {
            if !task.accepts(kind) {
                note!(
                    "{kind} is left out: it reads the whole sequence, also what is to be forecast"
                );
                continue;
            }
            let delays = if kind.delayed() { delays.as_slice() } else { &[0] };
            for &delay in delays {
                let shape = Shape { kind, units: units.clone(), delay };
                if shapes.contains(&shape) {
                    return refuse(format!("--nets: {shape} is given twice"));
                }
                shapes.push(shape);
            }
        }
        if !shapes.iter().any(|shape| shape.kind.delayed()) {
            return refuse("--nets: at least one must be delayed (dlstm, dgru, drnn)".into());
        }
        shapes.into_iter().map(|shape| task.same_size(shape)).collect()
    }

    fn options<T: SweepTask>(&self, task: &T) -> Options {
        let given = Given { batch: self.batch, epochs: self.epochs };
        let suggested = Options { schedule: Schedule::Cosine, ..task.options(given) };
        Options {
            epochs: self.epochs.map_or(suggested.epochs, |n| n as usize),
            rate: self.rate.unwrap_or(suggested.rate),
            batch: self.batch.map_or(suggested.batch, |n| n as usize),
            ..self.regularisation.apply(suggested)
        }
    }

    fn announce<T: SweepTask>(&self, task: &T, shapes: &[Shape], options: &Options, cpu: &Cpu) {
        let names: Vec<String> = shapes.iter().map(Shape::to_string).collect();
        progress!(
            "{}: {}; {} trainings each, up to {} epochs, {} threads",
            task.describe(),
            names.join(", "),
            self.repeats,
            options.epochs,
            cpu.threads()
        );
    }
}
