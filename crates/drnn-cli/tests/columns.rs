//! Columns as other programs write them: decimal commas, counted seconds, categories that are new.

mod common;

use common::{done, drnn, refused, text};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

const SMALL: &str = "train series --target y --ahead 3 --units 4 --epochs 2 --threads 1 --net gru";

/// 300 hours from 1 July 2016: time, number, colour, target.
fn hours() -> impl Iterator<Item = (usize, f64, &'static str, f64)> {
    (0..300).map(|hour| {
        let x = (hour as f64 / 5.0).sin();
        (hour, x, ["red", "blue", "green"][hour % 3], 10.0 + 3.0 * x)
    })
}

fn write(folder: &Path, name: &str, head: &str, row: impl Fn(usize, f64, &str, f64) -> String) {
    let mut out = format!("{head}\n");
    for (hour, x, colour, y) in hours() {
        writeln!(out, "{}", row(hour, x, colour, y)).unwrap();
    }
    std::fs::write(folder.join(name), out).unwrap();
}

fn date(hour: usize) -> String {
    format!("2016-07-{:02} {:02}:00", hour / 24 + 1, hour % 24)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The last field of every row.
fn predicted(table: &str, between: char) -> Vec<f64> {
    let last = |line: &str| line.rsplit_once(between).unwrap().1.parse().unwrap();
    table.lines().skip(1).map(last).collect()
}

/// A table with decimal commas is the same table: the same training, and the same predictions, in
/// rows with the table's own delimiter.
#[test]
fn decimal_commas() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "point.csv", "x,colour,y", |_, x, colour, y| format!("{x:.3},{colour},{y:.3}"));
    write(folder, "comma.csv", "x;colour;y", |_, x, colour, y| {
        format!("{x:.3};{colour};{y:.3}").replace('.', ",")
    });
    let train = |name: &str| drnn(folder, &format!("{SMALL} --csv {name}.csv --out {name}"));
    assert!(train("point").status.success());
    let output = train("comma");
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("numbers have a decimal comma, 1,5 is 1.5, in `x`, `y`"), "{said}");
    let results = |name: &str| {
        let text = std::fs::read_to_string(folder.join(name).join("training.json")).unwrap();
        json(&text)["test"].clone()
    };
    assert_eq!(results("point"), results("comma"));
    for name in ["point", "comma"] {
        done(folder, &format!("predict {name}/model.safetensors {name}.csv -o {name}.out"));
        let found =
            json(&done(folder, &format!("eval {name}/model.safetensors {name}.csv --json")));
        assert_eq!(found["counts"]["steps"], 300);
    }
    let [point, comma] =
        ["point.out", "comma.out"].map(|name| std::fs::read_to_string(folder.join(name)).unwrap());
    assert!(comma.starts_with("x;colour;y;predicted_y+3\n0,000;red;10,000;"), "{comma}");
    assert_eq!(predicted(&point, ','), predicted(&comma, ';'));
    // A model of one table reads the other's numbers in JSON, and tables of its own form only.
    let said = refused(folder, "predict comma/model.safetensors point.csv -o p.csv");
    assert!(said.contains("point.csv:2: column `x`: `0.000` has a point, in a column"), "{said}");
}

/// Seconds and milliseconds since 1970 are the same times as dates.
#[test]
fn counted_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let seconds = |hour: usize| 1_467_331_200 + 3600 * hour;
    write(folder, "iso.csv", "x,t,y", |hour, x, _, y| format!("{x:.3},{}Z,{y:.3}", date(hour)));
    write(folder, "s.csv", "x,t,y", |hour, x, _, y| format!("{x:.3},{},{y:.3}", seconds(hour)));
    write(folder, "ms.csv", "x,t,y", |hour, x, _, y| format!("{x:.3},{}000,{y:.3}", seconds(hour)));
    let mut found = Vec::new();
    for (name, format) in
        [("iso", ""), ("s", "--time-format unix"), ("ms", "--time-format unix-ms")]
    {
        let train = format!("{SMALL} --csv {name}.csv --time t {format} --out {name}");
        assert!(drnn(folder, &train).status.success(), "{name}");
        let text = std::fs::read_to_string(folder.join(name).join("training.json")).unwrap();
        found.push(json(&text)["test"].clone());
    }
    assert!(found.iter().all(|test| *test == found[0]), "{found:?}");
    let why = refused(folder, &format!("{SMALL} --csv ms.csv --time t"));
    assert!(why.contains("--time-format unix reads them as seconds since 1970, unix-ms"), "{why}");
    let why = refused(folder, &format!("{SMALL} --csv ms.csv --time t --time-format unix"));
    assert!(why.contains("column `t`: no field is a time written as unix"), "{why}");
}

/// A category that training did not have: read as none of the others, counted, and said, wherever a
/// row comes from.
#[test]
fn categories_that_are_new() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "a.csv", "x,colour,y", |_, x, colour, y| format!("{x:.3},{colour},{y:.3}"));
    assert!(drnn(folder, &format!("{SMALL} --csv a.csv --out m")).status.success());
    // The first row has no colour that is known; another delimiter, columns in another order.
    std::fs::write(folder.join("b.csv"), "id|y|colour|x\n\"1|2\"|10|pink|0.5\n7|10|red|0.5\n")
        .unwrap();
    let output = drnn(folder, "predict m/model.safetensors b.csv -o b.out");
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("1 field has a category that the"), "{said}");
    assert!(said.contains("it is read as none of those that it knows"), "{said}");
    let table = std::fs::read_to_string(folder.join("b.out")).unwrap();
    assert!(table.starts_with("id|y|colour|x|predicted_y+3\n\"1|2\"|10|pink|0.5|"), "{table}");
    // The same from JSON; all zeros are what the graph of `drnn export` reads for it.
    let exported = json(&done(folder, "export m/model.safetensors --onnx m.onnx --json"));
    let encoding = exported["encoding"].as_str().unwrap();
    assert!(encoding.contains("encoded outside of the graph"), "{encoding}");
    let bytes = std::fs::read(folder.join("m.onnx")).unwrap();
    let holds = |part: &str| bytes.windows(part.len()).any(|bytes| bytes == part.as_bytes());
    assert!(holds("encoding") && holds(r#"{"category":{"names":["blue","green","red"]}}"#));
    assert!(done(folder, "export m/model.safetensors --onnx m.onnx").contains(encoding));
    // Numbers alone need no encoding.
    let plain = "train series --csv a.csv --target y --inputs x --units 4 --epochs 1 --out n";
    assert!(drnn(folder, plain).status.success());
    let exported = json(&done(folder, "export n/model.safetensors --onnx n.onnx --json"));
    assert_eq!(exported["encoding"], Value::Null);
}

/// The only input has categories, and all of them come after the training set.
#[test]
fn categories_that_only_come_later() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "a.csv", "colour,y", |hour, _, colour, y| {
        format!("{},{y:.3}", if hour < 240 { "" } else { colour })
    });
    let train = "train series --csv a.csv --target y --net gru --units 4 --epochs 1 --missing mean";
    let said = refused(folder, train);
    assert!(said.contains("no row of the training set has a category of colour"), "{said}");
    assert!(said.contains("--inputs") && !folder.join("out").exists(), "{said}");
    // Next to another input the column is left out.
    write(folder, "a.csv", "x,colour,y", |hour, x, colour, y| {
        format!("{x:.3},{},{y:.3}", if hour < 240 { "" } else { colour })
    });
    done(folder, train);
    let task = &json(&done(folder, "inspect out/series/model.safetensors --json"))["task"];
    assert_eq!(task["inputs"], serde_json::json!(["x"]));
}

#[test]
fn rows_that_are_left_out_are_not_counted_by_horizons() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "a.csv", "x,y", |hour, x, _, y| match hour % 20 {
        7 => format!(",{y:.3}"),
        _ => format!("{x:.3},{y:.3}"),
    });
    let said = done(folder, &format!("{SMALL} --csv a.csv --missing drop --out m"));
    assert!(
        said.contains("--ahead counts the rows that remain, not those that were left"),
        "{said}"
    );
}

/// A delay that the windows or a part of the data are too short for is warned of.
#[test]
fn delays_longer_than_the_data() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write(folder, "a.csv", "x,y", |_, x, _, y| format!("{x:.3},{y:.3}"));
    let said = |delay: usize, window: usize| {
        let train = format!(
            "train series --csv a.csv --target y --net dgru --units 4 --epochs 1 --delay {delay} \
             --window {window} --out m{delay}-{window}"
        );
        let output = drnn(folder, &train);
        let said = text(&output.stderr);
        assert!(output.status.success(), "{said}");
        said
    };
    let windows = "a delay of 25 is longer than the windows of 20 steps";
    assert!(said(25, 20).contains(windows));
    assert!(!said(25, 25).contains("a delay of"));
    // 30 rows each to validate and to test: nothing follows the test set.
    let short = said(40, 100);
    assert!(short.contains("the test set has 30 steps and 0 after it"), "{short}");
    assert!(!short.contains("the validation set has"), "{short}");
    let long = said(60, 100);
    assert!(long.contains("the validation set has 30 steps and 30 after it"), "{long}");
}
