//! Conformance tests of an [`Engine`] of a plain network, to be called from an engine's own tests.
//!
//! | | |
//! |---|---|
//! | [`curve`] | losses, norms and parameters equal the CPU's, step after step |
//! | [`state`] | a saved state continues bit for bit, also one from the CPU |
//! | [`evaluation`] | outputs and losses equal the CPU's, and nothing that training depends on changes |
//! | [`strides`] | many batches per call are the same steps as one by one |
//! | [`not_finite`] | a step whose loss is not finite changes nothing, and is reported |
//!
//! Each panics with what it found.

use crate::data::{Dataset, Examples};
use crate::optim::AdamOptions;
use crate::paper::reversal::Reversal;
use crate::paper::sine::{Sine, SinePart};
use crate::training::{Batches, Engine, Learner, State};
use drnn::{Cell, Cpu, NetSpec, Padding};

/// An engine for a network.
pub type Plain = Box<dyn Engine<Data = dyn Dataset>>;
/// Makes one, its parameters as [`drnn::Model::init`] draws them from the seed.
pub type Make<'a> = &'a dyn Fn(&NetSpec, u64) -> Plain;

/// Networks of every cell and shape, each with data to train on.
pub fn cases() -> Vec<(NetSpec, Examples)> {
    let reversal = Reversal { steps: 7, symbols: 3 }.examples(50, 1);
    let sine = Sine { steps: 11, taps: 4, ..Sine::new(0.5, 2) }.examples(50, 1, SinePart::Train);
    let (reversal, sine) = (reversal.expect("fits"), sine.expect("fits"));
    let mut cases = Vec::new();
    for cell in [Cell::Lstm, Cell::Gru, Cell::RnnTanh, Cell::RnnRelu] {
        let classes = NetSpec::builder(cell).dense(3).outputs(3);
        let values = NetSpec::builder(cell).dense(1).outputs(1);
        let specs = [
            (classes.clone().units([20]), &reversal),
            (classes.clone().units([13]).delay(6, Padding::Null), &reversal),
            (classes.units([9]).bidirectional(), &reversal),
            (values.clone().units([8, 11, 5]), &sine),
            (values.units([17]).delay(2, Padding::Null), &sine),
        ];
        let build = |(builder, data): (drnn::NetSpecBuilder, &Examples)| {
            (builder.build().expect("a network"), data.clone())
        };
        cases.extend(specs.map(build));
    }
    cases
}

fn cpu(spec: &NetSpec, seed: u64) -> Plain {
    Box::new(Learner::new(&Cpu::new(1), spec, AdamOptions::default(), seed))
}

fn batches(chosen: &[u32], batch: usize) -> Batches<'_> {
    Batches { epoch: 0, chosen, batch, rate: 1e-2, clip: Some(0.1), dropout: None }
}

fn far(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn same(a: &State, b: &State) -> bool {
    let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    bits(&a.params) == bits(&b.params)
        && bits(&a.adam.mean) == bits(&b.adam.mean)
        && bits(&a.adam.square) == bits(&b.adam.square)
        && a.adam.steps == b.adam.steps
}

fn all(data: &Examples) -> Vec<u32> {
    (0..data.len() as u32).collect()
}

/// Ten steps of each network, side by side with the CPU: `tolerance` is for losses, norms and the
/// parameters' way from their start.
pub fn curve(make: Make, tolerance: f64) {
    for (spec, data) in cases() {
        let (mut ours, mut theirs, all) = (make(&spec, 3), cpu(&spec, 3), all(&data));
        for (step, chosen) in all.chunks(5).enumerate() {
            let found = ours.train(&data, &batches(chosen, 5)).expect("a step");
            let expected = theirs.train(&data, &batches(chosen, 5)).expect("a step");
            assert_eq!(found.loss.count, expected.loss.count);
            for (name, a, b) in [
                ("loss", found.loss.mean(), expected.loss.mean()),
                ("norm", found.norms, expected.norms),
            ] {
                assert!((a - b).abs() <= tolerance, "{spec}, step {step}: {name} {a}, CPU {b}");
            }
        }
        let [ours, theirs] = [&mut ours, &mut theirs].map(|e| e.state().expect("a state").params);
        let far = f64::from(far(&ours, &theirs));
        assert!(far <= tolerance, "{spec}: parameters {far:.1e} apart");
    }
}

/// A saved state continues in another engine of the same type, and in the CPU's.
pub fn state(make: Make, tolerance: f64) {
    for (spec, data) in cases() {
        let (mut ours, all) = (make(&spec, 5), all(&data));
        let (first, second) = all.split_at(25);
        ours.train(&data, &batches(first, 5)).expect("steps");
        let saved = ours.state().expect("a state");
        ours.train(&data, &batches(second, 5)).expect("steps");
        let straight = ours.state().expect("a state");
        let mut again = make(&spec, 6);
        again.set_state(saved.clone()).expect("fits");
        again.train(&data, &batches(second, 5)).expect("steps");
        assert!(same(&again.state().expect("a state"), &straight), "{spec}: not the same bits");
        let mut theirs = cpu(&spec, 7);
        theirs.set_state(saved.clone()).expect("fits");
        theirs.train(&data, &batches(second, 5)).expect("steps");
        let far = far(&theirs.state().expect("a state").params, &straight.params);
        assert!(f64::from(far) <= tolerance, "{spec}: on the CPU {far:.1e} apart");
        let short = State { params: saved.params[1..].to_vec(), ..saved };
        assert!(again.set_state(short).is_err(), "{spec}: a parameter too few");
    }
}

/// Outputs and losses equal the CPU's; what training depends on stays.
pub fn evaluation(make: Make, tolerance: f64) {
    for (spec, data) in cases() {
        let (mut ours, mut theirs) = (make(&spec, 8), cpu(&spec, 8));
        let before = ours.state().expect("a state");
        let (mut found, mut expected) = (Vec::new(), Vec::new());
        let a = ours.evaluate(&data, 0, 16, &mut |y, _| found.extend_from_slice(y)).expect("runs");
        let b = theirs.evaluate(&data, 0, 16, &mut |y, _| expected.extend_from_slice(y));
        let b = b.expect("runs");
        assert_eq!(a.count, b.count);
        let far = f64::from(far(&found, &expected)).max((a.mean() - b.mean()).abs());
        assert!(far <= tolerance, "{spec}: {far:.1e} apart");
        assert!(same(&ours.state().expect("a state"), &before), "{spec}: it has changed");
    }
}

/// Ten batches given at once, and one by one.
pub fn strides(make: Make) {
    for (spec, data) in cases() {
        let (mut once, mut each, all) = (make(&spec, 4), make(&spec, 4), all(&data));
        let at_once = once.train(&data, &batches(&all, 7)).expect("steps");
        let mut count = 0;
        for chosen in all.chunks(7) {
            count += each.train(&data, &batches(chosen, 7)).expect("a step").loss.count;
        }
        assert_eq!(at_once.loss.count, count);
        let [once, each] = [&mut once, &mut each].map(|engine| engine.state().expect("a state"));
        assert!(same(&once, &each), "{spec}: not the same bits");
    }
}

/// Parameters that have diverged are reported, and stay as they were at the last good step.
pub fn not_finite(make: Make) {
    let (spec, data) = cases().swap_remove(0);
    let (mut ours, all) = (make(&spec, 1), all(&data));
    let mut away = ours.state().expect("a state");
    away.params.iter_mut().for_each(|p| *p = 3e38);
    ours.set_state(away.clone()).expect("fits");
    let found = ours.train(&data, &batches(&all, 10)).expect("no error, but not finite");
    assert!(!found.norms.is_finite(), "{found:?}");
    assert!(same(&ours.state().expect("a state"), &away));
}
