//! Trained networks on a GPU compared with the CPU. Skipped where there is no GPU.

mod cases;

use drnn::{Batch, Cell, Model, NetSpec, Padding, Rows, Steps};
use drnn_cuda::{CudaModel, Device, Precision};
use drnn_tasks::Runner;
use drnn_testing::{Need, found};

fn device() -> Option<Device> {
    found(Need::Gpu, Device::find())
}

#[test]
fn networks_of_every_kind_equal_the_cpus() {
    let Some(device) = device() else { return };
    cases::plain().iter().for_each(|case| cases::check(&device, case));
    // Where there are no persistent kernels, factors are rounded to as many bits.
    cases::persistent(300).iter().for_each(|case| cases::check(&device, case));
}

/// Sequences of another length, piece by piece: states carry on.
#[test]
fn pieces_from_their_last_states_equal_the_whole() {
    let Some(device) = device() else { return };
    let spec = NetSpec::builder(Cell::Lstm).dense(8).units([200]).outputs(3);
    let spec = spec.delay(0, Padding::Null).build().expect("a network");
    let model = Model::init(&spec, 1).expect("a model");
    let ours = CudaModel::new(&device, &model, Precision::F32).expect("on the device");
    let (steps, rows) = (60, 33);
    let x: Vec<f32> = (0..steps * rows * 8).map(|i| (i as f32 * 0.37).sin()).collect();
    let run = |x: &[f32], steps, start| {
        let batch = Batch::dense(x, Steps(steps), Rows(rows));
        ours.run(&batch, start).expect("outputs")
    };
    let whole = run(&x, steps, None);
    let (first, second) = x.split_at(25 * rows * 8);
    let begun = run(first, 25, None);
    let ended = run(second, 35, Some(&begun.last));
    let pieces = [begun.values, ended.values].concat();
    assert!(pieces.iter().zip(&whole.values).all(|(a, b)| (a - b).abs() < 1e-5));
    assert!(ended.last.c.iter().zip(&whole.last.c).all(|(a, b)| (a - b).abs() < 1e-5));
}
