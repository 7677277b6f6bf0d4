//! `drnn reproduce`: tables, files, exit codes.

mod common;

use common::{done, drnn, refused, text};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Command;

#[test]
fn depth_is_the_papers_figure() {
    let folder = tempfile::tempdir().unwrap();
    let output = drnn(folder.path(), "reproduce depth");
    assert_eq!(output.status.code(), Some(0));
    let expected = "\
non-linearities between input x_{t+dt} and output y_t

offset dt       -8 -7 -6 -5 -4 -3 -2 -1  0  1  2  3  4  5  6  7  8
RNN              9  8  7  6  5  4  3  2  1  .  .  .  .  .  .  .  .
Bi-RNN           9  8  7  6  5  4  3  2  1  2  3  4  5  6  7  8  9
d-RNN, delay 5  14 13 12 11 10  9  8  7  6  5  4  3  2  1  .  .  .

. the output does not depend on that input
checked against the equations, 867 pairs of input and output: same counts, and a derivative exactly where there is a path
";
    assert_eq!(text(&output.stdout), expected);
    let out = Path::new("out").join("depth");
    let said = format!("wrote depth.svg, depth.csv, depth.json to {}\n", out.display());
    assert_eq!(text(&output.stderr), said);

    let read = |name| std::fs::read_to_string(folder.path().join(&out).join(name)).unwrap();
    let csv = read("depth.csv");
    assert_eq!(csv.lines().count(), 1 + 3 * 17);
    assert!(csv.contains("\n\"d-RNN, delay 5\",1,forward,5,5,1,1\n"), "{csv}");
    assert!(csv.contains("\n\"d-RNN, delay 5\",1,forward,5,6,,\n"), "{csv}");
    // The picture in the README is the one that the command draws.
    let shown = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/depth.svg");
    assert_eq!(read("depth.svg"), std::fs::read_to_string(shown).unwrap().replace('\r', ""));
}

#[test]
fn depth_of_stacks_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "reproduce depth --layers 3 --delay 2 --from -2 --to 3 --out here/there --json";
    let output = drnn(folder.path(), arguments);
    assert!(output.status.success());
    let json = text(&output.stdout);
    let file = std::fs::read_to_string(folder.path().join("here/there/depth.json")).unwrap();
    assert_eq!(json, file);

    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    let command = "drnn reproduce depth --layers 3 --delay 2 --from -2 --to 3";
    assert_eq!((&value["command"], &value["pairs_checked"]), (&command.into(), &(6 * 36).into()));
    assert_eq!(value["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!((&value["kind"], &value["format"]), (&"depth".into(), &1.into()));
    let said = refused(folder.path(), "report here/there/depth.json");
    assert!(said.contains("kind \"depth\"; there are reports of"), "{said}");
    let longest: Vec<String> = value["nets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|net| {
            format!("{} {} {}", net["name"], net["longest"], net["shortest"]).replace('"', "")
        })
        .collect();
    assert_eq!(
        longest,
        [
            "RNN [3,2,1,null,null,null] [3,2,1,null,null,null]",
            "Bi-RNN [3,2,1,2,3,4] [3,2,1,2,3,4]",
            "d-RNN, delay 2 [5,4,3,2,1,null] [5,4,3,2,1,null]",
            "RNN, 3 layers [5,4,3,null,null,null] [5,4,3,null,null,null]",
            // There and back between ends 5 apart: 3 + 2 * 5 + |dt|.
            "Bi-RNN, 3 layers [15,14,13,14,15,16] [5,4,3,4,5,6]",
            "d-RNN, 3 layers, delay 2 [7,6,5,4,3,null] [7,6,5,4,3,null]",
        ]
    );

    let table = text(&drnn(folder.path(), "reproduce depth --layers 2").stdout);
    assert!(table.contains("\n  shortest way  "), "{table}");
    assert!(table.contains("turns round at the ends of the sequence"), "{table}");
}

#[test]
fn bad_usage_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |arguments| refused(folder.path(), arguments);
    assert!(refused("reproduce").contains("Usage"));
    assert!(refused("reproduce nothing").contains("unrecognized subcommand"));
    assert!(refused("reproduce depth --layers 0").contains("--layers"));
    assert!(refused("reproduce depth --delay 101").contains("1..=100"));
    assert!(refused("reproduce depth --from 1").contains("-100..=0"));
    assert!(refused("reproduce depth --to -1").contains("-1"));
    std::fs::write(folder.path().join("file"), "").unwrap();
    assert!(refused("reproduce depth --out file").contains("file: cannot be created"));
}

/// As the experiments that train do.
#[test]
fn results_of_an_earlier_run_are_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let theorem = "reproduce theorem --layers 1 --units 2 --steps 3 --out theorem";
    for (command, file) in
        [("reproduce depth --out depth", "depth/depth.csv"), (theorem, "theorem/theorem.csv")]
    {
        done(folder.path(), command);
        std::fs::write(folder.path().join(file), "mine").unwrap();
        let said = refused(folder.path(), command);
        assert!(said.contains("is the result of an earlier run; choose another --out"), "{said}");
        assert_eq!(std::fs::read_to_string(folder.path().join(file)).unwrap(), "mine");
    }
}

#[test]
fn the_theorem_holds_and_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        drnn(folder.path(), "reproduce theorem --layers 3 --units 4,9 --steps 20 --out here");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains("lstm        3      0e0 / "), "{said}");
    assert!(said.contains("from zeros / from states they have been in"), "{said}");
    assert!(said.contains("no solved start for sequence 0: block 2"), "{said}");
    let read = |name| std::fs::read_to_string(folder.path().join("here").join(name)).unwrap();
    assert_eq!(read("theorem.csv").lines().count(), 1 + 4 * 3 * 3);
    assert_eq!(read("solved.csv").lines().count(), 1 + 3 * 3);
    let json: serde_json::Value = serde_json::from_str(&read("theorem.json")).unwrap();
    for entry in json["theorem"].as_array().unwrap() {
        assert!(entry["f32_states"].as_f64().unwrap() <= 1e-5, "{entry}");
        assert!(entry["f64_states"].as_f64().unwrap() <= 1e-12, "{entry}");
    }
    // Two layers always have a solved start.
    for entry in json["solved"].as_array().unwrap().iter().filter(|e| e["layers"] == 2) {
        assert_eq!(entry["from_states"], entry["networks"], "{entry}");
    }
    assert!(refused(folder.path(), "reproduce theorem --units 0").contains("0 is not in 1..=1024"));
}

/// A run small enough for a test, that still has several lanes and epochs.
const TINY: &str = "reproduce reversal --delays 3 --epochs 3 --sequences 300 --threads 2";

/// The results but for the time that they took.
fn results(folder: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(folder.join("reversal.json")).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    for run in json["runs"].as_array_mut().unwrap() {
        run["seconds"] = 0.into();
    }
    json["provenance"] = "".into();
    json
}

#[test]
fn reversal_is_reported_in_a_table_and_files() {
    let folder = tempfile::tempdir().unwrap();
    let output = drnn(folder.path(), TINY);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let first: Vec<_> = said.lines().map(|line| line.get(..10).unwrap_or("").trim()).collect();
    assert_eq!(first[..4], ["net", "LSTM", "d-LSTM 3", "Bi-LSTM"], "{said}");
    let along = text(&output.stderr);
    assert!(along.contains("differs from the paper (--full): learning rate 0.01"), "{along}");
    assert!(along.contains("dlstm-3-0 epoch 3 of 3: train "), "{along}");
    let out = folder.path().join("out/reversal");
    for name in ["index.html", "report.md", "reversal.csv", "accuracy.svg", "accuracy.png"] {
        assert!(out.join(name).exists(), "{name}");
    }
    let log = std::fs::read_to_string(out.join("log.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 3 * 3);
    let runs = results(&out)["runs"].clone();
    assert_eq!(runs.as_array().unwrap().len(), 3);
    // What is there is not overwritten, and what is done is not done again.
    assert!(
        refused(folder.path(), TINY)
            .contains("results of an earlier run; continue it with --resume")
    );
    let again = drnn(folder.path(), &format!("{TINY} --resume"));
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert_eq!(results(&out)["runs"], runs);
    let other = refused(folder.path(), &format!("{TINY} --resume --seed 2"));
    assert!(other.contains("is of another training"), "{other}");
    assert!(refused(folder.path(), "reproduce reversal --delays 0").contains("0 is not in 1..=19"));
    let twice = refused(folder.path(), "reproduce reversal --out new --delays 5,10,5");
    assert!(twice.contains("--delays: 5 is given twice"), "{twice}");
    assert!(!folder.path().join("new").exists());
    for rate in ["nan", "0", "-1", "inf"] {
        let said = refused(folder.path(), &format!("reproduce reversal --out new --rate={rate}"));
        assert!(said.contains("expected a number above 0"), "{said}");
    }
    assert!(!folder.path().join("new").exists());
}

/// A run that is killed again and again, each time after some more epochs, ends as if nothing had
/// happened.
#[test]
fn killed_runs_go_on_to_the_same_result() {
    let folder = tempfile::tempdir().unwrap();
    const TINY: &str = "reproduce reversal --delays 3 --epochs 4 --sequences 100 --threads 2";
    assert!(drnn(folder.path(), &format!("{TINY} --out straight")).status.success());
    // Lines on stderr after which it is killed: the first before any epoch, the last after several.
    for (attempt, lines) in [1, 3, 1, 4, 2, 5, 3].into_iter().enumerate() {
        let resume = if attempt == 0 { "" } else { "--resume" };
        let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
        command.current_dir(folder.path());
        command.args(format!("{TINY} --out killed {resume}").split_whitespace());
        command.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(stderr.take(lines).count() > 0, "nothing on stderr");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert!(drnn(folder.path(), &format!("{TINY} --out killed --resume")).status.success());
    let out = |name: &str| results(&folder.path().join(name));
    assert_eq!(out("killed")["runs"], out("straight")["runs"]);
}

#[cfg(unix)]
#[test]
fn ctrl_c_saves_and_says_how_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
    command.current_dir(folder.path());
    command.args("reproduce reversal --delays 3 --sequences 2000 --threads 1".split_whitespace());
    command.stderr(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("bilstm-0 epoch 1 ") {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "{said}");
    }
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(
        said.contains("to continue: drnn reproduce reversal --delays 3 --sequences 2000"),
        "{said}"
    );
    assert!(folder.path().join("out/reversal/checkpoints/bilstm-0").exists());
}

#[test]
fn lanes_that_diverge_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let output = drnn(folder.path(), &format!("{TINY} --rate 3e38"));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("lstm-0 epoch 1: the loss became NaN"), "{said}");
    assert!(said.contains("the loss became NaN in lstm-0, dlstm-3-0, bilstm-0"), "{said}");
    let out = folder.path().join("out/reversal");
    assert_eq!(results(&out)["runs"][0]["ended"], "not-finite");
    assert!(out.join("index.html").exists());
}
