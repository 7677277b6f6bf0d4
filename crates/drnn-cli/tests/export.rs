//! `drnn export`: text, JSON, exit codes, and what is left alone where it fails.

use drnn::onnx::GraphKind;
use drnn::{Cell, Import, Model, NetSpec, Padding};
use std::path::Path;
use std::process::Command;

/// Runs `drnn export` in a folder: what it prints, or what it says if it is refused.
fn export(folder: &Path, arguments: &str) -> Result<String, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
    command.arg("export").args(arguments.split_whitespace()).current_dir(folder);
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    match output.status.code() {
        Some(0) => Ok(text(output.stdout)),
        Some(2) => {
            assert!(output.stdout.is_empty(), "{arguments}");
            Err(text(output.stderr))
        }
        other => panic!("exit code {other:?}"),
    }
}

/// A folder with a delayed model and a bidirectional one.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let delayed = NetSpec::builder(Cell::Lstm).tokens(9, 3).units([4]).outputs(2);
    let delayed = delayed.delay(2, Padding::Null).build().unwrap();
    let both = NetSpec::builder(Cell::Gru).dense(3).units([4, 5]).bidirectional().build().unwrap();
    for (name, spec) in [("delayed", delayed), ("both", both)] {
        let path = folder.path().join(name).with_extension("safetensors");
        Model::init(&spec, 1).unwrap().save(path).unwrap();
    }
    folder
}

#[test]
fn the_file_is_the_librarys_and_the_text_says_how_to_use_it() {
    let folder = folder();
    let text = export(folder.path(), "delayed.safetensors --onnx m.onnx").unwrap();
    let model = Model::load(folder.path().join("delayed.safetensors")).unwrap();
    let bytes = std::fs::read(folder.path().join("m.onnx")).unwrap();
    assert!(bytes == model.to_onnx(GraphKind::Whole).unwrap().bytes);
    let expected = format!(
        "\
m.onnx: {} bytes
dlstm(4 units, delay 2): outputs 2 steps late; 9 symbols -> 3 -> 4 -> 2; 181 parameters

in   tokens: int64 [T, B]  B sequences of symbols, 0 to 8
in   h0: float [1, B, 4]   states to start from; optional, zeros by default
in   c0: float [1, B, 4]   cell states to start from; optional, zeros by default
out  y: float [T, B, 2]    outputs for tokens
out  h: float [1, B, 4]    states after the last step, 2 after the last element
out  c: float [1, B, 4]    cell states after the last step, 2 after the last element

Whole sequences; delay and padding are in the graph.
",
        drnn::text::grouped(bytes.len())
    );
    assert_eq!(text, expected);

    let text = export(folder.path(), "delayed.safetensors --onnx s.onnx --step").unwrap();
    let bytes = std::fs::read(folder.path().join("s.onnx")).unwrap();
    assert!(bytes == model.to_onnx(GraphKind::Step).unwrap().bytes);
    for line in [
        "in   tokens: int64 [B]    B sequences of symbols, 0 to 8, one element each; 9 is the zero vector\n",
        "out  y: float [B, 2]      outputs for what was fed 2 steps before\n",
        "count for nothing; after the end feed token 9, 2 times.\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn json_lists_inputs_and_outputs() {
    let folder = folder();
    let text = export(folder.path(), "both.safetensors --onnx m.onnx --json").unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let bytes = std::fs::metadata(folder.path().join("m.onnx")).unwrap().len();
    assert_eq!((&value["file"], &value["bytes"]), (&"m.onnx".into(), &bytes.into()));
    assert_eq!((&value["kind"], &value["delay"]), (&"whole".into(), &0.into()));
    let port = &value["inputs"][2];
    assert_eq!((&port["name"], &port["type"]), (&"h0_l1".into(), &"float".into()));
    assert_eq!(port["shape"], serde_json::json!([2, "B", 5]));
    assert_eq!(value["outputs"].as_array().unwrap().len(), 3);
}

#[test]
fn pytorchs_files_are_taken_too() {
    let folder = folder();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../drnn/tests/golden");
    let file = golden.join("rnn_relu.safetensors");
    let arguments = format!("{} --onnx m.onnx --nonlinearity relu --prefix net.", file.display());
    let text = export(folder.path(), &arguments).unwrap();
    assert!(text.contains("\nrnn(5 units, relu): "), "{text}");
    let model = Model::import(&file, &Import { relu: true, ..Import::default() }).unwrap();
    let bytes = std::fs::read(folder.path().join("m.onnx")).unwrap();
    assert!(bytes == model.to_onnx(GraphKind::Whole).unwrap().bytes);
}

#[test]
fn what_is_refused_leaves_the_old_file() {
    let folder = folder();
    let path = folder.path().join("m.onnx");
    std::fs::write(&path, "an old graph").unwrap();
    std::fs::write(folder.path().join("text"), "not a model").unwrap();
    for (arguments, expected) in [
        (
            "both.safetensors --onnx m.onnx --step",
            "both.safetensors: cannot stream: a bidirectional network answers only when the",
        ),
        ("gone.safetensors --onnx m.onnx", "gone.safetensors: cannot be read"),
        ("text --onnx m.onnx", "text: is not a whole safetensors file"),
        ("both.safetensors --onnx m.onnx --prefix a.", "both.safetensors: is drnn's own"),
        ("both.safetensors --onnx nowhere/m.onnx", "nowhere/m.onnx: cannot be written: "),
        (
            "both.safetensors --onnx ./both.safetensors",
            "is an input of this command; --onnx needs another file",
        ),
        ("both.safetensors", "--onnx <F>"),
    ] {
        let found = export(folder.path(), arguments).unwrap_err();
        assert!(found.contains(expected), "{found:?}, expected {expected:?}");
        assert_eq!(std::fs::read(&path).unwrap(), b"an old graph");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
    Model::load(folder.path().join("both.safetensors")).unwrap();
}
