//! The recorder accepts all work of every network: training steps, and forward alone.

use super::{Zeros, ampere, batches, hopper};
use crate::estimate::estimate;
use crate::group::{CudaGroup, CudaLane};
use crate::learner::CudaLearner;
use crate::persistent::{DeviceLimits, ForcedTiling, Kind, Kinds};
use crate::runtime::device::Device;
use crate::runtime::gemm::Precision;
use crate::step::pass::Until;
use drnn::memory::BatchSize;
use drnn::{Cell, NetSpec, Padding};
use drnn_train::reversal::Reversal;
use drnn_train::sine::{Sine, SinePart};
use drnn_train::{AdamOptions, Dataset, Engine, Examples, Inputs, TargetData};

/// The networks for masked characters: 28 symbols, 27 outputs.
fn characters() -> Vec<NetSpec> {
    let net = || NetSpec::builder(Cell::Lstm).tokens(28, 10).outputs(27);
    let nets = [
        net().units([1024]).delay(8, Padding::Symbol(27)),
        net().units([512]).delay(8, Padding::LookAhead),
        net().units([594; 2]),
        net().units([343; 5]),
        net().units([722]).bidirectional(),
        net().units([363; 2]).bidirectional(),
        net().units([202; 5]).bidirectional(),
    ];
    nets.map(|net| net.build().expect("a network")).into()
}

/// The paper's small one, other cells, odd sizes, many symbols, no output layer.
fn others() -> Vec<NetSpec> {
    let small = NetSpec::builder(Cell::Lstm).dense(1).units([100]).outputs(1);
    let mut nets = vec![
        small.clone().delay(5, Padding::Null),
        small.bidirectional(),
        NetSpec::builder(Cell::Lstm).tokens(70, 3).units([150, 200]).outputs(5),
        NetSpec::builder(Cell::Lstm).tokens(70, 3).units([135]).bidirectional().outputs(5),
        NetSpec::builder(Cell::Lstm).dense(4).units([130, 363]).bidirectional().outputs(1),
        NetSpec::builder(Cell::Lstm).dense(4).units([1]).outputs(9),
        NetSpec::builder(Cell::Lstm).dense(4).units([102; 3]).bidirectional().outputs(9),
        NetSpec::builder(Cell::Lstm).dense(4).units([1536]).outputs(9),
    ];
    for cell in crate::step::plan::CELLS {
        nets.extend([
            NetSpec::builder(cell).tokens(28, 10).units([30, 20]).bidirectional().outputs(27),
            NetSpec::builder(cell).tokens(6, 3).units([33]).delay(12, Padding::Null).outputs(5),
            NetSpec::builder(cell).dense(4).units([7, 5]).bidirectional(),
            NetSpec::builder(cell).dense(3).units([5]).delay(1, Padding::LookAhead),
        ]);
    }
    nets.into_iter().map(|net| net.build().expect("a network")).collect()
}

/// Training steps on full batches and a smaller last one, then an evaluation: with sequences of
/// each of the lengths, for all outputs and for selected ones.
fn train(device: &Device, precision: Precision, spec: &NetSpec, rows: usize, lengths: &[usize]) {
    let learner = CudaLearner::new(device, precision, spec, AdamOptions::default(), 1);
    let mut learner = learner.expect("a learner");
    let ways =
        lengths.iter().flat_map(|&elements| [None, Some(5)].map(|one_of| (elements, one_of)));
    for (elements, one_of) in ways {
        let data = Zeros { spec: spec.clone(), sequences: 2 * rows + 1, elements, one_of };
        let all: Vec<u32> = (0..data.sequences as u32).collect();
        let what = || {
            let arch = device.arch();
            format!("{spec}, {precision:?}, {rows} x {elements}, one of {one_of:?} on {arch}")
        };
        let trained = learner.train(&data, &batches(&all, rows));
        trained.unwrap_or_else(|error| panic!("{}: {error}", what()));
        let looked = learner.evaluate(&data, 0, rows, &mut |_, _| ());
        looked.unwrap_or_else(|error| panic!("{}: {error}", what()));
        for until in [Until::States, Until::Outputs, Until::Step] {
            let timed = learner.device_seconds(&data, &all[..rows], until, 2);
            timed.unwrap_or_else(|error| panic!("{}: {error}", what()));
        }
        assert!(device.recorder().discard() > 0 || spec.output_steps(elements) == 0, "{}", what());
    }
}

/// What `drnn bench` does with a shape: parts of a step repeatedly, then training, with one learner on
/// data that lie on the device.
#[test]
fn shapes_are_measured_on_data_on_the_device() {
    for (cell, units) in [(Cell::Lstm, 64), (Cell::Lstm, 512), (Cell::Gru, 256), (Cell::Lstm, 2048)]
    {
        let (device, q, m, rows, steps) = (hopper(), 3, 2, 5, 7);
        let spec = NetSpec::builder(cell).dense(q).units([units]).outputs(m).build();
        let (spec, sequences) = (spec.expect("a network"), 4 * rows);
        let x = Inputs::Dense(vec![0.5; sequences * steps * q]);
        let y = TargetData::Values(vec![0.5; sequences * steps * m]);
        let data = Examples::new(x, y, [sequences, steps], [q, m]).expect("examples");
        CudaLearner::compile(&device, Precision::F16, &spec, rows).expect("compiled");
        let learner = CudaLearner::new(&device, Precision::F16, &spec, AdamOptions::default(), 1);
        let mut learner = learner.expect("a learner");
        let first: Vec<u32> = (0..rows as u32).collect();
        for until in [Until::States, Until::Outputs, Until::Step] {
            for times in [2, 10, 5] {
                let found = learner.device_seconds(&data, &first, until, times);
                assert_eq!(found.map(|found| found.len()), Ok(times), "{spec}, {until:?}");
            }
        }
        assert_eq!(device.copies(), 1);
        let chosen: Vec<u32> = (0..64 * rows as u32).map(|i| i * 7 % (sequences as u32)).collect();
        for _ in 0..2 {
            learner.train(&data, &batches(&chosen, rows)).expect("steps");
        }
        drop(learner);
        assert_eq!(device.copies(), 0);
        device.recorder().discard();
    }
}

/// Estimates of device memory, compared with what is allocated: at most 1 % below, at most 15 % and
/// 2 MB above.
#[test]
fn estimates_are_close_to_what_is_held() {
    for (device, precision) in [(hopper(), Precision::F16), (ampere(), Precision::F32)] {
        let free = device.free_memory().expect("a card");
        for spec in characters().iter().chain(&others()) {
            for (rows, elements) in [(1, 20), (7, 30), (128, 60)] {
                let size = BatchSize::new(elements, rows);
                let estimate = CudaLearner::estimate(&device, precision, spec, size);
                let estimate = estimate.expect("an estimate");
                let learner = CudaLearner::new(&device, precision, spec, AdamOptions::default(), 1);
                let mut learner = learner.expect("a learner");
                let data = Zeros { spec: spec.clone(), sequences: rows, elements, one_of: None };
                let all: Vec<u32> = (0..rows as u32).collect();
                learner.train(&data, &batches(&all, rows)).expect("a step");
                let held = free - device.free_memory().expect("a card");
                let (low, high) = (held - held / 100, held + held / 100 * 15 + 2_000_000);
                let what = format!("{spec}, {rows} x {elements} on {}", device.arch());
                assert!((low..=high).contains(&estimate), "{what}: {estimate}, held {held}");
                drop(learner);
                device.recorder().discard();
            }
        }
        assert_eq!(device.free_memory(), Ok(free));
    }
    let large = NetSpec::builder(Cell::Gru).dense(1).units([50_000; 3]).bidirectional().build();
    let too_many = estimate(&large.expect("a network"), BatchSize::new(usize::MAX, 1 << 20));
    assert!(too_many.unwrap_err().to_string().contains("smaller batches"));
}

fn every_way(specs: &[NetSpec], lengths: &[usize], batches: &[usize]) {
    for device in [hopper(), ampere()] {
        for precision in [Precision::F16, Precision::F32] {
            for spec in specs {
                for rows in batches {
                    train(&device, precision, spec, *rows, lengths);
                }
            }
        }
    }
}

#[test]
fn networks_of_characters() {
    every_way(&characters(), &[12, 20, 12], &[1, 7, 128, 300]);
}

/// Beyond 1024 units, and small batches of large layers: blocks of 16 units.
#[test]
fn blocks_of_16_units() {
    let net = |cell| NetSpec::builder(cell).tokens(28, 10).outputs(27);
    let dense = |cell| NetSpec::builder(cell).dense(3).outputs(5);
    let nets = [
        net(Cell::Lstm).units([1024]),
        net(Cell::Gru).units([300; 2]),
        net(Cell::Lstm).units([1100]),
        dense(Cell::Lstm).units([2048]),
        net(Cell::RnnTanh).units([1500; 2]),
        dense(Cell::Gru).units([1056]).bidirectional(),
    ];
    let specs = nets.map(|net| net.build().expect("a network"));
    for (spec, rows) in specs.iter().flat_map(|spec| [1, 16, 100].map(|rows| (spec, rows))) {
        train(&hopper(), Precision::F16, spec, rows, &[5]);
    }
}

/// Every size of block that can be given, on a stack, on both directions and on one layer.
#[test]
fn sizes_of_blocks_that_are_given() {
    let net = |units: &[usize]| NetSpec::builder(Cell::Lstm).dense(3).units(units.to_vec());
    let nets = [net(&[100, 100]), net(&[130, 140]).bidirectional(), net(&[200])];
    let specs = nets.map(|net| net.outputs(2).build().expect("a network"));
    for (units, rows) in [(32, 16), (32, 24), (32, 64), (16, 16), (16, 32), (16, 48), (16, 64)] {
        let forced =
            ForcedTiling { units: Some(units), rows: Some(rows), ..ForcedTiling::default() };
        let limits = DeviceLimits { forced, ..DeviceLimits::new(132, 227 << 10) };
        for spec in &specs {
            train(&Device::recorded((9, 0), limits), Precision::F16, spec, 33, &[4]);
        }
    }
    let forced = ForcedTiling { units: Some(16), rows: Some(24), ..ForcedTiling::default() };
    let limits = DeviceLimits { forced, ..DeviceLimits::new(132, 227 << 10) };
    let device = Device::recorded((9, 0), limits);
    let refused = CudaLearner::new(&device, Precision::F16, &specs[2], AdamOptions::default(), 1);
    let why = refused.expect_err("a refusal").to_string();
    assert!(why.starts_with("DRNN_TILING=units=16,rows=24: there are no such kernels"), "{why}");
}

/// Training with tables and products, both directions, layers that are not a stack in one launch.
#[test]
fn kinds_of_recurrences_that_are_given() {
    let net = |units: &[usize]| NetSpec::builder(Cell::Lstm).units(units.to_vec()).outputs(2);
    for (kinds, units) in [
        (Kinds::Only(Kind::SingleBlock), [100, 100]),
        (Kinds::Only(Kind::StepByStep), [100, 2100]),
        (Kinds::Any, [128, 2049]),
    ] {
        let forced = ForcedTiling { kinds, ..ForcedTiling::default() };
        let limits = DeviceLimits { forced, ..DeviceLimits::new(132, 227 << 10) };
        let device = Device::recorded((9, 0), limits);
        let one = net(&units[..1]);
        let nets = [net(&units).dense(3), one.clone().tokens(28, 10), one.tokens(9, 5)];
        for net in nets.into_iter().flat_map(|net| [net.clone(), net.bidirectional()]) {
            let spec = net.build().expect("a network");
            train(&device, Precision::F16, &spec, 33, &[4]);
        }
    }
    let forced = ForcedTiling { kinds: Kinds::Only(Kind::SingleBlock), ..ForcedTiling::default() };
    let limits = DeviceLimits { forced, ..DeviceLimits::new(132, 227 << 10) };
    let spec = net(&[129]).dense(3).build().expect("a network");
    let device = Device::recorded((9, 0), limits);
    let refused = CudaLearner::new(&device, Precision::F16, &spec, AdamOptions::default(), 1);
    let why = refused.expect_err("a refusal").to_string();
    assert!(why.starts_with("DRNN_TILING=kind=single-block: there are no such"), "{why}");
}

/// As long as the paper's windows.
#[test]
fn long_sequences_of_characters() {
    let specs = characters();
    for spec in [&specs[0], &specs[3], &specs[6]] {
        train(&hopper(), Precision::F16, spec, 128, &[180]);
    }
}

/// Sizes around those of tiles, batches that take several waves, and cards of all sizes.
#[test]
fn large_lstms_on_cards_with_few_multiprocessors() {
    for multiprocessors in [8, 17, 33, 66, 114] {
        let device = Device::recorded((9, 0), DeviceLimits::new(multiprocessors, 227 << 10));
        for units in [129, 160, 257, 500, 528, 1000] {
            let net = || NetSpec::builder(Cell::Lstm).dense(3).units([units, 140]).outputs(2);
            for net in [net(), net().bidirectional()] {
                let spec = net.build().expect("a network");
                for rows in [1, 65, 200] {
                    train(&device, Precision::F16, &spec, rows, &[2, 4]);
                }
            }
        }
    }
}

#[test]
fn other_networks() {
    every_way(&others(), &[9, 30, 9, 0], &[1, 7, 100]);
}

/// Steps of a lane, and a look.
fn train_lane(device: &Device, lane: &mut CudaLane, data: &(dyn Dataset + 'static), batch: usize) {
    let all: Vec<u32> = (0..data.len() as u32).collect();
    let what = format!("{}, batches of {batch}", lane.identity());
    let trained = lane.train(data, &batches(&all, batch));
    trained.unwrap_or_else(|error| panic!("{what}: {error}"));
    let looked = lane.evaluate(data, 0, batch, &mut |_, _| ());
    looked.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(device.recorder().discard() > 0);
}

/// Several lanes, one of which trains.
#[test]
fn groups() {
    let device = hopper();
    let net =
        |n: usize, q: usize, m: usize| NetSpec::builder(Cell::Lstm).dense(q).units([n]).outputs(m);
    let nets = [
        (net(100, 1, 1).delay(5, Padding::Null), 100),
        (net(70, 4, 4).bidirectional(), 50),
        (net(128, 8, 16), 100),
        (net(100, 1, 1), 225),
        (net(1, 1, 1), 1),
    ];
    for (net, batch) in nets {
        let spec = net.build().expect("a network");
        let (q, m) = (spec.input().width(), spec.output_width());
        let (count, steps) = (2 * batch + 1, 9);
        let group = CudaGroup::new(&device, &spec, AdamOptions::default(), 3).expect("a group");
        let mut lane = group.lane(1).expect("a lane");
        let inputs = || Inputs::Dense(vec![0.0; count * steps * q]);
        let values = TargetData::Values(vec![0.0; count * steps * m]);
        let classes = TargetData::Classes(vec![0; count * steps]);
        for answers in [values, classes] {
            let data = Examples::new(inputs(), answers, [count, steps], [q, m]).expect("data");
            train_lane(&device, &mut lane, &data, batch);
        }
        if [q, m] == [1, 1] {
            let data = Sine { steps, ..Sine::new(1.5, 3) }.generated(count, 1, SinePart::Train);
            train_lane(&device, &mut lane, &data.expect("data"), batch);
        } else if q == m {
            let data = Reversal { steps, symbols: m }.generated(count, 1).expect("data");
            train_lane(&device, &mut lane, &data, batch);
        }
    }
}
