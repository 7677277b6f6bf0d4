//! Steps allocate nothing: not a training pass after the first, not a push into a stream.

use drnn::{
    Batch, Blocks, Cell, Cpu, Element, Gradient, Lane, Model, NetSpec, NetSpecBuilder, Padding,
    Rows, States, Steps, Stream, StreamBatch, Tape,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static COUNT: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of a call, after the first. The counter is the whole process's, and the test
/// harness allocates now and then: what a call itself allocates shows in the quietest of several.
fn allocations(mut f: impl FnMut()) -> usize {
    f();
    let count = |f: &mut dyn FnMut()| {
        let before = COUNT.load(Ordering::Relaxed);
        f();
        COUNT.load(Ordering::Relaxed) - before
    };
    (0..5).map(|_| count(&mut f)).min().unwrap()
}

#[test]
fn steps_allocate_nothing() {
    let cpu = Cpu::new(2);
    let net = |cell| NetSpec::builder(cell).outputs(3).delay(2, Padding::Null);
    for cell in Cell::ALL {
        // Two layers, and the same as blocks of one.
        let (stack, blocks) = (net(cell).units([20, 12]), net(cell).blocks(Blocks::new([20, 12])));
        for (builder, dense) in [(stack.clone(), false), (stack, true), (blocks, true)] {
            training_allocates_nothing(&cpu, builder.clone(), dense);
            stream_allocates_nothing(&cpu, builder);
        }
    }
    let projected = net(Cell::Lstm).units([20, 12]).projection(5);
    training_allocates_nothing(&cpu, projected.clone(), true);
    stream_allocates_nothing(&cpu, projected);
}

fn stream_allocates_nothing(cpu: &Cpu, builder: NetSpecBuilder) {
    let spec = builder.tokens(9, 4).build().unwrap();
    let model = Model::init(&spec, 1).unwrap().on(cpu);
    let mut stream = Stream::new(&model).unwrap();
    let count = allocations(|| {
        stream.push(3).unwrap();
    });
    assert_eq!(count, 0, "stream of {spec}");

    let mut streams = StreamBatch::new(&model).unwrap();
    let elements: Vec<_> = (0..20).map(|_| (streams.join(), Element::Token(3))).collect();
    let count = allocations(|| streams.step(&elements, |_, _| {}).unwrap());
    assert_eq!(count, 0, "streams of {spec}");
}

fn training_allocates_nothing(cpu: &Cpu, builder: NetSpecBuilder, dense: bool) {
    let builder = if dense { builder.dense(4) } else { builder.tokens(9, 4) };
    let spec = builder.build().unwrap();
    let model = Model::init(&spec, 1).unwrap().on(cpu);
    let tokens: Vec<u32> = (0..8 * 30).map(|i| i % 9).collect();
    let x: Vec<f32> = tokens.iter().flat_map(|&t| [t as f32 * 0.1; 4]).collect();
    let lengths: Vec<usize> = (0..30).map(|i| i % 9).collect();
    let batch = if dense {
        Batch::dense(&x, Steps(8), Rows(30))
    } else {
        Batch::tokens(&tokens, Steps(8), Rows(30))
    };
    let batch = batch.lengths(&lengths);
    let slots: Vec<u32> = (0..8 * 30).filter(|i| i / 30 < i % 30 % 9 && i % 4 == 0).collect();
    let mut lanes = [Lane { params: model.params().into(), batch, start: None }; 3];
    lanes[1].batch = batch.select_outputs(&slots);
    let d_outputs = vec![0.1; 8 * 30 * 3];
    let mut params = vec![vec![0.0; spec.parameters()]; 3];
    let mut params = params.iter_mut();
    let mut gradients: [Gradient; 3] = std::array::from_fn(|_| Gradient {
        outputs: &d_outputs,
        last: None,
        params: params.next().unwrap(),
        input: None,
        start: None,
    });
    gradients[1].outputs = &d_outputs[..slots.len() * 3];
    let mut tape = Tape::on(cpu, &spec);
    let mut last = States::default();
    let count = allocations(|| {
        let pass = tape.forward(&lanes).unwrap();
        pass.last_into(2, &mut last);
        pass.backward(&mut gradients).unwrap();
    });
    assert_eq!(count, 0, "training pass of {spec}");
}
