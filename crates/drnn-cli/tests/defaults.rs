//! Defaults of trainings follow the size of the data, and what they cannot mend is said loudly.

mod common;

use common::{done, drnn, refused, text};
use serde_json::Value;
use std::path::Path;

fn options(folder: &Path, arguments: &str) -> (u64, u64, u64) {
    done(folder, &format!("{arguments} --out a"));
    let json = std::fs::read_to_string(folder.join("a/training.json")).unwrap();
    std::fs::remove_dir_all(folder.join("a")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let (batch, epochs) = (&json["options"]["batch"], &json["options"]["epochs"]);
    let (batch, epochs) = (batch.as_u64().unwrap(), epochs.as_u64().unwrap());
    (batch, epochs, json["sequences"][0].as_u64().unwrap().div_ceil(batch) * epochs)
}

/// Words whose letters can be inferred from each other, in random order.
fn words(count: usize) -> String {
    let mut rng = drnn::random::Rng::new(5);
    let list = ["quagmire ", "buzzword ", "jackpot ", "sphinx ", "fjord ", "vexing ", "λόγος "];
    (0..count).map(|_| list[rng.below(list.len())]).collect()
}

/// A short text with default options is learned: with batches of 128 it was not, in silence.
#[test]
fn a_short_text_is_learned_with_defaults() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("a.txt"), words(3000)).unwrap();
    let said = done(folder, "train chars --text a.txt --delay 3 --units 16 --window 60 --json");
    let json: Value = serde_json::from_str(&said).unwrap();
    assert!(json["valid"].as_f64().unwrap() < 2.0, "{} bits", json["valid"]);
    let [batch, epochs] = ["batch", "epochs"].map(|name| json["options"][name].as_u64().unwrap());
    assert!(json["sequences"][0].as_u64().unwrap().div_ceil(batch) * epochs >= 4000);
}

#[test]
fn small_tables_and_treebanks_have_enough_updates_and_given_options_stay() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rows: String = (0..300).map(|t| format!("{},{}\n", t % 7, t % 5)).collect();
    std::fs::write(folder.join("a.csv"), format!("x,y\n{rows}")).unwrap();
    let series = "train series --csv a.csv --target y --net gru --units 2";
    let (batch, _, updates) = options(folder, series);
    assert!(batch == 1 && updates >= 1600, "{batch} {updates}");
    assert_eq!(options(folder, &format!("{series} --epochs 2 --batch 2")).0, 2);
    let words = "the\tDET\nfox\tNOUN\n\ndog\tNOUN\n\n".repeat(20);
    std::fs::write(folder.join("a.tsv"), words).unwrap();
    let tagger = "train tagger --train a.tsv --dev a.tsv --word-units 2 --char-units 2";
    let (batch, epochs, updates) = options(folder, tagger);
    assert_eq!((batch, epochs, updates), (4, 200, 2000));
}

/// Characters outside the alphabet: a warning with the option and the number that would do.
#[test]
fn an_alphabet_that_is_too_small_is_said_loudly() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let text_of: String =
        (0..4000u32).map(|i| char::from_u32(0x4e00 + i * i % 1000).unwrap()).collect();
    std::fs::write(folder.join("a.txt"), text_of).unwrap();
    let said = |more: &str| {
        let command =
            format!("train chars --text a.txt --net lstm --units 2 --epochs 1 --window 50 {more}");
        let output = drnn(folder, &command);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        said
    };
    let few = said("--symbols 20 --out a");
    let line = few.lines().find(|line| line.starts_with("warning: a.txt")).expect("a warning");
    let number = line.split("--symbols ").nth(1).and_then(|rest| rest.split(' ').next());
    let number = number.expect("the number of symbols");
    let enough = said(&format!("--symbols {number} --out b"));
    assert!(!enough.contains("warning: a.txt"), "{enough}");
    assert!(said("--alphabet 一丁丂 --out c").contains("a longer --alphabet"));
    let page = std::fs::read_to_string(folder.join("a/report.md")).unwrap();
    assert!(page.contains(&format!("--symbols {number}")), "{page}");
}

#[test]
fn characters_of_words_that_a_tagger_does_not_know_are_said_loudly() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let word = |i: u32| char::from_u32(0x4e00 + i % 60).unwrap();
    let words: String = (0..300).map(|i| format!("{}\tNOUN\n\n", word(i))).collect();
    std::fs::write(folder.join("a.tsv"), words).unwrap();
    let tagger = "train tagger --train a.tsv --dev a.tsv --word-units 2 --char-units 2 --epochs 1";
    let said = |more: &str| text(&drnn(folder, &format!("{tagger} {more}")).stderr);
    let few = said("--alphabet 20 --out a");
    assert!(few.contains("warning: a.tsv: 73.33 % of the characters"), "{few}");
    assert!(few.contains("--alphabet 64 would know all but 0.1 %"), "{few}");
    let enough = said("--alphabet 64 --out b");
    assert!(!enough.contains("--alphabet"), "{enough}");
}

#[test]
fn errors_in_texts_name_the_option_that_helps() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("a.txt"), words(300)).unwrap();
    std::fs::write(folder.join("latin1.txt"), b"caf\xe9 ".repeat(100)).unwrap();
    let untagged = "1\tthe\t_\tDET\t_\t_\t_\t_\t_\t_\n2\tfox\t_\t_\t_\t_\t_\t_\t_\t_\n\n";
    std::fs::write(folder.join("a.conllu"), untagged).unwrap();
    let chars = "train chars --text a.txt --net lstm --units 2 --epochs 1";
    for (command, option) in [
        (format!("{chars} --window 5000"), "--window"),
        (format!("{chars} --valid 1000 --test 2000"), "--valid"),
        (format!("{chars} --mask 2"), "--mask"),
        (format!("{chars} --alphabet abca"), "--alphabet: the alphabet has `a` twice"),
        ("train chars --text latin1.txt --net lstm".into(), "iconv -f LATIN1 -t UTF-8"),
        ("train tagger --train a.conllu --dev a.conllu".into(), "--tokens lines"),
    ] {
        let said = refused(folder, &command);
        assert!(said.contains(option), "{command}: {said}");
    }
}
