//! Whatever call fails, and whenever power is lost: a good checkpoint is left, no older than the
//! last that was reported written, and the training goes on from it to the same bits.

use super::simulated::{Fault, SimulatedDisk};
use super::{previous, with_ending};
use crate::error::{Error, Result};
use crate::paper::reversal::Reversal;
use crate::{Advance, Engine, Examples, Options, Resumed, Trainer};
use drnn::random::Rng;
use drnn::{Cell, Cpu, NetSpec};
use std::io::ErrorKind;
use std::path::Path;

const FAULTS: [Fault; 7] = [
    Fault::Fails(ErrorKind::StorageFull),
    Fault::Fails(ErrorKind::Other), // EIO
    Fault::AllFail(ErrorKind::StorageFull),
    Fault::AllFail(ErrorKind::Other),
    Fault::Short,
    Fault::LostBefore,
    Fault::LostAfter,
];

/// What is on disk when the program starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    Nothing,
    LastOnly,
    Both,
    LastDamaged,
    PreviousOnly,
    PreviousDamaged,
}

const STARTS: [Start; 6] = [
    Start::Nothing,
    Start::LastOnly,
    Start::Both,
    Start::LastDamaged,
    Start::PreviousOnly,
    Start::PreviousDamaged,
];

fn path() -> &'static Path {
    Path::new("folder/last")
}

/// A small training.
struct Training {
    spec: NetSpec,
    train: Examples,
    valid: Examples,
}

impl Training {
    fn new() -> Training {
        let task = Reversal { steps: 3, symbols: 2 };
        let spec = NetSpec::builder(Cell::Lstm).dense(2).units([2]).outputs(2).build().unwrap();
        let [train, valid] = [8, 4].map(|count| task.examples(count, count as u64).unwrap());
        Training { spec, train, valid }
    }

    fn fit(&self) -> Trainer<'_> {
        let options = Options { epochs: 3, batch: 4, rate: 1e-2, ..Options::default() };
        Trainer::new(&Cpu::new(1), &self.spec, options, "test", &self.train, &self.valid).unwrap()
    }

    /// A disk as a training may find it, and how many batches its newest good checkpoint has.
    fn disk(&self, start: Start) -> (SimulatedDisk, usize) {
        let disk = SimulatedDisk::default();
        let saves = match start {
            Start::Nothing => 0,
            Start::LastOnly => 1,
            _ => 3,
        };
        let mut trainer = self.fit();
        for _ in 0..saves {
            trainer.advance().unwrap();
            trainer.save_to(&disk, path()).unwrap();
        }
        let damage = |name: &Path| {
            let mut contents = disk.files()[name].1.clone();
            contents[50] ^= 1;
            disk.set(name, Some(contents));
        };
        match start {
            Start::Nothing | Start::LastOnly | Start::Both => {}
            Start::LastDamaged => damage(path()),
            Start::PreviousOnly => disk.set(path(), None),
            Start::PreviousDamaged => damage(&previous(path())),
        }
        let lost = [Start::LastDamaged, Start::PreviousOnly].contains(&start);
        (disk, saves - usize::from(lost))
    }

    /// What the program does with `--resume`: it goes on to the end, writing a checkpoint after
    /// every batch. `safe` is how many batches are known to be on disk, and grows.
    fn go_on(&self, disk: &SimulatedDisk, safe: &mut usize) -> Result<Vec<u32>> {
        let mut trainer = self.fit();
        if trainer.resume_from(disk, path())? != Resumed::NoCheckpoint {
            *safe = batches(&trainer);
        }
        loop {
            trainer.save_to(disk, path())?;
            *safe = batches(&trainer);
            if let Advance::Ended(_) = trainer.advance()? {
                return Ok(bits(&mut trainer));
            }
        }
    }
}

fn batches(trainer: &Trainer) -> usize {
    trainer.progress().history.len() * trainer.batches_per_epoch() + trainer.progress().batches
}

/// Everything that matters of a training.
fn bits(trainer: &mut Trainer) -> Vec<u32> {
    let state = trainer.engine().state().unwrap();
    let losses = trainer.progress().history.iter().map(|epoch| epoch.valid_loss as f32);
    let values = state.params.into_iter().chain(state.adam.mean).chain(state.adam.square);
    values.chain(losses).map(f32::to_bits).collect()
}

#[test]
fn after_a_fault_at_any_call_a_training_goes_on_to_the_same_bits() {
    let training = Training::new();
    let straight = training.go_on(&SimulatedDisk::default(), &mut 0).unwrap();
    let (mut rng, mut runs) = (Rng::new(1), 0);
    for start in STARTS {
        let (disk, _) = training.disk(start);
        let before = disk.calls();
        training.go_on(&disk, &mut 0).unwrap();
        for (at, fault) in (0..disk.calls() - before).flat_map(|at| FAULTS.map(|fault| (at, fault)))
        {
            let (disk, mut safe) = training.disk(start);
            disk.inject(at, fault);
            let what = format!("{start:?}, {fault:?} at call {at}");
            let outcome = training.go_on(&disk, &mut safe);
            // A fault may do no harm: at what is read only to be on the safe side, for one.
            if let Ok(found) = outcome {
                assert!(found == straight && !disk.is_lost(), "{what}");
            }
            // Found as it is, and as a loss of power just after may leave it.
            let mut found = vec![disk.after_loss(&mut rng), disk.after_loss(&mut rng)];
            if !disk.is_lost() {
                disk.inject(usize::MAX, fault);
                found.push(disk);
            }
            for disk in found {
                check(&training, &disk, safe, &straight, &what);
                runs += 1;
            }
        }
    }
    assert!(runs > 4000, "{runs}");
    println!("{runs} runs");
}

/// A good checkpoint of at least `safe` batches is there, from which the training comes to its end.
fn check(training: &Training, disk: &SimulatedDisk, safe: usize, straight: &[u32], what: &str) {
    let mut trainer = training.fit();
    let resumed = trainer.resume_from(disk, path());
    let resumed = resumed.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(batches(&trainer) >= safe, "{what}: {} batches, {safe} were safe", batches(&trainer));
    let whole = disk.files().contains_key(path()) || safe == 0;
    assert!(whole || matches!(resumed, Resumed::Previous(_)), "{what}: {resumed:?}");
    assert!(training.go_on(disk, &mut 0).unwrap() == straight, "{what}");
    let files = disk.files();
    assert_ne!(files[path()].0, files[&previous(path())].0, "{what}: one file, two names");
    assert!(!files.contains_key(&with_ending(path(), ".new")), "{what}");
}

#[test]
fn a_damaged_checkpoint_never_takes_the_place_of_a_good_one() {
    let training = Training::new();
    let (disk, _) = training.disk(Start::LastDamaged);
    let good = disk.files()[&previous(path())].clone();
    let mut trainer = training.fit();
    let Resumed::Previous(note) = trainer.resume_from(&disk, path()).unwrap() else { panic!() };
    let expected = "folder/last: is damaged: it is cut short, or its checksum does not fit; \
        folder/last.previous is used instead, written after 1 epochs and 0 batches";
    assert_eq!(note, expected);
    trainer.advance().unwrap();
    trainer.save_to(&disk, path()).unwrap();
    assert_eq!(disk.files()[&previous(path())], good);
    assert_eq!(training.fit().resume_from(&disk, path()).unwrap(), Resumed::Newest);
}

#[test]
fn without_a_good_checkpoint_nothing_is_touched() {
    let training = Training::new();
    let damaged = Some(vec![1; 100]);
    for (newest, older) in [(&damaged, &damaged), (&None, &damaged), (&damaged, &None)] {
        let disk = SimulatedDisk::default();
        disk.set(path(), newest.clone());
        disk.set(&previous(path()), older.clone());
        let before = disk.files();
        let error = training.fit().resume_from(&disk, path()).unwrap_err();
        assert!(matches!(error, Error::NoGoodCheckpoint { .. }), "{error}");
        let said = error.to_string();
        assert!(said.contains("folder/last: is ") && said.contains("last.previous: is "), "{said}");
        assert!(said.contains("remove both files to start"), "{said}");
        assert_eq!(disk.files(), before);
    }
}

#[test]
fn a_write_that_fails_leaves_what_was_there() {
    let training = Training::new();
    for (start, at) in STARTS.into_iter().flat_map(|start| (0..9).map(move |at| (start, at))) {
        let (disk, _) = training.disk(start);
        let before = disk.files();
        let mut trainer = training.fit();
        disk.inject(at, Fault::Fails(ErrorKind::StorageFull));
        let written = trainer.save_to(&disk, path());
        let (found, what) = (disk.files(), format!("{start:?}, call {at}"));
        assert!(!found.contains_key(&with_ending(path(), ".new")), "{what}");
        // What is there is read, and an unfinished file removed; then one is made, written and
        // synced.
        if (1..5).contains(&at) {
            let said = written.unwrap_err().to_string();
            assert!(said.starts_with("folder/last: cannot be written: "), "{said}");
            assert_eq!(found, before, "{what}");
        }
    }
}
