//! `drnn bench --device cuda`: training steps on a GPU. `bench/peers_gpu.py` runs the same ones in PyTorch.
//!
//! A step is everything from gathering its batch to Adam. Several steps are requested per call, as in
//! training. A group (`lstm-100-group132`) always computes in f16.

use crate::Failure;
use crate::report::commit;
use crate::training::place::Place;
use drnn::random::Rng;
use drnn::{Cell, Cpu, NetSpec, Padding};
use drnn_cuda::{CudaGroup, CudaLearner, Until};
use drnn_train::{
    AdamOptions, Batches, Dataset, Engine, Error, Examples, Gathered, Inputs, Options, Result,
    TargetData,
};
use serde::Serialize;
use std::io::Write;
use std::time::{Duration, Instant};

/// Networks of the paper, and how many of them are trained concurrently.
pub struct Case {
    pub name: &'static str,
    layers: usize,
    n: usize,
    both_ways: bool,
    delay: usize,
    at_once: usize,
    /// As lanes of a group.
    together: bool,
}

const fn case(name: &'static str, layers: usize, n: usize, delay: usize) -> Case {
    Case { name, layers, n, both_ways: false, delay, at_once: 1, together: false }
}

const fn both_ways(name: &'static str, layers: usize, n: usize) -> Case {
    Case { name, layers, n, both_ways: true, delay: 0, at_once: 1, together: false }
}

const fn small(name: &'static str, at_once: usize) -> Case {
    Case { name, layers: 1, n: 100, both_ways: false, delay: 0, at_once, together: false }
}

const fn group(name: &'static str, at_once: usize) -> Case {
    Case { together: true, ..small(name, at_once) }
}

pub const CASES: [Case; 13] = [
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
    group("lstm-100-group8", 8),
    group("lstm-100-group132", 132),
];

/// Steps per call for groups.
const BATCHES: usize = 128;
/// Steps per call for other networks.
const STEPS: usize = 64;

/// The same batch every time.
pub struct Same(pub Gathered);

impl Dataset for Same {
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
    /// Large networks read 28 symbols embedded in 10 dimensions and predict 27 classes, 128 sequences
    /// with 180 outputs; small ones are those of the sine experiment, 100 sequences of 50 numbers.
    fn ready(&self) -> Result<(NetSpec, Box<dyn Dataset>, usize)> {
        let mut rng = Rng::new(1);
        let builder = NetSpec::builder(Cell::Lstm).units(vec![self.n; self.layers]);
        if self.n == 100 {
            let (steps, rows) = (50, 100);
            let count = if self.together { rows * BATCHES } else { rows };
            let mut numbers = || (0..steps * count).map(|_| rng.symmetric(1.0)).collect();
            let (inputs, answers) = (Inputs::Dense(numbers()), TargetData::Values(numbers()));
            let spec = builder.dense(1).outputs(1).build()?;
            if self.together {
                let examples = Examples::new(inputs, answers, [count, steps], [1, 1])?;
                return Ok((spec, Box::new(examples), rows));
            }
            let same = Gathered { steps, rows, inputs, targets: answers, ..Gathered::default() };
            return Ok((spec, Box::new(Same(same)), rows));
        }
        let same = Same(character_batch(self.delay));
        let rows = same.0.rows;
        let builder = if self.both_ways { builder.bidirectional() } else { builder };
        let builder = builder.tokens(28, 10).outputs(27).delay(self.delay, Padding::LookAhead);
        Ok((builder.build()?, Box::new(same), rows))
    }
}

/// A random batch of the character table: 128 windows of 180 characters and a look-ahead of `delay`.
pub fn character_batch(delay: usize) -> Gathered {
    let (mut rng, steps, rows) = (Rng::new(1), 180 + delay, 128);
    let mut below = |count: usize, limit: usize| -> Vec<u32> {
        (0..count).map(|_| rng.below(limit) as u32).collect()
    };
    let inputs = Inputs::Tokens(below(steps * rows, 28));
    let targets = TargetData::Classes(below(180 * rows, 27));
    Gathered { steps, rows, inputs, targets, ..Gathered::default() }
}

/// The times of a case.
#[derive(Serialize)]
struct Outcome {
    name: &'static str,
    net: String,
    /// Seconds per step, with all networks running.
    median_s: f64,
    /// Total over all networks.
    steps_per_second: f64,
    /// Seconds per batch of inference, with all networks of a group running.
    #[serde(skip_serializing_if = "Option::is_none")]
    forward_s: Option<f64>,
    /// One network alone, by GPU events: up to the last layer's states, up to the outputs, a whole step.
    states_device_s: Option<f64>,
    forward_device_s: Option<f64>,
    step_device_s: Option<f64>,
}

/// Measures the cases that are named, or all.
pub fn run(
    place: &Place,
    cases: &[String],
    rounds: usize,
    min_time: Duration,
    json: bool,
) -> std::result::Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if !json {
        let columns = ["a step", "steps/s", "GPU states", "GPU forward", "GPU step"];
        let columns = columns.map(|c| format!("{c:>12}"));
        writeln!(out, "{place}\n\n{:18} {}  network", "case", columns.join(" "))?;
    }
    let mut outcomes = Vec::new();
    for case in CASES.iter().filter(|c| cases.is_empty() || cases.iter().any(|n| n == c.name)) {
        let outcome = measure(case, place, rounds, min_time)?;
        if !json {
            let Outcome { name, net, median_s, steps_per_second, .. } = &outcome;
            let time = super::human_time(*median_s);
            let forward = outcome.forward_device_s.or(outcome.forward_s);
            let device = [outcome.states_device_s, forward, outcome.step_device_s]
                .map(|s| format!("{:>12}", s.map_or("-".into(), super::human_time)));
            let device = device.join(" ");
            writeln!(out, "{name:18} {time:>12} {steps_per_second:>12.0} {device}  {net}")?;
        }
        outcomes.push(outcome);
    }
    if json {
        let version = env!("CARGO_PKG_VERSION");
        let report = serde_json::json!({
            "version": version, "commit": commit(), "device": place.to_string(), "cases": outcomes,
        });
        writeln!(out, "{report}")?;
    }
    Ok(())
}

fn measure(
    case: &Case,
    place: &Place,
    rounds: usize,
    min_time: Duration,
) -> std::result::Result<Outcome, Failure> {
    let (spec, data, rows) = case.ready()?;
    let options = |seed| Options { seed, ..Options::default() };
    let seeds = 0..case.at_once as u64;
    let mut networks: Vec<Box<dyn Engine<Data = dyn Dataset>>> = Vec::new();
    match place {
        Place::Cuda(device, ..) if case.together => {
            let group = CudaGroup::new(device, &spec, options(0).adam, case.at_once);
            let group = group.map_err(Error::from)?;
            for seed in seeds {
                networks.push(Box::new(group.lane(seed)?));
            }
        }
        _ => {
            for seed in seeds {
                networks.push(place.network(&Cpu::new(1), &spec, &options(seed))?.into_engine());
            }
        }
    }
    let steps = if case.together { BATCHES } else { STEPS };
    let chosen: Vec<u32> = (0..(rows * steps) as u32).collect();
    let batches = Batches {
        epoch: 0,
        chosen: &chosen,
        batch: rows,
        rate: 1e-3,
        clip: Some(1.0),
        dropout: None,
    };
    // Each network on a thread of its own, for some calls.
    let mut round = |calls: usize, learn: bool| -> Result<f64> {
        let start = Instant::now();
        let call = |network: &mut dyn Engine<Data = dyn Dataset>| match learn {
            true => network.train(&*data, &batches).map(drop),
            false => network.loss(&*data, 0, rows).map(drop),
        };
        std::thread::scope(|scope| {
            let spawned: Vec<_> = networks
                .iter_mut()
                .map(|network| scope.spawn(|| (0..calls).try_for_each(|_| call(&mut **network))))
                .collect();
            spawned.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })?;
        Ok(start.elapsed().as_secs_f64() / (calls * steps) as f64)
    };
    let mut median = |learn: bool| -> Result<f64> {
        round(1, learn)?; // kernels are compiled, graphs captured
        let once = round(1, learn)?;
        let calls =
            (min_time.as_secs_f64() / (once * steps as f64)).ceil().clamp(1.0, 1e4) as usize;
        let times = (0..rounds).map(|_| round(calls, learn)).collect::<Result<Vec<_>>>()?;
        Ok(super::median(&times))
    };
    let median_s = median(true)?;
    let forward_s = case.together.then(|| median(false)).transpose()?;
    let steps_per_second = case.at_once as f64 / median_s;
    let [states_device_s, forward_device_s, step_device_s] =
        [Until::States, Until::Outputs, Until::Step]
            .map(|until| device_median(case, place, &spec, &*data, rows, until, 5 * rounds));
    Ok(Outcome {
        name: case.name,
        net: spec.to_string(),
        median_s,
        steps_per_second,
        forward_s,
        states_device_s: states_device_s?,
        forward_device_s: forward_device_s?,
        step_device_s: step_device_s?,
    })
}

/// Times of one network by GPU events.
fn device_median(
    case: &Case,
    place: &Place,
    spec: &NetSpec,
    data: &dyn Dataset,
    rows: usize,
    until: Until,
    times: usize,
) -> std::result::Result<Option<f64>, Failure> {
    let (Place::Cuda(device, precision, _), 1) = (place, case.at_once) else { return Ok(None) };
    let mut learner = CudaLearner::new(device, *precision, spec, AdamOptions::default(), 1)
        .map_err(drnn_train::Error::from)?;
    let chosen: Vec<u32> = (0..rows as u32).collect();
    learner.device_seconds(data, &chosen, until, 5)?; // warm-up
    Ok(Some(super::median(&learner.device_seconds(data, &chosen, until, times)?)))
}
