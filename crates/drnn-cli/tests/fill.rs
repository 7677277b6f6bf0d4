//! `drnn fill`: answers on a pipe, what is written, what is refused.

mod common;

use common::{done, drnn, refused, text};
use drnn::{Cell, Model, NetSpec, Padding};
use drnn_tasks::chars::Alphabet;
use drnn_tasks::chars::CharTask;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A model that has learned nothing.
fn write_model(path: &Path, delay: usize, both_ways: bool) {
    let builder = NetSpec::builder(Cell::Gru).tokens(4, 3).units([5]).outputs(3);
    let builder = builder.delay(delay, Padding::LookAhead);
    let builder = if both_ways { builder.bidirectional() } else { builder };
    let task = CharTask::new(Alphabet::new("ab ".chars().collect()).unwrap(), 20, 0.2);
    let model = task.put_into(Model::init(&builder.build().unwrap(), 2).unwrap()).unwrap();
    model.save(path).unwrap();
}

fn start(folder: &Path, arguments: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
    command.current_dir(folder).args(arguments.split_whitespace());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// With `input` on stdin.
fn fill(folder: &Path, arguments: &str, input: &[u8]) -> Output {
    let mut child = start(folder, arguments);
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

/// A running program, its output as it comes.
struct Live {
    child: Child,
    stdin: Option<ChildStdin>,
    output: Receiver<u8>,
}

impl Live {
    fn new(folder: &Path, arguments: &str) -> Live {
        let mut child = start(folder, arguments);
        let mut stdout = child.stdout.take().unwrap();
        let (to, output) = channel();
        std::thread::spawn(move || {
            let mut byte = [0];
            while stdout.read_exact(&mut byte).is_ok() && to.send(byte[0]).is_ok() {}
        });
        Live { stdin: child.stdin.take(), child, output }
    }

    fn write(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// The next `count` bytes; the time limit only ends a test that hangs.
    fn read(&self, count: usize) -> String {
        let byte = |_| self.output.recv_timeout(Duration::from_secs(300)).expect("more output");
        String::from_utf8((0..count).map(byte).collect()).unwrap()
    }

    /// That nothing more has come.
    fn is_silent(&self) -> bool {
        self.output.recv_timeout(Duration::from_millis(150)).is_err()
    }

    fn end(mut self) -> String {
        self.stdin = None;
        assert!(self.child.wait().unwrap().success());
        String::from_utf8(self.output.iter().collect()).unwrap()
    }
}

#[test]
fn answers_on_a_pipe_come_as_late_as_the_delay() {
    let folder = tempfile::tempdir().unwrap();
    write_model(&folder.path().join("late"), 3, false);
    let mut live = Live::new(folder.path(), "fill late");
    live.write("ab");
    assert_eq!(live.read(2), "ab"); // nothing to wait for
    live.write("_ a");
    assert!(live.is_silent()); // two of three that it looks ahead at
    live.write("b");
    let filled = live.read(4);
    assert!(filled.ends_with(" ab") && !filled.starts_with('_'), "{filled}");
    live.write("[MA");
    assert!(live.is_silent()); // this may become a mask
    live.write("x");
    assert_eq!(live.read(4), "[MAx");
    live.write("_");
    assert!(live.is_silent());
    assert_eq!(live.end().len(), 1); // at the end all is answered

    write_model(&folder.path().join("once"), 0, false);
    let mut live = Live::new(folder.path(), "fill once");
    live.write("_");
    assert_ne!(live.read(1), "_");
    let (first, second) = "€".as_bytes().split_at(1); // a character in two writes
    for part in [first, second] {
        live.stdin.as_mut().unwrap().write_all(part).unwrap();
    }
    assert_eq!(live.read(3), "€");
    assert_eq!(live.end(), "");

    write_model(&folder.path().join("both"), 0, true);
    let mut live = Live::new(folder.path(), "fill both");
    live.write("a_b");
    live.read(1);
    assert!(live.is_silent());
    live.write("\n");
    assert!(live.read(3).ends_with("b\n"));
    live.end();
}

#[test]
fn in_pieces_or_whole_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_model(&folder.join("late"), 3, false);
    let input = "A_b €_\nab[MASK]\n".repeat(50) + "_";
    let filled = text(&fill(folder, "fill late", input.as_bytes()).stdout);
    assert_eq!(filled.chars().count(), (input.replace("[MASK]", "_")).chars().count());
    assert!(!filled.contains('_') && filled.starts_with('A') && filled.contains(" €"), "{filled}");
    std::fs::write(folder.join("text"), &input).unwrap();
    assert_eq!(done(folder, "fill late text"), filled);
    // Every line for itself, as if it were alone.
    let lines = text(&fill(folder, "fill late --lines", b"a_b\na_b\n").stdout);
    let alone = text(&fill(folder, "fill late", b"a_b\n").stdout);
    assert_eq!(lines, alone.repeat(2));
    assert_eq!(fill(folder, "fill late", b"").stdout, b"");
    let long = "ab_".repeat(10_000); // longer than what is read as a whole
    assert_eq!(fill(folder, "fill late --lines", long.as_bytes()).stdout.len(), long.len());
}

#[test]
fn alternatives_with_their_probabilities() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_model(&folder.join("late"), 3, false);
    let said = text(&fill(folder, "fill late --alternatives 2", b"a\nb[MASK]b_").stdout);
    let lines: Vec<Vec<&str>> = said.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!((lines[0][0], lines[0].len(), lines[1][0]), ("2:2", 3, "2:4"), "{said}");
    let output = fill(folder, "fill late --json --alternatives 9 --mask-text ?", b"_?");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["line"], &json["column"]), (&1.into(), &2.into()));
    let all = json["alternatives"].as_array().unwrap();
    let sum: f64 = all.iter().map(|x| x["probability"].as_f64().unwrap()).sum();
    assert!(all.len() == 3 && (sum - 1.0).abs() < 1e-9, "{json}");
    assert_eq!(all[0]["character"], json["character"]);
}

#[test]
fn what_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_model(&folder.join("late"), 3, false);
    // What came before a bad byte is still answered.
    let output = fill(folder, "fill late", "aé_b\u{1d11e}".as_bytes().split_last().unwrap().1);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 5));
    let said = text(&output.stderr);
    assert!(said.contains("stdin: byte 5 (counted from 0) is not UTF-8"), "{said}");
    done(folder, "init --net lstm --units 3 -o plain.safetensors");
    let said = refused(folder, "fill plain.safetensors");
    assert!(said.contains("plain.safetensors: the model has no task"), "{said}");
    std::fs::write(folder.join("text"), "no model but a text").unwrap();
    assert!(refused(folder, "fill text").contains("drnn fill < text"));
    assert!(refused(folder, "fill late nowhere").contains("nowhere: cannot be read"));
    assert!(refused(folder, "fill late --mask-text _ --mask-text __").contains("begins with"));
    assert!(refused(folder, "fill late --alternatives 0").contains("0 is not in 1"));
    let output = drnn(folder, "fill --help");
    assert!(text(&output.stdout).contains("[default: chars-en]"));
}

#[test]
fn the_model_that_is_built_in() {
    let folder = tempfile::tempdir().unwrap();
    let input = "Th_ history of the Unit_d States of Ameri_a";
    let filled = text(&fill(folder.path(), "fill", input.as_bytes()).stdout);
    assert_eq!(filled, "The history of the United States of America");
    // The first thing that people try.
    for (holes, expected) in [
        ("th_ quick br_wn f_x", "the quick brown fox"),
        (
            "The qu_ck br_wn f_x jumps ov_r the l_zy dog.",
            "The quick brown fox jumps over the lazy dog.",
        ),
    ] {
        let filled = text(&fill(folder.path(), "fill", holes.as_bytes()).stdout);
        assert_eq!(filled, expected);
    }
}
