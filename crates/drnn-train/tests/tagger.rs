//! The tagger learns what its gradient says, and a trained one is what it was in training.

use drnn::{Cpu, Precision};
use drnn_tasks::live::{Element, LiveModel, LiveStream, Predicted};
use drnn_tasks::tagger::{Counting, Limits, Tagger, Vocabulary};
use drnn_train::tagger::{
    Scores, Sentences, Sizes, TagWorkspace, TaggerLearner, outputs, with_special,
};
use drnn_train::{
    AdamOptions, Advance, Batches, Engine, Options, PaperNet, Resumed, State, Trainer,
};

const SIZES: Sizes = Sizes { symbol: 5, chars: 6, both_chars: 4, word: 3, words: 7, both_words: 5 };

/// Sentences in which a word's tag depends on its ending, and of one word on the word after it.
fn sentences() -> Vec<Vec<(&'static str, &'static str)>> {
    vec![
        vec![("the", "DET"), ("saw", "NOUN"), ("cuts", "VERB")],
        vec![("they", "PRON"), ("saw", "VERB"), ("the", "DET"), ("ants", "NOUN"), (".", "PUNCT")],
        vec![("ants", "NOUN"), ("run", "VERB")],
        vec![("they", "PRON"), ("cuts", "VERB"), ("x", "DET"), ("x", "NOUN")],
    ]
}

fn vocabulary() -> Vocabulary {
    let all = sentences().concat();
    Vocabulary::of(all.into_iter(), None, &Limits::default()).unwrap()
}

fn data(vocabulary: &Vocabulary) -> Sentences {
    let mut data = Sentences::new();
    for sentence in sentences() {
        data.push(vocabulary, sentence.iter().map(|(form, tag)| (*form, Some(*tag))));
    }
    data
}

fn nets() -> Vec<[PaperNet; 2]> {
    use PaperNet::{BiLstm, DLstm, Lstm};
    vec![
        [Lstm, Lstm],
        [BiLstm, BiLstm],
        [DLstm(1), DLstm(1)],
        [DLstm(3), DLstm(2)],
        [BiLstm, DLstm(4)],
    ]
}

fn learner(nets: [PaperNet; 2], frozen: bool) -> TaggerLearner {
    let vocabulary = vocabulary();
    let values = (0..(vocabulary.words() - 4) * 3).map(|i| (i as f32).sin()).collect();
    let table = frozen.then(|| with_special(3, values));
    let net = SIZES.build(&vocabulary, nets, table).unwrap();
    TaggerLearner::new(&Cpu::new(2), net, AdamOptions::default(), 1)
}

/// Sum over sentences of their mean loss, from the answers alone.
fn loss(learner: &mut TaggerLearner, data: &Sentences) -> f64 {
    let mut total = 0.0;
    for i in 0..data.len() {
        let mut one = Sentences::new();
        let vocabulary = vocabulary();
        let sentence = &sentences()[i];
        one.push(&vocabulary, sentence.iter().map(|(form, tag)| (*form, Some(*tag))));
        total += learner.loss(&one, 0, 9).unwrap().mean();
    }
    total
}

#[test]
fn a_step_goes_along_the_gradient_of_the_loss() {
    let data = data(&vocabulary());
    for nets in nets() {
        for frozen in [false, true] {
            let mut learner = learner(nets, frozen);
            // The first of Adam's means is a tenth of the gradient.
            let before = learner.state().unwrap();
            let all = [0, 1, 2, 3];
            let batches =
                Batches { epoch: 0, chosen: &all, batch: 4, rate: 1e-3, clip: None, dropout: None };
            learner.train(&data, &batches).unwrap();
            let gradient: Vec<f32> =
                learner.state().unwrap().adam.mean.iter().map(|m| m * 10.0).collect();
            let n = before.params.len();
            for i in (0..n).step_by(n / 150 + 1) {
                let mut at = |delta: f32| {
                    let mut params = before.params.clone();
                    params[i] += delta;
                    learner.set_state(State { params, ..before.clone() }).unwrap();
                    loss(&mut learner, &data)
                };
                let numeric = (at(1e-2) - at(-1e-2)) / 2e-2;
                let found = f64::from(gradient[i]);
                assert!((numeric - found).abs() < 2e-3, "{nets:?} {i}: {numeric} {found}");
            }
        }
    }
}

#[test]
fn it_learns_and_resumes_to_the_bit_and_its_file_says_the_same() {
    let (vocabulary, folder) = (vocabulary(), tempfile::tempdir().unwrap());
    let data = data(&vocabulary);
    let options = Options { epochs: 60, batch: 2, rate: 1e-2, ..Options::default() };
    for nets in [[PaperNet::DLstm(1), PaperNet::DLstm(1)], [PaperNet::BiLstm, PaperNet::BiLstm]] {
        let new =
            || Trainer::with_engine(learner(nets, false), options, "t", &data, &data).unwrap();
        let mut straight = new();
        while !matches!(straight.advance().unwrap(), Advance::Ended(_)) {}
        let path = folder.path().join("checkpoint");
        let mut trainer = new();
        for _ in 0..7 {
            trainer.advance().unwrap();
        }
        trainer.save(&path).unwrap();
        let mut trainer = new();
        assert_eq!(trainer.resume(&path).unwrap(), Resumed::Newest);
        while !matches!(trainer.advance().unwrap(), Advance::Ended(_)) {}
        let [a, b] = [&mut straight, &mut trainer].map(|trainer| trainer.engine().state().unwrap());
        assert!(a == b, "{nets:?}: resumed is not straight");
        let last = trainer.progress().history.last().unwrap();
        assert_eq!(last.valid_accuracy, Some(1.0), "{nets:?}: {last:?}");

        let net = trainer.engine().net().clone();
        let tagger = Tagger::new(vocabulary.clone(), Counting::Words, net, &b.params).unwrap();
        let scores = Scores::of(&tagger, &data).unwrap();
        assert_eq!((scores.words.value(), scores.words.total), (Some(1.0), 14));
        assert_eq!(scores.known.total + scores.unknown.total, 14);
        let answers = |tagger: &Tagger| {
            let mut found = Vec::new();
            let look = |s: usize, w: usize, y: &[f32]| found.push((s, w, y.to_vec()));
            outputs(tagger, &data, &[2, 0], &mut TagWorkspace::default(), look).unwrap();
            found
        };
        let before = answers(&tagger);
        assert_eq!(before.len(), 5);
        let path = folder.path().join("tagger.safetensors");
        tagger.save(&path, Precision::F32).unwrap();
        assert!(answers(&Tagger::load(&path).unwrap()) == before);
    }
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let vocabulary = vocabulary();
    let nets = [PaperNet::Lstm, PaperNet::Lstm];
    let short = with_special(3, vec![0.0; 3]);
    let error = SIZES.build(&vocabulary, nets, Some(short)).unwrap_err();
    assert!(error.to_string().contains("5 vectors of 3"), "{error}");
    let none = Vocabulary::of(std::iter::empty(), None, &Limits::default()).unwrap_err();
    assert!(none.to_string().contains("no words"), "{none}");
    let mut empty = learner(nets, false);
    assert!(empty.check(&Sentences::new()).is_err());
    let short = State { params: vec![0.0], ..empty.state().unwrap() };
    assert!(empty.set_state(short).is_err());
}

#[test]
fn a_stream_answers_what_whole_sentences_do_and_in_time() {
    let vocabulary = vocabulary();
    let data = data(&vocabulary);
    for nets in nets() {
        let mut learner = learner(nets, false);
        let params = learner.state().unwrap().params;
        let net = learner.net().clone();
        let late = net.latency();
        let tagger = Tagger::new(vocabulary.clone(), Counting::Words, net, &params).unwrap();
        let mut whole = vec![Vec::new(); 4];
        let look = |s: usize, _: usize, y: &[f32]| {
            let (tag, probability) = tagger.best(y);
            whole[s].push((tag.to_string(), probability));
        };
        outputs(&tagger, &data, &[0, 1, 2, 3], &mut TagWorkspace::default(), look).unwrap();
        let model = LiveModel::from_tagger("tagger", tagger);
        let Ok(mut stream) = LiveStream::new(&model) else {
            assert_eq!(late, None, "{nets:?}");
            continue;
        };
        let late = late.unwrap();
        let named = |value| match value {
            Predicted::Tag { tag, probability, .. } => (tag.to_string(), probability),
            other => panic!("{other:?}"),
        };
        for (sentence, whole) in sentences().iter().zip(&whole) {
            let mut live = Vec::new();
            for (i, (form, _)) in sentence.iter().enumerate() {
                let answer = stream.push(&Element::Word(form.to_string())).unwrap();
                live.extend(answer.map(|answer| named(answer.value)));
                assert_eq!(live.len(), (i + 1).saturating_sub(late), "{nets:?}");
            }
            live.extend(stream.flush().unwrap().into_iter().map(|answer| named(answer.value)));
            assert!(live == *whole, "{nets:?}: not the same bits");
        }
        assert!(stream.flush().unwrap().is_empty());
    }
}

#[test]
fn tag_weights_share_out_the_gradient_and_dropout_changes_it() {
    let (vocabulary, nets) = (vocabulary(), [PaperNet::BiLstm, PaperNet::DLstm(1)]);
    let (data, all) = (data(&vocabulary), [0, 1, 2, 3]);
    let plain = Batches { epoch: 0, chosen: &all, batch: 4, rate: 1e-3, clip: None, dropout: None };
    // The first of Adam's means is a tenth of the gradient.
    let gradient = |data: &Sentences, batches: &Batches| {
        let mut learner = learner(nets, false);
        learner.train(data, batches).unwrap();
        learner.state().unwrap().adam.mean
    };
    let whole = gradient(&data, &plain);
    let tags = vocabulary.tags().len();
    let mut sum = vec![0.0; whole.len()];
    for tag in 0..tags {
        let weights = (0..tags).map(|i| if i == tag { 1.0 } else { 0.0 }).collect();
        let part = gradient(&data.clone().with_tag_weights(weights), &plain);
        assert!(part.iter().any(|g| *g != 0.0) && part != whole);
        sum.iter_mut().zip(&part).for_each(|(sum, g)| *sum += g);
    }
    for (sum, whole) in sum.iter().zip(&whole) {
        assert!((sum - whole).abs() < 1e-5, "{sum} {whole}");
    }
    let dropout = Some(drnn::Dropout::new(0.5, 1).unwrap());
    let dropped = gradient(&data, &Batches { dropout, ..plain });
    assert!(dropped != whole && dropped == gradient(&data, &Batches { dropout, ..plain }));
}
