//! Taggers on two engines, compared: on a GPU, and executed on the CPU by the recorder.

use drnn::Cpu;
use drnn::random::Rng;
use drnn_tasks::tagger::{Limits, TaggerNet, Vocabulary};
use drnn_train::tagger::{Sentences, Sizes, TaggerLearner, with_special};
use drnn_train::{AdamOptions, Batches, Engine, PaperNet, State, Steps, Targets};

/// Any engine that trains taggers.
pub type AnyTagger = Box<dyn Engine<Data = Sentences>>;
/// Makes one, its parameters drawn from a seed.
pub type Make<'a> = &'a dyn Fn(&TaggerNet, u64) -> AnyTagger;

/// Small networks of several numbers of units.
pub const SMALL: Sizes =
    Sizes { symbol: 3, chars: 6, both_chars: 4, word: 3, words: 7, both_words: 5 };

/// What is trained on.
pub struct Bank {
    pub vocabulary: Vocabulary,
    pub data: Sentences,
}

impl Bank {
    /// Random sentences of up to `longest` words, some of which occur often and some have no known
    /// tag; the last sentence has no words.
    pub fn new(sentences: usize, longest: usize, seed: u64) -> Bank {
        let mut rng = Rng::new(seed);
        let lexicon: Vec<String> = (0..3 * longest)
            .map(|_| (0..=rng.below(6)).map(|_| (b'a' + rng.below(8) as u8) as char).collect())
            .collect();
        let tags = ["NOUN", "VERB", "DET", "ADP", "PUNCT"];
        let mut read: Vec<Vec<(&str, &str)>> = (0..sentences)
            .map(|_| {
                let length = 1 + rng.below(longest);
                let word = |_| {
                    let number = rng.below(lexicon.len()).min(rng.below(lexicon.len()));
                    (lexicon[number].as_str(), tags[(number + rng.below(8) / 7) % tags.len()])
                };
                (0..length).map(word).collect()
            })
            .collect();
        let all = read.concat();
        let vocabulary = Vocabulary::of(all.into_iter(), None, &Limits::default()).unwrap();
        read.push(Vec::new());
        let mut data = Sentences::new();
        for (i, sentence) in read.iter().enumerate() {
            let tagged = sentence.iter().enumerate();
            let tagged = tagged.map(|(k, (form, tag))| (*form, ((i + k) % 9 != 4).then_some(*tag)));
            data.push(&vocabulary, tagged);
        }
        Bank { vocabulary, data }
    }

    /// The two networks; vectors of words are trained or not.
    pub fn net(&self, sizes: &Sizes, nets: [PaperNet; 2], frozen: bool) -> TaggerNet {
        let values = (self.vocabulary.words() - 4) * sizes.word;
        let values = (0..values).map(|i| (i as f32).sin()).collect();
        let table = frozen.then(|| with_special(sizes.word, values));
        sizes.build(&self.vocabulary, nets, table).unwrap()
    }

    /// All sentences but the empty one.
    pub fn all(&self) -> Vec<u32> {
        (0..self.data.len() as u32 - 1).collect()
    }
}

/// Every kind of network over characters and over words.
pub fn pairs() -> Vec<[PaperNet; 2]> {
    use PaperNet::{BiLstm, DLstm, Lstm};
    vec![
        [Lstm, Lstm],
        [BiLstm, BiLstm],
        [DLstm(1), DLstm(1)],
        [DLstm(3), DLstm(2)],
        [BiLstm, DLstm(4)],
    ]
}

/// The CPU's engine.
pub fn cpu(net: &TaggerNet, seed: u64) -> AnyTagger {
    Box::new(TaggerLearner::new(&Cpu::new(1), net.clone(), AdamOptions::default(), seed))
}

fn batches(chosen: &[u32], batch: usize) -> Batches<'_> {
    Batches { epoch: 0, chosen, batch, rate: RATE, clip: Some(0.1), dropout: None }
}

/// Large enough that errors show, small enough that they do not grow from step to step.
const RATE: f32 = 2e-3;

/// How far apart two engines may be.
#[derive(Debug, Clone, Copy)]
pub struct Tolerance {
    /// Losses and norms.
    pub losses: f64,
    /// Parameters: the norm of their difference, of that of their way from the start. Adam divides a
    /// gradient by its size, so one that is as small as its rounding error moves its parameter by as
    /// much as others; no bound of single parameters holds.
    pub way: f64,
}

/// Distance of two engines' parameters, of their way from `start`.
fn apart(ours: &[f32], theirs: &[f32], start: &[f32]) -> f64 {
    let distance = |a: &[f32], b: &[f32]| {
        let squares = a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2));
        squares.sum::<f64>().sqrt()
    };
    assert_eq!([ours.len(), theirs.len()], [start.len(); 2]);
    let way = distance(theirs, start);
    assert!(way > 0.0, "no parameter has moved");
    distance(ours, theirs) / way
}

fn far(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    f64::from(a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max))
}

/// Steps on batches of these sentences.
pub fn train(engine: &mut AnyTagger, data: &Sentences, chosen: &[u32], batch: usize) -> Steps {
    engine.train(data, &batches(chosen, batch)).expect("steps")
}

fn bits(state: &State) -> Vec<u32> {
    let State { params, adam } = state;
    let all = [params, &adam.mean, &adam.square].into_iter().flatten();
    all.map(|x| x.to_bits()).chain([adam.steps as u32]).collect()
}

/// The gradient of the first batch equals the CPU's: the first of Adam's means is a tenth of it.
/// Relative to the largest value of each of both networks and of the vectors.
pub fn gradient(make: Make, bank: &Bank, net: &TaggerNet, tolerance: f64) {
    let all = bank.all();
    let of = |mut engine: AnyTagger| {
        let plain = Batches { clip: None, ..batches(&all, all.len()) };
        engine.train(&bank.data, &plain).expect("a step");
        engine.state().expect("a state").adam.mean
    };
    let (found, expected) = (of(make(net, 3)), of(cpu(net, 3)));
    for (what, range) in ["characters", "words", "vectors"].into_iter().zip(net.ranges()) {
        let (found, expected) = (&found[range.clone()], &expected[range]);
        let largest = expected.iter().fold(0.0f32, |a, b| a.max(b.abs()));
        let far = far(found, expected) / f64::from(largest.max(f32::MIN_POSITIVE));
        let name = format!("{} | {}", net.chars, net.words);
        assert!(largest > 0.0 || expected.is_empty(), "{name}: no gradient of {what}");
        assert!(far <= tolerance, "{name}: gradient of {what} {far:.1e} of the largest apart");
    }
}

/// Some steps next to the CPU.
pub fn curve(make: Make, bank: &Bank, net: &TaggerNet, batch: usize, tolerance: Tolerance) {
    let (mut ours, mut theirs) = (make(net, 3), cpu(net, 3));
    let start = theirs.state().expect("a state").params;
    let name = format!("{} | {}", net.chars, net.words);
    for (step, chosen) in bank.all().chunks(batch).enumerate() {
        let found = train(&mut ours, &bank.data, chosen, batch);
        let expected = train(&mut theirs, &bank.data, chosen, batch);
        assert_eq!(found.loss.count, expected.loss.count);
        let values = [
            ("loss", found.loss.mean(), expected.loss.mean()),
            ("norm", found.norms, expected.norms),
        ];
        for (what, a, b) in values {
            let allowed = tolerance.losses * b.abs().max(1.0);
            assert!((a - b).abs() <= allowed, "{name}, step {step}: {what} {a}, CPU {b}");
        }
    }
    let [ours, theirs] = [&mut ours, &mut theirs].map(|e| e.state().expect("a state").params);
    let apart = apart(&ours, &theirs, &start);
    assert!(apart <= tolerance.way, "{name}: parameters {apart:.1e} of their way apart");
}

/// Outputs, tags and losses of an evaluation equal the CPU's, and nothing changes.
pub fn evaluation(make: Make, bank: &Bank, net: &TaggerNet, tolerance: f64) {
    let (mut ours, mut theirs) = (make(net, 8), cpu(net, 8));
    let before = ours.state().expect("a state");
    let [mut found, mut expected] = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
    let of = |engine: &mut AnyTagger, to: &mut (Vec<f32>, Vec<u32>)| {
        let mut take = |y: &[f32], targets: Targets| {
            let Targets::Classes(tags) = targets else { panic!("classes") };
            to.0.extend_from_slice(y);
            to.1.extend_from_slice(tags);
        };
        engine.evaluate(&bank.data, 0, 5, &mut take).expect("runs")
    };
    let (a, b) = (of(&mut ours, &mut found), of(&mut theirs, &mut expected));
    assert_eq!((a.count, &found.1), (b.count, &expected.1));
    let far = far(&found.0, &expected.0).max((a.mean() - b.mean()).abs());
    assert!(far <= tolerance, "{} | {}: {far:.1e} apart", net.chars, net.words);
    assert_eq!(bits(&ours.state().expect("a state")), bits(&before));
}

/// A saved state continues to the bit, in one call or several, and in the CPU's engine.
pub fn state(make: Make, bank: &Bank, net: &TaggerNet, tolerance: Tolerance) {
    let (mut ours, all) = (make(net, 5), bank.all());
    let (first, second) = all.split_at(all.len() / 2);
    train(&mut ours, &bank.data, first, 3);
    let saved = ours.state().expect("a state");
    train(&mut ours, &bank.data, second, 3);
    let straight = ours.state().expect("a state");
    let mut again = make(net, 6);
    again.set_state(saved.clone()).expect("fits");
    for chosen in second.chunks(3) {
        train(&mut again, &bank.data, chosen, 3);
    }
    assert_eq!(bits(&again.state().expect("a state")), bits(&straight), "not the same bits");
    let mut theirs = cpu(net, 7);
    theirs.set_state(saved.clone()).expect("fits");
    train(&mut theirs, &bank.data, second, 3);
    let on_cpu = theirs.state().expect("a state").params;
    let apart = apart(&on_cpu, &straight.params, &saved.params);
    assert!(apart <= tolerance.way, "on the CPU {apart:.1e} of the way apart");
    let short = State { params: saved.params[1..].to_vec(), ..saved };
    assert!(again.set_state(short).is_err(), "a parameter too few");
    assert_eq!(
        (again.identity(), again.identity_of_0_1()),
        (theirs.identity(), theirs.identity_of_0_1())
    );
}

/// Sentences without words take a step along no gradient; parameters that have run away are
/// reported and stay.
pub fn extremes(make: Make, bank: &Bank, net: &TaggerNet) {
    let empty = [bank.data.len() as u32 - 1];
    let [mut ours, mut theirs] = [make(net, 2), cpu(net, 2)];
    for engine in [&mut ours, &mut theirs] {
        let steps = train(engine, &bank.data, &empty, 1);
        assert_eq!((steps.loss.sum, steps.loss.count, steps.norms), (0.0, 0, 0.0));
    }
    assert_eq!(bits(&ours.state().expect("a state")), bits(&theirs.state().expect("a state")));
    let mut away = ours.state().expect("a state");
    away.params.iter_mut().for_each(|p| *p = 3e38);
    ours.set_state(away.clone()).expect("fits");
    let found = train(&mut ours, &bank.data, &bank.all(), 4);
    assert!(!found.norms.is_finite(), "{found:?}");
    assert_eq!(bits(&ours.state().expect("a state")), bits(&away));
}
