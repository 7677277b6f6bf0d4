//! The shapes that are measured. `bench/peers.py` runs the same ones in other software.

use super::Memory;
use drnn::random::Rng;
use drnn::{
    Batch, Cell, Cpu, Direction, Element, Gradient, Lane, Model, NetSpec, Padding, Plan, Rows,
    Steps, Stream, StreamBatch, Tape, WeightFormat,
};
use drnn_tasks::chars::Alphabet;
use drnn_train::chars::{Masked, Masking};
use drnn_train::read::{self, Symbols};
use drnn_train::{
    AdamOptions, Batches, Engine, Examples, Inputs, Learner, Options, TargetData, Trainer, lanes,
    order,
};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

type Result<T> = std::result::Result<T, drnn::Error>;

/// A case and how to set it up.
pub struct Case {
    pub name: &'static str,
    pub what: &'static str,
    pub make: fn(&Cpu) -> Result<Work>,
}

/// A case, set up.
pub struct Work {
    /// Does the work `per_call` times.
    pub unit: Box<dyn FnMut() -> Result<()>>,
    pub per_call: usize,
    /// Of one unit; products only.
    pub flop: f64,
    pub memory: Box<dyn Fn() -> Option<Memory>>,
}

pub const CASES: [Case; 14] = [
    Case {
        name: "train-n100",
        what: "forward+backward, n=100 q=1 B=100 T=50",
        make: |cpu| train(cpu, &SMALL, 1),
    },
    Case {
        name: "train-n100-lanes8",
        what: "the same, 8 models side by side",
        make: |cpu| train(cpu, &SMALL, 8),
    },
    Case {
        name: "fit-n100-lanes8",
        what: "the same with data, squared error, clipping and Adam",
        make: |cpu| fit(cpu, &SMALL, 8),
    },
    Case {
        name: "train-n512-tokens",
        what: "forward+backward, n=512 28 tokens B=128 T=188, d=8",
        make: |cpu| train(cpu, &TOKENS, 1),
    },
    Case {
        name: "fit-n128-masked",
        what: "a step of training on masked characters, n=128 B=128 T=180, d=8",
        make: masked,
    },
    Case {
        name: "train-n300-ragged",
        what: "forward+backward, n=300 q=264 B=32, lengths 3 to 60",
        make: |cpu| train(cpu, &RAGGED, 1),
    },
    Case {
        name: "infer-n100",
        what: "whole sequences, n=100 q=1 B=100 T=50",
        make: |cpu| infer(cpu, &SMALL),
    },
    Case {
        name: "infer-n512",
        what: "whole sequences, n=512 28 tokens B=128 T=188, d=8",
        make: |cpu| infer(cpu, &TOKENS),
    },
    Case {
        name: "infer-5x128",
        what: "one sequence through a stack, k=5 n=128 q=10 T=200, by waves",
        make: |cpu| infer(&cpu.clone().plan(Plan::Wavefront), &STACK),
    },
    Case {
        name: "infer-5x128-layers",
        what: "the same, layer by layer",
        make: |cpu| infer(&cpu.clone().plan(Plan::LayerByLayer), &STACK),
    },
    Case {
        name: "train-5x128",
        what: "forward+backward of the same, by waves",
        make: |cpu| train(&cpu.clone().plan(Plan::Wavefront), &STACK, 1),
    },
    Case {
        name: "train-5x128-layers",
        what: "the same, layer by layer",
        make: |cpu| train(&cpu.clone().plan(Plan::LayerByLayer), &STACK, 1),
    },
    Case {
        name: "stream-n256",
        what: "one step of one stream, n=256 q=10",
        make: |cpu| stream(cpu, &STREAM),
    },
    Case {
        name: "streams64-n256",
        what: "one step of 64 streams together, n=256 q=10",
        make: |cpu| stream(cpu, &Shape { rows: 64, ..STREAM }),
    },
];

/// A network, and the shape of a batch of whole sequences.
#[derive(Clone, Copy)]
pub struct Shape {
    pub cell: Cell,
    pub direction: Direction,
    pub layers: usize,
    pub n: usize,
    /// Width of dense input; 0 for tokens.
    pub q: usize,
    /// Width of the output layer; 0: none, the outputs are the last layer's states.
    pub m: usize,
    pub rows: usize,
    pub steps: usize,
    pub delay: usize,
    pub min_length: usize,
    /// Of the weights, where nothing is trained.
    pub format: WeightFormat,
}

/// An LSTM without delay on sequences of one length.
const fn lstm(layers: usize, n: usize, q: usize, m: usize, rows: usize, steps: usize) -> Shape {
    let (cell, direction, delay, min_length) = (Cell::Lstm, Direction::Forward, 0, steps);
    let format = WeightFormat::F32;
    Shape { cell, direction, layers, n, q, m, rows, steps, delay, min_length, format }
}

const SMALL: Shape = lstm(1, 100, 1, 1, 100, 50);
const TOKENS: Shape = Shape { delay: 8, ..lstm(1, 512, 0, 27, 128, 188) };
const RAGGED: Shape = Shape { min_length: 3, ..lstm(1, 300, 264, 17, 32, 60) };
const STREAM: Shape = lstm(1, 256, 10, 0, 1, 1);
const STACK: Shape = lstm(5, 128, 10, 10, 1, 200);
const SYMBOLS: usize = 28;
const EMBEDDING: usize = 10;

impl Shape {
    pub fn spec(&self) -> Result<NetSpec> {
        let builder = NetSpec::builder(self.cell).units(vec![self.n; self.layers]);
        let builder = match self.m {
            0 => builder,
            m => builder.outputs(m),
        };
        let builder = match self.q {
            0 => builder.tokens(SYMBOLS, EMBEDDING),
            q => builder.dense(q),
        };
        let builder = match self.direction {
            Direction::Forward => builder,
            Direction::Bidirectional => builder.bidirectional(),
        };
        builder.delay(self.delay, Padding::LookAhead).build()
    }

    /// Lengths spread evenly, in an order that is not sorted.
    fn lengths(&self) -> Vec<usize> {
        let (rows, spread) = (self.rows, self.steps - self.min_length);
        let at = |i: usize| (i * 13 + 5) % rows;
        let rounded = |i: usize| (2 * at(i) * spread + rows - 1) / (2 * (rows - 1)).max(1);
        (0..rows).map(|i| self.min_length + rounded(i)).collect()
    }
}

/// One lane's own data.
struct Data {
    params: Vec<f32>,
    x: Vec<f32>,
    tokens: Vec<u32>,
    d_answers: Vec<f32>,
    gradient: Vec<f32>,
}

impl Data {
    fn new(shape: &Shape, spec: &NetSpec, seed: u64) -> Data {
        let mut rng = Rng::new(seed);
        let slots = shape.steps * shape.rows;
        let answers = spec.output_steps(shape.steps) * shape.rows * spec.output_width();
        Data {
            params: drnn::params::initial(spec, seed),
            x: (0..slots * shape.q).map(|_| rng.symmetric(1.0)).collect(),
            tokens: (0..slots).map(|_| rng.below(SYMBOLS) as u32).collect(),
            d_answers: (0..answers).map(|_| rng.symmetric(1e-3)).collect(),
            gradient: vec![0.0; spec.parameters()],
        }
    }
}

/// The batch of one lane.
fn batch<'a>(shape: &Shape, x: &'a [f32], tokens: &'a [u32], lengths: &'a [usize]) -> Batch<'a> {
    let batch = match shape.q {
        0 => Batch::tokens(tokens, Steps(shape.steps), Rows(shape.rows)),
        _ => Batch::dense(x, Steps(shape.steps), Rows(shape.rows)),
    };
    batch.lengths(lengths)
}

/// FLOP of the products: forward, and with gradients of all parameters.
fn flop(shape: &Shape) -> (f64, f64) {
    let Shape { n, q, m, layers, .. } = *shape;
    let (gates, directions) = (shape.cell.gates(), shape.direction.count());
    let steps: usize = shape.lengths().iter().sum();
    let answers = steps - shape.delay * shape.rows;
    let of_x = |width: usize| 2.0 * (steps * directions * gates * n) as f64 * width as f64;
    let recurrent = of_x(n * layers);
    let between = of_x(directions * n * (layers - 1));
    let input = of_x(q); // for tokens it is a table look-up
    let output = 2.0 * (answers * m * directions * n) as f64;
    let forward = recurrent + between + input + output;
    (forward, forward + 2.0 * (recurrent + between) + input + 2.0 * output)
}

pub fn train(cpu: &Cpu, shape: &Shape, lanes: usize) -> Result<Work> {
    let (shape, spec) = (*shape, shape.spec()?);
    let mut data: Vec<Data> =
        (0..lanes as u64).map(|seed| Data::new(&shape, &spec, seed)).collect();
    let lengths = shape.lengths();
    let steps: usize = lengths.iter().sum();
    let states = if shape.cell.has_cell_state() { 2 } else { 1 };
    let saved = (shape.cell.gates() + states) * shape.n; // gates, c, h
    let must_save =
        lanes * steps * saved * shape.layers * shape.direction.count() * size_of::<f32>();
    let tape = Rc::new(RefCell::new(Tape::on(cpu, &spec)));
    let held = tape.clone();
    let unit = move || {
        let mut tape = tape.borrow_mut();
        let (mut lanes, mut gradients) = (Vec::new(), Vec::new());
        for data in &mut data {
            let Data { params, x, tokens, d_answers, gradient } = data;
            let batch = batch(&shape, x, tokens, &lengths);
            lanes.push(Lane { params: (&*params).into(), batch, start: None });
            let answers = d_answers.as_slice();
            gradients.push(Gradient {
                outputs: answers,
                last: None,
                params: gradient,
                input: None,
                start: None,
            });
        }
        tape.forward(&lanes)?.backward(&mut gradients)
    };
    let memory = move || {
        let memory = held.borrow().memory();
        let held_bytes = memory.saved + memory.extra;
        Some(Memory { must_save_bytes: must_save, held_bytes, fixed_bytes: memory.fixed })
    };
    let flop = flop(&shape).1 * lanes as f64;
    Ok(Work { unit: Box::new(unit), per_call: 1, flop, memory: Box::new(memory) })
}

/// Whole trainings: an epoch of several models in parallel, from batches to optimiser.
fn fit(cpu: &Cpu, shape: &'static Shape, lanes: usize) -> Result<Work> {
    const BATCHES: usize = 10;
    let (spec, cpu) = (shape.spec()?, cpu.clone());
    let mut rng = Rng::new(1);
    let mut examples = |count: usize| {
        let n = count * shape.steps;
        let x = (0..n * shape.q).map(|_| rng.symmetric(1.0)).collect();
        let y = (0..n * shape.m).map(|_| rng.symmetric(1.0)).collect();
        let sizes = ([count, shape.steps], [shape.q, shape.m]);
        Examples::new(Inputs::Dense(x), TargetData::Values(y), sizes.0, sizes.1)
    };
    let no_data = |e: drnn_train::Error| drnn::Error::Spec(e.to_string());
    let train = examples(BATCHES * shape.rows).map_err(no_data)?;
    let valid = examples(1).map_err(no_data)?;
    let unit = move || {
        let one = cpu.with_threads(1);
        let mut all = Vec::new();
        for seed in 0..lanes as u64 {
            let options = Options { epochs: 1, batch: shape.rows, seed, ..Options::default() };
            let trainer =
                Trainer::new(&one, &spec, options, "bench", &train, &valid).map_err(no_data)?;
            all.push(lanes::Lane { trainer, checkpoint: None });
        }
        lanes::run(&cpu, &mut all, Duration::MAX, &|_, _, _| Ok(lanes::Control::Continue))
            .map_err(no_data)
    };
    let flop = flop(shape).1 * lanes as f64;
    Ok(Work { unit: Box::new(unit), per_call: BATCHES, flop, memory: Box::new(|| None) })
}

/// Training on masked characters: windows, masks, loss at the masks, clipping, Adam.
fn masked(cpu: &Cpu) -> Result<Work> {
    const BATCHES: usize = 10;
    const MASKED: &Shape = &Shape { n: 128, ..TOKENS };
    let shape = MASKED;
    let (spec, window) = (shape.spec()?, shape.steps - shape.delay);
    let mut rng = Rng::new(1);
    let windows = (BATCHES * shape.rows) as u32;
    let text = (0..windows as usize * window).map(|_| b'a' + rng.below(shape.m) as u8).collect();
    let read = || {
        let alphabet = Alphabet::new(('a'..).take(shape.m).collect())?;
        let text = Arc::new(Symbols::read(read::Source::from_bytes("text", text)?, &alphabet)?);
        let masking = Masking { window, share: 0.2, mask: alphabet.unknown(), seed: 1 };
        Masked::new("text", text.clone(), 0..text.len(), masking)
    };
    let no_data = |e: drnn_train::Error| drnn::Error::Spec(e.to_string());
    let data = read().map_err(no_data)?;
    let mut learner = Learner::new(cpu, &spec, AdamOptions::default(), 1);
    let mut epoch = 0;
    let unit = move || {
        let chosen = order(1, epoch, windows as usize);
        let (batch, rate, clip) = (shape.rows, 1e-3, Some(1.0));
        let batches = Batches { epoch, chosen: &chosen, batch, rate, clip, dropout: None };
        epoch += 1;
        learner.train(&data, &batches).map(drop).map_err(no_data)
    };
    let flop = flop(shape).1;
    Ok(Work { unit: Box::new(unit), per_call: BATCHES, flop, memory: Box::new(|| None) })
}

pub fn infer(cpu: &Cpu, shape: &Shape) -> Result<Work> {
    let (shape, spec) = (*shape, shape.spec()?);
    let data = Data::new(&shape, &spec, 1);
    let model = Model::from_params(&spec, data.params.clone())?.on(cpu).quantize(shape.format)?;
    let lengths = shape.lengths();
    let unit = move || {
        model.run(&batch(&shape, &data.x, &data.tokens, &lengths), None)?;
        Ok(())
    };
    Ok(Work { unit: Box::new(unit), per_call: 1, flop: flop(&shape).0, memory: Box::new(|| None) })
}

/// Steps of as many live sequences as the shape has rows.
pub fn stream(cpu: &Cpu, shape: &Shape) -> Result<Work> {
    const CALLS: usize = 500;
    let (streams, q) = (shape.rows, shape.q);
    let model = Model::init(&shape.spec()?, 1)?.on(cpu).quantize(shape.format)?;
    let model = Rc::new(model);
    let mut rng = Rng::new(1);
    let x: Vec<f32> = (0..streams * q).map(|_| rng.symmetric(1.0)).collect();
    let (flop, _) = flop(&Shape { steps: 1, min_length: 1, ..*shape });
    let unit: Box<dyn FnMut() -> Result<()>> = if streams == 1 {
        let mut stream = Stream::new(model)?;
        Box::new(move || {
            for _ in 0..CALLS {
                stream.push(x.as_slice())?;
            }
            Ok(())
        })
    } else {
        let mut batch = StreamBatch::new(model)?;
        let ids: Vec<_> = (0..streams).map(|_| batch.join()).collect();
        Box::new(move || {
            let rows = x.chunks_exact(q).map(Element::Dense);
            let elements: Vec<_> = ids.iter().copied().zip(rows).collect();
            for _ in 0..CALLS {
                batch.step(&elements, |_, answer| {
                    std::hint::black_box(answer);
                })?;
            }
            Ok(())
        })
    };
    Ok(Work { unit, per_call: CALLS, flop, memory: Box::new(|| None) })
}
