//! Checkpoints that are damaged or missing, and folders that are in use.

#![cfg(unix)] // trainings are stopped by signals

mod common;

use common::{done, drnn, refused, text};
use serde_json::Value;
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A training whose best epoch is not its last.
const TRAIN: &str = "train series --csv a.csv --target y --delay 1 --units 8 --window 20 --batch 4 \
    --rate 0.1 --schedule constant --threads 1 --checkpoint-every 0 --epochs 6";

/// One that takes longer, and becomes better for some epochs.
const LONGER: &str = "train series --csv a.csv --target y --delay 1 --units 64 --window 50 --batch 8 \
    --rate 0.01 --threads 1 --epochs 6";

fn table(folder: &Path, rows: usize) {
    let noise = |i: usize| ((i as f64 * 12.9898).sin() * 43758.5453).rem_euclid(1.0);
    let mut out = String::from("x,y\n");
    for t in 0..rows {
        writeln!(out, "{:.5},{:.5}", noise(t), noise(t) + noise(t + 1)).unwrap();
    }
    std::fs::write(folder.join("a.csv"), out).unwrap();
}

/// Starts the program, and returns when it has said `what` on stderr.
fn start(folder: &Path, arguments: &str, what: &str) -> Child {
    let mut child = Command::new(env!("CARGO_BIN_EXE_drnn"))
        .current_dir(folder)
        .args(arguments.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut said = String::new();
    while !said.contains(what) {
        said += &lines.next().unwrap_or_else(|| panic!("ended: {said}")).unwrap();
    }
    // What it says from now on is read too, or it would fail to say it.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// As Ctrl-C does: it writes a checkpoint and ends, unless it has come to its end.
fn interrupt(mut child: Child) {
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    child.wait().unwrap();
}

fn damage(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// A copy of `out` with other checkpoints.
fn copy(folder: &Path, out: &str, to: &str) -> PathBuf {
    let to = folder.join(to).join("checkpoints");
    std::fs::create_dir_all(&to).unwrap();
    for entry in std::fs::read_dir(folder.join(out).join("checkpoints")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
    to
}

fn model(folder: &Path, out: &str) -> Vec<u8> {
    std::fs::read(folder.join(out).join("model.safetensors")).unwrap()
}

fn results(folder: &Path, out: &str) -> Value {
    let text = std::fs::read_to_string(folder.join(out).join("training.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_damaged_or_missing_checkpoint_is_reported_and_the_previous_one_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    table(folder, 200);
    done(folder, &format!("{TRAIN} --out straight"));
    interrupt(start(folder, &format!("{TRAIN} --out stopped"), "epoch 3 of 6"));
    let resumed = |out: &str, change: &dyn Fn(&Path)| -> String {
        change(&copy(folder, "stopped", out));
        let output = drnn(folder, &format!("{TRAIN} --out {out} --resume"));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(model(folder, out) == model(folder, "straight"), "{out}");
        said
    };
    let said = resumed("whole", &|_| {});
    let of_checkpoints = |line: &&str| {
        (line.starts_with("note: ") || line.starts_with("warning: ")) && !line.contains("BASELINE")
    };
    assert_eq!(said.lines().find(of_checkpoints), None, "{said}");
    let said = resumed("damaged", &|at| damage(&at.join("last")));
    assert!(said.contains("warning: damaged/checkpoints/last: is damaged: "), "{said}");
    let instead = "damaged/checkpoints/last.previous is used instead, written after ";
    assert!(said.contains(instead), "{said}");
    let said = resumed("missing", &|at| std::fs::remove_file(at.join("last")).unwrap());
    let instead = "last: is missing; missing/checkpoints/last.previous is used instead";
    assert!(said.contains(instead), "{said}");
    let said = resumed("empty", &|at| std::fs::write(at.join("last"), "").unwrap());
    assert!(said.contains("warning: empty/checkpoints/last: is damaged: "), "{said}");
    let both = |at: &Path, change: &dyn Fn(&Path)| {
        ["last", "last.previous"].iter().for_each(|name| change(&at.join(name)));
    };
    let said = resumed("neither", &|at| both(at, &|path| std::fs::remove_file(path).unwrap()));
    let expected = "neither/checkpoints/last: is missing; this training starts from the beginning";
    assert!(said.contains(expected), "{said}");
    let said = resumed("none", &|at| {
        std::fs::remove_dir_all(at).unwrap();
        std::fs::create_dir(at).unwrap();
    });
    assert!(said.contains("none/checkpoints: has no checkpoints; starting from"), "{said}");
    // What an interrupted write has left is removed.
    resumed("unfinished", &|at| {
        ["last.new", "best.new", ".tmpAb12Cd"].iter().for_each(|name| write_half(&at.join(name)));
    });
    let names = std::fs::read_dir(folder.join("unfinished/checkpoints")).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["best", "best.previous", "last", "last.previous"]);

    let at = copy(folder, "stopped", "lost");
    both(&at, &damage);
    let before = ["last", "last.previous"].map(|name| std::fs::read(at.join(name)).unwrap());
    let said = refused(folder, &format!("{TRAIN} --out lost --resume"));
    assert!(said.contains("lost/checkpoints/last: is damaged: "), "{said}");
    assert!(said.contains("lost/checkpoints/last.previous: is damaged: "), "{said}");
    let help =
        "remove both files to start this training from the beginning, or choose another --out";
    assert!(said.contains(help), "{said}");
    assert!(before == ["last", "last.previous"].map(|name| std::fs::read(at.join(name)).unwrap()));
}

/// More epochs continue a finished training; other options are refused with the one that differs.
#[test]
fn a_finished_training_goes_on_and_keeps_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    table(folder, 200);
    done(folder, &format!("{TRAIN} --out a"));
    let seconds = |out| results(folder, out)["provenance"]["seconds"].as_f64().unwrap();
    // As if it had taken an hour.
    let log = folder.join("a/log.jsonl");
    let text_of = std::fs::read_to_string(&log).unwrap();
    let last = text_of.lines().next_back().unwrap();
    let mut line: Value = serde_json::from_str(last).unwrap();
    line["wall_seconds"] = 3600.0.into();
    std::fs::write(&log, text_of.replace(last, &line.to_string())).unwrap();
    done(folder, &format!("{TRAIN} --out a --resume"));
    assert!((3600.0..3660.0).contains(&seconds("a")));

    let nine = TRAIN.replace("--epochs 6", "--epochs 9");
    done(folder, &format!("{nine} --out nine"));
    done(folder, &format!("{nine} --out a --resume"));
    assert!(model(folder, "a") == model(folder, "nine"));
    assert_eq!(results(folder, "a")["history"], results(folder, "nine")["history"]);

    let said = refused(folder, &format!("{TRAIN} --out a --resume"));
    assert!(said.contains("has 9 epochs already, more than --epochs 6"), "{said}");
    let other = nine.replace("--units 8", "--units 9");
    let said = refused(folder, &format!("{other} --out a --resume"));
    assert!(said.contains("another training: --units 9, but the checkpoint has 8\n"), "{said}");

    let cosine = TRAIN.replace("constant", "cosine");
    done(folder, &format!("{cosine} --out cosine"));
    let more = cosine.replace("--epochs 6", "--epochs 12");
    let output = drnn(folder, &format!("{more} --out cosine --resume"));
    let said = text(&output.stderr);
    let expected = "the cosine schedule spans 12 epochs from now on: the learning rate goes on at";
    assert!(said.contains(expected), "{said}");
    assert_eq!(results(folder, "cosine")["history"].as_array().unwrap().len(), 12);
}

/// Files that may not become as large as a checkpoint stand for a disk that is full.
#[test]
fn a_checkpoint_that_cannot_be_written_ends_the_training_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    table(folder, 200);
    done(folder, &format!("{TRAIN} --out straight"));
    interrupt(start(folder, &format!("{TRAIN} --out full"), "epoch 3 of 6"));
    let files = || -> Vec<(PathBuf, Vec<u8>)> {
        let entries = std::fs::read_dir(folder.join("full/checkpoints")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut files: Vec<_> =
            paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
        files.sort();
        files
    };
    let before = files();
    let limited = "trap '' XFSZ; ulimit -f 4; exec \"$0\" \"$@\"";
    let output = Command::new("sh")
        .current_dir(folder)
        .args(["-c", limited, env!("CARGO_BIN_EXE_drnn")])
        .args(format!("{TRAIN} --out full --resume").split_whitespace())
        .output()
        .unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("full/checkpoints/last: cannot be written: File too large"), "{said}");
    assert!(said.contains("to continue: drnn train series"), "{said}");
    assert!(files() == before);
    done(folder, &format!("{TRAIN} --out full --resume"));
    assert!(model(folder, "full") == model(folder, "straight"));
}

fn write_half(path: &Path) {
    std::fs::write(path, "half").unwrap();
}

/// Never another model without a word: stderr and report say which epoch's it is, and why.
#[test]
fn a_best_model_that_is_lost_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    table(folder, 200);
    done(folder, &format!("{TRAIN} --out a"));
    let straight = results(folder, "a");
    let kept = straight["kept_epoch"].as_u64().unwrap();
    let loss = |epoch: u64| straight["history"][epoch as usize - 1]["valid_loss"].as_f64().unwrap();
    assert!(kept > 1 && kept < 6 && straight["notes"] == Value::Array(vec![]));

    let lost = |out: &str, change: &dyn Fn(&Path)| -> (String, Value) {
        change(&copy(folder, "a", out));
        let output = drnn(folder, &format!("{TRAIN} --out {out} --resume"));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        let found = results(folder, out);
        let epoch = found["kept_epoch"].as_u64().unwrap();
        assert!(epoch != kept && loss(epoch) > loss(kept));
        let expected = format!(
            "the model is that of epoch {epoch}, the best one, of epoch {kept}, is lost: \
             {out}/checkpoints/best: is "
        );
        let notes = found["notes"].as_array().unwrap();
        assert!(notes[0].as_str().unwrap().starts_with(&expected), "{notes:?}");
        assert!(said.contains(&format!("warning: {expected}")), "{said}");
        let page = std::fs::read_to_string(folder.join(out).join("report.md")).unwrap();
        assert!(page.contains("is lost: "), "{page}");
        (said, found)
    };
    let (said, found) = lost("damaged", &|at| damage(&at.join("best")));
    assert!(said.contains("damaged/checkpoints/best.previous is used instead"), "{said}");
    // The better one of those that are left.
    let best_before = (1..kept).min_by(|a, b| loss(*a).total_cmp(&loss(*b))).unwrap();
    let left = if loss(6) < loss(best_before) { 6 } else { best_before };
    assert_eq!(found["kept_epoch"], left);
    let (_, found) = lost("both", &|at| {
        damage(&at.join("best"));
        std::fs::remove_file(at.join("best.previous")).unwrap();
    });
    assert_eq!(found["kept_epoch"], 6);
    // It stays said when the training is resumed once more.
    done(folder, &format!("{TRAIN} --out both --resume"));
    let again = results(folder, "both");
    assert_eq!(again["kept_epoch"], 6);
    let note = again["notes"][0].as_str().unwrap();
    assert!(
        note.ends_with("is lost: both/checkpoints/best: was damaged or missing before"),
        "{note}"
    );
}

#[test]
fn a_lost_model_that_is_not_the_best_in_the_end_is_no_loss() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    table(folder, 4000);
    done(folder, &format!("{LONGER} --out straight"));
    for attempt in 0.. {
        assert!(attempt < 20, "it always ends before it can be stopped");
        let out = format!("stopped{attempt}");
        interrupt(start(folder, &format!("{LONGER} --out {out}"), "epoch 1 of 6"));
        if !folder.join(&out).join("training.json").exists() {
            damage(&copy(folder, &out, "early").join("best"));
            break;
        }
    }
    let output = drnn(folder, &format!("{LONGER} --out early --resume"));
    let said = text(&output.stderr);
    assert!(said.contains("warning: early/checkpoints/best: is damaged"), "{said}");
    assert!(said.contains("warning: the model of epoch "), "{said}");
    assert!(model(folder, "early") == model(folder, "straight"));
    assert_eq!(results(folder, "early")["notes"], Value::Array(vec![]));
}

#[test]
fn a_folder_in_use_is_refused_until_its_training_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    table(folder, 200);
    let endless = TRAIN.replace("--epochs 6", "--epochs 1000000");
    let sweep = "sweep reversal --epochs 1000000 --steps 6 --delays 0 --nets dlstm --units 4";
    let sine = "reproduce sine --cells 0.5:5 --nets lstm --epochs 100000 --sequences 2000";
    for (out, command, ready) in [
        ("a", endless.as_str(), "up to"),
        ("b", sweep, "up to"),
        ("c", sine, "differs from the paper"),
    ] {
        let command = format!("{command} --out {out}");
        for resume in ["", "--resume"] {
            let child = start(folder, &format!("{command} {resume}"), ready);
            let said = refused(folder, &format!("{command} --resume"));
            let expected = format!(
                "{out}: is in use by another drnn training (process {}); wait until it ends, \
                 or choose another --out",
                child.id()
            );
            assert!(said.contains(&expected), "{said}");
            kill(child); // which leaves nothing that would keep others out
        }
    }
}

/// A checkpoint that an earlier version of the program wrote after the first of two epochs. Its first
/// loss is in the results, so that epoch was not trained again.
#[test]
fn a_tagger_of_an_earlier_version_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tagger-checkpoint");
    std::fs::create_dir_all(folder.path().join("out/checkpoints")).unwrap();
    let copies = [("last", "out/checkpoints/last"), ("last", "out/checkpoints/best")];
    for (from, to) in copies.into_iter().chain([("tags.conll", "tags.conll")]) {
        std::fs::copy(data.join(from), folder.path().join(to)).unwrap();
    }
    let train = "train tagger --train tags.conll --dev tags.conll --char-units 6 --word-units 6 \
        --symbol-width 4 --vector-width 4 --epochs 2 --batch 32 --threads 2 --out out --resume --json";
    let output = drnn(folder.path(), train);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let of_the_checkpoint = said.replace("warning: NO BETTER THAN A BASELINE", "");
    assert!(!of_the_checkpoint.contains("warning:") && !said.contains("epoch 1 of 2"), "{said}");
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let history = results["history"].as_array().unwrap();
    assert_eq!(history.len(), 2);
    assert_eq!(history[0]["valid_loss"].as_f64(), Some(1.1020517839325799));
}
