//! Whole batches executed on the CPU, compared with `drnn`: host code and kernels together. Needs a
//! C++ compiler with `_Float16`.

use super::*;
use crate::recorded::{executing, hopper};
use drnn::{Cell, Rows, Steps};

#[path = "../../tests/inference/cases.rs"]
mod cases;

#[test]
fn networks_step_by_step() {
    let Some(device) = executing() else { return };
    cases::plain().iter().for_each(|case| cases::check(&device, case));
}

#[test]
fn networks_in_persistent_kernels() {
    let Some(device) = executing() else { return };
    cases::persistent(40).iter().for_each(|case| cases::check(&device, case));
}

/// Where not all sequences fit at once, some run after others.
#[test]
fn parts_of_a_batch_are_the_batch() {
    let Some(device) = executing() else { return };
    let spec = NetSpec::builder(Cell::Gru).dense(2).units([5]).outputs(3);
    let spec = spec.delay(1, Padding::Null).build().expect("a network");
    let model = Model::init(&spec, 1).expect("a model");
    let ours = CudaModel::new(&device, &model, Precision::F32).expect("a model on the device");
    let (steps, rows) = (4, 5);
    let x: Vec<f32> = (0..steps * rows * 2).map(|i| (i as f32).sin()).collect();
    let lengths = [4, 0, 2, 3, 1];
    let batch = Batch::dense(&x, Steps(steps), Rows(rows)).lengths(&lengths);
    let expected = model.run(&batch, None).expect("outputs");
    let mut results = Results::new(&spec, &batch, None);
    let running = &mut *ours.running.lock().expect("not poisoned");
    for rows in [0..2, 2..3, 3..5] {
        let part = Part::new(&ours.plan, &batch, rows);
        let (planned, arrays) = ours.reserve(&part, running).expect("planned").expect("memory");
        part.send(&ours.plan, None, &arrays).expect("sent");
        ours.submit(&part, &planned, &arrays, running).expect("executed");
        part.receive(&ours.plan, &arrays, &mut results).expect("received");
    }
    let close = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 2e-6);
    assert!(close(&results.values, &expected.values));
    assert!(close(&results.last.h, &expected.last.h));
}

/// Kernels count the outputs, here more than the states, with 32 bits too.
#[test]
fn parts_have_as_many_outputs_as_indices_reach() {
    let device = hopper();
    let spec = NetSpec::builder(Cell::RnnTanh).dense(1).units([1]).outputs(1 << 16);
    let model = Model::init(&spec.build().expect("a network"), 1).expect("a model");
    let ours = CudaModel::new(&device, &model, Precision::F32).expect("a model on the device");
    let running = &mut *ours.running.lock().expect("not poisoned");
    let x = vec![0.0; 1 << 16];
    let mut reserve = |steps: usize, rows: usize| {
        let batch = Batch::dense(&x[..steps * rows], Steps(steps), Rows(rows));
        let part = Part::new(&ours.plan, &batch, 0..rows);
        ours.reserve(&part, running).map(|found| found.is_some())
    };
    assert_eq!(reserve((1 << 15) - 1, 2), Ok(true));
    assert_eq!(reserve(1 << 15, 2), Ok(false));
    assert_eq!(reserve((1 << 16) - 1, 1), Ok(true));
    let error = reserve(1 << 16, 1).unwrap_err().to_string();
    assert_eq!(error, "a sequence of 65536 steps is too long for a GPU; split it, or use the CPU");
}

#[test]
fn networks_without_kernels_and_bad_batches_are_refused() {
    let Some(device) = executing() else { return };
    let blocks = NetSpec::builder(Cell::Lstm).dense(2).blocks(drnn::Blocks::new([3, 3]));
    let blocks = blocks.delay(1, Padding::Null);
    let model = Model::init(&blocks.build().expect("a network"), 1).expect("a model");
    let error = CudaModel::new(&device, &model, Precision::F32).unwrap_err();
    assert!(error.to_string().contains("CPU only"), "{error}");
    let spec = NetSpec::builder(Cell::Lstm).tokens(3, 2).units([4]).build().expect("a network");
    let model = Model::init(&spec, 1).expect("a model");
    let int8 = model.quantize(WeightFormat::Int8).expect("weights");
    let error = CudaModel::new(&device, &int8, Precision::F32).unwrap_err();
    assert!(error.to_string().contains("int8 weights run on the CPU only"), "{error}");
    let ours = CudaModel::new(&device, &model, Precision::F32).expect("a model on the device");
    let batch = Batch::tokens(&[0, 3], Steps(2), Rows(1));
    let error = ours.run(&batch, None).unwrap_err();
    assert_eq!(error.to_string(), model.run(&batch, None).unwrap_err().to_string());
}
