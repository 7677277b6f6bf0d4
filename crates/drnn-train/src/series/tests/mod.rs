mod columns;

use super::*;
use crate::data::{Dataset, Gathered};
use crate::error::Result;
use crate::loss::{IGNORE, Targets};
use crate::read::{Input, Missing, ReadLimits};
use drnn::{Cell, Model, NetSpec, Padding};
use drnn_tasks::series::{Scaling, SeriesTask};
use std::path::PathBuf;

fn columns(targets: &[&str]) -> Columns {
    let targets = targets.iter().map(|name| name.to_string()).collect();
    Columns { max_classes: 3, ..Columns::new(targets) }
}

/// Inputs by name.
fn named(names: &[&str]) -> InputChoice {
    let names = Some(names.iter().map(|name| name.to_string()).collect());
    InputChoice::Found(InputRules { names, ..InputRules::default() })
}

fn read(text: &str, columns: &Columns) -> Result<Sequences> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(&path, text).unwrap();
    from_table(&Input::new(&path, ReadLimits::default())?, columns)
}

fn refused(text: &str, columns: &Columns) -> String {
    read(text, columns).unwrap_err().to_string()
}

fn learn(train: &Sequences) -> SeriesTask {
    learn_task(train, Missing::Refuse, None).unwrap()
}

/// x = 0, 1, ..; y = 10 x; in one sequence.
fn ramp(steps: usize) -> Sequences {
    let rows: String = (0..steps).map(|i| format!("{i},{}\n", 10 * i)).collect();
    read(&format!("x,y\n{rows}"), &columns(&["y"])).unwrap()
}

#[test]
fn sequences_by_a_column() {
    let by_id = Columns { sequence: Some("id".into()), ..columns(&["y"]) };
    let found = read("id,x,y\na,1,2\na,3,4\nb,5,6\n", &by_id).unwrap();
    assert_eq!((found.len(), found.steps(), found.longest()), (2, 3, 2));
    assert_eq!((&found.x[..], &found.starts[..]), (&[1.0, 3.0, 5.0][..], &[0, 2, 3][..]));
    let message = refused("id,x,y\na,1,2\nb,3,4\n\na,5,6\n", &by_id);
    assert!(message.contains("a.csv:5: sequence `a` comes back after another"), "{message}");
    assert!(refused("id,x,y\na,1,2\n,3,4\n", &by_id).contains("a.csv:3: "));
}

#[test]
fn columns_that_cannot_be_meant() {
    let both = Columns { inputs: named(&["x", "y"]), ..columns(&["y"]) };
    assert!(refused("x,y\n1,2\n", &both).contains("column `y` is named twice"));
    assert!(refused("x,y\n1,2\n", &columns(&[])).contains("no target"));
    let message = refused("x,y\n1,2\n", &columns(&["z"]));
    assert!(message.contains("a.csv:1: has no column `z`; there are `x`, `y`"), "{message}");
    assert!(refused("y\n1\n", &columns(&["y"])).contains("there is no input"));
    assert!(refused("x,y,z\n1,a,2\n", &columns(&["y", "z"])).contains("classes are of one column"));
}

#[test]
fn classes_are_recognised_by_their_first_field() {
    let text = "x,y\n1,walk\n2,run\n3,walk\n";
    let found = read(text, &columns(&["y"])).unwrap();
    assert_eq!((found.is_classes(), found.labels.join(" ")), (true, "walk run".into()));
    assert_eq!(learn(&found).classes.unwrap(), ["run", "walk"]);
    let numbers = "x,y\n1,10\n2,9\n3,b\n";
    assert!(
        refused(numbers, &columns(&["y"])).contains("a.csv:4: column `y`: `b` is not a number")
    );
    let said = Columns { classes: Some(true), ..columns(&["y"]) };
    assert_eq!(learn(&read(numbers, &said).unwrap()).classes.unwrap(), ["9", "10", "b"]);
    let one = read("x,y\n1,a\n2,a\n", &columns(&["y"])).unwrap();
    let message = learn_task(&one, Missing::Refuse, None).unwrap_err().to_string();
    assert!(message.contains("only one class"), "{message}");
}

#[test]
fn missing_numbers() {
    let text = "x,y\n1,2\nNA,4\n5,\n";
    let with = |missing| read(text, &Columns { missing, ..columns(&["y"]) });
    let message = with(Missing::Refuse).unwrap_err().to_string();
    assert!(message.contains("a.csv:3: column `x` is missing"), "{message}");
    assert_eq!(with(Missing::Zero).unwrap().x, [1.0, 0.0, 5.0]);
    assert_eq!(with(Missing::Previous).unwrap().x, [1.0, 1.0, 5.0]);
    let dropped = with(Missing::Drop).unwrap();
    // A row without a target is read in use, so it is read here.
    assert_eq!((&dropped.x[..], dropped.dropped, dropped.unanswered), (&[1.0, 5.0][..], 1, 1));
    // The mean is that of the training part, and 0 when scaled.
    let mean = with(Missing::Mean).unwrap();
    assert!(mean.x[1].is_nan() && [mean.filled, mean.unanswered] == [1, 1]);
    let mut batch = Gathered::default();
    Windows::whole(&mean, &learn(&mean)).unwrap().gather(0, &[0], &mut batch);
    let drnn::Elements::Dense(x) = batch.batch().elements() else { panic!() };
    assert_eq!(x, [-1.0, 0.0, 1.0]);
    let Targets::Values(y) = batch.targets() else { panic!() };
    assert!(y[2].is_nan() && y[..2] == [-1.0, 1.0]);
    let first = Columns { missing: Missing::Previous, ..columns(&["y"]) };
    assert!(refused("x,y\n,1\n", &first).contains("a.csv:2: column `x` is missing, and no row"));
}

#[test]
fn one_sequence_is_cut_by_time_and_scaled_by_its_first_part() {
    let Parts { train, valid, test } = ramp(20).part(Shares { valid: 0.1, test: 0.1 }, 1).unwrap();
    let [valid, test] = [valid, test].map(Option::unwrap);
    assert_eq!([train.steps(), valid.steps(), test.steps()], [16, 2, 2]);
    let counted = |part: &Sequences| part.spans().next().unwrap().counted;
    assert_eq!((counted(&valid), counted(&test)), (16..18, 18..20));
    let task = learn(&train);
    assert_eq!((task.scaling.inputs.mean[0], train.x[15]), (7.5, 15.0));
    let targets = task.scaling.targets.as_ref().unwrap();
    assert!((targets.undo(0, targets.apply(0, 190.0)) - 190.0).abs() < 1e-4);
    // Too few: said so.
    let few = ramp(2).part(Shares { valid: 0.1, test: 0.1 }, 1).unwrap_err().to_string();
    assert!(few.contains("2 rows of one sequence cannot be parted"), "{few}");
    let no_test = ramp(2).part(Shares { valid: 0.5, test: 0.0 }, 1).unwrap();
    assert!(no_test.test.is_none() && no_test.train.steps() == 1);
}

#[test]
fn several_sequences_are_drawn_whole() {
    let rows: String = (0..30).map(|i| format!("{},{i},{i}\n", i / 3)).collect();
    let by_id = Columns { sequence: Some("id".into()), ..columns(&["y"]) };
    let all = read(&format!("id,x,y\n{rows}"), &by_id).unwrap();
    let shares = Shares { valid: 0.2, test: 0.1 };
    let parts = all.clone().part(shares, 1).unwrap();
    assert_eq!(parts, all.clone().part(shares, 1).unwrap());
    assert_ne!(parts, all.part(shares, 2).unwrap());
    let [valid, test] = [parts.valid, parts.test].map(Option::unwrap);
    assert_eq!([parts.train.len(), valid.len(), test.len()], [7, 2, 1]);
    let mut x = [parts.train.x, valid.x, test.x].concat();
    x.sort_unstable_by(f32::total_cmp);
    assert!(x.iter().enumerate().all(|(i, x)| *x == i as f32));
}

#[test]
fn columns_that_never_change() {
    let found = read("a,x,y\n0.1,1,7\n0.1,3,7\n0.1,5,7\n", &columns(&["y"])).unwrap();
    let task = learn(&found);
    assert_eq!((task.scaling.inputs.sd[0], task.scaling.inputs.apply(0, 0.1)), (1.0, 0.0));
    let spec = NetSpec::builder(Cell::Gru).dense(2).units([3]).outputs(1).build().unwrap();
    let score = score(&Model::init(&spec, 1).unwrap(), &task, &found).unwrap();
    let Measures::Values(targets) = score.measures else { panic!() };
    assert_eq!((targets[0].r2, targets[0].count), (None, 3));
    let nothing = Scaling::learn(&[f32::NAN], &["x".into()]).unwrap_err().to_string();
    assert_eq!(nothing, "column `x` has only missing numbers");
}

/// The formula of the windows.
#[test]
fn windows_read_what_follows() {
    let data = ramp(10);
    let task = learn(&data);
    let windows = Windows::new(&data, &task, 4, 3).unwrap(); // 4 + 4 + 2 outputs
    assert_eq!((windows.len(), windows.longest()), (3, 7));
    let mut batch = Gathered::default();
    windows.gather(0, &[0, 1, 2], &mut batch);
    assert_eq!((batch.steps, &batch.lengths[..]), (7, &[7, 6, 2][..]));
    let Targets::Values(y) = batch.targets() else { panic!() };
    let counted = |row: usize| (0..7).filter(|step| !y[step * 3 + row].is_nan()).count();
    assert_eq!([0, 1, 2].map(counted), [4, 4, 2]);
    let spec = |delay| {
        let builder = NetSpec::builder(Cell::Lstm).dense(1).units([4]).outputs(1);
        builder.delay(delay, Padding::Null).build().unwrap()
    };
    assert!(windows.fits(&spec(3)).is_ok());
    assert!(windows.fits(&spec(4)).unwrap_err().to_string().contains("read 3 ahead"));
    assert!(Windows::whole(&data, &task).unwrap().fits(&spec(9)).is_ok());
}

/// Without memory in the network a window's outputs are those of the whole, to the last: look-ahead and padding are
/// where they should be.
#[test]
fn answers_of_windows_are_those_of_the_whole() {
    let data = ramp(11);
    let task = learn(&data);
    let spec = NetSpec::builder(Cell::RnnTanh).dense(1).units([2]).outputs(1);
    let spec = spec.delay(1, Padding::Null).build().unwrap();
    let mut params = Model::init(&spec, 3).unwrap().into_params();
    let layout = drnn::params::Layout::new(&spec);
    params[layout.find("weight_hh_l0").unwrap().range.clone()].fill(0.0);
    let model = Model::from_params(&spec, params).unwrap();
    let outputs = |windows: &Windows| {
        let mut all = Vec::new();
        let mut batch = Gathered::default();
        for i in 0..windows.len() as u32 {
            windows.gather(0, &[i], &mut batch);
            let found = model.run(&batch.batch(), None).unwrap();
            let Targets::Values(y) = batch.targets() else { panic!() };
            let counted = found.values.iter().zip(y).filter(|(_, y)| !y.is_nan());
            all.extend(counted.map(|(output, _)| *output));
        }
        all
    };
    let whole = outputs(&Windows::whole(&data, &task).unwrap());
    assert_eq!(outputs(&Windows::new(&data, &task, 3, 1).unwrap()), whole);
    assert_ne!(outputs(&Windows::new(&data, &task, 3, 0).unwrap()), whole);
}

#[test]
fn classes_that_were_not_learned_are_wrong() {
    let train = read("x,y\n1,a\n2,b\n", &columns(&["y"])).unwrap();
    let task = learn(&train);
    let later = read("x,y\n1,c\n2,b\n3,c\n", &columns(&["y"])).unwrap();
    let windows = Windows::whole(&later, &task).unwrap();
    let mut batch = Gathered::default();
    windows.gather(0, &[0], &mut batch);
    let Targets::Classes(y) = batch.targets() else { panic!() };
    assert_eq!((y, windows.unknown()), (&[IGNORE, 1, IGNORE][..], 2));
    let spec = NetSpec::builder(Cell::Gru).dense(1).units([3]).outputs(2).build().unwrap();
    let model = Model::init(&spec, 1).unwrap();
    let found = score(&model, &task, &later).unwrap();
    assert_eq!((found.unknown, found.counted(), found.steps), (2, 3, 3));
    let Measures::Classes { loss, .. } = &found.measures else { panic!() };
    assert_eq!(found.quality(), Some(loss.correct.unwrap() as f64 / 3.0));
    let all_new = read("x,y\n1,c\n", &columns(&["y"])).unwrap();
    assert_eq!(score(&model, &task, &all_new).unwrap().quality(), Some(0.0));
    let mut joined = train;
    joined.append(later).unwrap();
    assert_eq!((joined.len(), joined.labels.join("")), (2, "abc".into()));
}

/// Errors by hand, in the target's own units.
#[test]
fn scores() {
    let data = read(
        "x,y,z\n0,0,1\n0,10,1\n0,20,\n",
        &Columns { missing: Missing::Zero, ..columns(&["y", "z"]) },
    );
    let data = data.unwrap();
    let task = learn(&data);
    // All weights 0: the output is the mean, 10 and 1.
    let spec = NetSpec::builder(Cell::Lstm).dense(1).units([2]).outputs(2).build().unwrap();
    let model = Model::from_params(&spec, vec![0.0; spec.parameters()]).unwrap();
    let found = score(&model, &task, &data).unwrap();
    let Measures::Values(targets) = &found.measures else { panic!() };
    assert!((targets[0].mse - 200.0 / 3.0).abs() < 1e-3 && targets[0].r2.unwrap().abs() < 1e-6);
    assert_eq!((targets[1].mse, targets[1].r2, targets[1].count), (0.0, None, 2));
    assert!((found.quality().unwrap() - 200.0 / 5.0).abs() < 1e-3);
}

#[test]
fn a_task_comes_back_only_for_its_model() {
    let task = learn(&ramp(5));
    let value = task.to_value().unwrap();
    let spec =
        |q: usize| NetSpec::builder(Cell::Lstm).dense(q).units([2]).outputs(1).build().unwrap();
    assert_eq!(SeriesTask::from_value(&value, &spec(1)).unwrap(), task);
    assert!(SeriesTask::from_value(&value, &spec(2)).is_err());
    for (key, wrong) in [
        ("task", "\"chars\""),
        ("targets", "[\"y\", \"z\"]"),
        ("classes", "[\"a\"]"),
        ("missing", "\"keep\""),
        ("more", "1"),
        ("delimiter", "\"é\""),
        ("columns", r#"[{"name": "z", "kind": "number"}]"#),
        ("columns", r#"[{"name": "x", "kind": {"category": {"names": []}}}]"#),
        ("forecast", r#"{"columns": ["y"], "ahead": [0]}"#),
        ("forecast", r#"{"columns": ["y"], "ahead": [3]}"#),
        ("scaling", r#"{"inputs": {"mean": [0], "sd": [0]}, "targets": {"mean": [0], "sd": [1]}}"#),
        ("scaling", r#"{"inputs": {"mean": [0], "sd": [1]}, "targets": null}"#),
    ] {
        let mut value = value.clone();
        value[key] = serde_json::from_str(wrong).unwrap();
        assert!(SeriesTask::from_value(&value, &spec(1)).is_err(), "{key}: {wrong}");
    }
}

fn npy<T: npyz::AutoSerialize + Copy>(
    folder: &tempfile::TempDir,
    name: &str,
    shape: &[u64],
    values: &[T],
) -> PathBuf {
    use npyz::WriterBuilder;
    let path = folder.path().join(name);
    let options = npyz::WriteOptions::new().default_dtype().shape(shape);
    let mut writer = options.writer(std::fs::File::create(&path).unwrap()).begin_nd().unwrap();
    writer.extend(values.iter().copied()).unwrap();
    writer.finish().unwrap();
    path
}

#[test]
fn arrays() {
    let folder = tempfile::tempdir().unwrap();
    let x = npy(&folder, "x.npy", &[2, 2, 1], &[1.0f32, 2.0, 3.0, 4.0]);
    let y = npy(&folder, "y.npy", &[2, 2, 1], &[10.0f64, 20.0, 30.0, f64::NAN]);
    let c = npy(&folder, "c.npy", &[2, 2], &[5i64, 2, -1, 2]);
    let from_arrays = |x: &PathBuf, y: &PathBuf, missing| {
        let [x, y] = [x, y].map(|path| Input::new(path, ReadLimits::default()).unwrap());
        from_arrays(&x, &y, missing, 2, &[])
    };
    let message = from_arrays(&x, &y, Missing::Refuse).unwrap_err().to_string();
    assert!(message.contains("x.npy: step 1 of sequence 1: column `y0` is missing"), "{message}");
    let values = from_arrays(&x, &y, Missing::Zero).unwrap();
    assert_eq!((&values.x[..], values.len()), (&[1.0, 3.0, 2.0, 4.0][..], 2));
    let classes = from_arrays(&x, &c, Missing::Zero).unwrap();
    assert_eq!(classes.y, crate::TargetData::Classes(vec![1, IGNORE, 0, 0]));
    assert_eq!((classes.labels.join(" "), classes.unanswered), ("2 5".into(), 1));
    for (x, y, why) in [
        (&y, &x, "is missing"),
        (&x, &npy(&folder, "m.npy", &[2, 2], &[5i64, 2, 1, 2]), "m.npy: has more than 2 different"),
        (&c, &y, "c.npy: integers of shape [2, 2], expected floats [T, B, q]"),
        (&x, &npy(&folder, "z.npy", &[1, 2, 1], &[1.0f32, 2.0]), "expected floats [2, 2, m] or"),
        (&npy(&folder, "i.npy", &[2, 2, 1], &[f32::INFINITY; 4]), &y, "is not finite"),
        (&npy(&folder, "e.npy", &[2, 2, 0], &[0f32; 0]), &y, "holds nothing"),
    ] {
        let message = from_arrays(x, y, Missing::Refuse).unwrap_err().to_string();
        assert!(message.contains(why), "{message}");
    }
}

/// A part of one sequence is scored as a stream over all of it answers: not from zero states, and
/// with what follows it. For every kind of network, with long and short delays, values and classes.
#[test]
fn a_part_is_scored_as_a_stream_answers() {
    let class = |i: usize| ["a", "b", "c"][i * i % 7 % 3];
    for classes in [false, true] {
        let target = |i: usize| if classes { class(i).into() } else { (i * 5 % 11).to_string() };
        let rows: String = (0..300).map(|i| format!("{},{}\n", i * i % 17, target(i))).collect();
        let all = read(&format!("x,y\n{rows}"), &columns(&["y"])).unwrap();
        let parts = all.clone().part(Shares { valid: 0.2, test: 0.1 }, 1).unwrap();
        let task = learn(&parts.train);
        let [valid, test] = [parts.valid, parts.test].map(Option::unwrap);
        assert_eq!([valid.steps(), test.steps()], [60, 30]);
        let builder = |cell| task.widths(NetSpec::builder(cell));
        let mut specs = vec![builder(Cell::Gru).units([4, 3]).bidirectional()];
        for delay in [0, 1, 2, 29, 30, 31, 100, 400] {
            specs.push(builder(Cell::Lstm).units([5]).delay(delay, Padding::Null));
        }
        specs.push(builder(Cell::Gru).blocks(drnn::Blocks::new([3, 3])).delay(2, Padding::Null));
        for spec in specs {
            let model = Model::init(&spec.build().unwrap(), 1).unwrap();
            let expected = answers(&model, &task, &all);
            for (part, steps) in [(&valid, 210..270), (&test, 270..300), (&all, 0..300)] {
                let scorer = Scorer::new(&task, part).unwrap();
                let mut found = Vec::new();
                let look = |step: usize, y: &[f32], _: Targets| found.push((step, y.to_vec()));
                scorer.each_prediction(&model, look).unwrap();
                let expected = steps.clone().map(|step| (step, expected[step].clone()));
                assert!(found == expected.collect::<Vec<_>>(), "{} {steps:?}", model.spec());
                let score = scorer.score(&model).unwrap();
                assert_eq!((score.steps, score.counted()), (steps.len(), steps.len()));
            }
        }
    }
}

/// The outputs for all steps of one sequence, one by one where the network can.
fn answers(model: &Model, task: &SeriesTask, all: &Sequences) -> Vec<Vec<f32>> {
    let x: Vec<f32> = all.x.iter().map(|x| task.scaling.inputs.apply(0, *x)).collect();
    if model.spec().direction() == drnn::Direction::Bidirectional {
        let batch = drnn::Batch::dense(&x, drnn::Steps(x.len()), drnn::Rows(1));
        let found = model.run(&batch, None).unwrap().values;
        return found.chunks_exact(task.output_width()).map(<[f32]>::to_vec).collect();
    }
    let mut stream = drnn::Stream::new(model).unwrap();
    let mut found: Vec<Vec<f32>> = Vec::new();
    for x in x.chunks(1) {
        found.extend(stream.push(x).unwrap().map(<[f32]>::to_vec));
    }
    found.extend(stream.finish());
    found
}

/// Several sequences of different lengths run side by side, and more than fit into one batch.
#[test]
fn sequences_side_by_side_are_scored_as_alone() {
    let by_id = Columns { sequence: Some("id".into()), ..columns(&["y"]) };
    let rows: String = (0..100usize)
        .flat_map(|id| {
            (0..1 + id * 7 % 23).map(move |t| format!("{id},{},{}\n", t * id % 5, t % 3))
        })
        .collect();
    let all = read(&format!("id,x,y\n{rows}"), &by_id).unwrap();
    let task = learn(&all);
    for delay in [0, 3, 40] {
        let spec = task.widths(NetSpec::builder(Cell::Lstm)).units([4]).delay(delay, Padding::Null);
        let model = Model::init(&spec.build().unwrap(), 1).unwrap();
        let (mut sum, mut count) = (0.0, 0);
        for i in 0..all.len() {
            let alone = score(&model, &task, &all.select(&[all.range(i)])).unwrap();
            sum += alone.quality().unwrap() * alone.counted() as f64;
            count += alone.counted();
        }
        let found = score(&model, &task, &all).unwrap();
        assert_eq!((found.sequences, found.counted()), (100, count));
        assert!((found.quality().unwrap() - sum / count as f64).abs() < 1e-9 * sum, "{delay}");
    }
}

#[test]
fn only_some_rows_count() {
    let all = ramp(20);
    let some = all.clone().only(3..7).unwrap().only(1..3).unwrap();
    assert_eq!((some.steps(), some.len(), some.longest_run()), (2, 1, 6));
    assert_eq!(some.spans().next().unwrap().counted, 4..6);
    assert_eq!(some.fingerprint(), all.select(std::slice::from_ref(&(4..6))).fingerprint());
    for rows in [0..0, 3..21] {
        assert!(all.clone().only(rows).unwrap_err().to_string().contains("of 20"));
    }
}

#[test]
fn a_pipe_is_read_as_often_as_a_file() {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    let (reader, mut writer) = std::io::pipe().unwrap();
    let text: String = (0..50_000).map(|i| format!("{i},{}\n", 2 * i)).collect();
    let thread = std::thread::spawn(move || drop(write!(writer, "x,y\n{text}")));
    let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
    let input = Input::new(&path, ReadLimits::default()).unwrap();
    thread.join().unwrap();
    assert_eq!(from_table(&input, &columns(&["y"])).unwrap().steps(), 50_000);
    assert!(!input.open().unwrap().is_array());
}
