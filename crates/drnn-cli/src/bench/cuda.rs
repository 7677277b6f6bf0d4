//! `drnn bench --device cuda`: training steps on a GPU. `bench/peers_gpu.py` runs the same ones in PyTorch.
//!
//! A step is everything from the gathering of its batch to Adam. Steps are asked for some at a time, as a training does.

use crate::Failure;
use crate::place::Place;
use drnn::rng::Rng;
use drnn::{Cell, Cpu, NetSpec, Padding};
use drnn_cuda::CudaLearner;
use drnn_train::{
    AdamOptions, Answers, Batches, Engine, Gathered, Inputs, Options, Result, Source,
};
use serde::Serialize;
use std::io::Write;
use std::time::{Duration, Instant};

/// Networks of the paper, and how many of them learn at once, each on its own.
pub struct Case {
    pub name: &'static str,
    layers: usize,
    n: usize,
    both_ways: bool,
    delay: usize,
    at_once: usize,
}

const fn case(name: &'static str, layers: usize, n: usize, delay: usize) -> Case {
    Case { name, layers, n, both_ways: false, delay, at_once: 1 }
}

const fn both_ways(name: &'static str, layers: usize, n: usize) -> Case {
    Case { name, layers, n, both_ways: true, delay: 0, at_once: 1 }
}

const fn small(name: &'static str, at_once: usize) -> Case {
    Case { name, layers: 1, n: 100, both_ways: false, delay: 0, at_once }
}

pub const CASES: [Case; 11] = [
    case("dlstm-1024", 1, 1024, 8),
    case("dlstm-512", 1, 512, 8),
    case("lstm-2x594", 2, 594, 0),
    case("lstm-5x343", 5, 343, 0),
    both_ways("bilstm-1x722", 1, 722),
    both_ways("bilstm-2x363", 2, 363),
    both_ways("bilstm-5x202", 5, 202),
    small("lstm-100", 1),
    small("lstm-100-lanes8", 8),
    small("lstm-100-lanes32", 32),
    small("lstm-100-lanes128", 128),
];

/// The same random batch every time.
struct Same(Gathered);

impl Source for Same {
    fn len(&self) -> usize {
        u32::MAX as usize
    }

    fn fits(&self, _: &NetSpec) -> Result<()> {
        Ok(())
    }

    fn gather(&self, _: usize, _: &[u32], to: &mut Gathered) {
        to.clone_from(&self.0);
    }
}

impl Case {
    /// Large ones read 28 symbols embedded in 10 dimensions and tell 27 classes, 128 sequences of 180 answers; small ones
    /// are those of the sine experiment, 100 sequences of 50 numbers.
    fn ready(&self) -> Result<(NetSpec, Same)> {
        let mut rng = Rng::new(1);
        let builder = NetSpec::builder(Cell::Lstm).units(vec![self.n; self.layers]);
        if self.n == 100 {
            let (steps, rows) = (50, 100);
            let mut numbers = || (0..steps * rows).map(|_| rng.symmetric(1.0)).collect();
            let (inputs, answers) = (Inputs::Dense(numbers()), Answers::Values(numbers()));
            let same = Gathered { steps, rows, inputs, answers, ..Gathered::default() };
            return Ok((builder.dense(1).outputs(1).build()?, Same(same)));
        }
        let (steps, rows) = (180 + self.delay, 128);
        let mut below = |count: usize, most: usize| -> Vec<u32> {
            (0..count).map(|_| rng.below(most) as u32).collect()
        };
        let inputs = Inputs::Tokens(below(steps * rows, 28));
        let answers = Answers::Classes(below(180 * rows, 27));
        let same = Gathered { steps, rows, inputs, answers, ..Gathered::default() };
        let builder = if self.both_ways { builder.bidirectional() } else { builder };
        let builder = builder.tokens(28, 10).outputs(27).delay(self.delay, Padding::LookAhead);
        Ok((builder.build()?, Same(same)))
    }
}

/// What a case took.
#[derive(Serialize)]
struct Outcome {
    name: &'static str,
    net: String,
    /// Of one step, all networks at work.
    median_s: f64,
    /// Of all networks together.
    steps_per_second: f64,
    /// Of one network alone, by the GPU's own clock: the way forward, and a whole step.
    forward_device_s: Option<f64>,
    step_device_s: Option<f64>,
}

/// Measures the cases that are named, or all.
pub fn run(
    place: &Place,
    cases: &[String],
    rounds: usize,
    least: Duration,
    json: bool,
) -> std::result::Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if !json {
        let columns = ["a step", "steps/s", "GPU forward", "GPU step"].map(|c| format!("{c:>12}"));
        writeln!(out, "{place}\n\n{:18} {}  network", "case", columns.join(" "))?;
    }
    let mut outcomes = Vec::new();
    for case in CASES.iter().filter(|c| cases.is_empty() || cases.iter().any(|n| n == c.name)) {
        let outcome = measure(case, place, rounds, least)?;
        if !json {
            let Outcome { name, net, median_s, steps_per_second, .. } = &outcome;
            let time = super::human_time(*median_s);
            let [forward, step] = [outcome.forward_device_s, outcome.step_device_s]
                .map(|s| s.map_or("-".into(), super::human_time));
            writeln!(
                out,
                "{name:18} {time:>12} {steps_per_second:>12.0} {forward:>12} {step:>12}  {net}"
            )?;
        }
        outcomes.push(outcome);
    }
    if json {
        let version = env!("CARGO_PKG_VERSION");
        let report = serde_json::json!({
            "version": version, "commit": option_env!("DRNN_COMMIT"), "device": place.to_string(), "cases": outcomes,
        });
        writeln!(out, "{report}")?;
    }
    Ok(())
}

fn measure(
    case: &Case,
    place: &Place,
    rounds: usize,
    least: Duration,
) -> std::result::Result<Outcome, Failure> {
    let (spec, same) = case.ready()?;
    let network =
        |seed| place.network(&Cpu::new(1), &spec, &Options { seed, ..Options::default() });
    let networks = (0..case.at_once as u64).map(network);
    let mut networks: Vec<_> = networks.collect::<std::result::Result<_, _>>()?;
    let (rows, steps) = (same.0.rows, networks[0].stride());
    let chosen: Vec<u32> = (0..(rows * steps) as u32).collect();
    let batches = Batches { visit: 0, chosen: &chosen, batch: rows, rate: 1e-3, clip: Some(1.0) };
    // Each network on a thread of its own, for some calls.
    let mut round = |calls: usize| -> Result<f64> {
        let start = Instant::now();
        std::thread::scope(|scope| {
            let spawned: Vec<_> = networks
                .iter_mut()
                .map(|network| {
                    scope.spawn(|| {
                        (0..calls).try_for_each(|_| network.train(&same, &batches).map(drop))
                    })
                })
                .collect();
            spawned.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        Ok(start.elapsed().as_secs_f64() / (calls * steps) as f64)
    };
    round(1)?; // kernels are compiled, graphs captured
    let once = round(1)?;
    let calls = (least.as_secs_f64() / (once * steps as f64)).ceil().clamp(1.0, 1e4) as usize;
    let times = (0..rounds).map(|_| round(calls)).collect::<Result<Vec<_>>>()?;
    let median_s = super::median(&times);
    let steps_per_second = case.at_once as f64 / median_s;
    let [forward_device_s, step_device_s] =
        [false, true].map(|step| device_median(case, place, &spec, &same, step, 5 * rounds));
    Ok(Outcome {
        name: case.name,
        net: spec.to_string(),
        median_s,
        steps_per_second,
        forward_device_s: forward_device_s?,
        step_device_s: step_device_s?,
    })
}

/// What the GPU's own clock says of one network.
fn device_median(
    case: &Case,
    place: &Place,
    spec: &NetSpec,
    same: &Same,
    step: bool,
    times: usize,
) -> std::result::Result<Option<f64>, Failure> {
    let (Place::Cuda(device, precision), 1) = (place, case.at_once) else { return Ok(None) };
    let mut learner = CudaLearner::new(device, *precision, spec, AdamOptions::default(), 1)
        .map_err(drnn_train::Error::from)?;
    let chosen: Vec<u32> = (0..same.0.rows as u32).collect();
    learner.device_seconds(same, &chosen, step, 5)?; // so that nothing is done for the first time
    Ok(Some(super::median(&learner.device_seconds(same, &chosen, step, times)?)))
}
