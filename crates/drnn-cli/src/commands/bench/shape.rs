//! `drnn bench --net lstm --units 512 ..`: networks and batches of any shape, on the command line or in
//! a file.

use super::cases::{self, Work};
use crate::Failure;
use crate::args::network::{NetworkKind, Nonlinearity};
use crate::memory::{Force, Needs};
use crate::training::place::PlaceArguments;
use clap::{Args, ValueEnum};
use drnn::memory::{self, BatchSize};
use drnn::{Cpu, Direction, NetSpec, WeightFormat};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Networks and batches on the command line.
#[derive(Debug, Args)]
#[command(next_help_heading = "Any shape")]
pub struct ShapeArguments {
    /// Measure this network instead of the cases: rnn, lstm or gru, or a bidirectional one
    #[arg(long, value_enum, group = "measured", conflicts_with = "cases")]
    net: Option<NetworkKind>,
    /// Measure the shapes of a JSON file, a list of objects with the keys net, units, layers, batch,
    /// steps, inputs, outputs, symbols, embedding and loss; as the options of these names, all but
    /// net may be left out. On a GPU, --json prints a line per shape as soon as it is measured
    #[arg(long, value_name = "FILE", group = "measured", conflicts_with = "cases")]
    shapes: Option<PathBuf>,
    /// Units of a layer, n
    #[arg(long, value_name = "N", default_value_t = default_units() as u64, requires = "net", conflicts_with = "shapes", value_parser = size(65_536))]
    units: u64,
    /// Layers, k
    #[arg(long, value_name = "K", default_value_t = 1, requires = "net", conflicts_with = "shapes", value_parser = size(1000))]
    layers: u64,
    /// Sequences, B
    #[arg(long, value_name = "B", default_value_t = default_batch() as u64, requires = "net", conflicts_with = "shapes", value_parser = size(1_000_000))]
    batch: u64,
    /// Steps of each sequence, T
    #[arg(long, value_name = "T", default_value_t = default_steps() as u64, requires = "net", conflicts_with = "shapes", value_parser = size(1_000_000))]
    steps: u64,
    /// Floats per input vector, q
    #[arg(long, value_name = "Q", default_value_t = default_inputs() as u64, requires = "net", conflicts_with = "shapes", value_parser = size(1_000_000))]
    inputs: u64,
    /// Values per output, m [default: on a GPU 1; on the CPU the outputs are the last layer's states]
    #[arg(long, value_name = "M", requires = "net", conflicts_with = "shapes", value_parser = size(1_000_000))]
    outputs: Option<u64>,
    /// Token input instead, on a GPU: size of the alphabet, V
    #[arg(long, value_name = "V", requires_all = ["net", "embedding"], conflicts_with_all = ["inputs", "shapes"], value_parser = size(1_000_000))]
    symbols: Option<u64>,
    /// Token input: dimensions of the embedding, E
    #[arg(long, value_name = "E", requires = "symbols", value_parser = size(1_000_000))]
    embedding: Option<u64>,
    /// Loss of every output, on a GPU [default: squared-error]
    #[arg(long, value_enum, requires = "net", conflicts_with = "shapes")]
    loss: Option<Loss>,
    /// What is measured [default: infer and train]
    #[arg(long, value_enum, requires = "measured")]
    pass: Option<Kind>,
    /// Number format of the weights: f32, f16, bf16 or int8; for --pass infer and stream
    #[arg(long, value_name = "FORMAT", default_value = "f32", requires = "pass")]
    weights: WeightFormat,
    /// On a GPU: before each shape of --shapes wait for a line on standard input, and stop at its end;
    /// another program may use the GPU meanwhile
    #[arg(long, requires = "measured")]
    wait: bool,
}

/// A number from 1 to `max`.
fn size(max: u64) -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=max)
}

/// What is measured of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// The forward pass of whole sequences
    Infer,
    /// Forward and backward, gradients of all parameters; on a GPU also clipping and Adam
    Train,
    /// One step of B live sequences, on the CPU
    Stream,
}

/// The loss of a training step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    #[default]
    SquaredError,
    CrossEntropy,
}

/// A network and its batch.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkShape {
    pub net: NetworkKind,
    #[serde(default = "one")]
    pub layers: usize,
    #[serde(default = "default_units")]
    pub units: usize,
    #[serde(default = "default_batch")]
    pub batch: usize,
    #[serde(default = "default_steps")]
    pub steps: usize,
    #[serde(default = "default_inputs")]
    pub inputs: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbols: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedding: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
}

fn one() -> usize {
    1
}

fn default_units() -> usize {
    512
}

fn default_batch() -> usize {
    16
}

fn default_steps() -> usize {
    100
}

fn default_inputs() -> usize {
    64
}

impl NetworkShape {
    /// Where a number is out of range or two options contradict each other, which.
    fn check(&self) -> Result<(), String> {
        let NetworkShape { net, layers, units, batch, steps, inputs, .. } = *self;
        if net.delayed() {
            let plain = net.plain();
            let why = "a delayed network is the same recurrence for d steps more";
            return Err(format!("--net {net}: {why}: --net {plain}, --steps T + d"));
        }
        const MILLION: usize = 1_000_000;
        for (name, value, max) in [
            ("units", Some(units), 65_536),
            ("layers", Some(layers), 1000),
            ("batch", Some(batch), MILLION),
            ("steps", Some(steps), MILLION),
            ("inputs", Some(inputs), MILLION),
            ("outputs", self.outputs, MILLION),
            ("symbols", self.symbols, MILLION),
            ("embedding", self.embedding, MILLION),
        ] {
            if value.is_some_and(|value| !(1..=max).contains(&value)) {
                return Err(format!("{name} is {}, expected 1 to {max}", value.unwrap_or(0)));
            }
        }
        if self.symbols.is_some() != self.embedding.is_some() {
            return Err("token input needs both symbols and embedding".into());
        }
        Ok(())
    }

    /// The network with an output layer of `outputs` values, 0 for none.
    pub fn spec(&self, outputs: usize) -> drnn::Result<NetSpec> {
        let cell = self.net.cell(Nonlinearity::Tanh);
        let builder = NetSpec::builder(cell).units(vec![self.units; self.layers]);
        let builder = match (self.symbols, self.embedding) {
            (Some(symbols), Some(embedding)) => builder.tokens(symbols, embedding),
            _ => builder.dense(self.inputs),
        };
        let builder = match self.net.bidirectional() {
            true => builder.bidirectional(),
            false => builder,
        };
        match outputs {
            0 => builder.build(),
            m => builder.outputs(m).build(),
        }
    }
}

impl std::fmt::Display for NetworkShape {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let NetworkShape { net, layers, units, batch, steps, inputs, .. } = self;
        match self.symbols {
            Some(symbols) => {
                write!(f, "{net}, k={layers} n={units} V={symbols} B={batch} T={steps}")
            }
            None => write!(f, "{net}, k={layers} n={units} q={inputs} B={batch} T={steps}"),
        }
    }
}

/// One pass of one network on the CPU, to be measured.
pub struct Pass {
    pub name: String,
    pub what: String,
    pass: Kind,
    shape: cases::Shape,
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
    /// All shapes that are to be measured; none if no network is given.
    pub fn shapes(&self) -> Result<Vec<NetworkShape>, Failure> {
        if let Some(path) = &self.shapes {
            return read(path);
        }
        let Some(net) = self.net else { return Ok(Vec::new()) };
        let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let shape = NetworkShape {
            net,
            layers: number(self.layers),
            units: number(self.units),
            batch: number(self.batch),
            steps: number(self.steps),
            inputs: number(self.inputs),
            outputs: self.outputs.map(number),
            symbols: self.symbols.map(number),
            embedding: self.embedding.map(number),
            loss: self.loss,
        };
        shape.check().map_err(Failure::Input)?;
        Ok(vec![shape])
    }

    /// What is measured of each shape.
    pub fn kinds(&self) -> Vec<Kind> {
        match self.pass {
            Some(pass) => vec![pass],
            None => vec![Kind::Infer, Kind::Train],
        }
    }

    /// Whether each shape waits for a line on standard input.
    pub fn wait(&self) -> bool {
        self.wait
    }

    /// An error for options that only the other device has.
    pub fn check_device(
        &self,
        place: PlaceArguments,
        shapes: &[NetworkShape],
    ) -> Result<(), Failure> {
        let refuse = |why: &str| Err(Failure::Input(why.into()));
        if self.wait && self.shapes.is_none() {
            return refuse("--wait: it waits before each shape of a file, --shapes FILE");
        }
        if place.must_be_gpu() {
            if self.pass == Some(Kind::Stream) {
                return refuse(
                    "--pass stream: live sequences run on the CPU, without --device cuda",
                );
            }
            if self.weights != WeightFormat::F32 {
                return refuse("--weights: on a GPU --precision says how products are rounded");
            }
        } else if !place.may_be_gpu() {
            if shapes.iter().any(|shape| shape.symbols.is_some()) {
                return refuse("--symbols: token input of any shape needs --device cuda");
            }
            if shapes.iter().any(|shape| shape.loss.is_some()) {
                return refuse("--loss: passes on the CPU have none; it needs --device cuda");
            }
            if self.wait {
                return refuse("--wait: it lets other programs use a GPU; it needs --device cuda");
            }
        }
        Ok(())
    }

    /// The passes over each shape on the CPU; an error where memory is too small for one.
    pub fn passes(
        &self,
        shapes: &[NetworkShape],
        force: Force,
        threads: usize,
    ) -> Result<Vec<Pass>, Failure> {
        if self.pass == Some(Kind::Train) && self.weights != WeightFormat::F32 {
            return Err(Failure::Input("--weights: training is in f32".into()));
        }
        let all = shapes.iter().map(|shape| self.passes_of(shape, force, threads));
        Ok(all.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }

    fn passes_of(
        &self,
        network: &NetworkShape,
        force: Force,
        threads: usize,
    ) -> Result<Vec<Pass>, Failure> {
        let (kinds, shape) = (self.kinds(), self.on_cpu(network));
        let spec = shape.spec()?;
        needs(&shape, &spec, kinds.contains(&Kind::Train), threads)
            .check(force, "smaller --units, --batch or --steps")?;
        let weights = match self.weights {
            WeightFormat::F32 => String::new(),
            format => format!(", {format}"),
        };
        let net = network.net;
        let cases::Shape { n, q, rows, layers, .. } = shape;
        let named = |pass| {
            let (name, what) = match pass {
                Kind::Infer => ("infer", format!("whole sequences, {network}{weights}")),
                Kind::Train => ("train", format!("forward+backward, {network}{weights}")),
                Kind::Stream => {
                    ("stream", format!("one step, {net}, k={layers} n={n} q={q} B={rows}{weights}"))
                }
            };
            Pass { name: format!("{name}-{net}"), what, pass, shape }
        };
        Ok(kinds.into_iter().map(named).collect())
    }

    fn on_cpu(&self, network: &NetworkShape) -> cases::Shape {
        cases::Shape {
            cell: network.net.cell(Nonlinearity::Tanh),
            direction: match network.net.bidirectional() {
                true => Direction::Bidirectional,
                false => Direction::Forward,
            },
            layers: network.layers,
            n: network.units,
            q: network.inputs,
            m: network.outputs.unwrap_or(0),
            rows: network.batch,
            steps: network.steps,
            delay: 0,
            min_length: network.steps,
            format: self.weights,
        }
    }
}

/// The shapes of a file.
fn read(path: &Path) -> Result<Vec<NetworkShape>, Failure> {
    let refuse = |why: String| Failure::Input(format!("--shapes {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|why| refuse(why.to_string()))?;
    let shapes: Vec<NetworkShape> = serde_json::from_str(&text).map_err(|why| {
        refuse(format!("{why}; expected a list such as [{{\"net\": \"lstm\", \"units\": 512}}]"))
    })?;
    if shapes.is_empty() {
        return Err(refuse("an empty list".into()));
    }
    for (i, shape) in shapes.iter().enumerate() {
        shape.check().map_err(|why| refuse(format!("shape {i}: {why}")))?;
    }
    Ok(shapes)
}

/// Memory of a measurement: the data of a batch, and the larger of the two passes.
fn needs(shape: &cases::Shape, spec: &NetSpec, trains: bool, threads: usize) -> Needs {
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
