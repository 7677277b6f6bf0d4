//! Dropout, weight decay and class weights: trainings with them resume to the bit, and without them
//! nothing changes.

use drnn::{Cell, Cpu, NetSpec};
use drnn_train::reversal::Reversal;
use drnn_train::{
    AdamOptions, Advance, Batches, Dataset, Engine, Examples, Gathered, Learner, Options, Result,
    Resumed, Trainer,
};

/// Data with class weights.
struct Weighted(Examples, Vec<f32>);

impl Dataset for Weighted {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn fits(&self, spec: &NetSpec) -> Result<()> {
        self.0.fits(spec)
    }

    fn class_weights(&self) -> Option<&[f32]> {
        Some(&self.1)
    }

    fn gather(&self, epoch: usize, chosen: &[u32], to: &mut Gathered) {
        self.0.gather(epoch, chosen, to);
    }
}

fn spec() -> NetSpec {
    let builder = NetSpec::builder(Cell::Lstm).dense(3).units([12, 8]).outputs(3);
    builder.bidirectional().build().unwrap()
}

fn data() -> [Weighted; 2] {
    let task = Reversal { steps: 6, symbols: 3 };
    [(250, 1), (60, 2)]
        .map(|(count, seed)| Weighted(task.examples(count, seed).unwrap(), vec![0.5, 3.0, 1.0]))
}

fn options() -> Options {
    let adam = AdamOptions { weight_decay: 0.1, ..AdamOptions::default() };
    Options { epochs: 3, batch: 40, rate: 1e-2, dropout: 0.3, adam, ..Options::default() }
}

fn params(trainer: &mut Trainer) -> Vec<u32> {
    trainer.engine().state().unwrap().params.iter().map(|x| x.to_bits()).collect()
}

fn trained(options: Options, train: &(dyn Dataset + 'static), threads: usize) -> Vec<u32> {
    let [_, valid] = data();
    let cpu = Cpu::new(threads);
    let mut trainer = Trainer::new(&cpu, &spec(), options, "test", train, &valid).unwrap();
    while !matches!(trainer.advance().unwrap(), Advance::Ended(_)) {}
    params(&mut trainer)
}

#[test]
fn resumed_on_other_threads_to_the_bit() {
    let [train, valid] = data();
    let straight = trained(options(), &train, 1);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("checkpoint");
    let new = |threads: usize| {
        Trainer::new(&Cpu::new(threads), &spec(), options(), "test", &train, &valid).unwrap()
    };
    new(1).save(&path).unwrap();
    for round in 0.. {
        let mut trainer = new(1 + round % 3);
        assert_eq!(trainer.resume(&path).unwrap(), Resumed::Newest);
        if matches!(trainer.advance().unwrap(), Advance::Ended(_)) {
            assert!(params(&mut trainer) == straight);
            break;
        }
        trainer.save(&path).unwrap();
    }
    // A checkpoint is of these options.
    let others = [
        Options { dropout: 0.2, ..options() },
        Options { dropout: 0.0, ..options() },
        Options { adam: AdamOptions::default(), ..options() },
    ];
    for other in others {
        let cpu = Cpu::new(1);
        let mut trainer = Trainer::new(&cpu, &spec(), other, "test", &train, &valid).unwrap();
        let error = trainer.resume(&path).unwrap_err().to_string();
        assert!(error.contains("of another training"), "{error}");
    }
}

#[test]
fn each_of_them_changes_a_training_and_its_absence_nothing() {
    let [train, _] = data();
    let plain = Options { dropout: 0.0, adam: AdamOptions::default(), ..options() };
    let unweighted = trained(plain, &train.0, 2);
    assert!(unweighted != trained(plain, &train, 2));
    assert!(unweighted != trained(Options { dropout: 0.3, ..plain }, &train.0, 2));
    assert!(unweighted != trained(Options { adam: options().adam, ..plain }, &train.0, 2));
    let equal = Weighted(train.0.clone(), vec![2.0; 3]);
    let bits = |x: &[u32]| x.iter().map(|x| f32::from_bits(*x)).collect::<Vec<_>>();
    for (a, b) in bits(&unweighted).iter().zip(bits(&trained(plain, &equal, 2))) {
        assert!((a - b).abs() < 1e-3, "{a} {b}");
    }
    // What checkpoints of earlier versions say of their options.
    let text = serde_json::to_string(&plain).unwrap();
    assert!(!text.contains("dropout") && !text.contains("decay"), "{text}");
    assert_eq!(serde_json::from_str::<Options>(&text).unwrap(), plain);
}

#[test]
fn evaluation_has_no_dropout_and_no_weights() {
    let [train, valid] = data();
    let mut learner = Learner::new(&Cpu::new(2), &spec(), options().adam, 1);
    let before = learner.loss(&valid, 0, 60).unwrap();
    assert_eq!(before, learner.loss(&valid.0, 0, 60).unwrap());
    let chosen: Vec<u32> = (0..40).collect();
    let dropout = Some(drnn::Dropout::new(0.5, 1).unwrap());
    let batches = Batches { epoch: 0, chosen: &chosen, batch: 40, rate: 0.0, clip: None, dropout };
    let dropped = learner.train(&train, &batches).unwrap().loss;
    assert_eq!(before, learner.loss(&valid, 0, 60).unwrap());
    let plain = learner.train(&train, &Batches { dropout: None, ..batches }).unwrap().loss;
    assert!(dropped.sum != plain.sum && dropped.count == plain.count);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let [train, valid] = data();
    let refused = |options: Options, train: &Weighted| {
        Trainer::new(&Cpu::new(1), &spec(), options, "test", train, &valid)
            .err()
            .unwrap()
            .to_string()
    };
    assert!(refused(Options { dropout: 1.0, ..options() }, &train).contains("dropout of 1"));
    assert!(refused(Options { dropout: -0.5, ..options() }, &train).contains("dropout of -0.5"));
    for weight_decay in [-1.0, f32::NAN, 200.0] {
        let adam = AdamOptions { weight_decay, ..AdamOptions::default() };
        let error = refused(Options { adam, ..options() }, &train);
        assert!(error.contains("weight decay"), "{error}");
    }
    let short = Weighted(train.0.clone(), vec![1.0; 2]);
    assert!(refused(options(), &short).contains("2 classes for 3 outputs"));
}
