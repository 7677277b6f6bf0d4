//! `drnn report` on the results of `drnn reproduce sine`: the files, what is in them, what is refused.

mod common;

use common::{done, drnn, text};
use serde_json::{Value, json};

/// Made up: two data sets of three networks. One cell is missing, one diverged, of one a half did.
const RESULTS: &str = include_str!("data/sine.json");
/// A campaign's own file: one network, two cells.
const CAMPAIGN: &str = r#"{"campaign":"drnn sine","format":1,"protocol":{"sequences":[20,4,4],"training":{"epochs":2,"batch":10,"rate":0.01,"schedule":"cosine","clip":1.0,"adam":{"beta1":0.9,"beta2":0.999,"eps":1e-8},"stopping":{"patience":null,"min_delta":0.0,"at_value":0.00001},"seed":1}}}
{"set":0,"gamma":0.5,"ahead":5,"net":"dlstm-5","test_mse":0.01,"valid_mse":0.01,"epochs":2,"reason":"epochs","parameters":41301,"set_seed":1,"training_seed":1,"seconds":60.0,"machine":"slow <one>"}
{"set":0,"gamma":0.5,"ahead":6,"net":"dlstm-5","test_mse":0.04,"valid_mse":0.04,"epochs":2,"reason":"epochs","parameters":41301,"set_seed":1,"training_seed":1,"seconds":30.0}
"#;

/// The results with a change in them.
fn changed(change: impl Fn(&mut Value)) -> String {
    let mut value = serde_json::from_str(RESULTS).unwrap();
    change(&mut value);
    value.to_string()
}

/// The report on results, file by file.
fn report(results: &str) -> impl Fn(&str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("results.json"), results).unwrap();
    done(folder.path(), "report results.json --out report");
    move |name| {
        String::from_utf8_lossy(&std::fs::read(folder.path().join("report").join(name)).unwrap())
            .into()
    }
}

fn refused(results: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("results.json"), results).unwrap();
    let said = common::refused(folder.path(), "report results.json");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "wrote something");
    assert!(said.starts_with("error: results.json: "), "{said}");
    said
}

#[test]
fn next_to_the_results_and_the_same_again() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("sine.json"), RESULTS).unwrap();
    let output = drnn(folder.path(), "report sine.json");
    let expected = "\
mean squared error on the test set, mean of 2 data sets

LSTM        a = 0   a = 5   a = 7
gamma 0.5  1.7e-3  1.4e-2  2.4e-2
gamma 1.0  3.9e-4  5.3e-2       .

Bi-LSTM     a = 0   a = 5     a = 7
gamma 0.5  1.7e-3  2.0e-3    1.3e-3
gamma 1.0  4.1e-3  2.4e-2  diverged

d-LSTM 5    a = 0   a = 5   a = 7
gamma 0.5  2.2e-3  1.0e-3  6.5e-3
gamma 1.0  9.6e-3  5.0e-4  4.0e-3

the step after a = d
           d-LSTM 5: a = 7 over a = 5
gamma 0.5                         6.5
gamma 1.0                         8.0

differs from the paper: 100 epochs (paper: 1,000)
differs from the paper: 2 data set(s) per cell (paper: 5)
";
    assert_eq!(text(&output.stdout), expected);
    let names = ["index.html", "report.md", "sine.csv", "sine.svg", "sine.png", "sine-sd.svg"];
    assert_eq!(text(&output.stderr), format!("wrote {} to .\n", names.join(", ")));
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let first = names.map(read);
    done(folder.path(), "report sine.json");
    assert!(first == names.map(read), "not the same again");
    assert_eq!(text(&read("sine.json")), RESULTS);
}

#[test]
fn what_the_files_hold() {
    let read = report(RESULTS);
    assert!(read("sine.png").contains("PNG\r\n"));
    let csv = read("sine.csv");
    assert_eq!(csv.lines().count(), 1 + 17);
    assert!(csv.contains("\nbilstm,1.0,7,2,2,,,3.5\n"), "{csv}");

    let page = read("index.html");
    for outside in ["src=", "href=", "<script", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    let ids: Vec<_> = page.split(" id=\"").skip(1).map(|s| s.split('"').next().unwrap()).collect();
    assert_eq!(ids, ["sine-wide", "sine-narrow", "sine-sd-wide", "sine-sd-narrow"]);
    // A step for the LSTM and the d-LSTM, in both figures, wide and narrow.
    assert_eq!(page.matches("class=\"step\"").count(), 2 * 2 * 2);
    for inside in [
        "y_t = sin(gamma * sum_j w_(j+c) x_(t+j))",
        "<th scope=\"col\">a = 7</th>",
        "<th scope=\"row\">gamma 0.5</th><td>1.7e-3</td>",
        "is 6.5 to 8.0 times that at",
        "3 of 34 trainings diverged",
        "<li>100 epochs (paper: 1,000)</li>",
        "--nets lstm,bilstm,dlstm-5",
        "not in sine.json but in results.jsonl",
    ] {
        assert!(page.contains(inside), "{inside}: {page}");
    }
    let markdown = read("report.md");
    for inside in [
        "# Sine of a filtered sequence\n",
        "![Test error over gamma and a](sine.svg)",
        "![Test error: deviation between data sets](sine-sd.svg)",
        "| gamma 1.0 | 3.9e-4 | 5.3e-2 | . |",
        "| Its commit | 0123abc |",
    ] {
        assert!(markdown.contains(inside), "{inside}: {markdown}");
    }
}

#[test]
fn a_campaigns_own_file_has_time_and_machine() {
    let read = report(CAMPAIGN);
    let page = read("index.html");
    for inside in ["1 min 30 s of one thread", "slow &lt;one&gt;", "is 4.0 times that at"] {
        assert!(page.contains(inside), "{inside}: {page}");
    }
    let json: Value = serde_json::from_str(&read("sine.json")).unwrap();
    assert_eq!((&json["kind"], &json["format"]), (&"sine".into(), &1.into()));
    assert!(!read("sine.json").contains("slow") && !read("sine.json").contains("seconds"));
    // The same, made of what it has just written.
    assert_eq!(report(&read("sine.json"))("sine.svg"), read("sine.svg"));
    // While a line is being written, those before it are there.
    let torn = report(&CAMPAIGN[..CAMPAIGN.len() - 9]);
    assert!(torn("index.html").contains("No delayed network was trained on both sides"));

    let with = |from: &str, to: &str| refused(&CAMPAIGN.replacen(from, to, 1));
    assert!(with("0.01,\"valid", "-1,\"valid").contains("line 2 is damaged (test_mse is -1)"));
    assert!(with("\"seconds\":60.0", "\"seconds\":null").contains("line 2 is damaged"));
    assert!(with("\"ahead\":5", "\"ahead\":21").contains("ahead is 21, expected 0 to 20"));
    assert!(with("\"ahead\":6", "\"ahead\":5").contains("has two results that differ"));
    assert!(with("dlstm-5", "dlstm-50").contains("a delay of 50, expected 1 to 49"));
    assert!(with("\"format\":1", "\"format\":2").contains("`drnn sine` in format 2"));
    assert!(with("\"net\":\"dlstm-5\"", "\"x\":0").contains("missing field `net`"));
    let header = CAMPAIGN.lines().next().unwrap();
    assert!(refused(&format!("{header}\n")).contains("contains no trainings"));
    assert!(refused(&header[..40]).contains("holds no results"));
}

#[test]
fn text_of_a_file_stays_text() {
    let evil = "</code><script>alert('1')</script>\"|`\u{1}\u{1b}[31m";
    let results = changed(|v| {
        v["provenance"]["command"] = evil.into();
        v["provenance"]["version"] = evil.into();
        v["deviations"][0] = evil.into();
    });
    let page = report(&results)("index.html");
    assert_eq!(page.matches("&lt;script&gt;").count(), 3, "{page}");
    assert!(!page.contains("<script") && !page.contains('\u{1}'));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.json"), &results).unwrap();
    assert!(!done(folder.path(), "report x.json").contains('\u{1b}'));
}

#[test]
fn one_cell_and_very_many() {
    let one = changed(|v| {
        let mut cell = v["cells"][0].take();
        (cell["sets"], cell["sd_mse"]) = (json!(1), json!(null));
        (v["cells"], v["trainings"]) = (json!([cell]), json!(1));
    });
    let page = report(&one)("index.html");
    assert!(page.contains("one data set") && !page.contains("sine-sd") && !page.contains("NaN"));
    let many = changed(|v| {
        let cell = v["cells"][0].clone();
        let mut cells = Vec::new();
        for (delay, tenths, ahead) in
            (0..49 * 50 * 11).map(|i| (1 + i / 550, 1 + i / 11 % 50, i % 11))
        {
            let mut cell = cell.clone();
            cell["net"] = format!("dlstm-{delay}").into();
            (cell["gamma"], cell["ahead"]) = (json!(f64::from(tenths) / 10.0), json!(ahead));
            cells.push(cell);
        }
        (v["trainings"], v["cells"]) = (json!(2 * cells.len()), cells.into());
    });
    assert_eq!(report(&many)("sine.csv").lines().count(), 1 + 49 * 50 * 11);
}

#[test]
fn damaged_and_foreign_files_are_refused() {
    let with =
        |at: &str, value: Value| refused(&changed(|v| *v.pointer_mut(at).unwrap() = value.clone()));
    assert!(refused(&RESULTS[..RESULTS.len() / 2]).contains("EOF while parsing"));
    assert!(refused(&RESULTS.replacen("0.0017", "NaN", 1)).contains("not a results file of drnn"));
    assert!(refused(&RESULTS.replacen("0.0017", "1e999", 1)).contains("number out of range"));
    let unknown = with("/kind", json!("depth"));
    assert!(
        unknown.contains("of kind \"depth\"; there are reports of ")
            && unknown.contains("\"sine\"")
    );
    assert!(with("/kind", json!("reversal")).contains("missing field"));
    assert!(with("/kind", json!(1)).contains("invalid type"));
    assert!(with("/format", json!(2)).contains("format 2, this program reads format 1"));
    assert!(with("/format", json!(null)).contains("format none"));
    assert!(with("/cells", json!([])).contains("contains no trainings"));
    assert!(with("/trainings", json!(33)).contains("33 trainings, and cells of another number"));
    assert!(with("/cells/1/sets", json!(u64::MAX)).contains("and cells of another number"));
    assert!(with("/protocol/training/rate", json!(-0.5)).contains("a learning rate of -0.5"));
    let first = "cells[0], lstm gamma 0.5 a 0: ";
    for (field, value, why) in [
        ("mean_mse", json!(-1.0), "mean_mse is -1, expected 0 or more"),
        ("mean_mse", json!(null), "no mean_mse, of 2 data sets"),
        ("sd_mse", json!(null), "no sd_mse, of 2 data sets"),
        ("ran_away", json!(2), "mean_mse is 0.0017, of 0 data sets"),
        ("ran_away", json!(3), "2 data sets, 3 of them diverged"),
        ("mean_epochs", json!(-0.5), "mean_epochs is -0.5, expected 0 or more"),
    ] {
        let said = with(&format!("/cells/0/{field}"), value);
        assert!(said.contains(&format!("{first}{why}")), "{said}");
    }
    for (field, value, why) in [
        ("ahead", json!(21), "ahead is 21, expected 0 to 20"),
        ("ahead", json!(-1), "invalid value: integer `-1`"),
        ("net", json!("dlstm-0"), "a delay of 0, expected 1 to 49"),
        ("net", json!("gru"), "expected lstm, bilstm or dlstm-DELAY"),
        ("gamma", json!(0.25), "expected a multiple of 0.1"),
        ("gamma", json!(null), "invalid type: null"),
        ("ahead", json!(5), "cells[1], lstm gamma 0.5 a 5: is given twice"),
    ] {
        let said = with(&format!("/cells/0/{field}"), value);
        assert!(said.contains(why), "{said}");
    }
    for field in ["net", "gamma", "ahead", "sets", "ran_away", "mean_mse", "sd_mse", "mean_epochs"]
    {
        let said =
            refused(&changed(|v| drop(v["cells"][0].as_object_mut().unwrap().remove(field))));
        assert!(said.contains(field), "{field}: {said}");
    }
    for field in ["provenance", "protocol", "deviations", "trainings", "cells"] {
        let said = refused(&changed(|v| drop(v.as_object_mut().unwrap().remove(field))));
        assert!(said.contains(&format!("missing field `{field}`")), "{said}");
    }
}
