//! Elements of live sequences, by every kind of model: what is read is answered in time, what is refused changes
//! nothing.
//!
//! ```text
//! choices u8    lines of text
//! ```
#![no_main]

use drnn::{Cell, Model, NetSpec, Padding};
use drnn_train::chars::CharTask;
use drnn_train::live::{Element, LiveModel, LiveStream, Row, Rows};
use drnn_train::read::{Alphabet, Missing};
use drnn_train::series::{Scaling, Scalings, SeriesTask};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

const TAGGER: &[u8] = include_bytes!("../../models/tagger-en.safetensors");

static MODELS: LazyLock<Vec<LiveModel>> = LazyLock::new(|| {
    let net = |padding| NetSpec::builder(Cell::Gru).units([3]).delay(2, padding);
    let init = |builder: drnn::Builder| Model::init(&builder.build().unwrap(), 1);
    let chars = CharTask::new(Alphabet::new("ab _".chars().collect()).unwrap(), 9, 0.2);
    let series = |missing| {
        let task = SeriesTask {
            task: SeriesTask::NAME.into(),
            inputs: vec!["a".into(), "b".into()],
            targets: vec!["y".into()],
            classes: None,
            scaling: Scalings {
                inputs: Scaling { mean: vec![0.5, 1e30], sd: vec![1e-30, 2.0] },
                targets: Some(Scaling { mean: vec![1.0], sd: vec![2.0] }),
            },
            missing,
            sequence: Some("id".into()),
            delimiter: ',',
        };
        init(task.widths(net(Padding::Null))).with_task(task.to_value().unwrap())
    };
    let all = [
        init(net(Padding::Null).dense(2)),
        init(net(Padding::Symbol(1)).tokens(4, 2)),
        chars.put_into(init(net(Padding::LookAhead).tokens(5, 2).outputs(4))).unwrap(),
        series(Missing::Previous),
        series(Missing::Mean),
        series(Missing::Refuse),
    ];
    let mut all: Vec<LiveModel> = all.into_iter().map(|m| LiveModel::new("m", m).unwrap()).collect();
    all.push(LiveModel::from_bytes("tagger", TAGGER).unwrap());
    all
});

fuzz_target!(|input: &[u8]| {
    let Some((&choices, bytes)) = input.split_first() else { return };
    let text = String::from_utf8_lossy(bytes);
    let model = &MODELS[usize::from(choices & 15) % MODELS.len()];
    let mut rows = Rows::new(model);
    let mut read = |line: &str| -> Option<Element> {
        match choices >> 6 {
            0 => model.line(line).ok(),
            1 => model.json(line).ok(),
            _ => match rows.read(line).ok()? {
                Row::Header => None,
                Row::Element { element, .. } => Some(element),
            },
        }
    };
    let elements: Vec<Element> = text.lines().take(20).filter_map(|line| read(line)).collect();
    let (mut stream, mut good) = (LiveStream::new(model).unwrap(), Vec::new());
    let mut answers = Vec::new();
    for element in elements {
        let position = stream.position();
        match stream.push(&element) {
            Ok(answer) => {
                answers.extend(answer.map(|answer| answer.json()));
                good.push(element);
            }
            Err(e) => {
                assert!(e.to_string().starts_with(&format!("element {position}: ")), "{e}");
                assert_eq!(stream.position(), position);
            }
        }
        assert_eq!(answers.len(), good.len().saturating_sub(model.latency()));
    }
    answers.extend(stream.flush().unwrap().iter().map(|answer| answer.json()));
    assert_eq!(answers.len(), good.len());
    // The good ones alone, in the stream that was used: as new.
    let mut again = Vec::new();
    for element in &good {
        again.extend(stream.push(element).unwrap().map(|answer| answer.json()));
    }
    again.extend(stream.flush().unwrap().iter().map(|answer| answer.json()));
    assert_eq!(again, answers);
});
