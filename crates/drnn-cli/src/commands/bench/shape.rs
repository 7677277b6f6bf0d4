//! `drnn bench --net lstm --units 512 ..`: a network and a batch of any shape, on the CPU.

use super::cases::{self, Shape, Work};
use crate::Failure;
use crate::args::network::{NetworkKind, Nonlinearity};
use crate::memory::{Force, Needs};
use clap::{Args, ValueEnum};
use drnn::memory::{self, BatchSize};
use drnn::{Cpu, Direction, NetSpec, WeightFormat};

/// A network and a batch on the command line.
#[derive(Debug, Args)]
#[command(next_help_heading = "Any shape")]
pub struct ShapeArguments {
    /// Measure this network instead of the cases: rnn, lstm or gru, or a bidirectional one
    #[arg(long, value_enum, conflicts_with = "cases")]
    net: Option<NetworkKind>,
    /// Units of a layer, n
    #[arg(long, value_name = "N", default_value_t = 512, requires = "net", value_parser = size(65_536))]
    units: u64,
    /// Layers, k
    #[arg(long, value_name = "K", default_value_t = 1, requires = "net", value_parser = size(1000))]
    layers: u64,
    /// Sequences, B
    #[arg(long, value_name = "B", default_value_t = 16, requires = "net", value_parser = size(1_000_000))]
    batch: u64,
    /// Steps of each sequence, T
    #[arg(long, value_name = "T", default_value_t = 100, requires = "net", value_parser = size(1_000_000))]
    steps: u64,
    /// Floats per input vector, q
    #[arg(long, value_name = "Q", default_value_t = 64, requires = "net", value_parser = size(1_000_000))]
    inputs: u64,
    /// Values per output, m; without it the outputs are the last layer's states
    #[arg(long, value_name = "M", requires = "net", value_parser = size(1_000_000))]
    outputs: Option<u64>,
    /// What is measured [default: infer and train]
    #[arg(long, value_enum, requires = "net")]
    pass: Option<Kind>,
    /// Number format of the weights: f32, f16, bf16 or int8; for --pass infer and stream
    #[arg(long, value_name = "FORMAT", default_value = "f32", requires = "pass")]
    weights: WeightFormat,
}

/// A number from 1 to `max`.
fn size(max: u64) -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=max)
}

/// What is measured of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// The forward pass of whole sequences
    Infer,
    /// Forward and backward, gradients of all parameters
    Train,
    /// One step of B live sequences
    Stream,
}

/// One pass of one network, to be measured.
pub struct Pass {
    pub name: String,
    pub what: String,
    pass: Kind,
    shape: Shape,
}

impl Pass {
    /// Sets it up.
    pub fn work(&self, cpu: &Cpu) -> drnn::Result<Work> {
        match self.pass {
            Kind::Infer => cases::infer(cpu, &self.shape),
            Kind::Train => cases::train(cpu, &self.shape, 1),
            Kind::Stream => cases::stream(cpu, &self.shape),
        }
    }
}

impl ShapeArguments {
    /// An error if a shape is given together with `other`.
    pub fn refuse(&self, other: &str) -> Result<(), Failure> {
        match self.net {
            Some(_) => {
                Err(Failure::Input(format!("--net measures on the CPU only, without {other}")))
            }
            None => Ok(()),
        }
    }

    /// What is to be measured, if a network is given; an error where memory is too small for it.
    pub fn passes(&self, force: Force, threads: usize) -> Result<Vec<Pass>, Failure> {
        let Some(net) = self.net else { return Ok(Vec::new()) };
        if net.delayed() {
            let plain = net.plain();
            let why = "a delayed network is the same recurrence for d steps more";
            return Err(Failure::Input(format!(
                "--net {net}: {why}: --net {plain}, --steps T + d"
            )));
        }
        if self.pass == Some(Kind::Train) && self.weights != WeightFormat::F32 {
            return Err(Failure::Input("--weights: training is in f32".into()));
        }
        let shape = self.shape(net);
        let spec = shape.spec()?;
        let passes: Vec<Kind> = match self.pass {
            Some(pass) => vec![pass],
            None => vec![Kind::Infer, Kind::Train],
        };
        needs(&shape, &spec, passes.contains(&Kind::Train), threads)
            .check(force, "smaller --units, --batch or --steps")?;
        let Shape { n, q, rows, steps, layers, .. } = shape;
        let weights = match self.weights {
            WeightFormat::F32 => String::new(),
            format => format!(", {format}"),
        };
        let size = format!("{net}, k={layers} n={n} q={q} B={rows} T={steps}{weights}");
        let named = |pass| {
            let (name, what) = match pass {
                Kind::Infer => (format!("infer-{net}"), format!("whole sequences, {size}")),
                Kind::Train => (format!("train-{net}"), format!("forward+backward, {size}")),
                Kind::Stream => {
                    let what = format!("one step, {net}, k={layers} n={n} q={q} B={rows}{weights}");
                    (format!("stream-{net}"), what)
                }
            };
            Pass { name, what, pass, shape }
        };
        Ok(passes.into_iter().map(named).collect())
    }

    fn shape(&self, net: NetworkKind) -> Shape {
        let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let steps = number(self.steps);
        Shape {
            cell: net.cell(Nonlinearity::Tanh),
            direction: match net.bidirectional() {
                true => Direction::Bidirectional,
                false => Direction::Forward,
            },
            layers: number(self.layers),
            n: number(self.units),
            q: number(self.inputs),
            m: self.outputs.map_or(0, number),
            rows: number(self.batch),
            steps,
            delay: 0,
            min_length: steps,
            format: self.weights,
        }
    }
}

/// Memory of a measurement: the data of a batch, and the larger of the two passes.
fn needs(shape: &Shape, spec: &NetSpec, trains: bool, threads: usize) -> Needs {
    let slots = shape.steps.saturating_mul(shape.rows);
    let floats = slots.saturating_mul(shape.q.saturating_add(spec.output_width()));
    let weights = spec.parameters().saturating_mul(2);
    let size = BatchSize::new(shape.steps, shape.rows);
    let run = memory::model(spec).saturating_add(memory::run(spec, size));
    let pass = if trains {
        let drnn::Memory { saved, extra, fixed, .. } = memory::training(spec, size, threads);
        saved.saturating_add(extra).saturating_add(fixed).max(run)
    } else {
        run
    };
    let bytes = |floats: usize| floats.saturating_mul(size_of::<f32>());
    Needs::new("data", bytes(floats)).and("weights", bytes(weights)).and("passes", pass)
}
