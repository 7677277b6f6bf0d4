//! `drnn quantize`: what it writes, what it says of the quality, what it refuses.

mod common;

use common::{done, drnn, read, refused, text, write};
use drnn::{Cell, Model, NetSpec, Padding, WeightFormat};
use serde_json::Value;
use std::path::Path;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A network without a task.
fn plain(folder: &Path) {
    let spec = NetSpec::builder(Cell::Lstm).dense(3).units([40]).outputs(2);
    let spec = spec.delay(1, Padding::Null).build().unwrap();
    Model::init(&spec, 1).unwrap().save(folder.join("m.safetensors")).unwrap();
}

#[test]
fn every_command_runs_what_it_writes() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    plain(folder);
    let x: Vec<f32> = (0..60).map(|i| (i as f32 * 0.37).sin()).collect();
    write(&folder.join("x.npy"), &[10, 2, 3], &x);
    done(folder, "run m.safetensors x.npy -o y.npy");
    let (_, expected) = read(&folder.join("y.npy"));
    for (format, far) in [("f16", 1e-3), ("bf16", 1e-2), ("int8", 3e-2)] {
        let said = done(folder, &format!("quantize m.safetensors -o s.safetensors --to {format}"));
        assert!(said.contains(&format!("weights f32 -> {format}, values changed by")), "{said}");
        let small = Model::load(folder.join("s.safetensors")).unwrap();
        assert_eq!(small.weight_format(), format.parse::<WeightFormat>().unwrap());
        done(folder, "run s.safetensors x.npy -o z.npy");
        let (_, found) = read(&folder.join("z.npy"));
        let error = found.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(error > 0.0 && error < far, "{format}: {error}");
        let inspected = done(folder, "inspect s.safetensors");
        assert!(inspected.contains(&format!("weights are {format}, biases f32")), "{inspected}");
        assert_eq!(json(&done(folder, "inspect s.safetensors --json"))["weights"], format);
    }
    // Other forms of it have f32 weights of the same values.
    let output = drnn(folder, "export s.safetensors --onnx s.onnx");
    assert!(text(&output.stderr).contains("weights are int8; the graph has them as f32"));
    done(folder, "run s.onnx x.npy -o o.npy");
}

#[test]
fn a_stack_is_flattened_with_f32_weights() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let spec = NetSpec::builder(Cell::Gru).dense(3).units([12, 9]).build().unwrap();
    let stack = Model::init(&spec, 1).unwrap().quantize(WeightFormat::Int8).unwrap();
    stack.save(folder.join("stack.safetensors")).unwrap();
    let output = drnn(folder, "flatten stack.safetensors -o flat.safetensors");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("weights are int8, those written are f32"));
    let flat = Model::load(folder.join("flat.safetensors")).unwrap();
    assert_eq!(flat.weight_format(), WeightFormat::F32);
}

/// A trained series, whose rows are in `data.csv`, that int8 would spoil.
fn trained(folder: &Path) {
    let mut rows = String::from("x,y\n");
    let mut before = 0.0;
    for i in 0..600 {
        let x = f64::from(i * 37 % 101) / 50.0 - 1.0;
        rows += &format!("{x:.4},{:.4}\n", 0.7 * before + 0.3 * x);
        before = x;
    }
    std::fs::write(folder.join("data.csv"), rows).unwrap();
    let train = "train series --csv data.csv --target y --net lstm --units 12 --epochs 8 --seed 1";
    done(folder, &format!("{train} --out run"));
    // A unit whose state is always 0, with weights so large that int8 rounds the others to 0.
    let mut model = Model::load(folder.join("run/model.safetensors")).unwrap();
    let mut params = model.params().to_vec();
    let start = |name: &str| model.layout().find(name).unwrap().range.start;
    let (weights, bias) = (start("weight_hh_l0"), start("bias_hh_l0"));
    (0..48).for_each(|row| params[weights + row * 12] = 50.0);
    params[bias + 36] = -200.0;
    model.set_params(&params).unwrap();
    model.save(folder.join("run/model.safetensors")).unwrap();
}

#[test]
fn quality_is_checked_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    trained(folder);
    let quantize = "quantize run/model.safetensors -o small.safetensors --to int8 --check data.csv";
    let refused = drnn(folder, quantize);
    assert_eq!(refused.status.code(), Some(1));
    let why = text(&refused.stderr);
    assert!(why.contains("mean squared error is worse by") && why.contains("--tolerance"), "{why}");
    assert!(!folder.join("small.safetensors").exists());
    let refused = drnn(folder, &format!("{quantize} --json"));
    assert_eq!(json(&text(&refused.stdout))["written"], false);

    let found = json(&done(folder, &format!("{quantize} --tolerance 1e9 --json")));
    assert_eq!(found["written"], true);
    assert_eq!(found["weights"], "int8");
    // The numbers are those of `drnn eval`.
    for (model, when) in [("run/model.safetensors", "before"), ("small.safetensors", "after")] {
        let eval = json(&done(folder, &format!("eval {model} data.csv --json")));
        assert_eq!(found["check"][0][when], eval["metrics"]["mean squared error"], "{when}");
    }
    assert_ne!(found["check"][0]["before"], found["check"][0]["after"]);
    done(folder, "predict small.safetensors data.csv -o predicted.csv");
}

#[test]
fn built_in_models_of_several_networks_become_a_quarter() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sentences = "The\tDET\nold\tADJ\nman\tNOUN\nsleeps\tVERB\n\n".repeat(3);
    std::fs::write(folder.join("words.tsv"), sentences).unwrap();
    let quantize = "quantize tagger-en -o small.safetensors --to int8 --check words.tsv --json";
    let found = json(&done(folder, quantize));
    assert_eq!(found["networks"].as_array().unwrap().len(), 2);
    let share = found["bytes"].as_f64().unwrap() / found["bytes_before"].as_f64().unwrap();
    assert!(share < 0.3, "{share}");
    assert!(done(folder, "tag small.safetensors words.tsv").contains("NOUN"));
    std::fs::write(folder.join("text.txt"), "the man who knew too much ".repeat(20)).unwrap();
    done(folder, "quantize chars-en -o chars.safetensors --to f16 --check text.txt");
    let [whole, small] = ["chars-en", "chars.safetensors"].map(|model| {
        json(&done(folder, &format!("eval {model} text.txt --json")))["metrics"].clone()
    });
    assert_eq!(whole, small); // the built-in model is stored as f16
}

#[test]
fn bad_requests_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    plain(folder);
    std::fs::write(folder.join("bad.safetensors"), [9; 40]).unwrap();
    for (arguments, expected) in [
        ("m.safetensors -o s.safetensors --to f32", "--to takes f16, bf16 or int8"),
        ("m.safetensors -o s.safetensors --to int4", "no weight format `int4`"),
        ("m.safetensors -o m.safetensors --to int8", "is an input of this command"),
        (
            "m.safetensors -o s.safetensors --to int8 --check x.csv",
            "does not say what it was trained",
        ),
        ("m.safetensors -o s.safetensors --to int8 --tolerance 1", "--check"),
        ("m.safetensors -o s.safetensors --to int8 --check a --tolerance=-1", "not negative"),
        ("m.safetensors -o no/such/s.safetensors --to int8", "cannot be written"),
        ("none.safetensors -o s.safetensors --to int8", "none.safetensors"),
        ("bad.safetensors -o s.safetensors --to int8", "bad.safetensors"),
    ] {
        let output = drnn(folder, &format!("quantize {arguments}"));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
        assert!(said.contains(expected), "{arguments}: {said}");
        assert!(!folder.join("s.safetensors").exists(), "{arguments}");
    }
    refused(folder, "quantize");
}
