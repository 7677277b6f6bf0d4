//! Estimates of memory against what is really allocated.

use drnn::memory::BatchSize;
use drnn::random::Rng;
use drnn::{
    Batch, Blocks, Cell, Connections, Cpu, Dropout, Error, Gradient, InputSpec, Lane, Model,
    NetSpec, Padding, Rows, Steps, Stream, Tape, memory,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a call gives, and how far the program's memory rises meanwhile.
fn peak<T>(f: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let found = f();
    (found, PEAK.load(Ordering::Relaxed) - before)
}

/// Estimates lie at most 2 % and 16 kB below the truth, and at most 25 % and 64 kB above it.
fn assert_close(what: &str, estimate: usize, truth: usize) {
    let low = truth.saturating_sub(truth / 50 + 16_000);
    let high = truth + truth / 4 + 64_000;
    assert!((low..=high).contains(&estimate), "{what}: estimated {estimate}, found {truth}");
}

/// Some of everything: cells, stacks, both ways, blocks, delays, tokens, with and without outputs.
fn spec(rng: &mut Rng) -> NetSpec {
    let units: Vec<usize> = (0..1 + rng.below(3)).map(|_| 1 + rng.below(120)).collect();
    let mut builder = NetSpec::builder(Cell::ALL[rng.below(Cell::ALL.len())]).units(units.clone());
    let tokens = rng.below(2) == 0;
    builder = match tokens {
        true => builder.tokens(1 + rng.below(300), 1 + rng.below(40)),
        false => builder.dense(1 + rng.below(60)),
    };
    if rng.below(3) > 0 {
        builder = builder.outputs(1 + rng.below(80));
    }
    let padding = match rng.below(3) {
        0 if tokens => Padding::Symbol(0),
        1 => Padding::LookAhead,
        _ => Padding::Null,
    };
    builder = match rng.below(4) {
        0 => builder.bidirectional(),
        1 => builder,
        2 => {
            let connections =
                [Connections::Stacked, Connections::Lower, Connections::All][rng.below(3)].clone();
            let late = units.len() - 1 + rng.below(3);
            builder.blocks(Blocks::new(units).connections(connections)).delay(late, padding)
        }
        _ => builder.delay(rng.below(60), padding),
    };
    let plain = builder.clone().build().unwrap();
    match plain.cell() {
        // Blocks have no projection, and small layers none so wide.
        Cell::Lstm => builder.projection(1 + rng.below(20)).build().unwrap_or(plain),
        _ => plain,
    }
}

/// Elements for a batch, whichever kind the network reads.
struct Data {
    x: Vec<f32>,
    tokens: Vec<u32>,
    steps: usize,
    rows: usize,
}

impl Data {
    fn new(rng: &mut Rng, spec: &NetSpec, steps: usize, rows: usize) -> Data {
        let slots = steps * rows;
        let (x, tokens) = match spec.input() {
            InputSpec::Dense(q) => {
                ((0..slots * q).map(|_| rng.symmetric(1.0)).collect(), Vec::new())
            }
            InputSpec::Tokens { symbols, .. } => {
                (Vec::new(), (0..slots).map(|_| rng.below(symbols) as u32).collect())
            }
        };
        Data { x, tokens, steps, rows }
    }

    fn batch(&self, spec: &NetSpec) -> Batch<'_> {
        match spec.input() {
            InputSpec::Dense(_) => Batch::dense(&self.x, Steps(self.steps), Rows(self.rows)),
            InputSpec::Tokens { .. } => {
                Batch::tokens(&self.tokens, Steps(self.steps), Rows(self.rows))
            }
        }
    }
}

fn trained(cpu: &Cpu, spec: &NetSpec, batch: Batch, dropout: Option<Dropout>) -> drnn::Memory {
    let model = Model::init(spec, 1).unwrap();
    let lanes = [Lane { params: model.params().into(), batch, start: None }];
    let mut tape = Tape::on(cpu, spec);
    let pass = match dropout {
        Some(dropout) => tape.forward_with_dropout(&lanes, &[dropout]).unwrap(),
        None => tape.forward(&lanes).unwrap(),
    };
    let d_outputs = vec![0.1; pass.outputs(0).len()];
    let mut params = vec![0.0; spec.parameters()];
    let (outputs, params) = (&d_outputs, &mut params);
    pass.backward(&mut [Gradient { outputs, last: None, params, input: None, start: None }])
        .unwrap();
    tape.memory()
}

/// One test, so that nothing else allocates meanwhile.
#[test]
fn estimates_are_close_to_what_is_allocated() {
    let mut rng = Rng::new(3);
    let cpus = [Cpu::new(1), Cpu::new(3)];
    for case in 0..150 {
        let spec = spec(&mut rng);
        let (steps, rows) = (rng.below(90), 1 + rng.below(40));
        let data = Data::new(&mut rng, &spec, steps, rows);
        let what = format!("case {case}, T {steps}, B {rows}, {spec}");

        let (model, taken) = peak(|| Model::init(&spec, 1).unwrap());
        assert_close(&format!("model: {what}"), memory::model(&spec), taken);
        let batch = data.batch(&spec);
        let (_, taken) = peak(|| model.run(&batch, None).unwrap());
        assert_close(
            &format!("run: {what}"),
            memory::run(&spec, BatchSize::new(steps, rows)),
            taken,
        );
        if let (Ok(()), taken) = peak(|| Stream::new(&model).map(drop)) {
            assert_close(&format!("stream: {what}"), memory::stream(&spec), taken);
        }

        let cpu = &cpus[case % 2];
        let estimate = memory::training(&spec, BatchSize::new(steps, rows), cpu.threads());
        let found = trained(cpu, &spec, batch, None);
        let all = |m: drnn::Memory| m.saved + m.extra + m.fixed;
        assert_close(&format!("training: {what}"), all(estimate), all(found));
        assert_close(&format!("kept: {what}"), estimate.saved, found.saved);
        if spec.blocks().is_none() && case % 5 == 0 {
            let found = trained(cpu, &spec, batch, Some(Dropout::new(0.5, 1).unwrap()));
            let dropped = memory::dropout(&spec, BatchSize::new(steps, rows));
            assert_close(&format!("dropout: {what}"), estimate.saved + dropped, found.saved);
        }

        // Sequences of other lengths take no more.
        let lengths: Vec<usize> = (0..rows).map(|_| rng.below(steps + 1)).collect();
        let found = trained(cpu, &spec, data.batch(&spec).lengths(&lengths), None);
        assert!(all(estimate) + all(estimate) / 50 >= all(found), "{what}: {lengths:?}");
    }
    sizes_beyond_all_memory_are_numbers();
    what_cannot_be_had_is_an_error();
}

fn sizes_beyond_all_memory_are_numbers() {
    let spec = NetSpec::builder(Cell::Gru).dense(1).units([50_000; 3]).bidirectional();
    let spec = spec.outputs(7).build().unwrap();
    let largest = [0, 1, 1 << 20, 1 << 40, usize::MAX];
    for (steps, rows) in largest.into_iter().flat_map(|t| largest.map(|b| (t, b))) {
        let of = memory::training(&spec, BatchSize::new(steps, rows), 1024);
        assert!(of.fixed > 4 * spec.parameters(), "{steps} x {rows}: {of:?}");
        let run = memory::run(&spec, BatchSize::new(steps, rows));
        assert!(steps.min(rows) == 0 || run >= steps.saturating_mul(rows), "{steps} x {rows}");
    }
    assert_eq!(memory::run(&spec, BatchSize::new(usize::MAX, usize::MAX)), usize::MAX);
}

/// A petabyte lies outside of what a process can address, so that no system hands it out.
fn what_cannot_be_had_is_an_error() {
    let spec = NetSpec::builder(Cell::RnnTanh).dense(1).units([64; 1000]);
    let spec = spec.delay(1 << 20, Padding::Null).build().unwrap();
    let model = Model::init(&spec, 1).unwrap();
    let x = vec![0.1; 4000];
    let batch = Batch::dense(&x, Steps(1), Rows(4000));
    assert!(memory::run(&spec, BatchSize::new(1, 4000)) > 1 << 49);
    let refused = model.run(&batch, None);
    assert!(matches!(&refused, Err(Error::TooLarge(why)) if why.contains("memory")), "{refused:?}");
    let lanes = [Lane { params: model.params().into(), batch, start: None }];
    let mut tape = Tape::on(&Cpu::new(1), &spec);
    assert!(matches!(tape.forward(&lanes), Err(Error::TooLarge(_))));
}
