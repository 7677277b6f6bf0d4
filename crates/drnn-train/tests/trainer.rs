//! Trainings end where they should, and go on from a checkpoint as if nothing had happened.

use drnn::{Cell, Cpu, NetSpec, Padding};
use drnn_train::lanes::{self, Control, Lane};
use drnn_train::reversal::Reversal;
use drnn_train::{
    Advance, Engine, Examples, Options, Reason, Resumed, Schedule, Stopping, Trainer,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(120);

fn data() -> (NetSpec, Examples, Examples) {
    let task = Reversal { steps: 6, symbols: 3 };
    let spec = NetSpec::builder(Cell::Lstm).dense(3).units([12]).outputs(3);
    let spec = spec.delay(5, Padding::Null).build().unwrap();
    (spec, task.examples(250, 1).unwrap(), task.examples(60, 2).unwrap())
}

fn options() -> Options {
    Options { epochs: 4, batch: 40, rate: 1e-2, seed: 3, ..Options::default() }
}

/// Everything that matters of a training.
fn state(trainer: &mut Trainer) -> (Vec<u32>, Vec<u32>, String) {
    let bits = |v: &[f32]| v.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let mut progress = trainer.progress().clone();
    progress.seconds = 0.0;
    let state = trainer.engine().state().unwrap();
    let adam = [state.adam.mean.as_slice(), &state.adam.square].concat();
    (bits(&state.params), bits(&adam), serde_json::to_string(&progress).unwrap())
}

#[test]
fn resumed_training_is_straight_training_to_the_bit() {
    let (spec, train, valid) = data();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let new = |threads: usize| {
        Trainer::new(&Cpu::new(threads), &spec, options(), "test", &train, &valid).unwrap()
    };
    let mut straight = new(1);
    while !matches!(straight.advance().unwrap(), Advance::Ended(_)) {}
    assert_eq!(straight.progress().ended, Some(Reason::Epochs));

    // Interrupted after every batch, on another number of threads each time.
    let mut batches = 0;
    new(1).save(&path).unwrap();
    loop {
        let mut trainer = new(1 + batches % 3);
        assert_eq!(trainer.resume(&path).unwrap(), Resumed::Newest);
        if matches!(trainer.advance().unwrap(), Advance::Ended(_)) {
            assert!(state(&mut trainer) == state(&mut straight));
            break;
        }
        trainer.save(&path).unwrap();
        batches += 1;
    }
    assert_eq!(batches, 4 * 7); // 250 sequences in batches of 40
}

#[test]
fn a_damaged_checkpoint_falls_back_to_the_one_before() {
    let (spec, train, valid) = data();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let cpu = Cpu::new(1);
    let new = || Trainer::new(&cpu, &spec, options(), "test", &train, &valid).unwrap();
    let mut trainer = new();
    trainer.advance().unwrap();
    trainer.save(&path).unwrap();
    let before = state(&mut trainer);
    trainer.advance().unwrap();
    trainer.save(&path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    for at in [0, 9, whole.len() / 2, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        std::fs::write(&path, &damaged).unwrap();
        let mut again = new();
        let Resumed::Previous(note) = again.resume(&path).unwrap() else { panic!("no note") };
        assert!(note.contains("checkpoint: is damaged"), "{note}");
        assert!(note.contains("checkpoint.previous is used instead"), "{note}");
        assert!(state(&mut again) == before);
    }
    std::fs::write(&path, &whole[..whole.len() / 3]).unwrap();
    assert!(matches!(new().resume(&path).unwrap(), Resumed::Previous(_)));

    // Of another training: refused, even where the previous one would be whole.
    let other = Options { seed: 4, ..options() };
    let mut other = Trainer::new(&cpu, &spec, other, "test", &train, &valid).unwrap();
    std::fs::write(&path, &whole).unwrap();
    let error = other.resume(&path).unwrap_err().to_string();
    assert!(
        error.contains("is of another training: --seed 4, but the checkpoint has 3"),
        "{error}"
    );
}

/// A finished training goes on to more epochs: with a constant rate it is the longer one.
#[test]
fn a_finished_training_goes_on_to_more_epochs() {
    let (spec, train, valid) = data();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let new = |options: Options| {
        Trainer::new(&Cpu::new(1), &spec, options, "test", &train, &valid).unwrap()
    };
    let end = |trainer: &mut Trainer| {
        while !matches!(trainer.advance().unwrap(), Advance::Ended(_)) {}
    };
    let longer = Options { epochs: 7, ..options() };
    let mut straight = new(longer);
    end(&mut straight);
    let mut first = new(options());
    end(&mut first);
    first.save(&path).unwrap();
    let mut goes_on = new(longer);
    assert_eq!(goes_on.resume(&path).unwrap(), Resumed::Newest);
    assert_eq!((goes_on.progress().history.len(), goes_on.progress().ended), (4, None));
    end(&mut goes_on);
    assert!(state(&mut goes_on) == state(&mut straight));

    // A cosine over seven epochs from then on: the rate rises again, and falls to zero.
    let cosine = |epochs| Options { epochs, schedule: Schedule::Cosine, ..options() };
    let mut first = new(cosine(4));
    end(&mut first);
    first.save(&path).unwrap();
    let mut goes_on = new(cosine(7));
    assert_eq!(goes_on.resume(&path).unwrap(), Resumed::Newest);
    assert_eq!(goes_on.rate(), Schedule::Cosine.rate(1e-2, 4, 7, &[]));
    assert!(goes_on.rate() > goes_on.progress().history[3].rate);

    // Less than is done already is refused.
    let error = new(cosine(3)).resume(&path).unwrap_err().to_string();
    assert!(error.contains("has 4 epochs already, more than --epochs 3"), "{error}");
}

#[test]
fn a_small_network_learns_to_reverse() {
    let (spec, train, valid) = data();
    let stopping = Stopping { at_value: Some(0.25), ..Stopping::default() };
    let options = Options { epochs: 400, rate: 2e-2, stopping, ..options() };
    let mut trainer = Trainer::new(&Cpu::new(2), &spec, options, "test", &train, &valid).unwrap();
    while !matches!(trainer.advance().unwrap(), Advance::Ended(_)) {}
    assert_eq!(
        trainer.progress().ended,
        Some(Reason::Value),
        "{:?}",
        trainer.progress().history.last()
    );
}

#[test]
fn a_loss_that_is_not_finite_ends_the_training_and_leaves_the_parameters() {
    let (spec, train, valid) = data();
    let options = Options { rate: f32::MAX, clip: None, epochs: 50, ..options() };
    let mut trainer = Trainer::new(&Cpu::new(1), &spec, options, "test", &train, &valid).unwrap();
    let reason = loop {
        match trainer.advance() {
            Ok(Advance::Ended(reason)) => break reason,
            Ok(_) => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(reason, Reason::NotFinite);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let (spec, train, valid) = data();
    let refused = |options: Options| {
        Trainer::new(&Cpu::new(1), &spec, options, "test", &train, &valid)
            .err()
            .unwrap()
            .to_string()
    };
    assert!(refused(Options { batch: 251, ..options() }).contains("251 sequences, of 250"));
    assert!(refused(Options { batch: 0, ..options() }).contains("batches of 0"));
    assert!(refused(Options { epochs: 0, ..options() }).contains("no epochs"));
    let wide = NetSpec::builder(Cell::Lstm).dense(4).units([5]).outputs(3).build().unwrap();
    let error = Trainer::new(&Cpu::new(1), &wide, options(), "test", &train, &valid).err().unwrap();
    assert!(error.to_string().contains("does not fit"), "{error}");
}

#[test]
fn lanes_are_trained_as_if_alone_and_stop_together() {
    let (spec, train, valid) = data();
    let new = |seed: u64| {
        let options = Options { seed, epochs: 2 + seed as usize, ..options() };
        Trainer::new(&Cpu::new(1), &spec, options, "test", &train, &valid).unwrap()
    };
    let alone: Vec<_> = (0..3)
        .map(|seed| {
            let mut trainer = new(seed);
            while !matches!(trainer.advance().unwrap(), Advance::Ended(_)) {}
            state(&mut trainer)
        })
        .collect();
    for threads in [1, 2, 5] {
        let mut lanes: Vec<Lane> =
            (0..3).map(|seed| Lane { trainer: new(seed), checkpoint: None }).collect();
        lanes::run(&Cpu::new(threads), &mut lanes, EVERY, &|_, _, _| Ok(Control::Continue))
            .unwrap();
        let found: Vec<_> = lanes.iter_mut().map(|lane| state(&mut lane.trainer)).collect();
        assert!(found == alone, "{threads} threads");
    }

    // Stopped in the middle, then continued from their checkpoints.
    let folder = tempfile::tempdir().unwrap();
    let path = |seed: u64| folder.path().join(format!("lane{seed}"));
    let lanes = || -> Vec<Lane> {
        (0..3).map(|seed| Lane { trainer: new(seed), checkpoint: Some(path(seed)) }).collect()
    };
    let batches = AtomicUsize::new(0);
    let stop = |_: usize, _: &mut Trainer, _: Advance| match batches.fetch_add(1, Ordering::Relaxed)
    {
        12 => Ok(Control::Stop),
        _ => Ok(Control::Continue),
    };
    lanes::run(&Cpu::new(2), &mut lanes(), EVERY, &stop).unwrap();
    let mut again = lanes();
    for (seed, lane) in again.iter_mut().enumerate() {
        assert_eq!(lane.trainer.resume(&path(seed as u64)).unwrap(), Resumed::Newest);
    }
    lanes::run(&Cpu::new(2), &mut again, EVERY, &|_, _, _| Ok(Control::Continue)).unwrap();
    let found: Vec<_> = again.iter_mut().map(|lane| state(&mut lane.trainer)).collect();
    assert!(found == alone);
    let nowhere = Some(folder.path().join("nowhere/lane"));
    let mut lane = [Lane { trainer: new(0), checkpoint: nowhere }];
    let error = lanes::run(&Cpu::new(2), &mut lane, EVERY, &stop).unwrap_err();
    assert!(error.to_string().contains("cannot be written: there is no folder"), "{error}");
}
