//! Series as people have them: forecasts, dates, categories, tables of R.

mod common;

use common::{done, drnn, refused, text};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

const SMALL: &str = "train series --csv a.csv --target y --units 8 --epochs 2 --threads 1";

/// Hours of four weeks: a wave of a day, and two kinds of day.
fn hours(folder: &Path) {
    let mut out = String::from("date,kind,id,y\n");
    for hour in 0..24 * 28 {
        let (day, hour) = (hour / 24, hour % 24);
        let weekend = day % 7 >= 5;
        let y = 20.0 + 5.0 * (hour as f64 / 24.0 * std::f64::consts::TAU).sin();
        let (kind, y) = if weekend { ("rest", y - 3.0) } else { ("work", y) };
        let id = 1000 + day * 24 + hour;
        writeln!(out, "{:02}/02/2016 {hour:02}:00,{kind},{id},{y:.3}", day + 1).unwrap();
    }
    std::fs::write(folder.join("a.csv"), out).unwrap();
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// What `drnn stream` answers to these lines: stdout and stderr.
fn streamed(folder: &Path, arguments: &str, lines: &str) -> (String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
    command.current_dir(folder).args(arguments.split_whitespace());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let lines = lines.to_string();
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    (text(&output.stdout), text(&output.stderr))
}

/// Trained, evaluated and streamed from raw rows: one error per horizon, the same everywhere.
#[test]
fn a_forecast_from_dates_and_categories() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    hours(folder);
    let train = format!("{SMALL} --inputs y,kind --time date --ahead 24,1,6 --out m");
    let output = drnn(folder, &train);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    for note in [
        "--delay 0, the default here: outputs come at once",
        "column kind has 2 categories",
        "column date becomes hour-of-day, day-of-week",
    ] {
        assert!(said.contains(note), "{note}: {said}");
    }
    let said = text(&output.stdout);
    for name in ["y+1 ", "y+6 ", "y+24 "] {
        assert!(said.contains(&format!("\n{name}")), "{name}: {said}");
    }
    // The network and each baseline, by horizon: a table, and a picture.
    assert!(said.contains("\ntarget  network   mean  persistence"), "{said}");
    let results = json(&std::fs::read_to_string(folder.join("m/training.json")).unwrap());
    let judged = results["judged"].as_array().unwrap();
    let by_horizon = judged.iter().find_map(|judged| judged.get("horizons")).unwrap();
    let names: Vec<&Value> =
        by_horizon["errors"].as_array().unwrap().iter().map(|of| &of["name"]).collect();
    assert_eq!(names, ["network", "mean", "persistence", "ridge"]);
    assert!(folder.join("m/horizons.svg").exists());
    let task = &json(&done(folder, "inspect m/model.safetensors --json"))["task"];
    assert_eq!(task["forecast"], serde_json::json!({"columns": ["y"], "ahead": [1, 6, 24]}));
    assert_eq!(task["columns"][2]["kind"]["time"]["format"], "day-first");

    let found = json(&done(folder, "eval m/model.safetensors a.csv --json"));
    assert_eq!(found["counts"]["scored"], 3 * 24 * 28 - 31);
    let table = std::fs::read_to_string(folder.join("a.csv")).unwrap();
    let (out, _) = streamed(folder, "stream m/model.safetensors --to json", &table);
    let y: Vec<f64> = table
        .lines()
        .skip(1)
        .map(|line| line.rsplit_once(',').unwrap().1.parse().unwrap())
        .collect();
    let (mut sum, mut count) = (0.0, 0);
    for (row, line) in out.lines().enumerate() {
        for ahead in [1, 6, 24] {
            let value = json(line)["values"][format!("y+{ahead}")].as_f64().unwrap();
            if let Some(truth) = y.get(row + ahead) {
                (sum, count) = (sum + (value - truth) * (value - truth), count + 1);
            }
        }
    }
    let evaluated = found["metrics"]["mean squared error"].as_f64().unwrap();
    assert_eq!(count, 3 * 24 * 28 - 31);
    assert!((sum / f64::from(count) / evaluated - 1.0).abs() < 1e-6, "{sum} {evaluated}");

    // Rows by name as JSON, a category that is new, and a date that does not exist.
    let row = r#"{"kind": "feast", "date": "29/02/2016 12:00", "y": 20.5}"#;
    let (out, _) = streamed(folder, "stream m/model.safetensors --from json", row);
    assert_eq!(out.split('\t').count(), 3, "{out}");
    let (_, said) =
        streamed(folder, "stream m/model.safetensors", "y,kind,date\n20,feast,29/02/2016 12:00\n");
    assert!(said.contains("1 field has a category that the model does not know"), "{said}");
    let (_, said) =
        streamed(folder, "stream m/model.safetensors", "y,kind,date\n20,work,30/02/2016\n");
    assert!(said.contains("standard input:2: column `date`: `30/02/2016` is not a time"), "{said}");

    // The test set of another file has a kind of day that the training set does not have.
    let other =
        table.lines().rev().take(60).fold(String::new(), |all, line| format!("{line}\n{all}"));
    let other = format!("date,kind,id,y\n{}", other.replace("rest", "feast"));
    std::fs::write(folder.join("b.csv"), other).unwrap();
    let said = done(folder, &train.replace("--out m", "--out n --test b.csv"));
    assert!(said.contains("fields of the test set have categories that"), "{said}");
    let said = done(folder, "eval m/model.safetensors b.csv");
    assert!(said.contains("fields have categories that the model does not know"), "{said}");
}

#[test]
fn delays_of_forecasts_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    hours(folder);
    let base = format!("{SMALL} --inputs y --ahead 6");
    let said = |more: &str| text(&drnn(folder, &format!("{base} {more}")).stderr);
    let late = said("--net dgru --delay 2 --out a");
    assert!(
        late.contains("the output comes 2 steps after its row, 4 steps before the target"),
        "{late}"
    );
    let known = said("--net dgru --delay 6 --out b");
    assert!(known.contains("is no forecast") && known.contains("use --delay below 6"), "{known}");
    // Without a forecast the default is a delay that the data allow.
    let plain = format!("{SMALL} --inputs id --out c");
    let said = text(&drnn(folder, &plain).stderr);
    assert!(
        said.contains("--delay 5, the default here: the output for a step comes 5 steps later")
    );
    let sweep = "sweep series --csv a.csv --target y --inputs y --ahead 2 --delays 0,3 --nets dgru \
                 --units 4 --epochs 1";
    let output = drnn(folder, sweep);
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("--ahead 2 with a delay of 3 steps is no"));
    // By default only delays below the horizon, and no network that reads what is to be forecast.
    let sweep =
        "sweep series --csv a.csv --target y --inputs y --ahead 2 --units 4 --epochs 1 --out s";
    let output = drnn(folder, sweep);
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("bilstm is left out"), "{said}");
    let found = text(&output.stdout);
    assert!(found.contains("dlstm-1") && !found.contains("dlstm-2") && !found.contains("bilstm"));
}

#[test]
fn what_cannot_be_forecast_names_the_option() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    hours(folder);
    for (more, why) in [
        ("--inputs y", "as an input, a target would only be copied; --ahead H forecasts it"),
        ("--inputs y --ahead 0", "0 is not in 1"),
        ("--inputs y --ahead 70", "no step of the validation set has a target y+70"),
        ("--inputs y --ahead 700", "there is no target y+700: sequences have at most 672 rows"),
        ("--inputs kind,date --time-format month-first --time date", "`13/02/2016 00:00` is not"),
        ("--inputs id --time id", "column `id` holds numbers; --time-format unix"),
        ("--inputs y --ahead 1 --time kind", "`rest` is not a time that is recognised"),
        ("--inputs kind --max-categories 1", "more than 1 different values"),
        ("--time nix", "has no column `nix`"),
        (
            "--inputs y --ahead 3 --net bigru",
            "reads the whole sequence, also what is to be forecast",
        ),
    ] {
        let said = refused(folder, &format!("{SMALL} {more}"));
        assert!(said.contains(why), "{more}: {said}");
        assert!(!folder.join("out").exists(), "{more}");
    }
}

/// Tables as R, spreadsheets and pandas write them.
#[test]
fn tables_of_other_programs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (name, between, head) in
        [("r", " ", "\"x\" \"y\""), ("sheet", ";", "\"x\";\"y\""), ("tabs", "\t", "x\ty")]
    {
        let mut out = format!("{head}\n");
        for i in 0..60 {
            let row = [format!("\"{}\"", i + 1), format!("{}.5", i % 7), (i % 5).to_string()];
            writeln!(out, "{}", row.join(between)).unwrap();
        }
        std::fs::write(folder.join("a.csv"), out).unwrap();
        let output = drnn(folder, &format!("{SMALL} --net gru --out {name}"));
        let said = text(&output.stderr);
        assert!(output.status.success(), "{name}: {said}");
        assert!(said.contains("(--delimiter)") && said.contains("the rows' names"), "{said}");
        let found = json(&done(folder, &format!("eval {name}/model.safetensors a.csv --json")));
        assert_eq!(found["counts"]["steps"], 60);
        let task =
            &json(&done(folder, &format!("inspect {name}/model.safetensors --json")))["task"];
        assert_eq!((&task["inputs"], task.get("columns")), (&serde_json::json!(["x"]), None));
        let table = std::fs::read_to_string(folder.join("a.csv")).unwrap();
        let (out, said) = streamed(folder, &format!("stream {name}/model.safetensors"), &table);
        assert_eq!(out.lines().count(), 60, "{said}");
    }
}
