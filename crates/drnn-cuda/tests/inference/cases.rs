//! Batches through networks of every kind, on a GPU and on the CPU: the same outputs and states.
//! Used by the tests that execute kernels on the CPU, and by those on a GPU.

use super::{CudaModel, Device, Precision};
use drnn::random::Rng;
use drnn::{Batch, Cell, Model, NetSpec, NetSpecBuilder, Outputs, Padding, Rows, States, Steps};
use drnn_tasks::Runner;

/// A network, and how far its results may be from the CPU's.
pub struct Case {
    pub spec: NetSpec,
    pub precision: Precision,
    pub tolerance: f32,
}

fn case(builder: NetSpecBuilder, precision: Precision) -> Case {
    let tolerance = if precision == Precision::F32 { 2e-6 } else { 5e-3 };
    Case { spec: builder.build().expect("a network"), precision, tolerance }
}

/// Networks whose recurrences run step by step in f32.
pub fn plain() -> Vec<Case> {
    let lstm = || NetSpec::builder(Cell::Lstm);
    let builders = vec![
        lstm().tokens(5, 3).units([6]).outputs(4).delay(2, Padding::Symbol(1)),
        lstm().tokens(5, 3).units([6, 4]).outputs(4).delay(1, Padding::Null),
        lstm().dense(3).units([5, 5, 7]).bidirectional().outputs(2),
        NetSpec::builder(Cell::Gru).dense(2).units([6]).delay(2, Padding::LookAhead).outputs(3),
        NetSpec::builder(Cell::RnnTanh).tokens(4, 2).units([5, 5]).bidirectional(),
        NetSpec::builder(Cell::RnnRelu).dense(2).units([4]),
    ];
    builders.into_iter().map(|builder| case(builder, Precision::F32)).collect()
}

/// Networks of up to `units` units whose recurrences run in persistent kernels.
pub fn persistent(units: usize) -> Vec<Case> {
    let lstm = || NetSpec::builder(Cell::Lstm);
    let builders = vec![
        lstm().tokens(5, 3).units([units]).outputs(4).delay(2, Padding::Null),
        NetSpec::builder(Cell::Gru).dense(3).units([units / 2, units]).bidirectional().outputs(2),
    ];
    builders.into_iter().map(|builder| case(builder, Precision::F16)).collect()
}

/// Sequences of up to 7 elements; one is empty, and one has a single element.
const LENGTHS: [usize; 5] = [7, 1, 4, 0, 6];
const STEPS: usize = 7;

/// Runs whole, ragged and selected batches, from zeros and from given states.
pub fn check(device: &Device, case: &Case) {
    let Case { spec, precision, tolerance } = case;
    let model = Model::init(spec, 3).expect("a model");
    let ours = CudaModel::new(device, &model, *precision).expect("a model on the device");
    let mut rng = Rng::new(9);
    let (rows, q) = (LENGTHS.len(), spec.input().width());
    let mut x: Vec<f32> = (0..STEPS * rows * q).map(|_| rng.symmetric(1.0)).collect();
    let tokens: Vec<u32> = (0..STEPS * rows).map(|_| rng.below(4) as u32).collect();
    let mut start = States::zeros(spec, rows);
    start.h.iter_mut().chain(&mut start.c).for_each(|value| *value = rng.symmetric(0.5));
    let compare = |x: &[f32], lengths: Option<&[usize]>, selected: Option<&[u32]>| {
        let batch = match spec.input() {
            drnn::InputSpec::Dense(_) => Batch::dense(x, Steps(STEPS), Rows(rows)),
            drnn::InputSpec::Tokens { .. } => Batch::tokens(&tokens, Steps(STEPS), Rows(rows)),
        };
        let batch = lengths.map_or(batch, |lengths| batch.lengths(lengths));
        let batch = selected.map_or(batch, |slots| batch.select_outputs(slots));
        for start in [None, Some(&start)] {
            let expected = model.run(&batch, start).expect("outputs");
            let found = ours.run(&batch, start).expect("outputs of the device");
            assert_close(&found, &expected, *tolerance, &format!("{spec}, {lengths:?}"));
        }
    };
    compare(&x, None, None);
    // What stands after a sequence's end is not read.
    let after = |at: usize| at / rows / q >= LENGTHS[at / q % rows];
    (0..x.len()).filter(|at| after(*at)).for_each(|at| x[at] = f32::NAN);
    compare(&x, Some(&LENGTHS), None);
    let slots = [0, 4].map(|row| row as u32);
    let slots: Vec<u32> = slots.into_iter().chain([(2 * rows) as u32]).collect();
    compare(&x, Some(&LENGTHS), Some(&slots));
    compare(&x, Some(&LENGTHS), Some(&[]));
}

fn assert_close(found: &Outputs, expected: &Outputs, tolerance: f32, what: &str) {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    let arrays = [
        ("outputs", &found.values, &expected.values),
        ("h", &found.last.h, &expected.last.h),
        ("c", &found.last.c, &expected.last.c),
    ];
    for (name, found, expected) in arrays {
        assert_eq!(found.len(), expected.len(), "{what}: {name}");
        for (i, (a, b)) in found.iter().zip(expected).enumerate() {
            assert!((a - b).abs() <= tolerance, "{what}: {name}[{i}] is {a}, expected {b}");
        }
    }
}
