//! The recorder accepts all work of the paper's taggers; and what a GPU cannot train is refused.

use super::executed::cases::{Bank, SMALL, pairs};
use super::*;
use crate::recorded::{ampere, batches, hopper};
use drnn::{Cell, Dropout, NetSpec};
use drnn_train::PaperNet::{DLstm, Lstm};
use drnn_train::tagger::Sizes;

fn tagger(device: &Device, precision: Precision, net: &TaggerNet) -> CudaTagger {
    let adam = AdamOptions::default();
    CudaTagger::new(device, precision, net.clone(), adam, 1).expect("an engine")
}

/// Batches of 32 and a smaller last one, then an evaluation.
#[test]
fn the_papers_sizes_in_every_precision() {
    let bank = Bank::new(80, 30, 1);
    for (device, precision) in [
        (hopper(), Precision::F16),
        (hopper(), Precision::F32),
        (ampere(), Precision::F16),
        (ampere(), Precision::Tf32),
    ] {
        for pair in pairs() {
            let net = bank.net(&Sizes::default(), pair, false);
            let parts = [&bank.data, &bank.data];
            let estimate = CudaTagger::estimate(&device, precision, &net, &parts, 32);
            let mut tagger = tagger(&device, precision, &net);
            tagger.train(&bank.data, &batches(&bank.all(), 32)).expect("steps");
            tagger.loss(&bank.data, 0, 500).expect("an evaluation");
            let (estimate, taken) = (estimate.expect("an estimate"), tagger.memory());
            assert!((taken..6 * taken).contains(&estimate), "{estimate} estimated, {taken} taken");
        }
    }
}

/// A step is launched kernel by kernel, so the number of launches bounds its speed.
#[test]
fn a_step_has_few_launches() {
    let bank = Bank::new(64, 20, 2);
    let device = hopper();
    let net = bank.net(&Sizes::default(), [DLstm(1); 2], false);
    let mut tagger = tagger(&device, Precision::F16, &net);
    let all = bank.all();
    let mut step = |chosen: &[u32]| {
        device.recorder().discard();
        tagger.train(&bank.data, &batches(chosen, 32)).expect("a step");
        device.recorder().discard()
    };
    step(&all[..32]);
    let launches = step(&all[32..]);
    assert!(launches <= 80, "{launches} launches, copies and waits in a step");
}

#[test]
fn what_a_gpu_cannot_train_is_refused_by_name() {
    let (bank, device) = (Bank::new(5, 4, 3), hopper());
    let net = bank.net(&SMALL, [Lstm; 2], false);
    let refused = |why: String, option: &str| {
        assert!(why.contains(option) && why.contains("--device cpu"), "{why}");
    };
    let decay = AdamOptions { weight_decay: 0.01, ..AdamOptions::default() };
    let of = |net: TaggerNet, adam| CudaTagger::new(&device, Precision::F32, net, adam, 1);
    refused(of(net.clone(), decay).unwrap_err().to_string(), "--weight-decay");
    let mut plain = tagger(&device, Precision::F32, &net);
    let mut state = plain.state().unwrap();
    state.adam = drnn_train::Adam::new(decay, state.params.len());
    refused(plain.set_state(state).unwrap_err().to_string(), "--weight-decay");
    let dropout = Some(Dropout::new(0.5, 1).unwrap());
    let dropped = Batches { dropout, ..batches(&[0, 1], 2) };
    refused(plain.train(&bank.data, &dropped).unwrap_err().to_string(), "--dropout");

    let symbols = bank.vocabulary.symbols();
    let uneven = NetSpec::builder(Cell::Lstm).tokens(symbols, 3).units([5, 6]).build().unwrap();
    let uneven = TaggerNet::of(&bank.vocabulary, uneven, net.words.clone(), None).unwrap();
    refused(of(uneven, AdamOptions::default()).unwrap_err().to_string(), "5 + 6 units");
}

/// Kernels do not check indices, so sentences of another vocabulary are refused.
#[test]
fn data_that_do_not_fit_are_refused() {
    let (bank, device) = (Bank::new(3, 2, 4), hopper());
    let net = bank.net(&SMALL, [Lstm; 2], false);
    let mut tagger = tagger(&device, Precision::F32, &net);
    assert!(tagger.check(&Sentences::new()).unwrap_err().to_string().contains("no words"));
    let other = Bank::new(60, 12, 5);
    let error = tagger.train(&other.data, &batches(&other.all(), 60)).unwrap_err().to_string();
    assert!(error.contains("other data than its vocabulary's"), "{error}");
    tagger.train(&bank.data, &batches(&bank.all(), 2)).expect("goes on");
}

/// Kernels count outputs, and 32 threads for each, with 32 bits.
#[test]
fn batches_with_more_outputs_than_indices_are_refused() {
    let (bank, device) = (Bank::new(3, 2, 4), hopper());
    let net = bank.net(&SMALL, [Lstm; 2], false);
    let words = Network::new(&net.words, 0).expect("a network");
    let plan = |steps| words.plan_for(&device, Precision::F32, [steps, 2], true);
    assert!(plan((1 << 25) - 1).is_ok());
    assert!(plan(1 << 25).unwrap_err().to_string().contains("take smaller batches"));
}
