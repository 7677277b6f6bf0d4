//! Sweeps over the paper's synthetic tasks.

use super::Sweep;
use super::task::{Measured, SweepTask};
use crate::Failure;
use crate::args::shape::Shape;
use crate::memory::Needs;
use crate::training::place::{Network, Place};
use clap::Args;
use drnn::{Cpu, NetSpec, NetSpecBuilder, Padding};
use drnn_train::reversal::Reversal;
use drnn_train::sine::campaign::Gamma;
use drnn_train::sine::{Sine, SinePart};
use drnn_train::{Dataset, Examples, Given, Metric, OnData, Options, Schedule, seed};
use std::path::Path;

/// Reverse a sequence of symbols: accuracy
#[derive(Debug, Args)]
pub struct ReversalTask {
    /// Elements per sequence, T
    #[arg(long, value_name = "T", default_value_t = 20, value_parser = clap::value_parser!(u16).range(2..=1000))]
    steps: u16,
    /// Number of symbols, V
    #[arg(long, value_name = "V", default_value_t = 4, value_parser = clap::value_parser!(u16).range(2..=1000))]
    symbols: u16,
    /// Training sequences; validation and test set have a fifth as many each
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sequences: u32,
    #[command(flatten)]
    pub sweep: Sweep,
}

/// The sine of a filtered sequence, where the filter looks ahead: mean squared error
#[derive(Debug, Args)]
pub struct SineTask {
    /// Frequency, a multiple of 0.1
    #[arg(long, value_name = "G", default_value = "0.5")]
    gamma: Gamma,
    /// Elements that the filter looks ahead, a
    #[arg(long, value_name = "A", default_value_t = 5, value_parser = clap::value_parser!(u8).range(0..=20))]
    ahead: u8,
    /// Training sequences; validation and test set have a fifth as many each
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sequences: u32,
    #[command(flatten)]
    pub sweep: Sweep,
}

/// A generated task, in memory.
pub struct Dense {
    name: &'static str,
    what: String,
    metric: Metric,
    /// Training, validation and test set.
    examples: [Examples; 3],
    /// Values per input and per output.
    widths: [usize; 2],
    delays: Vec<usize>,
    max_delay: usize,
    options: Options,
}

/// What both tasks are trained with.
fn options() -> Options {
    Options { rate: 1e-2, schedule: Schedule::Cosine, ..Options::default() }
}

/// The sizes of training, validation and test set.
fn parts(sequences: u32) -> [usize; 3] {
    let n = sequences as usize;
    [n, (n / 5).max(1), (n / 5).max(1)]
}

/// Checks that the generated sequences fit into memory.
fn check_data(counts: [usize; 3], [steps, q, m]: [usize; 3], sweep: &Sweep) -> Result<(), Failure> {
    let sequences = counts.into_iter().sum::<usize>();
    let bytes = [steps, q + m, size_of::<f32>()].into_iter().fold(sequences, usize::saturating_mul);
    Needs::new("data", bytes).check(sweep.running.force, "fewer --sequences")
}

impl ReversalTask {
    pub fn ready(&self, seed: u64) -> Result<Dense, Failure> {
        let (steps, symbols) = (usize::from(self.steps), usize::from(self.symbols));
        let (task, counts) = (Reversal { steps, symbols }, parts(self.sequences));
        check_data(counts, [steps, symbols, 1], &self.sweep)?;
        // Each part has its own random numbers, as in `drnn reproduce reversal`.
        let part = |i: usize| task.examples(counts[i], seed::of_part(seed, i as u64 + 1));
        let mut delays: Vec<usize> = [0.0, 0.1, 0.25, 0.5, 0.75, 1.0]
            .map(|share| (share * (steps - 1) as f64).round() as usize)
            .into();
        delays.dedup();
        Ok(Dense {
            name: "reversal",
            what: format!("reversal of {steps} elements of {symbols} symbols, seed {seed}"),
            metric: Metric::Accuracy,
            examples: [part(0)?, part(1)?, part(2)?],
            widths: [symbols; 2],
            delays,
            max_delay: steps - 1,
            options: Options { epochs: 60, ..options() },
        })
    }
}

impl SineTask {
    pub fn ready(&self, seed: u64) -> Result<Dense, Failure> {
        let (task, counts) =
            (Sine::new(self.gamma.into(), self.ahead.into()), parts(self.sequences));
        check_data(counts, [task.steps, 1, 1], &self.sweep)?;
        Ok(Dense {
            name: "sine",
            what: format!("sine, gamma {}, {} elements ahead, seed {seed}", self.gamma, self.ahead),
            metric: Metric::SquaredError,
            examples: [
                task.examples(counts[0], seed, SinePart::Train)?,
                task.examples(counts[1], seed, SinePart::Valid)?,
                task.examples(counts[2], seed, SinePart::Test)?,
            ],
            widths: [1; 2],
            delays: vec![0, 2, 4, 5, 6, 8, 10],
            max_delay: task.steps - 1,
            options: Options { epochs: 100, batch: 50, ..options() },
        })
    }
}

impl Dense {
    fn widths(&self) -> impl Fn(NetSpecBuilder) -> NetSpecBuilder {
        let [q, m] = self.widths;
        move |builder| builder.dense(q).outputs(m)
    }

    fn spec(&self, shape: &Shape) -> drnn::Result<NetSpec> {
        shape.spec(Padding::Null, self.widths())
    }
}

impl SweepTask for Dense {
    type Engine = Network;

    fn name(&self) -> &'static str {
        self.name
    }

    fn describe(&self) -> String {
        self.what.clone()
    }

    fn metric(&self) -> Metric {
        self.metric
    }

    fn train(&self, _: &Shape) -> &(dyn Dataset + 'static) {
        &self.examples[0]
    }

    fn sequences(&self) -> [usize; 3] {
        self.examples.each_ref().map(Dataset::len)
    }

    fn delays(&self) -> Vec<usize> {
        self.delays.clone()
    }

    fn max_delay(&self) -> usize {
        self.max_delay
    }

    fn options(&self, _: Given) -> Options {
        self.options
    }

    fn same_size(&self, shape: Shape) -> Result<Shape, Failure> {
        Ok(shape.same_size(self.widths())?)
    }

    fn needs(
        &self,
        place: &Place,
        shape: &Shape,
        options: &Options,
        threads: usize,
    ) -> Result<Needs, Failure> {
        let data = self.examples.each_ref().map(|examples| examples as &dyn Dataset);
        Ok(place.needs(&self.spec(shape)?, &data, options, threads)?)
    }

    fn engine(
        &self,
        place: &Place,
        cpu: &Cpu,
        shape: &Shape,
        options: &Options,
    ) -> Result<Network, Failure> {
        Ok(place.network(cpu, &self.spec(shape)?, options)?)
    }

    fn validation(&self, _: &Shape) -> Result<Measured<'_, Self>, Failure> {
        Ok(Box::new(OnData::new(&self.examples[1] as &dyn Dataset, self.metric)))
    }

    fn test(&self, _: &Shape) -> Result<Option<Measured<'_, Self>>, Failure> {
        Ok(Some(Box::new(OnData::new(&self.examples[2] as &dyn Dataset, self.metric))))
    }

    fn save(&self, engine: &mut Network, path: &Path) -> Result<(), Failure> {
        Ok(engine.model()?.save(path)?)
    }
}
