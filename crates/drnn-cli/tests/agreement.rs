//! One long series: `train`, `sweep`, `eval`, `predict` and `stream` agree on the same rows.

mod common;

use common::done;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

const ROWS: usize = 600;
/// The validation and the test set, counted from 0.
const PARTS: [std::ops::Range<usize>; 2] = [480..540, 540..600];
const OPTIONS: &str = "--csv a.csv --target y --units 6 --epochs 4 --window 50 --threads 1";

/// Noise whose sum with the value two steps later is the target.
fn table(folder: &Path) -> Vec<f64> {
    let noise = |i: usize| ((i as f64 * 12.9898).sin() * 43758.5453).rem_euclid(1.0);
    let mut out = String::from("x,y\n");
    let mut targets = Vec::new();
    for t in 0..ROWS {
        let y = 5.0 + noise(t) + 2.0 * noise(t + 2) + 0.3 * noise(7 * t + 1);
        writeln!(out, "{:.5},{y:.5}", noise(t)).unwrap();
        targets.push(format!("{y:.5}").parse().unwrap());
    }
    std::fs::write(folder.join("a.csv"), out).unwrap();
    targets
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Mean squared errors on the validation and the test set.
fn errors(predictions: &[f64], targets: &[f64]) -> [f64; 2] {
    assert_eq!(predictions.len(), targets.len());
    PARTS.map(|part| {
        let n = part.len() as f64;
        part.map(|t| (predictions[t] - targets[t]).powi(2)).sum::<f64>() / n
    })
}

/// The errors of the predictions that `drnn stream` writes while it reads the table.
fn streamed(folder: &Path, model: &str, targets: &[f64]) -> [f64; 2] {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
    command.current_dir(folder).args(["stream", model, "--to", "json"]).stderr(Stdio::null());
    command.stdin(std::fs::File::open(folder.join("a.csv")).unwrap());
    let output = command.output().unwrap();
    assert!(output.status.success());
    let lines = String::from_utf8(output.stdout).unwrap();
    let value = |line: &str| serde_json::from_str::<Value>(line).unwrap()["values"]["y"].as_f64();
    errors(&lines.lines().map(|line| value(line).unwrap()).collect::<Vec<_>>(), targets)
}

/// The same of the table that `drnn predict` writes.
fn predicted(folder: &Path, model: &str, targets: &[f64]) -> [f64; 2] {
    done(folder, &format!("predict {model} a.csv -o predicted.csv"));
    let text = std::fs::read_to_string(folder.join("predicted.csv")).unwrap();
    std::fs::remove_file(folder.join("predicted.csv")).unwrap();
    let last = |line: &str| line.rsplit(',').next().unwrap().parse().unwrap();
    errors(&text.lines().skip(1).map(last).collect::<Vec<f64>>(), targets)
}

/// What `drnn eval` says of the same rows.
fn evaluated(folder: &Path, model: &str) -> [f64; 2] {
    PARTS.map(|part| {
        let rows = format!("{}..{}", part.start + 1, part.end);
        let said = done(folder, &format!("eval {model} a.csv --rows {rows} --json"));
        let value: Value = serde_json::from_str(&said).unwrap();
        value["metrics"]["mean squared error"].as_f64().unwrap()
    })
}

fn assert_close(found: [f64; 2], expected: [f64; 2], what: &str) {
    for (found, expected) in found.into_iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-6 * expected, "{what}: {found}, {expected}");
    }
}

fn scores(value: &Value) -> [f64; 2] {
    ["valid", "test"].map(|set| value[set].as_f64().unwrap())
}

#[test]
fn every_command_finds_the_same_error_on_the_same_rows() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let targets = table(folder);
    let nets = "--nets dlstm,dgru,bigru --delays 0,1,2,3,4,5,6,7,8 --repeats 2";
    done(folder, &format!("sweep series {OPTIONS} {nets} --out sweep"));
    let sweep = json(&folder.join("sweep/sweep.json"));
    let runs = sweep["runs"].as_array().unwrap();
    let run = |net: &str, repetition: u64| {
        let found = runs.iter().find(|run| run["net"] == net && run["repetition"] == repetition);
        found.unwrap_or_else(|| panic!("{net}"))
    };
    let dlstms = (0..=8).map(|delay| (format!("dlstm-{delay}"), "dlstm", Some(delay)));
    let others = [("dgru-3".to_string(), "dgru", Some(3)), ("bigru".to_string(), "bigru", None)];
    for (net, kind, delay) in dlstms.chain(others) {
        // The bidirectional one of a sweep has as many parameters as the others, and so fewer units.
        let delay_option = delay.map_or("--units 3".to_string(), |d: usize| format!("--delay {d}"));
        let options = match delay {
            Some(_) => OPTIONS.to_string(),
            None => OPTIONS.replace("--units 6", ""),
        };
        done(folder, &format!("train series {options} --net {kind} {delay_option} --out {net}"));
        let trained = json(&folder.join(&net).join("training.json"));
        let expected = scores(&trained);
        assert_eq!(scores(run(&net, 0)), expected, "{net}");
        assert_eq!(run(&net, 0)["kept_epoch"], trained["kept_epoch"], "{net}");
        // The number that is logged is the one that chose the epoch, and the one in the summary.
        let kept = trained["kept_epoch"].as_u64().unwrap() as usize;
        assert_eq!(trained["history"][kept - 1]["valid_score"], trained["valid"], "{net}");
        let model = format!("{net}/model.safetensors");
        assert_close(evaluated(folder, &model), expected, &net);
        assert_close(predicted(folder, &model, &targets), expected, &net);
        if delay.is_some() {
            assert_close(streamed(folder, &model, &targets), expected, &net);
        }
    }
    // The model that the sweep saved is the best training of the network that it recommends.
    let saved = &sweep["model"];
    let net = saved["net"].as_str().unwrap();
    let all = [0, 1].map(|repetition| run(net, repetition)["valid"].as_f64().unwrap());
    let best = scores(run(net, saved["repetition"].as_u64().unwrap()));
    assert_eq!(best[0], all[0].min(all[1]));
    assert_close(evaluated(folder, "sweep/model.safetensors"), best, net);
    // A network trained on repeats of its own has the same two trainings.
    let delay: usize = net.split_once('-').unwrap().1.parse().unwrap();
    let kind = net.split_once('-').unwrap().0;
    let again = format!("--net {kind} --delay {delay} --repeats 2 --out repeated");
    let said = done(folder, &format!("train series {OPTIONS} {again}"));
    assert!(said.contains("2 trainings from different seeds") && said.contains(" ± "), "{said}");
    assert_eq!(scores(&json(&folder.join("repeated/training.json"))), best);
    let models = ["sweep", "repeated"].map(|at| folder.join(at).join("model.safetensors"));
    let [one, other] = models.map(|path| std::fs::read(path).unwrap());
    assert!(one == other);
}
