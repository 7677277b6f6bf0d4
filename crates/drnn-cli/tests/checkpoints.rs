//! Checkpoints that are damaged or missing, and folders that are in use.

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

fn table(folder: &Path) {
    let noise = |i: usize| ((i as f64 * 12.9898).sin() * 43758.5453).rem_euclid(1.0);
    let mut out = String::from("x,y\n");
    for t in 0..200 {
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
fn a_damaged_or_missing_checkpoint_is_told_and_the_one_before_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    table(folder);
    done(folder, &format!("{TRAIN} --out straight"));
    kill(start(folder, &format!("{TRAIN} --out killed"), "epoch 3 of 6"));
    let resumed = |out: &str, change: &dyn Fn(&Path)| -> String {
        change(&copy(folder, "killed", out));
        let output = drnn(folder, &format!("{TRAIN} --out {out} --resume"));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(model(folder, out) == model(folder, "straight"), "{out}");
        said
    };
    let said = resumed("whole", &|_| {});
    assert!(!said.contains("note: "), "{said}");
    let said = resumed("damaged", &|at| damage(&at.join("last")));
    assert!(said.contains("note: damaged/checkpoints/last: is damaged: "), "{said}");
    let instead = "damaged/checkpoints/last.previous is used instead, written after ";
    assert!(said.contains(instead), "{said}");
    let said = resumed("missing", &|at| std::fs::remove_file(at.join("last")).unwrap());
    let instead = "last: is missing; missing/checkpoints/last.previous is used instead";
    assert!(said.contains(instead), "{said}");
    let said = resumed("empty", &|at| std::fs::write(at.join("last"), "").unwrap());
    assert!(said.contains("note: empty/checkpoints/last: is damaged: "), "{said}");
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
    assert!(said.contains("none/checkpoints: holds no checkpoints; starting from"), "{said}");
    // What an interrupted write has left is removed.
    resumed("unfinished", &|at| {
        ["last.new", "best.new", ".tmpAb12Cd"].iter().for_each(|name| damage_new(&at.join(name)));
    });
    let names = std::fs::read_dir(folder.join("unfinished/checkpoints")).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["best", "best.previous", "last", "last.previous"]);

    let at = copy(folder, "killed", "lost");
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

fn damage_new(path: &Path) {
    std::fs::write(path, "half").unwrap();
}

/// Never another model without a word: stderr and report say which epoch's it is, and why.
#[test]
fn a_best_model_that_is_lost_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    table(folder);
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
            "the model is that of epoch {epoch}, the best one, of epoch {kept}, is lost: {out}/checkpoints/best: is "
        );
        let notes = found["notes"].as_array().unwrap();
        assert!(notes[0].as_str().unwrap().starts_with(&expected), "{notes:?}");
        assert!(said.contains(&format!("note: {expected}")), "{said}");
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
    // Where an epoch to come is better than all that went before, nothing is lost.
    kill(start(folder, &format!("{TRAIN} --out killed"), "epoch 1 of 6"));
    damage(&copy(folder, "killed", "early").join("best"));
    done(folder, &format!("{TRAIN} --out early --resume"));
    assert!(model(folder, "early") == model(folder, "a"));
    assert_eq!(results(folder, "early")["notes"], straight["notes"]);
}

#[test]
fn a_folder_in_use_is_refused_until_its_training_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    table(folder);
    let endless = TRAIN.replace("--epochs 6", "--epochs 1000000");
    let sweep = "sweep reversal --epochs 1000000 --steps 6 --delays 0 --nets dlstm --units 4";
    let sine = "reproduce sine --cells 0.5:5 --nets lstm --epochs 100000 --sequences 2000";
    for (out, command, ready) in
        [("a", endless.as_str(), "up to"), ("b", sweep, "up to"), ("c", sine, "not the paper's")]
    {
        let command = format!("{command} --out {out}");
        for resume in ["", "--resume"] {
            let child = start(folder, &format!("{command} {resume}"), ready);
            let said = refused(folder, &format!("{command} --resume"));
            let expected = format!(
                "{out}: is in use by another drnn training (process {}); wait until it ends, or choose another --out",
                child.id()
            );
            assert!(said.contains(&expected), "{said}");
            kill(child); // which leaves nothing that would keep others out
        }
    }
}
