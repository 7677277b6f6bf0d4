//! `drnn flatten`, `drnn unflatten`: files, text, exit codes, and nothing written where it is refused.

mod common;

use common::{done, read, write};
use drnn::{Batch, Cell, Model, NetSpec, Padding, Rows, StartState, States, Steps};
use std::path::Path;
use std::process::Command;

/// What a command says that is refused; it must leave `out.safetensors` as it was.
fn refused(folder: &Path, arguments: &str) -> String {
    std::fs::write(folder.join("out.safetensors"), "as before").unwrap();
    let said = common::refused(folder, arguments);
    assert_eq!(std::fs::read(folder.join("out.safetensors")).unwrap(), b"as before");
    said
}

fn stack(cell: Cell, units: &[usize]) -> Model {
    let spec = NetSpec::builder(cell).dense(2).units(units).outputs(3).build().unwrap();
    Model::init(&spec, 7).unwrap()
}

#[test]
fn there_and_back_is_the_same_file() {
    for cell in Cell::ALL {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        stack(cell, &[4, 3, 5]).save(at("stack.safetensors")).unwrap();
        let said = done(folder.path(), "flatten stack.safetensors -o flat.safetensors");
        assert!(said.contains("in stacked blocks"), "{said}");
        assert!(said.contains("outputs       0.0e0"), "{said}");
        assert!(said.contains("layer 2     h 0.0e0"), "{said}");
        done(folder.path(), "unflatten flat.safetensors -o back.safetensors");
        let read = |name| std::fs::read(at(name)).unwrap();
        assert_eq!(read("stack.safetensors"), read("back.safetensors"));
    }
}

#[test]
fn a_flattened_file_runs_with_its_stacks_states() {
    for units in [[4, 4, 4], [4, 2, 5]] {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let stack = stack(Cell::Lstm, &units);
        stack.save(at("stack.safetensors")).unwrap();
        done(folder.path(), "flatten stack.safetensors -o flat.safetensors");
        let x: Vec<f32> = (0..5 * 2 * 2).map(|i| (i as f32 * 0.7).sin()).collect();
        write(&at("x.npy"), &[5, 2, 2], &x);
        let total: usize = units.iter().sum();
        let shape = if units[1] == 4 { [3, 2, 4] } else { [1, 2, total as u64] };
        let values: Vec<f32> = (0..2 * total).map(|i| (i as f32).cos()).collect();
        write(&at("s.npy"), &shape, &values);
        for name in ["stack", "flat"] {
            std::fs::create_dir(at(name)).unwrap();
            let states = format!("--h0 s.npy --c0 s.npy --states {name}");
            done(folder.path(), &format!("run {name}.safetensors x.npy -o {name}.npy {states}"));
        }
        assert_eq!(read(&at("flat.npy")), read(&at("stack.npy")));
        for name in ["h.npy", "c.npy"] {
            let (found, expected) = (read(&at("flat").join(name)), read(&at("stack").join(name)));
            assert_eq!(found.0, shape);
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn a_solved_start_is_written_for_one_plain_layer() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let stack = stack(Cell::Lstm, &[4, 4]);
    stack.save(at("stack.safetensors")).unwrap();
    done(folder.path(), "flatten stack.safetensors -o flat.safetensors --start solved --states .");
    let (shape, h0) = read(&at("h0.npy"));
    let (_, c0) = read(&at("c0.npy"));
    assert_eq!(shape, [1, 1, 8]);
    // A plain layer with these weights, from that state, one step late.
    let flat = Model::load(at("flat.safetensors")).unwrap();
    let plain = NetSpec::builder(Cell::Lstm).dense(2).units([8]).outputs(3);
    let plain = plain.delay(1, Padding::Null).build().unwrap();
    let plain = Model::from_params(&plain, flat.params().to_vec()).unwrap();
    let x = [0.3, -0.2, 0.9, 0.1, -0.6, 0.8];
    let batch = Batch::dense(&x, Steps(3), Rows(1));
    let found = plain.run(&batch, Some(&States { h: h0, c: c0 })).unwrap();
    let expected = stack.run(&batch, None).unwrap();
    for (a, b) in found.values.iter().zip(&expected.values) {
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }
    assert!(
        refused(folder.path(), "flatten stack.safetensors -o out.safetensors --states .")
            .contains("--states is for --start solved")
    );
}

#[test]
fn what_is_refused_says_why_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let both = NetSpec::builder(Cell::Gru).dense(2).units([3, 3]).bidirectional().build().unwrap();
    Model::init(&both, 1).unwrap().save(at("both.safetensors")).unwrap();
    stack(Cell::RnnTanh, &[16, 16, 16]).save(at("rnn.safetensors")).unwrap();
    stack(Cell::Gru, &[4, 4]).save(at("gru.safetensors")).unwrap();
    let flat = stack(Cell::Lstm, &[4, 4, 4]).flatten(StartState::Held).unwrap();
    flat.save(at("flat.safetensors")).unwrap();
    let plain = NetSpec::builder(Cell::Lstm).dense(2).units([12]).outputs(3);
    let plain = plain.delay(2, Padding::Null).build().unwrap();
    Model::from_params(&plain, flat.params().to_vec())
        .unwrap()
        .save(at("plain.safetensors"))
        .unwrap();
    for (arguments, reason) in [
        ("flatten both.safetensors", "only forward networks can be flattened"),
        (
            "flatten rnn.safetensors --start solved",
            "no solved start for sequence 0: block 2, before step 1",
        ),
        ("flatten gru.safetensors --start solved", "cannot be inverted in closed form"),
        ("flatten flat.safetensors", "it is one layer already"),
        ("flatten rnn.safetensors --connections 0-0,1-1", "block (1, 0), from block 0 to block 1"),
        ("flatten rnn.safetensors --connections 0-0,9-1", "a connection (9, 1), but 3 blocks"),
        ("flatten missing.safetensors", "missing.safetensors: cannot be read"),
        ("unflatten flat.safetensors --units 4,8", "blocks of [4, 4, 4] begin one after another"),
        ("unflatten plain.safetensors --units 6,6", "block (0, 1), from block 1 to block 0"),
        ("unflatten plain.safetensors --units 6,5", "[6, 5] units for a layer of 12"),
        ("unflatten both.safetensors --delay 1", "both.safetensors: "),
        ("unflatten flat.safetensors --delay 3", "--delay 3, but the file says 2"),
        ("unflatten rnn.safetensors", "not one forward layer"),
        ("flatten rnn.safetensors --connections some", "expected stacked, lower, upper, all"),
    ] {
        let said = refused(folder.path(), &format!("{arguments} -o out.safetensors"));
        assert!(said.contains(reason), "{arguments}: {said}");
    }
}

#[test]
fn relaxed_files_begin_as_their_stack() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    stack(Cell::Gru, &[4, 3]).save(at("stack.safetensors")).unwrap();
    for connections in ["lower", "upper", "all", "0-0,1-0,1-1,0-1"] {
        let arguments = format!(
            "flatten stack.safetensors -o out.safetensors --connections {connections} --json"
        );
        let said: serde_json::Value =
            serde_json::from_str(&done(folder.path(), &arguments)).unwrap();
        assert!(said["largest_difference"]["answers"].as_f64().unwrap() < 1e-6, "{said}");
        let relaxed = Model::load(at("out.safetensors")).unwrap();
        assert_eq!(relaxed.spec().blocks().unwrap().widths(), [4, 3]);
    }
}

#[test]
fn what_is_read_is_not_written_over_and_folders_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    stack(Cell::Lstm, &[4, 4]).save(at("stack.safetensors")).unwrap();
    let before = std::fs::read(at("stack.safetensors")).unwrap();
    write(&at("x.npy"), &[3, 1, 2], &[0.5; 6]);
    for arguments in [
        "flatten stack.safetensors -o stack.safetensors",
        "unflatten stack.safetensors -o ./stack.safetensors",
        "run stack.safetensors x.npy -o stack.safetensors",
        "run stack.safetensors x.npy -o x.npy",
        "inspect stack.safetensors --svg stack.safetensors",
        "export stack.safetensors --onnx stack.safetensors",
    ] {
        assert!(
            refused(folder.path(), arguments).contains("is an input of this command"),
            "{arguments}"
        );
    }
    assert_eq!(std::fs::read(at("stack.safetensors")).unwrap(), before);
    done(
        folder.path(),
        "flatten stack.safetensors -o f.safetensors --start solved --states new/start",
    );
    assert!(at("new/start/h0.npy").exists());
    done(folder.path(), "run f.safetensors x.npy -o y.npy --states new/last");
    assert!(at("new/last/c.npy").exists());
    // What cannot be reached is reported with the file that requests it.
    write(&at("h0.npy"), &[2, 1, 4], &[5.0; 8]);
    let said = refused(folder.path(), "run f.safetensors x.npy -o y2.npy --h0 h0.npy");
    assert!(said.contains("h0.npy: no solved start for sequence 0: block 1"), "{said}");
    assert!(!at("y2.npy").exists());
}

#[cfg(unix)]
#[test]
fn nobody_listening_is_no_reason_not_to_write() {
    use std::process::Stdio;
    let folder = tempfile::tempdir().unwrap();
    stack(Cell::Lstm, &[4, 4]).save(folder.path().join("stack.safetensors")).unwrap();
    for (arguments, file) in [
        ("flatten stack.safetensors -o flat.safetensors", "flat.safetensors"),
        ("unflatten flat.safetensors -o back.safetensors", "back.safetensors"),
        ("reproduce theorem --layers 1 --units 2 --steps 3 --out here", "here/theorem.csv"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
        command.current_dir(folder.path()).args(arguments.split_whitespace());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        drop(child.stdout.take()); // closed before anything is said
        assert_eq!(child.wait().unwrap().code(), Some(0), "{arguments}");
        assert!(folder.path().join(file).exists(), "{arguments}");
    }
}
