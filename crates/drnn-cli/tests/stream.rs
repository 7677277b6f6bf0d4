//! `drnn stream`: the answers of whole sequences, in time, whatever the model; what is refused.

mod common;

use ::drnn::{Batch, Import, Model, Rows, Steps};
use common::{done, drnn, read, text, write};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

fn start(folder: &Path, arguments: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
    command.current_dir(folder).args(arguments.split_whitespace());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Exit code, stdout, stderr.
fn fed(folder: &Path, arguments: &str, input: &[u8]) -> (Option<i32>, String, String) {
    let mut child = start(folder, arguments);
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_vec());
    // On a thread: it may have to wait for us. It may end before it has read everything.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn answers(folder: &Path, arguments: &str, input: &str) -> String {
    let (code, out, said) = fed(folder, arguments, input.as_bytes());
    assert_eq!(code, Some(0), "{arguments}: {said}");
    out
}

/// What ends with exit code 2: what was written before, and what is said.
fn refused(folder: &Path, arguments: &str, input: &[u8]) -> (String, String) {
    let (code, out, said) = fed(folder, arguments, input);
    assert_eq!(code, Some(2), "{arguments}: {said}");
    (out, said)
}

fn builtin(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("models").join(name)
}

/// A folder with models: `dense` (2 numbers, 3 late), `tokens` (5 symbols, 1 late).
fn models() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let init = |options: &str| drop(done(folder.path(), &format!("init {options}")));
    init("--net dlstm --delay 3 --units 8 --inputs 2 --outputs 2 -o dense.safetensors");
    init(
        "--net dgru --delay 1 --units 8 --symbols 5 --embedding 3 --outputs 5 -o tokens.safetensors",
    );
    init("--net bilstm --units 8 --inputs 2 -o both.safetensors");
    folder
}

fn numbers(text: &str) -> Vec<f32> {
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

#[test]
fn plain_models_answer_as_in_a_run_from_every_kind_of_text() {
    let folder = models();
    let folder = folder.path();
    let x: Vec<f32> = (0..24).map(|i| (i as f32).sin()).collect();
    write(&folder.join("x.npy"), &[12, 1, 2], &x);
    done(folder, "run dense.safetensors x.npy -o y.npy");
    let expected = read(&folder.join("y.npy")).1;
    let rows = |part: &str, around: [&str; 2]| -> String {
        let row =
            |pair: &[f32]| format!("{}{}{part}{}{}\n", around[0], pair[0], pair[1], around[1]);
        x.chunks(2).map(row).collect()
    };
    for (from, text) in [
        ("", rows(" ", ["", ""])),
        ("--from lines", rows(" , ", [" ", "\r"])),
        ("--from csv", rows(",", ["\n", ""])),
        ("--from json", rows(", ", ["[", "]"])),
    ] {
        let out = answers(folder, &format!("stream dense.safetensors {from}"), &text);
        assert_eq!(numbers(&out), expected, "{from}");
        assert_eq!(out.lines().count(), 12);
    }
    let json = answers(folder, "stream dense.safetensors --to json", &rows(" ", ["", ""]));
    for (t, line) in json.lines().enumerate() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["position"], t);
        let found: Vec<f32> = value["values"]
            .as_array()
            .unwrap()
            .iter()
            .map(|y| y.as_f64().unwrap() as f32)
            .collect();
        assert_eq!(found, expected[2 * t..][..2]);
    }
    let tokens = [1i64, 4, 0, 2, 2, 3];
    write(&folder.join("t.npy"), &[6, 1], &tokens);
    done(folder, "run tokens.safetensors t.npy -o y.npy");
    let expected = read(&folder.join("y.npy")).1;
    for (from, text) in [
        ("lines", "1\n4\n0\n2\n2\n3"),
        ("tokens", "1 4 0\n 2\t2 3"),
        ("json", "1\n4\n0\n2\n2\n3\n"),
    ] {
        let out = answers(folder, &format!("stream tokens.safetensors --from {from}"), text);
        assert_eq!(numbers(&out), expected, "{from}");
    }
}

/// A file of PyTorch says neither which activation its RNN has nor, where it holds more, which part
/// is meant.
#[test]
fn files_of_pytorch_stream_as_they_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../drnn/tests/golden");
    for name in ["rnn_relu.safetensors", "pt_rnn_prefix.pt"] {
        std::fs::copy(golden.join(name), folder.join(name)).unwrap();
    }
    let relu = "rnn_relu.safetensors --nonlinearity relu";
    let q = Model::import(folder.join("rnn_relu.safetensors"), &Import::default());
    let q = q.unwrap().spec().input().width();
    let x: Vec<f32> = (0..9 * q).map(|i| (i as f32).sin()).collect();
    write(&folder.join("x.npy"), &[9, 1, q as u64], &x);
    let lines: String = x.chunks(q).map(|row| format!("{}\n", serde_json::json!(row))).collect();
    let run = |options: &str| {
        done(folder, &format!("run {options} x.npy -o y.npy"));
        read(&folder.join("y.npy")).1
    };
    let stream = |options: &str| {
        let (code, out, said) =
            fed(folder, &format!("stream {options} --from json"), lines.as_bytes());
        assert_eq!(code, Some(0), "{options}: {said}");
        (numbers(&out), said)
    };
    let note =
        "note: rnn_relu.safetensors: a plain RNN, read as one with tanh; --nonlinearity relu";
    let (found, said) = stream(relu);
    assert_eq!(found, run(relu));
    assert!(!said.contains("plain RNN") && said.contains("relu"), "{said}");
    let (tanh, said) = stream("rnn_relu.safetensors");
    assert_ne!(tanh, found);
    assert!(said.contains(note), "{said}");
    let (same, said) = stream("rnn_relu.safetensors --nonlinearity tanh");
    assert!(same == tanh && !said.contains("plain RNN"), "{said}");
    for command in ["run rnn_relu.safetensors x.npy -o y.npy", "inspect rnn_relu.safetensors"] {
        assert!(text(&drnn(folder, command).stderr).contains(note), "{command}");
    }
    // drnn's own files say it themselves.
    done(folder, &format!("init --net rnn --units 3 --inputs {q} -o own.safetensors"));
    let (_, said) = stream("own.safetensors");
    assert!(!said.contains("note:"), "{said}");
    for options in ["own.safetensors --nonlinearity relu", "own.safetensors --prefix a."] {
        let (_, said) = refused(folder, &format!("stream {options}"), b"");
        assert!(said.contains("is drnn's own"), "{options}: {said}");
    }
    let tagger = format!("{} --prefix a.", builtin("tagger-en.safetensors").display());
    let (_, said) = refused(folder, &format!("stream {tagger}"), b"");
    assert!(said.contains("is drnn's own"), "{said}");
    let (_, said) = refused(folder, "stream pt_rnn_prefix.pt --prefix none.", b"");
    assert!(said.contains("no recurrent network has the prefix `none.`"), "{said}");
}

#[test]
fn sequences_end_at_blank_lines_where_that_is_said() {
    let folder = models();
    let stream = |flush: &str, text: &str| {
        answers(folder.path(), &format!("stream tokens.safetensors {flush}"), text)
    };
    let (a, b) = (stream("", "1\n2\n3\n"), stream("", "4\n0\n"));
    assert_eq!(stream("--flush blank", "\n1\n2\n3\n\n\n4\n0\n"), format!("{a}\n{b}"));
    assert_eq!(stream("--flush blank --from tokens", "1 2 3\n\n 4\n0"), format!("{a}\n{b}"));
    assert_eq!(stream("", "1\n\n2\n3\n"), a, "passed over");
    let never = stream("--flush never", "1\n2\n3\n");
    assert!(a.starts_with(&never) && never.lines().count() == 2, "the last is due for ever");
    assert_eq!(stream("--flush blank", ""), "");
}

#[test]
fn a_series_by_the_names_of_its_columns() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut csv = String::from("id,x,z,y\n");
    for t in 0..400 {
        let x = |t: usize| (t as f64 * 0.9).sin();
        csv += &format!("s{},{:.4},{},{:.4}\n", t / 20, x(t), t % 7, 50.0 + 9.0 * x(t + 2));
    }
    std::fs::write(folder.join("a.csv"), &csv).unwrap();
    done(
        folder,
        "train series --csv a.csv --target y --sequence id --net dgru --delay 2 --units 8 --epochs 3 --threads 1",
    );
    // By hand: scaled, run whole, each sequence alone, and back.
    let model = Model::load(folder.join("out/series/model.safetensors")).unwrap();
    let task = model.task().unwrap();
    let scale = |of: &str, what: &str, i: usize| task["scaling"][of][what][i].as_f64().unwrap();
    let rows: Vec<Vec<&str>> =
        csv.lines().skip(1).take(40).map(|line| line.split(',').collect()).collect();
    let mut expected = Vec::new();
    for sequence in rows.chunks(20) {
        let scaled = |row: &Vec<&str>, i: usize| {
            let x: f32 = row[i + 1].parse().unwrap();
            ((f64::from(x) - scale("inputs", "mean", i)) / scale("inputs", "sd", i)) as f32
        };
        let x: Vec<f32> =
            sequence.iter().flat_map(|row| [scaled(row, 0), scaled(row, 1)]).collect();
        let run = model.run(&Batch::dense(&x, Steps(20), Rows(1)), None).unwrap();
        let back =
            |y: &f32| scale("targets", "mean", 0) + scale("targets", "sd", 0) * f64::from(*y);
        expected.extend(run.values.iter().map(back));
    }
    let stream = "stream out/series/model.safetensors";
    let input: String = csv.lines().take(41).map(|line| format!("{line}\n")).collect();
    let out = answers(folder, stream, &input);
    let found: Vec<f64> = out.split_whitespace().map(|y| y.parse().unwrap()).collect();
    assert_eq!(found, expected);
    // Columns in another order, some more, no target: the same.
    let moved: String = rows.iter().map(|r| format!("{},more,{},{}\n", r[2], r[1], r[0])).collect();
    assert_eq!(answers(folder, stream, &format!("z,w,x,id\n{moved}")), out);
    let json: String =
        rows.iter().map(|r| format!("{{\"z\": {}, \"x\": {}}}\n", r[2], r[1])).take(20).collect();
    let named = answers(folder, &format!("{stream} --from json --to json"), &json);
    let first: serde_json::Value = serde_json::from_str(named.lines().next().unwrap()).unwrap();
    assert_eq!(first["values"]["y"].as_f64(), Some(expected[0]));
    for (input, why) in [
        ("x,y\n", "standard input:1: has no column `z`"),
        ("x,z\n1,2\n\n1\n", "standard input:4: the row has 1 columns"),
        ("x,z\n1,2\n1,?\n", "standard input:3: column `z`: `?` is not a number"),
        ("x,z\n1,2\n1,\n", "standard input:3: element 1: column `z` is missing"),
    ] {
        let said = refused(folder, stream, input.as_bytes()).1;
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn characters_as_fill_and_words_as_tag() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let chars = format!("stream {}", builtin("chars-en.safetensors").display());
    let text = "Th_ old m[MASK]n\nliv_s in P_ris;\n\nand _ot in Rome.";
    assert_eq!(answers(folder, &chars, text), answers(folder, "fill", text));
    // Each paragraph alone, with all lines as they were.
    let parts: String = text
        .split("\n\n")
        .enumerate()
        .map(|(i, part)| {
            let (part, gap) = if i == 0 { (format!("{part}\n"), "\n") } else { (part.into(), "") };
            answers(folder, "fill", &part) + gap
        })
        .collect();
    assert_eq!(answers(folder, &format!("{chars} --flush blank"), text), parts);
    let json = answers(folder, &format!("{chars} --to json"), text);
    assert_eq!(json.lines().count(), 5, "masked ones only: {json}");
    let first: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    assert_eq!((&first["position"], &first["masked"]), (&2.into(), &true.into()));
    assert_eq!(first["alternatives"].as_array().unwrap().len(), 3);
    let tagger = format!("stream {} --flush blank", builtin("tagger-en.safetensors").display());
    let words = "The\nold\nman\nsleeps\n.\n\nHe\ndreams\n";
    let expected = answers(folder, "tag --from tokens", words);
    assert_eq!(answers(folder, &tagger, words), expected.strip_suffix('\n').unwrap());
    assert_eq!(
        answers(folder, &format!("{tagger} --from tokens"), "The old man sleeps .\n\nHe dreams"),
        expected.strip_suffix('\n').unwrap()
    );
}

/// A running program, its output line by line as it comes.
struct Live {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Live {
    fn new(folder: &Path, arguments: &str) -> Live {
        let mut child = start(folder, arguments);
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (to, lines) = channel();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| to.send(line))
        });
        Live { stdin: child.stdin.take(), child, lines }
    }

    fn write(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// The next line, which must come without more input.
    fn next(&self) -> String {
        self.lines.recv_timeout(Duration::from_secs(300)).expect("an answer in time")
    }

    fn nothing(&self) {
        assert_eq!(self.lines.recv_timeout(Duration::from_millis(150)).ok(), None);
    }
}

#[test]
fn answers_come_in_time_however_input_comes() {
    let folder = models();
    let whole = answers(folder.path(), "stream dense.safetensors", "1 2\n3 4\n5 6\n7 8\n9 0\n");
    let mut whole = whole.lines();
    let mut live = Live::new(folder.path(), "stream dense.safetensors --flush blank");
    live.write("1 2\n3 4\n5 6\n7 ");
    live.nothing();
    live.write("8");
    live.nothing();
    live.write("\n");
    assert_eq!(live.next(), whole.next().unwrap());
    live.write("9 0\n");
    assert_eq!(live.next(), whole.next().unwrap());
    live.nothing();
    live.write("\n");
    for expected in whole {
        assert_eq!(live.next(), expected);
    }
    assert_eq!(live.next(), "");
    live.write("1 2\n");
    live.stdin = None;
    live.next();
    assert_eq!(live.child.wait().unwrap().code(), Some(0));
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_it_with_what_was_known() {
    let folder = models();
    let mut live = Live::new(folder.path(), "stream tokens.safetensors");
    live.write("1\n2\n");
    live.next();
    let kill = Command::new("kill").args(["-INT", &live.child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(live.child.wait().unwrap().code(), Some(130));
    live.nothing();
}

#[test]
fn much_input_and_a_reader_who_has_seen_enough() {
    let folder = models();
    let folder = folder.path();
    let text: String = (0..200_000u64).map(|i| format!("{}\n", i * i % 5)).collect();
    let out = answers(folder, "stream tokens.safetensors", &text);
    assert_eq!(out.lines().count(), 200_000);
    let mut child = start(folder, "stream tokens.safetensors");
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || drop(stdin.write_all(text.as_bytes())));
    let mut first = [0; 10];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    assert_eq!(child.wait().unwrap().code(), Some(0), "a broken pipe is no error");
    writer.join().unwrap();
}

#[test]
fn what_cannot_be_meant_is_refused_with_its_place() {
    let folder = models();
    let folder = folder.path();
    let (out, said) = refused(folder, "stream tokens.safetensors", b"1\n2\n7\n1\n");
    assert_eq!(out.lines().count(), 1, "what was known before");
    assert!(said.contains("standard input:3: element 2: token 7 is not below 5"), "{said}");
    for (arguments, input, why) in [
        ("dense.safetensors", &b"1 2\n1 x\n"[..], "standard input:2: `x` is not a number"),
        ("dense.safetensors", b"1 2\n1\n", "standard input:2: element 1: 1 numbers, expected 2"),
        ("dense.safetensors", b"1 2\n1 nan\n", "element 1: number 2 of 2 is NaN"),
        ("dense.safetensors --from json", b"[1, 2]\n[1,\n", "standard input:2: `[1,` is not JSON"),
        ("dense.safetensors", b"1 2\n\xff 2\n", "standard input:2: byte 4 (counted from 0)"),
        (
            "tokens.safetensors --from tokens",
            b"1 2\n3 -1 2",
            "standard input:2: `-1` is not a token",
        ),
        (
            "dense.safetensors --from chars",
            b"",
            "--from chars: the model reads 2 numbers; use lines",
        ),
        (
            "tokens.safetensors --from csv",
            b"",
            "the model reads tokens below 5; use lines, json or",
        ),
        ("both.safetensors", b"", "both.safetensors: cannot stream: the network is bidirectional"),
        ("none.safetensors", b"", "none.safetensors: cannot be read"),
    ] {
        let said = refused(folder, &format!("stream {arguments}"), input).1;
        assert!(said.contains(why), "{arguments}: {said}");
    }
    let long = vec![b'1'; 1 << 21];
    let said = refused(folder, "stream dense.safetensors", &long).1;
    assert!(said.contains("standard input:1: longer than 1048576 bytes"), "{said}");
}

/// Bad lines are left out: what remains is predicted as if they were not there, and a mark stands where
/// its line stood.
#[test]
fn bad_lines_stop_or_are_skipped_or_marked() {
    let folder = models();
    let folder = folder.path();
    let good: Vec<String> = (0..9).map(|i| format!("{} {}\n", i, (i as f32).cos())).collect();
    let expected = answers(folder, "stream dense.safetensors", &good.concat());
    let lines: Vec<&str> = expected.lines().collect();
    let long = format!("{}\n", "7 ".repeat(600_000));
    let mut input: Vec<Vec<u8>> = good.iter().map(|line| line.as_bytes().to_vec()).collect();
    input.insert(9, long.into_bytes());
    input.insert(5, b"1 2 3\n".to_vec());
    input.insert(2, b"1 \xff\n".to_vec());
    input.insert(0, b"what\n".to_vec());
    let input = input.concat();

    let (out, said) = refused(folder, "stream dense.safetensors", &input);
    assert!(out.is_empty() && said.contains("standard input:1: "), "{said}");
    assert!(said.contains("; --bad-lines skip or mark leaves such lines out\n"), "{said}");

    let (code, out, said) = fed(folder, "stream dense.safetensors --bad-lines skip", &input);
    assert_eq!((code, &out), (Some(0), &expected), "{said}");
    assert!(!said.contains("--bad-lines"), "{said}");
    assert!(said.contains("4 bad lines were left out, 9 elements were read"), "{said}");
    assert!(said.contains("the first is line 1: "), "{said}");

    let (code, out, _) = fed(folder, "stream dense.safetensors --bad-lines mark", &input);
    let found: Vec<&str> = out.lines().collect();
    assert_eq!((code, found.len()), (Some(0), 13));
    for (place, number) in [(0, 1), (3, 4), (7, 8), (12, 13)] {
        let mark = format!("error\tline {number}: ");
        assert!(found[place].starts_with(&mark), "{:?}", found[place]);
    }
    let rest: Vec<&str> = found.iter().filter(|line| !line.starts_with("error")).copied().collect();
    assert_eq!(rest, lines);

    let json = "stream dense.safetensors --bad-lines mark --to json --flush never";
    let (_, out, _) = fed(folder, json, &input);
    let values: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values.iter().filter(|value| value["error"].is_string()).count(), 4);
    assert_eq!((&values[0]["line"], values.len()), (&1.into(), 4 + 6));
}

/// A header that does not fit makes every line bad, so it always ends the stream; rows that do not fit
/// it, or that the model refuses, can be skipped.
#[test]
fn rows_of_a_series_can_be_skipped_but_not_the_header() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rows: String = (0..60).map(|i| format!("{i},{}\n", (i * 7) % 10)).collect();
    std::fs::write(folder.join("s.csv"), format!("x,y\n{rows}")).unwrap();
    done(folder, "train series --csv s.csv --target y --net dgru --delay 1 --units 4 --epochs 1");
    let stream = "stream out/series/model.safetensors --bad-lines";
    let expected = answers(folder, &format!("{stream} stop"), "x\n1\n2\n3\n");
    let input = "note,x\na,1\nb\nc,much\nd,2\ne,\nf,3\n";
    let (code, out, said) = fed(folder, &format!("{stream} skip"), input.as_bytes());
    assert_eq!((code, out), (Some(0), expected), "{said}");
    assert!(said.contains("3 bad lines were left out"), "{said}");
    let (_, said) = refused(folder, &format!("{stream} skip"), b"z\n1\n");
    assert!(said.contains("has no column `x`"), "{said}");
}
