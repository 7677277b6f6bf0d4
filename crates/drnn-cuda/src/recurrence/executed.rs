//! Whole calls executed on the CPU, compared with `drnn`'s own forward and backward passes: host code
//! and kernels together. Needs a C++ compiler with `_Float16`.

use super::*;
use crate::persistent::DeviceLimits;
use crate::runtime::driver::recorder::{Executor, float_from_half, half_from_float};
use crate::runtime::memory::{Buffer, Pod};
use drnn::params::Layout;
use drnn::random::Rng;
use drnn::{Batch, Gradient, Lane, Rows, States, Steps, Tape};
use drnn_testing::{Need, skip};
use std::process::Command;
use std::sync::LazyLock;

/// What is in memory before anything is written: no test may depend on it.
const GARBAGE: u8 = 0xff;

/// Whether there is a compiler, tried once.
static COMPILER: LazyLock<bool> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, to) = (folder.path().join("f16.cpp"), folder.path().join("f16"));
    std::fs::write(&source, "int main() { _Float16 x = 1; return x != 1; }\n").expect("a file");
    let mut command = Command::new(std::env::var_os("CXX").unwrap_or("c++".into()));
    command.args(["-std=c++20", "-o"]).arg(to).arg(source);
    command.output().is_ok_and(|output| output.status.success())
});

/// A device that executes, unless there is no compiler.
fn device() -> Option<Device> {
    if !*COMPILER {
        skip(Need::Cxx, "no C++ compiler with _Float16");
        return None;
    }
    let device = Device::recorded((9, 0), DeviceLimits { multiprocessors: 132, shared: 227 << 10 });
    device.recorder().execute_with(Executor::default());
    Some(device)
}

/// A caller's array in some format, and its values.
enum Array {
    F32(Buffer<f32>),
    Half(Buffer<u16>, Format),
}

fn bfloat(x: f32) -> u16 {
    let bits = x.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

impl Array {
    fn from(device: &Device, values: &[f32], format: Format) -> Array {
        let as_half = |of: fn(f32) -> u16| -> Buffer<u16> {
            let values: Vec<u16> = values.iter().map(|x| of(*x)).collect();
            Buffer::from(device, &values).expect("memory")
        };
        match format {
            Format::F32 => Array::F32(Buffer::from(device, values).expect("memory")),
            Format::F16 => Array::Half(as_half(half_from_float), format),
            Format::Bf16 => Array::Half(as_half(bfloat), format),
        }
    }

    fn at(&self) -> u64 {
        match self {
            Array::F32(buffer) => buffer.at(0),
            Array::Half(buffer, _) => buffer.at(0),
        }
    }

    fn values(&self) -> Vec<f32> {
        match self {
            Array::F32(buffer) => all(buffer),
            Array::Half(buffer, Format::F16) => {
                all(buffer).into_iter().map(float_from_half).collect()
            }
            Array::Half(buffer, _) => {
                all(buffer).into_iter().map(|x| f32::from_bits(u32::from(x) << 16)).collect()
            }
        }
    }
}

fn all<T: Pod>(of: &Buffer<T>) -> Vec<T> {
    of.get(0, of.len()).expect("memory")
}

/// What a case has besides its specification.
#[derive(Debug, Clone, Copy)]
struct Case {
    spec: RecurrenceSpec,
    steps: usize,
    rows: usize,
    options: RecurrenceOptions,
    /// First states, lengths (in i64, else i32), biases are given.
    states: bool,
    lengths: Option<bool>,
    biases: bool,
    /// Gradients are multiplied by this.
    scale: f32,
    /// Relative to the largest value of an array.
    tolerance: f32,
}

/// Random arrays of a case, and what `drnn` computes from them.
struct Expected {
    x: Vec<f32>,
    lengths: Vec<usize>,
    params: Vec<f32>,
    first: States,
    d_y: Vec<f32>,
    d_last: States,
    y: Vec<f32>,
    last: States,
    d_x: Vec<f32>,
    d_first: States,
    d_params: Vec<f32>,
}

fn random(rng: &mut Rng, len: usize, size: f32) -> Vec<f32> {
    (0..len).map(|_| rng.symmetric(size)).collect()
}

fn rounded(values: Vec<f32>, format: Format) -> Vec<f32> {
    let round = |x: f32| match format {
        Format::F32 => x,
        Format::F16 => float_from_half(half_from_float(x)),
        Format::Bf16 => f32::from_bits(u32::from(bfloat(x)) << 16),
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
    fn of(case: &Case) -> Expected {
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
        let lanes = [Lane { params: &params, batch, start: Some(&first) }];
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

/// An array for each parameter.
struct Parameters {
    buffers: Vec<[Option<Buffer<f32>>; 4]>,
    arrays: Vec<LayerArrays>,
}

impl Parameters {
    fn new(device: &Device, case: &Case, params: &[f32]) -> Parameters {
        let layout = Layout::new(&net(case.spec));
        let of_place = |(layer, direction)| {
            let [w_ih, w_hh, b_ih, b_hh] = layout.layer(layer, direction);
            let buffer = |range: std::ops::Range<usize>| {
                Some(Buffer::from(device, &params[range]).expect("memory"))
            };
            let bias = |range| if case.biases { buffer(range) } else { None };
            [buffer(w_ih), buffer(w_hh), bias(b_ih), bias(b_hh)]
        };
        let buffers: Vec<_> = places(case.spec).map(of_place).collect();
        let arrays = buffers.iter().map(|of_layer| {
            let address = |i: usize| of_layer[i].as_ref().map_or(0, |buffer| buffer.at(0));
            LayerArrays { w_ih: address(0), w_hh: address(1), b_ih: address(2), b_hh: address(3) }
        });
        let arrays = arrays.collect();
        Parameters { buffers, arrays }
    }

    /// Compares each with its part of a parameter vector.
    fn compare(&self, case: &Case, expected: &[f32]) {
        let layout = Layout::new(&net(case.spec));
        for ((layer, direction), found) in places(case.spec).zip(&self.buffers) {
            let ranges = layout.layer(layer, direction);
            for (i, range) in ranges.into_iter().enumerate() {
                let what = format!("gradient {i} of layer {layer}, direction {direction}");
                if let Some(found) = &found[i] {
                    close(case, &what, &all(found), &expected[range]);
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

/// Arrays of a case on a device, with NaN where a sequence has ended and where results go.
struct Run {
    device: Device,
    case: Case,
    planned: Recurrence,
    stream: Stream,
    parameters: Parameters,
    gradients: Parameters,
    x: Array,
    y: Array,
    d_x: Array,
    d_y: Array,
    lengths: (Buffer<u32>, Buffer<u64>),
    /// First and last states, and their gradients: of h and of c.
    first: [Buffer<f32>; 2],
    last: [Buffer<f32>; 2],
    d_first: [Buffer<f32>; 2],
    d_last: [Buffer<f32>; 2],
    saved: Buffer<u8>,
    workspace: Buffer<u8>,
}

impl Run {
    fn new(device: &Device, case: Case, expected: &Expected) -> Run {
        let Case { spec, steps, rows, options, .. } = case;
        let planned = Recurrence::plan(device, spec, [steps, rows], options).expect("a plan");
        planned.warm_up().expect("kernels");
        // What stands after the end of a sequence must not be read.
        let masked = |values: &[f32], width: usize| {
            let ended = |at: usize| at / width / rows >= expected.lengths[at / width % rows];
            let value = |(at, x): (usize, &f32)| if ended(at) { f32::NAN } else { *x };
            let values: Vec<f32> = values.iter().enumerate().map(value).collect();
            Array::from(device, &values, options.format)
        };
        let nan = |len: usize| Array::from(device, &vec![f32::NAN; len], options.format);
        let (q, m) = (spec.inputs, net(spec).output_width());
        let states = |of: &States| [&of.h, &of.c].map(|v| Buffer::from(device, v).expect("memory"));
        let no_states = || {
            let nan = |values: &Vec<f32>| Buffer::from(device, &vec![f32::NAN; values.len()]);
            [&expected.last.h, &expected.last.c].map(|values| nan(values).expect("memory"))
        };
        let lengths32: Vec<u32> = expected.lengths.iter().map(|l| *l as u32).collect();
        // Beyond T counts as T.
        let length64 = |l: &usize| if *l == steps { 1 << 40 } else { *l as u64 };
        let lengths64: Vec<u64> = expected.lengths.iter().map(length64).collect();
        let memory = |bytes| Buffer::filled(device, bytes, GARBAGE).expect("memory");
        Run {
            device: device.clone(),
            case,
            stream: Stream::new(device).expect("a stream"),
            parameters: Parameters::new(device, &case, &expected.params),
            gradients: Parameters::new(device, &case, &vec![f32::NAN; expected.params.len()]),
            x: masked(&expected.x, q),
            y: nan(steps * rows * m),
            d_x: nan(steps * rows * q),
            d_y: masked(&expected.d_y, m),
            lengths: (
                Buffer::from(device, &lengths32).expect("memory"),
                Buffer::from(device, &lengths64).expect("memory"),
            ),
            first: states(&expected.first),
            last: no_states(),
            d_first: no_states(),
            d_last: states(&expected.d_last),
            saved: memory(planned.saved_bytes()),
            workspace: memory(planned.workspace_bytes()),
            planned,
        }
    }

    /// Addresses of states of h and c, those of c if there are any.
    fn states(&self, of: &[Buffer<f32>; 2]) -> [u64; 2] {
        let has_c = self.case.spec.cell.has_cell_state();
        [of[0].at(0), if has_c { of[1].at(0) } else { 0 }]
    }

    fn forward(&self) {
        let Case { states, lengths, .. } = self.case;
        let [h0, c0] = if states { self.states(&self.first) } else { [0; 2] };
        let [h_n, c_n] = self.states(&self.last);
        let call = ForwardArguments {
            x: self.x.at(),
            parameters: &self.parameters.arrays,
            h0,
            c0,
            lengths: match lengths {
                None => Lengths::Full,
                Some(false) => Lengths::I32(self.lengths.0.at(0)),
                Some(true) => Lengths::I64(self.lengths.1.at(0)),
            },
            y: self.y.at(),
            h_n,
            c_n,
            saved: if self.saved.len() > 0 { self.saved.at(0) } else { 0 },
            workspace: self.workspace.at(0),
        };
        // SAFETY: all arrays have the sizes of the plan.
        unsafe { self.planned.forward(self.stream.raw().cast(), &call) }.expect("a forward pass");
        // The workspace is free between the passes.
        self.workspace.set(&vec![GARBAGE; self.workspace.len()]).expect("memory");
    }

    fn backward(&self) {
        let ([d_h_n, d_c_n], [d_h0, d_c0]) =
            (self.states(&self.d_last), self.states(&self.d_first));
        let call = BackwardArguments {
            parameters: &self.parameters.arrays,
            d_y: self.d_y.at(),
            d_h_n,
            d_c_n,
            d_x: self.d_x.at(),
            d_h0,
            d_c0,
            gradients: &self.gradients.arrays,
            saved: self.saved.at(0),
            workspace: self.workspace.at(0),
        };
        // SAFETY: all arrays have the sizes of the plan.
        unsafe { self.planned.backward(self.stream.raw().cast(), &call) }.expect("a backward pass");
    }
}

/// Runs a case forward and backward and compares everything.
fn check(case: Case) {
    let Some(device) = device() else { return };
    let expected = Expected::of(&case);
    let run = Run::new(&device, case, &expected);
    let way = match case.options.precision {
        Precision::F16 => Way::Persistent,
        _ => Way::Plain,
    };
    assert_eq!(run.planned.way(), way);
    run.forward();
    close(&case, "y", &run.y.values(), &expected.y);
    close(&case, "h_n", &all(&run.last[0]), &expected.last.h);
    close(&case, "c_n", &all(&run.last[1]), &expected.last.c);
    run.backward();
    close(&case, "d_x", &run.d_x.values(), &expected.d_x);
    close(&case, "d_h0", &all(&run.d_first[0]), &expected.d_first.h);
    close(&case, "d_c0", &all(&run.d_first[1]), &expected.d_first.c);
    run.gradients.compare(&case, &expected.d_params);
}

fn plain(cell: Cell, layers: usize, bidirectional: bool) -> Case {
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

#[test]
fn every_cell_step_by_step() {
    for cell in crate::step::plan::CELLS {
        check(plain(cell, 1, false));
        check(plain(cell, 2, true));
    }
}

#[test]
fn what_is_optional_may_be_left_out() {
    check(Case { states: false, ..plain(Cell::Lstm, 2, true) });
    check(Case { lengths: None, ..plain(Cell::Gru, 1, true) });
    check(Case { lengths: Some(true), biases: false, ..plain(Cell::Lstm, 1, false) });
}

#[test]
fn inputs_and_outputs_of_other_formats() {
    for (format, tolerance) in [(Format::F16, 1e-3), (Format::Bf16, 8e-3)] {
        let options = RecurrenceOptions { format, training: true, ..Default::default() };
        check(Case { options, tolerance, ..plain(Cell::Lstm, 2, true) });
    }
}

/// Of LSTMs, GRUs and tanh RNNs, in f16 with sums in f32.
fn persistent(cell: Cell, units: usize, layers: usize, bidirectional: bool) -> Case {
    let case = plain(cell, layers, bidirectional);
    let options = RecurrenceOptions { precision: Precision::F16, ..case.options };
    let spec = RecurrenceSpec { units, ..case.spec };
    Case { spec, options, tolerance: 5e-3, ..case }
}

#[test]
fn every_persistent_cell() {
    for cell in [Cell::Lstm, Cell::Gru, Cell::RnnTanh] {
        check(persistent(cell, 40, 1, false));
        check(persistent(cell, 6, 1, true));
    }
}

/// A wavefront of layers in one launch, more rows than a group has, layers that read the one below.
#[test]
fn persistent_stacks() {
    check(persistent(Cell::Lstm, 40, 3, false));
    check(Case { rows: 19, ..persistent(Cell::Gru, 33, 2, false) });
    check(Case { states: false, biases: false, ..persistent(Cell::Lstm, 20, 2, true) });
    check(Case { lengths: None, ..persistent(Cell::RnnTanh, 20, 2, true) });
}

#[test]
fn persistent_kernels_with_other_formats() {
    for (format, tolerance) in [(Format::F16, 5e-3), (Format::Bf16, 1e-2)] {
        let case = persistent(Cell::Lstm, 6, 1, true);
        let options = RecurrenceOptions { format, ..case.options };
        check(Case { options, tolerance, lengths: Some(true), ..case });
    }
}

/// Far beyond the range of f16, on both sides.
#[test]
fn gradients_of_any_scale() {
    for scale in [1e-30, 1e-9, 1e9, 1e30] {
        check(Case { scale, ..persistent(Cell::Gru, 6, 1, false) });
    }
    check(Case { scale: 1e-30, ..plain(Cell::Lstm, 1, false) });
}

/// Without training nothing is saved, and the outputs are the same to the bit.
#[test]
fn inference_equals_the_forward_pass_of_training() {
    let Some(device) = device() else { return };
    for case in [plain(Cell::Gru, 2, true), persistent(Cell::Lstm, 20, 2, true)] {
        let expected = Expected::of(&case);
        let of = |training: bool| {
            let case = Case { options: RecurrenceOptions { training, ..case.options }, ..case };
            let run = Run::new(&device, case, &expected);
            assert_eq!(run.saved.len() > 0, training);
            run.forward();
            [run.y.values(), all(&run.last[0]), all(&run.last[1])]
        };
        assert_eq!(of(true), of(false));
    }
}

/// The same case, twice in the same memory and once more after another one.
#[test]
fn calls_do_not_depend_on_earlier_ones() {
    let Some(device) = device() else { return };
    let case = persistent(Cell::Gru, 33, 1, true);
    let run = Run::new(&device, case, &Expected::of(&case));
    let results = || {
        run.forward();
        run.backward();
        let gradients = run.gradients.buffers.iter().flatten().flatten();
        [run.y.values(), run.d_x.values(), gradients.flat_map(all).collect()]
    };
    let first = results();
    assert_eq!(first, results());
}

/// A gradient that is not finite, and one that grows beyond f16 on its way.
#[test]
fn gradients_that_are_not_finite_stay_so() {
    let Some(device) = device() else { return };
    for case in [plain(Cell::Lstm, 1, false), persistent(Cell::Lstm, 6, 1, false)] {
        for bad in [f32::NAN, f32::INFINITY] {
            let mut expected = Expected::of(&case);
            expected.d_y[0] = bad;
            let run = Run::new(&device, case, &expected);
            run.forward();
            run.backward();
            let weights = all(run.gradients.buffers[0][0].as_ref().expect("w_ih"));
            assert!(weights.iter().any(|x| !x.is_finite()), "{bad}: {weights:?}");
        }
    }
    // Weights of 8 between states near zero: the gradient of h grows eightfold at each step.
    let spec = RecurrenceSpec { units: 1, inputs: 1, ..plain(Cell::RnnTanh, 1, false).spec };
    let case = Case { spec, steps: 9, lengths: None, ..persistent(Cell::RnnTanh, 1, 1, false) };
    let mut expected = Expected::of(&Case { spec, ..case });
    expected.params = vec![0.0, 8.0, 0.0, 0.0];
    (expected.x, expected.first.h) = (vec![0.0; 9 * 4], vec![0.0; 4]);
    let run = Run::new(&device, Case { spec, states: false, ..case }, &expected);
    run.forward();
    run.backward();
    let d_h0 = all(&run.d_first[0]);
    assert!(d_h0.iter().all(|x| !x.is_finite()), "{d_h0:?}");
}

/// Two calls on halves of the sequences, the second one from the last states of the first.
#[test]
fn sequences_may_be_split_between_calls() {
    let Some(device) = device() else { return };
    for cell in [Cell::Lstm, Cell::Gru] {
        let whole = Case { lengths: None, ..persistent(cell, 33, 1, false) };
        let half = Case { steps: whole.steps / 2, ..whole };
        let mut expected = Expected::of(&whole);
        let run = Run::new(&device, whole, &expected);
        run.forward();
        let (y, last) = (run.y.values(), [all(&run.last[0]), all(&run.last[1])]);
        let mut found = Vec::new();
        let x = std::mem::take(&mut expected.x);
        for x in x.chunks(x.len() / 2) {
            expected.x = x.to_vec();
            let run = Run::new(&run.device, half, &expected);
            run.forward();
            found.extend(run.y.values());
            expected.first = States { h: all(&run.last[0]), c: all(&run.last[1]) };
        }
        assert_eq!(y, found);
        assert_eq!(last, [expected.first.h, expected.first.c]);
    }
}
