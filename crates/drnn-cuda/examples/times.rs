//! Times of forward recurrences and of training steps of any shape on a GPU, by device events: what
//! `persistent/cost.rs` estimates.
//!
//! ```text
//! times lstm:1x1024:16x1024 bilstm:5x102:128x180:tokens gru:2x512:64x200:128
//!       cell:layers x units:B x T[:q, or `tokens` for 28 symbols; 64 without]
//! ```
//!
//! `DRNN_TILING=units=16,rows=32` forces the sizes of blocks, `kind=single-block` and others the kind
//! of kernel: docs/GPU.md.

use drnn::random::Rng;
use drnn::{Cell, InputSpec, NetSpec};
use drnn_cuda::{CudaLearner, Device, Precision, Until};
use drnn_train::{AdamOptions, Dataset, Gathered, Result};

/// The same random batch every time.
struct Same(Gathered);

impl Dataset for Same {
    fn len(&self) -> usize {
        self.0.rows
    }

    fn fits(&self, _: &NetSpec) -> Result<()> {
        Ok(())
    }

    fn gather(&self, _: usize, _: &[u32], to: &mut Gathered) {
        to.clone_from(&self.0);
    }
}

const EXPECTED: &str = "expected CELL:LAYERSxUNITS:BxT[:INPUTS], as in bilstm:5x102:128x180:tokens";

struct Shape {
    spec: NetSpec,
    rows: usize,
    steps: usize,
}

/// Two numbers with an x between them.
fn two(text: &str) -> Option<[usize; 2]> {
    let (a, b) = text.split_once('x')?;
    Some([a.parse().ok()?, b.parse().ok()?])
}

fn parse(text: &str) -> Option<Shape> {
    let parts: Vec<&str> = text.split(':').collect();
    let (cell, both) = match parts.first()?.strip_prefix("bi") {
        Some(cell) => (cell, true),
        None => (*parts.first()?, false),
    };
    let cell = match cell {
        "lstm" => Cell::Lstm,
        "gru" => Cell::Gru,
        "rnn" => Cell::RnnTanh,
        _ => return None,
    };
    let ([layers, units], [rows, steps]) = (two(parts.get(1)?)?, two(parts.get(2)?)?);
    let builder = NetSpec::builder(cell).units(vec![units; layers]);
    let builder = match parts.get(3) {
        Some(&"tokens") => builder.tokens(28, 10),
        Some(inputs) => builder.dense(inputs.parse().ok()?),
        None => builder.dense(64),
    };
    let builder = if both { builder.bidirectional() } else { builder };
    Some(Shape { spec: builder.outputs(27).build().ok()?, rows, steps })
}

impl Shape {
    fn batch(&self) -> Gathered {
        let Shape { ref spec, rows, steps } = *self;
        let (mut rng, mut batch, slots) = (Rng::new(1), Gathered::default(), rows * steps);
        (batch.rows, batch.steps) = (rows, steps);
        match spec.input() {
            InputSpec::Dense(q) => {
                batch.inputs.dense().extend((0..slots * q).map(|_| rng.symmetric(1.0)));
            }
            InputSpec::Tokens { symbols, .. } => {
                batch.inputs.tokens().extend((0..slots).map(|_| rng.below(symbols) as u32));
            }
        }
        batch.targets.classes().extend((0..slots).map(|_| rng.below(27) as u32));
        batch
    }

    /// Medians of the forward recurrence and of a training step, in milliseconds.
    fn measure(&self, device: &Device) -> Result<[f64; 2]> {
        let adam = AdamOptions::default();
        let mut learner = CudaLearner::new(device, Precision::F16, &self.spec, adam, 1)?;
        let (data, chosen) = (Same(self.batch()), (0..self.rows as u32).collect::<Vec<_>>());
        let mut median = |until| -> Result<f64> {
            learner.device_seconds(&data, &chosen, until, 5)?;
            let mut seconds = learner.device_seconds(&data, &chosen, until, 31)?;
            seconds.sort_by(f64::total_cmp);
            Ok(1e3 * seconds[seconds.len() / 2])
        };
        Ok([median(Until::States)?, median(Until::Step)?])
    }
}

fn main() -> std::process::ExitCode {
    let device = match Device::find() {
        Ok(device) => device,
        Err(error) => {
            eprintln!("{error}");
            return 2.into();
        }
    };
    let tiling = std::env::var("DRNN_TILING").unwrap_or("chosen".into());
    let mut code = 0;
    for text in std::env::args().skip(1) {
        let Some(shape) = parse(&text) else {
            eprintln!("{text} is not a shape; {EXPECTED}");
            return 2.into();
        };
        match shape.measure(&device) {
            Ok([states, step]) => {
                let each = 1e3 / shape.steps as f64;
                println!(
                    "{text:34} {tiling:18} states {states:8.3} ms ({:6.2} us)  step {step:8.3} ms \
                     ({:6.2} us)",
                    states * each,
                    step * each
                );
            }
            Err(error) => {
                println!("{text:34} {tiling:18} {error}");
                code = 1;
            }
        }
    }
    code.into()
}
