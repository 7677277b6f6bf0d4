//! Masked characters: trainings that go on to the bit, and bits counted by hand.

use drnn::{Batch, Cell, Cpu, NetSpec, Padding, Rows, Steps};
use drnn_tasks::chars::Alphabet;
use drnn_train::chars::{Masked, Masking};
use drnn_train::read::{self, Symbols};
use drnn_train::{
    Advance, Dataset, Engine, Gathered, Inputs, Learner, Metric, Options, Resumed, TargetData,
    Trainer,
};
use std::sync::Arc;

const MASK: u32 = 4;

/// Letters that follow from those around them: a b c d a b c d ..
fn text(window: usize) -> [Masked; 2] {
    let alphabet = Alphabet::new("abcd".chars().collect()).unwrap();
    let bytes = "abcd".repeat(1000).into_bytes();
    let source = read::Source::from_bytes("text", bytes).unwrap();
    let symbols = Arc::new(Symbols::read(source, &alphabet).unwrap());
    let part = |range, seed| {
        let masking = Masking { window, share: 0.2, mask: MASK, seed };
        Masked::new("text", symbols.clone(), range, masking).unwrap()
    };
    [part(0..3000, 1), part(3000..4000, 2)]
}

fn spec(delay: usize) -> NetSpec {
    let builder = NetSpec::builder(Cell::Lstm).tokens(5, 3).units([9]).outputs(4);
    builder.delay(delay, Padding::LookAhead).build().unwrap()
}

#[test]
fn resumed_training_is_straight_training_to_the_bit() {
    let [train, valid] = text(31);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let both_ways = NetSpec::builder(Cell::Lstm).tokens(5, 3).units([6]).outputs(4).bidirectional();
    for spec in [spec(3), both_ways.build().unwrap()] {
        let options = Options { epochs: 3, batch: 20, rate: 1e-2, ..Options::default() };
        let new = |threads| {
            Trainer::new(&Cpu::new(threads), &spec, options, "test", &train, &valid).unwrap()
        };
        let mut straight = new(1);
        while !matches!(straight.advance().unwrap(), Advance::Ended(_)) {}
        new(1).save(&path).unwrap();
        for batch in 0.. {
            let mut trainer = new(1 + batch % 2);
            assert_eq!(trainer.resume(&path).unwrap(), Resumed::Newest);
            if matches!(trainer.advance().unwrap(), Advance::Ended(_)) {
                assert_eq!(batch, 3 * 5); // 96 windows in batches of 20
                assert!(trainer.engine().state().unwrap() == straight.engine().state().unwrap());
                assert_eq!(trainer.progress().history, straight.progress().history);
                break;
            }
            trainer.save(&path).unwrap();
        }
    }
}

/// All answers of the model, and of them those at the masks, one after the other.
#[test]
fn bits_are_those_of_the_masked_characters() {
    let [_, valid] = text(37);
    for delay in [0, 5] {
        let mut learner = Learner::new(&Cpu::new(1), &spec(delay), Default::default(), 3);
        let found = learner.loss(&valid, 2, 10).unwrap();
        let model = learner.model().unwrap();
        let (mut bits, mut count) = (0.0, 0);
        for window in 0..valid.len() as u32 {
            let mut batch = Gathered { look_ahead: delay, ..Gathered::default() };
            valid.gather(2, &[window], &mut batch);
            let (Inputs::Tokens(tokens), TargetData::Classes(truth)) =
                (&batch.inputs, &batch.targets)
            else {
                panic!()
            };
            let masks = tokens[..37].iter().filter(|token| **token == MASK).count();
            assert_eq!((batch.selected.as_ref().unwrap().len(), truth.len()), (masks, masks));
            let answers =
                model.run(&Batch::tokens(tokens, Steps(37 + delay), Rows(1)), None).unwrap();
            for (&slot, &class) in batch.selected.iter().flatten().zip(truth) {
                let y = answers.at(slot as usize, 0);
                let total: f64 = y.iter().map(|y| f64::from(*y).exp()).sum();
                bits -= (f64::from(y[class as usize]).exp() / total).log2();
                count += 1;
            }
        }
        assert_eq!(found.count, count);
        assert!((Metric::Bits.of(&found) - bits / f64::from(count as u32)).abs() < 1e-5);
    }
}

#[test]
fn what_follows_helps() {
    let [train, valid] = text(50);
    let after = |delay| {
        let options = Options { epochs: 30, batch: 10, rate: 2e-2, ..Options::default() };
        let mut trainer =
            Trainer::new(&Cpu::new(2), &spec(delay), options, "test", &train, &valid).unwrap();
        while !matches!(trainer.advance().unwrap(), Advance::Ended(_)) {}
        trainer.progress().history.last().unwrap().valid_loss
    };
    // Where a window begins with a mask, only what follows determines which letter it is.
    let (at_once, late) = (after(0), after(2));
    assert!(late < 0.5 * at_once, "{late} {at_once}");
}
