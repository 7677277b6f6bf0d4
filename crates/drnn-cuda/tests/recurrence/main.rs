//! [`Recurrence`] on a GPU, compared with the CPU: every way, first and last states, lengths,
//! formats, gradients of any scale, calls inside a captured graph. Skipped without a GPU.

mod cases;
mod half;

use cases::{Card, Case, Expected, Run, exploding, persistent, plain};
use cudarc::driver::{result, sys};
use drnn::Cell;
use drnn_cuda::{
    BackwardArguments, Device, Format, ForwardArguments, LayerArrays, Lengths, Precision,
    Recurrence, RecurrenceOptions, RecurrenceSpec, Way,
};
use drnn_testing::{Need, found, skip};
use half::{float_from_half, half_from_float};
use std::cell::RefCell;
use std::ffi::c_void;

/// Memory of the GPU, freed at the end of a test.
struct Gpu {
    device: Device,
    stream: sys::CUstream,
    memory: RefCell<Vec<u64>>,
}

impl Gpu {
    /// With a stream of its own; the default one is null.
    fn find() -> Option<Gpu> {
        let device = found(Need::Gpu, Device::find())?;
        // A plan makes the device's context current in this thread.
        let spec = plain(Cell::Lstm, 1, false).spec;
        let planned = Recurrence::plan(&device, spec, [1, 1], RecurrenceOptions::default());
        planned.expect("a plan").warm_up().expect("kernels");
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking);
        Some(Gpu { device, stream: stream.expect("a stream"), memory: RefCell::default() })
    }

    fn put<T>(&self, values: &[T]) -> u64 {
        let at = self.bytes(size_of_val(values), 0);
        if !values.is_empty() {
            // SAFETY: as many bytes as were allocated.
            unsafe { result::memcpy_htod_sync(at, values) }.expect("memory");
        }
        at
    }

    fn read<T: Copy + Default>(&self, at: u64, len: usize) -> Vec<T> {
        let mut values = vec![T::default(); len];
        if len > 0 {
            // SAFETY: the stream is alive, and the caller reads what it has allocated.
            unsafe {
                result::stream::synchronize(self.stream).expect("all work");
                result::memcpy_dtoh_sync(&mut values, at).expect("memory");
            }
        }
        values
    }

    fn run(&self, case: Case, expected: &Expected) -> Run<'_, Gpu> {
        let Case { spec, steps, rows, options, .. } = case;
        let planned = Recurrence::plan(&self.device, spec, [steps, rows], options);
        let planned = planned.expect("a plan");
        planned.warm_up().expect("kernels");
        Run::new(self, planned, case, expected)
    }

    fn check(&self, case: Case) {
        let expected = Expected::of(&case);
        self.run(case, &expected).check(&expected);
    }
}

impl Card for Gpu {
    fn f32s(&self, values: &[f32]) -> u64 {
        self.put(values)
    }

    fn u16s(&self, values: &[u16]) -> u64 {
        self.put(values)
    }

    fn u32s(&self, values: &[u32]) -> u64 {
        self.put(values)
    }

    fn u64s(&self, values: &[u64]) -> u64 {
        self.put(values)
    }

    fn bytes(&self, len: usize, byte: u8) -> u64 {
        // SAFETY: freed once, when the test ends; filled as far as it was allocated.
        let at = unsafe { result::malloc_sync(len.max(256)) }.expect("memory");
        self.memory.borrow_mut().push(at);
        self.fill(at, len, byte);
        at
    }

    fn fill(&self, at: u64, len: usize, byte: u8) {
        if len > 0 {
            // SAFETY: the callers' ranges are allocated.
            unsafe {
                result::stream::synchronize(self.stream).expect("all work");
                result::memset_d8_sync(at, byte, len).expect("memory");
                result::stream::synchronize(result::stream::null()).expect("all work");
            }
        }
    }

    fn read_f32s(&self, at: u64, len: usize) -> Vec<f32> {
        self.read(at, len)
    }

    fn read_u16s(&self, at: u64, len: usize) -> Vec<u16> {
        self.read(at, len)
    }

    fn stream(&self) -> *mut c_void {
        self.stream.cast()
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: all of it is this card's, and no work is left.
        unsafe {
            let _ = result::stream::synchronize(self.stream);
            for at in self.memory.take() {
                let _ = result::free_sync(at);
            }
            if !self.stream.is_null() {
                let _ = result::stream::destroy(self.stream);
            }
        }
    }
}

/// Sizes beyond a tile, with every precision. On other cards than Hopper all run step by step.
fn larger(cell: Cell, units: usize, layers: usize, bidirectional: bool) -> Vec<Case> {
    let case = persistent(cell, units, layers, bidirectional);
    let case = Case { steps: 20, rows: 37, ..case };
    let with = |precision, tolerance| Case {
        options: RecurrenceOptions { precision, ..case.options },
        tolerance,
        ..case
    };
    let precisions = [(Precision::F32, 1e-4), (Precision::Tf32, 1e-2), (Precision::F16, 1e-2)];
    precisions.map(|(precision, tolerance)| with(precision, tolerance)).into()
}

#[test]
fn every_cell_equals_the_cpus() {
    let Some(gpu) = Gpu::find() else { return };
    for cell in [Cell::RnnTanh, Cell::RnnRelu, Cell::Lstm, Cell::Gru] {
        for (layers, bidirectional) in [(1, false), (1, true), (2, false), (2, true)] {
            gpu.check(plain(cell, layers, bidirectional));
            gpu.check(persistent(cell, 40, layers, bidirectional));
        }
    }
}

#[test]
fn large_layers_equal_the_cpus() {
    let Some(gpu) = Gpu::find() else { return };
    let cases = [
        larger(Cell::Lstm, 1024, 1, false),
        larger(Cell::Lstm, 594, 2, false),
        larger(Cell::Lstm, 343, 5, false),
        larger(Cell::Gru, 363, 2, true),
        larger(Cell::RnnTanh, 512, 1, true),
        larger(Cell::Lstm, 102, 5, true),
        larger(Cell::Gru, 64, 3, false),
    ];
    cases.into_iter().flatten().for_each(|case| gpu.check(case));
}

/// Blocks of 16 units: layers of more than 1024, and small batches.
#[test]
fn blocks_of_16_units_equal_the_cpus() {
    let Some(gpu) = Gpu::find() else { return };
    let cases = [
        (Cell::Lstm, 1100, 1, false),
        (Cell::Gru, 1536, 1, false),
        (Cell::Lstm, 2048, 1, false),
        (Cell::RnnTanh, 1056, 1, true),
        (Cell::Lstm, 1024, 1, false),
        (Cell::Gru, 512, 2, false),
        (Cell::Lstm, 512, 2, true),
    ];
    for (cell, units, layers, bidirectional) in cases {
        for rows in [1, 16, 100] {
            let case = persistent(cell, units, layers, bidirectional);
            gpu.check(Case { steps: 12, rows, tolerance: 1e-2, ..case });
        }
    }
}

/// Several launches for one batch, because not all of its rows fit at once.
#[test]
fn batches_in_several_waves_equal_the_cpus() {
    let Some(gpu) = Gpu::find() else { return };
    for (cell, units, layers, bidirectional) in
        [(Cell::Lstm, 700, 1, true), (Cell::Gru, 300, 3, false), (Cell::Lstm, 202, 2, true)]
    {
        let case = persistent(cell, units, layers, bidirectional);
        gpu.check(Case { steps: 5, rows: 500, tolerance: 1e-2, ..case });
    }
}

#[test]
fn what_is_optional_may_be_left_out() {
    let Some(gpu) = Gpu::find() else { return };
    for case in [plain(Cell::Lstm, 2, true), persistent(Cell::Gru, 40, 2, true)] {
        gpu.check(Case { states: false, ..case });
        gpu.check(Case { lengths: None, ..case });
        gpu.check(Case { lengths: Some(true), biases: false, ..case });
    }
}

#[test]
fn every_format() {
    let Some(gpu) = Gpu::find() else { return };
    for (format, tolerance) in [(Format::F16, 5e-3), (Format::Bf16, 1e-2)] {
        for case in [plain(Cell::Gru, 2, true), persistent(Cell::Lstm, 140, 2, true)] {
            let options = RecurrenceOptions { format, ..case.options };
            gpu.check(Case { options, tolerance, ..case });
        }
    }
}

#[test]
fn gradients_of_any_scale() {
    let Some(gpu) = Gpu::find() else { return };
    for scale in [1e-30, 1e-9, 1e9, 1e30] {
        gpu.check(Case { scale, ..persistent(Cell::Lstm, 40, 2, false) });
    }
}

#[test]
fn gradients_beyond_f16_are_not_finite() {
    let Some(gpu) = Gpu::find() else { return };
    let (case, expected) = exploding();
    let run = gpu.run(case, &expected);
    if run.planned.way() != Way::Persistent {
        return skip(Need::Hopper, "gradients are f16 on Hopper only");
    }
    run.forward();
    run.backward();
    assert!(run.d_first[0].values(&gpu).iter().all(|x| !x.is_finite()));
}

/// The default stream is null, as PyTorch's is.
#[test]
fn the_default_stream() {
    let Some(mut gpu) = Gpu::find() else { return };
    // SAFETY: made by `find`, and unused so far.
    unsafe { result::stream::destroy(gpu.stream) }.expect("a stream");
    gpu.stream = result::stream::null();
    gpu.check(plain(Cell::Lstm, 2, true));
    gpu.check(persistent(Cell::Lstm, 40, 2, true));
}

/// In a mode of capture in which this thread must not allocate or wait. The graph computes the same
/// bits as the calls, each time.
#[test]
fn calls_inside_a_captured_graph() {
    let Some(gpu) = Gpu::find() else { return };
    for case in [plain(Cell::Gru, 2, true), persistent(Cell::Lstm, 140, 3, false)] {
        let expected = Expected::of(&case);
        let run = gpu.run(case, &expected);
        // cuBLAS loads its kernels at their first use.
        run.check(&expected);
        let direct = run.results();
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive, and so is everything that the graph uses.
        let graph = unsafe {
            result::stream::begin_capture(gpu.stream, mode).expect("a capture");
            run.forward();
            run.backward();
            let captured = result::stream::end_capture(gpu.stream).expect("a graph");
            let flags = sys::CUgraphInstantiate_flags(0);
            result::graph::instantiate(captured, flags).expect("a graph")
        };
        for _ in 0..3 {
            run.spoil_workspace();
            // SAFETY: both are alive.
            unsafe { result::graph::launch(graph, gpu.stream) }.expect("a launch");
            assert_eq!(run.results(), direct, "{case:?}");
        }
    }
}
