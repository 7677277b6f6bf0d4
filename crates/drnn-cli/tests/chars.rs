//! `drnn train chars`, `drnn sweep chars`, `drnn reproduce mlm`: masked characters.

mod common;

use common::{done, drnn, refused, text};
use drnn::Model;
use drnn_tasks::chars::CharTask;
use std::path::Path;

/// Words in an order that is no pattern.
fn words(count: usize) -> String {
    let mut rng = drnn::random::Rng::new(5);
    let list = ["the ", "cat ", "sat ", "on ", "a ", "mat "];
    (0..count).map(|_| list[rng.below(list.len())]).collect()
}

fn small(folder: &Path) -> String {
    std::fs::write(folder.join("text"), words(2000)).unwrap();
    "train chars --text text --window 30 --units 12 --delay 3 --epochs 2 --batch 20".into()
}

/// The results but for the time that they took.
fn results(folder: &Path, name: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    (json["provenance"], json["seconds"]) = ("".into(), 0.into());
    for run in json["runs"].as_array_mut().into_iter().flatten() {
        run["seconds"] = 0.into();
    }
    json
}

#[test]
fn a_model_with_all_that_its_use_needs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let train = small(folder);
    let said = done(folder, &format!("{train} --out a --threads 1"));
    assert!(said.contains("bits: "), "{said}");
    assert!(said.contains("divided by the masks among all 33 characters"), "{said}");
    let model = Model::load(folder.join("a/model.safetensors")).unwrap();
    let task = CharTask::of(&model).unwrap();
    let alphabet: String = task.alphabet().symbols().iter().collect();
    assert_eq!((&alphabet[..2], task.window(), model.spec().delay()), (" a", 30, 3));
    let found = results(&folder.join("a"), "training.json");
    assert_eq!((&found["task"], &found["metric"]), (&"chars".into(), &"bits".into()));
    // The number in the log is the one that chose the epoch, and the one in the summary.
    let kept = found["kept_epoch"].as_u64().unwrap() as usize;
    let log = std::fs::read_to_string(folder.join("a/log.jsonl")).unwrap();
    let logged: serde_json::Value =
        serde_json::from_str(log.lines().nth(kept - 1).unwrap()).unwrap();
    assert_eq!(logged["valid"], found["valid"], "{logged}");
    assert_eq!(logged["measure"].as_str().map(|text| text.starts_with("bits")), Some(true));

    // Any number of threads, stopped and resumed: the same. Half precision is half as large.
    done(folder, &format!("{train} --out b --threads 2 --half"));
    assert_eq!(results(&folder.join("b"), "training.json"), found);
    let size = |name: &str| std::fs::metadata(folder.join(name)).unwrap().len();
    assert!(size("b/model.safetensors") < size("a/model.safetensors"));
    done(folder, &format!("{train} --out a --resume"));
    assert_eq!(results(&folder.join("a"), "training.json"), found);
    let other = refused(folder, &format!("{train} --out a --resume --mask 0.3"));
    assert!(other.contains("is of another training"), "{other}");
    done(folder, "report a/training.json --out page");

    // What it is worth can be found again, on any text.
    let said = done(folder, "eval a/model.safetensors text");
    assert!(said.starts_with("chars: windows 2") && said.contains("paper_bpc"), "{said}");

    // It can be used at once.
    std::fs::write(folder.join("holes"), "the c_t sat on a m_t\n").unwrap();
    let filled = done(folder, "fill a/model.safetensors holes");
    assert_eq!((filled.len(), &filled[..5]), (21, "the c"));
}

#[test]
fn texts_apart_and_characters_that_are_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let train = small(folder);
    std::fs::write(folder.join("valid"), words(100) + "ÄÖ").unwrap();
    let apart = "--valid valid --test 0 --net bigru --epochs 1";
    let train = train.replace("--delay 3 --epochs 2", apart);
    let output = drnn(folder, &train);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("valid: 2 of 3"), "{said}");
    assert!(said.contains("are not in the alphabet; they are read as masks"), "{said}");
    let found = results(&folder.join("out/chars"), "training.json");
    assert_eq!((&found["test"], &found["latency"]), (&().into(), &().into()));
    // A bidirectional model fills line by line.
    std::fs::write(folder.join("holes"), "th_ cat\n_n").unwrap();
    let filled = done(folder, "fill out/chars/model.safetensors holes");
    assert_eq!((filled.len(), &filled[3..8]), (10, " cat\n"));
}

#[test]
fn what_cannot_be_learned_from_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let train = small(folder);
    std::fs::write(folder.join("empty"), "").unwrap();
    std::fs::write(folder.join("short"), "too short a text").unwrap();
    std::fs::write(folder.join("latin"), b"caf\xe9 and more").unwrap();
    for (more, why) in [
        ("--text nowhere", "nowhere: cannot be read"),
        ("--text empty", "empty: holds no text"),
        ("--text short --valid 0.3", "characters, fewer than a window of 30; take more text"),
        ("--text latin", "latin:1: byte 4 of the line is not UTF-8"),
        ("--alphabet abca", "the alphabet has `a` twice"),
        ("--mask 0", "a share of 0 is masked"),
        ("--mask nan", "a share of NaN is masked"),
        ("--valid 0.6 --test 0.5", "leave none of"),
        ("--valid 0", "the validation set (--valid): 0 characters"),
        ("--valid 1.5", "1.5: cannot be read"),
        ("--net lstm --delay 2", "--delay 2 with --net lstm: use drnn"),
        ("--window 0", "0 is not in 1"),
        ("--batch 1000", "batches of 1000 sequences"),
    ] {
        let one = |text: &str| format!("{} {more}", train.replace("--text text", text));
        let one = if more.starts_with("--text") { one("") } else { one("--text text") };
        let one = if more.contains("--delay") { one.replace("--delay 3", "") } else { one };
        let one = if more.contains("--window") { one.replace("--window 30", "") } else { one };
        let one = if more.contains("--batch") { one.replace("--batch 20", "") } else { one };
        let said = refused(folder, &one);
        assert!(said.contains(why), "{more}: {said}");
        assert!(!folder.join("out").exists(), "{more}");
    }
}

#[test]
fn delays_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    small(folder.path());
    let sweep = "sweep chars --text text --window 30 --units 8 --epochs 1 --batch 20 --delays 0,2";
    let said = done(folder.path(), sweep);
    for name in ["dlstm-0", "dlstm-2", "bilstm", "Recommended: dlstm-"] {
        assert!(said.contains(name), "{said}");
    }
    assert!(folder.path().join("out/sweep-chars/index.html").exists());
    let said = done(folder.path(), &format!("{sweep} --test 0 --out untested"));
    assert!(said.contains("none"), "{said}");
    // The model of the sweep fills in.
    std::fs::write(folder.path().join("masked"), "a_b").unwrap();
    let filled = done(folder.path(), "fill out/sweep-chars/model.safetensors masked");
    assert!(filled.starts_with('a') && !filled.contains('_'), "{filled}");
}

#[test]
fn rows_of_the_papers_table() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::create_dir_all(folder.join("data/text8-some")).unwrap();
    std::fs::write(folder.join("data/text8-some/text8"), words(15_000)).unwrap();
    let run = "reproduce mlm --data data --rows quick-lstm,quick-dlstm-2,quick-bilstm --first 20000 --epochs 1";
    let output = drnn(folder, &format!("{run} --threads 2"));
    let (table, along) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{along}");
    assert!(along.contains("of another length than text8; its last 5 % to test"), "{along}");
    assert!(along.contains("differs from the paper (--full): a text of "), "{along}");
    let first: Vec<_> =
        table.lines().take(4).map(|line| line.split("  ").next().unwrap()).collect();
    assert_eq!(first, ["net", "LSTM, quick", "Bi-LSTM, quick", "d-LSTM 2, quick"], "{table}");
    assert!(table.contains("T/(T + d)"), "{table}");
    // The paper has none of these networks: no columns for its numbers.
    assert!(!table.contains("paper, per target") && !table.contains("  -"), "{table}");
    let out = folder.join("out/mlm");
    for name in ["index.html", "report.md", "mlm.csv", "bpc.svg", "bpc.png", "losses.svg"] {
        assert!(out.join(name).exists(), "{name}");
    }
    let found = results(&out, "mlm.json");
    assert_eq!(found["text"]["used"][0], 20_000);
    let csv = std::fs::read_to_string(out.join("mlm.csv")).unwrap();
    let late: Vec<f64> = csv
        .lines()
        .find(|line| line.starts_with("quick-dlstm-2"))
        .unwrap()
        .split(',')
        .skip(5)
        .step_by(2)
        .take(2)
        .map(|x| x.parse().unwrap())
        .collect();
    assert!((late[1] / late[0] - 180.0 / 182.0).abs() < 1e-12, "{csv}");

    // Nothing is overwritten; what is done stays; a report can be made again.
    assert!(refused(folder, run).contains("results of an earlier run"));
    done(folder, &format!("{run} --resume --threads 1"));
    assert_eq!(results(&out, "mlm.json"), found);
    assert_eq!(done(folder, "report out/mlm/mlm.json --out page"), table);
    let known = std::fs::read_to_string(out.join("mlm.json")).unwrap();
    std::fs::write(folder.join("mlm.json"), known.replace("quick-dlstm-2", "small-dlstm-1"))
        .unwrap();
    let table = done(folder, "report mlm.json --out known");
    assert!(table.contains("paper, per target") && table.contains("  -"), "{table}");

    for (more, why) in [
        ("--rows small-dlstm-4", "expected quick-lstm"),
        ("--rows quick-lstm,quick-lstm", "quick-lstm is given twice"),
        ("--data nowhere", "nowhere: cannot be read"),
        ("--data out", "contains no text8, text8.zip"),
    ] {
        let said = refused(
            folder,
            &format!("reproduce mlm --data data --out new {more}")
                .replace("--data data --out new --data", "--out new --data"),
        );
        assert!(said.contains(why), "{more}: {said}");
    }
    std::fs::write(folder.join("prose"), "Call me Ishmael.").unwrap();
    let said = refused(folder, "reproduce mlm --data prose --out new");
    assert!(
        said.contains("prose: has 3 characters other than a to z and space: not text8"),
        "{said}"
    );
    assert!(!folder.join("new").exists());
}
