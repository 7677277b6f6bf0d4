//! `drnn train chars`: a network that fills in masked characters of a text.

use super::frame::{Job, More, Training, latency};
use crate::Failure;
use crate::args::characters::{Characters, CharsArguments};
use crate::args::network::DEFAULT_DELAY;
use crate::args::shape::ShapeArguments;
use crate::memory::{Needs, Smaller};
use crate::training::LESS;
use crate::training::place::Network;
use crate::training::start::{Start, StartModel};
use clap::Args;
use drnn::{NetSpec, Padding};
use drnn_tasks::chars::CharTask;
use drnn_train::chars::paper_bpc;
use drnn_train::{Dataset, Engine, MIN_EVAL_ROWS, Metric, OnData, Validation};
use std::path::PathBuf;
use std::time::SystemTime;

/// Fill in masked characters of a text: bits per masked character
///
/// A fraction of the characters is masked, different ones in every epoch; the network learns to
/// predict them from the characters around them. A network with delay d looks d characters ahead.
/// `drnn fill` uses the model.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    #[command(flatten)]
    characters: CharsArguments,
    #[command(flatten)]
    shape: ShapeArguments,
    /// Start from this model instead of random parameters, with its network and alphabet; --delay may
    /// be another
    #[arg(long, value_name = "MODEL", conflicts_with_all = ["net", "layers", "units", "projection", "embedding", "alphabet", "symbols"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    training: Training,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let started = SystemTime::now();
    let Arguments { characters, shape, from, training } = arguments;
    let cpu = training.cpu()?;
    let place = training.running.place.find()?;
    let start = from.as_deref().map(StartModel::read).transpose()?;
    let known = start.as_ref().map(|start| {
        CharTask::of(&start.model)
            .map_err(|e| start.refuse(&format!("no model of characters: {e}")))
    });
    let data = Characters::read(characters, training.options.seed, known.transpose()?.as_ref())?;
    data.print_notes();
    let options = training.options.options(data.options(training.options.given()));
    let (spec, shape) = match &start {
        Some(start) => (start.spec(shape.delay(), Padding::LookAhead)?, None),
        None => {
            let shape = shape.shape(DEFAULT_DELAY)?;
            (data.spec(&shape)?, Some(shape))
        }
    };
    let parts = data.parts();
    let needs = |spec: &NetSpec| -> drnn_train::Result<Needs> {
        let one = place.needs(spec, &parts, &options, cpu.threads())?;
        Ok(training.options.needs(one, cpu.threads()))
    };
    let up_to = |n| needs(&data.spec(&shape.as_ref()?.up_to(n)).ok()?).ok();
    let shown = |n| format!("--units {n}");
    let smaller = shape.as_ref().map(|shape| {
        let size = shape.widest();
        Smaller { size, needs: &up_to, shown: &shown }
    });
    let less = format!("{LESS}, or shorter --window");
    needs(&spec)?.check_sized(training.running.force, &place, &less, smaller)?;
    let task = data.task();
    let (window, ahead) = (characters.window(), spec.look_ahead());
    let measured = |part| OnData::new(part as &dyn Dataset, Metric::Bits);
    let (valid, test) = (measured(&data.valid), data.test.as_ref().map(measured));
    let job = Job {
        task: "chars",
        what: Start::describe(start.as_ref().map(|start| &start.start), data.what.clone()),
        net: spec.to_string(),
        latency: latency(&spec),
        engine: &|options| StartModel::network(start.as_ref(), &place, &cpu, &spec, options),
        place: place.clone(),
        train: &data.train as &dyn Dataset,
        valid: &valid,
        test: test.as_ref().map(|test| test as &dyn Validation<Network>),
    };
    let rows = options.batch.max(MIN_EVAL_ROWS);
    training.run(
        &cpu,
        started,
        options,
        job,
        |learner, path, precision| Ok(task.put_into(learner.model()?)?.save_as(path, precision)?),
        |learner| {
            let mut notes = data.notes.clone();
            if ahead > 0 {
                let judged = data.test.as_ref().unwrap_or(&data.valid);
                let found = learner.loss(judged, 0, rows)?;
                let paper = paper_bpc(Metric::Bits.of(&found), window, ahead);
                notes.push(format!(
                    "paper_bpc {paper:.4}: the same bits as the paper counts them, divided by the masks among all {} \
                     characters that are read, although only those among {window} are predicted.",
                    window + ahead
                ));
            }
            let baselines = data.baselines();
            Ok(More { notes, baselines, ..More::default() })
        },
    )
}
