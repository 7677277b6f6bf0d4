//! `--dropout`, `--weight-decay`, `--class-weights`: in `train` and `sweep`, resumed to the bit, stated
//! in the report, refused where they make no sense.

mod common;

use common::{done, refused};
use serde_json::Value;
use std::path::Path;

/// One row in twenty is a fall, which the input shows dimly.
fn table(folder: &Path) {
    let mut rng = drnn::random::Rng::new(3);
    let row = |_| {
        let fall = rng.below(20) == 0;
        let x = rng.normal() + if fall { 1.5 } else { 0.0 };
        format!("{x},{}\n", if fall { "fall" } else { "walk" })
    };
    let rows: String = (0..1500).map(row).collect();
    std::fs::write(folder.join("a.csv"), format!("x,y\n{rows}")).unwrap();
}

fn results(folder: &Path, name: &str) -> Value {
    let text = std::fs::read_to_string(folder.join(name)).unwrap();
    let mut json: Value = serde_json::from_str(&text).unwrap();
    (json["provenance"], json["seconds"]) = ("".into(), 0.into());
    json
}

const SERIES: &str =
    "train series --csv a.csv --target y --net lstm --units 6 --layers 2 --epochs 3";

#[test]
fn trainings_with_them_go_on_to_the_same_bits_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    table(folder);
    let with = format!("{SERIES} --dropout 0.3 --weight-decay 0.05 --class-weights balanced");
    done(folder, &format!("{with} --threads 1 --out a"));
    done(folder, &format!("{with} --threads 2 --out b"));
    let found = results(folder, "a/training.json");
    assert_eq!(found, results(folder, "b/training.json"));
    let options = &found["options"];
    assert_eq!(options["dropout"].as_f64().map(|p| (p * 10.0).round()), Some(3.0));
    assert!(options["adam"]["weight_decay"].as_f64().is_some_and(|w| (w - 0.05).abs() < 1e-6));
    let what = found["what"].as_str().unwrap();
    assert!(what.contains("class weights") && what.contains("fall="), "{what}");
    let page = std::fs::read_to_string(folder.join("a/report.md")).unwrap();
    assert!(page.contains("Dropout") && page.contains("weight decay 0.05"), "{page}");

    done(folder, &format!("{SERIES} --out plain"));
    let plain = results(folder, "plain/training.json");
    assert!(plain["options"].get("dropout").is_none(), "{}", plain["options"]);
    assert!(plain["options"]["adam"].get("weight_decay").is_none(), "{}", plain["options"]);
    assert_ne!(plain["history"], found["history"]);
    // The model itself has no trace of them: it runs as any other.
    done(folder, "eval a/model.safetensors a.csv");
    for other in ["--dropout 0.2", "--weight-decay 0.05", "--class-weights fall=2"] {
        let said = refused(folder, &format!("{SERIES} --out plain --resume {other}"));
        assert!(said.contains("another training") || said.contains("differ"), "{other}: {said}");
    }
}

/// Falls are rare: without weights they are hardly ever predicted, balanced about as often as not.
#[test]
fn balanced_weights_find_what_is_rare() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    table(folder);
    let recall = |out: &str, options: &str| {
        let command = "train series --csv a.csv --target y --net lstm --units 8 --epochs 15";
        done(folder, &format!("{command} {options} --keep last --out {out}"));
        let said = done(folder, &format!("eval {out}/model.safetensors a.csv"));
        let row = said.lines().find(|line| line.starts_with("fall ")).expect("a row of falls");
        let cells: Vec<&str> = row.split_whitespace().collect(); // class, steps, precision, recall
        cells[3].parse::<f64>().unwrap_or(0.0)
    };
    let (plain, balanced) = (recall("a", ""), recall("b", "--class-weights balanced"));
    assert!(balanced > plain + 0.2, "recall of falls: {plain}, balanced {balanced}");
}

#[test]
fn taggers_and_sweeps_have_them_too() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    table(folder);
    let words = "the\tDET\nfox\tNOUN\njumps\tVERB\n\nthe\tDET\ndog\tNOUN\n\n".repeat(10);
    std::fs::write(folder.join("a.tsv"), words).unwrap();
    let tagger = "train tagger --train a.tsv --dev a.tsv --word-units 8 --char-units 8 --epochs 1";
    let all = "--dropout 0.5 --weight-decay 0.1 --class-weights VERB=3";
    done(folder, &format!("{tagger} {all} --out tagger"));
    let what = results(folder, "tagger/training.json")["what"].to_string();
    assert!(what.contains("VERB=3") && what.contains("NOUN=1"), "{what}");
    let sweep = "sweep series --csv a.csv --target y --units 4 --epochs 1 --delays 0";
    done(folder, &format!("{sweep} --dropout 0.1 --weight-decay 0.01 --class-weights balanced"));
    let found = results(folder, "out/sweep-series/sweep.json");
    assert!(found["options"]["dropout"].as_f64().is_some(), "{}", found["options"]);
    assert!(found["what"].to_string().contains("class weights"), "{}", found["what"]);
    let sweep =
        "sweep tagger --train a.tsv --dev a.tsv --test a.tsv --units 4 --epochs 1 --delays 0";
    done(folder, &format!("{sweep} --dropout 0.1 --class-weights balanced"));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    table(folder);
    std::fs::write(folder.join("n.csv"), "x,y\n".to_string() + &"1,2\n3,4\n".repeat(50)).unwrap();
    let numbers = "train series --csv n.csv --target y --net lstm";
    for (command, why) in [
        (format!("{SERIES} --dropout 1"), "from 0 to below 1"),
        (format!("{SERIES} --dropout=-0.1"), "from 0 to below 1"),
        (format!("{SERIES} --weight-decay=-1"), "0 or more"),
        (format!("{SERIES} --weight-decay 1000"), "weight decay"),
        (format!("{SERIES} --class-weights run=2"), "no class `run`"),
        (format!("{SERIES} --class-weights nofile"), "expected balanced"),
        (format!("{numbers} --class-weights balanced"), "--classify makes"),
    ] {
        let said = refused(folder, &command);
        assert!(said.contains(why), "{command}: {said}");
        assert!(!folder.join("out").exists(), "{command}");
    }
}
