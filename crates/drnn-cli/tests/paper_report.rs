//! `drnn report` on the folder of a campaign: the page of the whole paper.

mod common;

use common::{done, refused};
use serde_json::Value;
use std::path::Path;

const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results/paper");

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// A campaign with some of the repository's records.
fn some(folder: &Path, ids: &[&str]) {
    for id in ids {
        let to = folder.join("tasks").join(format!("{id}.json"));
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(format!("{RESULTS}/tasks/{id}.json"), to).unwrap();
    }
}

/// A row of a table of report.md, by its first cell.
fn row<'a>(report: &'a str, first: &str) -> Vec<&'a str> {
    let line = report.lines().find(|line| line.starts_with(&format!("| {first} |")));
    line.unwrap_or_else(|| panic!("no row {first:?}")).split('|').map(str::trim).collect()
}

#[test]
fn the_page_has_every_row_and_explains_what_is_absent() {
    let folder = tempfile::tempdir().unwrap();
    let table = done(folder.path(), &format!("report {RESULTS} --out page"));
    assert!(table.contains("Theorem 1: a stack of k layers"), "{table}");
    let page = folder.path().join("page");
    let (html, report) = (read(&page, "index.html"), read(&page, "report.md"));
    for name in ["mlm/large-dlstm-8", "mlm/small-bilstm-5", "sine/gamma-4.5", "reversal/dlstm-19"] {
        assert!(html.contains(name), "{name}");
    }
    for lang in ["en", "fr", "de"] {
        assert_eq!(html.matches(&format!("pos/{lang}/")).count(), 31, "{lang}");
    }
    // Nothing is fetched.
    assert!(!html.contains("src=") && !html.contains("href=\"http"), "an external reference");
    assert!(html.contains("Content-Security-Policy"));
    // A number from its file, and the paper's divided by targets.
    let large = row(&report, "d-LSTM 8");
    assert_eq!((large[2], large[4]), ("0.711", "0.737 ± 0.003"));
    assert_eq!((large[8], large[9]), ("0.706", "mlm/large-dlstm-8"));
    for heading in ["Corrections", "What is missing", "What differs from the paper", "Provenance"] {
        assert!(report.contains(&format!("\n## {heading}\n")), "{heading}");
    }
    // The repository has the page of its results.
    for name in ["index.html", "report.md", "tasks.csv", "bpc-large.svg", "sine.svg"] {
        let shown = read(Path::new(RESULTS), name).replace('\r', "");
        assert!(read(&page, name) == shown, "{name}: renew it with `drnn report results/paper`");
    }
    let csv = read(&page, "tasks.csv");
    assert!(csv.contains("\nmlm/small-dlstm-8/seed-1,paper,1,test_bpc,0.909355"), "{csv}");
}

#[test]
fn numbers_and_verdicts_follow_from_the_records() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let ids = [
        "mlm/small-dlstm-8/seed-1",
        "mlm/small-dlstm-8/seed-2",
        "mlm/small-lstm-2/seed-1",
        "mlm/small-lstm-2/seed-2",
        "mlm/small-bilstm-2/seed-1",
    ];
    some(&folder.join("c"), &ids);
    let claim = "A d-LSTM of one layer has a lower BPC than stacked LSTMs of as many parameters";
    done(folder, "report c");
    let report = read(&folder.join("c"), "report.md");
    assert_eq!(row(&report, claim)[2], "holds");
    assert_eq!(row(&report, "LSTM, 2 layers")[2], "not trained yet");
    assert!(report.contains("| 2.197 ± 0.002 | 1, 2 |"), "{report}");
    // Where the LSTM is much better, the claim does not hold.
    for seed in [1, 2] {
        let path = folder.join(format!("c/tasks/mlm/small-lstm-2/seed-{seed}.json"));
        let mut record: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        record["outcome"]["run"]["test_bpc"] = 0.5.into();
        std::fs::write(&path, record.to_string()).unwrap();
    }
    done(folder, "report c");
    let report = read(&folder.join("c"), "report.md");
    assert_eq!(row(&report, claim)[2], "does not hold");
    let within = row(&report, "d-LSTMs with intermediate delays are within 5 % of the Bi-LSTM");
    assert!(within[3].contains("12.2 % above Bi-LSTM, 2 layers, small"), "{within:?}");
    // Nothing is claimed where nothing was trained.
    assert_eq!(row(&report, "Stacked Bi-LSTMs have the lowest BPC")[2], "holds");
    let tagging = row(&report, "A word-level d-LSTM of delay 1 is within 0.3 % of the Bi-LSTM");
    assert_eq!(tagging[2], "not yet enough trainings");
}

#[test]
fn a_trial_is_called_one_and_bad_folders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    done(folder, "reproduce all --quick --out trial --task depth --task theorem");
    done(folder, "report trial");
    let html = read(&folder.join("trial"), "index.html");
    assert!(html.contains("A shrunken campaign (--quick)"), "{html}");
    assert!(!html.contains("class=\"claims\""));
    std::fs::create_dir_all(folder.join("empty/tasks")).unwrap();
    assert!(refused(folder, "report empty").contains("contains no results of tasks"));
    std::fs::write(folder.join("trial/tasks/quick/depth.json"), "{}").unwrap();
    assert!(refused(folder, "report trial").contains("depth.json: not a results file"));
}
