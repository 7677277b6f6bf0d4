use super::super::{Columns, InputChoice, InputRules, Parts, Shares, from_table, learn_task};
use super::lagged::Lags;
use super::*;
use crate::read::{Input, Missing, ReadLimits};
use std::fmt::Write;

fn parts(table: &str, columns: &Columns) -> (SeriesTask, Parts) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, table).unwrap();
    let all = from_table(&Input::new(&path, ReadLimits::default()).unwrap(), columns).unwrap();
    let parts = all.part(Shares { valid: 0.2, test: 0.2 }, 1).unwrap();
    let task = learn_task(&parts.train, Missing::Refuse, None).unwrap();
    (task, parts)
}

fn scored_all(table: &str, columns: &Columns, look_ahead: Option<usize>) -> Vec<ScoredBaseline> {
    let (task, Parts { train, valid, test }) = parts(table, columns);
    let (task, train, valid) = (&task, &train, valid.as_ref().unwrap());
    let test = test.as_ref();
    series_baselines(&SeriesBaselines { task, train, valid, test, look_ahead }).unwrap()
}

fn all(table: &str, target: &str, look_ahead: Option<usize>) -> Vec<Baseline> {
    let columns = Columns::new(vec![target.into()]);
    scored_all(table, &columns, look_ahead).iter().map(ScoredBaseline::summary).collect()
}

fn forecast(ahead: &[usize], inputs: &[&str]) -> Columns {
    let names = inputs.iter().map(|name| name.to_string()).collect();
    let rules = InputRules { names: Some(names), ..InputRules::default() };
    let inputs = InputChoice::Found(rules);
    Columns { ahead: ahead.to_vec(), inputs, ..Columns::new(vec!["y".into()]) }
}

/// Mean and persistence from the rows themselves; y is x two steps ahead, so ridge finds it where it
/// looks so far.
#[test]
fn values() {
    let x: Vec<f32> = (0..502).map(|i| ((i * i) as f32 * 0.37).sin()).collect();
    let mut table = String::from("x,y\n");
    x.windows(3).for_each(|x| writeln!(table, "{},{}", x[0], x[2]).unwrap());
    let y: Vec<f64> = x[2..].iter().map(|x| f64::from(*x)).collect();
    let found = all(&table, "y", Some(2));
    let names: Vec<&str> = found.iter().map(|b| b.name.as_str()).collect();
    assert_eq!(names, ["mean", "persistence", "ridge"]);
    let mean = y[..300].iter().sum::<f64>() / 300.0;
    let mse = |predict: &dyn Fn(usize) -> f64, rows: Range<usize>| {
        let count = rows.len() as f64;
        rows.map(|i| (y[i] - predict(i)).powi(2)).sum::<f64>() / count
    };
    let close = |a: Option<f64>, b: f64| assert!((a.unwrap() - b).abs() < 1e-5, "{a:?} {b}");
    close(found[0].valid, mse(&|_| mean, 300..400));
    close(found[0].test, mse(&|_| mean, 400..500));
    // The step before the first of a part is the last of the part before it.
    close(found[1].valid, mse(&|i| y[i - 1], 300..400));
    close(found[1].test, mse(&|i| y[i - 1], 400..500));
    // The last two steps of the training part and of the table do not have what they depend on.
    assert!(found[2].valid.unwrap() < 2e-3 && found[2].test.unwrap() < 0.05, "{found:?}");
    assert!(found[2].what.contains("t-23 to t+2"), "{}", found[2].what);
    let blind = &all(&table, "y", Some(0))[2];
    assert!(blind.valid.unwrap() > 0.1, "{blind:?}");
    assert!(all(&table, "y", None)[2].valid.unwrap() < 2e-2);
    let far = &all(&table, "y", Some(900))[2].what;
    assert!(far.contains("the inputs of steps t to t+499,"), "{far}");
}

#[test]
fn classes() {
    let mut table = String::from("x,y\n");
    for i in 0..400 {
        let class = if i % 10 < 7 { "long" } else { "short" };
        writeln!(table, "{},{class}", if i % 10 < 7 { 1.0 } else { -1.0 }).unwrap();
    }
    let found = all(&table, "y", Some(0));
    assert_eq!((found[0].name.as_str(), found[0].valid), ("majority class", Some(0.7)));
    assert_eq!(found[0].what, "always long");
    assert_eq!((found[1].valid, found[1].test), (Some(0.8), Some(0.8)));
    assert_eq!(found[2].valid, Some(1.0));
}

#[test]
fn lags_fit_the_width() {
    let lags = |inputs, ahead| Lags::new(inputs, ahead).map(|lags| (lags.before, lags.after));
    assert_eq!(lags(1, Some(3)), Some((23, 3)));
    assert_eq!(lags(100, Some(3)), Some((1, 3)));
    assert_eq!(lags(100, Some(30)), Some((0, 4)));
    assert_eq!(lags(400, None), Some((0, 0)));
    assert_eq!(lags(600, None), None);
}

/// Persistence starts from the value at the row of the forecast, not from one nearer to the target;
/// a delay lets it, like the network, read on, but never to the target itself.
#[test]
fn persistence_of_a_forecast_knows_what_is_known() {
    let y: Vec<f64> = (0..500).map(|i| ((i * i) as f64 * 0.37).sin()).collect();
    let mut table = String::from("x,y\n");
    y.iter().for_each(|y| writeln!(table, "0,{y}").unwrap());
    for (delay, later) in [(0, [0, 0]), (2, [0, 2]), (9, [0, 5])] {
        let found = scored_all(&table, &forecast(&[1, 6], &["y"]), Some(delay));
        let persistence = &found[1];
        for (at, ahead) in [1, 6].into_iter().enumerate() {
            // Targets lie within the test part, steps 400 to 499.
            let rows = 400..500 - ahead;
            let count = rows.len() as f64;
            let errors = rows.map(|i| (y[i + ahead] - y[i + later[at]]).powi(2));
            let expected = errors.sum::<f64>() / count;
            let error = persistence.error(at);
            assert!((error - expected).abs() < 1e-5, "{delay} {ahead}: {error} {expected}");
        }
        assert!(persistence.what.contains("the last known value"));
    }
}

/// A regression reads the column that is forecast even where it is no input of the network.
#[test]
fn ridge_of_a_forecast_reads_the_target() {
    let mut table = String::from("x,y\n");
    for i in 0..500 {
        let y = (i as f64 * 0.3).sin() + (i as f64 * 0.11).cos();
        writeln!(table, "{},{y}", (i * i % 17) as f64).unwrap();
    }
    for inputs in [&["x", "y"][..], &["x"]] {
        let found = scored_all(&table, &forecast(&[3], inputs), Some(0));
        let [persistence, ridge] = [&found[1], &found[2]];
        assert!(ridge.error(0) < 1e-3 && persistence.error(0) > 0.1, "{inputs:?}: {ridge:?}");
        let of = if inputs.len() == 2 { "the inputs of" } else { "the inputs and the targets of" };
        assert!(ridge.what.contains(of), "{}", ridge.what);
        // The same rows as the network: those with a target in their part.
        let counts = found.iter().map(|found| found.test.as_ref().unwrap().counted());
        assert!(counts.eq([97; 3]));
    }
}

#[test]
fn persistence_of_classes_some_steps_ahead() {
    let mut table = String::from("x,y\n");
    for i in 0..500 {
        writeln!(table, "{i},{}", if i % 4 < 2 { "low" } else { "high" }).unwrap();
    }
    let quality = |ahead: usize| {
        let found = scored_all(&table, &forecast(&[ahead], &["x"]), Some(0));
        let [persistence, ridge] = [1, 2].map(|at| found[at].summary().test.unwrap());
        (persistence, ridge)
    };
    assert_eq!(quality(4), (1.0, 1.0));
    assert_eq!(quality(2), (0.0, 1.0), "the regression sees the classes before");
}
