//! `drnn reproduce all`: the plan, tasks and task arrays, resuming, merging, importing.

mod common;

use common::{done, drnn, refused, text};
use drnn_testing::{Need, skip};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A text and a treebank that are found as the paper's.
fn data(folder: &Path) {
    let data = folder.join("data/en");
    std::fs::create_dir_all(&data).unwrap();
    let words = "anarchism originated as a term of abuse first used against early working class ";
    std::fs::write(folder.join("data/text8"), words.repeat(400)).unwrap();
    let sentence = "the\tDET\nants\tNOUN\nsaw\tVERB\nthem\tPRON\n\nthey\tPRON\nrun\tVERB\n\n";
    for part in ["train", "dev", "test"] {
        std::fs::write(data.join(format!("en-{part}.tsv")), sentence.repeat(20)).unwrap();
    }
}

/// Runs the program with environment variables.
fn with_env(folder: &Path, arguments: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
    command.current_dir(folder).args(arguments.split_whitespace());
    command.envs(variables.iter().copied()).output().unwrap()
}

fn record(folder: &Path, id: &str) -> Value {
    let path = folder.join("tasks").join(format!("{id}.json"));
    serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap()
}

#[test]
fn the_plan_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let table = done(folder.path(), "reproduce all --list --device auto");
    assert!(table.contains("\nmlm/small-dlstm-8/seed-3 "), "{table}");
    assert!(table.contains("\nsine/gamma-0.1/set-4 "), "{table}");
    assert!(table.contains("\npos/fr/bilstm_dlstm-1/seed-2 "), "{table}");
    let last = table.lines().last().unwrap();
    assert!(last.starts_with("629 tasks, 0 done; on cuda"), "{last}");
    let json = done(folder.path(), "reproduce all --list --json --seeds 1 --threads 2");
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (i, line) in lines.iter().enumerate() {
        assert_eq!(line["number"], i + 1);
        assert!(line["minutes"].as_f64().unwrap() > 0.0, "{line}");
        let id = line["task"].as_str().unwrap();
        let gpu = id == "runtime/cuda"; // the only one that needs a GPU
        let (device, option) = if gpu { ("cuda", " --device cuda") } else { ("cpu", "") };
        assert_eq!((&line["device"], &line["done"]), (&device.into(), &false.into()));
        let command = line["command"].as_str().unwrap();
        assert!(command.ends_with(&format!(" --task {id}{option}")), "{line}");
    }
    let listed = done(folder.path(), "reproduce all --list --json --task reversal/bilstm");
    assert_eq!(listed.lines().count(), 5);
    assert!(!folder.path().join("out").exists());
}

#[test]
fn a_shrunken_campaign_is_run_listed_and_marked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    data(folder);
    let all = "reproduce all --quick --seeds 1 --data data --out c --threads 2";
    let output = drnn(folder, all);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let pending = done(folder, &format!("{all} --list --json --pending"));
    assert_eq!(pending, "");
    let listed = done(folder, &format!("{all} --list --json"));
    assert!(listed.lines().count() > 10 && !listed.contains("\"done\":false"), "{listed}");

    let found = record(&folder.join("c"), "quick/mlm/quick-dlstm-5/seed-1");
    assert_eq!((&found["kind"], &found["protocol"]), (&"paper-task".into(), &"quick".into()));
    assert_eq!(found["data"][0], serde_json::json!({"name": "text8", "bytes": 400 * 79}));
    let made = &found["provenance"];
    let command =
        "drnn reproduce all --data DIR --out DIR --quick --task quick/mlm/quick-dlstm-5/seed-1";
    assert_eq!((&made["command"], &made["seed"]), (&command.into(), &1.into()));
    for name in ["version", "machine", "started", "seconds", "threads"] {
        assert!(!made[name].is_null(), "{name}: {made}");
    }
    let bits = found["outcome"]["run"]["test_bpc"].as_f64().unwrap();
    assert!((0.0..8.0).contains(&bits));
    let pos = record(&folder.join("c"), "quick/pos/en/lstm_lstm/seed-1");
    assert_eq!(pos["data"][0]["name"], "en-train.tsv");
    assert_eq!(pos["provenance"]["concurrent"], 2);
    // A flattened stack is the stack, until it is trained on.
    let relaxed = record(&folder.join("c"), "quick/relax/lstm-2x64/seed-1");
    let run = &relaxed["outcome"]["run"];
    let arms: Vec<&str> =
        run["arms"].as_array().unwrap().iter().map(|arm| arm["arm"].as_str().unwrap()).collect();
    assert_eq!(arms, ["stack", "flattened", "longer", "relaxed", "delayed", "delayed-stack"]);
    let of = |arm: usize, name: &str| run["arms"][arm][name].as_f64().unwrap();
    assert_eq!(of(0, "test_bpc"), of(1, "test_bpc"));
    assert_eq!((of(0, "epochs"), of(1, "epochs"), of(3, "epochs")), (1.0, 1.0, 2.0));
    assert!(of(3, "test_bpc") != of(1, "test_bpc") && of(3, "test_bpc") != of(2, "test_bpc"));
    assert_eq!(of(3, "parameters"), of(4, "parameters"));
    // Checkpoints of what is done are removed.
    assert!(!folder.join("c/work").exists());

    // What is done is not done again.
    let path = folder.join("c/tasks/quick/theorem.json");
    let before = std::fs::read(&path).unwrap();
    let again = drnn(folder, all);
    assert!(text(&again.stderr).contains("19 of them done already"), "{}", text(&again.stderr));
    assert_eq!(std::fs::read(&path).unwrap(), before);
    // Nor is it ever the paper's.
    let said = refused(folder, "reproduce all --out c --task depth");
    assert!(said.contains("shrunken campaign (--quick)"), "{said}");
    let mut forged = record(&folder.join("c"), "quick/mlm/quick-lstm/seed-1");
    for (id, why) in [
        ("mlm/quick-lstm/seed-1", "not the paper's options"),
        ("mlm/small-lstm/seed-1", "the outcome is not that of task"),
        ("quick/mlm/quick-lstm/seed-2", "protocol"),
        ("relax/lstm-2x64/seed-1", "the outcome is not that of task"),
    ] {
        (forged["protocol"], forged["task"]) = ("paper".into(), id.into());
        let path = folder.join("forged/tasks").join(format!("{id}.json"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, forged.to_string()).unwrap();
        let said = refused(folder, "reproduce all --out forged --list");
        assert!(said.contains(why), "{said}");
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_device_that_is_missing_is_an_error_before_work_begins() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // Left out without a GPU, and nothing is written.
    let ran = drnn(folder, "reproduce all --task runtime/cuda --out c");
    assert_eq!(ran.status.code(), Some(0));
    assert!(
        text(&ran.stderr).contains("runtime/cuda: is left out, because it needs --device cuda")
    );
    assert!(!folder.join("c").exists());
    if drnn_cuda::Device::find().is_ok() {
        skip(Need::NoGpu, "this machine has a GPU");
        return;
    }
    let said = refused(folder, "reproduce all --task depth --task reversal --device cuda --out c");
    assert!(said.contains("--device cuda: "), "{said}");
    assert!(!folder.join("c").exists());
}

#[test]
fn task_arrays_select_by_number() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let all = "reproduce all --quick --seeds 1 --out c";
    let ran = with_env(folder, all, &[("SLURM_ARRAY_TASK_ID", "1")]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert!(text(&ran.stderr).contains("SLURM_ARRAY_TASK_ID=1: task quick/depth"));
    assert!(folder.join("c/tasks/quick/depth.json").exists());
    // HyperQueue's workers may run inside Slurm's jobs.
    let both = [("SLURM_ARRAY_TASK_ID", "1"), ("HQ_TASK_ID", "2")];
    assert_eq!(with_env(folder, all, &both).status.code(), Some(0));
    assert!(folder.join("c/tasks/quick/theorem.json").exists());
    let named = with_env(folder, &format!("{all} --task depth"), &[("HQ_TASK_ID", "0")]);
    assert_eq!(named.status.code(), Some(0));
    for bad in ["0", "1000", "x"] {
        let ran = with_env(folder, all, &[("HQ_TASK_ID", bad)]);
        assert_eq!(ran.status.code(), Some(2));
        let said = text(&ran.stderr);
        assert!(said.contains(&format!("HQ_TASK_ID={bad}: tasks are numbered from 1")), "{said}");
    }
}

#[test]
fn bad_usage_and_missing_data_are_refused_before_work_begins() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let unset = |arguments: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
        command.current_dir(folder).env_remove("DRNN_DATA");
        let output = command.args(arguments.split_whitespace()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        text(&output.stderr)
    };
    let said = unset("reproduce all --task mlm --task pos/en-glove");
    assert!(said.contains("need text8, the English treebank, GloVe's vectors: --data"), "{said}");
    std::fs::create_dir(folder.join("empty")).unwrap();
    let said = unset("reproduce all --data empty");
    for missing in ["no text8, text8.zip", "no en*train*", "no fr*train*", "no de*train*", "glove*"]
    {
        assert!(said.contains(missing), "{missing}: {said}");
    }
    assert!(unset("reproduce all --task mlm/small").contains("not the id of a task"));
    assert!(unset("reproduce all --task quick/depth").contains("with --quick"));
    assert!(unset("reproduce all --seeds 0").contains("--seeds"));
    assert!(unset("reproduce all --json").contains("--list"));
    assert!(unset("reproduce all --merge nowhere").contains("has no folder tasks"));
    assert!(unset("reproduce all --import nothing.json").contains("cannot be read"));
    assert!(!folder.join("out").exists());
    std::fs::create_dir_all(folder.join("out/paper/tasks")).unwrap();
    for (contents, why) in [("{", "not a results file of a task"), ("{}", "missing field")] {
        std::fs::write(folder.join("out/paper/tasks/depth.json"), contents).unwrap();
        let said = unset("reproduce all --list");
        assert!(said.contains("depth.json: ") && said.contains(why), "{said}");
        assert!(said.contains("without this file the task is run again"), "{said}");
    }
}

/// Killed twice, a task of the paper's protocol goes on where it was.
#[test]
fn killed_tasks_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let task = "reproduce all --task reversal/lstm/seed-1 --out c --threads 2";
    let log = folder.join("c/work/reversal/lstm/seed-1/log.jsonl");
    for attempt in 1..=2 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
        command.current_dir(folder).args(task.split_whitespace());
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut epochs = lines.filter(|line| line.as_ref().unwrap().contains(" epoch "));
        assert!(epochs.nth(3).is_some(), "attempt {attempt}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let text = std::fs::read_to_string(log).unwrap();
    let whole = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let epochs: Vec<u64> = whole.map(|line| line["epoch"].as_u64().unwrap()).collect();
    // The last epoch before a kill may be lost.
    assert!(epochs.last() >= Some(&5), "{epochs:?}");
    assert_eq!(epochs.iter().filter(|epoch| **epoch == 1).count(), 1, "{epochs:?}");
    assert!(!folder.join("c/tasks").exists());
}

#[test]
fn results_of_several_machines_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (out, tasks) in [("a", "--task depth --task reversal/lstm"), ("b", "--task reversal")] {
        done(folder, &format!("reproduce all --quick --out {out} {tasks}"));
    }
    let said = drnn(folder, "reproduce all --quick --out a --merge b");
    assert_eq!(said.status.code(), Some(0));
    let said = text(&said.stderr);
    assert!(said.contains("b: 4 tasks added to a, 2 there already"), "{said}");
    let listed = done(folder, "reproduce all --quick --out a --list --json --task reversal");
    assert_eq!(listed.matches("\"done\":true").count(), 6);

    // A task that was run twice with different outcomes: the first stays.
    let path = folder.join("b/tasks/quick/reversal/bilstm/seed-1.json");
    let mut other = record(&folder.join("b"), "quick/reversal/bilstm/seed-1");
    other["outcome"]["run"]["sampled"] = 0.5.into();
    std::fs::write(&path, other.to_string()).unwrap();
    let mine = record(&folder.join("a"), "quick/reversal/bilstm/seed-1");
    let output = drnn(folder, "reproduce all --quick --out a --merge b");
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("quick/reversal/bilstm/seed-1: different outcomes"), "{said}");
    assert!(said.contains("check failed: 1 task with different outcomes"), "{said}");
    assert_eq!(record(&folder.join("a"), "quick/reversal/bilstm/seed-1"), mine);

    assert!(
        refused(folder, "reproduce all --quick --out a --merge a")
            .contains("is the folder of --out")
    );
    let said = refused(folder, "reproduce all --out new --merge b");
    assert!(said.contains("shrunken campaign"), "{said}");
    assert!(!folder.join("new").exists());
}

#[test]
fn results_of_single_experiments_are_imported() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results");
    let import = format!("reproduce all --out c --import {results}/sine-gpu/results.jsonl");
    let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
    command.current_dir(folder).args(import.split_whitespace());
    let ran = command.args(["--took", "526", "--note", "a GPU run"]).output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert!(text(&ran.stderr).contains("7 tasks added to c, 0 there already"));
    assert!(text(&drnn(folder, &import).stderr).contains("0 tasks added to c, 7 there already"));
    let found = record(&folder.join("c"), "sine/gamma-0.5/set-0");
    assert_eq!(found["outcome"]["records"].as_array().unwrap().len(), 44);
    assert_eq!(found["provenance"]["note"], "imported from sine-gpu/results.jsonl; a GPU run");
    assert!((found["provenance"]["seconds"].as_f64().unwrap() - 526.0 / 7.0).abs() < 1e-9);
    // By another protocol.
    for file in ["reversal/reversal.json", "mlm/mlm.json", "pos-en/pos.json"] {
        let ran = drnn(folder, &format!("reproduce all --out c --import {results}/{file}"));
        let said = text(&ran.stderr);
        assert!(said.contains("left out ") && said.contains("0 tasks added"), "{said}");
    }
    let said = refused(folder, &format!("reproduce all --out c --import {results}/quantized.json"));
    assert!(said.contains("can be imported") || said.contains("not a results file"), "{said}");
}

/// Times of other software come with ours, and replace a measurement of ours alone.
#[test]
fn runtimes_next_to_other_software_are_imported() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let results =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../results/paper/tasks/runtime/cpu.json");
    let mut alone: Value = serde_json::from_slice(&std::fs::read(results).unwrap()).unwrap();
    let outcome = alone["outcome"].as_object_mut().unwrap();
    outcome.remove("peer");
    let times = outcome["times"].clone();
    let mut slower = times.clone();
    for time in slower.as_array_mut().unwrap() {
        for seconds in time["seconds"].as_array_mut().unwrap() {
            *seconds = (2.0 * seconds.as_f64().unwrap()).into();
        }
    }
    std::fs::create_dir_all(folder.join("c/tasks/runtime")).unwrap();
    std::fs::write(folder.join("c/tasks/runtime/cpu.json"), alone.to_string()).unwrap();
    let mut found = serde_json::json!({
        "kind": "runtime", "format": 1, "times": times,
        "peer": {"name": "PyTorch 9.9", "times": slower},
        "provenance": {
            "command": "python bench/paper_runtime.py", "version": "0.1.0", "seed": 1, "threads": 2,
            "isa": "avx2", "cpu": "A CPU", "started": "2026-01-01T00:00:00Z", "seconds": 100.0,
        },
    });
    let write = |found: &Value| std::fs::write(folder.join("r.json"), found.to_string()).unwrap();
    write(&found);
    let said = text(&drnn(folder, "reproduce all --out c --import r.json").stderr);
    assert!(said.contains("1 task added to c, 0 there already"), "{said}");
    let now = record(&folder.join("c"), "runtime/cpu");
    assert_eq!(now["outcome"]["peer"]["name"], "PyTorch 9.9");
    assert_eq!(now["provenance"]["command"], "python bench/paper_runtime.py");
    let said = text(&drnn(folder, "reproduce all --out c --import r.json").stderr);
    assert!(said.contains("0 tasks added to c, 1 there already"), "{said}");
    done(folder, "report c");
    let report = std::fs::read_to_string(folder.join("c/report.md")).unwrap();
    assert!(report.contains("(2.00\u{d7})") && report.contains("PyTorch 9.9 runs"), "{report}");
    assert!(report.contains("## Speed: depth, and BPC at equal time"), "{report}");

    // Times that are not of the same passes, and not all networks.
    found["peer"]["times"].as_array_mut().unwrap().pop();
    write(&found);
    let said = text(&drnn(folder, "reproduce all --out d --import r.json").stderr);
    assert!(said.contains("PyTorch 9.9: has other networks"), "{said}");
    found["times"].as_array_mut().unwrap().pop();
    write(&found);
    let said = text(&drnn(folder, "reproduce all --out d --import r.json").stderr);
    assert!(said.contains("not all networks of the table"), "{said}");
    found["format"] = 2.into();
    write(&found);
    let said = refused(folder, "reproduce all --out d --import r.json");
    assert!(said.contains("reads format 1"), "{said}");
}

/// The results of this repository are what their ids say.
#[test]
fn the_papers_results_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results/paper");
    let listed = done(folder.path(), &format!("reproduce all --out {results} --list --json"));
    assert!(listed.matches("\"done\":true").count() > 30, "{listed}");
}
