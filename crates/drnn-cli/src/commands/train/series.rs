//! `drnn train series`: a network on sequences of numbers, from a table or from arrays.

use super::frame::{Job, More, Training};
use crate::Failure;
use crate::args::series::{Ready, SeriesData};
use crate::args::shape::{Shape, ShapeArguments};
use crate::commands::eval::by_target::by_target;
use crate::commands::eval::pictures::pictures;
use crate::commands::eval::series::judged;
use crate::memory::{Needs, Smaller};
use crate::training::LESS;
use crate::training::place::Network;
use crate::training::suggested::{Given, Plan};
use clap::Args;
use drnn::{Model, NetSpec, Padding};
use drnn_tasks::series::SeriesTask;
use drnn_train::series::{ScoredBaseline, SeriesValidation};
use drnn_train::{Dataset, Metric, Options, Schedule, Validation};
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
    #[command(flatten)]
    training: Training,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let started = SystemTime::now();
    let Arguments { data, shape, training } = arguments;
    let mut ready = data.ready(training.options.seed)?;
    let shape = shape.shape(ready.default_delay())?;
    ready.check_shape(&shape)?;
    ready.explain_delays(&[shape.delay]);
    let cpu = training.cpu()?;
    let place = training.running.place.find()?;
    let network = |shape: &Shape| shape.spec(Padding::Null, |builder| ready.task.widths(builder));
    let spec = network(&shape)?;
    let train = ready.windows(shape.delay)?;
    ready.warn_of_long_delay(shape.delay);
    let (valid, test) = (ready.validation(&spec)?, ready.test_validation(&spec)?);
    let options = training.options.options(suggested(train.len(), training.options.given()));
    let needs = |spec: &NetSpec| -> Result<Needs, Failure> {
        let needs = place.needs(spec, &[&train as &dyn Dataset], &options, cpu.threads())?;
        Ok(training.options.needs(needs.join(ready.scoring(spec)), cpu.threads()))
    };
    let smaller = Smaller {
        size: shape.widest(),
        needs: &|n| needs(&network(&shape.up_to(n)).ok()?).ok(),
        shown: &|n| format!("--units {n}"),
    };
    let less = format!("{LESS}, or shorter --window");
    needs(&spec)?.check_sized(training.running.force, &place, &less, Some(smaller))?;
    let job = Job {
        task: SeriesTask::NAME,
        what: ready.what.clone(),
        net: spec.to_string(),
        latency: shape.latency(),
        engine: &|options| Ok(place.network(&cpu, &spec, options)?),
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
            let baselines = ready.baselines(shape.latency())?;
            more(&engine.model()?.on(&cpu), &ready, &valid, test.as_ref(), &baselines)
        },
    )
}

/// Default training options for so many windows: 1,600 updates or more.
pub fn suggested(windows: usize, given: Given) -> Options {
    let plan = Plan { updates: 1600, epochs: 100, max_epochs: 1000, batch: 32, min_batch: 1 };
    let (batch, epochs) = plan.batch_and_epochs(windows, given);
    Options { epochs, batch, rate: 1e-2, schedule: Schedule::Cosine, ..Options::default() }
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
