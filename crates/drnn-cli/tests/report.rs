//! `drnn report`: the files, what is in them, what is refused.

use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

/// Made up: two repetitions of four networks.
const RESULTS: &str = include_str!("data/reversal.json");
const FILES: [&str; 6] =
    ["accuracy.png", "accuracy.svg", "index.html", "losses.svg", "report.md", "reversal.csv"];

fn drnn(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_drnn"));
    command.current_dir(folder).args(arguments.split_whitespace()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The results with a change in them.
fn changed(change: impl Fn(&mut Value)) -> String {
    let mut value = serde_json::from_str(RESULTS).unwrap();
    change(&mut value);
    value.to_string()
}

/// The report on results, file by file.
fn report(results: &str) -> impl Fn(&str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("results.json"), results).unwrap();
    let output = drnn(folder.path(), "report results.json --out here/there");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    move |name| std::fs::read(folder.path().join("here/there").join(name)).unwrap()
}

fn refused(results: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("results.json"), results).unwrap();
    let output = drnn(folder.path(), "report results.json");
    assert_eq!((output.status.code(), &*output.stdout), (Some(2), &b""[..]));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "wrote something");
    let said = text(&output.stderr);
    assert!(said.starts_with("error: results.json: "), "{said}");
    said
}

#[test]
fn next_to_the_results_and_the_same_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("reversal.json");
    std::fs::write(&path, RESULTS).unwrap();
    let output = drnn(folder.path(), "report reversal.json");
    let expected = "\
net        delay        sampled        arg max  bound  difference  parameters  epochs    time
LSTM           0  0.621 ± 0.003  0.624 ± 0.001  0.625      −0.004      42,404   6 ± 0  13.6 s
Bi-LSTM      all  0.997 ± 0.001  0.998 ± 0.001  1.000      −0.003      42,564   8 ± 0  14.8 s
";
    let said = text(&output.stdout);
    assert!(said.starts_with(expected), "{said}");
    assert!(text(&output.stderr).starts_with("wrote index.html, report.md, "));

    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let first = FILES.map(read);
    assert!(drnn(folder.path(), "report reversal.json").status.success());
    assert!(first == FILES.map(read), "not the same again");
    assert_eq!(text(&std::fs::read(path).unwrap()), RESULTS);
}

#[test]
fn what_the_files_hold() {
    let read = report(RESULTS);
    assert!(read("accuracy.png").starts_with(b"\x89PNG\r\n\x1a\n"));
    let csv = text(&read("reversal.csv"));
    assert_eq!(csv.lines().count(), 1 + 8);
    assert!(csv.contains("\n\"bilstm\",1,,42564,1,"), "{csv}");

    let svg = text(&read("accuracy.svg"));
    assert!(svg.contains(">d-LSTM</text>") && svg.contains(">bound</text>"), "{svg}");
    assert_eq!(svg.matches("mark c0").count(), 2 + 1); // two delays and the legend
    let losses = text(&read("losses.svg"));
    assert_eq!(losses.matches("class=\"line c").count(), 8 + 4); // runs and the legend
    assert!(losses.contains("logarithmic") && !losses.contains("NaN"), "{losses}");

    let page = text(&read("index.html"));
    for outside in ["src=", "href=", "<script", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    for inside in
        ["name=\"viewport\"", "prefers-color-scheme: dark", "<th scope=\"row\">d-LSTM 5</th>"]
    {
        assert!(page.contains(inside), "{inside}");
    }
    let ids: Vec<_> = page.split(" id=\"").skip(1).map(|s| s.split('"').next().unwrap()).collect();
    assert_eq!(ids, ["accuracy-wide", "accuracy-narrow", "losses-wide", "losses-narrow"]);

    let markdown = text(&read("report.md"));
    for inside in [
        "# Sequence reversal\n",
        "| LSTM | 0 | 0.621 ± 0.003 |",
        "![Accuracy by delay](accuracy.svg)",
        "- learning rate 0.01 instead of 0.001\n",
        "```text\ndrnn reproduce reversal --seed 1\n```\n",
        "| Took | 2 min 51 s |",
    ] {
        assert!(markdown.contains(inside), "{inside}: {markdown}");
    }
}

#[test]
fn text_of_a_file_stays_text() {
    let evil = "</code><script>alert('1')</script>\"|`\u{1}\u{1b}[31m";
    let results = changed(|v| {
        v["runs"][0]["net"] = evil.into();
        v["provenance"]["command"] = evil.into();
        v["provenance"]["cpu"] = evil.into();
        v["deviations"][0] = evil.into();
    });
    let read = report(&results);
    for name in ["index.html", "accuracy.svg", "losses.svg"] {
        let found = text(&read(name));
        assert!(found.contains("&lt;script&gt;") || found.contains("&lt;/code&gt;"), "{name}");
        assert!(!found.contains("<script") && !found.contains('\u{1}'), "{name}");
    }
    let markdown = text(&read("report.md"));
    assert_eq!(markdown.matches("<script").count(), 1); // the command, between fences
    assert!(text(&read("reversal.csv")).contains("</script>\"\"|`"));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.json"), &results).unwrap();
    assert!(!text(&drnn(folder.path(), "report x.json").stdout).contains('\u{1b}'));
}

#[test]
fn a_run_that_diverged_is_reported() {
    let results = changed(|v| {
        let run = &mut v["runs"][6];
        run["ended"] = "not-finite".into();
        (run["sampled"], run["likeliest"], run["test_loss"]) =
            (json!(null), json!(null), json!(null));
        run["history"][2]["valid_loss"] = json!(null);
    });
    let read = report(&results);
    let page = text(&read("index.html"));
    assert!(page.contains("dlstm-19, repetition 0: the loss became NaN"), "{page}");
    // Only that sentence says NaN; tables and plots print none.
    assert!(page.contains("<td>not finite</td>"), "{page}");
    assert_eq!(page.matches("NaN").count(), 1, "{page}");
}

#[test]
fn few_and_many_networks() {
    let one = changed(|v| {
        let run = v["runs"][4].take();
        v["runs"] = json!([run]);
        v["runs"][0]["history"] = json!([]);
    });
    assert!(!text(&report(&one)("index.html")).contains("NaN"));
    let many = changed(|v| {
        let run = v["runs"][4].clone();
        for delay in 6..40 {
            let mut run = run.clone();
            (run["net"], run["delay"]) = (format!("dlstm-{delay}").into(), delay.into());
            v["runs"].as_array_mut().unwrap().push(run);
        }
    });
    let losses = text(&report(&many)("losses.svg"));
    assert!(losses.contains("opacity=\"0.2") && losses.contains(">d-LSTM 39<"), "{losses}");
}

#[test]
fn damaged_and_foreign_files_are_refused() {
    assert!(refused("").contains("not a results file of drnn: EOF"));
    assert!(refused(&RESULTS[..RESULTS.len() / 2]).contains("EOF while parsing"));
    assert!(refused("[]").contains("not a results file of drnn"));
    assert!(refused("{}").contains("`kind`"));
    let with =
        |at: &str, value: Value| refused(&changed(|v| *v.pointer_mut(at).unwrap() = value.clone()));
    let unknown = with("/kind", json!("sin"));
    assert!(
        unknown.contains("kind \"sin\"; there are reports of ") && unknown.contains("\"reversal\"")
    );
    assert!(with("/format", json!(2)).contains("format 2, this program reads format 1"));
    assert!(with("/runs", json!([])).contains("contains no runs"));
    assert!(with("/task/steps", json!(0)).contains("0 elements"));
    assert!(with("/task/steps", json!(u64::MAX)).contains("expected 1 to 10000"));
    assert!(with("/runs/0/sampled", json!(null)).contains("runs[0], \"lstm\": sampled is null"));
    assert!(with("/runs/1/bound", json!(null)).contains("invalid type: null"));
    assert!(with("/runs/2/likeliest", json!(1.5)).contains("likeliest is 1.5, expected 0 to 1"));
    assert!(
        with("/runs/0/history/1/valid_loss", json!(null)).contains("valid_loss of epoch 2 is null")
    );
    assert!(with("/runs/3/test_loss", json!(-0.5)).contains("test_loss is -0.5, below 0"));
    assert!(with("/runs/0/ended", json!("later")).contains("unknown variant `later`"));
}

#[test]
fn nothing_that_is_read_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir(at("a")).unwrap();
    for name in ["index.html", "x.json", "a/x.json"] {
        std::fs::write(at(name), RESULTS).unwrap();
    }
    let refused = |arguments: &str| {
        let output = drnn(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert_eq!(text(&std::fs::read(at("index.html")).unwrap()), RESULTS);
        assert!(!at("report.md").exists() && !at("a/report.md").exists(), "{arguments}");
        text(&output.stderr)
    };
    assert!(
        refused("report index.html").contains("index.html: is an input of this command; --out")
    );
    assert!(refused("report x.json x.json").contains("both reports would go to"));
    assert!(refused("report x.json none.json --out b").contains("none.json: cannot be read"));
    assert!(refused("report x.json --out x.json").contains("x.json: cannot be created"));
    assert!(refused("report").contains("Usage"));
    let output = drnn(folder.path(), "report x.json a/x.json index.html --out all");
    assert!(output.status.success());
    for name in ["x", "a", "index"] {
        assert!(at("all").join(name).join("index.html").exists(), "{name}");
    }
}
