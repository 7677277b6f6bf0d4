//! That what cannot be right is refused, and why.

use super::source::{Kind, signatures};
use super::*;
use crate::runtime::compile::Source;
use crate::runtime::device::Device;
use crate::runtime::gemm::{Form, Gemm, Matrix, OutputType, Precision};
use crate::runtime::memory::{Buffer, Pinned};
use crate::runtime::stream::{Arg, Kernel, Module, Stream};

const CARD: DeviceLimits = DeviceLimits { multiprocessors: 10, shared: 100 << 10 };

/// A stream and kernels of the crate's own sources.
struct Bench {
    device: Device,
    stream: Stream,
    halve: Kernel,
    adam: Kernel,
    waiting: Kernel,
}

impl Bench {
    fn new() -> Bench {
        let device = Device::recorded((8, 0), CARD);
        let [_, _, _, _, adam, half, ..] = crate::kernels::sources();
        let load = |source: &Source| Module::new(&device, source).unwrap();
        let text = "extern \"C\" __global__ void __launch_bounds__(256, 2) adam(u32 count) {}";
        let waiting = Source { name: "waiting", parts: vec![text], defines: Vec::new() };
        Bench {
            stream: Stream::new(&device).unwrap(),
            halve: load(&half).kernel("halve").unwrap(),
            adam: load(&adam).kernel("adam").unwrap(),
            waiting: load(&waiting).kernel("adam").unwrap(),
            device,
        }
    }

    /// Halves (3, 5) to (3, 8) with some arguments changed; what is said against it.
    fn halve(&self, change: impl FnOnce(&mut Vec<Arg>, &mut [usize; 2])) -> Option<String> {
        let from = Buffer::<f32>::zeros(&self.device, 15).unwrap();
        let to = Buffer::<u16>::zeros(&self.device, 24).unwrap();
        let sizes = [3usize, 5, 8].map(Arg::from);
        let ends = [Arg::At(0), Arg::At(from.at(0)), Arg::At(to.at(0))];
        let (mut args, mut grid) = ([ends, sizes].concat(), [1, 1]);
        change(&mut args, &mut grid);
        // SAFETY: there is no card.
        let done = unsafe { self.halve.launch(&self.stream, grid, 256, &args) };
        done.err().map(|error| error.to_string())
    }
}

#[test]
fn parameters_are_read_from_the_source() {
    let text = "#define N 7\nextern \"C\" __global__ void __launch_bounds__(2 * N, 3) name(\n\
                const float* __restrict__ a, u16 *b, // c\n u32 d, float e) { if (a) b(); }";
    let [kernel] = &signatures(text).unwrap()[..] else { panic!("one kernel") };
    assert_eq!((kernel.name.as_str(), kernel.at_once, kernel.defines["N"]), ("name", 3, 7));
    let params: Vec<_> = kernel.params.iter().map(|p| (p.name.as_str(), &p.kind)).collect();
    let address = |of: &str, constant| Kind::Address { of: of.into(), constant };
    let (a, b) = (address("float", true), address("u16", false));
    assert_eq!(params, [("a", &a), ("b", &b), ("d", &Kind::U32), ("e", &Kind::F32)]);
    let odd = signatures("extern \"C\" __global__ void name(long a) {}");
    assert_eq!(odd, Err(Refused("name: nobody knows what `long a` is".into())));
}

#[test]
fn arguments_are_those_of_the_source() {
    let bench = Bench::new();
    let refused = |change: fn(&mut Vec<Arg>)| bench.halve(|args, _| change(args)).unwrap();
    assert_eq!(bench.halve(|_, _| ()), None);
    assert!(refused(|args| args.truncate(5)).contains("halve: 5 arguments for 6"));
    assert!(refused(|args| args[5] = Arg::F32(8.0)).contains("F32(8.0) for stride"));
    assert!(refused(|args| args[2] = Arg::U32(8)).contains("U32(8) for to"));
    assert!(refused(|args| args.swap(1, 2)).contains("from is float, there is u16"));
    assert!(refused(|args| args[1] = Arg::At(0)).contains("from outside"));
    assert!(refused(|args| args[0] = args[1]).contains("header is Header, there is f32"));
}

#[test]
fn kernels_reach_no_further_than_their_buffers() {
    let bench = Bench::new();
    let refused = |change: fn(&mut Vec<Arg>)| bench.halve(|args, _| change(args)).unwrap();
    assert!(refused(|args| args[3] = Arg::U32(4)).contains("from of values 0..20 of 15 f32"));
    assert!(refused(|args| args[5] = Arg::U32(9)).contains("to of values 0..27 of 24 u16"));
    let further = |args: &mut Vec<Arg>| {
        let Arg::At(at) = &mut args[1] else { panic!("an address") };
        *at += 4;
    };
    assert!(refused(further).contains("from of values 1..16 of 15 f32"));
    let between = |args: &mut Vec<Arg>| {
        let Arg::At(at) = &mut args[1] else { panic!("an address") };
        *at += 2;
    };
    assert!(refused(between).contains("from between two values"));
    let freed = Buffer::<f32>::zeros(&bench.device, 99).unwrap().at(0);
    assert!(bench.halve(|args, _| args[1] = Arg::At(freed)).unwrap().contains("from outside"));
}

#[test]
fn grids_are_neither_empty_nor_too_small() {
    let bench = Bench::new();
    assert!(bench.halve(|_, grid| *grid = [0, 1]).unwrap().contains("halve: [0, 1] blocks"));
    assert!(bench.halve(|_, grid| *grid = [1, 70_000]).unwrap().contains("[1, 70000] blocks"));
    let many = Buffer::<f32>::zeros(&bench.device, 1000).unwrap();
    let few = Buffer::<u32>::zeros(&bench.device, 4).unwrap();
    let at = Arg::At(many.at(0));
    let numbers = [Arg::F32(0.9), Arg::F32(0.9), Arg::F32(0.1), Arg::U32(1000)];
    let args = [vec![Arg::At(few.at(0)), at, at, at, at], numbers.to_vec()].concat();
    // SAFETY: there is no card.
    let launch = |blocks| unsafe { bench.adam.launch(&bench.stream, [blocks, 1], 256, &args) };
    assert!(launch(3).unwrap_err().to_string().contains("adam: 768 threads for 1000"));
    assert_eq!(launch(4), Ok(()));
}

#[test]
fn blocks_that_wait_for_each_other_fit_at_once() {
    let bench = Bench::new();
    let launch = |blocks, shared| {
        let args = [Arg::U32(1)];
        // SAFETY: there is no card.
        let done =
            unsafe { bench.waiting.launch_cooperative(&bench.stream, blocks, 256, shared, &args) };
        done.map_err(|error| error.to_string())
    };
    let refused = |blocks, shared| launch(blocks, shared).unwrap_err();
    assert!(refused(21, 0).contains("21 blocks wait for each other, 20 fit"));
    assert!(refused(1, 60 << 10).contains("61440 bytes of shared memory, allowed 49152"));
    bench.waiting.allow_shared(60 << 10).unwrap();
    assert!(refused(11, 60 << 10).contains("11 blocks wait for each other, 10 fit"));
    assert_eq!(bench.waiting.max_active_blocks(256, 101 << 10), Ok(0));
    assert!(bench.waiting.allow_shared(101 << 10).is_err());
}

#[test]
fn memory_is_filled_and_copied_within_buffers() {
    let bench = Bench::new();
    let Bench { device, stream, .. } = &bench;
    let (from, to) = (Buffer::<f32>::zeros(device, 4), Buffer::<f32>::zeros(device, 3));
    let (from, to) = (from.unwrap(), to.unwrap());
    assert_eq!(stream.clear(&from, 1, 3), Ok(()));
    assert_eq!(stream.copy_within(from.at(1), to.at(0), 12), Ok(()));
    let refused = stream.copy_within(from.at(0), to.at(0), 16).unwrap_err().to_string();
    assert!(refused.contains("a copy of values 0..4 of 3 f32"), "{refused}");
    let other = Buffer::<u16>::zeros(device, 9).unwrap();
    assert!(stream.copy_within(from.at(0), other.at(0), 4).is_err());
    // Of words from this machine, no more is read than came.
    let (words, batch) = (Pinned::zeros(device, 20), Buffer::<u32>::zeros(device, 20).unwrap());
    // SAFETY: nothing is copied.
    let receive = |count| unsafe { stream.copy(words.as_ref().unwrap(), count, &batch) };
    receive(14).unwrap();
    let refused = bench.halve(|args, _| args[1] = Arg::At(batch.at(0)));
    assert!(refused.unwrap().contains("from reaches behind what was received"));
    receive(15).unwrap();
    assert_eq!(bench.halve(|args, _| args[1] = Arg::At(batch.at(0))), None);
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
    let refused = |sizes, strides| product(sizes, strides).unwrap_err();
    assert_eq!(product([3, 4, 5], [5, 5, 4]), Ok(()));
    assert!(refused([4, 4, 5], [5, 5, 4]).contains("product's A of values 0..20 of 15 f32"));
    assert!(refused([3, 5, 5], [5, 5, 5]).contains("product's B of values 0..25 of 20 f32"));
    assert!(refused([3, 4, 5], [5, 5, 6]).contains("product's C of values 0..16 of 12 f32"));
    assert!(refused([3, 4, 5], [4, 5, 4]).contains("A has rows of 5, 4 apart"));
    assert!(refused([3, 4, 0], [5, 5, 4]).contains("a product of 3 x 4 over 0"));
    let (half_a, half_b) = (halves(15), halves(20));
    let half = |a: u64, b: u64, c: u64| {
        let [a, b, c] = [(a, 5), (b, 5), (c, 4)].map(|(at, stride)| Matrix { at, stride });
        let form = Form::TimesTransposed;
        let done = products.f16(form, [3, 4, 5], [a, b], 0.0, c, OutputType::F32);
        done.map_err(|error| error.to_string())
    };
    assert_eq!(half(half_a.at(0), half_b.at(0), c.at(0)), Ok(()));
    let refused = half(half_a.at(0), b.at(0), c.at(0)).unwrap_err();
    assert!(refused.contains("product's B is f16, there is f32"), "{refused}");
    let refused = half(half_a.at(0), half_b.at(0), halves(24).at(0)).unwrap_err();
    assert!(refused.contains("product's C is f32, there is u16"), "{refused}");
    let refused =
        products.f32(Form::Times, [1, 1, 1], [matrix(&a, 1), matrix(&b, 1)], 0.0, matrix(&a, 1));
    assert!(refused.unwrap_err().to_string().contains("writes where it reads"));
}

#[test]
fn graphs_do_what_was_captured_with_what_is_still_there() {
    let Bench { device, stream, .. } = Bench::new();
    let kept = Buffer::<f32>::zeros(&device, 4).unwrap();
    device.recorder().forget();
    let graph = stream.capture(|| stream.clear(&kept, 0, 4)).unwrap();
    assert_eq!(device.recorder().forget(), 0);
    stream.launch(&graph).unwrap();
    stream.launch(&graph).unwrap();
    assert_eq!(device.recorder().forget(), 2);
    drop(kept);
    assert!(stream.launch(&graph).unwrap_err().to_string().contains("a fill outside"));
}

#[test]
fn streams_beside_each_other_keep_apart_and_meet_again() {
    let Bench { device, stream, .. } = Bench::new();
    let (beside, values) = (Stream::new(&device).unwrap(), Buffer::<f32>::zeros(&device, 8));
    let values = values.unwrap();
    let capture = |record: &dyn Fn() -> crate::error::Result<()>| {
        stream.capture(record).map(drop).map_err(|error| error.to_string())
    };
    let begin = || beside.wait_for(&stream).and_then(|()| beside.clear(&values, 0, 4));
    let apart = capture(&|| {
        begin()?;
        stream.clear(&values, 4, 4)?;
        stream.wait_for(&beside)?;
        stream.clear(&values, 0, 4)
    });
    assert_eq!(apart, Ok(()));
    let at_once = capture(&|| {
        begin()?;
        stream.clear(&values, 3, 4)?;
        stream.wait_for(&beside)
    });
    assert!(at_once.unwrap_err().contains("two that run at once"));
    assert!(capture(&begin).unwrap_err().contains("ends before what runs beside it"));
    // An error leaves nobody capturing.
    stream.wait_for(&beside).unwrap();
    let outside = capture(&|| stream.wait_for(&beside));
    assert!(outside.unwrap_err().contains("waits for what it does not capture"));
}

#[test]
fn buffers_are_called_by_the_fields_that_hold_them() {
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
