//! Hostile and odd files: each ends soon with its work done or with an error that says what to do, and a finished
//! training is never lost to its report.

mod common;

use common::{done, refused};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

const SERIES: &str = "train series --net lstm --units 4 --epochs 1";
const CHARS: &str = "train chars --net lstm --units 4 --epochs 1 --window 20";
const TAGGER: &str = "train tagger --char-units 4 --word-units 4 --epochs 1 --batch 8";

/// Words of `tags` different tags, in sentences of ten.
fn tagged(path: &Path, tags: usize) {
    let row =
        |i: usize| format!("w{}\tT{}\n{}", i % 9, i % tags, if i % 10 == 9 { "\n" } else { "" });
    std::fs::write(path, (0..2 * tags).map(row).collect::<String>() + "\n").unwrap();
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

/// Runs the program with `input` on its standard input: its exit code, and what it says.
fn piped(folder: &Path, arguments: &str, input: &[u8]) -> (Option<i32>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_drnn"))
        .current_dir(folder)
        .args(arguments.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let thread = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    thread.join().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn many_tags_are_trained_reported_and_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for tags in [60, 61, 300] {
        let (data, out) = (format!("t{tags}.tsv"), format!("o{tags}"));
        tagged(&folder.join(&data), tags);
        let train = format!("{TAGGER} --train {data} --dev {data} --out {out}");
        let text = done(folder, &train);
        assert!(text.contains("By tag, validation set"), "{text}");
        done(folder, &format!("{train} --resume"));
        let page = std::fs::read_to_string(folder.join(&out).join("report.md")).unwrap();
        let others = format!("the last row and column are the {} others", tags.saturating_sub(59));
        assert_eq!(page.contains(&others), tags > 60, "{page}");
        assert!(folder.join(&out).join("confusion.svg").exists());
        done(folder, &format!("report {out}/training.json --out again"));
        let again = std::fs::read_to_string(folder.join("again/report.md")).unwrap();
        assert_eq!(again, page);
        done(folder, &format!("eval {out}/model.safetensors {data} --json"));
    }
    let said =
        refused(folder, &format!("{TAGGER} --train t61.tsv --dev t61.tsv --max-tags 60 --out x"));
    assert!(said.contains("61 different tags") && said.contains("--max-tags N"), "{said}");
}

#[test]
fn many_classes_are_trained_and_too_many_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rows: String = (0..2400).map(|i| format!("{},c{}\n", i % 7, i % 600)).collect();
    std::fs::write(folder.join("a.csv"), format!("x,y\n{rows}")).unwrap();
    let text = done(folder, &format!("{SERIES} --csv a.csv --target y --out a"));
    assert!(text.contains("the 500 most frequent of 600"), "{text}");
    let json = std::fs::read(folder.join("a/training.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let confusion = json["judged"].as_array().unwrap().iter().find_map(|j| j.get("confusion"));
    assert_eq!(confusion.unwrap()["others"], 600 - 59);
    // Of a file with more classes than a picture can show, the most frequent are drawn.
    let mut large = json.clone();
    let names: Vec<String> = (0..80).map(|i| format!("c{i}")).collect();
    large["judged"][1]["confusion"] =
        serde_json::json!({"classes": names, "counts": vec![vec![1; 80]; 80]});
    std::fs::write(folder.join("large.json"), large.to_string()).unwrap();
    done(folder, "report large.json --out large");
    let page = std::fs::read_to_string(folder.join("large/report.md")).unwrap();
    assert!(page.contains("the 21 others"), "{page}");
    let said =
        refused(folder, &format!("{SERIES} --csv a.csv --target y --max-classes 599 --out b"));
    assert!(said.contains("a.csv:601: column `y` has more than 599 different classes"), "{said}");
    assert!(said.contains("--max-classes N") && !folder.join("b").exists(), "{said}");
}

#[test]
fn what_expands_too_much_is_stopped_and_first_reads_no_further() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("a.gz"), gzip("abcdefgh ".repeat(5_000_000).as_bytes())).unwrap();
    let said = refused(folder, &format!("{CHARS} --text a.gz --out a"));
    assert!(said.contains("bytes of gzip data expand to more than"), "{said}");
    assert!(said.contains("--max-input SIZE"), "{said}");
    done(folder, &format!("{CHARS} --text a.gz --first 5000 --out a"));
    let said = refused(folder, &format!("{CHARS} --text a.gz --max-input 5M --out b"));
    assert!(said.contains("it has more than 5242880 bytes"), "{said}");
    // Anything may follow the first characters.
    let text = [&b"abcdefgh ".repeat(1000)[..], &[0xff; 100_000]].concat();
    std::fs::write(folder.join("b.txt"), text).unwrap();
    done(folder, &format!("{CHARS} --text b.txt --first 5000 --out c"));
    assert!(refused(folder, &format!("{CHARS} --text b.txt --out d")).contains("is not UTF-8"));
}

#[test]
fn long_names_are_refused_where_they_stand() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let long = "n".repeat(70_000);
    std::fs::write(folder.join("a.csv"), format!("x,y\n1,a\n2,{long}\n")).unwrap();
    std::fs::write(folder.join("b.csv"), format!("x,{long}\n1,2\n2,3\n")).unwrap();
    std::fs::write(folder.join("c.csv"), "x,y\n1,2\n2,1e39\n").unwrap();
    for (file, target, why) in [
        ("a.csv", "y", "a.csv:3: the row's label has a name of 70000 bytes (at most 1000): `nnn"),
        ("b.csv", "x", "b.csv:1: column 2 has a name of 70000 bytes"),
        ("c.csv", "y", "c.csv:3: column `y`: `1e39` is too large; numbers go up to 3.4e38"),
    ] {
        let said = refused(folder, &format!("{SERIES} --csv {file} --target {target} --out o"));
        assert!(said.contains(why) && said.len() < 300, "{said}");
        assert!(!folder.join("o").exists());
    }
}

#[test]
#[cfg(unix)]
fn what_is_no_file_is_refused_by_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/models/chars-en.safetensors");
    tagged(&folder.join("t.tsv"), 5);
    for (path, why) in [("/dev/zero", "it is a device"), ("/", "it is a folder")] {
        for arguments in [
            format!("inspect {path}"),
            format!("eval {model} {path}"),
            format!("eval {path} t.tsv"),
            format!("run {path} t.tsv -o y.npy"),
            format!("run {model} {path} -o y.npy"),
            format!("fill {model} {path}"),
            format!("tag {path}"),
            format!("report {path}"),
            format!("stream {path}"),
            format!("{CHARS} --text {path}"),
            format!("{SERIES} --csv {path} --target y"),
            format!("{TAGGER} --train {path} --dev t.tsv"),
            format!("{TAGGER} --train t.tsv --dev t.tsv --vectors {path}"),
        ] {
            let said = refused(folder, &arguments);
            assert!(said.contains(why) && said.contains(path), "{arguments}: {said}");
        }
    }
}

#[test]
#[cfg(unix)]
fn pipes_are_read_as_files_are() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/models/chars-en.safetensors");
    let bytes = std::fs::read(model).unwrap();
    assert_eq!(piped(folder, "inspect /dev/stdin", &bytes).0, Some(0));
    let text = b"the quick brown fox jumps over the lazy dog ".repeat(500);
    assert_eq!(piped(folder, &format!("eval {model} /dev/stdin"), &text).0, Some(0));
    assert_eq!(piped(folder, &format!("{CHARS} --text /dev/stdin --out a"), &text).0, Some(0));
    let rows: String = (0..40_000).map(|i| format!("{},{}\n", i % 9, i % 5)).collect();
    let table = format!("x,y\n{rows}");
    let train = format!("{SERIES} --csv /dev/stdin --target y --window 1000");
    let (code, said) = piped(folder, &format!("{train} --out b"), table.as_bytes());
    assert!(code == Some(0) && said.contains("40,000 steps"), "{said}");
    let (code, said) =
        piped(folder, &format!("{train} --max-input 100K --out c"), table.as_bytes());
    assert!(code == Some(2) && said.contains("it has more than 102400 bytes"), "{said}");
}

#[test]
fn names_in_results_files_are_cut() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let sweep = "sweep reversal --steps 4 --symbols 3 --sequences 100 --nets dlstm --delays 0,1 --units 4 \
        --epochs 1 --out a";
    done(folder, sweep);
    let json = std::fs::read_to_string(folder.join("a/sweep.json")).unwrap();
    let long =
        json.replace("dlstm-1", &"n".repeat(70_000)).replace("reversal", &"t".repeat(70_000));
    std::fs::write(folder.join("long.json"), long).unwrap();
    let text = done(folder, "report long.json --out b");
    assert!(text.len() < 2_000, "{}", text.len());
    assert!(std::fs::metadata(folder.join("b/sweep.svg")).unwrap().len() < 20_000);
    assert!(folder.join("b/sweep.png").exists());
    let kind =
        json.replace("\"kind\":\"sweep\"", &format!("\"kind\":\"{}\"", "k".repeat(1_000_000)));
    std::fs::write(folder.join("kind.json"), kind).unwrap();
    let said = refused(folder, "report kind.json");
    assert!(said.len() < 5_000, "{}", said.len());
}
