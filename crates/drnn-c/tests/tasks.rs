//! Models with a task through the C interface predict what Rust's `LiveStream` predicts.

mod common;

use common::*;
use drnn::{Cell, Model, NetSpec, Padding};
use drnn_c::model::drnn_model;
use drnn_c::status::drnn_status;
use drnn_c::status::drnn_status::*;
use drnn_c::task::*;
use drnn_tasks::live::{LiveModel, LiveStream, Predicted, Prediction};
use drnn_tasks::series::{Missing, Scaling, Scalings, SeriesTask};
use std::ffi::{CStr, CString};
use std::ptr::{null, null_mut};

/// A prediction, copied.
#[derive(Debug, Clone, PartialEq)]
struct Found {
    position: u64,
    label: Option<String>,
    probability: f64,
    values: Vec<f64>,
}

impl Found {
    /// # Safety
    /// NULL, or a prediction that is still valid.
    unsafe fn copied(prediction: *const drnn_prediction) -> Option<Found> {
        // SAFETY: the caller's promise; texts end with NUL, and there are that many values.
        unsafe {
            let found = prediction.as_ref()?;
            let text = |label| CStr::from_ptr(label).to_str().unwrap().to_string();
            let label = (!found.label.is_null()).then(|| text(found.label));
            let values = match found.values_len {
                0 => vec![],
                len => std::slice::from_raw_parts(found.values, len).to_vec(),
            };
            let (position, probability) = (found.position, found.probability);
            Some(Found { position, label, probability, values })
        }
    }

    fn expected(Prediction { position, value }: Prediction) -> Found {
        let (label, probability, values) = match value {
            Predicted::Tag { tag, probability, .. } => (Some(tag.into()), probability, vec![]),
            Predicted::Class { class, probability, .. } => {
                (Some(class.into()), probability, vec![])
            }
            Predicted::Character { character, masked, alternatives } => {
                let probability = if masked { alternatives[0].probability } else { 1.0 };
                (Some(character.to_string()), probability, vec![])
            }
            Predicted::Named { values } => (None, 0.0, values.iter().map(|v| v.1).collect()),
            Predicted::Numbers { values } => {
                (None, 0.0, values.iter().map(|v| f64::from(*v)).collect())
            }
            other => panic!("{other:?}"),
        };
        Found { position, label, probability, values }
    }
}

fn stream_of(model: &Owned<drnn_model>) -> Owned<drnn_task_stream> {
    let mut stream = null_mut();
    // SAFETY: a model, and a place for a handle.
    ok(unsafe { drnn_task_stream_new(model.0, &mut stream) });
    Owned(stream, drnn_task_stream_free)
}

fn push(stream: &Owned<drnn_task_stream>, element: &[u8]) -> (drnn_status, Option<Found>) {
    let (element, mut found) = (CString::new(element).unwrap(), null());
    // SAFETY: a stream, text that ends with NUL, and a place for a pointer.
    unsafe {
        let status = drnn_task_stream_push(stream.0, element.as_ptr(), &mut found);
        (status, Found::copied(found))
    }
}

fn finish(stream: &Owned<drnn_task_stream>) -> Option<Found> {
    let mut found = null();
    // SAFETY: a stream, and a place for a pointer.
    unsafe {
        ok(drnn_task_stream_finish(stream.0, &mut found));
        Found::copied(found)
    }
}

/// A series: values, or classes.
fn series(classes: bool) -> Model {
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
        missing: Missing::Previous,
        sequence: None,
        delimiter: ',',
        columns: None,
        forecast: None,
    };
    let net = NetSpec::builder(Cell::Gru).units([9]).delay(3, Padding::Null);
    let spec = task.widths(net).build().unwrap();
    Model::init(&spec, 5).unwrap().with_task(task.to_value().unwrap())
}

fn bundled(name: &str) -> Vec<u8> {
    std::fs::read(repository("crates/drnn-cli/models").join(name)).unwrap()
}

#[test]
fn every_task_predicts_as_rust_does() {
    let numbers: &[&str] = &["0.5,1", "NA,-2", "0.25 7", "3,", "1,1"];
    let cases = [
        (bundled("tagger-en.safetensors"), &["The", "ants", "run", "over", "it", "."][..]),
        (bundled("chars-en.safetensors"), &["t", "_", "e", " ", "é", "_", "t", "_"]),
        (series(true).to_bytes().unwrap(), numbers),
        (series(false).to_bytes().unwrap(), numbers),
        (dense(2, Padding::Null).to_bytes().unwrap(), &["0.5 1", "2,3", "-1 0"]),
        (tokens().to_bytes().unwrap(), &["5", "0", "1", "1"]),
    ];
    for (bytes, elements) in cases {
        let (status, handle) = load_bytes(&bytes, 1);
        ok(status);
        let in_c = stream_of(&handle);
        drop(handle); // streams keep what they need
        let model = LiveModel::from_bytes("m", &bytes).unwrap();
        let mut in_rust = LiveStream::new(&model).unwrap();
        for count in [elements.len(), 1, 0, 2] {
            for element in &elements[..count] {
                let (status, found) = push(&in_c, element.as_bytes());
                ok(status);
                let expected = in_rust.push(&model.line(element).unwrap()).unwrap();
                assert_eq!(found, expected.map(Found::expected), "{}", model.description());
            }
            for expected in in_rust.flush().unwrap() {
                assert_eq!(
                    finish(&in_c),
                    Some(Found::expected(expected)),
                    "{}",
                    model.description()
                );
            }
            assert_eq!(finish(&in_c), None);
        }
    }
}

#[test]
fn elements_that_are_refused_change_nothing() {
    let (status, handle) = load_bytes(&bundled("chars-en.safetensors"), 1);
    ok(status);
    let (one, other) = (stream_of(&handle), stream_of(&handle));
    let mut found = Vec::new();
    for element in ["t", "_", "e"] {
        refused(push(&one, b"two").0, DRNN_ERROR_VALUE, "not one character");
        refused(push(&one, b"").0, DRNN_ERROR_VALUE, "not one character");
        refused(push(&one, b"\xff\xfe").0, DRNN_ERROR_ARGUMENT, "`element` is not UTF-8");
        let (status, prediction) = push(&one, element.as_bytes());
        ok(status);
        assert_eq!(push(&other, element.as_bytes()), (DRNN_OK, prediction.clone()));
        found.extend(prediction);
    }
    // A sequence that ends hands out everything before the next one begins.
    let first = finish(&one);
    assert!(first.is_some());
    refused(push(&one, b"a").0, DRNN_ERROR_ARGUMENT, "drnn_task_stream_finish until");
    let rest: Vec<Found> = std::iter::from_fn(|| finish(&one)).collect();
    assert_eq!(found.len() + 1 + rest.len(), 3);
    ok(push(&one, b"a").0);
}

#[test]
fn a_task_that_does_not_fit_leaves_a_network() {
    let task = serde_json::json!({"task": "series", "inputs": 7});
    let handle = in_c(&dense(1, Padding::Null).with_task(task));
    assert_eq!(info(&handle).network, 1);
    ok(common::push(&stream(&handle), 3, &[0.1, 0.2], 1).0);
    let mut stream = null_mut();
    // SAFETY: a model, and a place for a handle.
    let status = unsafe { drnn_task_stream_new(handle.0, &mut stream) };
    refused(status, DRNN_ERROR_VALUE, "task");
    assert!(stream.is_null());
}
