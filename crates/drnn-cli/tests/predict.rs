//! `drnn predict`: the numbers of `stream` and `eval` for every task and network, next to the columns
//! of the table.

mod common;

use common::{done, drnn, refused, text, write};
use serde_json::Value;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// What the program writes when it is fed `input`.
fn fed(folder: &Path, arguments: &str, input: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
    command.current_dir(folder).args(arguments.split_whitespace());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The fields of each row but the first.
fn rows(csv: &str) -> Vec<Vec<String>> {
    let row = |line: &str| line.split(',').map(String::from).collect();
    csv.lines().skip(1).map(row).collect()
}

fn column(csv: &str, at: usize) -> Vec<f64> {
    rows(csv).iter().map(|row| row[at].parse().unwrap()).collect()
}

/// Two machines, a note that needs quotes, x and its next value y.
fn table() -> String {
    let x = |i: usize| ((i * i % 37) as f32 * 0.2).sin();
    let row = |i: usize| {
        let machine = if i < 40 { "a" } else { "b" };
        format!("{machine},\"n;{i}\",{},{}\n", x(i), 10.0 + 3.0 * x(i + 1))
    };
    format!("machine,note,x,y\n{}", (0..80).map(row).collect::<String>())
}

fn train(folder: &Path, net: &str, more: &str) {
    let command = format!(
        "-q train series --csv t.csv --target y --inputs x --sequence machine --net {net} --units 6 \
         --epochs 2 --valid t.csv --test 0 --out {more}"
    );
    done(folder, &command);
}

#[test]
fn values_of_a_delayed_network_are_those_of_stream_and_eval() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("t.csv"), table()).unwrap();
    train(folder, "dlstm", "m --delay 2");
    let model = "m/model.safetensors";
    done(folder, &format!("-q predict {model} t.csv -o p.csv"));
    let csv = std::fs::read_to_string(folder.join("p.csv")).unwrap();
    assert!(csv.starts_with("machine,note,x,y,predicted_y\na,n;0,0,"), "{csv}");
    assert_eq!(csv.lines().count(), 81);
    let (truth, predicted) = (column(&csv, 3), column(&csv, 4));

    let streamed = fed(folder, &format!("-q stream {model}"), &table());
    let streamed: Vec<f64> = streamed.split_whitespace().map(|y| y.parse().unwrap()).collect();
    assert_eq!(predicted, streamed);
    let eval: Value =
        serde_json::from_str(&done(folder, &format!("eval {model} t.csv --json"))).unwrap();
    let squares = truth.iter().zip(&predicted).map(|(y, p)| (y - p) * (y - p));
    let (mse, expected) = (squares.sum::<f64>() / 80.0, &eval["metrics"]["mean squared error"]);
    assert!((mse - expected.as_f64().unwrap()).abs() < 1e-6, "{mse} {expected}");

    // Chosen columns, from stdin, to stdout; the target need not be there.
    let blind: String =
        table().lines().map(|l| l.rsplit_once(',').unwrap().0.to_owned() + "\n").collect();
    let few = fed(folder, &format!("-q predict {model} - -o - --columns note,machine"), &blind);
    assert!(few.starts_with("note,machine,predicted_y\n"), "{few}");
    assert_eq!(column(&few, 2), predicted);
    let none = fed(folder, &format!("-q predict {model} - -o - --columns none --to json"), &blind);
    for (line, expected) in none.lines().zip(&predicted) {
        let value: Value = serde_json::from_str(line).unwrap();
        assert_eq!(value, serde_json::json!({ "predicted_y": expected }));
    }
}

#[test]
fn bidirectional_networks_predict_whole_sequences() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("t.csv"), table()).unwrap();
    train(folder, "bilstm", "m");
    let csv = done(folder, "-q predict m/model.safetensors t.csv -o - --columns y");
    let eval = done(folder, "eval m/model.safetensors t.csv --json");
    let eval: Value = serde_json::from_str(&eval).unwrap();
    let squares = column(&csv, 0).into_iter().zip(column(&csv, 1)).map(|(y, p)| (y - p) * (y - p));
    let (mse, expected) = (squares.sum::<f64>() / 80.0, &eval["metrics"]["mean squared error"]);
    assert!((mse - expected.as_f64().unwrap()).abs() < 1e-6, "{mse} {expected}");
}

#[test]
fn classes_have_probabilities_and_rows_that_training_dropped_have_none() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let row = |i: usize| {
        let x = if i == 7 { "NA".into() } else { (i % 5).to_string() };
        format!("{i},{x},{}\n", ["low", "high", "\"a,b\""][i % 3])
    };
    let table = format!("id,x,kind\n{}", (0..90).map(row).collect::<String>());
    std::fs::write(folder.join("t.csv"), &table).unwrap();
    done(
        folder,
        "-q train series --csv t.csv --target kind --inputs x --net dgru --delay 1 --units 4 --epochs 1 \
         --missing drop --out m",
    );
    let predict = "predict m/model.safetensors t.csv -o - --columns id";
    let csv = done(folder, &format!("-q {predict} --to json --probabilities"));
    let values: Vec<Value> = csv.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values.len(), 90);
    for (i, value) in values.iter().enumerate() {
        assert_eq!(value["id"], i.to_string());
        if i == 7 {
            assert!(value["predicted_kind"].is_null() && value["probability"].is_null());
            continue;
        }
        let class = value["predicted_kind"].as_str().unwrap();
        assert_eq!(value["probability"], value[format!("probability_{class}")]);
        let all =
            ["low", "high", "a,b"].map(|c| value[format!("probability_{c}")].as_f64().unwrap());
        assert!((all.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{value}");
    }
    let output = drnn(folder, predict);
    assert!(text(&output.stderr).contains("1 rows with missing numbers have no prediction"));
    assert!(text(&output.stdout).contains("\n7,,\n"), "{}", text(&output.stdout));
}

#[test]
fn arrays_are_predicted_by_sequence_and_step() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let x: Vec<f32> = (0..60).map(|i| (i as f32 * 0.7).sin()).collect();
    let y: Vec<f32> = x.iter().map(|x| 5.0 + 2.0 * x).collect();
    write(&folder.join("x.npy"), &[10, 3, 2], &x);
    write(&folder.join("y.npy"), &[10, 3, 2], &y);
    done(
        folder,
        "-q train series --x x.npy --y y.npy --net dlstm --delay 1 --units 4 --epochs 1 --valid 0.3 \
         --test 0 --out m",
    );
    let csv = done(folder, "-q predict m/model.safetensors x.npy -o -");
    assert!(csv.starts_with("sequence,step,predicted_y0,predicted_y1\n0,0,"), "{csv}");
    assert_eq!(csv.lines().count(), 31);
    let eval: Value =
        serde_json::from_str(&done(folder, "eval m/model.safetensors x.npy y.npy --json")).unwrap();
    let mut sum = 0.0;
    for row in rows(&csv) {
        let number = |at: usize| row[at].parse::<f64>().unwrap();
        let at = (number(1) as usize * 3 + number(0) as usize) * 2;
        let error = |k: usize| f64::from(y[at + k]) - number(2 + k);
        sum += error(0).powi(2) + error(1).powi(2);
    }
    let expected = eval["metrics"]["mean squared error"].as_f64().unwrap();
    assert!((sum / 60.0 - expected).abs() < 1e-6, "{sum} {expected}");
}

#[test]
fn masks_of_a_text_and_tags_of_words() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let model = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("models").join(name);
    std::fs::write(folder.join("t.txt"), "the c_t\nsat _n the mat\n").unwrap();
    for name in ["chars-en.safetensors", "chars-en-bilstm.safetensors"] {
        let model = model(name).display().to_string();
        let csv = done(folder, &format!("-q predict {model} t.txt -o -"));
        let filled = done(folder, &format!("-q fill {model} t.txt --json"));
        assert!(csv.starts_with("line,column,character,probability\n1,6,"), "{csv}");
        let rows = rows(&csv);
        assert_eq!(rows.len(), 2);
        for (row, line) in rows.iter().zip(filled.lines()) {
            let value: Value = serde_json::from_str(line).unwrap();
            assert_eq!(
                (&row[2][..], &row[0]),
                (value["character"].as_str().unwrap(), &value["line"].to_string())
            );
            assert_eq!(row[3], value["alternatives"][0]["probability"].to_string());
        }
        let json = done(folder, &format!("-q predict {model} t.txt -o - --to json"));
        assert_eq!(json, filled);
    }
    let tagger = model("tagger-en.safetensors").display().to_string();
    std::fs::write(folder.join("w.txt"), "Ants march.\nThey, too, run.\n").unwrap();
    let csv = done(folder, &format!("-q predict {tagger} w.txt -o - --to json"));
    let tagged = done(folder, &format!("-q tag {tagger} w.txt"));
    let expected: Vec<&str> = tagged.lines().filter(|line| !line.is_empty()).collect();
    let found: Vec<Value> = csv.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(found.len(), expected.len());
    for (value, line) in found.iter().zip(expected) {
        let (word, tag) = line.split_once('\t').unwrap();
        assert_eq!((value["word"].as_str(), value["tag"].as_str()), (Some(word), Some(tag)));
    }
    assert_eq!((&found[3]["sentence"], &found[3]["number"]), (&2.into(), &1.into()));
    let conllu = "1\tAnts\t_\tX\t_\t_\t_\t_\t_\t_\n2\tmarch\t_\tX\t_\t_\t_\t_\t_\t_\n\n";
    std::fs::write(folder.join("w.conllu"), conllu).unwrap();
    let csv = done(folder, &format!("-q predict {tagger} w.conllu -o -"));
    assert!(csv.starts_with("sentence,number,word,tag,probability\n1,1,Ants,NOUN,"), "{csv}");
    assert_eq!(csv.lines().count(), 3);
    // Words with their tags, as for a training: the tags are no words.
    std::fs::write(folder.join("w.tsv"), "Ants\tX\nmarch\tX\n\n").unwrap();
    assert_eq!(done(folder, &format!("-q predict {tagger} w.tsv -o -")), csv);
    std::fs::write(folder.join("words"), "Ants\nmarch\n\n").unwrap();
    let [tagged, expected] = ["w.tsv", "words"]
        .map(|name| done(folder, &format!("-q tag {tagger} {name} --from tokens")));
    assert_eq!(tagged, expected);
}

#[test]
fn what_is_refused_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("t.csv"), table()).unwrap();
    train(folder, "dlstm", "m --delay 2");
    done(folder, "-q init --net lstm --units 2 --inputs 1 -o plain.safetensors");
    std::fs::write(folder.join("bad.csv"), "machine,x\na,1\na,much\n").unwrap();
    std::fs::write(folder.join("hole.csv"), "machine,x\na,1\na,\n").unwrap();
    std::fs::write(folder.join("p.csv"), "old").unwrap();
    std::fs::write(folder.join("again.csv"), "machine,x,predicted_y\na,1,2\n").unwrap();
    let model = "m/model.safetensors";
    for (arguments, expected) in [
        (format!("{model} bad.csv"), "bad.csv:3: column `x`: "),
        (format!("{model} hole.csv"), "hole.csv:3: element 1: column `x` is missing"),
        (format!("{model} t.csv --columns id"), "t.csv: --columns: has no column \"id\""),
        (format!("{model} t.csv --columns x,x"), "the output would have column `x` twice"),
        (
            format!("{model} again.csv"),
            "again.csv: the output would have column `predicted_y` twice",
        ),
        (format!("{model} again.csv --to json"), "--columns chooses the columns to repeat"),
        (format!("{model} t.csv --probabilities"), "--probabilities: the model predicts values"),
        (format!("{model} t.csv --lines"), "--lines is for chars"),
        (format!("{model} gone.csv"), "gone.csv"),
        ("plain.safetensors t.csv".into(), "does not say what it was trained for"),
    ] {
        let said = refused(folder, &format!("-q predict {arguments} -o p.csv"));
        assert!(said.contains(expected), "{said:?}, expected {expected:?}");
        assert_eq!(std::fs::read(folder.join("p.csv")).unwrap(), b"old");
    }
    // A table without the column of sequences is one sequence; that is said.
    std::fs::write(folder.join("one.csv"), "x\n1\n2\n").unwrap();
    let output = drnn(folder, &format!("predict {model} one.csv -o -"));
    let said = text(&output.stderr);
    assert!(said.contains("one.csv has no column `machine`: all rows are taken to be"), "{said}");
    assert_eq!(text(&output.stdout).lines().count(), 3);
    let said = refused(folder, &format!("-q predict {model} t.csv -o t.csv"));
    assert!(said.contains("t.csv: is an input of this command"), "{said}");
    let said = refused(folder, &format!("-q predict {model} t.csv -o nowhere/p.csv"));
    assert!(said.contains("nowhere/p.csv: cannot be written: "), "{said}");
}
