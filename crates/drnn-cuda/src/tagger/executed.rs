//! Whole steps of taggers executed on the CPU, compared with the CPU's engine: host code and kernels
//! together. Needs a C++ compiler with `_Float16`.

use super::*;
use crate::recorded::executing;
use cases::{
    AnyTagger, Bank, SMALL, Tolerance, curve, evaluation, extremes, gradient, pairs, state,
};
use drnn::{Cell, NetSpec, Padding};
use drnn_train::PaperNet::{BiLstm, DLstm, Lstm};

#[path = "../../tests/tagger/cases.rs"]
pub(super) mod cases;

/// f32 on both sides: other orders of sums.
const TOLERANCE: f64 = 2e-5;
/// After some steps of Adam.
const OF_STEPS: Tolerance = Tolerance { losses: 2e-5, way: 1e-3 };

fn make(device: &Device, precision: Precision) -> impl Fn(&TaggerNet, u64) -> AnyTagger {
    let device = device.clone();
    move |net, seed| {
        let tagger = CudaTagger::new(&device, precision, net.clone(), AdamOptions::default(), seed);
        Box::new(tagger.expect("an engine"))
    }
}

/// A bidirectional stack of LSTMs over characters, a delayed stack of GRUs over words.
fn stacks(bank: &Bank) -> TaggerNet {
    let (symbols, tags) = (bank.vocabulary.symbols(), bank.vocabulary.tags().len());
    let chars = NetSpec::builder(Cell::Lstm).tokens(symbols, 3).units([4; 2]).bidirectional();
    let words = NetSpec::builder(Cell::Gru).dense(8 + 3).units([6; 2]).outputs(tags);
    let words = words.delay(2, Padding::LookAhead);
    let [chars, words] = [chars, words].map(|net| net.build().expect("a network"));
    TaggerNet::of(&bank.vocabulary, chars, words, None).expect("fits")
}

#[test]
fn gradients_of_every_pair_equal_the_cpus() {
    let Some(device) = executing() else { return };
    let bank = Bank::new(5, 6, 1);
    for pair in pairs() {
        for frozen in [false, true] {
            let net = bank.net(&SMALL, pair, frozen);
            gradient(&make(&device, Precision::F32), &bank, &net, TOLERANCE);
        }
    }
}

#[test]
fn steps_of_every_pair_equal_the_cpus() {
    let Some(device) = executing() else { return };
    let bank = Bank::new(7, 6, 2);
    for pair in pairs() {
        let net = bank.net(&SMALL, pair, false);
        curve(&make(&device, Precision::F32), &bank, &net, 3, OF_STEPS);
    }
}

#[test]
fn evaluations_equal_the_cpus() {
    let Some(device) = executing() else { return };
    let bank = Bank::new(7, 6, 3);
    for (pair, frozen) in [([BiLstm, DLstm(2)], true), ([DLstm(1), BiLstm], false)] {
        let net = bank.net(&SMALL, pair, frozen);
        evaluation(&make(&device, Precision::F32), &bank, &net, TOLERANCE);
    }
}

#[test]
fn states_continue_to_the_bit() {
    let Some(device) = executing() else { return };
    let bank = Bank::new(9, 5, 4);
    let net = bank.net(&SMALL, [DLstm(1), DLstm(1)], false);
    state(&make(&device, Precision::F32), &bank, &net, OF_STEPS);
}

#[test]
fn sentences_without_words_and_parameters_that_run_away() {
    let Some(device) = executing() else { return };
    let bank = Bank::new(5, 4, 5);
    let net = bank.net(&SMALL, [Lstm, BiLstm], false);
    extremes(&make(&device, Precision::F32), &bank, &net);
}

/// Persistent kernels, with factors in f16.
#[test]
fn gradients_in_f16_are_close_to_the_cpus() {
    let Some(device) = executing() else { return };
    let bank = Bank::new(4, 4, 6);
    for pair in [[DLstm(1), DLstm(1)], [BiLstm, BiLstm]] {
        let net = bank.net(&SMALL, pair, false);
        for network in [&net.chars, &net.words] {
            let network = Network::new(network, 0).expect("kernels");
            let planned = network.plan_for(&device, Precision::F16, [4, 3], true);
            assert_eq!(planned.expect("a plan").way(), crate::Way::Persistent);
        }
        gradient(&make(&device, Precision::F16), &bank, &net, 2e-2);
    }
}

/// Stacks, of which only the last layer's states are encodings, and another cell.
#[test]
fn gradients_of_stacks_equal_the_cpus() {
    let Some(device) = executing() else { return };
    let bank = Bank::new(4, 5, 8);
    for precision in [Precision::F32, Precision::F16] {
        let tolerance = if precision == Precision::F32 { TOLERANCE } else { 2e-2 };
        gradient(&make(&device, precision), &bank, &stacks(&bank), tolerance);
    }
}

/// The weights of tags are those of the CPU.
#[test]
fn tags_have_weights() {
    let Some(device) = executing() else { return };
    let Bank { vocabulary, data } = Bank::new(5, 6, 7);
    let weights = (0..vocabulary.tags().len()).map(|i| 0.5 + i as f32).collect();
    let bank = Bank { data: data.with_tag_weights(weights), vocabulary };
    let net = bank.net(&SMALL, [DLstm(1), DLstm(2)], false);
    gradient(&make(&device, Precision::F32), &bank, &net, TOLERANCE);
}
