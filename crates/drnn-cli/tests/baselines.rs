//! Baselines in results and reports, and the warning where a network is no better than one of them.

mod common;

use common::{done, drnn, text};
use serde_json::Value;
use std::path::Path;

/// A random walk: nothing is better than the step before.
fn walk(folder: &Path) {
    let (mut table, mut y, mut state) = (String::from("x,y\n"), 0.0, 1u32);
    for _ in 0..600 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        y += f64::from(state >> 8) / f64::from(1 << 24) - 0.5;
        table += &format!("{},{y}\n", state >> 20);
    }
    std::fs::write(folder.join("walk.csv"), table).unwrap();
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn a_series_that_is_no_better_than_persistence_says_so_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    walk(folder);
    let command =
        "train series --csv walk.csv --target y --net dgru --delay 1 --units 4 --epochs 2";
    let output = drnn(folder, command);
    let (out, said) = (text(&output.stdout), text(&output.stderr));
    let loud = "NO BETTER THAN A BASELINE: the network has mean squared error";
    assert!(out.contains(loud) && said.contains(&format!("warning: {loud}")), "{out}{said}");
    let results = json(&folder.join("out/series/training.json"));
    assert!(results["warning"].as_str().unwrap().starts_with(loud));
    let names: Vec<&str> = results["baselines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| b["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["mean", "persistence", "ridge"]);

    // Persistence on the last 60 rows, from the table itself.
    let y: Vec<f64> = read(&folder.join("walk.csv"))
        .lines()
        .skip(1)
        .map(|line| line.split(',').nth(1).unwrap().parse().unwrap())
        .collect();
    let error: f64 = (540..600).map(|t| (y[t] - y[t - 1]).powi(2)).sum::<f64>() / 60.0;
    let found = results["baselines"][1]["test"].as_f64().unwrap();
    assert!((found - error).abs() < 1e-5, "{found} {error}");

    let (page, report) =
        (read(&folder.join("out/series/index.html")), read(&folder.join("out/series/report.md")));
    assert!(page.contains("<p class=\"alarm\" role=\"alert\">NO BETTER THAN A BASELINE"), "{page}");
    assert!(report.contains("**NO BETTER THAN A BASELINE"), "{report}");
    assert!(report.contains("| persistence |") && report.contains("| network |"), "{report}");
    // Arrows are arrows, and there are pictures of predictions against the truth.
    assert!(!report.contains("&gt;") && report.contains(" -> "), "{report}");
    for name in ["predictions", "scatter"] {
        assert!(report.contains(&format!("({name}.svg)")), "{report}");
        let picture = read(&folder.join(format!("out/series/{name}.svg")));
        assert!(picture.contains("<path class=") && !picture.contains("NaN"), "{name}");
    }
    // The report is a function of the results file.
    std::fs::remove_file(folder.join("out/series/report.md")).unwrap();
    done(folder, "-q report out/series/training.json");
    assert_eq!(read(&folder.join("out/series/report.md")), report);

    let eval = done(folder, "eval out/series/model.safetensors walk.csv");
    assert!(
        eval.contains("\npersistence") && eval.contains(loud.split(':').next().unwrap()),
        "{eval}"
    );
}

#[test]
fn sweeps_have_baselines_too() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    walk(folder);
    let command =
        "-q sweep series --csv walk.csv --target y --nets dgru --delays 0,2 --units 3 --epochs 1";
    let out = done(folder, command);
    assert!(out.contains("\npersistence") && out.contains("NO BETTER THAN A BASELINE"), "{out}");
    let results = json(&folder.join("out/sweep-series/sweep.json"));
    assert!(results["baselines"][2]["what"].as_str().unwrap().contains("t-23 to t+2"), "{results}");
    assert!(read(&folder.join("out/sweep-series/index.html")).contains("class=\"alarm\""));
}

#[test]
fn characters_are_compared_with_their_frequencies_and_accuracies_have_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("t.txt"), "a big cat and a dog sat on the mat. ".repeat(80))
        .unwrap();
    let train =
        "-q train chars --text t.txt --window 40 --units 4 --delay 2 --epochs 1 --rate 0.000001";
    let out = done(folder, train);
    assert!(out.contains("\nunigram") && out.contains("\nbigram"), "{out}");
    assert!(out.contains("NO BETTER THAN A BASELINE: the network has bits"), "{out}");

    let rows: String =
        (0..300).map(|i| format!("{},{}\n", i % 7, ["a", "b"][(i / 3) % 2])).collect();
    std::fs::write(folder.join("c.csv"), format!("x,kind\n{rows}")).unwrap();
    let train = "-q train series --csv c.csv --target kind --net gru --units 3 --epochs 1";
    let out = done(folder, train);
    assert!(out.contains("\nmajority class"), "{out}");
    let results = json(&folder.join("out/series/training.json"));
    assert_eq!(results["scored"], serde_json::json!([30, 30]));
    let p = results["test"].as_f64().unwrap();
    let error = (p * (1.0 - p) / 30.0).sqrt();
    assert!(out.contains(&format!("{p:.4} ± {error:.4} on the test set")), "{out}");
    let page = read(&folder.join("out/series/index.html"));
    assert!(page.contains("± its standard error, sqrt(p (1 - p) / n)"), "{page}");
}
