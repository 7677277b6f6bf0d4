//! Taggers on a GPU, compared with the CPU's engine. Skipped without a GPU.

mod cases;

use cases::{
    AnyTagger, Bank, SMALL, Tolerance, curve, evaluation, extremes, gradient, pairs, state,
};
use drnn_cuda::{CudaTagger, Device, Precision};
use drnn_tasks::tagger::TaggerNet;
use drnn_testing::{Need, found};
use drnn_train::tagger::Sizes;
use drnn_train::{AdamOptions, PaperNet};

/// f32 on both sides: other orders of sums, other exponentials.
const TOLERANCE: f64 = 1e-4;
/// After some steps of Adam.
const OF_STEPS: Tolerance = Tolerance { losses: 2e-4, way: 2e-2 };

/// Factors of three digits.
const ROUNDED: f64 = 3e-2;
const OF_ROUNDED_STEPS: Tolerance = Tolerance { losses: 2e-2, way: 0.3 };

fn device() -> Option<Device> {
    found(Need::Gpu, Device::find())
}

fn make(device: &Device, precision: Precision) -> impl Fn(&TaggerNet, u64) -> AnyTagger {
    let device = device.clone();
    move |net, seed| {
        let tagger = CudaTagger::new(&device, precision, net.clone(), AdamOptions::default(), seed);
        Box::new(tagger.expect("an engine"))
    }
}

#[test]
fn every_pair_equals_the_cpus_in_f32() {
    let Some(device) = device() else { return };
    let (bank, make) = (Bank::new(41, 12, 1), make(&device, Precision::F32));
    for pair in pairs() {
        for frozen in [false, true] {
            let net = bank.net(&SMALL, pair, frozen);
            gradient(&make, &bank, &net, TOLERANCE);
            curve(&make, &bank, &net, 8, OF_STEPS);
            evaluation(&make, &bank, &net, TOLERANCE);
        }
        let net = bank.net(&SMALL, pair, false);
        state(&make, &bank, &net, OF_STEPS);
        extremes(&make, &bank, &net);
    }
}

/// The paper's sizes in its batches of 32.
#[test]
fn the_papers_pairs_equal_the_cpus_in_every_precision() {
    let Some(device) = device() else { return };
    let bank = Bank::new(97, 30, 2);
    let rounded = (ROUNDED, OF_ROUNDED_STEPS);
    for (precision, (tolerance, of_steps)) in [
        (Precision::F32, (TOLERANCE, OF_STEPS)),
        (Precision::Tf32, rounded),
        (Precision::F16, rounded),
    ] {
        let make = make(&device, precision);
        for pair in pairs() {
            let net = bank.net(&Sizes::default(), pair, false);
            gradient(&make, &bank, &net, tolerance);
            curve(&make, &bank, &net, 32, of_steps);
            evaluation(&make, &bank, &net, tolerance);
        }
    }
}

#[test]
fn states_continue_to_the_bit_in_every_precision() {
    let Some(device) = device() else { return };
    let bank = Bank::new(65, 20, 3);
    for precision in [Precision::Tf32, Precision::F16] {
        for pair in pairs() {
            let net = bank.net(&Sizes::default(), pair, false);
            let make = make(&device, precision);
            state(&make, &bank, &net, OF_ROUNDED_STEPS);
            extremes(&make, &bank, &net);
        }
    }
}

/// Engines on threads of their own, which share the device and the data: the same bits as alone.
#[test]
fn taggers_side_by_side_compute_what_they_compute_alone() {
    let Some(device) = device() else { return };
    let bank = Bank::new(129, 20, 4);
    for precision in [Precision::F32, Precision::F16] {
        let make = make(&device, precision);
        let trained = |pair: [PaperNet; 2]| {
            let mut engine = make(&bank.net(&Sizes::default(), pair, false), 1);
            for _ in 0..3 {
                cases::train(&mut engine, &bank.data, &bank.all(), 16);
            }
            engine.state().expect("a state").params
        };
        let alone: Vec<Vec<f32>> = pairs().into_iter().map(trained).collect();
        let together: Vec<Vec<f32>> = std::thread::scope(|scope| {
            let (all, trained) = (pairs().into_iter(), &trained);
            let all: Vec<_> = all.map(|pair| scope.spawn(move || trained(pair))).collect();
            all.into_iter().map(|thread| thread.join().expect("a training")).collect()
        });
        assert!(alone == together, "{precision}: not the same bits");
    }
}
