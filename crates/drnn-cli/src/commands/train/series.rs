//! `drnn train series`: a network on sequences of numbers, from a table or from arrays.

use super::frame::{Job, More, Quality, Training};
use crate::Failure;
use crate::args::series::{Ready, SeriesData};
use crate::args::shape::ShapeArguments;
use crate::commands::eval::series::judged;
use crate::training::LESS;
use crate::training::place::Network;
use clap::Args;
use drnn::{Cpu, Padding};
use drnn_tasks::series::SeriesTask;
use drnn_train::series::{Score, Sequences, score};
use drnn_train::{Dataset, Metric, Options, Schedule};
use std::time::SystemTime;

/// Predict values or a class at every step of sequences of numbers
///
/// Columns are standardised with training-set statistics, which the model file contains; errors are
/// reported in the target's units. Several sequences are split at random, a single one by time.
/// Examples:
///   drnn train series --csv weather.csv --target temperature --net dlstm --delay 5
///   drnn train series --csv steps.csv.gz --target activity --inputs ax,ay,az --sequence person --delay 10
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
    let shape = shape.shape()?;
    let ready = data.ready(training.seed)?;
    let cpu = training.cpu()?;
    let place = training.running.place.find()?;
    let spec = shape.spec(Padding::Null, |builder| ready.task.widths(builder))?;
    let (train, valid, test) = ready.windows(shape.delay)?;
    let options = training.options(suggested(ready.batch(&train)));
    let parts = [Some(&train), Some(&valid), test.as_ref()].into_iter().flatten();
    let parts: Vec<&dyn Dataset> = parts.map(|part| part as &dyn Dataset).collect();
    let needs = place.needs(&spec, &parts, options.batch, cpu.threads())?;
    let needs = needs.join(ready.scoring(&spec));
    needs.check_at(training.running.force, &place, &format!("{LESS}, or shorter --window"))?;
    let job = Job {
        task: SeriesTask::NAME,
        what: ready.what.clone(),
        net: spec.to_string(),
        latency: shape.latency(),
        metric: metric(&ready.task),
        engine: place.network(&cpu, &spec, &options)?,
        place,
        train: &train as &dyn Dataset,
        valid: &valid,
        test: test.as_ref().map(|test| test as &dyn Dataset),
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
        |engine| more(engine, &cpu, &ready),
    )
}

/// Default training options for series.
pub fn suggested(batch: usize) -> Options {
    let schedule = Schedule::Cosine;
    Options { epochs: 100, batch, rate: 1e-2, schedule, ..Options::default() }
}

/// The metric of a task.
pub fn metric(task: &SeriesTask) -> Metric {
    if task.classes.is_some() { Metric::Accuracy } else { Metric::SquaredError }
}

/// Evaluates a network on whole sequences, in the target's units: all scores, and the metric.
pub fn evaluate(
    engine: &mut Network,
    cpu: &Cpu,
    task: &SeriesTask,
    data: &Sequences,
) -> Result<(Score, f64), Failure> {
    let found = score(&engine.model()?.on(cpu), task, data)?;
    let quality = found.quality().unwrap_or(0.0);
    Ok((found, quality))
}

/// Evaluates the model on validation and test set; tables are of the test set if there is one.
fn more(engine: &mut Network, cpu: &Cpu, ready: &Ready) -> Result<More, Failure> {
    let mut of = |data: &Sequences| evaluate(engine, cpu, &ready.task, data);
    let (valid, test) = (of(&ready.valid)?, ready.test.as_ref().map(&mut of).transpose()?);
    let quality = Quality { valid: valid.1, test: test.as_ref().map(|test| test.1) };
    let mut notes = ready.notes.clone();
    let sets = [("validation", Some(&valid)), ("test", test.as_ref())];
    for (set, (score, _)) in sets.into_iter().filter_map(|(set, found)| Some((set, found?))) {
        if score.unknown > 0 {
            let n = score.unknown;
            notes.push(format!(
                "{n} steps of the {set} set have classes that the training set does not have; they count as wrong."
            ));
        }
    }
    let (set, closest) = test.map_or(("validation", valid.0), |test| ("test", test.0));
    Ok(More { judged: judged(&closest, &ready.task, set), notes, quality: Some(quality) })
}
