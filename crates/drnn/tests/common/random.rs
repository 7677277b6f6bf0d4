//! Random networks with random data: every cell, depth, direction, delay, padding and length.

#![allow(dead_code, reason = "each test file uses a part of it")]

use drnn::random::Rng;
use drnn::reference::{self, RefState, Sequence};
use drnn::{
    Batch, Blocks, Cell, Connections, Cpu, Direction, Dropout, Element, Gradient, InputSpec, Lane,
    Model, NetSpec, Padding, Rows, StartState, States, Steps, Tape,
};

/// A network, a batch and an upstream gradient.
#[derive(Clone)]
pub struct Sample {
    pub spec: NetSpec,
    pub params: Vec<f32>,
    pub steps: usize,
    pub rows: usize,
    pub lengths: Vec<usize>,
    /// Slots whose outputs are requested, and gradients given; all if None.
    pub selected: Option<Vec<u32>>,
    pub x: Vec<f32>,
    pub tokens: Vec<u32>,
    pub start: States,
    pub d_outputs: Vec<f32>,
    pub d_last: States,
}

/// What a training pass finds.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub outputs: Vec<f32>,
    pub last: States,
    pub d_params: Vec<f32>,
    pub d_input: Vec<f32>,
    pub d_start: States,
}

/// A spec with some of everything; `streams` leaves out what cannot stream.
pub fn spec(rng: &mut Rng, streams: bool) -> NetSpec {
    let cell = Cell::ALL[rng.below(Cell::ALL.len())];
    let layers = 1 + rng.below(3);
    let units: Vec<usize> = (0..layers).map(|_| 1 + rng.below(21)).collect();
    let mut builder = NetSpec::builder(cell).units(units);
    let symbols = 1 + rng.below(9);
    let tokens = rng.below(2) == 0;
    builder = match tokens {
        true => builder.tokens(symbols, 1 + rng.below(5)),
        false => builder.dense(1 + rng.below(7)),
    };
    if rng.below(3) > 0 {
        builder = builder.outputs(1 + rng.below(19));
    }
    let delay = rng.below(5);
    let padding = match rng.below(3) {
        0 if tokens => Padding::Symbol(rng.below(symbols) as u32),
        1 => Padding::LookAhead,
        _ => Padding::Null,
    };
    builder = match rng.below(4) {
        0 if !streams => builder.bidirectional(),
        1 => builder,
        2 => {
            // A bit later than they must, so that all paddings count.
            let blocks = blocks(rng);
            let delay = blocks.count() - 1 + rng.below(3);
            builder.blocks(blocks).delay(delay, padding)
        }
        _ => builder.delay(delay, padding),
    };
    if cell == Cell::Lstm && rng.below(2) == 0 {
        let projected = builder.clone().projection(1 + rng.below(6));
        // Blocks have no projection, and small layers none so wide.
        return projected.build().unwrap_or_else(|_| builder.build().unwrap());
    }
    builder.build().unwrap()
}

/// Blocks of any connections, held or free.
pub fn blocks(rng: &mut Rng) -> Blocks {
    let k = 1 + rng.below(4);
    let widths: Vec<usize> = (0..k).map(|_| 1 + rng.below(21)).collect();
    let some = (0..k * k).filter(|_| rng.below(2) == 0).map(|at| (at / k, at % k)).collect();
    let connections = match rng.below(5) {
        0 => Connections::Lower,
        1 => Connections::Upper,
        2 => Connections::All,
        3 => Connections::List(some),
        _ => Connections::Stacked,
    };
    let start = if rng.below(4) == 0 { StartState::Free } else { StartState::Held };
    Blocks::new(widths).connections(connections).start(start)
}

pub fn states(rng: &mut Rng, spec: &NetSpec, rows: usize) -> States {
    let mut states = States::zeros(spec, rows);
    states.h.iter_mut().chain(&mut states.c).for_each(|x| *x = rng.symmetric(0.9));
    states
}

impl Sample {
    pub fn new(seed: u64) -> Sample {
        let mut rng = Rng::new(seed);
        let spec = spec(&mut rng, false);
        let (steps, rows) = (rng.below(9), 1 + rng.below(14));
        Sample::of(spec, steps, rows, &mut rng)
    }

    pub fn of(spec: NetSpec, steps: usize, rows: usize, rng: &mut Rng) -> Sample {
        let mut params = Model::init(&spec, rng.bits()).unwrap().into_params();
        params.iter_mut().for_each(|p| *p *= 1.5);
        let (q, symbols) = match spec.input() {
            InputSpec::Dense(q) => (q, 1),
            InputSpec::Tokens { symbols, .. } => (0, symbols),
        };
        let outputs = spec.output_steps(steps) * rows * spec.output_width();
        let token_slots = if q == 0 { steps * rows } else { 0 };
        Sample {
            lengths: (0..rows).map(|_| rng.below(steps + 1)).collect(),
            selected: None,
            x: (0..steps * rows * q).map(|_| rng.symmetric(1.0)).collect(),
            tokens: (0..token_slots).map(|_| rng.below(symbols) as u32).collect(),
            start: states(rng, &spec, rows),
            d_outputs: (0..outputs).map(|_| rng.symmetric(1.0)).collect(),
            d_last: states(rng, &spec, rows),
            spec,
            params,
            steps,
            rows,
        }
    }

    pub fn batch(&self) -> Batch<'_> {
        let batch = match self.spec.input() {
            InputSpec::Dense(_) => Batch::dense(&self.x, Steps(self.steps), Rows(self.rows)),
            InputSpec::Tokens { .. } => {
                Batch::tokens(&self.tokens, Steps(self.steps), Rows(self.rows))
            }
        };
        let batch = batch.lengths(&self.lengths);
        self.selected.as_ref().map_or(batch, |slots| batch.select_outputs(slots))
    }

    pub fn lane(&self) -> Lane<'_> {
        Lane { params: (&self.params).into(), batch: self.batch(), start: Some(&self.start) }
    }

    pub fn model(&self, cpu: &Cpu) -> Model {
        Model::from_params(&self.spec, self.params.clone()).unwrap().on(cpu)
    }

    /// Whether blocks keep this parameter at zero: no other one is, at random.
    pub fn is_outside(&self, parameter: usize) -> bool {
        self.spec.blocks().is_some() && self.params[parameter] == 0.0
    }

    /// The oracle knows the equations, not which weights may change.
    pub fn without_outside(&self, d_params: &mut [f64]) {
        for (i, d) in d_params.iter_mut().enumerate() {
            if self.is_outside(i) {
                *d = 0.0;
            }
        }
    }

    /// Elements of one row, for the oracle.
    pub fn sequence(&self, row: usize) -> Sequence {
        let slots = (0..self.lengths[row]).map(|t| t * self.rows + row);
        match self.spec.input() {
            InputSpec::Dense(q) => {
                let wide =
                    |slot: usize| self.x[slot * q..][..q].iter().map(|&v| v.into()).collect();
                Sequence::Dense(slots.map(wide).collect())
            }
            InputSpec::Tokens { .. } => Sequence::Tokens(slots.map(|s| self.tokens[s]).collect()),
        }
    }

    /// States of one row, for the oracle.
    pub fn row_state(&self, states: &States, row: usize) -> RefState<f64> {
        let of = |values: &[f32], widths: &[usize]| {
            let (mut found, mut at) = (Vec::new(), 0);
            for &n in widths {
                for _ in 0..self.spec.direction().count() {
                    let values = &values[at + row * n..][..n];
                    found.push(values.iter().map(|&x| x.into()).collect());
                    at += n * self.rows;
                }
            }
            found
        };
        let spec = &self.spec;
        let h = of(&states.h, spec.state_widths());
        RefState { h, c: of(&states.c, spec.cell_state_widths()) }
    }

    /// Answer slots of a row that count.
    pub fn answer_slots(&self, row: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.spec.output_steps(self.lengths[row])).map(move |t| t * self.rows + row)
    }

    /// Gradients of one row's answers, for the oracle.
    pub fn d_outputs(&self, row: usize) -> Vec<Vec<f64>> {
        let m = self.spec.output_width();
        let wide =
            |slot: usize| self.d_outputs[slot * m..][..m].iter().map(|&v| v.into()).collect();
        self.answer_slots(row).map(wide).collect()
    }

    /// The loss of all rows, by the oracle, at other parameters.
    pub fn loss(&self, params: &[f64]) -> f64 {
        let mut loss = 0.0;
        for row in 0..self.rows {
            let start = self.row_state(&self.start, row);
            let run = reference::run(&self.spec, params, &self.sequence(row), &start);
            let d_last = self.row_state(&self.d_last, row);
            let pairs = self.d_outputs(row);
            let pairs = pairs.iter().zip(&run.outputs);
            let pairs = pairs.chain(d_last.h.iter().zip(&run.last.h));
            for (d, y) in pairs.chain(d_last.c.iter().zip(&run.last.c)) {
                loss += d.iter().zip(y).map(|(a, b)| a * b).sum::<f64>();
            }
        }
        loss
    }
}

/// Forward and backward over all samples as lanes of one tape.
pub fn train(cpu: &Cpu, samples: &[&Sample]) -> Vec<Found> {
    train_with(cpu, samples, None)
}

/// The same, with dropout if given.
pub fn train_with(cpu: &Cpu, samples: &[&Sample], dropout: Option<&[Dropout]>) -> Vec<Found> {
    let spec = &samples[0].spec;
    let lanes: Vec<Lane> = samples.iter().map(|s| s.lane()).collect();
    let mut tape = Tape::on(cpu, spec);
    let pass = match dropout {
        Some(dropout) => tape.forward_with_dropout(&lanes, dropout).unwrap(),
        None => tape.forward(&lanes).unwrap(),
    };
    let mut found: Vec<Found> = (samples.iter().enumerate())
        .map(|(i, s)| Found {
            outputs: pass.outputs(i).to_vec(),
            last: pass.last(i),
            d_params: vec![f32::NAN; spec.parameters()],
            d_input: vec![f32::NAN; s.x.len()],
            d_start: States::zeros(spec, s.rows),
        })
        .collect();
    let mut gradients: Vec<Gradient> = (samples.iter().zip(&mut found))
        .map(|(s, f)| Gradient {
            outputs: &s.d_outputs,
            last: Some(&s.d_last),
            params: &mut f.d_params,
            input: matches!(spec.input(), InputSpec::Dense(_)).then_some(&mut f.d_input),
            start: Some(&mut f.d_start),
        })
        .collect();
    pass.backward(&mut gradients).unwrap();
    found
}

/// Whether the network can stream.
pub fn streams(spec: &NetSpec) -> bool {
    spec.direction() == Direction::Forward
}

/// Asserts `|found - expected| <= tolerance * max(1, largest expected)`.
pub fn close(what: &str, found: impl IntoIterator<Item = f64>, expected: &[f64], tolerance: f64) {
    let scale = expected.iter().fold(1.0f64, |a, x| a.max(x.abs()));
    let mut count = 0;
    for (i, f) in found.into_iter().enumerate() {
        let error = (f - expected[i]).abs();
        assert!(error <= tolerance * scale, "{what}[{i}]: {f}, expected {}", expected[i]);
        count += 1;
    }
    assert_eq!(count, expected.len(), "{what}: length");
}

/// Element `t` of a row.
pub fn element(s: &Sample, t: usize, row: usize) -> Element<'_> {
    let slot = t * s.rows + row;
    match s.spec.input() {
        InputSpec::Dense(q) => Element::Dense(&s.x[slot * q..][..q]),
        InputSpec::Tokens { .. } => Element::Token(s.tokens[slot]),
    }
}
