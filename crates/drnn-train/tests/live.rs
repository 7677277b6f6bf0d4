//! Live answers are those of the whole sequence, to the bit, alone or in a batch; what is refused changes nothing.

use drnn::random::Rng;
use drnn::{Batch, Cell, Model, NetSpec, Padding, Precision, Rows, Steps};
use drnn_tasks::chars::Alphabet;
use drnn_tasks::chars::CharTask;
use drnn_tasks::live::{
    Element, ElementKind, LiveBatch, LiveId, LiveModel, LiveStream, Predicted, ranked,
};
use drnn_tasks::series::{
    ColumnKind, Cycle, Forecast, InputColumn, Scaling, Scalings, SeriesTask, TimeFormat,
};
use drnn_tasks::tagger::{Counting, Limits, Tagger, Vocabulary};
use drnn_train::PaperNet;
use drnn_train::read::Missing;
use drnn_train::read::{ElementRow, ElementRows};
use drnn_train::tagger::{Sentences, Sizes, TagWorkspace, initial_params, outputs};
use std::collections::BTreeMap;

fn net(cell: Cell, delay: usize, padding: Padding) -> drnn::NetSpecBuilder {
    NetSpec::builder(cell).units([9]).delay(delay, padding)
}

fn plain(dense: bool) -> Model {
    let builder = net(Cell::Lstm, 2, Padding::Null).outputs(3);
    let builder = if dense { builder.dense(2) } else { builder.tokens(6, 4) };
    Model::init(&builder.build().unwrap(), 3).unwrap()
}

fn series_model(missing: Missing, classes: bool) -> Model {
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
    let task = SeriesTask {
        task: SeriesTask::NAME.into(),
        inputs: names(&["a", "b"]),
        targets: names(&["y"]),
        classes: classes.then(|| names(&["rest", "walk", "run"])),
        scaling: Scalings {
            inputs: Scaling { mean: vec![1.0, -2.0], sd: vec![0.5, 3.0] },
            targets: (!classes).then(|| Scaling { mean: vec![10.0], sd: vec![4.0] }),
        },
        missing,
        sequence: Some("id".into()),
        delimiter: ',',
        columns: None,
        forecast: None,
    };
    let spec = task.widths(net(Cell::Gru, 3, Padding::Null)).build().unwrap();
    Model::init(&spec, 5).unwrap().with_task(task.to_value().unwrap())
}

/// A model that reads a time, a number and a category, and forecasts.
fn fields() -> LiveModel {
    let kind = ColumnKind::Time { format: TimeFormat::Iso, cycles: vec![Cycle::HourOfDay] };
    let date = InputColumn { name: "date".into(), kind };
    let kind = ColumnKind::Category { names: vec!["blue".into(), "red".into()] };
    let columns = vec![date, InputColumn::number("x"), InputColumn { name: "colour".into(), kind }];
    let forecast = Forecast { columns: vec!["x".into()], ahead: vec![1, 24] };
    let task = SeriesTask {
        task: SeriesTask::NAME.into(),
        inputs: columns.iter().flat_map(InputColumn::inputs).collect(),
        targets: forecast.names(),
        classes: None,
        scaling: Scalings {
            inputs: Scaling {
                mean: vec![0.0, 0.0, 4.0, 0.0, 0.0],
                sd: vec![1.0, 1.0, 2.0, 1.0, 1.0],
            },
            targets: Some(Scaling { mean: vec![4.0; 2], sd: vec![2.0; 2] }),
        },
        missing: Missing::Refuse,
        sequence: None,
        delimiter: ',',
        columns: Some(columns),
        forecast: Some(forecast),
    };
    let spec = task.widths(net(Cell::Gru, 3, Padding::Null)).build().unwrap();
    let model = Model::init(&spec, 5).unwrap().with_task(task.to_value().unwrap());
    LiveModel::new("fields", model).unwrap()
}

fn series(missing: Missing, classes: bool) -> LiveModel {
    LiveModel::new("series", series_model(missing, classes)).unwrap()
}

fn chars_model() -> (Model, CharTask) {
    let task = CharTask::new(Alphabet::new(" abc".chars().collect()).unwrap(), 20, 0.2);
    let spec = net(Cell::Lstm, 2, Padding::LookAhead).tokens(5, 3).outputs(4).build().unwrap();
    (task.put_into(Model::init(&spec, 2).unwrap()).unwrap(), task)
}

fn tagger(word: PaperNet) -> Tagger {
    let words = [("the", "DET"), ("ants", "NOUN"), ("run", "VERB")];
    let vocabulary = Vocabulary::of(words.into_iter(), None, &Limits::default()).unwrap();
    let sizes = Sizes { symbol: 3, chars: 5, both_chars: 4, word: 4, words: 6, both_words: 4 };
    let net = sizes.build(&vocabulary, [PaperNet::BiLstm, word], None).unwrap();
    let params = initial_params(&net, 7);
    Tagger::new(vocabulary, Counting::Words, net, &params).unwrap()
}

/// Through a file, as users have it.
fn live_tagger(word: PaperNet) -> drnn_tasks::Result<LiveModel> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("words.safetensors");
    tagger(word).save(&path, Precision::F32).unwrap();
    LiveModel::load(&path)
}

fn models() -> Vec<LiveModel> {
    let plain = |dense| LiveModel::new("plain", plain(dense)).unwrap();
    let mut all = vec![plain(true), plain(false), LiveModel::new("c", chars_model().0).unwrap()];
    all.extend([series(Missing::Previous, false), series(Missing::Mean, true), fields()]);
    all.extend(
        [0, 1, 3].map(|d| {
            live_tagger(if d == 0 { PaperNet::Lstm } else { PaperNet::DLstm(d) }).unwrap()
        }),
    );
    all
}

/// Some element that the model reads.
fn element(model: &LiveModel, rng: &mut Rng) -> Element {
    let numbers = |rng: &mut Rng| Element::Numbers(vec![rng.normal(), rng.normal()]);
    match (model.element_kind(), rng.below(4)) {
        (ElementKind::Tokens(symbols), _) => Element::Token(rng.below(symbols) as u32),
        (ElementKind::Numbers(_), _) => numbers(rng),
        (ElementKind::Fields(_), i) => {
            let colour = ["red", "blue", "pink", "blue"][i];
            model.line(&format!("2016-07-01 0{i}:30,{},{colour}", rng.normal())).unwrap()
        }
        (ElementKind::Characters, 0) => Element::Mask,
        (ElementKind::Characters, _) => Element::Char(['a', 'B', '\n', 'é'][rng.below(4)]),
        (ElementKind::Words, i) => Element::Word(["the", "ants", "run", "unheard-of"][i].into()),
    }
}

fn all<'m>(stream: &mut LiveStream<'m>, elements: &[Element], late: usize) -> Vec<String> {
    let mut answers = Vec::new();
    for (i, element) in elements.iter().enumerate() {
        assert_eq!(stream.position(), i as u64);
        answers.extend(stream.push(element).unwrap());
        assert_eq!(answers.len(), (i + 1).saturating_sub(late), "in time");
    }
    answers.extend(stream.flush().unwrap());
    let positions: Vec<u64> = answers.iter().map(|answer| answer.position).collect();
    assert_eq!(positions, (0..elements.len() as u64).collect::<Vec<_>>());
    answers.iter().map(|answer| answer.json()).collect()
}

fn json(values: &[f32]) -> String {
    serde_json::to_string(values).unwrap()
}

#[test]
fn plain_answers_are_those_of_a_run() {
    for dense in [true, false] {
        let (model, live) = (plain(dense), LiveModel::new("plain", plain(dense)).unwrap());
        assert_eq!((live.task(), live.latency(), live.name()), ("plain", 2, "plain"));
        assert_eq!(live.parameters(), model.params().len());
        let x: Vec<f32> = (0..14).map(|i| (i as f32 * 0.7).sin()).collect();
        let tokens = [1, 0, 5, 3, 3, 2, 4];
        let (batch, lines): (Batch, Vec<String>) = match dense {
            true => {
                let line = |pair: &[f32]| format!("{} {}", pair[0], pair[1]);
                (Batch::dense(&x, Steps(7), Rows(1)), x.chunks(2).map(line).collect())
            }
            false => (
                Batch::tokens(&tokens, Steps(7), Rows(1)),
                tokens.iter().map(u32::to_string).collect(),
            ),
        };
        let run = model.run(&batch, None).unwrap();
        let expected: Vec<String> = (0..7)
            .map(|t| format!(r#"{{"position":{t},"values":{}}}"#, json(run.at(t, 0))))
            .collect();
        let elements: Vec<Element> = lines.iter().map(|line| live.line(line).unwrap()).collect();
        let mut stream = LiveStream::new(&live).unwrap();
        for _ in 0..2 {
            assert_eq!(all(&mut stream, &elements, 2), expected);
        }
    }
}

#[test]
fn series_are_scaled_filled_and_named() {
    let (model, live) = (series_model(Missing::Previous, false), series(Missing::Previous, false));
    let rows = [[0.5, 1.0], [f32::NAN, 2.0], [0.25, -7.0], [3.0, f32::NAN], [1.0, 1.0]];
    let filled = [[0.5, 1.0], [0.5, 2.0], [0.25, -7.0], [3.0, -7.0], [1.0, 1.0]];
    let x: Vec<f32> = filled
        .iter()
        .flat_map(|[a, b]| [(a - 1.0) / 0.5, (f64::from(*b) + 2.0) as f32 / 3.0])
        .collect();
    let run = model.run(&Batch::dense(&x, Steps(5), Rows(1)), None).unwrap();
    let elements: Vec<Element> = rows.iter().map(|row| Element::Numbers(row.to_vec())).collect();
    let found = all(&mut LiveStream::new(&live).unwrap(), &elements, 3);
    for (t, line) in found.iter().enumerate() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let expected = 10.0 + 4.0 * f64::from(run.at(t, 0)[0]);
        assert!((value["values"]["y"].as_f64().unwrap() - expected).abs() < 1e-6, "{line}");
    }
    // Classes: missing numbers are the mean, which is 0 when scaled.
    let (model, live) = (series_model(Missing::Mean, true), series(Missing::Mean, true));
    let run = model.run(&Batch::dense(&[-1.0, 0.0], Steps(1), Rows(1)), None).unwrap();
    let mut stream = LiveStream::new(&live).unwrap();
    stream.push(&live.json(r#"{"b": null, "a": 0.5, "other": 1}"#).unwrap()).unwrap();
    let answer = stream.flush().unwrap().remove(0).json();
    let (class, p) = ranked(run.at(0, 0))[0];
    let name = ["rest", "walk", "run"][class];
    let begin = format!(
        r#"{{"position":0,"class":"{name}","probability":{p},"probabilities":{{"{name}":{p}"#
    );
    assert!(answer.starts_with(&begin), "{answer} {begin}");
}

#[test]
fn characters_are_filled_in_as_whole_texts_are() {
    let (model, task) = chars_model();
    let live = LiveModel::new("chars", chars_model().0).unwrap();
    let text = "aB_c\n__é_a";
    let element = |c| if c == '_' { Element::Mask } else { Element::Char(c) };
    let elements: Vec<Element> = text.chars().map(element).collect();
    let read = |c| if c == '_' { task.mask() } else { task.read_as(c) };
    let mut tokens: Vec<u32> = text.chars().map(read).collect();
    tokens.extend([task.mask(); 2]);
    let run = model.run(&Batch::tokens(&tokens, Steps(tokens.len()), Rows(1)), None).unwrap();
    let expected: Vec<String> = text
        .chars()
        .enumerate()
        .map(|(t, c)| {
            let best: Vec<String> = match c {
                '_' => ranked(run.at(t, 0))[..3]
                    .iter()
                    .map(|(class, p)| {
                        let c = task.alphabet().symbols()[*class];
                        format!(r#"{{"character":"{c}","probability":{p}}}"#)
                    })
                    .collect(),
                _ => Vec::new(),
            };
            let shown = match c {
                '_' => task.alphabet().symbols()[ranked(run.at(t, 0))[0].0],
                c => c,
            };
            let shown = serde_json::to_string(&shown).unwrap();
            let best = best.join(",");
            let masked = c == '_';
            format!(r#"{{"position":{t},"character":{shown},"masked":{masked},"alternatives":[{best}]}}"#)
        })
        .collect();
    assert_eq!(all(&mut LiveStream::new(&live).unwrap(), &elements, 2), expected);
}

#[test]
fn words_are_tagged_as_whole_sentences_are() {
    for word in [PaperNet::Lstm, PaperNet::DLstm(1), PaperNet::DLstm(4)] {
        let (tagger, live) = (tagger(word), live_tagger(word).unwrap());
        assert_eq!((live.name(), live.task()), ("words", "tagger"));
        let words = ["the", "ants", "xyz", "run"];
        let mut data = Sentences::new();
        data.push(tagger.vocabulary(), words.iter().map(|form| (*form, None)));
        let mut expected = Vec::new();
        let look = |_: usize, i: usize, y: &[f32]| {
            let (tag, p) = tagger.best(y);
            let word = words[i];
            expected.push(format!(
                r#"{{"position":{i},"word":"{word}","tag":"{tag}","probability":{p}}}"#
            ));
        };
        outputs(&tagger, &data, &[0], &mut TagWorkspace::default(), look).unwrap();
        let elements = words.map(|word| live.line(word).unwrap());
        let mut stream = LiveStream::new(&live).unwrap();
        for _ in 0..2 {
            assert_eq!(all(&mut stream, &elements, live.latency()), expected, "{word:?}");
        }
        assert!(stream.flush().unwrap().is_empty());
    }
}

#[test]
fn a_snapshot_goes_on_where_it_was_taken() {
    let mut rng = Rng::new(12);
    for model in &models() {
        let elements: Vec<Element> = (0..9).map(|_| element(model, &mut rng)).collect();
        let mut whole = LiveStream::new(model).unwrap();
        let expected = all(&mut whole, &elements, model.latency());
        for cut in 0..=elements.len() {
            let mut first = LiveStream::new(model).unwrap();
            let mut found = Vec::new();
            for element in &elements[..cut] {
                found.extend(first.push(element).unwrap().map(|prediction| prediction.json()));
            }
            let bytes = first.snapshot();
            let mut second = LiveStream::new(model).unwrap();
            // Refused bytes change nothing: the stream still is one that has not begun.
            for end in 0..bytes.len() {
                assert!(second.restore(&bytes[..end]).is_err(), "{} {end}", model.name());
            }
            second.restore(&bytes).unwrap();
            assert_eq!(second.position(), cut as u64);
            for element in &elements[cut..] {
                found.extend(second.push(element).unwrap().map(|prediction| prediction.json()));
            }
            found.extend(second.flush().unwrap().iter().map(|prediction| prediction.json()));
            assert_eq!(found, expected, "{} {cut}", model.name());
        }
        // Elements that wait and a state that disagree.
        let (mut early, mut late) =
            (LiveStream::new(model).unwrap(), LiveStream::new(model).unwrap());
        early.push(&elements[0]).unwrap();
        let [early, late] = [early.snapshot(), late.snapshot()];
        let network = early.len() - (late.len() - 12 - json_length(&late));
        let mixed = [&late[..12 + json_length(&late)], &early[network..]].concat();
        assert!(LiveStream::new(model).unwrap().restore(&mixed).is_err(), "{}", model.name());
    }
}

/// The length of the JSON in a snapshot of a live sequence.
fn json_length(snapshot: &[u8]) -> usize {
    u32::from_le_bytes(snapshot[8..12].try_into().unwrap()) as usize
}

#[test]
fn streams_of_one_model_never_mix() {
    let mut rng = Rng::new(1);
    for model in models() {
        let elements: Vec<Vec<Element>> =
            (0..2).map(|_| (0..30).map(|_| element(&model, &mut rng)).collect()).collect();
        let alone: Vec<_> = elements
            .iter()
            .map(|e| all(&mut LiveStream::new(&model).unwrap(), e, model.latency()))
            .collect();
        let mut both = [LiveStream::new(&model).unwrap(), LiveStream::new(&model).unwrap()];
        let mut found = [Vec::new(), Vec::new()];
        for (a, b) in elements[0].iter().zip(&elements[1]) {
            for (i, element) in [a, b].into_iter().enumerate() {
                found[i].extend(both[i].push(element).unwrap().map(|answer| answer.json()));
            }
        }
        for i in [1, 0] {
            found[i].extend(both[i].flush().unwrap().iter().map(|answer| answer.json()));
            assert_eq!(found[i], alone[i], "{}", model.description());
        }
    }
}

#[test]
fn batching_never_changes_a_prediction_while_streams_join_leave_and_flush() {
    let mut rng = Rng::new(2);
    for model in models() {
        let mut batch = LiveBatch::new(&model).unwrap();
        let mut alone: BTreeMap<LiveId, LiveStream> = BTreeMap::new();
        for _ in 0..200 {
            let ids: Vec<LiveId> = alone.keys().copied().collect();
            let some = |rng: &mut Rng, of: usize| -> Vec<LiveId> {
                ids.iter().copied().filter(|_| rng.below(of) == 0).collect()
            };
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            match rng.below(8) {
                0 => drop(alone.insert(batch.join(), LiveStream::new(&model).unwrap())),
                1 if ids.len() > 3 => {
                    let id = ids[rng.below(ids.len())];
                    batch.leave(id).unwrap();
                    alone.remove(&id);
                    assert!(batch.leave(id).unwrap_err().to_string().contains("not live"));
                }
                2 => {
                    let ids = some(&mut rng, 3);
                    batch.flush(&ids, |id, answer| found.push((id, answer.json()))).unwrap();
                    for id in ids {
                        let answers = alone.get_mut(&id).unwrap().flush().unwrap();
                        expected.extend(answers.iter().map(|answer| (id, answer.json())));
                    }
                }
                _ => {
                    let ids = some(&mut rng, 2);
                    let elements: Vec<_> =
                        ids.iter().map(|id| (*id, element(&model, &mut rng))).collect();
                    batch.step(&elements, |id, answer| found.push((id, answer.json()))).unwrap();
                    for (id, element) in &elements {
                        let answer = alone.get_mut(id).unwrap().push(element).unwrap();
                        expected.extend(answer.map(|answer| (*id, answer.json())));
                    }
                }
            }
            // A stable sort: each one's answers stay in their order.
            found.sort_by_key(|(id, _)| *id);
            assert_eq!(found, expected, "{}", model.description());
            assert_eq!(batch.len(), alone.len());
            alone.iter().for_each(|(id, s)| assert_eq!(batch.position(*id).unwrap(), s.position()));
        }
    }
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut rng = Rng::new(3);
    for model in models() {
        let bad = [
            Element::Numbers(vec![1.0]),
            Element::Numbers(vec![f32::INFINITY, 1.0]),
            Element::Token(6),
            Element::Word(String::new()),
        ];
        let (mut clean, mut tried) =
            (LiveStream::new(&model).unwrap(), LiveStream::new(&model).unwrap());
        let mut batch = LiveBatch::new(&model).unwrap();
        let (good, id) = (batch.join(), batch.join());
        for i in 0..12 {
            let element = element(&model, &mut rng);
            for bad in &bad {
                let said = tried.push(bad).unwrap_err().to_string();
                assert!(said.starts_with(&format!("element {i}: ")), "{said}");
                assert!(batch.check(id, bad).is_err() && batch.check(id, &element).is_ok());
                let elements = [(good, element.clone()), (id, bad.clone())];
                let said = batch.step(&elements, |_, _| panic!()).unwrap_err().to_string();
                assert!(said.starts_with(&format!("stream 1: element {i}: ")), "{said}");
            }
            let twice = [(id, element.clone()), (id, element.clone())];
            assert!(batch.step(&twice, |_, _| panic!()).unwrap_err().to_string().contains("twice"));
            let expected = clean.push(&element).unwrap();
            assert_eq!(tried.push(&element).unwrap(), expected);
            let mut found = Vec::new();
            let both = [(good, element.clone()), (id, element)];
            batch.step(&both, |_, answer| found.push(answer)).unwrap();
            assert_eq!(
                found,
                expected.into_iter().flat_map(|a| [a.clone(), a]).collect::<Vec<_>>()
            );
        }
        assert_eq!(tried.flush().unwrap(), clean.flush().unwrap());
    }
    // Missing numbers, by what the model was trained with.
    for (missing, why) in [
        (Missing::Refuse, "element 0: column `b` is missing; the model was trained without"),
        (Missing::Drop, "the model was trained without such rows"),
        (Missing::Previous, "there is no element before it"),
    ] {
        let model = series(missing, false);
        let said = LiveStream::new(&model).unwrap().push(&model.line("1,").unwrap()).unwrap_err();
        assert!(said.to_string().contains(why), "{said}");
    }
}

#[test]
fn elements_as_text() {
    let chars = LiveModel::new("c", chars_model().0).unwrap();
    let [dense, tokens] = [true, false].map(|dense| LiveModel::new("p", plain(dense)).unwrap());
    let (tagger, series) = (live_tagger(PaperNet::Lstm).unwrap(), series(Missing::Mean, false));
    let numbers = |a, b| Element::Numbers(vec![a, b]);
    assert_eq!(chars.line("_").unwrap(), Element::Mask);
    assert_eq!(chars.line("ä").unwrap(), Element::Char('ä'));
    assert_eq!(chars.json("null").unwrap(), Element::Mask);
    assert_eq!(dense.line(" 1\t-2e1 ").unwrap(), numbers(1.0, -20.0));
    assert_eq!(dense.json("[1, 0.5]").unwrap(), numbers(1.0, 0.5));
    assert_eq!(series.json(r#"{"b": 2, "a": 1}"#).unwrap(), numbers(1.0, 2.0));
    assert_eq!(tokens.line(" 5").unwrap(), Element::Token(5));
    assert_eq!(tokens.json("5").unwrap(), Element::Token(5));
    assert_eq!(tagger.json("\"ants\"").unwrap(), Element::Word("ants".into()));
    for (refused, why) in [
        (chars.line("ab"), "`ab` is not one character"),
        (chars.line(""), "is not one character"),
        (chars.json("7"), "a string of one character, or null"),
        (dense.line("1 x"), "`x` is not a number"),
        (dense.line("1 inf"), "`inf` is not finite"),
        (dense.json("[1, 1e999]"), "not JSON"),
        (dense.json("[1, 1e40]"), "is too large"),
        (dense.json("3"), "an array of 2 numbers"),
        (dense.json(r#"{"a": 1}"#), "an array of 2 numbers"),
        (series.json(r#"{"a": 1}"#), "has no `b`"),
        (tokens.line("-1"), "`-1` is not a token"),
        (tokens.json("4294967296"), "is not a token"),
        (tagger.json("{"), "is not JSON"),
        (tagger.json("1"), "is not a string, the word"),
    ] {
        let said = refused.unwrap_err().to_string();
        assert!(said.contains(why), "{said}, expected {why}");
    }
}

#[test]
fn rows_by_the_names_of_their_columns() {
    let model = series(Missing::Mean, false);
    let mut rows = ElementRows::new(&model);
    assert!(rows.read("a,x").unwrap_err().to_string().contains("has no column `b`"));
    assert_eq!(rows.read("b, id,\"a\",x").unwrap(), ElementRow::Header);
    let element =
        |a, b, begins| ElementRow::Element { element: Element::Numbers(vec![a, b]), begins };
    assert_eq!(rows.read("2,p,1,text").unwrap(), element(1.0, 2.0, false));
    assert_eq!(rows.read("2,q,-1,").unwrap(), element(-1.0, 2.0, true));
    assert!(rows.read("2,r,-1").unwrap_err().to_string().contains("3 columns, the header has 4"));
    assert!(
        rows.read("2,r,z,").unwrap_err().to_string().contains("column `a`: `z` is not a number")
    );
    assert!(rows.read("2,\"r,z,").unwrap_err().to_string().contains("a quote is left open"));
    assert!(
        rows.read("1,2,3,4,5").unwrap_err().to_string().contains("5 columns, the header has 4")
    );
    assert_eq!(rows.read("2,q,-1,").unwrap(), element(-1.0, 2.0, false));
    let plain = LiveModel::new("plain", plain(true)).unwrap();
    assert_eq!(ElementRows::new(&plain).read("1, 2").unwrap(), element(1.0, 2.0, false));
}

/// Times and categories by name, from CSV and JSON alike; names of rows; another delimiter.
#[test]
fn fields_of_every_kind() {
    let model = fields();
    assert_eq!(model.element_kind(), ElementKind::Fields(3));
    let expected = model.line("2016-07-01 06:00,1.5,blue").unwrap();
    let Element::Numbers(numbers) = &expected else { panic!() };
    assert!((numbers[0] - 1.0).abs() < 1e-6 && numbers[1].abs() < 1e-6);
    assert_eq!(numbers[2..], [1.5, 1.0, 0.0]);
    for json in [
        r#"["2016-07-01 06:00", 1.5, "blue"]"#,
        r#"{"colour": "blue", "x": 1.5, "date": "2016-07-01T06:00:00Z", "more": [1]}"#,
    ] {
        assert_eq!(model.json(json).unwrap(), expected, "{json}");
    }
    let mut rows = ElementRows::new(&model);
    assert_eq!(rows.read("\"x\";\"colour\";\"date\"").unwrap(), ElementRow::Header);
    let row = ElementRow::Element { element: expected, begins: false };
    // A row that is refused does not decide whether rows have names.
    assert!(rows.read("name;z;blue;2016-07-01 06:00").is_err());
    assert_eq!(rows.read("\"7\";1.5;\"blue\";2016-07-01 06:00").unwrap(), row);
    assert_eq!(
        (rows.header().unwrap().join(" "), rows.field(0)),
        ("row x colour date".into(), "7")
    );
    assert_eq!(rows.delimiter(), Some(';'));
    // Unknown categories are read as none of those that are known, and counted.
    let ElementRow::Element { element, .. } = rows.read("8;1.5;pink;2016-07-01 06:00").unwrap()
    else {
        panic!()
    };
    let Element::Numbers(numbers) = &element else { panic!() };
    assert_eq!(numbers[2..], [1.5, 0.0, 0.0]);
    assert_eq!(model.unknown_categories(&element), 1);
    assert_eq!(model.line("2016-07-01 06:00,1.5,pink").unwrap(), element);
    let json = r#"["2016-07-01 06:00", 1.5, "pink"]"#;
    assert_eq!(model.json(json).unwrap(), element);
    assert_eq!(model.unknown_categories(&model.json(r#"["2016-07-01", 1, "red"]"#).unwrap()), 0);
    assert_eq!(model.unknown_categories(&model.json(r#"["2016-07-01", 1, null]"#).unwrap()), 0);
    for (json, why) in [
        (r#"["2016-07-01", 1.5]"#, "2 fields, expected 3: `date`, `x`, `colour`"),
        (r#"["1/7/2016", 1.5, "red"]"#, "column `date`: `1/7/2016` is not a time"),
        (r#"["2016-07-01", "red", 1]"#, "is not a number"),
        (r#"{"x": 1, "colour": "red"}"#, "has no `date`; use null"),
    ] {
        let message = model.json(json).unwrap_err().to_string();
        assert!(message.contains(why), "{message}");
    }
    let mut stream = LiveStream::new(&model).unwrap();
    let message = stream.push(&model.json(r#"[null, 1, "red"]"#).unwrap()).unwrap_err().to_string();
    assert!(message.contains("column `date` is missing"), "{message}");
    let info = serde_json::to_value(model.info()).unwrap();
    assert_eq!(info["reads"]["kind"], "fields");
    assert_eq!(info["reads"]["columns"][2]["kind"]["category"]["names"][1], "red");
    let scale = serde_json::json!({"mean": 4.0, "sd": 2.0});
    assert_eq!(info["reads"]["scales"], serde_json::json!([null, scale, null]));
}

#[test]
fn a_batch_moves_to_new_memory_without_those_who_failed() {
    for model in models() {
        let mut rng = Rng::new(5);
        let mut batch = LiveBatch::new(&model).unwrap();
        let ids = [batch.join(), batch.join(), batch.join()];
        let elements: Vec<Element> = (0..12).map(|_| element(&model, &mut rng)).collect();
        let mut found = Vec::new();
        for (i, element) in elements.iter().enumerate() {
            if i == 7 {
                batch = batch.without(&ids[1..2]).unwrap();
                assert_eq!((batch.len(), batch.position(ids[2]).unwrap()), (2, 7));
                assert!(batch.position(ids[1]).is_err());
            }
            let step = [(ids[0], element.clone()), (ids[2], element.clone())];
            batch.step(&step, |id, answer| found.push((id, answer.json()))).unwrap();
        }
        batch.flush(&[ids[0], ids[2]], |id, answer| found.push((id, answer.json()))).unwrap();
        let mut stream = LiveStream::new(&model).unwrap();
        let expected = all(&mut stream, &elements, model.latency());
        for id in [ids[0], ids[2]] {
            let of = found.iter().filter(|(of, _)| *of == id).map(|(_, json)| json.clone());
            assert_eq!(of.collect::<Vec<_>>(), expected);
        }
        assert!(batch.join() > ids[2], "no name is given twice");
    }
}

#[test]
fn facts_for_machines() {
    let facts = |model: &LiveModel| serde_json::to_value(model.info()).unwrap();
    let series = facts(&series(Missing::Mean, true));
    assert_eq!(series["reads"]["names"], serde_json::json!(["a", "b"]));
    assert_eq!(series["answers"]["names"], serde_json::json!(["rest", "walk", "run"]));
    assert_eq!((&series["delay"], &series["streams"]), (&3.into(), &true.into()));
    let chars = facts(&LiveModel::new("c", chars_model().0).unwrap());
    assert_eq!((&chars["name"], &chars["task"]), (&"c".into(), &"chars".into()));
    assert_eq!(chars["answers"]["alphabet"], " abc");
    assert_eq!(facts(&both())["streams"], false);
    assert_eq!(facts(&both())["delay"], serde_json::Value::Null);
}

#[test]
fn a_bidirectional_model_is_refused_where_it_would_stream() {
    for model in [both(), live_tagger(PaperNet::BiLstm).unwrap()] {
        assert!(!model.streams());
        for said in [LiveStream::new(&model).err(), LiveBatch::new(&model).err()] {
            let said = said.unwrap().to_string();
            assert!(said.starts_with("cannot stream: the network is bidirectional"), "{said}");
        }
    }
    let said = LiveModel::load(std::path::Path::new("none")).unwrap_err().to_string();
    assert!(said.contains("none: cannot be read"), "{said}");
}

fn both() -> LiveModel {
    let spec = NetSpec::builder(Cell::Gru).dense(2).units([3]).bidirectional().build().unwrap();
    LiveModel::new("both", Model::init(&spec, 1).unwrap()).unwrap()
}

#[test]
fn whole_sequences_side_by_side_are_those_of_streams() {
    let mut rng = Rng::new(11);
    for model in models() {
        // Of all lengths, in any order; the last are too many for one batch.
        let lengths = (0..40).chain([1, 700, 0, 300, 5]).chain([20; 900]);
        let sequences: Vec<Vec<Element>> = lengths
            .map(|length| (0..length).map(|_| element(&model, &mut rng)).collect())
            .collect();
        let found = model.run(&sequences).unwrap();
        assert_eq!(found.len(), sequences.len());
        let mut stream = LiveStream::new(&model).unwrap();
        for (elements, answers) in sequences.iter().zip(&found) {
            let answers: Vec<String> = answers.iter().map(|answer| answer.json()).collect();
            assert_eq!(answers, all(&mut stream, elements, model.latency()));
        }
    }
}

#[test]
fn whole_sequences_of_bidirectional_models() {
    let model = both();
    let x = [0.5, -1.0, 0.25, 2.0, 1.0, 1.0];
    let elements: Vec<Element> = x.chunks(2).map(|x| Element::Numbers(x.to_vec())).collect();
    let found = model.run(&[elements[..2].to_vec(), elements, Vec::new()]).unwrap();
    let spec = NetSpec::builder(Cell::Gru).dense(2).units([3]).bidirectional().build().unwrap();
    let run =
        Model::init(&spec, 1).unwrap().run(&Batch::dense(&x, Steps(3), Rows(1)), None).unwrap();
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [2, 3, 0]);
    for (t, answer) in found[1].iter().enumerate() {
        let expected = format!(r#"{{"position":{t},"values":{}}}"#, json(run.at(t, 0)));
        assert_eq!(answer.json(), expected);
    }
    // A tagger that reads both ways says what `drnn tag` says.
    let (live, tagger) = (live_tagger(PaperNet::BiLstm).unwrap(), tagger(PaperNet::BiLstm));
    let words = ["the", "ants", "run", "unheard-of"];
    let mut data = Sentences::new();
    data.push(tagger.vocabulary(), words.iter().map(|word| (*word, None)));
    let mut expected = Vec::new();
    let look = |_, i: usize, y: &[f32]| {
        let (tag, p) = tagger.best(y);
        expected.push((words[i].to_string(), tag.to_string(), p));
    };
    outputs(&tagger, &data, &[0], &mut TagWorkspace::default(), look).unwrap();
    let elements = words.map(|word| Element::Word(word.into())).to_vec();
    let found = live.run(&[elements]).unwrap().remove(0).into_iter().map(|answer| {
        let Predicted::Tag { word, tag, probability } = answer.value else { panic!("a tag") };
        (word, tag.to_string(), probability)
    });
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn words_side_by_side_are_encoded_as_each_alone() {
    let model = live_tagger(PaperNet::DLstm(1)).unwrap();
    let mut rng = Rng::new(4);
    let mut word = || -> String {
        let length = [1, 3, 9, 40, 70, 200][rng.below(6)];
        (0..length).map(|_| ['t', 'h', 'e', 'é', ' ', '~'][rng.below(6)]).collect()
    };
    let elements: Vec<Element> = (0..700).map(|_| Element::Word(word())).collect();
    let found: Vec<_> = model.run(std::slice::from_ref(&elements)).unwrap().remove(0);
    let found: Vec<String> = found.iter().map(|answer| answer.json()).collect();
    assert_eq!(found, all(&mut LiveStream::new(&model).unwrap(), &elements, 1));
}

#[test]
fn a_whole_sequence_that_is_refused_is_named() {
    let model = LiveModel::new("plain", plain(true)).unwrap();
    let good = Element::Numbers(vec![1.0, 2.0]);
    let bad = Element::Numbers(vec![1.0]);
    let said = model.run(&[vec![good.clone()], vec![good, bad]]).unwrap_err().to_string();
    assert_eq!(said, "sequence 1: element 1: 1 numbers, expected 2");
}
