//! What the crate can do with its feature `std` and without: `cargo test -p drnn --no-default-features
//! --test without_std`. `examples/microcontroller` does the same on an ARM microcontroller.

use drnn::{
    Batch, Cell, Cpu, Gradient, Import, InstructionSet, Lane, Model, NetSpec, Padding, Rows, Steps,
    Stream, Tape,
};

const WIDTH: usize = 4;
const LENGTH: usize = 100;
/// The first output, the same on every processor but for the order of rounding.
const EXPECTED: f32 = -0.036_713_15;

fn model() -> Model {
    let spec = NetSpec::builder(Cell::Lstm).dense(WIDTH).units([32]).outputs(WIDTH);
    let spec = spec.delay(3, Padding::Null).build().unwrap();
    Model::init(&spec, 1).unwrap()
}

fn input() -> Vec<f32> {
    (0..LENGTH * WIDTH).map(|i| (i % 7) as f32 * 0.25 - 0.75).collect()
}

#[test]
fn a_model_goes_through_bytes_and_streams_as_it_runs() {
    let bytes = model().to_bytes().unwrap();
    let imported = Model::import_bytes(&bytes, &Import::default()).unwrap();
    assert_eq!(imported.params(), model().params());
    let x = input();
    for set in InstructionSet::available() {
        let cpu = Cpu::with_instruction_set(set, 1).unwrap();
        let model = Model::from_bytes(&bytes).unwrap().on(&cpu);
        let whole = model.run(&Batch::dense(&x, Steps(LENGTH), Rows(1)), None).unwrap();
        assert!((whole.at(0, 0)[0] - EXPECTED).abs() < 1e-5, "{set}: {}", whole.at(0, 0)[0]);
        let mut stream = Stream::new(&model).unwrap();
        let mut live = Vec::new();
        for (t, x) in x.chunks_exact(WIDTH).enumerate() {
            if t == LENGTH / 2 {
                let snapshot = stream.snapshot();
                stream = Stream::new(&model).unwrap();
                stream.restore(&snapshot).unwrap();
            }
            live.extend(stream.push(x).unwrap().unwrap_or_default());
        }
        live.extend(stream.finish().concat());
        assert_eq!(live, whole.values, "{set}");
    }
}

#[test]
fn a_training_pass_has_the_slope_of_the_loss() {
    let (model, x) = (model(), input());
    let batch = Batch::dense(&x, Steps(LENGTH), Rows(1));
    let loss = |params: &[f32]| {
        let model = Model::from_params(model.spec(), params.to_vec()).unwrap();
        let outputs = model.run(&batch, None).unwrap().values;
        outputs.iter().map(|&y| f64::from(y)).sum::<f64>()
    };
    let mut tape = Tape::new(model.spec()).unwrap();
    let lanes = [Lane { params: model.params().into(), batch, start: None }];
    let pass = tape.forward(&lanes).unwrap();
    let ones = vec![1.0; pass.outputs(0).len()];
    let mut gradient = vec![0.0; model.params().len()];
    let params = &mut gradient;
    let outputs = &ones;
    pass.backward(&mut [Gradient { outputs, last: None, params, input: None, start: None }])
        .unwrap();
    // Along the gradient the slope is its norm.
    let norm = gradient.iter().map(|&g| f64::from(g).powi(2)).sum::<f64>().sqrt();
    let moved = |step: f64| -> Vec<f32> {
        let params = model.params().iter().zip(&gradient);
        params.map(|(p, g)| (f64::from(*p) + step * f64::from(*g) / norm) as f32).collect()
    };
    let slope = (loss(&moved(1e-2)) - loss(&moved(-1e-2))) / 2e-2;
    assert!((slope - norm).abs() < 1e-2 * norm, "{slope} {norm}");
}
