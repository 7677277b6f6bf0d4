//! Small trainings written out in full, for another program to repeat: `tools/check_training.py` does, with PyTorch.
//!
//! ```text
//! cargo run --release -p drnn-train --example training_curve -- FOLDER
//! ```
//!
//! For each training a folder: `training.json` with network, options, data, the order of every epoch and the curve;
//! `initial`, `first` and `last.safetensors`, the model before, after one epoch and in the end.

use drnn::random::Rng;
use drnn::{Cell, Cpu, NetSpec, Padding};
use drnn_train::{
    Advance, Examples, IGNORE, Inputs, Options, Schedule, TargetData, Trainer, order,
};
use serde_json::{Value, json};
use std::error::Error;
use std::path::Path;

/// Sequences to train (the last batch is a small one) and to validate, their elements.
const TRAIN: usize = 100;
const VALID: usize = 40;
const STEPS: usize = 15;
/// Width of vectors and of values; symbols, their embedding, classes.
const Q: usize = 3;
const M: usize = 2;
const SYMBOLS: usize = 6;
const EMBEDDING: usize = 4;
const CLASSES: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("expected a folder to write to")?;
    for (name, cell, delay, both_ways) in [
        ("lstm", Cell::Lstm, 0, false),
        ("gru", Cell::Gru, 0, false),
        ("dlstm", Cell::Lstm, 3, false),
        ("bilstm", Cell::Lstm, 0, true),
    ] {
        for task in [CurveTask::Values, CurveTask::Classes] {
            let mut net = NetSpec::builder(cell).units([24]).delay(delay, Padding::Null);
            net = match task {
                CurveTask::Values => net.dense(Q).outputs(M),
                CurveTask::Classes => net.tokens(SYMBOLS, EMBEDDING).outputs(CLASSES),
            };
            net = if both_ways { net.bidirectional() } else { net };
            let folder = Path::new(&folder).join(format!("{name}-{}", task.name()));
            std::fs::create_dir_all(&folder)?;
            train(&folder, cell, &net.build()?, task)?;
        }
    }
    Ok(())
}

fn train(folder: &Path, cell: Cell, spec: &NetSpec, task: CurveTask) -> Result<(), Box<dyn Error>> {
    let options = Options {
        epochs: 20,
        batch: 32,
        rate: 1e-2,
        schedule: Schedule::Cosine,
        clip: Some(0.05),
        seed: 7,
        ..Options::default()
    };
    let [(train, train_json), (valid, valid_json)] = [task.draw(TRAIN, 1)?, task.draw(VALID, 2)?];
    let mut trainer = Trainer::new(&Cpu::from_env()?, spec, options, "curve", &train, &valid)?;
    trainer.engine().model()?.save(folder.join("initial.safetensors"))?;
    loop {
        match trainer.advance()? {
            Advance::Epoch if trainer.progress().history.len() == 1 => {
                trainer.engine().model()?.save(folder.join("first.safetensors"))?;
            }
            Advance::Ended(_) => break,
            _ => {}
        }
    }
    trainer.engine().model()?.save(folder.join("last.safetensors"))?;
    let orders: Vec<_> = (0..options.epochs).map(|e| order(options.seed, e, TRAIN)).collect();
    let training = json!({
        "cell": cell, "units": spec.units()[0], "delay": spec.delay(),
        "bidirectional": spec.direction() == drnn::Direction::Bidirectional,
        "options": options, "train": train_json, "valid": valid_json, "orders": orders,
        "curve": trainer.progress().history,
    });
    Ok(std::fs::write(folder.join("training.json"), training.to_string())?)
}

/// What is learned; both need the element before and the one after. Some answers do not count.
#[derive(Clone, Copy)]
enum CurveTask {
    /// Vectors to values.
    Values,
    /// Symbols to classes.
    Classes,
}

impl CurveTask {
    fn name(self) -> &'static str {
        match self {
            CurveTask::Values => "values",
            CurveTask::Classes => "classes",
        }
    }

    /// Sequences, and the same as JSON: null where an answer does not count.
    fn draw(self, count: usize, seed: u64) -> Result<(Examples, Value), Box<dyn Error>> {
        let mut rng = Rng::new(seed);
        let around = |i: usize| (!i.is_multiple_of(STEPS), !(i + 1).is_multiple_of(STEPS));
        let counts = |i: usize| i % 7 != 3;
        let (inputs, answers, json) = match self {
            CurveTask::Values => {
                let x: Vec<f32> = (0..count * STEPS * Q).map(|_| rng.uniform()).collect();
                let value = |i: usize| {
                    let (before, after) = around(i);
                    let a = if before { x[(i - 1) * Q] } else { 0.0 };
                    let b = if after { x[(i + 1) * Q + 1] } else { 0.0 };
                    let c = x[i * Q + 2];
                    if counts(i) { [(3.0 * (a + c)).sin(), b * c] } else { [f32::NAN; M] }
                };
                let y: Vec<f32> = (0..count * STEPS).flat_map(value).collect();
                let json = json!({ "x": x, "y": y });
                (Inputs::Dense(x), TargetData::Values(y), json)
            }
            CurveTask::Classes => {
                let draw = |_| rng.below(SYMBOLS) as u32;
                let x: Vec<u32> = (0..count * STEPS).map(draw).collect();
                let class = |i: usize| {
                    let (before, after) = around(i);
                    let a = if before { x[i - 1] } else { 0 };
                    let b = if after { x[i + 1] } else { 0 };
                    if counts(i) { (a + 2 * b + x[i]) % CLASSES as u32 } else { IGNORE }
                };
                let y: Vec<u32> = (0..count * STEPS).map(class).collect();
                let shown: Vec<_> = y.iter().map(|&c| (c != IGNORE).then_some(c)).collect();
                let json = json!({ "x": x, "y": shown });
                (Inputs::Tokens(x), TargetData::Classes(y), json)
            }
        };
        Ok((Examples::new(inputs, answers, [count, STEPS], [Q, M])?, json))
    }
}
