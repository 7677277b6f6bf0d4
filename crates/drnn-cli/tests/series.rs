//! `drnn train series`, `drnn eval`, `drnn sweep series`: the user's own tables and arrays.

mod common;

use common::{done, drnn, read, refused, text, write};
use drnn_train::sine::{Sine, SinePart};
use drnn_train::{Dataset, Gathered, Inputs, TargetData};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;

/// A training that takes a second.
const SMALL: &str = "train series --csv a.csv --units 12 --threads 1";

/// Numbers that look drawn.
fn noise(i: usize) -> f64 {
    (i as f64 * 12.9898).sin().mul_add(43758.5453, 0.0).rem_euclid(1.0)
}

/// One series: y_t = 100 + 20 (x_t + x_{t+2}).
fn one_series(folder: &Path, steps: usize) {
    let mut out = String::from("x,y\n");
    for t in 0..steps {
        writeln!(out, "{:.5},{:.5}", noise(t), 100.0 + 20.0 * (noise(t) + noise(t + 2))).unwrap();
    }
    std::fs::write(folder.join("a.csv"), out).unwrap();
}

/// Several: whether the next number is larger.
fn classes(folder: &Path, sequences: usize) {
    let mut out = String::from("id,x,next\n");
    for (s, t) in (0..sequences).flat_map(|s| (0..20).map(move |t| (s, t))) {
        let (now, next) = (noise(s * 100 + t), noise(s * 100 + t + 1));
        writeln!(out, "s{s},{now:.5},{}", if next > now { "up" } else { "down" }).unwrap();
    }
    std::fs::write(folder.join("a.csv"), out).unwrap();
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn results(folder: &Path) -> Value {
    let mut value = json(&std::fs::read_to_string(folder.join("training.json")).unwrap());
    for volatile in ["provenance", "seconds"] {
        value[volatile] = Value::Null;
    }
    value
}

#[test]
fn a_series_is_learned_and_its_model_evaluated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    one_series(folder, 1000);
    let said = done(folder, &format!("{SMALL} --target y --delay 2 --epochs 60 --out a"));
    assert!(
        said.contains("mean squared error") && said.contains("Outputs are 2 steps late"),
        "{said}"
    );
    for name in ["model.safetensors", "training.json", "index.html", "losses.svg", "log.jsonl"] {
        assert!(folder.join("a").join(name).exists(), "{name}");
    }
    let found = results(&folder.join("a"));
    assert_eq!(found["sequences"], serde_json::json!([8, 1, 1]));
    // The variance of y is 20^2 / 6 = 67.
    assert!(found["test"].as_f64().unwrap() < 20.0, "{said}");

    // The test part is worth what the training said. A file of its own starts from zero states.
    let all = std::fs::read_to_string(folder.join("a.csv")).unwrap();
    let rows: Vec<&str> = all.lines().collect();
    let part = json(&done(folder, "eval a/model.safetensors a.csv --rows 901..1000 --json"));
    assert_eq!(part["metrics"]["mean squared error"], found["test"]);
    assert_eq!(part["counts"]["steps"], 100);
    std::fs::write(folder.join("last.csv"), format!("x,y\n{}\n", rows[901..].join("\n"))).unwrap();
    let last = json(&done(folder, "eval a/model.safetensors last.csv --json"));
    assert!(last["metrics"]["R^2 of y"].as_f64().unwrap() > 0.7, "{last}");
    let alone = last["metrics"]["mean squared error"].as_f64().unwrap();
    for (rows, why) in [
        ("901..1001", "--rows: rows 901..1001 of 1000"),
        ("0..9", "expected the first and the last row"),
        ("9..8", "expected the first and the last row"),
    ] {
        let said = refused(folder, &format!("eval a/model.safetensors a.csv --rows {rows}"));
        assert!(said.contains(why), "{said}");
    }
    let said = done(folder, "eval a/model.safetensors last.csv a.csv");
    assert!(said.contains("sequences 2, steps 1,100"), "{said}");

    // The model says what it is for, and runs as any other, on scaled numbers.
    let said = done(folder, "inspect a/model.safetensors");
    assert!(said.contains("task: series\n") && said.contains("  targets: y\n"), "{said}");
    let task = &json(&done(folder, "inspect a/model.safetensors --json"))["task"];
    let scale = |what: &str, which: &str| task["scaling"][what][which][0].as_f64().unwrap();
    let x = (scale("inputs", "mean"), scale("inputs", "sd"));
    let rows = rows[901..].iter().map(|row| row.split_once(',').unwrap());
    let rows: Vec<(f64, f64)> =
        rows.map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap())).collect();
    let scaled: Vec<f32> = rows.iter().map(|row| ((row.0 - x.0) / x.1) as f32).collect();
    write(&folder.join("x.npy"), &[100, 1, 1], &scaled);
    done(folder, "run a/model.safetensors x.npy -o y.npy");
    let answers = read(&folder.join("y.npy")).1.into_iter().map(f64::from);
    let errors = answers.zip(&rows).map(|(answer, row)| {
        (scale("targets", "mean") + scale("targets", "sd") * answer - row.1).powi(2)
    });
    let error = errors.sum::<f64>() / 100.0;
    assert!((error / alone - 1.0).abs() < 1e-3, "{error}");
}

#[test]
fn trainings_go_on_to_the_same_end() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    one_series(folder, 300);
    let train = format!("{SMALL} --target y --delay 2 --window 20 --epochs 4");
    done(folder, &format!("{train} --out a"));
    let said = refused(folder, &format!("{train} --out a"));
    assert!(said.contains("there is an earlier training; continue it with --resume"), "{said}");
    done(folder, &format!("{train} --out a --resume"));
    done(folder, &format!("{train} --out b --threads 2").replace("--threads 1", ""));
    assert_eq!(results(&folder.join("a")), results(&folder.join("b")));
    let models =
        ["a", "b"].map(|name| std::fs::read(folder.join(name).join("model.safetensors")).unwrap());
    assert!(models[0] == models[1]);
    // Neither other data nor other windows go on from it.
    let said =
        refused(folder, &format!("{train} --out a --resume").replace("window 20", "window 30"));
    assert!(said.contains("is of another training"), "{said}");
    one_series(folder, 299);
    let said = refused(folder, &format!("{train} --out a --resume"));
    assert!(said.contains("is of another training"), "{said}");
}

#[test]
fn classes_and_what_they_are_taken_for() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    classes(folder, 30);
    let train = format!("{SMALL} --target next --sequence id --net dgru --delay 1 --epochs 40");
    let said = done(folder, &format!("{train} --out a"));
    assert!(said.contains("recall") && said.contains("\nup "), "{said}");
    assert!(folder.join("a/confusion.svg").exists());
    let found = results(&folder.join("a"));
    assert_eq!(found["sequences"], serde_json::json!([24, 3, 3]));
    assert!(found["test"].as_f64().unwrap() > 0.8, "{said}");

    // A class that the training set does not have: reported, and wrong.
    std::fs::write(folder.join("new.csv"), "next,id,x\nup,a,0.1\nsideways,a,0.9\n").unwrap();
    let new = json(&done(folder, "eval a/model.safetensors new.csv --json"));
    assert_eq!((&new["counts"]["unknown"], &new["counts"]["scored"]), (&1.into(), &2.into()));
    assert!(new["notes"][0].as_str().unwrap().contains("count as wrong"), "{new}");

    // The same in the test part of a training.
    let said = done(folder, &format!("{train} --out b --test new.csv"));
    assert!(
        said.contains("1 steps of the test set have classes that the training set does not have"),
        "{said}"
    );
}

#[test]
fn arrays_instead_of_tables() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let x: Vec<f32> = (0..10 * 20).map(|i| noise(i) as f32).collect();
    let y: Vec<f64> = (0..10 * 20).map(|i| noise(i) * 3.0).collect();
    let c: Vec<i32> = (0..10 * 20).map(|i| if noise(i) > 0.5 { 7 } else { 3 }).collect();
    write(&folder.join("x.npy"), &[10, 20, 1], &x);
    write(&folder.join("y.npy"), &[10, 20, 1], &y);
    write(&folder.join("c.npy"), &[10, 20], &c);
    let small = "train series --x x.npy --units 6 --epochs 2 --net lstm";
    done(folder, &format!("{small} --y y.npy --out a"));
    let values = json(&done(folder, "eval a/model.safetensors x.npy y.npy --json"));
    assert_eq!(values["counts"]["sequences"], 20);
    done(folder, &format!("{small} --y c.npy --out b --valid x.npy,c.npy"));
    let found = json(&done(folder, "eval b/model.safetensors x.npy c.npy --json"));
    assert!(found["metrics"]["accuracy"].as_f64().unwrap() > 0.0);
    assert!(
        refused(folder, "eval b/model.safetensors x.npy y.npy")
            .contains("the model is for x0 -> y0 (classes)")
    );
    assert!(
        refused(folder, "eval b/model.safetensors x.npy").contains("x.npy: arrays come in pairs")
    );
    assert!(
        refused(folder, &format!("{small} --y x.npy --target y")).contains("cannot be used with")
    );
}

#[test]
fn errors_in_data_are_reported_with_their_position() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let long: String = (0..40).map(|i| format!("{i},{}\n", i % 7)).collect();
    let good = format!("x,y\n{long}");
    let bad = |row: &str| format!("x,y\n{long}{row}\n{long}");
    for (data, more, why) in [
        (
            bad("a,1"),
            "",
            "a.csv:42: column `x`: `a` is not a number; write NA for a missing one; --inputs",
        ),
        (bad("1,a"), "", "a.csv:42: column `y`: `a` is not a number"),
        (bad("1"), "", "a.csv:42: the row has 1 columns, the header has 2"),
        (bad("1,"), "", "a.csv:42: column `y` is missing; --missing says what to do"),
        (bad("NaN,1"), "", "a.csv:42: column `x` is missing"),
        (bad("inf,1"), "", "a.csv:42: column `x`: `inf` is not finite"),
        (
            "x,y\n,1\n1,2\n".into(),
            "--missing previous",
            "a.csv:2: column `x` is missing, and no row",
        ),
        ("x,y\n1,2\n".into(), "", "1 rows of one sequence cannot be parted"),
        ("x,y\n".into(), "", "a.csv: holds no rows"),
        ("".into(), "", "a.csv: is empty"),
        ("x,y\n,\n".into(), "--missing drop", "a.csv: holds no rows without missing numbers"),
        ("x:y\n1:2\n".into(), "", "a.csv:1: has no column `y`; there are `x:y`; --delimiter names"),
        ("y\n1\n2\n".into(), "", "a.csv:1: has no column other than the target"),
        (good.clone(), "--inputs x,z", "a.csv:1: has no column `z`; there are `x`, `y`"),
        (good.clone(), "--inputs x,y", "column `y` is named twice"),
        (good.clone(), "--sequence y", "column `y` is named twice"),
        (good.clone(), "--sequence x --inputs x", "column `x` is named twice"),
        (good.clone(), "--batch 33", "batches of 33 sequences, of 1 in all"),
        (
            format!("{good}5,\n6,\n7,\n8,\n"),
            "--missing zero",
            "no step of the test set has a target",
        ),
        (good.clone(), "--valid 0", "--valid 0: a validation set is needed"),
        (good.clone(), "--valid 0.9 --test 0.2", "cannot be parted"),
        (good.clone(), "--valid 1.5", "expected a share from 0 to below 1"),
        (good.clone(), "--valid none.csv", "none.csv: cannot be read"),
        (good.clone(), "--window 0", "0 is not in 1"),
        (good.clone(), "--delimiter ab", "expected one character, or tab"),
        ("x,y\n1,a\n2,a\n3,a\n4,a\n".into(), "", "only one class to learn from"),
        ("s,x,y\na,1,1\nb,1,1\na,1,1\n".into(), "--sequence s", "a.csv:4: sequence `a` comes back"),
        ("s,x,y\na,1,1\nb,1,1\n".into(), "--sequence s", "2 sequences cannot be parted"),
    ] {
        std::fs::write(folder.join("a.csv"), data).unwrap();
        let said = refused(folder, &format!("{SMALL} --target y --delay 1 {more}"));
        assert!(said.contains(why), "{more}: {said}");
        assert!(!folder.join("out").exists(), "{more}");
    }
    std::fs::write(folder.join("a.csv"), good).unwrap();
    for (arguments, why) in [
        (format!("{SMALL} --target y --net lstm --delay 3"), "--delay 3 with --net lstm"),
        (format!("{SMALL} --delay 1"), "--target <COL,..>"),
        (format!("{SMALL} --target z --delay 1"), "a.csv:1: has no column `z`"),
        ("train series --target y --delay 1".into(), "--csv <F>"),
        ("train series --csv none.csv --target y --delay 1".into(), "none.csv: cannot be read"),
    ] {
        let said = refused(folder, &arguments);
        assert!(said.contains(why), "{arguments}: {said}");
    }
}

#[test]
fn odd_data_that_can_be_learned_from() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rows: String = (0..60)
        .map(|i| format!("{},7,{}\n", noise(i), if i % 5 == 0 { "NA" } else { "3" }))
        .collect();
    std::fs::write(folder.join("a.csv"), format!("x,y,z\n{rows}")).unwrap();
    // A target and an input that never change; inputs that are missing.
    let said =
        done(folder, &format!("{SMALL} --target y --missing mean --net gru --out a --epochs 2"));
    for expected in
        ["the target y is constant", "the input z is constant", "12 missing inputs", "constant"]
    {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let said = done(folder, "eval a/model.safetensors a.csv");
    assert!(said.contains("12 missing inputs were filled in"), "{said}");
    // Targets that are missing do not count.
    let said = done(
        folder,
        &format!("{SMALL} --target z,y --missing zero --net gru --out b --epochs 2 --test 0"),
    );
    assert!(said.contains("12 steps without a target do not count"), "{said}");
    assert!(!said.contains("on the test set"), "{said}");
    // Numbers as classes, and another delimiter.
    let rows: String = (0..60).map(|i| format!("{}\t{}\n", noise(i), i % 2)).collect();
    std::fs::write(folder.join("a.csv"), format!("x\ty\n{rows}")).unwrap();
    done(
        folder,
        &format!("{SMALL} --target y --classify --delimiter tab --net gru --out c --epochs 2"),
    );
    assert!(done(folder, "eval c/model.safetensors a.csv").contains("accuracy"));
}

#[test]
fn what_cannot_be_evaluated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    one_series(folder, 100);
    done(folder, &format!("{SMALL} --target y --net lstm --out a --epochs 2"));
    done(folder, "init --net lstm --inputs 1 --outputs 1 -o plain.safetensors");
    std::fs::write(folder.join("b.csv"), "x,z\n1,2\n").unwrap();
    std::fs::write(folder.join("empty.csv"), "x,y\n").unwrap();
    for (arguments, why) in [
        ("plain.safetensors a.csv", "plain.safetensors: does not say what it was trained for"),
        ("a/model.safetensors b.csv", "b.csv:1: has no column `y`; there are `x`, `z`"),
        ("a/model.safetensors empty.csv", "empty.csv: holds no rows"),
        ("a/model.safetensors none.csv", "none.csv: cannot be read"),
        ("none.safetensors a.csv", "none.safetensors: cannot be read"),
        ("a.csv a.csv", "a.csv: "),
        ("a/model.safetensors", "<DATA>..."),
    ] {
        let said = refused(folder, &format!("eval {arguments}"));
        assert!(said.contains(why), "{arguments}: {said}");
    }
    let model = drnn::Model::load(folder.join("plain.safetensors")).unwrap();
    for (task, why) in [
        (r#"{"task": "chess"}"#, "its task is \"chess\""),
        (r#"{"task": "series"}"#, "odd.safetensors: its task: missing field"),
    ] {
        let model = drnn::Model::from_params(model.spec(), model.params().to_vec()).unwrap();
        model.with_task(json(task)).save(folder.join("odd.safetensors")).unwrap();
        let said = refused(folder, "eval odd.safetensors a.csv");
        assert!(said.contains(why), "{said}");
    }
}

/// Sequences of the sine task as a table.
fn sine_table(path: &Path, count: usize, part: SinePart) {
    let examples = Sine::new(0.5, 2).examples(count, 1, part).unwrap();
    let mut out = String::from("id,x,y\n");
    let mut batch = Gathered::default();
    for row in 0..count as u32 {
        examples.gather(0, &[row], &mut batch);
        let (Inputs::Dense(x), TargetData::Values(y)) = (&batch.inputs, &batch.targets) else {
            panic!()
        };
        x.iter().zip(y).for_each(|(x, y)| writeln!(out, "{row},{x},{y}").unwrap());
    }
    std::fs::write(path, out).unwrap();
}

/// The data of `drnn sweep sine` as tables: what is found is the same, but that columns are scaled.
#[test]
fn the_papers_sine_is_one_instance() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    sine_table(&folder.join("a.csv"), 320, SinePart::Train);
    sine_table(&folder.join("b.csv"), 64, SinePart::Valid);
    sine_table(&folder.join("c.csv"), 64, SinePart::Test);
    let options = "--units 24 --epochs 120 --delays 0,2 --nets dlstm --batch 10 --json";
    let files = "--csv a.csv --valid b.csv --test c.csv --sequence id --target y";
    let mine = json(&done(folder, &format!("sweep series {files} {options}")));
    let theirs = json(&done(folder, &format!("sweep sine --sequences 320 --ahead 2 {options}")));
    assert_eq!(mine["sequences"], theirs["sequences"]);
    let error = |results: &Value, net: &str| {
        let runs = results["runs"].as_array().unwrap();
        runs.iter().find(|run| run["net"] == net).unwrap()["test"].as_f64().unwrap()
    };
    for results in [&mine, &theirs] {
        assert!(error(results, "dlstm-2") < 0.9 * error(results, "dlstm-0"), "{results}");
    }
    let ratio = error(&mine, "dlstm-2") / error(&theirs, "dlstm-2");
    assert!((0.7..1.4).contains(&ratio), "{ratio}"); // in the same units
    assert!(folder.join("out/sweep-series/index.html").exists());
}

#[test]
fn a_sweep_over_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    one_series(folder, 400);
    let sweep =
        "sweep series --csv a.csv --target y --units 8 --epochs 2 --window 50 --nets dgru,bigru";
    let said = done(folder, sweep);
    assert!(said.contains("Recommended: dgru-") && said.contains("bigru"), "{said}");
    let said = done(folder, &format!("{sweep} --out untested --test 0"));
    assert!(said.contains("none") && said.contains("Recommended: dgru-"), "{said}");
    assert!(
        refused(folder, &format!("{sweep} --out b --delays 400"))
            .contains("with a delay of 319 all")
    );
    let output = drnn(folder, &format!("{sweep} --out b --target z"));
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), String::new()));
}

/// A file of several networks: all of them are shown, and it is not scored for a task that nobody knows.
#[test]
fn files_of_several_networks() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let net = |q: usize| {
        let spec = drnn::NetSpec::builder(drnn::Cell::Gru).dense(q).units([3]).build().unwrap();
        drnn::Model::init(&spec, 1).unwrap()
    };
    let table = drnn::BundleTable { rows: 2, width: 1, values: vec![0.5, 1.0] };
    let bundle = drnn::Bundle {
        task: serde_json::json!({"task": "pairs", "tags": ["a", "b"]}),
        networks: [("char".into(), net(2)), ("word".into(), net(4))].into(),
        tables: [("vectors".into(), table)].into(),
    };
    bundle.save(folder.join("b.safetensors"), drnn::Precision::F32).unwrap();
    let said = done(folder, "inspect b.safetensors");
    for expected in [
        "char: gru(",
        "word.weight_ih_l0  [9, 4]",
        "table vectors: [2, 1]",
        "task: pairs\n  tags: a, b",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let value = json(&done(folder, "inspect b.safetensors --json"));
    assert_eq!(value["networks"]["word"]["tensors"][0]["name"], "weight_ih_l0");
    assert_eq!(
        (&value["tables"]["vectors"]["shape"][0], &value["task"]["task"]),
        (&2.into(), &"pairs".into())
    );
    assert!(
        refused(folder, "inspect b.safetensors --svg b.svg").contains("contains several networks")
    );
    let said = refused(folder, "eval b.safetensors b.safetensors");
    assert!(said.contains("its task is \"pairs\"; `drnn eval` evaluates"), "{said}");
}
