//! `drnn bench --device cuda --net ..` and `--shapes FILE`: any shape on a GPU.
//!
//! ```text
//! check      every shape fits the GPU's memory              before anything else is done
//! compile    the kernels of all shapes                      on all cores
//! measure    shape by shape, a line each: states, outputs, a step by device events; then calls of
//!            64 steps on data in memory by the clock, as training runs them
//! ```
//!
//! `bench/peers_gpu.py --grid` runs the same shapes in PyTorch.

use super::shape::{Kind, Loss, NetworkShape};
use crate::Failure;
use crate::console::progress;
use crate::memory::{Force, Needs};
use crate::report::{commit, modified};
use crate::training::place::{DeviceName, Place};
use drnn::memory::BatchSize;
use drnn::random::Rng;
use drnn::{InputSpec, NetSpec};
use drnn_cuda::{CudaLearner, Device, Precision, Until};
use drnn_train::{
    AdamOptions, Batches, Dataset, Engine, Error, Examples, Inputs, Result, TargetData,
};
use serde::Serialize;
use std::collections::HashSet;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Steps of a call, as in training.
const STEPS_PER_CALL: usize = 64;
/// A call is shortened to this, where steps are long.
const CALL_SECONDS: f64 = 0.5;
/// Work before anything is timed, while the GPU's clocks rise.
const CLOCKS_RISE_SECONDS: f64 = 0.05;
/// Values of a data set, unless one batch has more: more than caches hold, and soon generated.
const DATA_VALUES: usize = 16 << 20;

/// How shapes are measured.
pub struct Run<'a> {
    pub device: &'a Device,
    pub precision: Precision,
    pub kinds: Vec<Kind>,
    pub rounds: usize,
    pub min_time: Duration,
    pub json: bool,
    /// Whether each shape waits for a line on standard input.
    pub wait: bool,
}

/// The times of a shape. Medians, in seconds.
#[derive(Debug, Serialize)]
struct Outcome<'a> {
    #[serde(flatten)]
    shape: &'a NetworkShape,
    precision: String,
    /// Those that run the recurrences.
    kernels: &'static str,
    parameters: usize,
    /// By GPU events: up to the last layer's states, up to the outputs, a whole step.
    states_device_s: Option<f64>,
    forward_device_s: Option<f64>,
    step_device_s: Option<f64>,
    /// The smallest and the largest of these three, from so many runs.
    ranges_s: [Option<[f64; 2]>; 3],
    times: [usize; 3],
    /// A training step by the clock, in calls of so many steps on data in memory.
    step_s: Option<f64>,
    steps_per_call: Option<usize>,
    /// Mean loss of the last call; null in JSON if it is not finite.
    final_loss: Option<f64>,
}

/// What is the same for all shapes, on every line.
#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    outcome: serde_json::Value,
    version: &'static str,
    commit: Option<String>,
    modified: Option<bool>,
    device: String,
}

/// Device times of one kind.
#[derive(Default)]
struct Times {
    median: Option<f64>,
    range: Option<[f64; 2]>,
    count: usize,
}

impl Run<'_> {
    /// Checks, compiles and measures all shapes. A shape that fails has its error on its line, and
    /// the next ones are measured all the same.
    pub fn all(
        &self,
        shapes: &[NetworkShape],
        force: Force,
        threads: Option<usize>,
    ) -> std::result::Result<(), Failure> {
        let specs = self.check(shapes, force)?;
        let threads =
            threads.or(std::thread::available_parallelism().ok().map(|n| n.get())).unwrap_or(1);
        self.compile(shapes, &specs, threads);
        let mut out = std::io::stdout().lock();
        if !self.json {
            let columns = ["GPU states", "GPU forward", "GPU step", "a step"];
            let columns = columns.map(|c| format!("{c:>12}"));
            writeln!(out, "{}, {}\n\n{}  shape", self.device, self.precision, columns.join(" "))?;
        }
        let mut lines = std::io::stdin().lines();
        let mut failed = Vec::new();
        for (shape, spec) in shapes.iter().zip(&specs) {
            if self.wait && lines.next().transpose()?.is_none() {
                break;
            }
            let outcome = self.measure(shape, spec);
            if let Err(why) = &outcome {
                failed.push(format!("{shape}: {why}"));
            }
            self.print(&mut out, shape, outcome)?;
        }
        match failed.first() {
            None => Ok(()),
            Some(first) => {
                let (failed, all) = (failed.len(), shapes.len());
                Err(Failure::Input(format!("{failed} of {all} shapes failed; {first}")))
            }
        }
    }

    /// The networks, all of which have an output layer; an error where one does not fit.
    fn check(
        &self,
        shapes: &[NetworkShape],
        force: Force,
    ) -> std::result::Result<Vec<NetSpec>, Failure> {
        let place = Place::Cuda(self.device.clone(), self.precision, DeviceName::Cuda);
        let mut specs = Vec::new();
        for shape in shapes {
            let spec = shape.spec(shape.outputs.unwrap_or(1))?;
            let size = BatchSize::new(shape.steps, shape.batch);
            let card = CudaLearner::estimate(self.device, self.precision, &spec, size);
            let card = card.map_err(|why| Failure::Input(format!("{shape}: {why}")))?;
            let data = size_of::<f32>().saturating_mul(values(shape, &spec));
            let weights = drnn::memory::model(&spec);
            let needs = Needs::new("data", data).and("weights", weights);
            needs
                .and_card(card.saturating_add(data))
                .check_at(force, &place, "smaller units, batch or steps")
                .map_err(|why| match why {
                    Failure::Input(why) => Failure::Input(format!("{shape}: {why}")),
                    why => why,
                })?;
            specs.push(spec);
        }
        Ok(specs)
    }

    /// Compiles the kernels of all shapes on `threads` threads. Errors are left to those who need
    /// the kernels.
    fn compile(&self, shapes: &[NetworkShape], specs: &[NetSpec], threads: usize) {
        let (start, next) = (Instant::now(), AtomicUsize::new(0));
        let mut known = HashSet::new();
        let new = |(shape, spec): &(&NetworkShape, &NetSpec)| {
            known.insert((spec.canonical(), shape.batch))
        };
        let wanted: Vec<_> = shapes.iter().zip(specs).filter(new).collect();
        std::thread::scope(|scope| {
            for _ in 0..threads.min(wanted.len()) {
                scope.spawn(|| {
                    while let Some((shape, spec)) = wanted.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let rows = shape.batch;
                        let _ = CudaLearner::compile(self.device, self.precision, spec, rows);
                    }
                });
            }
        });
        let seconds = start.elapsed().as_secs_f64();
        progress!("kernels of {} shapes are loaded after {seconds:.1} s", shapes.len());
    }

    fn measure<'a>(&self, shape: &'a NetworkShape, spec: &NetSpec) -> Result<Outcome<'a>> {
        let data = examples(shape, spec)?;
        let mut learner =
            CudaLearner::new(self.device, self.precision, spec, AdamOptions::default(), 1)
                .map_err(Error::from)?;
        let (infers, trains) =
            (self.kinds.contains(&Kind::Infer), self.kinds.contains(&Kind::Train));
        let mut device = |until, wanted| match wanted {
            true => self.device_times(&mut learner, &data, shape.batch, until),
            false => Ok(Times::default()),
        };
        let states = device(Until::States, infers)?;
        let forward = device(Until::Outputs, infers)?;
        let step = device(Until::Step, trains)?;
        let all = [&states, &forward, &step];
        let steps_per_call =
            step.median.map(|seconds| ((CALL_SECONDS / seconds) as usize).clamp(8, STEPS_PER_CALL));
        let training = steps_per_call.map(|steps| self.training(&mut learner, &data, shape, steps));
        let [step_s, final_loss] = match training.transpose()? {
            Some(found) => found.map(Some),
            None => [None; 2],
        };
        Ok(Outcome {
            shape,
            precision: self.precision.to_string(),
            kernels: learner.kernels(),
            parameters: spec.parameters(),
            states_device_s: states.median,
            forward_device_s: forward.median,
            step_device_s: step.median,
            ranges_s: all.map(|times| times.range),
            times: all.map(|times| times.count),
            step_s,
            steps_per_call,
            final_loss,
        })
    }

    /// One batch repeatedly, by device events: for the shortest time, but no less than `rounds` and
    /// no more than twenty times as often.
    fn device_times(
        &self,
        learner: &mut CudaLearner,
        data: &dyn Dataset,
        rows: usize,
        until: Until,
    ) -> Result<Times> {
        let chosen: Vec<u32> = (0..rows as u32).collect();
        let warm_up = learner.device_seconds(data, &chosen, until, 2)?;
        let once = warm_up.iter().copied().fold(f64::INFINITY, f64::min).max(1e-6);
        let once = once * CudaLearner::LAUNCHES as f64;
        let times = (self.min_time.as_secs_f64() / once).ceil() as usize;
        let times = times.clamp(self.rounds, 20 * self.rounds);
        let rising = (CLOCKS_RISE_SECONDS / once).ceil() as usize;
        learner.device_seconds(data, &chosen, until, rising.min(1000))?;
        let found = learner.device_seconds(data, &chosen, until, times)?;
        let range = [found.iter().copied().fold(f64::INFINITY, f64::min), max(&found)];
        Ok(Times { median: Some(super::median(&found)), range: Some(range), count: times })
    }

    /// A training step by the clock, and the mean loss of the last call: sequences in random order,
    /// `steps` steps per call.
    fn training(
        &self,
        learner: &mut CudaLearner,
        data: &Examples,
        shape: &NetworkShape,
        steps: usize,
    ) -> Result<[f64; 2]> {
        let (mut rng, mut loss) = (Rng::new(2), 0.0);
        let mut call = || -> Result<f64> {
            let chosen = (0..steps * shape.batch).map(|_| rng.below(data.len()) as u32);
            let chosen: Vec<u32> = chosen.collect();
            let (batch, clip) = (shape.batch, Some(1.0));
            let batches =
                Batches { epoch: 0, chosen: &chosen, batch, rate: 1e-3, clip, dropout: None };
            let start = Instant::now();
            loss = learner.train(data, &batches)?.loss.mean();
            Ok(start.elapsed().as_secs_f64() / steps as f64)
        };
        call()?; // graphs are captured
        let times = (0..self.rounds).map(|_| call()).collect::<Result<Vec<_>>>()?;
        Ok([super::median(&times), loss])
    }

    fn print(
        &self,
        out: &mut impl Write,
        shape: &NetworkShape,
        outcome: Result<Outcome>,
    ) -> std::io::Result<()> {
        if !self.json {
            return match outcome {
                Ok(outcome) => {
                    let Outcome { states_device_s, forward_device_s, step_device_s, .. } = outcome;
                    let times = [states_device_s, forward_device_s, step_device_s, outcome.step_s];
                    let times =
                        times.map(|s| format!("{:>12}", s.map_or("-".into(), super::human_time)));
                    writeln!(out, "{}  {shape}; {}", times.join(" "), outcome.kernels)
                }
                Err(why) => writeln!(out, "{shape}: {why}"),
            };
        }
        let outcome = match outcome {
            Ok(outcome) => serde_json::to_value(outcome)?,
            Err(why) => {
                let mut shape = serde_json::to_value(shape)?;
                shape["error"] = why.to_string().into();
                shape
            }
        };
        let line = Line {
            outcome,
            version: env!("CARGO_PKG_VERSION"),
            commit: commit(),
            modified: modified(),
            device: self.device.to_string(),
        };
        serde_json::to_writer(&mut *out, &line)?;
        writeln!(out)?;
        out.flush()
    }
}

fn max(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// Values that a sequence has: inputs and targets.
fn width(shape: &NetworkShape, spec: &NetSpec) -> usize {
    let inputs = match spec.input() {
        InputSpec::Dense(q) => q,
        InputSpec::Tokens { .. } => 1,
    };
    let targets = match shape.loss.unwrap_or_default() {
        Loss::SquaredError => spec.output_width(),
        Loss::CrossEntropy => 1,
    };
    inputs + targets
}

/// Sequences in the data set: those of a call, fewer where they are large, but one batch at least.
fn sequences(shape: &NetworkShape, spec: &NetSpec) -> usize {
    let each = shape.steps.saturating_mul(width(shape, spec));
    (DATA_VALUES / each).min(STEPS_PER_CALL * shape.batch).max(shape.batch)
}

/// Values of the data set.
fn values(shape: &NetworkShape, spec: &NetSpec) -> usize {
    let each = shape.steps.saturating_mul(width(shape, spec));
    sequences(shape, spec).saturating_mul(each)
}

/// Random sequences in memory.
fn examples(shape: &NetworkShape, spec: &NetSpec) -> Result<Examples> {
    let (mut rng, count) = (Rng::new(1), sequences(shape, spec));
    let elements = count * shape.steps;
    let inputs = match spec.input() {
        InputSpec::Dense(q) => {
            Inputs::Dense((0..elements * q).map(|_| rng.symmetric(1.0)).collect())
        }
        InputSpec::Tokens { symbols, .. } => {
            Inputs::Tokens((0..elements).map(|_| rng.below(symbols) as u32).collect())
        }
    };
    let m = spec.output_width();
    let targets = match shape.loss.unwrap_or_default() {
        Loss::SquaredError => {
            TargetData::Values((0..elements * m).map(|_| rng.symmetric(1.0)).collect())
        }
        Loss::CrossEntropy => {
            TargetData::Classes((0..elements).map(|_| rng.below(m) as u32).collect())
        }
    };
    let q = match spec.input() {
        InputSpec::Dense(q) => q,
        InputSpec::Tokens { .. } => 1,
    };
    Examples::new(inputs, targets, [count, shape.steps], [q, m])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(json: &str) -> Vec<NetworkShape> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_line_repeats_the_shape_of_the_file() {
        let text = r#"[{"net": "bilstm", "layers": 2, "units": 4, "batch": 3, "steps": 5, "inputs": 2,
                        "outputs": 6, "loss": "squared-error"}]"#;
        let shape = &shapes(text)[0];
        let outcome = Outcome {
            shape,
            precision: "f16".into(),
            kernels: "plain",
            parameters: 7,
            states_device_s: Some(1e-3),
            forward_device_s: Some(2e-3),
            step_device_s: None,
            ranges_s: [Some([1e-3, 2e-3]), None, None],
            times: [5, 5, 0],
            step_s: None,
            steps_per_call: None,
            final_loss: Some(f64::NAN),
        };
        let line = serde_json::to_value(&outcome).unwrap();
        let given: serde_json::Value = serde_json::from_str(text).unwrap();
        for (key, value) in given[0].as_object().unwrap() {
            assert_eq!(&line[key], value, "{key}");
        }
        assert_eq!(line["forward_device_s"], 2e-3);
        assert!(line["final_loss"].is_null());
        // No key is there twice.
        let text = serde_json::to_string(&outcome).unwrap();
        assert_eq!(text.matches(':').count(), line.as_object().unwrap().len());
    }

    #[test]
    fn data_fit_the_network_and_hold_a_batch() {
        let all = shapes(
            r#"[{"net": "lstm", "units": 4, "batch": 3, "steps": 5, "inputs": 2},
                {"net": "bigru", "units": 4, "batch": 3, "steps": 5, "outputs": 7,
                 "loss": "cross-entropy"},
                {"net": "rnn", "units": 4, "symbols": 9, "embedding": 3, "outputs": 2}]"#,
        );
        for shape in &all {
            let spec = shape.spec(shape.outputs.unwrap_or(1)).unwrap();
            let data = examples(shape, &spec).unwrap();
            data.check(&spec).unwrap();
            assert_eq!(data.len(), 64 * shape.batch);
            assert_eq!(data.steps(), shape.steps);
            assert_eq!(data.stored().is_some(), shape.symbols.is_none());
        }
        let large = &shapes(r#"[{"net": "lstm", "batch": 512, "steps": 1000}]"#)[0];
        let spec = large.spec(1).unwrap();
        assert_eq!(sequences(large, &spec), 512);
        assert_eq!(values(large, &spec), 512 * 1000 * 65);
    }
}
