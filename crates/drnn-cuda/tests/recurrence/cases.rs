//! Cases of [`Recurrence`], compared with `drnn`'s own forward and backward passes: on a GPU, and
//! executed on the CPU by the recorder.

use super::{
    BackwardArguments, Format, ForwardArguments, LayerArrays, Lengths, Precision, Recurrence,
    RecurrenceOptions, RecurrenceSpec, float_from_half, half_from_float,
};
use drnn::params::Layout;
use drnn::random::Rng;
use drnn::{Batch, Cell, Gradient, Lane, NetSpec, Rows, States, Steps, Tape};
use std::ffi::c_void;

/// What is in memory before anything is written: nothing may depend on it.
const GARBAGE: u8 = 0xff;

/// Memory of a device and a stream on it. Addresses are valid as long as the card lives.
pub trait Card {
    fn f32s(&self, values: &[f32]) -> u64;
    fn u16s(&self, values: &[u16]) -> u64;
    fn u32s(&self, values: &[u32]) -> u64;
    fn u64s(&self, values: &[u64]) -> u64;
    fn bytes(&self, len: usize, byte: u8) -> u64;
    /// Overwrites what [`Card::bytes`] has made.
    fn fill(&self, at: u64, len: usize, byte: u8);
    /// Values, after all work in the stream.
    fn read_f32s(&self, at: u64, len: usize) -> Vec<f32>;
    fn read_u16s(&self, at: u64, len: usize) -> Vec<u16>;
    fn stream(&self) -> *mut c_void;
}

fn bfloat(x: f32) -> u16 {
    let bits = x.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// A caller's array in some format.
#[derive(Debug, Clone, Copy)]
pub struct Array {
    at: u64,
    len: usize,
    format: Format,
}

impl Array {
    fn new(card: &impl Card, values: &[f32], format: Format) -> Array {
        let halves = |of: fn(f32) -> u16| values.iter().map(|x| of(*x)).collect::<Vec<u16>>();
        let at = match format {
            Format::F16 => card.u16s(&halves(half_from_float)),
            Format::Bf16 => card.u16s(&halves(bfloat)),
            _ => card.f32s(values),
        };
        Array { at, len: values.len(), format }
    }

    pub fn values(self, card: &impl Card) -> Vec<f32> {
        let Array { at, len, format } = self;
        let halves = |of: fn(u16) -> f32| card.read_u16s(at, len).into_iter().map(of).collect();
        match format {
            Format::F16 => halves(float_from_half),
            Format::Bf16 => halves(|x| f32::from_bits(u32::from(x) << 16)),
            _ => card.read_f32s(at, len),
        }
    }
}

/// What a case has besides its specification.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub spec: RecurrenceSpec,
    pub steps: usize,
    pub rows: usize,
    pub options: RecurrenceOptions,
    /// First states, lengths (in i64, else i32), biases are given.
    pub states: bool,
    pub lengths: Option<bool>,
    pub biases: bool,
    /// Gradients are multiplied by this.
    pub scale: f32,
    /// Relative to the largest value of an array.
    pub tolerance: f32,
}

/// Random arrays of a case, and what `drnn` computes from them.
pub struct Expected {
    pub x: Vec<f32>,
    pub lengths: Vec<usize>,
    pub params: Vec<f32>,
    pub first: States,
    pub d_y: Vec<f32>,
    pub d_last: States,
    pub y: Vec<f32>,
    pub last: States,
    pub d_x: Vec<f32>,
    pub d_first: States,
    pub d_params: Vec<f32>,
}

fn random(rng: &mut Rng, len: usize, size: f32) -> Vec<f32> {
    (0..len).map(|_| rng.symmetric(size)).collect()
}

fn rounded(values: Vec<f32>, format: Format) -> Vec<f32> {
    let round = |x: f32| match format {
        Format::F16 => float_from_half(half_from_float(x)),
        Format::Bf16 => f32::from_bits(u32::from(bfloat(x)) << 16),
        _ => x,
    };
    values.into_iter().map(round).collect()
}

fn net(spec: RecurrenceSpec) -> NetSpec {
    let RecurrenceSpec { cell, inputs, units, layers, bidirectional } = spec;
    let builder = NetSpec::builder(cell).dense(inputs).units(vec![units; layers]);
    let builder = if bidirectional { builder.bidirectional() } else { builder };
    builder.build().expect("a network")
}

impl Expected {
    pub fn of(case: &Case) -> Expected {
        let Case { steps, rows, options, scale, .. } = *case;
        let (net, mut rng) = (net(case.spec), Rng::new(7));
        let (q, m) = (case.spec.inputs, net.output_width());
        let x = rounded(random(&mut rng, steps * rows * q, 1.0), options.format);
        // One row has all steps, one has none, others have some.
        let length = |row: usize| match row {
            0 => steps,
            1 if rows > 2 => 0,
            _ => 1 + (row * 5) % steps,
        };
        let lengths: Vec<usize> =
            (0..rows).map(|row| if case.lengths.is_some() { length(row) } else { steps }).collect();
        let mut params = drnn::params::initial(&net, 3);
        if !case.biases {
            let layout = Layout::new(&net);
            for (layer, direction) in places(case.spec) {
                let [_, _, b_ih, b_hh] = layout.layer(layer, direction);
                params[b_ih].fill(0.0);
                params[b_hh].fill(0.0);
            }
        }
        let zeros = States::zeros(&net, rows);
        let mut states = |size: f32| States {
            h: random(&mut rng, zeros.h.len(), size),
            c: random(&mut rng, zeros.c.len(), size),
        };
        let first = if case.states { states(0.9) } else { zeros.clone() };
        let d_last = states(scale);
        let d_y = rounded(random(&mut rng, steps * rows * m, scale), options.format);

        // drnn's own gradients may not reach into the smallest floats: of unscaled ones.
        let unscaled = |values: &[f32]| values.iter().map(|x| x / scale).collect::<Vec<f32>>();
        let batch = Batch::dense(&x, Steps(steps), Rows(rows)).lengths(&lengths);
        let lanes = [Lane { params: (&params).into(), batch, start: Some(&first) }];
        let mut tape = Tape::new(&net).expect("a tape");
        let pass = tape.forward(&lanes).expect("a pass");
        let (y, last) = (pass.outputs(0).to_vec(), pass.last(0));
        let mut d_x = vec![0.0; x.len()];
        let (mut d_first, mut d_params) = (zeros, vec![0.0; params.len()]);
        let d_last_unscaled = States { h: unscaled(&d_last.h), c: unscaled(&d_last.c) };
        let gradient = Gradient {
            outputs: &unscaled(&d_y),
            last: Some(&d_last_unscaled),
            params: &mut d_params,
            input: Some(&mut d_x),
            start: Some(&mut d_first),
        };
        pass.backward(&mut [gradient]).expect("a pass");
        let by_scale = |values: &mut Vec<f32>| values.iter_mut().for_each(|x| *x *= scale);
        [&mut d_x, &mut d_params, &mut d_first.h, &mut d_first.c].into_iter().for_each(by_scale);
        Expected { x, lengths, params, first, d_y, d_last, y, last, d_x, d_first, d_params }
    }
}

/// Layers and directions, in PyTorch's order.
fn places(spec: RecurrenceSpec) -> impl Iterator<Item = (usize, usize)> {
    let directions = 1 + usize::from(spec.bidirectional);
    (0..spec.layers * directions).map(move |at| (at / directions, at % directions))
}

/// An array for each parameter; `None` for biases that are not there.
pub struct Parameters {
    pub arrays: Vec<LayerArrays>,
    sizes: Vec<[usize; 4]>,
}

impl Parameters {
    fn new(card: &impl Card, case: &Case, params: &[f32]) -> Parameters {
        let layout = Layout::new(&net(case.spec));
        let (mut arrays, mut sizes) = (Vec::new(), Vec::new());
        for (layer, direction) in places(case.spec) {
            let ranges = layout.layer(layer, direction);
            sizes.push([0, 1, 2, 3].map(|i: usize| ranges[i].len()));
            let [w_ih, w_hh, b_ih, b_hh] = ranges.map(|range| card.f32s(&params[range]));
            let bias = |at| if case.biases { at } else { 0 };
            arrays.push(LayerArrays { w_ih, w_hh, b_ih: bias(b_ih), b_hh: bias(b_hh) });
        }
        Parameters { arrays, sizes }
    }

    /// By layer and direction: W_ih, W_hh and, if they are there, b_ih and b_hh.
    pub fn values(&self, card: &impl Card) -> Vec<[Option<Vec<f32>>; 4]> {
        let of_layer = |(arrays, sizes): (&LayerArrays, &[usize; 4])| {
            let LayerArrays { w_ih, w_hh, b_ih, b_hh } = *arrays;
            let at = [w_ih, w_hh, b_ih, b_hh];
            [0, 1, 2, 3].map(|i| (at[i] != 0).then(|| card.read_f32s(at[i], sizes[i])))
        };
        self.arrays.iter().zip(&self.sizes).map(of_layer).collect()
    }

    /// Compares each with its part of a parameter vector.
    fn compare(&self, card: &impl Card, case: &Case, expected: &[f32]) {
        let layout = Layout::new(&net(case.spec));
        for ((layer, direction), found) in places(case.spec).zip(self.values(card)) {
            let ranges = layout.layer(layer, direction);
            for (i, (range, found)) in ranges.into_iter().zip(found).enumerate() {
                let what = format!("gradient {i} of layer {layer}, direction {direction}");
                if let Some(found) = found {
                    close(case, &what, &found, &expected[range]);
                }
            }
        }
    }
}

fn close(case: &Case, what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(0.0f32, |a, b| a.max(b.abs()));
    for (i, (a, b)) in found.iter().zip(expected).enumerate() {
        let far = (a - b).abs();
        assert!(
            far <= case.tolerance * largest.max(f32::MIN_POSITIVE),
            "{case:?}: {what}[{i}] is {a}, expected {b} (largest {largest})"
        );
    }
}

/// Arrays of a case on a card, with NaN where a sequence has ended and where results go.
pub struct Run<'a, C: Card> {
    card: &'a C,
    case: Case,
    pub planned: Recurrence,
    parameters: Parameters,
    pub gradients: Parameters,
    x: Array,
    pub y: Array,
    pub d_x: Array,
    d_y: Array,
    lengths: Lengths,
    /// First and last states, and their gradients: of h and of c.
    first: [Array; 2],
    pub last: [Array; 2],
    pub d_first: [Array; 2],
    d_last: [Array; 2],
    saved: u64,
    workspace: u64,
}

impl<'a, C: Card> Run<'a, C> {
    pub fn new(card: &'a C, planned: Recurrence, case: Case, expected: &Expected) -> Run<'a, C> {
        let Case { spec, steps, rows, options, .. } = case;
        // What stands after the end of a sequence must not be read.
        let masked = |values: &[f32], width: usize| {
            let ended = |at: usize| at / width / rows >= expected.lengths[at / width % rows];
            let value = |(at, x): (usize, &f32)| if ended(at) { f32::NAN } else { *x };
            let values: Vec<f32> = values.iter().enumerate().map(value).collect();
            Array::new(card, &values, options.format)
        };
        let nan = |len: usize| Array::new(card, &vec![f32::NAN; len], options.format);
        let (q, m) = (spec.inputs, net(spec).output_width());
        let states = |of: &States| [&of.h, &of.c].map(|v| Array::new(card, v, Format::F32));
        let no_states = || {
            let lens = [expected.last.h.len(), expected.last.c.len()];
            lens.map(|len| Array::new(card, &vec![f32::NAN; len], Format::F32))
        };
        // Negative counts as none, and beyond T as T.
        let length32 = |l: &usize| if *l == 0 { u32::MAX } else { *l as u32 };
        let lengths32: Vec<u32> = expected.lengths.iter().map(length32).collect();
        let length64 = |l: &usize| if *l == steps { 1 << 40 } else { *l as u64 };
        let lengths64: Vec<u64> = expected.lengths.iter().map(length64).collect();
        Run {
            card,
            case,
            parameters: Parameters::new(card, &case, &expected.params),
            gradients: Parameters::new(card, &case, &vec![f32::NAN; expected.params.len()]),
            x: masked(&expected.x, q),
            y: nan(steps * rows * m),
            d_x: nan(steps * rows * q),
            d_y: masked(&expected.d_y, m),
            lengths: match case.lengths {
                None => Lengths::Full,
                Some(false) => Lengths::I32(card.u32s(&lengths32)),
                Some(true) => Lengths::I64(card.u64s(&lengths64)),
            },
            first: states(&expected.first),
            last: no_states(),
            d_first: no_states(),
            d_last: states(&expected.d_last),
            saved: card.bytes(planned.saved_bytes(), GARBAGE),
            workspace: card.bytes(planned.workspace_bytes(), GARBAGE),
            planned,
        }
    }

    /// Addresses of states of h and c, those of c if there are any.
    fn states(&self, of: &[Array; 2]) -> [u64; 2] {
        let has_c = self.case.spec.cell.has_cell_state();
        [of[0].at, if has_c { of[1].at } else { 0 }]
    }

    /// Submits the forward pass.
    pub fn forward(&self) {
        let [h0, c0] = if self.case.states { self.states(&self.first) } else { [0; 2] };
        let [h_n, c_n] = self.states(&self.last);
        let call = ForwardArguments {
            x: self.x.at,
            parameters: &self.parameters.arrays,
            h0,
            c0,
            lengths: self.lengths,
            y: self.y.at,
            h_n,
            c_n,
            saved: self.saved,
            workspace: self.workspace,
        };
        // SAFETY: all arrays have the sizes of the plan.
        unsafe { self.planned.forward(self.card.stream(), &call) }.expect("a forward pass");
    }

    /// Submits the backward pass.
    pub fn backward(&self) {
        let ([d_h_n, d_c_n], [d_h0, d_c0]) =
            (self.states(&self.d_last), self.states(&self.d_first));
        let call = BackwardArguments {
            parameters: &self.parameters.arrays,
            d_y: self.d_y.at,
            d_h_n,
            d_c_n,
            d_x: self.d_x.at,
            d_h0,
            d_c0,
            gradients: &self.gradients.arrays,
            saved: self.saved,
            workspace: self.workspace,
        };
        // SAFETY: all arrays have the sizes of the plan.
        unsafe { self.planned.backward(self.card.stream(), &call) }.expect("a backward pass");
    }

    /// Overwrites the workspace, which is free between calls.
    pub fn spoil_workspace(&self) {
        self.card.fill(self.workspace, self.planned.workspace_bytes(), GARBAGE);
    }

    /// Everything that both passes have written.
    pub fn results(&self) -> Vec<Vec<f32>> {
        let card = self.card;
        let of_values = [self.y, self.d_x].into_iter().chain(self.last).chain(self.d_first);
        let gradients = self.gradients.values(card).into_iter().flatten().flatten();
        of_values.map(|array| array.values(card)).chain(gradients).collect()
    }

    /// Both passes, compared with what is expected.
    pub fn check(&self, expected: &Expected) {
        let (card, case) = (self.card, &self.case);
        let compare = |what: &str, found: Array, expected: &[f32]| {
            close(case, what, &found.values(card), expected);
        };
        self.forward();
        compare("y", self.y, &expected.y);
        compare("h_n", self.last[0], &expected.last.h);
        compare("c_n", self.last[1], &expected.last.c);
        self.spoil_workspace();
        self.backward();
        compare("d_x", self.d_x, &expected.d_x);
        compare("d_h0", self.d_first[0], &expected.d_first.h);
        compare("d_c0", self.d_first[1], &expected.d_first.c);
        self.gradients.compare(card, case, &expected.d_params);
    }
}

/// A small case in f32.
pub fn plain(cell: Cell, layers: usize, bidirectional: bool) -> Case {
    Case {
        spec: RecurrenceSpec { cell, inputs: 3, units: 5, layers, bidirectional },
        steps: 6,
        rows: 4,
        options: RecurrenceOptions { training: true, ..RecurrenceOptions::default() },
        states: true,
        lengths: Some(false),
        biases: true,
        scale: 1.0,
        tolerance: 2e-5,
    }
}

/// A case in f16 with sums in f32, of LSTMs, GRUs and tanh RNNs.
pub fn persistent(cell: Cell, units: usize, layers: usize, bidirectional: bool) -> Case {
    let case = plain(cell, layers, bidirectional);
    let options = RecurrenceOptions { precision: Precision::F16, ..case.options };
    let spec = RecurrenceSpec { units, ..case.spec };
    Case { spec, options, tolerance: 5e-3, ..case }
}

/// Weights of 8 between states near zero: on its way to the first state the gradient of h grows
/// eightfold at each of 9 steps, beyond the range of f16.
pub fn exploding() -> (Case, Expected) {
    let spec = RecurrenceSpec { inputs: 1, ..persistent(Cell::RnnTanh, 1, 1, false).spec };
    let case = persistent(Cell::RnnTanh, 1, 1, false);
    let case = Case { spec, steps: 9, lengths: None, states: false, ..case };
    let mut expected = Expected::of(&case);
    (expected.x, expected.params) = (vec![0.0; 9 * case.rows], vec![0.0, 8.0, 0.0, 0.0]);
    (case, expected)
}
