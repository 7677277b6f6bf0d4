//! The engine conformance tests on a GPU: `CudaLearner` compared with the CPU. Skipped without a
//! GPU.

use drnn::random::Rng;
use drnn::{Cell, Cpu, InputSpec, NetSpec, Padding};
use drnn_cuda::{CudaLearner, Device, Precision};
use drnn_testing::{Need, found};
use drnn_train::conformance::{self, Plain};
use drnn_train::{
    AdamOptions, Batches, Dataset, Engine, Examples, Gathered, IGNORE, Inputs, Learner, Result,
    TargetData,
};

/// f32 on both sides: different order of sums, different exponentials, ten steps of Adam on top.
const TOLERANCE: f64 = 2e-4;

/// The same with TF32 and f16.
const ROUNDED: f64 = 2e-2;

fn device() -> Option<Device> {
    found(Need::Gpu, Device::find())
}

fn make(device: &Device) -> impl Fn(&NetSpec, u64) -> Plain {
    make_with(device, Precision::F32)
}

fn make_with(device: &Device, precision: Precision) -> impl Fn(&NetSpec, u64) -> Plain {
    let device = device.clone();
    move |spec, seed| {
        let learner = CudaLearner::new(&device, precision, spec, AdamOptions::default(), seed);
        Box::new(learner.expect("an engine"))
    }
}

#[test]
fn loss_curves_equal_the_cpus() {
    let Some(device) = device() else { return };
    conformance::curve(&make(&device), TOLERANCE);
}

#[test]
fn training_continues_from_a_state_to_the_bit() {
    let Some(device) = device() else { return };
    conformance::state(&make(&device), TOLERANCE);
}

#[test]
fn evaluation_equals_the_cpus() {
    let Some(device) = device() else { return };
    conformance::evaluation(&make(&device), TOLERANCE);
}

#[test]
fn batches_per_call_do_not_change_steps() {
    let Some(device) = device() else { return };
    conformance::strides(&make(&device));
}

#[test]
fn a_step_that_is_not_finite_changes_nothing() {
    let Some(device) = device() else { return };
    conformance::not_finite(&make(&device));
}

/// Factors of three digits. Adam divides a gradient by its size, so the rounding error of a small
/// gradient moves its parameter as much as that of a large one: ten steps of 0.01 could be 0.2
/// apart.
#[test]
fn rounded_factors_stay_close_to_the_cpus_curves() {
    let Some(device) = device() else { return };
    for precision in [Precision::Tf32, Precision::F16] {
        let make = make_with(&device, precision);
        conformance::curve(&make, ROUNDED);
        conformance::evaluation(&make, ROUNDED);
        conformance::state(&make, ROUNDED);
        conformance::strides(&make);
        conformance::not_finite(&make);
    }
}

/// Random sequences of random lengths for a network.
struct Drawn(NetSpec);

impl Dataset for Drawn {
    fn len(&self) -> usize {
        40
    }

    fn fits(&self, _: &NetSpec) -> Result<()> {
        Ok(())
    }

    fn gather(&self, epoch: usize, chosen: &[u32], to: &mut Gathered) {
        let spec = &self.0;
        let mut rng = Rng::new(u64::from(chosen[0]) + epoch as u64);
        (to.steps, to.rows) = (9, chosen.len());
        to.lengths = (0..to.rows).map(|row| if row == 0 { 9 } else { rng.below(10) }).collect();
        let slots = to.steps * to.rows;
        match spec.input() {
            InputSpec::Dense(q) => {
                // NaN after the end of a sequence: it must not be read.
                let x = to.inputs.dense();
                x.extend((0..slots * q).map(|_| rng.symmetric(1.0)));
                for slot in 0..slots {
                    if slot / to.rows >= to.lengths[slot % to.rows] {
                        x[slot * q..][..q].fill(f32::NAN);
                    }
                }
            }
            InputSpec::Tokens { symbols, .. } => {
                to.inputs.tokens().extend((0..slots).map(|_| rng.below(symbols) as u32));
            }
        }
        let m = spec.output_width();
        let counts = |slot: usize| slot / to.rows < spec.output_steps(to.lengths[slot % to.rows]);
        let positions = spec.output_steps(to.steps) * to.rows;
        // In odd epochs every third output is selected.
        let there = (0..positions).filter(|slot| counts(*slot)).step_by(3);
        to.selected = (epoch % 2 == 1).then(|| there.map(|slot| slot as u32).collect());
        match spec.outputs() {
            Some(_) => {
                let classes = to.targets.classes();
                for slot in 0..positions {
                    let class = rng.below(m) as u32;
                    classes.push(if counts(slot) && class != 1 { class } else { IGNORE });
                }
                if let Some(slots) = &to.selected {
                    *classes = slots.iter().map(|slot| classes[*slot as usize]).collect();
                }
            }
            None => {
                let values = to.targets.values();
                for value in 0..positions * m {
                    let target = rng.symmetric(1.0);
                    values.push(if counts(value / m) { target } else { f32::NAN });
                }
                if let Some(slots) = &to.selected {
                    let of = |slot: &u32| &values[*slot as usize * m..][..m];
                    *values = slots.iter().flat_map(of).copied().collect();
                }
            }
        }
    }
}

/// Tokens, ragged lengths, every padding, bidirectional layers, with and without an output layer.
fn more() -> Vec<NetSpec> {
    let mut specs = Vec::new();
    for cell in [Cell::RnnTanh, Cell::RnnRelu, Cell::Lstm, Cell::Gru] {
        let tokens = NetSpec::builder(cell).tokens(6, 3);
        let dense = NetSpec::builder(cell).dense(4);
        specs.extend([
            tokens.clone().units([7]).delay(3, Padding::Symbol(2)).outputs(5),
            tokens.clone().units([7, 5]).delay(2, Padding::LookAhead).outputs(5),
            tokens.clone().units([33]).delay(12, Padding::Null).outputs(5),
            tokens.units([6, 4]).bidirectional().outputs(5),
            dense.clone().units([6, 4]).bidirectional(),
            dense.units([5]).delay(1, Padding::LookAhead),
        ]);
    }
    specs.into_iter().map(|builder| builder.build().expect("a network")).collect()
}

#[test]
fn tokens_ragged_lengths_and_paddings_equal_the_cpus() {
    let Some(device) = device() else { return };
    more_curves(&make(&device), TOLERANCE);
    more_curves(&make_with(&device, Precision::F16), ROUNDED);
}

/// Networks for persistent kernels: odd sizes, every cell, bidirectional ones, stacks in one launch
/// and layer by layer, tables and embeddings, every padding.
fn large() -> Vec<NetSpec> {
    let lstm = || NetSpec::builder(Cell::Lstm);
    let gru = || NetSpec::builder(Cell::Gru);
    let specs = [
        lstm().tokens(6, 3).units([140]).delay(3, Padding::Symbol(2)),
        lstm().tokens(6, 3).units([512]).delay(12, Padding::Null),
        lstm().tokens(70, 3).units([150, 200]).delay(2, Padding::LookAhead),
        lstm().tokens(6, 3).units([202, 130]).bidirectional(),
        lstm().tokens(70, 3).units([135]).bidirectional(),
        lstm().tokens(6, 3).units([202, 210]).bidirectional(),
        lstm().dense(4).units([343]).delay(1, Padding::LookAhead),
        lstm().dense(4).units([130, 363]).bidirectional(),
        lstm().dense(1).units([1024]),
        lstm().tokens(6, 3).units([343; 5]).delay(3, Padding::Symbol(2)),
        lstm().dense(4).units([200, 193, 210]).delay(1, Padding::LookAhead),
        lstm().tokens(70, 3).units([512, 500]),
        lstm().tokens(6, 3).units([150, 20]),
        lstm().tokens(6, 3).units([102; 3]).bidirectional(),
        lstm().dense(4).units([64; 3]).delay(1, Padding::LookAhead),
        lstm().tokens(6, 3).units([1100]),
        lstm().dense(4).units([2048]).delay(1, Padding::LookAhead),
        gru().tokens(70, 3).units([1536]),
        gru().dense(4).units([64]).bidirectional(),
        NetSpec::builder(Cell::RnnTanh).dense(4).units([1056]).bidirectional(),
        gru().tokens(6, 3).units([512]).delay(3, Padding::Symbol(2)),
        gru().tokens(70, 3).units([202, 130]).bidirectional(),
        gru().dense(4).units([343; 4]).delay(1, Padding::LookAhead),
        gru().tokens(6, 3).units([40; 2]).delay(2, Padding::Null),
        NetSpec::builder(Cell::RnnTanh).tokens(6, 3).units([343; 2]).delay(2, Padding::Null),
        NetSpec::builder(Cell::RnnTanh).dense(4).units([722]).bidirectional(),
        NetSpec::builder(Cell::RnnTanh).dense(4).units([200; 3]).delay(1, Padding::LookAhead),
    ];
    specs.map(|builder| builder.outputs(5).build().expect("a network")).into()
}

#[test]
fn large_networks_equal_the_cpus() {
    let Some(device) = device() else { return };
    // At ten times the rate, networks of hundreds of units diverge along rounding errors.
    curves(large(), &make_with(&device, Precision::F16), ROUNDED, 1e-3);
}

/// After one step Adam's mean is a tenth of the gradient.
#[test]
fn gradients_of_large_networks_equal_the_cpus() {
    let Some(device) = device() else { return };
    // With all outputs, and with selected ones.
    for (spec, epoch) in large().into_iter().flat_map(|spec| [(spec.clone(), 0), (spec, 1)]) {
        let (data, chosen) = (Drawn(spec.clone()), (0..40).collect::<Vec<u32>>());
        let batches =
            Batches { epoch, chosen: &chosen, batch: 40, rate: 1e-3, clip: None, dropout: None };
        let mut theirs = Learner::new(&Cpu::new(4), &spec, AdamOptions::default(), 3);
        theirs.train(&data, &batches).expect("a step");
        let expected = theirs.state().expect("a state").adam.mean;
        // Relative to the whole gradient; f32 differs by the order of its sums.
        for (precision, tolerance) in [(Precision::F32, 1e-5), (Precision::F16, 2e-3)] {
            let mut ours = make_with(&device, precision)(&spec, 3);
            ours.train(&data, &batches).expect("a step");
            let found = ours.state().expect("a state").adam.mean;
            let norm = |of: &mut dyn Iterator<Item = f32>| -> f64 {
                of.map(|x| f64::from(x).powi(2)).sum::<f64>().sqrt()
            };
            let far = norm(&mut found.iter().zip(&expected).map(|(a, b)| a - b));
            let far = far / norm(&mut expected.iter().copied());
            eprintln!("{precision:?}, {spec}, epoch {epoch}: {far:.1e}");
            assert!(far <= tolerance, "{precision:?}, {spec}, epoch {epoch}: {far:.1e}");
        }
    }
}

#[test]
fn large_networks_are_reproducible_in_several_waves() {
    let Some(device) = device() else { return };
    // 700 units allow 6 groups of at most 64 rows; three layers of 300 allow 4 groups.
    for (cell, units) in [(Cell::Lstm, vec![700]), (Cell::Gru, vec![300; 3])] {
        let spec = NetSpec::builder(cell).dense(2).units(units).outputs(5).build().unwrap();
        reproducible_in_several_waves(&device, &spec);
    }
}

fn reproducible_in_several_waves(device: &Device, spec: &NetSpec) {
    let data = Drawn(spec.clone());
    let chosen: Vec<u32> = (0..400).map(|i| i % 40).collect();
    let batches = Batches {
        epoch: 0,
        chosen: &chosen,
        batch: 400,
        rate: 1e-2,
        clip: Some(0.5),
        dropout: None,
    };
    let train = |precision| {
        let mut learner = make_with(device, precision)(spec, 1);
        let steps = [0, 1].map(|_| learner.train(&data, &batches).expect("steps"));
        (steps[1].loss.mean(), learner.state().expect("a state").params)
    };
    let ((loss, ours), (_, again)) = (train(Precision::F16), train(Precision::F16));
    assert!(ours.iter().zip(&again).all(|(a, b)| a.to_bits() == b.to_bits()));
    let (expected, theirs) = train(Precision::F32);
    assert!((loss - expected).abs() < ROUNDED, "{loss}, f32 {expected}");
    let far = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(f64::from(far) <= 5.0 * ROUNDED, "parameters {far:.1e} apart");
}

/// One small step through every kernel, for `compute-sanitizer`, which slows everything down.
#[test]
fn a_step_through_every_kernel() {
    let Some(device) = device() else { return };
    let net = |cell| NetSpec::builder(cell).dense(4);
    let specs = [
        net(Cell::Lstm).units([40]),
        net(Cell::Lstm).units([140]).bidirectional(),
        net(Cell::Lstm).units([140; 3]).delay(1, Padding::Null),
        net(Cell::Lstm).units([520]),
        net(Cell::Gru).units([1030]),
        net(Cell::Gru).units([33; 2]),
        NetSpec::builder(Cell::RnnTanh).tokens(6, 3).units([70]),
        NetSpec::builder(Cell::RnnRelu).tokens(70, 3).units([20]),
    ];
    for builder in specs {
        let spec = builder.outputs(5).build().expect("a network");
        for precision in [Precision::F32, Precision::F16] {
            let mut learner = make_with(&device, precision)(&spec, 3);
            // With all outputs, then with selected ones.
            for epoch in [0, 1] {
                let batches = Batches {
                    epoch,
                    chosen: &[0, 1, 2],
                    batch: 3,
                    rate: 1e-3,
                    clip: Some(1.0),
                    dropout: None,
                };
                let found = learner.train(&Drawn(spec.clone()), &batches);
                assert!(found.expect("a step").loss.mean().is_finite(), "{spec}");
            }
        }
    }
}

fn more_curves(make: &dyn Fn(&NetSpec, u64) -> Plain, tolerance: f64) {
    curves(more(), make, tolerance, 1e-2);
}

fn curves(specs: Vec<NetSpec>, make: &dyn Fn(&NetSpec, u64) -> Plain, tolerance: f64, rate: f32) {
    for spec in specs {
        let mut ours = make(&spec, 3);
        let mut theirs = Learner::new(&Cpu::new(1), &spec, AdamOptions::default(), 3);
        let data = Drawn(spec.clone());
        let all: Vec<u32> = (0..40).collect();
        for step in 0..3 {
            let (chosen, batch) = (&all[step * 10..][..10], 5);
            let batches =
                Batches { epoch: step, chosen, batch, rate, clip: Some(0.5), dropout: None };
            let found = ours.train(&data, &batches).expect("steps");
            let expected = theirs.train(&data, &batches).expect("steps");
            assert_eq!(found.loss.count, expected.loss.count, "{spec}");
            assert_eq!(found.loss.correct.is_some(), expected.loss.correct.is_some());
            let far = (found.loss.mean() - expected.loss.mean()).abs();
            let far = far.max((found.norms - expected.norms).abs() / expected.norms.max(1.0));
            assert!(far <= tolerance, "{spec}, step {step}: {found:?}, CPU {expected:?}");
        }
        let (mut found, mut expected) = (Vec::new(), Vec::new());
        ours.evaluate(&data, 9, 7, &mut |y, _| found.extend_from_slice(y)).expect("runs");
        theirs.evaluate(&data, 9, 7, &mut |y, _| expected.extend_from_slice(y)).expect("runs");
        assert_eq!(found.len(), expected.len());
        let far = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(f64::from(far) <= tolerance, "{spec}: answers {far:.1e} apart");
        let [ours, theirs] = [ours.state(), theirs.state()].map(|s| s.expect("a state").params);
        let far = ours.iter().zip(&theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(f64::from(far) <= 5.0 * tolerance, "{spec}: parameters {far:.1e} apart");
    }
}

#[test]
fn data_that_does_not_fit_is_refused() {
    let Some(device) = device() else { return };
    let spec = NetSpec::builder(Cell::Lstm).tokens(3, 2).units([4]).outputs(2).build().unwrap();
    let mut ours = make(&device)(&spec, 1);
    let bad = drnn_train::Examples::new(
        Inputs::Tokens(vec![0, 3]),
        TargetData::Classes(vec![0, 1]),
        [1, 2],
        [1, 2],
    );
    let batches =
        Batches { epoch: 0, chosen: &[0], batch: 1, rate: 1e-2, clip: None, dropout: None };
    let error = ours.train(&bad.unwrap(), &batches).unwrap_err();
    assert!(error.to_string().contains("token 3 at step 1"), "{error}");
}

/// Data that have to be staged batch by batch.
struct Staged(Examples);

impl Dataset for Staged {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn fits(&self, spec: &NetSpec) -> Result<()> {
        self.0.fits(spec)
    }

    fn gather(&self, epoch: usize, chosen: &[u32], to: &mut Gathered) {
        self.0.gather(epoch, chosen, to);
    }
}

/// Batches taken from data on the device, and staged ones in a stream of their own: the same steps,
/// to the bit.
#[test]
fn where_the_data_lie_does_not_change_steps() {
    let Some(device) = device() else { return };
    let mut rng = Rng::new(5);
    let lengths: Vec<usize> = (0..70).map(|i| 40 + i * 7 % 25).collect();
    let elements = lengths.iter().sum::<usize>();
    for (units, q, m, values) in [(128, 24, 3, true), (40, 1, 5, false), (256, 70, 2, true)] {
        let x = (0..elements * q).map(|_| rng.symmetric(1.0)).collect();
        let y = match values {
            true => TargetData::Values((0..elements * m).map(|_| rng.symmetric(1.0)).collect()),
            false => TargetData::Classes((0..elements).map(|i| (i % m) as u32).collect()),
        };
        let data = Examples::of_lengths(Inputs::Dense(x), y, &lengths, [q, m]).expect("data");
        let spec = NetSpec::builder(Cell::Lstm).dense(q).units([units]).outputs(m);
        let spec = spec.delay(3, Padding::Null).build().expect("a network");
        for precision in [Precision::F32, Precision::F16] {
            let trained = |data: &(dyn Dataset + 'static)| {
                let mut learner = make_with(&device, precision)(&spec, 1);
                let chosen: Vec<u32> = (0..70).collect();
                for epoch in 0..3 {
                    let (batch, rate, clip) = (16, 1e-2, Some(1.0));
                    let batches =
                        Batches { epoch, chosen: &chosen, batch, rate, clip, dropout: None };
                    learner.train(data, &batches).expect("steps");
                }
                learner.state().expect("a state").params
            };
            assert_eq!(trained(&data), trained(&Staged(data.clone())), "{spec}, {precision:?}");
        }
    }
}
