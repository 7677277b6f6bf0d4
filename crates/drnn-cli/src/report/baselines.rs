//! Baselines in reports: their table, and the warning where a network is no better than they are.

use super::page::Table;
use super::training_run::Judged;
use drnn_train::Metric;
use drnn_train::baseline::{Baseline, not_beaten};

/// A value of the metric, if it is known.
fn shown(metric: Metric, value: Option<f64>) -> String {
    value.map_or("none".into(), |value| crate::training::shown::shown(metric, value))
}

/// The network's row, then a row for each baseline.
pub fn baseline_table(
    metric: Metric,
    networks: &[(String, f64, Option<f64>)],
    baselines: &[Baseline],
) -> Table {
    let networks = networks.iter().map(|(name, valid, test)| {
        vec![name.clone(), shown(metric, Some(*valid)), shown(metric, *test), String::new()]
    });
    let baselines = baselines.iter().map(|b| {
        vec![b.name.clone(), shown(metric, b.valid), shown(metric, b.test), b.what.clone()]
    });
    let better = if metric.higher_is_better() { "higher" } else { "lower" };
    Table {
        caption: format!(
            "Baselines: {metric} of simple predictors on the rows that the network is scored on; {better} is better."
        ),
        head: ["", "valid", "test", "predicts"].map(String::from).into(),
        rows: networks.chain(baselines).collect(),
    }
}

/// The model and the baselines on one set of data, whose scores are in `test`.
pub fn evaluation_table(metric: Metric, value: f64, baselines: &[Baseline]) -> Judged {
    let model = vec!["the model".into(), shown(metric, Some(value)), String::new()];
    let row = |b: &Baseline| vec![b.name.clone(), shown(metric, b.test), b.what.clone()];
    Judged::Table {
        caption: "Baselines: simple predictors on the same rows.".into(),
        head: vec![String::new(), metric.to_string(), "predicts".into()],
        rows: [model].into_iter().chain(baselines.iter().map(row)).collect(),
    }
}

/// A loud sentence, if the network is no better than a baseline: on the test set, or on the validation
/// set where there is no test set.
pub fn alarm(
    metric: Metric,
    net: &str,
    valid: f64,
    test: Option<f64>,
    baselines: &[Baseline],
) -> Option<String> {
    let (value, set) = match test {
        Some(test) => (test, "test"),
        None => (valid, "validation"),
    };
    alarm_on(metric, net, value, test.is_some(), &format!("the {set} set"), baselines)
}

/// The same for data that are neither, whose scores are in `test`.
pub fn evaluation_alarm(metric: Metric, value: f64, baselines: &[Baseline]) -> Option<String> {
    alarm_on(metric, "the model", value, true, "these data", baselines)
}

fn alarm_on(
    metric: Metric,
    net: &str,
    value: f64,
    is_test: bool,
    data: &str,
    baselines: &[Baseline],
) -> Option<String> {
    let best = not_beaten(metric, value, baselines, is_test)?;
    Some(format!(
        "NO BETTER THAN A BASELINE: {net} has {metric} {} on {data}, {} has {} ({}).",
        shown(metric, Some(value)),
        best.name,
        shown(metric, best.score(is_test)),
        best.what
    ))
}

/// `0.9238 ± 0.0051`: an accuracy with its standard error over `count` predictions.
pub fn with_standard_error(accuracy: f64, count: usize) -> String {
    format!("{accuracy:.4} ± {:.4}", standard_error(accuracy, count))
}

/// The standard error of an accuracy, sqrt(p (1 - p) / n).
pub fn standard_error(accuracy: f64, count: usize) -> f64 {
    (accuracy * (1.0 - accuracy) / count.max(1) as f64).max(0.0).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_that_is_no_better_is_named() {
        let baseline = |name: &str, valid, test| Baseline {
            name: name.into(),
            what: "the target of the step before".into(),
            valid: Some(valid),
            test,
        };
        let all = [baseline("mean", 2.0, Some(1.5)), baseline("persistence", 0.5, Some(0.25))];
        let said = alarm(Metric::SquaredError, "the network", 0.4, Some(0.3), &all).unwrap();
        assert_eq!(
            said,
            "NO BETTER THAN A BASELINE: the network has mean squared error 0.3000 on the test set, \
             persistence has 0.2500 (the target of the step before)."
        );
        assert_eq!(alarm(Metric::SquaredError, "n", 0.4, Some(0.2), &all), None);
        assert!(alarm(Metric::SquaredError, "n", 0.6, None, &all).unwrap().contains("validation"));
        let said = evaluation_alarm(Metric::SquaredError, 0.3, &all).unwrap();
        assert!(
            said.contains("the model has mean squared error 0.3000 on these data, p"),
            "{said}"
        );
        assert_eq!(evaluation_alarm(Metric::SquaredError, 0.2, &all), None);
        let table = baseline_table(Metric::SquaredError, &[("network".into(), 0.4, None)], &all);
        assert_eq!(table.rows.len(), 3);
        assert_eq!(table.rows[0][..3], ["network", "0.4000", "none"]);
    }

    #[test]
    fn standard_errors() {
        assert_eq!(with_standard_error(0.9, 900), "0.9000 ± 0.0100");
        assert_eq!(standard_error(1.0, 0), 0.0);
    }
}
