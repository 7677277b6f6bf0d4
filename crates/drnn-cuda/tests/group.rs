//! Groups of small LSTMs on a Hopper GPU, lane by lane. Skipped without one.

use drnn::{Cell, Cpu, NetSpec, Padding};
use drnn_cuda::{CudaGroup, CudaLane, CudaLearner, Device, Precision};
use drnn_testing::{Need, found, skip};
use drnn_train::conformance::{self, Plain};
use drnn_train::reversal::Reversal;
use drnn_train::sine::{Sine, SinePart};
use drnn_train::{
    AdamOptions, Batches, Dataset, Engine, Examples, Gathered, Generated, Inputs, Learner, Options,
    PaperNet, Recipe, Result, State, TargetData, Trainer,
};

/// Factors of three digits; ten steps of Adam on top.
const ROUNDED: f64 = 2e-2;

fn device() -> Option<Device> {
    let device = found(Need::Gpu, Device::find())?;
    let spec = PaperNet::Lstm.spec(1, 1).expect("a network");
    match CudaGroup::unsupported_reason(&device, &spec) {
        None => Some(device),
        Some(why) => {
            skip(Need::Hopper, why);
            None
        }
    }
}

fn group(device: &Device, spec: &NetSpec, lanes: usize) -> CudaGroup {
    CudaGroup::new(device, spec, AdamOptions::default(), lanes).expect("a group")
}

/// A lane in a group of one, or a learner if groups do not support the network.
fn make(device: &Device) -> impl Fn(&NetSpec, u64) -> Plain {
    let device = device.clone();
    move |spec, seed| match CudaGroup::unsupported_reason(&device, spec) {
        None => Box::new(group(&device, spec, 1).lane(seed).expect("a lane")),
        Some(_) => {
            let (f16, adam) = (Precision::F16, AdamOptions::default());
            Box::new(CudaLearner::new(&device, f16, spec, adam, seed).expect("an engine"))
        }
    }
}

#[test]
fn a_lane_passes_the_conformance_tests() {
    let Some(device) = device() else { return };
    let make = make(&device);
    conformance::curve(&make, ROUNDED);
    conformance::evaluation(&make, ROUNDED);
    conformance::state(&make, ROUNDED);
    conformance::strides(&make);
    conformance::not_finite(&make);
}

/// Networks that fill blocks in different ways, each with a batch size; some need several blocks.
fn shapes() -> Vec<(NetSpec, usize)> {
    let lstm =
        |n: usize, q: usize, m: usize| NetSpec::builder(Cell::Lstm).dense(q).units([n]).outputs(m);
    vec![
        (lstm(100, 1, 1), 100),
        (lstm(70, 1, 1).bidirectional(), 100),
        (lstm(100, 1, 1).delay(5, Padding::Null), 100),
        (lstm(128, 1, 1), 100),
        (lstm(16, 1, 1).bidirectional(), 7),
        (lstm(3, 1, 1).delay(2, Padding::Null), 130),
        (lstm(100, 4, 4).delay(19, Padding::Null), 50),
        (lstm(65, 4, 4), 113),
    ]
    .into_iter()
    .map(|(builder, batch)| (builder.build().expect("a network"), batch))
    .collect()
}

fn data(spec: &NetSpec, count: usize, seed: u64) -> Examples {
    let data = match spec.output_width() {
        1 => Sine { steps: 23, ..Sine::new(1.5, 3) }.examples(count, seed, SinePart::Train),
        symbols => Reversal { steps: 20, symbols }.examples(count, seed),
    };
    data.expect("examples")
}

fn distance(a: &[f32], b: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let apart: f64 = a.iter().zip(b).map(|(a, b)| square(f64::from(a - b))).sum();
    (apart / b.iter().map(|b| square(f64::from(*b))).sum::<f64>()).sqrt()
}

/// After the first step Adam's mean is a tenth of the gradient.
#[test]
fn gradients_equal_the_cpus() {
    let Some(device) = device() else { return };
    for (spec, batch) in shapes() {
        let data = data(&spec, batch, 2);
        let chosen: Vec<u32> = (0..batch as u32).rev().collect();
        let batches =
            Batches { epoch: 0, chosen: &chosen, batch, rate: 1e-3, clip: None, dropout: None };
        let mut ours = group(&device, &spec, 1).lane(9).expect("a lane");
        let mut theirs = Learner::new(&Cpu::new(1), &spec, AdamOptions::default(), 9);
        let found = ours.train(&data, &batches).expect("a step");
        let expected = theirs.train(&data, &batches).expect("a step");
        assert_eq!(found.loss.count, expected.loss.count);
        let [ours, theirs] = [ours.state(), theirs.state()].map(|state| state.expect("a state"));
        let parts = drnn::params::Layout::new(&spec);
        let mut ranges: Vec<_> =
            (0..spec.direction().count()).flat_map(|direction| parts.layer(0, direction)).collect();
        ranges.extend(parts.output().expect("an output layer"));
        for range in ranges {
            let far = distance(&ours.adam.mean[range.clone()], &theirs.adam.mean[range.clone()]);
            assert!(far < 1e-2, "{spec}: gradient of {range:?} {far:.1e} apart");
        }
        let far = (found.loss.mean() / expected.loss.mean() - 1.0).abs();
        assert!(far < 1e-3, "{spec}: loss {found:?}, CPU {expected:?}");
    }
}

/// Two epochs, the last batch of each short; then an evaluation.
fn train(lane: &mut CudaLane, data: &Examples, batch: usize) -> Result<(State, f64)> {
    let order: Vec<u32> = (0..Dataset::len(data) as u32).collect();
    for epoch in 0..2 {
        let clip = Some(0.5);
        lane.train(
            data,
            &Batches { epoch, chosen: &order, batch, rate: 1e-2, clip, dropout: None },
        )?;
    }
    let loss = lane.loss(data, 0, 500)?.mean();
    Ok((lane.state()?, loss))
}

#[test]
fn a_lane_computes_the_same_bits_alone_and_with_others() {
    let Some(device) = device() else { return };
    for (spec, batch) in shapes() {
        let sets: Vec<Examples> = (0..5).map(|seed| data(&spec, 3 * batch - 2, seed)).collect();
        let together = group(&device, &spec, 5);
        let with_others: Vec<(State, f64)> = std::thread::scope(|scope| {
            let train = |(seed, data)| {
                let mut lane = together.lane(seed).expect("a lane");
                scope.spawn(move || train(&mut lane, data, batch).expect("trained"))
            };
            let threads: Vec<_> = (0..).zip(&sets).map(train).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        for (seed, ((state, loss), data)) in (0..).zip(with_others.iter().zip(&sets)) {
            let mut lane = group(&device, &spec, 1).lane(seed).expect("a lane");
            let (alone, alone_loss) = train(&mut lane, data, batch).expect("trained");
            let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&state.params), bits(&alone.params), "{spec}, lane {seed}");
            assert_eq!(bits(&state.adam.square), bits(&alone.adam.square), "{spec}");
            assert_eq!((*loss, state.adam.steps), (alone_loss, alone.adam.steps));
        }
    }
}

#[test]
fn a_diverging_lane_does_not_affect_others() {
    let Some(device) = device() else { return };
    let spec = PaperNet::DLstm(5).spec(1, 1).expect("a network");
    let (data, batch) = (data(&spec, 60, 1), 20);
    let together = group(&device, &spec, 2);
    let (mut bad, mut good) =
        (together.lane(1).expect("a lane"), together.lane(2).expect("a lane"));
    assert!(together.lane(3).unwrap_err().to_string().contains("taken"));
    let mut away = bad.state().expect("a state");
    away.params.iter_mut().for_each(|p| *p = 3e38);
    bad.set_state(away.clone()).expect("fits");
    let (data, away) = (&data, &away);
    std::thread::scope(|scope| {
        let order: Vec<u32> = (0..60).collect();
        scope.spawn(move || {
            let batches =
                Batches { epoch: 0, chosen: &order, batch, rate: 1e-2, clip: None, dropout: None };
            assert!(!bad.train(data, &batches).expect("no error").norms.is_finite());
            assert_eq!(bad.state().expect("a state").params, away.params);
        });
        scope.spawn(move || {
            let (state, loss) = train(&mut good, data, batch).expect("trained");
            assert!(loss.is_finite() && state.adam.steps == 6);
        });
    });
    assert!(together.lane(3).is_ok()); // both have left
}

/// Sequences that are not in memory.
struct Drawn(Examples);

impl Dataset for Drawn {
    fn len(&self) -> usize {
        Dataset::len(&self.0)
    }

    fn fits(&self, spec: &NetSpec) -> Result<()> {
        self.0.fits(spec)
    }

    fn gather(&self, epoch: usize, chosen: &[u32], to: &mut Gathered) {
        self.0.gather(epoch, chosen, to);
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn dense(examples: &Examples) -> &[f32] {
    let Inputs::Dense(x) = examples.inputs() else { panic!("vectors") };
    x
}

/// Distance in units in the last place; +0 and -0 are equal.
fn units_apart(a: f32, b: f32) -> u64 {
    let place = |value: f32| {
        let size = i64::from(value.to_bits() & 0x7fff_ffff);
        if value.is_sign_negative() { -size } else { size }
    };
    place(a).abs_diff(place(b))
}

/// Sizes of the paper; filters that look ahead entirely or not at all, or are longer than the
/// sequences; sines of large numbers.
#[test]
fn sequences_generated_on_the_gpu_equal_the_hosts() {
    let Some(device) = device() else { return };
    let spec = PaperNet::Lstm.spec(1, 1).expect("a network");
    let mut lane = group(&device, &spec, 1).lane(1).expect("a lane");
    let (mut values, mut different) = (0, 0);
    for (task, count) in [
        (Sine::new(0.5, 5), 10_000),
        (Sine::new(5.0, 0), 2000),
        (Sine::new(1.0, 20), 2000),
        (Sine { gamma: 1e6, ahead: 3, steps: 7, taps: 9 }, 1001),
        (Sine { gamma: 0.7, ahead: 0, steps: 1, taps: 1 }, 1),
    ] {
        for part in [SinePart::Train, SinePart::Valid, SinePart::Test] {
            let made = lane
                .device_copy(&task.generated(count, 3, part).expect("sequences"))
                .expect("made");
            let host = task.examples(count, 3, part).expect("sequences");
            assert_eq!(made.steps(), host.steps());
            assert_eq!(bits(dense(&made)), bits(dense(&host)), "{task:?}");
            let (TargetData::Values(made), TargetData::Values(host)) =
                (made.targets(), host.targets())
            else {
                panic!("values")
            };
            assert_eq!(made.len(), host.len());
            let apart: Vec<u64> =
                made.iter().zip(host).map(|(made, host)| units_apart(*made, *host)).collect();
            assert!(apart.iter().all(|apart| *apart <= 1), "{task:?}: {:?}", apart.iter().max());
            values += apart.len();
            different += apart.iter().filter(|apart| **apart > 0).count();
        }
    }
    assert!(different * 10_000 < values, "{different} of {values} sines differ");
    for (task, count) in [
        (Reversal::default(), 10_000),
        (Reversal { steps: 7, symbols: 3 }, 333),
        (Reversal { steps: 1, symbols: 1 }, 1),
    ] {
        let lstm = NetSpec::builder(Cell::Lstm).dense(task.symbols).units([9]);
        let spec = lstm.outputs(task.symbols).build().expect("a network");
        let mut lane = group(&device, &spec, 1).lane(1).expect("a lane");
        let made = lane.device_copy(&task.generated(count, 5).expect("sequences")).expect("made");
        let host = task.examples(count, 5).expect("sequences");
        assert_eq!(bits(dense(&made)), bits(dense(&host)), "{task:?}");
        assert_eq!(made.targets(), host.targets(), "{task:?}");
    }
}

/// Sequences that must not be generated on the host.
struct Unseen(Generated);

impl Dataset for Unseen {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn fits(&self, spec: &NetSpec) -> Result<()> {
        self.0.fits(spec)
    }

    fn recipe(&self) -> Option<&Recipe> {
        self.0.recipe()
    }

    fn gather(&self, _: usize, _: &[u32], _: &mut Gathered) {
        panic!("made on the host");
    }
}

/// Training and validation losses of all epochs, then the test loss.
fn losses(lane: CudaLane, [train, valid, test]: [&(dyn Dataset + 'static); 3]) -> Vec<f64> {
    let options = Options { epochs: 4, batch: 30, rate: 1e-2, ..Options::default() };
    let mut trainer = Trainer::with_engine(lane, options, "losses", train, valid).expect("fits");
    while !matches!(trainer.advance().expect("steps"), drnn_train::Advance::Ended(_)) {}
    let test = trainer.engine().loss(test, 0, 500).expect("a loss").mean();
    let epochs = trainer.progress().history.iter();
    epochs.flat_map(|epoch| [epoch.train_loss, epoch.valid_loss]).chain([test]).collect()
}

#[test]
fn a_lane_trains_alike_on_generated_and_copied_data() {
    let Some(device) = device() else { return };
    let sine = |count, part| Sine::new(1.5, 3).generated(count, 4, part).expect("sequences");
    let reversal = |count, seed| Reversal::default().generated(count, seed).expect("sequences");
    for (net, width, sets) in [
        (
            PaperNet::DLstm(5),
            1,
            [sine(200, SinePart::Train), sine(50, SinePart::Valid), sine(70, SinePart::Test)],
        ),
        (PaperNet::BiLstm, 4, [reversal(200, 1), reversal(50, 2), reversal(70, 3)]),
    ] {
        let spec = net.spec(width, width).expect("a network");
        let lane = || group(&device, &spec, 1).lane(6).expect("a lane");
        let unseen = sets.map(Unseen);
        let found = losses(lane(), unseen.each_ref().map(|data| data as _));
        // Data generated on the GPU and copied there: the same bits.
        let mut reader = lane();
        let copies = unseen.each_ref().map(|data| reader.device_copy(data).expect("a copy"));
        assert_eq!(losses(lane(), copies.each_ref().map(|data| data as _)), found, "{spec}");
        // Data generated on the host, whose sines may differ in the last place.
        let host = unseen.each_ref().map(|data| data.recipe().expect("one").examples());
        let host = host.map(|examples| examples.expect("sequences"));
        let expected = losses(lane(), host.each_ref().map(|data| data as _));
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found / expected - 1.0).abs() < 1e-4, "{spec}: {found}, copied {expected}");
        }
        // Outputs are passed with the host's targets.
        let (made, mut lane) =
            (Generated::new(*unseen[1].recipe().expect("one")).expect("fits"), lane());
        let mut shown = 0;
        let looked = lane.evaluate(&made, 0, 20, &mut |y, _| shown += y.len()).expect("answers");
        assert_eq!(looked, lane.loss(&unseen[1], 0, 20).expect("a loss"));
        assert_eq!(shown, looked.count * width);
    }
}

#[test]
fn unsupported_data_and_networks_are_refused() {
    let Some(device) = device() else { return };
    let spec = PaperNet::Lstm.spec(1, 1).expect("a network");
    let lane = group(&device, &spec, 1).lane(1).expect("a lane");
    let drawn = Drawn(data(&spec, 5, 1));
    assert!(lane.check(&drawn).unwrap_err().to_string().contains("in memory"));
    let four = Reversal::default().generated(5, 1).expect("sequences");
    assert!(lane.check(&four).unwrap_err().to_string().contains("does not fit"));
    let gru =
        NetSpec::builder(Cell::Gru).dense(1).units([9]).outputs(1).build().expect("a network");
    assert!(CudaGroup::new(&device, &gru, AdamOptions::default(), 2).is_err());
}
