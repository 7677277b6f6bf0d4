//! What is rejected, and why.

use super::source::signatures;
use super::*;
use crate::kernels::params::{AdamStep, FlipExchange, Header, ToHalf, Unscale, ptr};
use crate::kernels::sources::Sources;
use crate::runtime::compile::Source;
use crate::runtime::device::Device;
use crate::runtime::gemm::{Form, Gemm, Matrix, OutputType, Precision};
use crate::runtime::kernel::{Kernel, Module};
use crate::runtime::memory::{Buffer, Pinned};
use crate::runtime::stream::Stream;

const CARD: DeviceLimits = DeviceLimits::new(10, 100 << 10);

/// A stream and kernels of the crate's own sources.
struct Bench {
    device: Device,
    stream: Stream,
    to_half: Kernel<ToHalf>,
    adam: Kernel<AdamStep>,
    cooperative: Kernel<Unscale>,
}

impl Bench {
    fn new() -> Bench {
        let device = Device::recorded((8, 0), CARD);
        let sources = Sources::new();
        let load = |source: &Source| Module::new(&device, source).unwrap();
        let text =
            "extern \"C\" __global__ void __launch_bounds__(256, 2) unscale(const Unscale p) {}";
        let cooperative =
            Source { name: "cooperative", parts: vec![text.into()], defines: Vec::new() };
        Bench {
            stream: Stream::new(&device).unwrap(),
            to_half: load(&sources.half).kernel().unwrap(),
            adam: load(&sources.adam).kernel().unwrap(),
            cooperative: load(&cooperative).kernel().unwrap(),
            device,
        }
    }

    /// Converts (3, 5) to (3, 8) with some parameters changed; why that is rejected.
    fn to_half(&self, change: impl FnOnce(&mut ToHalf, &mut [usize; 2])) -> Option<String> {
        let from = Buffer::<f32>::zeros(&self.device, 15).unwrap();
        let to = Buffer::<u16>::zeros(&self.device, 24).unwrap();
        let ends = (ptr(from.at(0)), ptr(to.at(0)));
        let (header, mut grid) = (ptr(0), [1, 1]);
        let mut params =
            ToHalf { header, from: ends.0, to: ends.1, rows: 3, columns: 5, stride: 8 };
        change(&mut params, &mut grid);
        // SAFETY: nothing runs.
        let done = unsafe { self.to_half.launch(&self.stream, grid, 256, &params) };
        done.err().map(|error| error.to_string())
    }
}

#[test]
fn signatures_are_read_from_the_source() {
    let text = "#define N 7\nextern \"C\" __global__ void __launch_bounds__(2 * N, 3) name(\n\
                const __grid_constant__ Params p) { // comment\n if (p.a) b(); }";
    let [kernel] = &signatures(text).unwrap()[..] else { panic!("one kernel") };
    let found = (kernel.name.as_str(), kernel.params.as_str(), kernel.blocks_by_registers);
    assert_eq!((found, kernel.defines["N"]), (("name", "Params", 3), 7));
    let positional = signatures("extern \"C\" __global__ void name(float* a, u32 b) {}");
    let why = "name takes `float* a, u32 b`, not one parameter struct";
    assert_eq!(positional, Err(Rejected(why.into())));
}

#[test]
fn kernels_take_their_own_structs() {
    let bench = Bench::new();
    // SAFETY: nothing runs.
    let done = unsafe {
        let (kernel, params) =
            (bench.to_half.cast::<FlipExchange>(), FlipExchange { parity: ptr(0) });
        kernel.launch(&bench.stream, [1, 1], 256, &params)
    };
    assert!(done.unwrap_err().to_string().contains("to_half: FlipExchange for ToHalf"));
}

#[test]
fn pointers_lead_to_buffers_of_their_type() {
    let bench = Bench::new();
    let rejected = |change: fn(&mut ToHalf)| bench.to_half(|params, _| change(params)).unwrap();
    assert_eq!(bench.to_half(|_, _| ()), None);
    assert!(
        rejected(|p| p.from = p.to.cast::<f32>().cast_const())
            .contains("from is float, there is u16")
    );
    assert!(rejected(|p| p.from = ptr(0)).contains("from outside"));
    assert!(
        rejected(|p| p.header = p.from.cast::<Header>()).contains("header is Header, there is f32")
    );
}

#[test]
fn kernels_access_nothing_beyond_their_buffers() {
    let bench = Bench::new();
    let rejected = |change: fn(&mut ToHalf)| bench.to_half(|params, _| change(params)).unwrap();
    assert!(rejected(|p| p.rows = 4).contains("from of values 0..20 of 15 f32"));
    assert!(rejected(|p| p.stride = 9).contains("to of values 0..27 of 24 u16"));
    let further = |p: &mut ToHalf, bytes: usize| p.from = p.from.wrapping_byte_add(bytes);
    let why = bench.to_half(|p, _| further(p, 4)).unwrap();
    assert!(why.contains("from of values 1..16 of 15 f32"), "{why}");
    let why = bench.to_half(|p, _| further(p, 2)).unwrap();
    assert!(why.contains("from between two values"), "{why}");
    let freed = Buffer::<f32>::zeros(&bench.device, 99).unwrap().at(0);
    assert!(bench.to_half(|p, _| p.from = ptr(freed)).unwrap().contains("from outside"));
}

#[test]
fn grids_are_neither_empty_nor_too_small() {
    let bench = Bench::new();
    assert!(bench.to_half(|_, grid| *grid = [0, 1]).unwrap().contains("to_half: [0, 1] blocks"));
    assert!(bench.to_half(|_, grid| *grid = [1, 70_000]).unwrap().contains("[1, 70000] blocks"));
    let many = Buffer::<f32>::zeros(&bench.device, 1000).unwrap();
    let few = Buffer::<u32>::zeros(&bench.device, 4).unwrap();
    let params = AdamStep {
        coefficients: ptr(few.at(0)),
        gradient: ptr(many.at(0)),
        params: ptr(many.at(0)),
        mean: ptr(many.at(0)),
        square: ptr(many.at(0)),
        beta1: 0.9,
        beta2: 0.9,
        eps: 0.1,
        count: 1000,
    };
    // SAFETY: nothing runs.
    let launch = |blocks| unsafe { bench.adam.launch(&bench.stream, [blocks, 1], 256, &params) };
    assert!(launch(3).unwrap_err().to_string().contains("adam: 768 threads for 1000"));
    assert_eq!(launch(4), Ok(()));
}

#[test]
fn cooperative_blocks_fit_at_the_same_time() {
    let bench = Bench::new();
    let (header, values) =
        (Buffer::<u32>::zeros(&bench.device, 8), Buffer::<f32>::zeros(&bench.device, 1));
    let (header, values) = (header.unwrap(), values.unwrap());
    let params = Unscale { header: ptr(header.at(0)), values: ptr(values.at(0)), count: 1 };
    let kernel = bench.cooperative;
    let launch = |blocks, shared| {
        // SAFETY: nothing runs.
        let done =
            unsafe { kernel.launch_cooperative(&bench.stream, blocks, 256, shared, &params) };
        done.map_err(|error| error.to_string())
    };
    let rejected = |blocks, shared| launch(blocks, shared).unwrap_err();
    assert_eq!(launch(20, 0), Ok(()));
    assert!(rejected(21, 0).contains("21 cooperative blocks, 20 fit"));
    assert!(rejected(1, 60 << 10).contains("61440 bytes of shared memory, allowed 49152"));
    kernel.allow_shared(60 << 10).unwrap();
    assert!(rejected(11, 60 << 10).contains("11 cooperative blocks, 10 fit"));
    assert_eq!(kernel.max_active_blocks(256, 101 << 10), Ok(0));
    assert!(kernel.allow_shared(101 << 10).is_err());
}

#[test]
fn memory_is_filled_and_copied_within_buffers() {
    let bench = Bench::new();
    let Bench { device, stream, .. } = &bench;
    let (from, to) = (Buffer::<f32>::zeros(device, 4), Buffer::<f32>::zeros(device, 3));
    let (from, to) = (from.unwrap(), to.unwrap());
    assert_eq!(stream.clear(&from, 1, 3), Ok(()));
    assert_eq!(stream.copy_within(from.at(1), to.at(0), 12), Ok(()));
    let rejected = stream.copy_within(from.at(0), to.at(0), 16).unwrap_err().to_string();
    assert!(rejected.contains("a copy of values 0..4 of 3 f32"), "{rejected}");
    let other = Buffer::<u16>::zeros(device, 9).unwrap();
    assert!(stream.copy_within(from.at(0), other.at(0), 4).is_err());
    // No more words are read than the latest copy from the host wrote.
    let (words, batch) = (Pinned::zeros(device, 20), Buffer::<u32>::zeros(device, 20).unwrap());
    // SAFETY: nothing is copied.
    let receive = |count| unsafe { stream.copy(words.as_ref().unwrap(), count, &batch) };
    receive(14).unwrap();
    let rejected = bench.to_half(|params, _| params.from = ptr(batch.at(0)));
    assert!(rejected.unwrap().contains("from extends beyond what was received"));
    receive(15).unwrap();
    assert_eq!(bench.to_half(|params, _| params.from = ptr(batch.at(0))), None);
}

#[test]
fn views_of_a_callers_memory_are_arrays_of_their_own() {
    let bench = Bench::new();
    let memory = Buffer::<u8>::zeros(&bench.device, 96).unwrap();
    let untyped = |at: u64| bench.to_half(|params, _| params.from = ptr(at)).unwrap();
    assert!(untyped(memory.at(0)).contains("from is float, there is u8"));
    let view = |at: usize, len| Buffer::<f32>::borrowed(&bench.device, memory.at(at), len);
    let exact = view(32, 15).unwrap();
    assert_eq!(bench.to_half(|params, _| params.from = ptr(exact.at(0))), None);
    // Memory goes on after the view, which is too short.
    let short = view(0, 8).unwrap();
    assert!(untyped(short.at(0)).contains("from of values 0..15 of 8 f32"));
    assert!(view(40, 15).unwrap_err().to_string().contains("outside of all allocations"));
    assert!(view(2, 3).unwrap_err().to_string().contains("not aligned"));
    drop((exact, short));
    assert_eq!(bench.device.recorder().views(), 0);
    assert!(untyped(memory.at(32)).contains("there is u8"));
}

#[test]
fn calls_that_a_capture_forbids_are_counted() {
    let Bench { device, stream, .. } = Bench::new();
    let count = || device.recorder().capture_unsafe_calls();
    let values = Buffer::<f32>::zeros(&device, 4).unwrap();
    let before = count();
    stream.clear(&values, 0, 4).unwrap();
    let view = Buffer::<f32>::borrowed(&device, values.at(0), 2).unwrap();
    drop((view, Stream::borrowed(&device, stream.raw())));
    assert_eq!(count(), before);
    stream.synchronize().unwrap();
    values.get(0, 4).unwrap();
    drop(Buffer::<f32>::zeros(&device, 4).unwrap());
    // A wait, a copy, an allocation and its end.
    assert_eq!(count(), before + 4);
}

#[test]
fn products_stay_within_matrices_of_their_type() {
    let Bench { device, stream, .. } = Bench::new();
    let products = Gemm::new(&device, &stream, Precision::F32).unwrap();
    // (3, 4) = (3, 5) (4, 5)^T
    let floats = |len| Buffer::<f32>::zeros(&device, len).unwrap();
    let halves = |len| Buffer::<u16>::zeros(&device, len).unwrap();
    let (a, b, c) = (floats(15), floats(20), floats(12));
    let matrix = |of: &Buffer<f32>, stride| Matrix { at: of.at(0), stride };
    let product = |sizes, strides: [usize; 3]| {
        let [a, b, c] = [matrix(&a, strides[0]), matrix(&b, strides[1]), matrix(&c, strides[2])];
        products.f32(Form::TimesTransposed, sizes, [a, b], 0.0, c).map_err(|e| e.to_string())
    };
    let rejected = |sizes, strides| product(sizes, strides).unwrap_err();
    assert_eq!(product([3, 4, 5], [5, 5, 4]), Ok(()));
    assert!(rejected([4, 4, 5], [5, 5, 4]).contains("product's A of values 0..20 of 15 f32"));
    assert!(rejected([3, 5, 5], [5, 5, 5]).contains("product's B of values 0..25 of 20 f32"));
    assert!(rejected([3, 4, 5], [5, 5, 6]).contains("product's C of values 0..16 of 12 f32"));
    assert!(rejected([3, 4, 5], [4, 5, 4]).contains("A has rows of 5, 4 apart"));
    assert!(rejected([3, 4, 0], [5, 5, 4]).contains("a product of 3 x 4 over 0"));
    let (half_a, half_b) = (halves(15), halves(20));
    let half = |a: u64, b: u64, c: u64| {
        let [a, b, c] = [(a, 5), (b, 5), (c, 4)].map(|(at, stride)| Matrix { at, stride });
        let form = Form::TimesTransposed;
        let done = products.f16(form, [3, 4, 5], [a, b], 0.0, c, OutputType::F32);
        done.map_err(|error| error.to_string())
    };
    assert_eq!(half(half_a.at(0), half_b.at(0), c.at(0)), Ok(()));
    let rejected = half(half_a.at(0), b.at(0), c.at(0)).unwrap_err();
    assert!(rejected.contains("product's B is f16, there is f32"), "{rejected}");
    let rejected = half(half_a.at(0), half_b.at(0), halves(24).at(0)).unwrap_err();
    assert!(rejected.contains("product's C is f32, there is u16"), "{rejected}");
    let rejected =
        products.f32(Form::Times, [1, 1, 1], [matrix(&a, 1), matrix(&b, 1)], 0.0, matrix(&a, 1));
    assert!(rejected.unwrap_err().to_string().contains("writes to a buffer that it reads"));
}

#[test]
fn graphs_do_what_was_captured_with_what_is_still_there() {
    let Bench { device, stream, .. } = Bench::new();
    let kept = Buffer::<f32>::zeros(&device, 4).unwrap();
    device.recorder().discard();
    let graph = stream.capture(|| stream.clear(&kept, 0, 4)).unwrap();
    assert_eq!(device.recorder().discard(), 0);
    stream.launch(&graph).unwrap();
    stream.launch(&graph).unwrap();
    assert_eq!(device.recorder().discard(), 2);
    drop(kept);
    assert!(stream.launch(&graph).unwrap_err().to_string().contains("a fill outside"));
}

#[test]
fn concurrent_streams_do_not_race_and_are_joined() {
    let Bench { device, stream, .. } = Bench::new();
    let (side, values) = (Stream::new(&device).unwrap(), Buffer::<f32>::zeros(&device, 8));
    let values = values.unwrap();
    let capture = |record: &dyn Fn() -> crate::error::Result<()>| {
        stream.capture(record).map(drop).map_err(|error| error.to_string())
    };
    let begin = || side.wait_for(&stream).and_then(|()| side.clear(&values, 0, 4));
    let apart = capture(&|| {
        begin()?;
        stream.clear(&values, 4, 4)?;
        stream.wait_for(&side)?;
        stream.clear(&values, 0, 4)
    });
    assert_eq!(apart, Ok(()));
    let at_once = capture(&|| {
        begin()?;
        stream.clear(&values, 3, 4)?;
        stream.wait_for(&side)
    });
    assert!(at_once.unwrap_err().contains("a race between"));
    assert!(capture(&begin).unwrap_err().contains("ends before its side streams"));
    // After an error no stream captures.
    stream.wait_for(&side).unwrap();
    let outside = capture(&|| stream.wait_for(&side));
    assert!(outside.unwrap_err().contains("waits for what it does not capture"));
}

#[test]
fn buffers_are_named_after_the_fields_that_hold_them() {
    #[derive(Debug)]
    #[allow(dead_code)] // read by its debug output
    struct Owner {
        first: Buffer<f32>,
        more: Option<Vec<Buffer<u16>>>,
    }
    let Bench { device, .. } = Bench::new();
    let more = [3, 4].map(|len| Buffer::zeros(&device, len).unwrap()).into();
    let owner = Owner { first: Buffer::zeros(&device, 2).unwrap(), more: Some(more) };
    let names = Names::new(&owner);
    assert_eq!(names.of(owner.first.at(0)), "first");
    assert_eq!(names.of(owner.more.as_ref().unwrap()[1].at(0)), "more[1]");
    assert_eq!(names.of(7), "unnamed");
    assert_eq!(device.recorder().memory.count(), 3);
    drop(owner);
    assert_eq!(device.recorder().memory.count(), 0);
}
