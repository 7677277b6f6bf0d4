//! Columns of times and categories, forecasts, and tables as people have them.

use super::*;
use crate::data::TargetData;
use crate::read::Delimiter;
use drnn_tasks::live::{LiveModel, LiveStream, Predicted};
use drnn_tasks::series::{ColumnKind, Cycle, TimeFormat};
use std::fmt::Write;

fn with(rules: InputRules, targets: &[&str]) -> Columns {
    Columns { inputs: InputChoice::Found(rules), ..columns(targets) }
}

fn timed() -> InputRules {
    InputRules { time: Some("date".into()), ..InputRules::default() }
}

/// Values of target `at`.
fn target(data: &Sequences, at: usize) -> Vec<f32> {
    let TargetData::Values(y) = &data.y else { panic!() };
    y.iter().skip(at).step_by(data.targets.len()).copied().collect()
}

/// `count` hours from 1 January 2016.
fn hours(count: usize) -> String {
    let mut text = String::from("date,colour,y\n");
    for hour in 0..count {
        let (day, colour) = (hour / 24 % 28 + 1, ["red", "blue", "green"][hour % 3]);
        let month = hour / (24 * 28) + 1;
        let y = (hour as f64 * 0.3).sin() * 5.0;
        writeln!(text, "2016-{month:02}-{day:02} {:02}:00:00,{colour},{y:.4}", hour % 24).unwrap();
    }
    text
}

#[test]
fn a_forecast_is_the_target_some_rows_later() {
    let ahead = Columns { ahead: vec![1, 3], ..columns(&["y"]) };
    let found = read("x,y\n0,0\n1,10\n2,20\n3,30\n4,40\n", &ahead).unwrap();
    assert_eq!((found.inputs.join(" "), found.targets.join(" ")), ("x y".into(), "y+1 y+3".into()));
    assert_eq!(target(&found, 0)[..4], [10.0, 20.0, 30.0, 40.0]);
    assert_eq!(target(&found, 1)[..2], [30.0, 40.0]);
    assert!(target(&found, 0)[4].is_nan() && target(&found, 1)[2..].iter().all(|y| y.is_nan()));
    assert_eq!(found.now(), Some(&TargetData::Values(vec![0.0, 10.0, 20.0, 30.0, 40.0])));
    assert_eq!(found.unanswered, 0, "rows at the end lack no target of the table");
    // Within a sequence only; an input is the target if it is named.
    let inputs = named(&["y"]);
    let by_id = Columns { inputs, ahead: vec![1], sequence: Some("id".into()), ..columns(&["y"]) };
    let found = read("id,x,y\na,1,1\na,2,2\nb,3,3\nb,4,4\n", &by_id).unwrap();
    assert_eq!((found.inputs.join(" "), target(&found, 0)[0]), ("y".into(), 2.0));
    assert!(target(&found, 0)[1].is_nan() && target(&found, 0)[2] == 4.0);
    // Classes at one horizon.
    let class = Columns { ahead: vec![2], inputs: named(&["x"]), ..columns(&["c"]) };
    let text = "x,c\n1,a\n2,b\n3,a\n4,\n5,b\n";
    let missing = Columns { missing: Missing::Zero, ..class.clone() };
    let found = read(text, &missing).unwrap();
    assert_eq!(found.y, TargetData::Classes(vec![0, IGNORE, 1, IGNORE, IGNORE]));
    assert_eq!(learn(&found).targets, ["c+2"]);
    assert!(refused(text, &class).contains("a.csv:5: column `c` is missing; --missing says"));
    let all = Columns { inputs: columns(&[]).inputs, ..missing.clone() };
    assert_eq!(read(text, &all).unwrap().inputs, ["x", "c=a", "c=b"], "the class as an input");
    let two = Columns { ahead: vec![1, 2], ..missing };
    assert!(refused(text, &two).contains("classes can be forecast at one horizon"));
    let far = Columns { ahead: vec![5], ..ahead };
    assert!(refused("x,y\n1,1\n2,2\n", &far).contains("there is no target y+5: sequences have"));
    let none = Columns { ahead: vec![0], ..far };
    assert!(refused("x,y\n1,1\n", &none).contains("steps ahead [0]"));
}

/// What a part learns from or is scored on lies within the part.
#[test]
fn parts_of_a_forecast_do_not_see_each_other() {
    let rows: String = (0..100).map(|i| format!("{i}\n")).collect();
    let ahead = Columns { ahead: vec![2, 5], ..columns(&["y"]) };
    let all = read(&format!("y\n{rows}"), &ahead).unwrap();
    let Parts { train, valid, test } = all.part(Shares { valid: 0.1, test: 0.1 }, 1).unwrap();
    let largest = |data: &Sequences| -> f32 {
        let TargetData::Values(y) = &data.y else { panic!() };
        let counted = data.spans().flat_map(|span| span.counted);
        let of = |step: usize| y[2 * step..2 * step + 2].iter().copied().fold(0.0, f32::max);
        counted.map(of).fold(0.0, f32::max)
    };
    let [valid, test] = [valid, test].map(Option::unwrap);
    assert_eq!([largest(&train), largest(&valid), largest(&test)], [79.0, 89.0, 99.0]);
    let counts = [&valid, &test].map(|part| {
        let task = learn(&train);
        let spec = task.widths(NetSpec::builder(Cell::Gru)).units([2]).build().unwrap();
        let found = score(&Model::init(&spec, 1).unwrap(), &task, part).unwrap();
        let Measures::Values(targets) = found.measures else { panic!() };
        [targets[0].count, targets[1].count]
    });
    assert_eq!(counts, [[8, 5], [8, 5]], "per horizon");
}

#[test]
fn times_become_the_cycles_that_they_show() {
    let found = read(&hours(24 * 20), &with(timed(), &["y"])).unwrap();
    let ColumnKind::Time { format, cycles } = &found.columns[0].kind else { panic!() };
    assert_eq!(
        (*format, &cycles[..]),
        (TimeFormat::Iso, &[Cycle::HourOfDay, Cycle::DayOfWeek][..])
    );
    assert_eq!(found.inputs[0], "date:hour-of-day:sin");
    assert!((found.x[6 * found.inputs.len()] - 1.0).abs() < 1e-6, "at six o'clock");
    assert!(found.notes.iter().any(|note| note.contains("date becomes hour-of-day, day-of-week")));
    let task = learn(&found);
    assert_eq!((task.scaling.inputs.mean[0], task.scaling.inputs.sd[0]), (0.0, 1.0));
    // Not chosen: left out, with a note. Named as an input: it is one.
    let found = read(&hours(50), &columns(&["y"])).unwrap();
    assert_eq!(found.inputs, ["colour=blue", "colour=green", "colour=red"]);
    assert!(
        found.notes[0].contains("date holds times and is left out; --time date"),
        "{:?}",
        found.notes
    );
    let one = InputRules {
        names: Some(vec!["date".into()]),
        cycles: Some(vec![Cycle::DayOfYear]),
        ..InputRules::default()
    };
    let found = read(&hours(50), &with(one, &["y"])).unwrap();
    assert_eq!(found.inputs, ["date:day-of-year:sin", "date:day-of-year:cos"]);
}

#[test]
fn times_that_cannot_be_read_are_refused_with_the_option_that_helps() {
    let rows = |times: &[&str]| {
        let rows: String = times.iter().map(|time| format!("{time},1\n")).collect();
        format!("date,y\n{rows}")
    };
    let day = InputRules { cycles: Some(vec![Cycle::HourOfDay]), ..timed() };
    let columns = with(day, &["y"]);
    for (times, why) in [
        (&["2016-02-29", "2017-02-29"][..], "a.csv:3: column `date`: `2017-02-29` is not a time"),
        (&["2016-02-29", "x"], "; --time-format names another form, --inputs chooses the columns"),
        (&["01/02/2016", "2016-02-01"], "the order of day and month is open; --time-format"),
        (&["13/02/2016", "02/13/2016"], "a.csv:3: column `date`: `02/13/2016` is not a time"),
        (&["01/02/2016", "02/02/2016"], "a.csv:1: column `date`: the order of day and month"),
        (&["1467331200", "1467334800"], "holds numbers; --time-format unix"),
        (&["monday", "tuesday"], "`monday` is not a time that is recognised; --time-format"),
        // The one that is not a time is named, not the first in the alphabet.
        (&["2016-02-01 24:00", "2016-02-01 01:00"], "`2016-02-01 24:00` is not a time that"),
    ] {
        let message = refused(&rows(times), &columns);
        assert!(message.contains(why), "{message}");
    }
    let message = refused(&rows(&["2016-01-01", "2016-01-02"]), &with(timed(), &["y"]));
    assert!(message.contains("too few or too far apart to show the cycle"), "{message}");
    assert!(!message.contains("sorted"), "{message}");
    let shuffled = ["2016-01-05", "2016-01-01", "2016-01-06", "2016-01-02"];
    let message = refused(&rows(&shuffled), &with(timed(), &["y"]));
    assert!(message.contains("; 2 rows are earlier than the row before them; is the"), "{message}");
    let iso = InputRules { time_format: Some(TimeFormat::Iso), ..timed() };
    let iso = InputRules { cycles: Some(vec![Cycle::DayOfYear]), ..iso };
    assert_eq!(read(&rows(&["20160101", "20160102"]), &with(iso, &["y"])).unwrap().x[1], 1.0);
    let unix = InputRules {
        time_format: Some(TimeFormat::Unix),
        cycles: Some(vec![Cycle::HourOfDay]),
        ..timed()
    };
    let found = read(&rows(&["1467352800", "1467356400"]), &with(unix, &["y"])).unwrap();
    assert_eq!(found.x[0], 1.0); // six o'clock
    // Offsets count where times are compared: the second row is not earlier. The last one is.
    let times = ["2016-01-01T12:00:00+02:00", "2016-01-01T11:00:00Z", "2016-01-01T10:59:00Z"];
    let rules = InputRules { cycles: Some(vec![Cycle::HourOfDay]), ..timed() };
    let found = read(&rows(&times), &with(rules, &["y"])).unwrap();
    assert!(
        found.notes.iter().any(|n| n.starts_with("1 rows are earlier than")),
        "{:?}",
        found.notes
    );
}

#[test]
fn categories_are_those_of_the_training_part() {
    let mut text = String::from("c,y\n");
    for i in 0..100 {
        let category = if i < 85 { ["a", "b"][i % 2] } else { "new" };
        writeln!(text, "{category},{i}").unwrap();
    }
    let all = read(&text, &columns(&["y"])).unwrap();
    assert_eq!(all.inputs, ["c=a", "c=b", "c=new"]);
    let Parts { mut train, valid, test } = all.part(Shares { valid: 0.1, test: 0.1 }, 1).unwrap();
    let known = train.known_inputs().unwrap();
    assert_eq!(known, [true, true, false]);
    let [mut valid, mut test] = [valid, test].map(Option::unwrap);
    for part in [&mut train, &mut valid, &mut test] {
        part.keep_inputs(&known);
        assert_eq!(part.inputs, ["c=a", "c=b"]);
    }
    let unknown = [&train, &valid, &test].map(|part| part.unknown_categories);
    assert_eq!(unknown, [0, 5, 10]);
    assert_eq!(valid.x[2 * 84..2 * 86], [1.0, 0.0, 0.0, 0.0]);
    // A network needs an input: without a known one all stay.
    let mut none = valid.clone();
    none.keep_inputs(&[false; 2]);
    assert_eq!(none, valid);
    let task = learn(&train);
    // A table that is read for the model counts them too.
    let again = read(&text, &Columns::of(&task)).unwrap();
    assert_eq!((again.unknown_categories, again.x == valid.x), (15, true));
}

#[test]
fn columns_of_text_that_are_no_categories() {
    let two = InputRules { max_categories: 2, ..InputRules::default() };
    let message = refused("c,y\na,1\nb,2\nc,3\n", &with(two, &["y"]));
    for expected in ["column `c` holds text with more than 2", "--inputs", "--max-categories N"] {
        assert!(message.contains(expected), "{message}");
    }
    let message = refused("c,y\n?,1\n2,2\n3,3\n", &columns(&["y"]));
    assert!(message.contains("holds numbers, but also `?`") && message.contains("--categories c"));
    let said = InputRules { categories: vec!["c".into()], ..InputRules::default() };
    assert_eq!(read("c,y\n7,1\n3,2\n", &with(said, &["y"])).unwrap().inputs, ["c=3", "c=7"]);
    let message = refused("x,y\n1,1\nz,2\n", &columns(&["y"]));
    assert!(message.contains("a.csv:3: column `x`: `z` is not a number"), "{message}");
    assert!(message.contains("--inputs"), "{message}");
    let message = refused("x,y\n1,1\n2,z\n", &columns(&["y"]));
    assert!(message.contains("a.csv:3: column `y`: `z` is not a number"), "{message}");
    assert!(message.contains("--classify reads classes, --target names"), "{message}");
    // `drnn eval` has none of these options.
    let task = learn(&read("x,y\n1,1\n2,2\n", &columns(&["y"])).unwrap());
    for text in ["x,y\n1,1\nz,2\n", "x,y\n1,1\n2,z\n", "x,y\n1,1\n2\n"] {
        let message = refused(text, &Columns::of(&task));
        assert!(message.contains("a.csv:3: ") && !message.contains("--"), "{message}");
    }
    assert!(
        refused("x,d\n1,2016-01-01\n", &columns(&["d"])).contains("the target `d` holds times")
    );
}

/// Numbers in a form that is not read would be a category each: that is said, with one of them.
#[test]
fn texts_that_are_hardly_categories_are_said() {
    let rows = |n: usize| (0..n).map(|i| format!("\"1,{i:03}\",{i}\n")).collect::<String>();
    let found = read(&format!("x,y\n{}", rows(30)), &columns(&["y"])).unwrap();
    let note = "column x: most of its 30 fields are different texts, like `1,000`";
    assert!(found.notes.iter().any(|text| text.starts_with(note)), "{:?}", found.notes);
    let message = refused(&format!("x,y\n{}", rows(300)), &columns(&["y"]));
    assert!(message.contains("more than 256 different values, like `1,000`, and"), "{message}");
    let twice: String = (0..60).map(|i| format!("\"1,{:03}\",{i}\n", i / 2)).collect();
    let found = read(&format!("x,y\n{twice}"), &columns(&["y"])).unwrap();
    assert!(!found.notes.iter().any(|text| text.contains("most of its")), "{:?}", found.notes);
}

/// All lines end with a delimiter: a column without a name and without values.
#[test]
fn an_empty_last_column_is_left_out() {
    let found = read("x,y,\n1,2,\n3,4,\n", &columns(&["y"])).unwrap();
    assert_eq!((&found.inputs[..], found.steps()), (&["x".to_string()][..], 2));
    assert!(found.notes[0].contains("without a name and without values"), "{:?}", found.notes);
    // With a value it is a column, and with a name its numbers are missing.
    assert!(refused("x,y,\n1,2,\n3,4,5\n", &columns(&["y"])).contains("a.csv:2: column `` is"));
    assert!(refused("x,y,z\n1,2,\n", &columns(&["y"])).contains("column `z` is missing"));
}

#[test]
fn what_was_guessed_of_a_table_is_said() {
    let found = read("x;y\nr1;1;2\nr2;3;4\n", &columns(&["y"])).unwrap();
    assert_eq!((&found.x[..], found.delimiter), (&[1.0, 3.0][..], b';'));
    assert!(found.notes[0].contains("separated by `;` (--delimiter)"), "{:?}", found.notes);
    assert!(found.notes[1].contains("the rows' names, is called `row`"), "{:?}", found.notes);
    assert_eq!(learn(&found).delimiter, ';');
    assert!(read("x,y\n1,2\n", &columns(&["y"])).unwrap().notes.is_empty());
}

/// A model reads raw rows live as its table was read: the same scores, also for holes and
/// categories that it does not know.
#[test]
fn streams_equal_scores_with_times_and_categories() {
    let rules = Columns { ahead: vec![1, 4], missing: Missing::Mean, ..with(timed(), &["y"]) };
    let mut train = read(&hours(24 * 12), &rules).unwrap();
    let mut known = train.known_inputs().unwrap();
    known[train.inputs.iter().position(|name| name == "colour=red").unwrap()] = false;
    train.keep_inputs(&known);
    let task = learn_task(&train, Missing::Mean, None).unwrap();
    let spec = task.widths(NetSpec::builder(Cell::Lstm)).units([5]).delay(2, Padding::Null);
    let model = Model::init(&spec.build().unwrap(), 4).unwrap();
    let text = hours(200).replacen(",red,", ",,", 3).replacen("2016-01-03 05:00:00", "NA", 1);
    let data = read(&text, &Columns::of(&task)).unwrap();
    assert_eq!(data.unknown_categories, 67 - 3);
    let Measures::Values(scored) = score(&model, &task, &data).unwrap().measures else { panic!() };
    let live = LiveModel::new("m", model.with_task(task.to_value().unwrap())).unwrap();
    let mut stream = LiveStream::new(&live).unwrap();
    let mut rows = crate::read::ElementRows::new(&live);
    let (mut found, mut unknown) = (Vec::new(), 0);
    for line in text.lines() {
        if let crate::read::ElementRow::Element { element, .. } = rows.read(line).unwrap() {
            unknown += live.unknown_categories(&element);
            found.extend(stream.push(&element).unwrap());
        }
    }
    found.extend(stream.flush().unwrap());
    assert_eq!(unknown, data.unknown_categories);
    let y: Vec<f64> = text
        .lines()
        .skip(1)
        .map(|line| line.rsplit_once(',').unwrap().1.parse().unwrap())
        .collect();
    for (at, ahead) in [1, 4].into_iter().enumerate() {
        let errors = found.iter().zip(y.iter().skip(ahead)).map(|(prediction, truth)| {
            let Predicted::Named { values } = &prediction.value else { panic!() };
            assert_eq!(values[at].0, format!("y+{ahead}"));
            (values[at].1 - truth) * (values[at].1 - truth)
        });
        let mse = errors.sum::<f64>() / (y.len() - ahead) as f64;
        assert!((mse / scored[at].mse - 1.0).abs() < 1e-6, "{mse} {}", scored[at].mse);
        assert_eq!(scored[at].count, 200 - ahead);
    }
}

#[test]
fn a_wrong_delimiter_names_its_option() {
    let exactly = Columns { delimiter: Delimiter::Exactly(b','), ..columns(&["y"]) };
    let message = refused("x;y\n1;2\n", &exactly);
    assert!(message.contains("has no column `y`; there are `x;y`; --delimiter names"), "{message}");
}

/// Tables of odd bytes are read or refused; nothing panics, and all numbers are finite or missing.
#[test]
fn odd_tables_are_read_or_refused() {
    let pieces = [
        "date",
        "y",
        ",",
        ";",
        "\n",
        "2016-02-29",
        "29/02/2015",
        "1",
        "NA",
        "\"",
        "x y",
        " ",
        "\t",
        "2016-01-01T00:00:00+14:00",
        "-",
        "1e39",
        "red",
        "12/31/2016 11:59 PM",
        "inf",
        "é",
        "|",
    ];
    let mut state = 1_u64;
    let mut next = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    let mut read_some = 0;
    for round in 0..3000 {
        let mut text = String::from(["date,y\n", "date;y\n", "y,date,c\n", "y\n"][round % 4]);
        (0..next(40)).for_each(|_| text.push_str(pieces[next(pieces.len())]));
        std::fs::write(&path, &text).unwrap();
        let rules = InputRules { cycles: Some(Cycle::ALL.to_vec()), ..timed() };
        let rules = if next(2) == 0 { rules } else { InputRules::default() };
        let missing = [Missing::Refuse, Missing::Mean, Missing::Drop, Missing::Previous][next(4)];
        let ahead = if next(2) == 0 { vec![1] } else { Vec::new() };
        let columns = Columns { ahead, missing, ..with(rules, &["y"]) };
        let input = Input::new(&path, ReadLimits::default()).unwrap();
        if let Ok(found) = from_table(&input, &columns) {
            assert!(!found.x.iter().any(|x| x.is_infinite()), "{text}");
            assert_eq!(found.x.len(), found.steps() * found.inputs.len());
            read_some += 1;
        }
    }
    assert!(read_some > 20, "{read_some}");
}
