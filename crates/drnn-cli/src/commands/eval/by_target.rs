//! Errors of several targets, or of one at several horizons, next to those of the baselines.

use crate::report::page::number;
use crate::report::predictions::{HorizonErrors, Horizons};
use crate::report::training_run::Judged;
use drnn_tasks::series::SeriesTask;
use drnn_train::series::{Measures, Score, ScoredBaseline};

/// A table with a row for each target, and a picture for each column that is forecast at several
/// horizons. Nothing for classes, or for one target: the table of baselines says it all.
pub fn by_target(
    score: &Score,
    task: &SeriesTask,
    set: &str,
    baselines: &[ScoredBaseline],
) -> Vec<Judged> {
    let Measures::Values(targets) = &score.measures else { return Vec::new() };
    if targets.len() < 2 {
        return Vec::new();
    }
    let network = |at: usize| match &targets[at] {
        target if target.count > 0 => target.mse.sqrt(),
        _ => f64::NAN,
    };
    let names = || baselines.iter().map(|baseline| baseline.name.clone());
    let row = |(at, name): (usize, &String)| {
        let errors = baselines.iter().map(|baseline| baseline.error(at).sqrt());
        let errors = [network(at)].into_iter().chain(errors).map(number);
        [name.clone()].into_iter().chain(errors).collect()
    };
    let mut all = vec![Judged::Table {
        caption: format!("RMSE on the {set} data of the network and of the baselines."),
        head: ["target", "network"].map(String::from).into_iter().chain(names()).collect(),
        rows: task.targets.iter().enumerate().map(row).collect(),
    }];
    let Some(forecast) = task.forecast.as_ref().filter(|of| of.ahead.len() > 1) else { return all };
    for (column, target) in forecast.columns.iter().enumerate() {
        let first = column * forecast.ahead.len();
        let of = |error: &dyn Fn(usize) -> f64| {
            (first..first + forecast.ahead.len()).map(error).collect()
        };
        let network = HorizonErrors { name: "network".into(), rmse: of(&network) };
        let others = baselines.iter().map(|baseline| HorizonErrors {
            name: baseline.name.clone(),
            rmse: of(&|at| baseline.error(at).sqrt()),
        });
        all.push(Judged::Horizons(Horizons {
            target: drnn::text::shortened(target, 40),
            set: set.into(),
            ahead: forecast.ahead.clone(),
            errors: [network].into_iter().chain(others).collect(),
        }));
    }
    all
}
