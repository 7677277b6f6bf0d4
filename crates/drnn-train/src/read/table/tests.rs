use super::*;
use drnn_tasks::series::{Cycle, TimeFormat};

const NAN: f32 = f32::NAN;

fn read(text: &str, choice: &Choice) -> Result<Table> {
    table(Source::from_bytes("a.csv", text.into()).unwrap(), choice)
}

fn some(names: &[&str]) -> Option<Vec<InputColumn>> {
    Some(names.iter().map(|name| InputColumn::number(name)).collect())
}

#[test]
fn columns_by_name() {
    let text = "\u{feff}t, x ,\"y,z\",class\r\n0,1.5,-2e1,walk\r\n\r\n1,.5,3,run\r\n2,4,5,walk";
    let class = Choice { label: Some("class".into()), ..Choice::default() };
    let all = read(text, &class).unwrap();
    assert_eq!(all.columns, ["t", "x", "y,z"]);
    assert_eq!(all.values, [0.0, 1.5, -20.0, 1.0, 0.5, 3.0, 2.0, 4.0, 5.0]);
    let label = all.label.as_ref().unwrap();
    assert_eq!((label.names.join(" "), &label.ids[..]), ("walk run".into(), &[0, 1, 0][..]));
    assert_eq!(
        ([all.len(), all.filled, all.dropped], all.row(2)),
        ([3, 0, 0], &[2.0, 4.0, 5.0][..])
    );
    let two = Choice { columns: some(&["y,z", "t"]), ..Choice::default() };
    assert_eq!(read(text, &two).unwrap().values, [-20.0, 0.0, 3.0, 1.0, 5.0, 2.0]);
    let tab = Choice { delimiter: Delimiter::Exactly(b'\t'), ..Choice::default() };
    assert_eq!(read("a\tb\n1\t2\n", &tab).unwrap().values, [1.0, 2.0]);
}

#[test]
fn missing_numbers() {
    let text = "s,x,y\na,1,2\na,,4\nb,3,NaN\nb,na,6\n";
    let with = |missing, sequence: Option<&str>| {
        let columns = some(&["x", "y"]);
        let sequence = sequence.map(String::from);
        read(text, &Choice { columns, sequence, missing, ..Choice::default() })
    };
    let values = |missing| with(missing, None).unwrap().values;
    assert_eq!(values(Missing::Zero), [1.0, 2.0, 0.0, 4.0, 3.0, 0.0, 0.0, 6.0]);
    assert_eq!(values(Missing::Mean), [1.0, 2.0, 2.0, 4.0, 3.0, 4.0, 2.0, 6.0]);
    assert_eq!(values(Missing::Previous), [1.0, 2.0, 1.0, 4.0, 3.0, 4.0, 3.0, 6.0]);
    assert_eq!(values(Missing::Drop), [1.0, 2.0]);
    let dropped = with(Missing::Drop, Some("s")).unwrap();
    assert_eq!([dropped.dropped, dropped.filled, dropped.sequence.unwrap().names.len()], [3, 0, 1]);
    assert_eq!(with(Missing::Zero, None).unwrap().filled, 3);
    let message = with(Missing::Refuse, None).unwrap_err().to_string();
    assert!(
        message.starts_with("a.csv:3: column `x` is missing; --missing says what"),
        "{message}"
    );
    let message = with(Missing::Previous, Some("s")).unwrap_err().to_string();
    assert_eq!(message, "a.csv:4: column `y` is missing, and no row is before it");
    let mixed = "s,x\na,1\nb,2\na,\nb,\n";
    let sequence = Some("s".to_string());
    let choice = Choice { sequence, missing: Missing::Previous, ..Choice::default() };
    assert_eq!(read(mixed, &choice).unwrap().values, [1.0, 2.0, 1.0, 2.0]);
}

#[test]
fn bad_tables() {
    let named = |names: &[&str]| Choice { columns: some(names), ..Choice::default() };
    let all = Choice::default();
    let label = Choice { label: Some("a".into()), ..Choice::default() };
    let [mean, drop] =
        [Missing::Mean, Missing::Drop].map(|missing| Choice { missing, ..Choice::default() });
    for (text, choice, message) in [
        ("", &all, "a.csv: is empty; expected a line with the columns' names"),
        ("a,b\n", &all, "a.csv: holds no rows"),
        ("a,b\n1,\n", &drop, "a.csv: holds no rows without missing numbers; all 1 were left out"),
        ("a,b\n1,\n", &mean, "a.csv: column `b` holds no numbers"),
        ("a,b\n1,2\n3\n", &all, "a.csv:3: the row has 1 columns, the header has 2"),
        ("a,b\n1,2\n1,2,3\n", &all, "a.csv:3: the row has 3 columns, the header has 2"),
        ("a,b\n1,2,\n", &all, "a.csv:2: the row has 3 columns, the header has 2; --delimiter"),
        ("a,b\n\n1,x\x1b\n", &all, "a.csv:3: column `b`: `x\\u{1b}` is not a number; write NA"),
        ("a,b\n1,inf\n", &all, "a.csv:2: column `b`: `inf` is not finite"),
        ("a,b\n1,-1e39\n", &all, "a.csv:2: column `b`: `-1e39` is too large"),
        ("a,b, a\n1,2,3\n", &all, "a.csv:1: the header has column `a` twice"),
        ("a,b\n1,2\n", &named(&["c"]), "a.csv:1: has no column `c`; there are `a`, `b`"),
        (
            "a:b\n1:2\n",
            &named(&["a"]),
            "a.csv:1: has no column `a`; there are `a:b`; --delimiter names what separates",
        ),
        ("a;b\n1,5;2\n", &all, "a.csv:2: column `a`: `1,5` is not a number; write decimals with"),
        ("a,b\n1,2\n", &named(&[]), "a.csv:1: has no column of numbers"),
        ("a\nx\n", &label, "a.csv:1: has no column of numbers"),
        ("a,b\n,2\n", &label, "a.csv:2: column `a`, the class, is missing; --missing says"),
        ("a,b\n1,\"2\n", &all, "a.csv:2: a quote is left open"),
        (
            "a,b\n1,2\n",
            &Choice { delimiter: Delimiter::Exactly(b'"'), ..all.clone() },
            "columns are separated by",
        ),
    ] {
        let found = read(text, choice).unwrap_err().to_string();
        assert!(found.starts_with(message), "{text:?}: {found}");
    }
}

fn array(shape: &[usize], values: &[f32]) -> Source {
    let mut bytes = Vec::new();
    let shape: Vec<u64> = shape.iter().map(|n| *n as u64).collect();
    let options = npyz::WriteOptions::new().default_dtype().shape(&shape);
    use npyz::WriterBuilder;
    let mut writer = options.writer(&mut bytes).begin_nd().unwrap();
    writer.extend(values.iter().copied()).unwrap();
    writer.finish().unwrap();
    Source::from_bytes("a.npy", bytes).unwrap()
}

#[test]
fn arrays() {
    let all = Choice::default();
    let six = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let flat = table(array(&[6], &six), &all).unwrap();
    assert_eq!((flat.columns.len(), &flat.values[..], flat.sequence), (1, &six[..], None));
    let second = Choice { columns: some(&["1"]), ..Choice::default() };
    assert_eq!(table(array(&[3, 2], &six), &second).unwrap().values, [2.0, 4.0, 6.0]);
    let three = table(array(&[3, 1, 2], &six), &all).unwrap();
    assert_eq!((three.len(), three.sequence.unwrap().ids), (3, vec![0, 1, 2]));
    let previous = Choice { missing: Missing::Previous, ..Choice::default() };
    let holes = [1.0, 2.0, NAN, 4.0];
    assert_eq!(table(array(&[2, 2], &holes), &previous).unwrap().values, [1.0, 2.0, 1.0, 4.0]);
    for (shape, values, choice, message) in [
        (&[2, 2][..], &holes[..], &all, "a.npy: row 1, column `0` is missing; --missing says"),
        (&[2, 1, 2], &holes, &previous, "a.npy: row 1, column `0` is missing, and no row"),
        (&[1, 2], &[1.0, f32::INFINITY], &all, "a.npy: row 0, column 1 is not finite"),
        (&[0, 2], &[], &all, "a.npy: holds no rows"),
        (&[2, 0], &[], &all, "a.npy: holds no rows"),
        (&[], &[1.0], &all, "a.npy: has shape []; expected (T,)"),
        (&[1, 1], &[1.0], &second, "a.npy: has no column `1`; there are `0`"),
    ] {
        let found = table(array(shape, values), choice).unwrap_err().to_string();
        assert!(found.starts_with(message), "{found}");
    }
    let label = Choice { label: Some("0".into()), ..Choice::default() };
    assert!(
        table(array(&[1], &[1.0]), &label).unwrap_err().to_string().contains("no columns of text")
    );
}

/// As R and others write tables: names of rows, other delimiters.
#[test]
fn tables_of_r_and_others() {
    for text in [
        "\"x\",\"y\"\n\"first row\",1,2\n\"7\",3,4\n",
        "\"\",\"x\",\"y\"\n\"a\",1,2\n\"b\",3,4\n",
        "x y\n1 1 2\n2 3 4\n",
        "x;y\n1;1;2\n2;3;4\n",
        "x\ty\n1\t1\t2\n2\t3\t4\n",
    ] {
        let found = read(text, &Choice::default()).unwrap();
        assert_eq!(
            (found.columns.join(" "), &found.values[..]),
            ("x y".into(), &[1.0, 2.0, 3.0, 4.0][..]),
            "{text}"
        );
    }
    let row = read("x\n5,1\n6,3\n", &Choice { columns: some(&["row", "x"]), ..Choice::default() });
    assert_eq!(row.unwrap().values, [5.0, 1.0, 6.0, 3.0]);
}

#[test]
fn times_and_categories_become_numbers() {
    let kind = ColumnKind::Category { names: vec!["b".into(), "r".into()] };
    let colour = InputColumn { name: "colour".into(), kind };
    let kind = ColumnKind::Time { format: TimeFormat::DayFirst, cycles: vec![Cycle::HourOfDay] };
    let time = InputColumn { name: "t".into(), kind };
    let columns = Some(vec![time, InputColumn::number("x"), colour]);
    let choice = Choice { columns, missing: Missing::Keep, ..Choice::default() };
    let text = "x,t,colour\n1,1/2/2016 06:00,r\n2,29/02/2016,g\n3,,\n";
    let found = read(text, &choice).unwrap();
    assert_eq!(found.columns.join(" "), "t:hour-of-day:sin t:hour-of-day:cos x colour=b colour=r");
    assert_eq!((found.row(1), found.unknown), (&[0.0, 1.0, 2.0, 0.0, 0.0][..], 1));
    assert_eq!((found.row(0)[0], &found.row(0)[2..]), (1.0, &[1.0, 0.0, 1.0][..]));
    let missing: Vec<bool> = found.row(2).iter().map(|x| x.is_nan()).collect();
    assert_eq!(missing, [true, true, false, true, true]);
    for (row, why) in [
        ("1,29/02/2015,r", "a.csv:2: column `t`: `29/02/2015` is not a time that exists"),
        (
            "1,2016-02-01,r",
            "a.csv:2: column `t`: `2016-02-01` is not a time that exists, written as day-first",
        ),
        ("1,now,r", "a.csv:2: column `t`: `now` is not a time"),
    ] {
        let message = read(&format!("x,t,colour\n{row}\n"), &choice).unwrap_err().to_string();
        assert!(message.starts_with(why), "{message}");
        assert!(message.contains("--time-format"), "{message}");
    }
}

#[test]
fn labels_that_are_missing() {
    // As other programs write them; nothing of it is a class.
    for hole in ["", "NA", "nan"] {
        let text = format!("x,c\n1,a\n2,{hole}\n3,b\n");
        let with = |missing| {
            read(&text, &Choice { label: Some("c".into()), missing, ..Choice::default() })
        };
        let kept = with(Missing::Keep).unwrap().label.unwrap();
        assert_eq!(kept.ids, [0, crate::loss::IGNORE, 1], "{hole}");
        assert_eq!(kept.names, ["a", "b"]);
        let dropped = with(Missing::Drop).unwrap();
        assert_eq!((dropped.len(), dropped.dropped), (2, 1));
        let message = with(Missing::Refuse).unwrap_err().to_string();
        let why = "a.csv:3: column `c`, the class, is missing; --missing";
        assert!(message.starts_with(why), "{message}");
    }
}

#[test]
fn rows_know_their_lines() {
    let keep = Choice { missing: Missing::Keep, ..Choice::default() };
    let found = read("a,b\n1,2\n\n,4\n", &keep).unwrap();
    assert_eq!((&found.lines[..], found.filled), (&[2, 4][..], 0));
    assert!(found.values[2].is_nan());
}

#[test]
fn names_columns_and_classes_have_limits() {
    let long = "n".repeat(70_000);
    let message = |text: &str, choice: &Choice| {
        let source = Source::from_bytes("a", text.into()).unwrap();
        table(source, choice).unwrap_err().to_string()
    };
    let choice = Choice {
        label: Some("class".into()),
        sequence: Some("id".into()),
        max_labels: 2,
        ..Choice::default()
    };
    let found = message(&format!("id,x,class,{long}\n1,2,a,4\n"), &choice);
    assert!(found.starts_with("a:1: column 4 has a name of 70000 bytes (at most 1000): `nnn"));
    assert!(found.len() < 200, "{found}");
    let found = message(&format!("id,x,class\n1,2,a\n1,2,{long}\n"), &choice);
    assert!(found.starts_with("a:3: the row's label has a name of 70000 bytes"), "{found}");
    let found = message(&format!("id,x,class\n{long},2,a\n"), &choice);
    assert!(found.starts_with("a:2: the row's sequence has a name of 70000 bytes"), "{found}");
    let found = message("id,x,class\n1,2,a\n1,2,b\n1,2,a\n1,2,1e5\n", &choice);
    assert!(found.starts_with("a:5: column `class` has more than 2 different classes"), "{found}");
    assert!(found.contains("`1e5`") && found.contains("--max-classes N"), "{found}");
    let columns: Vec<String> = (0..=MAX_COLUMNS).map(|i| i.to_string()).collect();
    let found = message(&format!("{}\n", columns.join(",")), &Choice::default());
    assert_eq!(found, "a:1: the header has 100001 columns (at most 100000)");
}

#[test]
fn numbers_that_are_too_large_are_no_words() {
    let message = |number: &str| drnn_tasks::text::number(number).unwrap_err();
    assert_eq!(message("1e39"), "`1e39` is too large; numbers go up to 3.4e38");
    assert_eq!(message("-inf"), "`-inf` is not finite");
    assert!(message("x1").contains("is not a number"));
}
