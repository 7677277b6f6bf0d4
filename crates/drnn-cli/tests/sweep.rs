//! `drnn sweep`: quality against latency.

mod common;

use common::{done, refused};
use std::path::Path;

/// A sweep that takes a second.
const SMALL: &str = "sweep reversal --steps 6 --symbols 2 --units 12 --epochs 8";

/// Everything found but how long it took.
fn csv(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("sweep.csv")).unwrap();
    text.lines().map(|line| line.rsplit_once(',').unwrap().0.to_string()).collect()
}

#[test]
fn networks_are_compared_and_one_is_recommended() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let nets = "--sequences 200 --batch 20 --delays 0,2,5 --nets dlstm,dgru,bilstm --repeats 2";
    let text = done(folder, &format!("{SMALL} {nets} --threads 1 --out a"));
    for name in ["dlstm-0", "dlstm-5", "dgru-2", "bilstm", "Recommended: d", "±"] {
        assert!(text.contains(name), "{name}: {text}");
    }
    assert_eq!(text.matches('*').count(), 1, "{text}");
    for name in ["index.html", "report.md", "sweep.csv", "sweep.svg", "sweep.png", "log.jsonl"] {
        assert!(folder.join("a").join(name).exists(), "{name}");
    }
    let found = csv(&folder.join("a"));
    assert_eq!(found.len(), 1 + 7 * 2);

    // The same on any number of threads.
    done(folder, &format!("{SMALL} {nets} --threads 2 --out b"));
    assert_eq!(csv(&folder.join("b")), found);

    // Nothing is overwritten; what is done goes on to the same; another sweep does not go on from it.
    let refused = |more: &str, why: &str| {
        let said = refused(folder, &format!("{SMALL} {nets} --out a {more}"));
        assert!(said.contains(why), "{said}");
    };
    refused("", "results of an earlier run");
    refused("--rate 0.5 --resume", "is of another training");
    refused("--seed 2 --resume", "is of another training");
    done(folder, &format!("{SMALL} {nets} --out a --resume"));
    assert_eq!(csv(&folder.join("a")), found);
}

#[test]
fn a_sweep_of_errors() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = "sweep sine --sequences 60 --units 8 --epochs 2 --delays 5,0 --nets drnn,birnn";
    let text = done(folder.path(), &format!("{sweep} --tolerance 0.5 --json"));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["metric"], "squared-error");
    assert_eq!(json["runs"].as_array().unwrap().len(), 3);
    assert_eq!(json["sequences"], serde_json::json!([60, 12, 12]));
    assert!(folder.path().join("out/sweep-sine/index.html").exists());
}

#[test]
fn what_makes_no_sense_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    for (more, why) in [
        ("--delays 1,2,1", "--delays: 1 is given twice"),
        ("--delays 6", "with a delay of 5 all of it is read"),
        ("--nets lstm", "at least one must be delayed"),
        ("--nets dlstm,dlstm", "is given twice"),
        ("--nets tcn", "invalid value 'tcn'"),
        ("--sequences 99", "batches of 100 sequences, of 99 in all"),
        ("--tolerance -1", "unexpected argument"),
        ("--tolerance 11", "expected 0 to 10"),
        ("--rate nan", "expected a number above 0"),
        ("--sequences 0", "0 is not in 1"),
    ] {
        let said = refused(folder.path(), &format!("{SMALL} {more}"));
        assert!(said.contains(why), "{more}: {said}");
        assert!(!folder.path().join("out").exists(), "{more}");
    }
    assert!(refused(folder.path(), "sweep chess").contains("unrecognized subcommand 'chess'"));
}
