//! Evaluates a model of series: errors in the targets' units, or precision and recall of classes.

use super::by_target::by_target;
use super::{Evaluation, Request, Rows};
use crate::Failure;
use crate::args::series::{missing_notes, read_files, unknown_categories};
use crate::files::model_file::ModelFile;
use crate::memory::Needs;
use crate::report::baselines::{evaluation_alarm, evaluation_table, standard_error};
use crate::report::page::number;
use crate::report::training_run::{Judged, most_frequent};
use crate::training::placed::Placed;
use drnn::Direction;
use drnn::memory::{self, BatchSize};
use drnn::text::grouped;
use drnn_tasks::series::SeriesTask;
use drnn_train::baseline::Baseline;
use drnn_train::series::{
    Columns, Measures, Score, ScoredBaseline, TargetScore, evaluation_baselines, score,
    scoring_steps,
};
use drnn_train::{Confusion, Metric};

/// Evaluates whole sequences.
pub fn evaluate(request: Request) -> Result<Evaluation, Failure> {
    let in_model = |why: String| Failure::Input(format!("{}: {why}", request.path.display()));
    let (ModelFile::One(model), Some(task)) = (&request.model, request.model.task()) else {
        return Err(in_model("a model of series is one network".into()));
    };
    let task = SeriesTask::from_value(task, model.spec()).map_err(|e| in_model(e.to_string()))?;
    let data = read_files(request.data, &Columns::of(&task), request.reading)?;
    let data = match request.rows {
        Some(Rows { first, last }) => {
            data.only(first - 1..last).map_err(|e| Failure::Input(format!("--rows: {e}")))?
        }
        None => data,
    };
    let steps = scoring_steps(model.spec(), &data);
    Needs::new("scoring", memory::run(model.spec(), BatchSize::new(steps, 1)))
        .check(request.force, "shorter sequences")?;
    let found = score(Placed::new(&request.place, model)?.runner(), &task, &data)?;
    let mut notes = missing_notes(&data);
    notes.extend(unknown_categories(data.unknown_categories));
    if found.unknown > 0 {
        let n = grouped(found.unknown);
        notes.push(format!(
            "{n} steps have classes that the model does not know; they count as wrong."
        ));
    }
    let spec = model.spec();
    let look_ahead = (spec.direction() == Direction::Forward).then(|| spec.delay());
    let scored = evaluation_baselines(&task, &data, look_ahead)?;
    let baselines: Vec<Baseline> = scored.iter().map(ScoredBaseline::summary).collect();
    let metric = if task.classes.is_some() { Metric::Accuracy } else { Metric::SquaredError };
    let quality = found.quality().unwrap_or(f64::NAN);
    notes.extend(evaluation_alarm(metric, quality, &baselines));
    let mut judged = judged(&found, &task, "given");
    judged.extend(by_target(&found, &task, "given", &scored));
    judged.push(evaluation_table(metric, quality, &baselines));
    Ok(Evaluation {
        metrics: metrics(&found, &task),
        counts: vec![
            ("sequences", found.sequences),
            ("steps", found.steps),
            ("scored", found.counted()),
            ("unknown", found.unknown),
        ],
        judged,
        notes,
    })
}

fn metrics(score: &Score, task: &SeriesTask) -> Vec<(String, f64)> {
    let quality = score.quality().unwrap_or(0.0);
    match &score.measures {
        Measures::Classes { loss, .. } => {
            vec![
                ("accuracy".into(), quality),
                ("standard error of the accuracy".into(), standard_error(quality, score.counted())),
                ("cross-entropy".into(), loss.mean()),
            ]
        }
        Measures::Values(targets) => {
            let mut all = vec![("mean squared error".into(), quality)];
            let explained = task.targets.iter().zip(targets);
            let explained =
                explained.filter_map(|(name, t)| Some((format!("R^2 of {name}"), t.r2?)));
            all.extend(explained);
            all
        }
    }
}

/// A table of targets, or a table of classes and their confusion matrix.
pub fn judged(score: &Score, task: &SeriesTask, set: &str) -> Vec<Judged> {
    let head = |names: [&str; 5]| names.map(String::from).to_vec();
    match (&score.measures, &task.classes) {
        (Measures::Classes { confusion, .. }, Some(classes)) => {
            let (shown, which) = most_frequent(confusion);
            let rows = shown.into_iter().map(|i| class_row(&classes[i], confusion, i)).collect();
            let caption = format!("Classes of the {set} data{which}.");
            let head = head(["class", "steps", "precision", "recall", "F1"]);
            vec![Judged::Table { caption, head, rows }, Judged::confusion(classes, confusion)]
        }
        (Measures::Values(targets), _) => {
            let rows =
                task.targets.iter().zip(targets).map(|(name, t)| target_row(name, t)).collect();
            let caption = format!("Errors on the {set} data, in the targets' units.");
            let head = head(["target", "steps", "mean squared error", "RMSE", "R^2"]);
            vec![Judged::Table { caption, head, rows }]
        }
        _ => Vec::new(),
    }
}

fn target_row(name: &str, target: &TargetScore) -> Vec<String> {
    let TargetScore { count, mse, r2 } = target;
    let r2 = r2.map_or("constant".into(), |r2| format!("{r2:.4}"));
    vec![name.into(), grouped(*count), number(*mse), number(mse.sqrt()), r2]
}

/// Support, precision, recall and F1 of a class.
fn class_row(name: &str, confusion: &Confusion, class: usize) -> Vec<String> {
    let correct = confusion.correct(class) as f64;
    let (truth, taken) = (confusion.support(class), confusion.predicted(class));
    let share = |of: f64| if of > 0.0 { format!("{:.4}", correct / of) } else { "none".into() };
    vec![
        name.into(),
        grouped(truth as usize),
        share(taken as f64),
        share(truth as f64),
        share((truth + taken) as f64 / 2.0),
    ]
}
