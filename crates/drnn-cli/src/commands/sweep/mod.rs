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
use crate::args::shape::Shape;
use crate::args::training::TrainingOptions;
use crate::console::{note, progress, warning};
use crate::memory::Needs;
use crate::report::sweep::{SavedModel, SweepResults};
use crate::report::{Provenance, Reported, publish};
use crate::training::kept::Kept;
use crate::training::place::Place;
use crate::training::shown::legend;
use crate::training::{self, LESS, Running, Watch};
use clap::{Args, Subcommand};
use drnn::Cpu;
use drnn::text::{counted, grouped};
use drnn_train::{Options, Reason, Trainer};
use std::path::PathBuf;
use std::time::SystemTime;
use task::SweepTask;

/// Train networks of several delays on a task: quality against latency, and the delay that is enough
///
/// Every network is trained as `drnn train` trains it with the same options, all in parallel on all
/// cores. The recommended delay is the shortest that is not distinguishably worse than the best on the
/// validation set; its model is saved. A sweep that was interrupted with Ctrl-C or killed continues
/// with --resume.
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
    /// Delays, each once [default: chars 0,1,2,3,5,8; series 0,1,2,5,10; tagger 0,1,2,3]
    #[arg(long, value_name = "D,..", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(0..=1000))]
    delays: Option<Vec<u16>>,
    /// Units per layer; a bidirectional network gets fewer, for the same number of parameters
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=4096))]
    units: u16,
    /// Number of layers
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=20))]
    layers: u8,
    #[command(flatten)]
    training: TrainingOptions,
    /// How far from the best is good enough: a difference of accuracies, or a fraction of the lowest error
    /// [default: 0.01 of accuracy, 0.05 of an error]
    #[arg(long, value_name = "X", value_parser = tolerance)]
    tolerance: Option<f64>,
    /// Output folder for results, plot, model and checkpoints [default: out/sweep-TASK]
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
        Which::Chars(task) => task.sweep.run(&task.ready(task.sweep.training.seed)?),
        Which::Reversal(task) => task.sweep.run(&task.ready(task.sweep.training.seed)?),
        Which::Series(task) => task.sweep.run(&task.ready(task.sweep.training.seed)?),
        Which::Sine(task) => task.sweep.run(&task.ready(task.sweep.training.seed)?),
        Which::Tagger(task) => task.sweep.run(&task.ready()?),
    }
}

impl Sweep {
    fn run<T: SweepTask>(&self, task: &T) -> Result<(), Failure> {
        let started = SystemTime::now();
        let cpu = training::cpu(self.running.threads)?;
        let place = self.running.place.find()?;
        let out = self.out.clone().unwrap_or_else(|| format!("out/sweep-{}", task.name()).into());
        let shapes = self.shapes(task)?;
        let options = self.training.options(task.options(self.training.given()));
        let repeats = usize::from(self.training.repeats);
        self.check_memory(task, &place, &shapes, &options, &cpu)?;
        let one = cpu.with_threads(1);
        let (mut which, mut trainers) = (Vec::new(), Vec::new());
        // All engines before the folder is created: if one is refused, nothing is written.
        for (repetition, options) in self.training.repeated(options).enumerate() {
            for shape in &shapes {
                let engine = task.engine(&place, &one, shape, &options)?;
                let name = format!("{} {shape} {repetition}", task.describe());
                let (train, valid) = (task.train(shape), task.validation(shape)?);
                trainers.push(Trainer::with_validation(engine, options, &name, train, valid)?);
                which.push((shape, repetition));
            }
        }
        let folder =
            self.running.folder(&out, &["sweep.json", "model.safetensors"], training::EARLIER)?;
        let names: Vec<String> = which.iter().map(|(shape, i)| format!("{shape}-{i}")).collect();
        self.announce(task, &shapes, &options, &cpu);
        let measure = trainers[0].measure().clone();
        if let Some(legend) = legend(&measure) {
            progress!("{legend}");
        }
        let command = training::command();
        let kept = Kept {
            running: &self.running,
            keep: self.training.keep,
            folder: &folder,
            checkpoints: names.iter().map(|name| [name.clone(), format!("{name}-best")]).collect(),
        };
        let watch = Watch::new(names, task.metric(), &out.join("log.jsonl"))?;
        let mut all = kept.train(&cpu, &place, trainers, &watch, &command)?;
        let mut runs = Vec::new();
        for (trained, (shape, repetition)) in all.iter_mut().zip(&which) {
            runs.push(task.score(trained, &cpu, shape, *repetition)?);
        }
        let longest = shapes.iter().map(|shape| shape.delay).max().unwrap_or(0);
        let seed = self.training.seed;
        let mut results = SweepResults {
            kind: SweepResults::KIND.into(),
            format: SweepResults::FORMAT,
            provenance: Provenance::new(command, seed, &cpu, &place, started, watch.earlier()),
            task: task.name().into(),
            what: task.describe(),
            sequences: task.sequences(),
            metric: task.metric(),
            measure: Some(measure),
            tolerance: self.tolerance.unwrap_or(task.metric().tolerance()),
            useful_delay: Some(task.useful_delay()),
            options,
            runs,
            model: None,
            baselines: task.baselines(longest)?,
            warning: None,
        };
        results.warning = results.no_better_than_a_baseline();
        results.warning.iter().for_each(|warning| warning!("{warning}"));
        let path = out.join("model.safetensors");
        if let Some(chosen) = results.best_training() {
            let run = &results.runs[chosen];
            results.model = Some(SavedModel { net: run.net.clone(), repetition: run.repetition });
            task.save(all[chosen].trainer.engine(), &path)?;
        }
        publish(&results, &out, self.json)?;
        if let Some(model) = &results.model {
            progress!("the model is {}: {}", path.display(), model.describe(repeats));
        }
        let diverged = results.runs.iter().filter(|run| run.ended == Reason::NotFinite);
        training::check_finite(diverged.map(|run| run.net.as_str()))
    }

    /// Refuses a sweep that does not fit into memory.
    fn check_memory<T: SweepTask>(
        &self,
        task: &T,
        place: &Place,
        shapes: &[Shape],
        options: &Options,
        cpu: &Cpu,
    ) -> Result<(), Failure> {
        let repeats = usize::from(self.training.repeats);
        let lanes = shapes.len() * repeats;
        let mut needs = Vec::new();
        for shape in shapes {
            let one = task.needs(place, shape, options, cpu.threads().div_ceil(lanes))?;
            needs.extend(std::iter::repeat_n(one, repeats));
        }
        let needs = Needs::side_by_side(needs, place.threads(cpu, lanes));
        let less = format!("{LESS}, fewer --delays or --repeats");
        needs.check_at(self.running.force, place, &less)
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
                let shape = Shape { kind, units: units.clone(), delay, projection: None };
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

    fn announce<T: SweepTask>(&self, task: &T, shapes: &[Shape], options: &Options, cpu: &Cpu) {
        let names: Vec<String> = shapes.iter().map(Shape::to_string).collect();
        progress!(
            "{}: {}; {} each, up to {} epochs in batches of {}, rate {}, {} threads",
            task.describe(),
            names.join(", "),
            counted(self.training.repeats.into(), "training"),
            grouped(options.epochs),
            grouped(options.batch),
            options.rate,
            cpu.threads()
        );
    }
}
