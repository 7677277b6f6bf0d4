//! `drnn train series`: a network on sequences of numbers, from a table or from arrays.

use super::frame::{Job, More, Training, latency};
use crate::Failure;
use crate::args::series::{Ready, SeriesData};
use crate::args::shape::ShapeArguments;
use crate::commands::eval::by_target::by_target;
use crate::commands::eval::pictures::pictures;
use crate::commands::eval::series::judged;
use crate::memory::{Needs, Smaller};
use crate::training::LESS;
use crate::training::place::Network;
use crate::training::start::{Start, StartModel};
use clap::Args;
use drnn::{Model, NetSpec, Padding};
use drnn_tasks::series::SeriesTask;
use drnn_train::series::{ScoredBaseline, SeriesValidation, suggested};
use drnn_train::{Dataset, Metric, Validation};
use std::path::PathBuf;
use std::time::SystemTime;

/// Predict values or a class at every step of sequences of numbers
///
/// Columns are standardised with training-set statistics, which the model file contains; errors are
/// reported in the target's units. Several sequences are split at random, a single one by time.
/// Examples:
///   drnn train series --csv weather.csv --target temperature --net dlstm --delay 5
///   drnn train series --csv steps.csv.gz --target activity --inputs ax,ay,az --sequence person --delay 10
///   drnn train series --csv load.csv --target load --ahead 24 --time date
///   drnn train series --x X.npy --y Y.npy --delay 5
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(flatten)]
    data: SeriesData,
    #[command(flatten)]
    shape: ShapeArguments,
    /// Start from this model instead of random parameters, with its network and, if it is of series,
    /// its columns, classes and scales; --delay may be another
    #[arg(long, value_name = "MODEL", conflicts_with_all = [
        "net", "layers", "units", "projection", "inputs", "ahead", "time", "time_format", "cycles", "categories", "classify",
    ])]
    from: Option<PathBuf>,
    #[command(flatten)]
    training: Training,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let started = SystemTime::now();
    let Arguments { data, shape, from, training } = arguments;
    let start = from.as_deref().map(StartModel::read).transpose()?;
    let mut ready = data.ready(training.options.seed, known_task(start.as_ref())?.as_ref())?;
    let (spec, shape) = match &start {
        Some(start) => (start.spec(shape.delay(), Padding::Null)?, None),
        None => {
            let shape = shape.shape(ready.default_delay())?;
            (shape.spec(Padding::Null, |builder| ready.task.widths(builder))?, Some(shape))
        }
    };
    ready.check_network(&spec)?;
    ready.explain_delays(&[spec.delay()]);
    let cpu = training.cpu()?;
    let place = training.running.place.find()?;
    let train = ready.windows(spec.delay())?;
    ready.warn_of_long_delay(spec.delay());
    let (valid, test) = (ready.validation(&spec)?, ready.test_validation(&spec)?);
    let options = training.options.options(suggested(train.len(), training.options.given()));
    let needs = |spec: &NetSpec| -> Result<Needs, Failure> {
        let needs = place.needs(spec, &[&train as &dyn Dataset], &options, cpu.threads())?;
        Ok(training.options.needs(needs.join(ready.scoring(spec)), cpu.threads()))
    };
    let up_to = |n| {
        let widths = |builder| ready.task.widths(builder);
        needs(&shape.as_ref()?.up_to(n).spec(Padding::Null, widths).ok()?).ok()
    };
    let shown = |n| format!("--units {n}");
    let smaller = shape.as_ref().map(|shape| {
        let size = shape.widest();
        Smaller { size, needs: &up_to, shown: &shown }
    });
    let less = format!("{LESS}, or shorter --window");
    needs(&spec)?.check_sized(training.running.force, &place, &less, smaller)?;
    let job = Job {
        task: SeriesTask::NAME,
        what: Start::describe(start.as_ref().map(|start| &start.start), ready.what.clone()),
        net: spec.to_string(),
        latency: latency(&spec),
        engine: &|options| StartModel::network(start.as_ref(), &place, &cpu, &spec, options),
        place: place.clone(),
        train: &train as &dyn Dataset,
        valid: &valid,
        test: test.as_ref().map(|test| test as &dyn Validation<Network>),
    };
    let task = ready.task.to_value()?;
    training.run(
        &cpu,
        started,
        options,
        job,
        |engine, path, precision| {
            Ok(engine.model()?.with_task(task.clone()).save_as(path, precision)?)
        },
        |engine| {
            let baselines = ready.baselines(latency(&spec))?;
            more(&engine.model()?.on(&cpu), &ready, &valid, test.as_ref(), &baselines)
        },
    )
}

/// What the model to start from knows of its data; None if it is no model of series.
fn known_task(start: Option<&StartModel>) -> Result<Option<SeriesTask>, Failure> {
    let Some(start) = start else { return Ok(None) };
    let Some(task) = start.model.task() else { return Ok(None) };
    match SeriesTask::from_value(task, start.model.spec()) {
        Ok(task) => Ok(Some(task)),
        Err(why) => Err(start.refuse(&format!("is no model of series: {why}"))),
    }
}

/// The metric of a task.
pub fn metric(task: &SeriesTask) -> Metric {
    if task.classes.is_some() { Metric::Accuracy } else { Metric::SquaredError }
}

/// Evaluates the model on validation and test set; tables are of the test set if there is one.
fn more(
    model: &Model,
    ready: &Ready,
    valid: &SeriesValidation,
    test: Option<&SeriesValidation>,
    baselines: &[ScoredBaseline],
) -> Result<More, Failure> {
    let mut notes = ready.notes.clone();
    let mut scores = Vec::new();
    for (set, part) in [("validation", Some(valid)), ("test", test)] {
        let Some(part) = part else { continue };
        let score = part.scorer().score(model)?;
        if score.unknown > 0 {
            let n = score.unknown;
            notes.push(format!(
                "{n} steps of the {set} set have classes that the training set does not have; they count as wrong."
            ));
        }
        scores.push((set, score));
    }
    let scored = [0, 1].map(|at| scores.get(at).map_or(0, |(_, score)| score.counted()));
    let mut all = Vec::new();
    if let Some((set, score)) = scores.last() {
        all.extend(judged(score, &ready.task, set));
        all.extend(by_target(score, &ready.task, set, baselines));
    }
    let (set, part) = test.map_or(("validation", valid), |test| ("test", test));
    all.extend(pictures(model, &ready.task, part.scorer(), set)?);
    let baselines = baselines.iter().map(ScoredBaseline::summary).collect();
    Ok(More { judged: all, notes, baselines, scored: Some(scored) })
}
