//! `drnn train --from MODEL`: trainings that start from a trained model.

mod common;

use common::{done, drnn, refused, text};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// So small a rate that the model stays what it was.
const STAY: &str = "--epochs 1 --rate 1e-12";

fn table(path: &Path, rows: usize, offset: f64) {
    let noise = |i: usize| ((i as f64 * 12.9898).sin() * 43758.5453).rem_euclid(1.0);
    let mut out = String::from("x,kind,y\n");
    for t in 0..rows {
        let kind = ["a", "b"][t / 7 % 2];
        let y = offset + noise(t) + noise(t + 1) + if kind == "a" { 1.0 } else { 0.0 };
        writeln!(out, "{:.5},{kind},{y:.5}", offset + noise(t)).unwrap();
    }
    std::fs::write(path, out).unwrap();
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Mean squared error of a model on rows of a table.
fn error(folder: &Path, model: &str, data: &str, rows: &str) -> f64 {
    let said = done(folder, &format!("eval {model} {data} --rows {rows} --json"));
    json(&said)["metrics"]["mean squared error"].as_f64().unwrap()
}

fn valid(said: &str) -> f64 {
    json(said)["valid"].as_f64().unwrap()
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-5 * b.abs(), "{a}, {b}");
}

#[test]
fn a_series_starts_from_a_model_with_its_columns_and_scales() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    table(&folder.join("a.csv"), 400, 0.0);
    table(&folder.join("b.csv"), 300, 0.5);
    let first = "train series --csv a.csv --target y --units 12 --epochs 30 --delay 1 --threads 1";
    done(folder, &format!("{first} --window 40 --out a"));
    let model = "a/model.safetensors";
    let again = format!("train series --target y --from {model} --json");

    // The second data set has another mean, but the model's scales are kept.
    let said = done(folder, &format!("{again} --csv b.csv {STAY} --out b"));
    close(valid(&said), error(folder, model, "b.csv", "241..270"));
    let task =
        |model: &str| json(&done(folder, &format!("inspect {model} --json")))["task"].clone();
    assert_eq!(task("b/model.safetensors")["scaling"], task(model)["scaling"]);
    assert!(
        json(&said)["what"].as_str().unwrap().contains("starts from model.safetensors"),
        "{said}"
    );

    // Trained further, it is better there.
    let better = done(folder, &format!("{again} --csv b.csv --epochs 20 --threads 1 --out c"));
    assert!(valid(&better) < 0.9 * valid(&said), "{better}");

    // Another delay: the same parameters, read at another step.
    let said = done(folder, &format!("{again} --csv a.csv --delay 0 {STAY} --out d"));
    assert_eq!(json(&said)["latency"], 0);
    assert!(valid(&said) > 2.0 * error(folder, model, "a.csv", "321..360"), "{said}");

    // A checkpoint of a training that started elsewhere is not continued.
    let resume = format!("{again} --csv b.csv --epochs 20 --threads 1 --out c --resume");
    done(folder, &resume);
    let other = resume.replace("a/model", "d/model");
    assert!(refused(folder, &other).contains("is of another training"), "{other}");

    for (more, why) in [
        ("--csv b.csv --units 3", "cannot be used with"),
        ("--csv b.csv --inputs x", "cannot be used with"),
        ("--csv c.csv", "c.csv: cannot be read"),
    ] {
        let said = refused(folder, &format!("{again} {more} --out e"));
        assert!(said.contains(why), "{more}: {said}");
    }
    std::fs::write(folder.join("c.csv"), "x,y\n1,2\n2,3\n3,4\n").unwrap();
    let said = refused(folder, &format!("{again} --csv c.csv --out e"));
    assert!(said.contains("c.csv:1: has no column `kind`"), "{said}");
    let said =
        refused(folder, &format!("{} --csv b.csv --out e", again.replace("target y", "target x")));
    assert!(said.contains("--target x, but the model of --from predicts y"), "{said}");
    let said = refused(folder, "train series --csv a.csv --target y --from tagger-en --out e");
    assert!(said.contains("--from tagger-en: is a model of several networks"), "{said}");
    let said = refused(folder, "train series --csv a.csv --target y --from chars-en --out e");
    assert!(said.contains("--from chars-en: is no model of series"), "{said}");
    assert!(!folder.join("e").exists());
}

/// A model without a task, as other programs have them, starts a training of any data that it fits.
#[test]
fn a_network_of_no_task() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rows: String = (0..200).map(|t| format!("{},{}\n", t % 7, t % 5)).collect();
    std::fs::write(folder.join("a.csv"), format!("x,y\n{rows}")).unwrap();
    let init = "init --units 5 --inputs 1 --outputs 1 -o";
    done(folder, &format!("{init} one.safetensors --net gru"));
    done(folder, &format!("{init} both.safetensors --net bigru"));
    let train = "train series --csv a.csv --target y --epochs 1 --from";
    done(folder, &format!("{train} one.safetensors --delay 2 --out a"));
    let said = done(folder, "inspect a/model.safetensors");
    assert!(said.contains("dgru(5 units, delay 2)"), "{said}");
    done(folder, &format!("{train} both.safetensors --out b"));
    // nn.LSTM(proj_size=2): trained, and trained further.
    let projected = "train series --csv a.csv --target y --epochs 1 --units 5";
    done(folder, &format!("{projected} --projection 2 --delay 1 --out p"));
    let said = done(folder, "inspect p/model.safetensors");
    assert!(said.contains("dlstm(5 units, projected to 2, delay 1)"), "{said}");
    done(folder, &format!("{train} p/model.safetensors --out q"));
    let said = refused(folder, &format!("{projected} --net gru --projection 2 --out c"));
    assert!(said.contains("projection"), "{said}");
    let said = refused(folder, &format!("{train} both.safetensors --delay 2 --out c"));
    assert!(said.contains("both.safetensors: is bidirectional, and has no --delay 2"), "{said}");
    done(folder, "init --net gru --units 5 --inputs 2 --outputs 1 -o wide.safetensors");
    let said = refused(folder, &format!("{train} wide.safetensors --out c"));
    assert!(!said.is_empty() && !folder.join("c").exists(), "{said}");
}

#[test]
fn characters_and_taggers() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let line = "the cat sat on the mat and the dog ran to the cat. ";
    std::fs::write(folder.join("a.txt"), line.repeat(60)).unwrap();
    std::fs::write(folder.join("b.txt"), line.replace("dog", "fox").repeat(60)).unwrap();
    let chars = "train chars --window 30";
    done(folder, &format!("{chars} --text a.txt --units 8 --delay 2 --epochs 3 --out a"));
    let from = "--from a/model.safetensors";
    let output = drnn(folder, &format!("{chars} --text b.txt {from} {STAY} --out b"));
    // The model has no x.
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("not in the alphabet"), "{said}");
    let alphabet = |model: &str| {
        json(&done(folder, &format!("inspect {model} --json")))["task"]["alphabet"].clone()
    };
    assert_eq!(alphabet("b/model.safetensors"), alphabet("a/model.safetensors"));
    let said = refused(folder, &format!("{chars} --text b.txt {from} --symbols 9 --out c"));
    assert!(said.contains("cannot be used with"), "{said}");

    let tags: String =
        (0..30).map(|i| format!("the\tD\n{}\tN\nran\tV\n\n", ["cat", "dog"][i % 2])).collect();
    std::fs::write(folder.join("tags.tsv"), &tags).unwrap();
    std::fs::write(folder.join("more.tsv"), tags.replace("ran\tV", "hm\tX\nran\tV")).unwrap();
    let tagger = "train tagger --dev tags.tsv";
    let small = "--char-units 6 --word-units 6 --symbol-width 4 --vector-width 4 --rate 0.02";
    done(folder, &format!("{tagger} --train tags.tsv {small} --epochs 6 --out t"));
    let from = "--from t/model.safetensors";
    let said = done(folder, &format!("{tagger} --train more.tsv {from} {STAY} --out u --json"));
    let results = json(&said);
    assert!(valid(&said) > 0.9, "{said}");
    let notes = results["notes"].to_string();
    assert!(notes.contains("train: 30 words have tags that the model does not know"), "{notes}");
    let said =
        refused(folder, &format!("{tagger} --train more.tsv --from a/model.safetensors --out v"));
    assert!(said.contains("is no tagger, but a model of one network"), "{said}");
}
