//! `drnn reproduce sine`: split, merged, killed, resumed, interrupted; what is refused.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const TINY: &str =
    "--gammas 0.5,1 --aheads 5,7 --nets lstm,dlstm-5 --sets 2 --epochs 2 --sequences 20 --batch 10";

fn command(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
    command.current_dir(folder).args(["reproduce", "sine"]).args(arguments.split_whitespace());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn done(folder: &Path, arguments: &str) -> Output {
    let output = command(folder, arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments}: {}", text(&output.stderr));
    output
}

fn refused(folder: &Path, arguments: &str) -> String {
    let output = command(folder, arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments}");
    assert!(output.stdout.is_empty(), "{arguments}");
    text(&output.stderr)
}

/// All files of a report.
fn report(folder: &Path) -> Vec<String> {
    let names = ["sine.csv", "sine.json", "sine.svg", "sine-sd.svg"];
    names.map(|name| std::fs::read_to_string(folder.join(name)).unwrap()).to_vec()
}

/// The page without times and machine.
fn page(folder: &Path) -> Vec<String> {
    let markdown = std::fs::read_to_string(folder.join("report.md")).unwrap();
    assert!(markdown.contains("| Machine | ") && markdown.contains(" s of one thread"));
    markdown.lines().filter(|line| !line.starts_with("| Took |")).map(String::from).collect()
}

/// Starts it, and waits until it has written so many lines.
fn start(folder: &Path, arguments: &str, out: &str, lines: usize) -> Child {
    let mut command = command(folder, arguments);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (results, begun) = (folder.join(out).join("results.jsonl"), Instant::now());
    let found = || std::fs::read_to_string(&results).map_or(0, |text| text.lines().count());
    while found() < lines {
        assert!(begun.elapsed() < Duration::from_secs(600), "no {lines} lines");
        std::thread::sleep(Duration::from_millis(2));
    }
    child
}

#[test]
fn split_killed_and_resumed_campaigns_give_the_straight_ones_files() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let output = done(folder, &format!("{TINY} --out straight"));
    let (said, lines) = (text(&output.stdout), text(&output.stderr));
    assert!(said.contains("\nLSTM        a = 5   a = 7\ngamma 0.5 "), "{said}");
    assert!(said.contains("d-LSTM 5: a = 7 over a = 5\ngamma 0.5 "), "{said}");
    assert!(said.contains("differs from the paper: 2 epochs (paper: 1,000)"), "{said}");
    assert!(lines.contains("training 16 of 16: gamma "), "{lines}");
    let straight = report(&folder.join("straight"));
    assert_eq!(straight[0].lines().count(), 1 + 2 * 2 * 2);
    assert_eq!(straight[2].matches("class=\"step\"").count(), 1); // a = 0 is not there for the LSTM

    for i in 1..=3 {
        done(folder, &format!("{TINY} --shard {i}/3 --threads 1 --out part{i}"));
    }
    let files = |order: [u8; 3]| order.map(|i| format!("part{i}/results.jsonl")).join(" ");
    done(folder, &format!("--out merged --merge {}", files([1, 2, 3])));
    assert!(report(&folder.join("merged")) == straight);
    assert_eq!(page(&folder.join("merged")), page(&folder.join("straight")));
    assert!(
        ["index.html", "sine.png"].iter().all(|name| folder.join("merged").join(name).exists())
    );
    done(folder, &format!("--out again --merge {}", files([3, 1, 2])));
    let results = |out: &str| std::fs::read(folder.join(out).join("results.jsonl")).unwrap();
    assert!(results("again") == results("merged"));
    // Bit by bit.
    done(folder, "--out bits --merge part1/results.jsonl");
    assert!(refused(folder, "--out bits --merge part2/results.jsonl").contains("--resume"));
    done(folder, "--out bits --resume --merge part2/results.jsonl part3/results.jsonl");
    assert!(results("bits") == results("merged"));

    for lines in [1, 4, 9] {
        let mut child = start(folder, &format!("{TINY} --out killed --resume"), "killed", lines);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    done(folder, &format!("{TINY} --out killed --resume --json"));
    assert!(report(&folder.join("killed")) == straight);
}

#[cfg(unix)]
#[test]
fn ctrl_c_says_how_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let endless = "--cells 0.5:5 --nets lstm --epochs 100000 --sequences 20 --batch 10 --out o";
    let child = start(folder.path(), endless, "o", 1);
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let said = text(&output.stderr);
    assert!(said.contains("stopped: 0 of 1 trainings are done"), "{said}");
    assert!(said.contains(&format!("\n  drnn reproduce sine {endless} --resume\n")), "{said}");
}

#[test]
fn what_makes_no_sense_is_refused_and_nothing_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let refused = |arguments: &str| refused(folder, arguments);
    assert!(refused("--gammas 0.25").contains("multiple of 0.1"));
    assert!(refused("--gammas 0.5,0.5").contains("twice"));
    assert!(refused("--aheads 21").contains("0..=20"));
    assert!(refused("--cells 0.5").contains("GAMMA:A"));
    assert!(refused("--cells 0.5:5 --gammas 1").contains("cannot be used with"));
    assert!(refused("--nets gru").contains("dlstm-DELAY"));
    assert!(refused("--nets dlstm-50").contains("from 1 to 49"));
    assert!(refused("--shard 4/3").contains("I/N"));
    assert!(refused("--shard 33/40").contains("--shard 33/40: there are only 32 trainings"));
    assert!(refused("--sequences 0").contains("--sequences"));
    assert!(refused("--sequences 10").contains("batches of 50 sequences, of 10"));
    assert!(refused("--rate 0").contains("more than 0"));
    assert!(refused("--merge nothing").contains("nothing: cannot be read"));
    assert!(refused("--merge x --full").contains("cannot be used with"));
    assert!(!folder.join("out").exists());

    let one = "--cells 0.5:5 --nets lstm --epochs 1 --sequences 20 --batch 10 --out o";
    done(folder, one);
    let before = std::fs::read(folder.join("o/results.jsonl")).unwrap();
    assert!(
        refused(one)
            .contains("results.jsonl: is the result of an earlier run; continue it with --resume")
    );
    let other = refused(&format!("{one} --resume --seed 2"));
    assert!(other.contains("results of another campaign"), "{other}");
    assert!(std::fs::read(folder.join("o/results.jsonl")).unwrap() == before);
    // More of the same campaign may come to it.
    let output =
        done(folder, &one.replace("lstm ", "lstm,bilstm ").replace("--out", "--resume --out"));
    assert!(text(&output.stderr).contains("2 trainings, 1 of them done already"));
}
