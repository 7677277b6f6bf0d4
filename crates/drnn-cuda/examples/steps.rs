//! How long training steps of the paper's networks take on the GPU at hand.
//!
//! ```text
//! cargo run --release -p drnn-cuda --example steps [f32|tf32|f16]
//! ```
//!
//! Batches of 128 sequences of 180 answers, 28 symbols embedded in 10 dimensions, 27 classes; and the small networks of the
//! sine experiment. Times are medians over calls of 16 steps each, everything from the batch's gathering to Adam
//! included.

use drnn::rng::Rng;
use drnn::{Cell, NetSpec, Padding};
use drnn_cuda::{CudaLearner, Device, Precision};
use drnn_train::{AdamOptions, Answers, Batches, Engine, Gathered, Inputs, Result, Source};
use std::time::Instant;

/// The same random batch every time.
struct Same(Gathered);

impl Source for Same {
    fn len(&self) -> usize {
        1 << 20
    }

    fn fits(&self, _: &NetSpec) -> Result<()> {
        Ok(())
    }

    fn gather(&self, _: usize, _: &[u32], to: &mut Gathered) {
        to.clone_from(&self.0);
    }
}

const CALL: usize = 16;

fn measure(device: &Device, precision: Precision, name: &str, spec: &NetSpec, same: &Same) {
    let learner = CudaLearner::new(device, precision, spec, AdamOptions::default(), 1);
    let mut learner = learner.expect("an engine");
    let rows = same.0.rows;
    let chosen: Vec<u32> = (0..(rows * CALL) as u32).collect();
    let batches = Batches { visit: 0, chosen: &chosen, batch: rows, rate: 1e-3, clip: Some(1.0) };
    let mut times = Vec::new();
    for _ in 0..12 {
        let start = Instant::now();
        let found = learner.train(same, &batches).expect("steps");
        assert!(found.norms.is_finite());
        times.push(start.elapsed().as_secs_f64() * 1e3 / CALL as f64);
    }
    times.drain(..2); // compiling, capturing
    times.sort_by(f64::total_cmp);
    println!("{name:24} {:8.3} ms", times[times.len() / 2]);
}

/// Many networks at once, each with a stream and a thread of its own.
fn side_by_side(device: &Device, precision: Precision, spec: &NetSpec, same: &Same, lanes: usize) {
    const CALLS: usize = 6;
    let make = |seed| CudaLearner::new(device, precision, spec, AdamOptions::default(), seed);
    let mut learners: Vec<_> = (0..lanes as u64).map(|s| make(s).expect("an engine")).collect();
    let rows = same.0.rows;
    let chosen: Vec<u32> = (0..(rows * 64) as u32).collect();
    let batches = Batches { visit: 0, chosen: &chosen, batch: rows, rate: 1e-3, clip: Some(1.0) };
    let mut round = |calls: usize| {
        let start = Instant::now();
        std::thread::scope(|scope| {
            for learner in &mut learners {
                scope.spawn(|| {
                    for _ in 0..calls {
                        learner.train(same, &batches).expect("steps");
                    }
                });
            }
        });
        start.elapsed().as_secs_f64()
    };
    round(1);
    let seconds = round(CALLS);
    let rate = (lanes * CALLS * 64) as f64 / seconds;
    println!("{:24} {rate:8.0} steps/s", format!("{lanes} of them at once"));
}

fn main() {
    let precision = match std::env::args().nth(1).as_deref() {
        Some("tf32") => Precision::Tf32,
        Some("f16") => Precision::F16,
        _ => Precision::F32,
    };
    let device = Device::find().unwrap_or_else(|why| panic!("{why}"));
    println!("{device}; {precision:?}");
    let mut rng = Rng::new(1);
    for (name, layers, n, both, delay) in [
        ("d-LSTM 1024, d=8", 1, 1024, false, 8),
        ("d-LSTM 512, d=8", 1, 512, false, 8),
        ("LSTM 2x594", 2, 594, false, 0),
        ("LSTM 5x343", 5, 343, false, 0),
        ("Bi-LSTM 1x722", 1, 722, true, 0),
        ("Bi-LSTM 2x363", 2, 363, true, 0),
        ("Bi-LSTM 5x202", 5, 202, true, 0),
    ] {
        let builder =
            NetSpec::builder(Cell::Lstm).tokens(28, 10).units(vec![n; layers]).outputs(27);
        let builder = if both { builder.bidirectional() } else { builder };
        let spec = builder.delay(delay, Padding::LookAhead).build().expect("a network");
        let mut same = Gathered { steps: 180 + delay, rows: 128, ..Gathered::default() };
        let slots = same.steps * same.rows;
        same.inputs = Inputs::Tokens((0..slots).map(|_| rng.below(28) as u32).collect());
        same.answers = Answers::Classes((0..180 * 128).map(|_| rng.below(27) as u32).collect());
        measure(&device, precision, name, &spec, &Same(same));
    }
    let spec = NetSpec::builder(Cell::Lstm).dense(1).units([100]).outputs(1).build().expect("one");
    let mut same = Gathered { steps: 50, rows: 100, ..Gathered::default() };
    same.inputs = Inputs::Dense((0..5000).map(|_| rng.symmetric(1.0)).collect());
    same.answers = Answers::Values((0..5000).map(|_| rng.symmetric(1.0)).collect());
    let same = Same(same);
    measure(&device, precision, "LSTM 100, B=100, T=50", &spec, &same);
    for lanes in [8, 32, 128] {
        side_by_side(&device, precision, &spec, &same, lanes);
    }
}
