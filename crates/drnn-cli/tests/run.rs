//! `drnn run`: arrays in and out, against the library and against PyTorch's own answers.

mod common;

use common::{drnn, read, text, write};
use drnn::{Batch, Cell, Model, NetSpec, Padding, Rows, States, Steps};
use std::path::Path;

/// Runs `drnn run` in a folder; what it says if it is refused.
fn run(folder: &Path, arguments: &str) -> Result<(), String> {
    let output = drnn(folder, &format!("run {arguments}"));
    match output.status.code() {
        Some(0) => Ok(()),
        Some(2) => Err(text(&output.stderr)),
        other => panic!("exit code {other:?}"),
    }
}

#[test]
fn answers_states_and_lengths_are_the_librarys() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let spec = NetSpec::builder(Cell::Lstm).dense(3).units([4, 4]).outputs(2);
    let spec = spec.delay(1, Padding::Null).build().unwrap();
    let model = Model::init(&spec, 5).unwrap();
    model.save(at("model.safetensors")).unwrap();
    let x: Vec<f32> = (0..5 * 2 * 3).map(|i| (i as f32 * 0.7).sin()).collect();
    let start = States { h: vec![0.25; 16], c: vec![-0.5; 16] };
    write(&at("x.npy"), &[5, 2, 3], &x);
    write(&at("l.npy"), &[2], &[5i64, 2]);
    write(&at("h0.npy"), &[2, 2, 4], &start.h);
    write(&at("c0.npy"), &[2, 2, 4], &start.c);
    let files = "--lengths l.npy --h0 h0.npy --c0 c0.npy --states .";
    run(folder.path(), &format!("model.safetensors x.npy -o y.npy {files}")).unwrap();
    let expected =
        model.run(&Batch::dense(&x, Steps(5), Rows(2)).lengths(&[5, 2]), Some(&start)).unwrap();
    assert_eq!(read(&at("y.npy")), (vec![5, 2, 2], expected.values));
    assert_eq!(read(&at("h.npy")), (vec![2, 2, 4], expected.last.h));
    assert_eq!(read(&at("c.npy")), (vec![2, 2, 4], expected.last.c));

    // With a projection h is narrower than c.
    let spec = NetSpec::builder(Cell::Lstm).dense(3).units([4, 4]).projection(2).build().unwrap();
    let model = Model::init(&spec, 5).unwrap();
    model.save(at("projected.safetensors")).unwrap();
    let start = States { h: vec![0.25; 8], c: vec![-0.5; 16] };
    write(&at("h0.npy"), &[2, 2, 2], &start.h);
    let files = "--h0 h0.npy --c0 c0.npy --states .";
    run(folder.path(), &format!("projected.safetensors x.npy -o y.npy {files}")).unwrap();
    let expected = model.run(&Batch::dense(&x, Steps(5), Rows(2)), Some(&start)).unwrap();
    assert_eq!(read(&at("y.npy")), (vec![5, 2, 2], expected.values));
    assert_eq!(read(&at("h.npy")), (vec![2, 2, 2], expected.last.h));
    assert_eq!(read(&at("c.npy")), (vec![2, 2, 4], expected.last.c));
    run(folder.path(), "projected.safetensors x.npy -o y.npy --c0 c0.npy").unwrap();
}

#[test]
fn tokens_of_any_integer_type() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let spec = NetSpec::builder(Cell::Gru).tokens(5, 2).units([3]).build().unwrap();
    let model = Model::init(&spec, 5).unwrap();
    model.save(at("model.safetensors")).unwrap();
    write(&at("x.npy"), &[4, 1], &[0u8, 4, 2, 1]);
    run(folder.path(), "model.safetensors x.npy -o y.npy").unwrap();
    let expected = model.run(&Batch::tokens(&[0, 4, 2, 1], Steps(4), Rows(1)), None).unwrap();
    assert_eq!(read(&at("y.npy")).1, expected.values);

    for bad in [5i64, -1, 1 << 40] {
        write(&at("x.npy"), &[2, 1], &[0, bad]);
        let error = run(folder.path(), "model.safetensors x.npy -o new.npy").unwrap_err();
        let expected = format!("x.npy: token {bad} at step 1 of sequence 0 is not from 0 to 4");
        assert!(error.contains(&expected), "{error}");
        assert!(!at("new.npy").exists());
    }
}

#[test]
fn pytorchs_file_gives_pytorchs_answers() {
    let folder = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../drnn/tests/golden");
    let file = golden.join("lstm_2x5_both_ways.safetensors");
    let bytes = std::fs::read(&file).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let floats = |name: &str| -> Vec<f32> {
        let data = tensors.tensor(name).unwrap().data();
        data.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    write(&folder.path().join("x.npy"), &[4, 2, 3], &floats("x"));
    run(folder.path(), &format!("{} x.npy -o y.npy", file.display())).unwrap();
    let (shape, y) = read(&folder.path().join("y.npy"));
    assert_eq!(shape, [4, 2, 10]);
    for (found, expected) in y.iter().zip(floats("y")) {
        assert!((found - expected).abs() < 1e-6, "{found}, expected {expected}");
    }
}

#[test]
fn a_pt_file_answers_as_the_same_weights_do() {
    let folder = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../drnn/tests/golden/pt_gru_bf16");
    write(&folder.path().join("x.npy"), &[2, 1, 2], &[0.1, 0.2, 0.3, 0.4]);
    let answers = ["pt", "safetensors"].map(|kind| {
        let model = golden.with_extension(kind);
        run(folder.path(), &format!("{} x.npy -o y.npy", model.display())).unwrap();
        read(&folder.path().join("y.npy"))
    });
    assert_eq!(answers[0].0, [2, 1, 6]);
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn bad_arrays_are_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let spec = NetSpec::builder(Cell::RnnTanh).dense(2).units([3]).build().unwrap();
    Model::init(&spec, 1).unwrap().save(at("m.safetensors")).unwrap();
    write(&at("x.npy"), &[2, 1, 2], &[0.5f32; 4]);
    write(&at("flat.npy"), &[4], &[0.5f32; 4]);
    write(&at("nan.npy"), &[2, 1, 2], &[0.5, f32::NAN, 0.5, 0.5]);
    write(&at("tokens.npy"), &[2, 1], &[1i32, 2]);
    write(&at("l.npy"), &[1], &[3i64]);
    write(&at("minus.npy"), &[1], &[-3i64]);
    write(&at("h0.npy"), &[1, 1, 3], &[0.5, 0.5, f32::INFINITY]);
    write(&at("nothing.npy"), &[0, 1 << 30, 2], &[0.0f32; 0]);
    std::fs::write(at("text.npy"), "not an array").unwrap();
    std::fs::write(at("y.npy"), "an old answer").unwrap();
    let refused = |arguments: &str| run(folder.path(), arguments).unwrap_err();
    for (arguments, expected) in [
        ("m.safetensors gone.npy", "gone.npy: cannot be read"),
        ("m.safetensors text.npy", "text.npy: is not a whole .npy file"),
        ("m.safetensors flat.npy", "flat.npy: floats of shape [4], expected floats [T, B, 2]"),
        ("m.safetensors tokens.npy", "tokens.npy: integers of shape [2, 1], expected floats"),
        ("m.safetensors nan.npy", "nan.npy: `x` holds NaN at position 1"),
        ("gone.safetensors x.npy", "gone.safetensors: cannot be read"),
        ("x.npy x.npy", "x.npy: is one NumPy array (.npy), not a model"),
        ("m.safetensors nothing.npy", "nothing.npy: floats of shape [0, 1073741824, 2], expected"),
        ("m.safetensors x.npy --h0 h0.npy", "h0.npy: `start.h` holds inf at position 2"),
        ("m.safetensors x.npy --lengths l.npy", "l.npy: length 3 of sequence 0 is more than the 2"),
        ("m.safetensors x.npy --nonlinearity relu", "m.safetensors: is drnn's own"),
        ("m.safetensors x.npy --prefix a.", "m.safetensors: is drnn's own"),
        ("m.safetensors x.npy --lengths minus.npy", "minus.npy: a length of -3"),
        ("m.safetensors x.npy --lengths x.npy", "x.npy: shape [2, 1, 2], expected integers [1]"),
        (
            "m.safetensors x.npy --h0 x.npy",
            "x.npy: floats of shape [2, 1, 2], expected floats [1, 1, 3]",
        ),
        ("m.safetensors x.npy --c0 x.npy", "has no cell state"),
    ] {
        let found = refused(&format!("{arguments} -o y.npy"));
        assert!(found.contains(expected), "{found:?}, expected {expected:?}");
        assert_eq!(std::fs::read(at("y.npy")).unwrap(), b"an old answer");
    }
    let found = refused("m.safetensors x.npy -o nowhere/y.npy --states .");
    assert!(found.contains("nowhere/y.npy: cannot be written: "), "{found}");
    assert!(!found.contains(".tmp"), "{found}");
    assert!(!at("h.npy").exists());
    let found = refused("m.safetensors x.npy -o s/h.npy --states s");
    assert!(found.contains("both -o and --states write to it"), "{found}");
}
