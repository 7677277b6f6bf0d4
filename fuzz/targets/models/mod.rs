//! A small model of every kind.

use drnn::{Cell, Model, NetSpec, Padding};
use drnn_tasks::chars::Alphabet;
use drnn_tasks::chars::CharTask;
use drnn_tasks::live::LiveModel;
use drnn_tasks::series::{Scaling, Scalings, SeriesTask};
use drnn_train::read::Missing;
use std::sync::LazyLock;

const TAGGER: &[u8] = include_bytes!("../../../crates/drnn-cli/models/tagger-en.safetensors");

/// Live ones.
pub static MODELS: LazyLock<Vec<LiveModel>> = LazyLock::new(all);

/// The same anew.
pub fn all() -> Vec<LiveModel> {
    let net = |padding| NetSpec::builder(Cell::Gru).units([3]).delay(2, padding);
    let init = |builder: drnn::NetSpecBuilder| Model::init(&builder.build().unwrap(), 1).unwrap();
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
            columns: None,
            forecast: None,
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
    let mut all: Vec<LiveModel> =
        all.into_iter().map(|m| LiveModel::new("m", m).unwrap()).collect();
    all.push(LiveModel::from_bytes("tagger", TAGGER).unwrap());
    all
}
