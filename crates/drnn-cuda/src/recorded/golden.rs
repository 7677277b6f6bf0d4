//! All work that a training step submits, line by line, compared with `tests/plans/NAME.txt`.
//!
//! `DRNN_RENEW_PLANS=1 cargo test -p drnn-cuda` rewrites those files after an intended change;
//! review their diff. A line names the fields of a kernel's parameters. Buffers are named by the
//! fields that own them, with the index of a value: `work.outputs:64`; a matrix also has its row
//! stride: `work.outputs:64/16`.

use super::{Zeros, batches, hopper};
use crate::learner::CudaLearner;
use crate::runtime::driver::recorder::Names;
use crate::runtime::gemm::Precision;
use drnn::{Cell, NetSpec, Padding};
use drnn_train::{AdamOptions, Engine};
use std::path::PathBuf;

const RENEW: &str = "DRNN_RENEW_PLANS";

/// One step on one batch.
fn check(
    name: &str,
    builder: drnn::NetSpecBuilder,
    precision: Precision,
    rows: usize,
    elements: usize,
) {
    check_selecting(name, builder, precision, [rows, elements], None);
}

fn check_selecting(
    name: &str,
    builder: drnn::NetSpecBuilder,
    precision: Precision,
    [rows, elements]: [usize; 2],
    one_of: Option<usize>,
) {
    let (device, spec) = (hopper(), builder.build().expect("a network"));
    let learner = CudaLearner::new(&device, precision, &spec, AdamOptions::default(), 1);
    let mut learner = learner.expect("a learner");
    let data = Zeros { spec: spec.clone(), sequences: rows, elements, one_of };
    let all: Vec<u32> = (0..rows as u32).collect();
    learner.train(&data, &batches(&all, rows)).expect("a step");
    let lines = device.recorder().take_lines(&Names::new(&learner));
    let selected = one_of.map(|one_of| format!(", one of {one_of} outputs selected"));
    let selected = selected.unwrap_or_default();
    let head =
        format!("{spec}, {precision:?}, {rows} sequences of {elements}{selected}, on an H200");
    let found = [vec![head, String::new()], lines].concat().join("\n") + "\n";
    assert!(!found.contains("unnamed") && !found.contains("nowhere"), "{found}");

    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    let path = folder.join(format!("{name}.txt"));
    if std::env::var_os(RENEW).is_some() {
        std::fs::create_dir_all(&folder).expect("a folder");
        return std::fs::write(&path, found).expect("a file");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if found == expected {
        return;
    }
    let (lines, mut others) = (found.lines(), expected.lines());
    let differs = lines.map(Some).chain([None]).enumerate().find_map(|(at, line)| {
        let other = others.next();
        (line != other).then(|| {
            let [line, other] = [line, other].map(|line| line.unwrap_or("(the end)"));
            format!("line {}\n  was  {other}\n  is   {line}", at + 1)
        })
    });
    panic!(
        "{name}: the host submits other work than tests/plans/{name}.txt says, from {} on\n\
         If that is intended: {RENEW}=1 cargo test -p drnn-cuda, then look at git diff.",
        differs.unwrap_or("its last line".into()),
    );
}

#[test]
fn a_delayed_lstm_in_f16() {
    let net = NetSpec::builder(Cell::Lstm).tokens(28, 10).units([512]).outputs(27);
    check("delayed-lstm-f16", net.delay(8, Padding::Symbol(27)), Precision::F16, 128, 100);
}

#[test]
fn a_delayed_lstm_with_selected_outputs() {
    let net = NetSpec::builder(Cell::Lstm).tokens(28, 10).units([512]).outputs(27);
    let net = net.delay(8, Padding::Symbol(27));
    check_selecting("selected-lstm-f16", net, Precision::F16, [128, 100], Some(5));
}

#[test]
fn a_stack_of_two_lstms_in_f16() {
    let net = NetSpec::builder(Cell::Lstm).tokens(28, 10).units([594; 2]).outputs(27);
    check("stacked-lstm-f16", net, Precision::F16, 128, 100);
}

#[test]
fn a_wavefront_of_three_grus_in_f16() {
    let net = NetSpec::builder(Cell::Gru).dense(4).units([343; 3]).outputs(2);
    check("wavefront-gru-f16", net.delay(2, Padding::Null), Precision::F16, 128, 50);
}

#[test]
fn a_small_gru_in_f32() {
    let net = NetSpec::builder(Cell::Gru).dense(3).units([16]).bidirectional().outputs(2);
    check("small-gru-f32", net, Precision::F32, 4, 3);
}
