//! The recorder accepts all work of calls of [`Recurrence`], inside a capture, in memory of exactly
//! the promised sizes; and what cannot be run is refused.

use super::{ampere, hopper};
use crate::persistent::{DeviceLimits, ForcedTiling, Kind, Kinds};
use crate::runtime::device::Device;
use crate::runtime::driver::recorder::Names;
use crate::runtime::gemm::Precision;
use crate::runtime::memory::Buffer;
use crate::runtime::stream::Stream;
use crate::{
    BackwardArguments, Error, Format, ForwardArguments, LayerArrays, Lengths, Recurrence,
    RecurrenceOptions, RecurrenceSpec, Way,
};
use drnn::Cell;

/// All arrays of a caller, each an allocation of its exact size.
struct Caller {
    x: Values,
    y: Values,
    d_x: Values,
    d_y: Values,
    parameters: Vec<[Buffer<f32>; 4]>,
    gradients: Vec<[Buffer<f32>; 4]>,
    /// h0, c0, h_n, c_n, then their gradients.
    states: Vec<Buffer<f32>>,
    lengths: (Buffer<u32>, Buffer<u64>),
    saved: Buffer<u8>,
    workspace: Buffer<u8>,
}

enum Values {
    F32(Buffer<f32>),
    Half(Buffer<u16>),
}

impl Values {
    fn new(device: &Device, len: usize, format: Format) -> Values {
        match format {
            Format::F32 => Values::F32(Buffer::zeros(device, len).expect("memory")),
            _ => Values::Half(Buffer::zeros(device, len).expect("memory")),
        }
    }

    fn at(&self) -> u64 {
        match self {
            Values::F32(buffer) => buffer.at(0),
            Values::Half(buffer) => buffer.at(0),
        }
    }
}

fn arrays(of: &[[Buffer<f32>; 4]], biases: bool) -> Vec<LayerArrays> {
    let bias = |of: &Buffer<f32>| if biases { of.at(0) } else { 0 };
    let layer = |[w_ih, w_hh, b_ih, b_hh]: &[Buffer<f32>; 4]| LayerArrays {
        w_ih: w_ih.at(0),
        w_hh: w_hh.at(0),
        b_ih: bias(b_ih),
        b_hh: bias(b_hh),
    };
    of.iter().map(layer).collect()
}

impl Caller {
    fn new(device: &Device, planned: &Recurrence, [steps, rows]: [usize; 2]) -> Caller {
        let (spec, format) = (planned.spec(), planned.options().format);
        let RecurrenceSpec { cell, inputs, units, layers, bidirectional } = spec;
        let (directions, gates) = (1 + usize::from(bidirectional), cell.gates() * units);
        let floats = |len: usize| Buffer::<f32>::zeros(device, len).expect("memory");
        let layer = |at: usize| {
            let width = if at < directions { inputs } else { directions * units };
            [gates * width, gates * units, gates, gates].map(floats)
        };
        let all = || (0..layers * directions).map(layer).collect();
        let values = |width: usize| Values::new(device, steps * rows * width, format);
        let memory = |bytes: usize| Buffer::<u8>::zeros(device, bytes).expect("memory");
        Caller {
            x: values(inputs),
            y: values(directions * units),
            d_x: values(inputs),
            d_y: values(directions * units),
            parameters: all(),
            gradients: all(),
            states: (0..8).map(|_| floats(layers * directions * rows * units)).collect(),
            lengths: (
                Buffer::zeros(device, rows).expect("memory"),
                Buffer::zeros(device, rows).expect("memory"),
            ),
            saved: memory(planned.saved_bytes()),
            workspace: memory(planned.workspace_bytes()),
        }
    }
}

/// Which optional arguments are given, one bit each.
#[derive(Debug, Clone, Copy)]
struct Given(u32);

impl Given {
    const ALL: Given = Given(0xfff);

    /// An address, if bit `bit` is set.
    fn address(self, bit: u32, at: u64) -> u64 {
        if self.0 >> bit & 1 == 1 { at } else { 0 }
    }
}

/// A forward and, if it trains, a backward pass.
fn submit(
    planned: &Recurrence,
    caller: &Caller,
    stream: &Stream,
    given: Given,
) -> Result<(), Error> {
    let has_c = planned.spec().cell.has_cell_state();
    // h of bit 0, 2, 4, 6, c of the odd ones.
    let state = |at: u32| {
        let address = given.address(at, caller.states[at as usize].at(0));
        if at.is_multiple_of(2) || has_c { address } else { 0 }
    };
    let biases = given.address(8, 1) == 1;
    let parameters = arrays(&caller.parameters, biases);
    let gradients = arrays(&caller.gradients, biases);
    let (saved, workspace) = (caller.saved.at(0), caller.workspace.at(0));
    let saved = if planned.options().training { saved } else { 0 };
    let call = ForwardArguments {
        x: caller.x.at(),
        parameters: &parameters,
        h0: state(0),
        c0: state(1),
        lengths: match given.address(9, 1) {
            0 => Lengths::Full,
            _ if given.address(10, 1) == 1 => Lengths::I64(caller.lengths.1.at(0)),
            _ => Lengths::I32(caller.lengths.0.at(0)),
        },
        y: caller.y.at(),
        h_n: state(2),
        c_n: state(3),
        saved,
        workspace,
    };
    let raw = stream.raw().cast();
    // SAFETY: nothing runs.
    unsafe { planned.forward(raw, &call)? }
    if !planned.options().training {
        return Ok(());
    }
    let call = BackwardArguments {
        parameters: &parameters,
        d_y: given.address(10, caller.d_y.at()),
        d_h_n: state(6),
        d_c_n: state(7),
        d_x: given.address(11, caller.d_x.at()),
        d_h0: state(4),
        d_c0: state(5),
        gradients: &gradients,
        saved,
        workspace,
    };
    // SAFETY: nothing runs.
    unsafe { planned.backward(raw, &call) }
}

/// Calls of a plan: all of a kind in one capture, then one by one.
fn calls(device: &Device, spec: RecurrenceSpec, size: [usize; 2], options: RecurrenceOptions) {
    let what = format!("{spec}, {size:?}, {options:?} on {}", device.arch());
    let planned = Recurrence::plan(device, spec, size, options);
    let planned = planned.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(planned.saved_bytes() > 0, options.training, "{what}");
    planned.warm_up().unwrap_or_else(|error| panic!("{what}: {error}"));
    let stream = Stream::new(device).expect("a stream");
    let caller = Caller::new(device, &planned, size);
    let submit = |given: Given| {
        let submitted = submit(&planned, &caller, &stream, given);
        submitted.unwrap_or_else(|error| panic!("{what}, {given:?}: {error}"));
    };
    // All, none, all but one.
    let kinds = [Given::ALL, Given(0)].into_iter().chain((0..12).map(|i| Given(0xfff & !(1 << i))));
    let before = device.recorder().capture_unsafe_calls();
    let captured = stream.capture(|| {
        kinds.clone().for_each(submit);
        Ok(())
    });
    let of_capture = device.recorder().capture_unsafe_calls() - before;
    captured.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(of_capture, 0, "{what}: calls that allocate, free, wait or load");
    device.recorder().discard();
    for given in kinds {
        let lines = [0, 1].map(|_| {
            submit(given);
            device.recorder().take_lines(&Names::default())
        });
        assert!(!lines[0].is_empty() && lines[0] == lines[1], "{what}: calls that differ");
    }
    assert_eq!(device.recorder().views(), 0, "{what}: memory that is not given back");
}

/// Submitting takes the host microseconds for each operation, whatever the device does: more than
/// the device needs for short sequences.
#[test]
fn a_call_submits_few_operations() {
    let (device, spec, size) = (hopper(), spec(Cell::Lstm, 3, 512, 1, 1), [5, 16]);
    let options = options(Precision::F16, Format::F16, true);
    let planned = Recurrence::plan(&device, spec, size, options).expect("a plan");
    let (stream, caller) =
        (Stream::new(&device).expect("a stream"), Caller::new(&device, &planned, size));
    device.recorder().discard();
    submit(&planned, &caller, &stream, Given::ALL).expect("submitted");
    let lines = device.recorder().take_lines(&Names::default());
    let operation = |line: &String| {
        let mut words = line.split([' ', ',']).filter(|word| !word.is_empty());
        match words.next() {
            Some("launch" | "cooperative") => words.next().map(String::from),
            other => other.map(String::from),
        }
    };
    let operations: Vec<_> = lines.iter().filter_map(operation).collect();
    let forward = [
        "begin_forward",
        "pack_weights",
        "pack_forward",
        "product",
        "place_states_half",
        "persistent_forward_from_states",
        "end_forward_half",
    ];
    let backward = [
        "largest",
        "set_scale",
        "read_values_half",
        "pack_backward",
        "pack_weights",
        "fill",
        "persistent_backward_from_states",
        "unpack_bias",
        "product",
        "unpack_gradient",
        "product",
        "unpack_gradient",
        "product",
        "write_values",
    ];
    assert_eq!(operations, [&forward[..], &backward].concat());
}

fn spec(
    cell: Cell,
    inputs: usize,
    units: usize,
    layers: usize,
    directions: usize,
) -> RecurrenceSpec {
    RecurrenceSpec { cell, inputs, units, layers, bidirectional: directions == 2 }
}

fn options(precision: Precision, format: Format, training: bool) -> RecurrenceOptions {
    RecurrenceOptions { precision, format, training }
}

#[test]
fn every_cell_in_every_way() {
    for cell in crate::step::plan::CELLS {
        for (layers, directions) in [(1, 1), (1, 2), (3, 1), (2, 2)] {
            for precision in [Precision::F32, Precision::F16] {
                let spec = spec(cell, 5, 33, layers, directions);
                calls(&hopper(), spec, [4, 19], options(precision, Format::F32, true));
            }
        }
    }
}

#[test]
fn every_format() {
    for format in [Format::F32, Format::F16, Format::Bf16] {
        for (precision, training) in [
            (Precision::F32, true),
            (Precision::Tf32, false),
            (Precision::F16, true),
            (Precision::F16, false),
        ] {
            let options = options(precision, format, training);
            calls(&hopper(), spec(Cell::Lstm, 7, 40, 2, 2), [3, 5], options);
        }
        let options = options(Precision::F16, format, true);
        calls(&ampere(), spec(Cell::Gru, 1, 1, 1, 1), [1, 1], options);
    }
}

/// The largest batches whose arrays 32 bits index, and those that are just too large.
#[test]
fn batches_are_refused_only_where_indices_end() {
    let planned = |spec: RecurrenceSpec, size, precision| {
        Recurrence::plan(&hopper(), spec, size, options(precision, Format::F32, true))
    };
    let fits = |spec, size, precision| {
        let found = planned(spec, size, precision);
        assert!(found.is_ok(), "{spec}, {size:?}: {found:?}");
    };
    let refused = |spec, size, precision, why: &str| {
        let error = planned(spec, size, precision).expect_err("a refusal").to_string();
        assert!(error.contains(why), "{spec}, {size:?}: {error}");
    };
    let (alone, many) = ("split it, or use the CPU", "take smaller batches");
    // A single long sequence, whose states are 1024 wide.
    let lstm = spec(Cell::Lstm, 300, 1024, 1, 1);
    fits(lstm, [(1 << 22) - 1, 1], Precision::F16);
    refused(lstm, [1 << 22, 1], Precision::F16, alone);
    fits(lstm, [(1 << 22) - 3, 1], Precision::F32);
    refused(lstm, [(1 << 22) - 2, 1], Precision::F32, alone);
    // The narrowest rows: f16 pads them to 32 columns, f32 is limited by cuBLAS.
    let one = spec(Cell::Gru, 1, 1, 1, 1);
    fits(one, [(1 << 26) - 1, 2], Precision::F16);
    refused(one, [1 << 26, 2], Precision::F16, many);
    fits(one, [(1 << 30) - 3, 2], Precision::F32);
    refused(one, [1 << 30, 2], Precision::F32, many);
}

/// The paper's sizes, and those at which tilings change; batches of several waves.
#[test]
fn sizes_of_persistent_kernels() {
    let specs = [
        (spec(Cell::Lstm, 300, 1024, 1, 1), [128, 300]),
        (spec(Cell::Lstm, 10, 594, 2, 1), [128, 1]),
        (spec(Cell::Lstm, 10, 343, 5, 1), [128, 700]),
        (spec(Cell::Gru, 3, 363, 2, 2), [100, 129]),
        (spec(Cell::RnnTanh, 17, 722, 1, 2), [7, 200]),
        (spec(Cell::Lstm, 4, 202, 5, 2), [128, 500]),
        (spec(Cell::Lstm, 4, 1536, 1, 1), [16, 100]),
        (spec(Cell::Gru, 4, 2048, 2, 1), [1, 100]),
        (spec(Cell::RnnTanh, 4, 1056, 1, 2), [16, 33]),
        (spec(Cell::Lstm, 4, 1024, 2, 1), [1, 16]),
        (spec(Cell::Lstm, 4, 102, 5, 2), [16, 128]),
    ];
    for (spec, rows) in specs {
        for rows in rows {
            let options = options(Precision::F16, Format::Bf16, true);
            calls(&hopper(), spec, [3, rows], options);
        }
    }
}

/// The longest that is not refused, whose h exchange has more words than 32 bits count.
#[test]
fn a_single_long_sequence() {
    let (lstm, longest) = (spec(Cell::Lstm, 300, 1024, 1, 1), (1 << 22) - 1);
    calls(&hopper(), lstm, [longest, 1], options(Precision::F16, Format::F16, true));
}

#[test]
fn sizes_of_other_kinds_of_recurrences() {
    let one_block = [(spec(Cell::Gru, 4, 64, 2, 1), 1), (spec(Cell::Lstm, 9, 128, 1, 2), 2000)];
    let steps = [(spec(Cell::Lstm, 4, 1536, 1, 2), 300), (spec(Cell::RnnTanh, 4, 3000, 2, 1), 40)];
    for (kind, specs) in [(Kind::SingleBlock, one_block), (Kind::StepByStep, steps)] {
        let forced = ForcedTiling { kinds: Kinds::Only(kind), ..ForcedTiling::default() };
        let limits = DeviceLimits { forced, ..DeviceLimits::new(132, 227 << 10) };
        let device = Device::recorded((9, 0), limits);
        for (spec, rows) in specs {
            let options = options(Precision::F16, Format::Bf16, true);
            let planned = Recurrence::plan(&device, spec, [3, rows], options).expect("a plan");
            assert_eq!(planned.way(), Way::Persistent);
            calls(&device, spec, [3, rows], options);
        }
    }
}

#[test]
fn where_kernels_are_missing_the_plain_way_runs() {
    let way = |device: &Device, cell, units, precision| {
        let options = options(precision, Format::F32, true);
        Recurrence::plan(device, spec(cell, 3, units, 1, 2), [5, 4], options).expect("a plan").way()
    };
    assert_eq!(way(&hopper(), Cell::Lstm, 40, Precision::F16), Way::Persistent);
    assert_eq!(way(&hopper(), Cell::Lstm, 40, Precision::Tf32), Way::Plain);
    assert_eq!(way(&hopper(), Cell::RnnRelu, 40, Precision::F16), Way::Plain);
    assert_eq!(way(&hopper(), Cell::Lstm, 1057, Precision::F16), Way::Plain);
    assert_eq!(way(&ampere(), Cell::Lstm, 40, Precision::F16), Way::Plain);
    // Weights that kernels which pack them cannot index.
    let wide = spec(Cell::Lstm, 1 << 19, 2048, 1, 1);
    let planned =
        Recurrence::plan(&hopper(), wide, [1, 1], options(Precision::F16, Format::F32, true));
    assert_eq!(planned.expect("a plan").way(), Way::Plain);
}

#[test]
fn what_cannot_run_is_refused_before_there_is_a_plan() {
    let refused = |spec: RecurrenceSpec, size| {
        let planned = Recurrence::plan(&hopper(), spec, size, RecurrenceOptions::default());
        planned.expect_err("a refusal").to_string()
    };
    let lstm = spec(Cell::Lstm, 3, 4, 1, 1);
    let expected = "0 units; at least 1 expected: Lstm of 1 x 0 units over 3 inputs";
    assert_eq!(refused(RecurrenceSpec { units: 0, ..lstm }, [5, 4]), expected);
    assert!(refused(lstm, [0, 4]).starts_with("0 steps; at least 1 expected"));
    assert!(refused(lstm, [5, 0]).starts_with("0 sequences"));
    assert!(refused(lstm, [1 << 20, 1 << 12]).contains("too many"));
    assert!(refused(lstm, [usize::MAX, usize::MAX]).contains("too many"));
    let cell = Cell::GruResetBefore;
    assert!(refused(RecurrenceSpec { cell, ..lstm }, [5, 4]).contains("before the product"));
}

#[test]
fn arguments_that_are_wrong_are_named() {
    let (device, options) = (hopper(), options(Precision::F32, Format::F16, true));
    let spec = spec(Cell::Gru, 3, 4, 2, 1);
    let planned = Recurrence::plan(&device, spec, [5, 4], options).expect("a plan");
    let stream = Stream::new(&device).expect("a stream");
    let caller = Caller::new(&device, &planned, [5, 4]);
    let parameters = arrays(&caller.parameters, true);
    let good = ForwardArguments {
        x: caller.x.at(),
        parameters: &parameters,
        y: caller.y.at(),
        saved: caller.saved.at(0),
        workspace: caller.workspace.at(0),
        ..ForwardArguments::default()
    };
    let submit = |call: ForwardArguments| {
        // SAFETY: nothing runs.
        unsafe { planned.forward(stream.raw().cast(), &call) }
    };
    assert_eq!(submit(good), Ok(()));
    let why = |call: ForwardArguments| submit(call).expect_err("a refusal").to_string();
    assert_eq!(why(ForwardArguments { x: 0, ..good }), "x is null; a device address is expected");
    let odd = ForwardArguments { y: good.y + 1, ..good };
    assert!(
        why(odd).contains("y is at address") && why(odd).ends_with("a multiple of 2 is expected")
    );
    let between = ForwardArguments { workspace: good.workspace + 128, ..good };
    assert!(why(between).ends_with("a multiple of 256 is expected"));
    assert!(why(ForwardArguments { saved: 0, ..good }).starts_with("saved is null"));
    let one = ForwardArguments { parameters: &parameters[..1], ..good };
    assert_eq!(why(one), "parameters of 1 layers and directions; 2 expected");
    let mut no_weight = parameters.clone();
    no_weight[1].w_hh = 0;
    let no_weight = ForwardArguments { parameters: &no_weight, ..good };
    assert!(why(no_weight).starts_with("parameters[1].w_hh is null"));
    let cell_state = ForwardArguments { c0: caller.states[1].at(0), ..good };
    assert!(why(cell_state).starts_with("c0 for Gru of 2 x 4 units"));
    let lengths = ForwardArguments { lengths: Lengths::I64(12), ..good };
    assert!(why(lengths).ends_with("a multiple of 8 is expected"));

    let inference = RecurrenceOptions { training: false, ..options };
    let planned = Recurrence::plan(&device, spec, [5, 4], inference).expect("a plan");
    let call = BackwardArguments { parameters: &parameters, ..BackwardArguments::default() };
    // SAFETY: nothing runs.
    let refused = unsafe { planned.backward(stream.raw().cast(), &call) };
    assert!(refused.expect_err("a refusal").to_string().contains("planned without training"));
}

#[test]
fn threads_may_share_a_plan() {
    fn shared<T: Send + Sync>() {}
    shared::<Recurrence>();
}
