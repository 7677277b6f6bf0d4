//! `drnn train tagger`, `drnn tag`, `drnn reproduce pos`.

mod common;

use common::{done, refused};
use drnn_cuda::Device;
use drnn_testing::{Need, found};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Sentences in which endings, and the words around, determine the tags.
fn treebank(folder: &Path) {
    let sentences = [
        "the/DET saw/NOUN cuts/VERB ./PUNCT",
        "they/PRON saw/VERB the/DET ants/NOUN",
        "ants/NOUN run/VERB ./PUNCT",
        "the/DET ants/NOUN saw/VERB them/PRON",
        "they/PRON run/VERB",
    ];
    let rows = |sentence: &str| -> String {
        let rows = sentence.split(' ').map(|token| token.replace('/', "\t") + "\n");
        rows.collect::<String>() + "\n"
    };
    let text: String = sentences.iter().map(|sentence| rows(sentence)).collect();
    std::fs::write(folder.join("train.tsv"), text.repeat(8)).unwrap();
    std::fs::write(folder.join("dev.tsv"), &text).unwrap();
}

const TRAIN: &str = "train tagger --train train.tsv --dev dev.tsv --test dev.tsv --char-units 12 --word-units 16 \
    --symbol-width 6 --vector-width 8 --batch 4 --rate 0.01 --seed 3";

/// Runs the program on some input.
fn fed(folder: &Path, arguments: &str, input: &[u8]) -> (Option<i32>, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_drnn"))
        .current_dir(folder)
        .args(arguments.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_tagger_is_trained_resumed_and_used() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    treebank(folder);
    let text = done(folder, &format!("{TRAIN} --epochs 30 --out a"));
    assert!(
        text.contains("accuracy, words: 1.0000 ± 0.0000 on the validation set, 1.0000 ± 0.0000"),
        "{text}"
    );
    for name in ["model.safetensors", "training.json", "index.html", "report.md", "confusion.svg"] {
        assert!(folder.join("a").join(name).exists(), "{name}");
    }
    let said = refused(folder, &format!("{TRAIN} --epochs 30 --out a"));
    assert!(said.contains("there is an earlier training"), "{said}");
    let said = refused(folder, &format!("{TRAIN} --clip 2 --epochs 30 --out a --resume"));
    assert!(said.contains("is of another training: --clip 2.0, but"), "{said}");
    done(folder, "report a/training.json --out again");
    let page = |name: &str| std::fs::read(folder.join(name)).unwrap();
    assert!(page("again/index.html") == page("a/index.html"));

    // Killed at some moment, and resumed: the same bits.
    let mut child = Command::new(env!("CARGO_BIN_EXE_drnn"))
        .current_dir(folder)
        .args(format!("{TRAIN} --epochs 30 --out b").split_whitespace())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().contains("epoch 9")).unwrap().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    done(folder, &format!("{TRAIN} --epochs 30 --out b --resume"));
    assert!(page("b/model.safetensors") == page("a/model.safetensors"));

    let model = "a/model.safetensors";
    let found: serde_json::Value =
        serde_json::from_str(&done(folder, &format!("eval {model} dev.tsv --json"))).unwrap();
    assert_eq!(found["metrics"]["accuracy"], 1.0, "{found}");
    assert_eq!(found["counts"]["words"], 17, "{found}");
    std::fs::write(folder.join("other.tsv"), "ants\tVERB\nrun\tQUX\n\n").unwrap();
    let text = done(folder, &format!("eval {model} other.tsv"));
    assert!(text.contains("1 words have tags that the tagger does not know"), "{text}");
    std::fs::write(folder.join("none.tsv"), "").unwrap();
    assert!(refused(folder, &format!("eval {model} none.tsv")).contains("none.tsv"));
    let (code, out, _) = fed(folder, &format!("tag {model}"), b"ants run.\n\n");
    assert_eq!((code, out.as_str()), (Some(0), "ants\tNOUN\nrun\tVERB\n.\tPUNCT\n\n"));
    let (_, out, _) =
        fed(folder, &format!("tag {model} --from tokens --probabilities"), b"they\nrun");
    assert!(out.starts_with("they\tPRON\t0.") && out.contains("run\tVERB\t0."), "{out}");
    let row =
        |id: &str, form: &str, tag: &str| format!("{id}\t{form}\t_\t{tag}\t_\t_\t_\tx\t_\t_\n");
    let conllu = |tags: [&str; 4]| {
        let multiword = row("2-3", "vamos", "_");
        let words = [("1", "the"), ("2", "ants"), ("3", "saw"), ("4", "them")];
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| row(words[i].0, words[i].1, tags[i]));
        format!("# text = the vamos them\n{a}{multiword}{b}{c}{d}\n")
    };
    let input = conllu(["_", "X", "_", "_"]);
    let (_, out, _) = fed(folder, &format!("tag {model} --from conllu"), input.as_bytes());
    let expected = conllu(["DET", "NOUN", "VERB", "PRON"]);
    assert_eq!(out, expected);
}

#[test]
fn tags_come_as_many_words_late_as_the_delay() {
    let folder = tempfile::tempdir().unwrap();
    treebank(folder.path());
    done(folder.path(), &format!("{TRAIN} --word dlstm-2 --epochs 1 --out m"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_drnn"))
        .current_dir(folder.path())
        .args("tag m/model.safetensors --from tokens".split(' '))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next =
        || output.next().map(|line| line.unwrap().split('\t').next().unwrap().to_string());
    input.write_all(b"the\nants\nrun\n").unwrap();
    assert_eq!(next().unwrap(), "the"); // would hang if it waited for more
    input.write_all(b"fast\n").unwrap();
    assert_eq!(next().unwrap(), "ants");
    input.write_all(b"\n").unwrap();
    assert_eq!([next().unwrap(), next().unwrap(), next().unwrap()], ["run", "fast", ""]);
    drop(input);
    assert_eq!(next(), None);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_built_in_tagger_needs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (code, out, said) = fed(folder.path(), "tag", b"The old man doesn't live in Paris.");
    assert_eq!(code, Some(0), "{said}");
    let tags: Vec<&str> =
        out.lines().filter_map(|line| line.split_once('\t')).map(|(_, tag)| tag).collect();
    assert_eq!(
        tags,
        ["DET", "ADJ", "NOUN", "AUX", "PART", "VERB", "ADP", "PROPN", "PUNCT"],
        "{out}"
    );
    assert!(said.contains("late"), "{said}");
}

#[test]
fn the_papers_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::create_dir_all(folder.join("data/bank")).unwrap();
    treebank(&folder.join("data/bank"));
    let bank = folder.join("data/bank");
    for part in ["train", "dev", "test"] {
        let from = if part == "train" { "train.tsv" } else { "dev.tsv" };
        std::fs::copy(bank.join(from), bank.join(format!("en_x-{part}.tsv"))).unwrap();
    }
    let pos = "reproduce pos --data data --epochs 1 --out pos";
    let text = done(folder, &format!("{pos} --char lstm,dlstm-1 --word lstm,bilstm"));
    assert!(text.contains("d-LSTM 1 / Bi-LSTM") && text.contains("LSTM / LSTM"), "{text}");
    assert_eq!(text.lines().count(), 5, "{text}");
    done(folder, "report pos/pos.json --out again");
    let page = |name: &str| std::fs::read(folder.join(name)).unwrap();
    assert!(page("again/index.html") == page("pos/index.html"));
    for (more, why) in [
        ("--out pos", "results of an earlier run"),
        ("--lang fr", "no fr*train*.conllu or .tsv"),
        ("--char lstm,lstm --word lstm", "is given twice"),
        ("--char lstm --word dlstm-99", "delays from 1 to 50"),
        ("--char lstm", "required arguments were not provided"),
    ] {
        let said = refused(folder, &format!("reproduce pos --data data --epochs 1 {more}"));
        assert!(said.contains(why), "{more}: {said}");
    }
}

#[test]
fn a_sweep_over_the_delay_of_the_word_network() {
    let folder = tempfile::tempdir().unwrap();
    treebank(folder.path());
    let sweep = "sweep tagger --train train.tsv --dev dev.tsv --test dev.tsv --units 12 --batch 8 --epochs 2";
    let text = done(folder.path(), &format!("{sweep} --delays 0,1 --nets dlstm,bilstm"));
    assert!(text.contains("dlstm-1") && text.contains("Recommended"), "{text}");
    // Without a test set, as in `train`; the model of the sweep tags.
    let untested = sweep.replace("--test dev.tsv", "");
    let text = done(folder.path(), &format!("{untested} --delays 0,1 --nets dlstm --out untested"));
    assert!(text.contains("none"), "{text}");
    done(folder.path(), "tag untested/model.safetensors --from tokens train.tsv");
    for (more, why) in [
        ("--nets dgru", "a tagger has LSTMs"),
        ("--layers 2", "--layers 2"),
        ("--delays 9", "--delays: 9"),
    ] {
        let said = refused(folder.path(), &format!("{sweep} --out x {more}"));
        assert!(said.contains(why), "{more}: {said}");
    }
}

/// Every command that trains taggers; a training that begins on a GPU goes on on the CPU.
#[test]
fn taggers_train_on_a_gpu() {
    if found(Need::Gpu, Device::find()).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    treebank(folder);
    for precision in ["f32", "f16"] {
        let gpu = format!("--device cuda --precision {precision}");
        let text = done(folder, &format!("{TRAIN} --epochs 30 {gpu} --out {precision}"));
        assert!(text.contains("accuracy, words: 1.0000 ± 0.0000 on the validation set"), "{text}");
    }
    done(folder, &format!("{TRAIN} --epochs 10 --device cuda --out both"));
    let text = done(folder, &format!("{TRAIN} --epochs 30 --out both --resume"));
    assert!(text.contains("accuracy, words: 1.0000"), "{text}");
    let sweep = "sweep tagger --train train.tsv --dev dev.tsv --units 12 --batch 8 --epochs 2";
    done(folder, &format!("{sweep} --delays 0,1 --device cuda"));
    let said = refused(folder, &format!("{TRAIN} --dropout 0.5 --device cuda --out x"));
    assert!(said.contains("--dropout") && said.contains("--device cpu"), "{said}");
}

#[test]
fn what_cannot_be_learned_or_tagged_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    treebank(folder);
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    write("columns.tsv", b"a\tDET\nb\n\n");
    write("latin.tsv", b"caf\xe9\tNOUN\n\n");
    write("empty.tsv", b"");
    write("untagged.conllu", b"1\ta\t_\t_\t_\t_\t0\tx\t_\t_\n\n");
    write("mixed.txt", b"a 1 2\nb 1 2 3\n");
    for (change, why) in [
        ("--train columns.tsv", "columns.tsv:2"),
        ("--train latin.tsv", "latin.tsv:1"),
        ("--train empty.tsv", "empty.tsv"),
        ("--train nowhere.tsv", "nowhere.tsv"),
        (
            "--train untagged.conllu",
            "untagged.conllu:1: word 1 of the sentence that begins here has no tag",
        ),
        ("--vectors mixed.txt", "mixed.txt:2"),
        ("--batch 41", "batches of 41 sequences, of 40 in all"),
        ("--char tcn", "expected lstm, bilstm or dlstm-DELAY"),
    ] {
        let train = TRAIN.replace("--batch 4", "");
        let train = match change.split_once(' ') {
            Some(("--train", _)) => train.replace("--train train.tsv", ""),
            _ => train,
        };
        let said = refused(folder, &format!("{train} {change} --out x"));
        assert!(said.contains(why), "{change}: {said}");
        assert!(!folder.join("x").exists(), "{change}");
    }
    let (code, _, said) = fed(folder, "tag --from conllu", b"1\ta\n");
    assert!(code == Some(2) && said.contains("standard input:1"), "{said}");
    let (code, out, said) = fed(folder, "tag", b"fine.\ncaf\xe9\n");
    assert!(code == Some(2) && said.contains("standard input:2") && out.contains("fine"), "{said}");
    write("no.safetensors", b"1234567890");
    assert!(refused(folder, "tag no.safetensors").contains("no.safetensors"));
}
