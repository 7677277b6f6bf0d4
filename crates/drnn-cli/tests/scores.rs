//! One long series of every kind, scored by `train`, `eval`, `predict` and `stream`: the same rows, the
//! same score. Delays and sweeps are in `agreement.rs`.

mod common;

use common::{done, text};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::process::Command;

const ROWS: usize = 400;
/// Rows to train on; 40 to validate and 40 to test follow.
const TRAIN: usize = 320;

/// Two inputs, two targets and a class. `holes.csv` is the same with missing numbers and classes.
fn tables(folder: &Path) {
    let noise = |i: usize| ((i as f64 * 12.9898).sin() * 43758.5453).rem_euclid(1.0);
    let (mut whole, mut holes) = (String::from("x,w,y,z,k\n"), String::from("x,w,y,z,k\n"));
    for t in 0..ROWS {
        let (x, w) = (noise(t), (t as f64 / 9.0).sin());
        let y = 20.0 + 5.0 * noise(t + 2) + w;
        let z = 1000.0 * (noise(t + 1) - w);
        let kind = ["low", "mid", "high"][(3.0 * noise(t + 1)) as usize];
        let fields = [format!("{x:.5}"), format!("{w:.5}"), format!("{y:.5}"), format!("{z:.5}")];
        writeln!(whole, "{},{kind}", fields.join(",")).unwrap();
        // Inputs and targets in different rows, and in the same.
        let hole = |every: usize, field: &str| match t > 0 && t % every == 0 {
            true => ["", "NA", "nan"][t % 3].to_string(),
            false => field.into(),
        };
        let kind = if t % 13 == 1 { ["", "NA"][t % 2] } else { kind };
        let [x, w, y, z] = &fields;
        writeln!(holes, "{},{w},{},{z},{kind}", hole(7, x), hole(11, y)).unwrap();
    }
    std::fs::write(folder.join("whole.csv"), whole).unwrap();
    std::fs::write(folder.join("holes.csv"), holes).unwrap();
}

struct Case<'a> {
    table: &'a str,
    options: &'a str,
    targets: &'a [&'a str],
    /// 0 for the row itself.
    ahead: &'a [usize],
}

/// Rows of a table by the names of its columns.
fn rows(csv: &str) -> Vec<Vec<(String, String)>> {
    let mut lines = csv.lines().map(|line| line.split(',').map(String::from));
    let names: Vec<String> = lines.next().unwrap().collect();
    lines.map(|fields| names.iter().cloned().zip(fields).collect()).collect()
}

fn field<'r>(row: &'r [(String, String)], name: &str) -> &'r str {
    let found = row.iter().find(|(other, _)| other == name);
    &found.unwrap_or_else(|| panic!("{name} in {row:?}")).1
}

/// The mean squared error, or the accuracy, of the predictions for some of the rows that the network
/// has read; targets after the end of the part do not count.
fn score(rows: &[&Vec<(String, String)>], part: std::ops::Range<usize>, case: &Case) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for at in part.clone() {
        for (target, ahead) in
            case.targets.iter().flat_map(|t| case.ahead.iter().map(move |h| (t, h)))
        {
            if at + ahead >= part.end {
                continue;
            }
            let truth = field(rows[at + ahead], target);
            if ["", "NA", "nan"].contains(&truth) {
                continue;
            }
            let name = match ahead {
                0 => format!("predicted_{target}"),
                ahead => format!("predicted_{target}+{ahead}"),
            };
            let predicted = field(rows[at], &name);
            sum += match (predicted.parse::<f64>(), truth.parse::<f64>()) {
                (Ok(predicted), Ok(truth)) => (predicted - truth).powi(2),
                _ => f64::from(u8::from(predicted == truth)),
            };
            count += 1.0;
        }
    }
    sum / count
}

fn check(folder: &Path, case: &Case) {
    let Case { table, options, targets, .. } = case;
    let what = format!("{table} {options}");
    let train = format!(
        "-q train series --csv {table} {options} --units 5 --epochs 2 --threads 1 --out m --target"
    );
    done(folder, &format!("{train} {}", targets.join(",")));
    let results: Value =
        serde_json::from_slice(&std::fs::read(folder.join("m/training.json")).unwrap()).unwrap();
    let model = "m/model.safetensors";
    let eval: Value =
        serde_json::from_str(&done(folder, &format!("eval {model} {table} --json"))).unwrap();
    let predicted = done(folder, &format!("-q predict {model} {table} -o -"));
    let predicted = rows(&predicted);
    assert_eq!(predicted.len(), ROWS, "{what}");
    // Rows that `--missing drop` leaves out have no prediction, and are in no part.
    let drops = options.contains("--missing drop");
    let read: Vec<&Vec<(String, String)>> =
        predicted.iter().filter(|row| !(drops && row.last().unwrap().1.is_empty())).collect();
    assert_eq!(read.len() < ROWS, drops, "{what}");
    let held = (read.len() as f64 * 0.1).round() as usize;
    let (valid, end) = (read.len() - 2 * held, read.len());
    if !drops {
        assert_eq!(valid, TRAIN);
    }
    let metrics = &eval["metrics"];
    let all = metrics.get("accuracy").unwrap_or(&metrics["mean squared error"]);
    for (name, found, part) in [
        ("validation", &results["valid"], valid..valid + held),
        ("test", &results["test"], valid + held..end),
        ("all", all, 0..end),
    ] {
        let (found, expected) = (found.as_f64().unwrap(), score(&read, part, case));
        let error = (found - expected).abs() / expected.abs().max(1.0);
        assert!(error < 1e-6, "{what}: {name} {found}, predicted {expected}");
    }
    if results["latency"].is_null() {
        return;
    }
    let stdin = File::open(folder.join(table)).unwrap();
    let bad = if drops { "skip" } else { "stop" };
    let output = Command::new(env!("CARGO_BIN_EXE_drnn"))
        .current_dir(folder)
        .args(["-q", "stream", model, "--bad-lines", bad])
        .stdin(stdin)
        .output()
        .unwrap();
    assert!(output.status.success(), "{what}: {}", text(&output.stderr));
    let streamed = text(&output.stdout);
    assert_eq!(streamed.lines().count(), read.len(), "{what}");
    for (line, row) in streamed.lines().zip(&read) {
        let predictions = row.iter().filter(|(name, _)| name.starts_with("predicted_"));
        for ((_, expected), found) in predictions.zip(line.split('\t')) {
            assert_eq!(expected, found, "{what}");
        }
    }
}

#[test]
fn every_network_and_target_is_scored_as_it_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    tables(folder);
    let cases: [(&str, &[&str], &[usize]); 9] = [
        ("--inputs x,w --net gru", &["y"], &[0]),
        ("--inputs x,w --net drnn --delay 2", &["y"], &[0]),
        ("--inputs x,w --net dlstm --delay 2 --layers 2 --dropout 0.2", &["y"], &[0]),
        ("--inputs x,w --net bilstm", &["y", "z"], &[0]),
        ("--inputs x,w --net dgru --delay 4", &["y", "z"], &[0]),
        ("--inputs x,y --ahead 1,6,24", &["y"], &[1, 6, 24]),
        ("--inputs x,y --ahead 3,6 --net dgru --delay 2", &["y", "z"], &[3, 6]),
        ("--inputs x,w --net dgru --delay 1", &["k"], &[0]),
        ("--inputs x,k --ahead 2", &["k"], &[2]),
    ];
    for (options, targets, ahead) in cases {
        check(folder, &Case { table: "whole.csv", options, targets, ahead });
        std::fs::remove_dir_all(folder.join("m")).unwrap();
    }
}

/// Also rows that have no target: a model in use reads them.
#[test]
fn missing_numbers_are_scored_as_they_are_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    tables(folder);
    for missing in ["zero", "mean", "previous", "drop"] {
        for (more, target, ahead) in [
            ("--inputs x,w --net dlstm --delay 2", "y", 0),
            ("--inputs x,w --net bigru", "y", 0),
            ("--inputs x,w --net dlstm --delay 2", "k", 0),
            ("--inputs x,w --ahead 3", "y", 3),
        ] {
            let options = format!("{more} --missing {missing}");
            let (targets, ahead) = (&[target], &[ahead]);
            check(folder, &Case { table: "holes.csv", options: &options, targets, ahead });
            std::fs::remove_dir_all(folder.join("m")).unwrap();
        }
    }
}
