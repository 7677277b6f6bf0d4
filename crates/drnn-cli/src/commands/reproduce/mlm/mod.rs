//! `drnn reproduce mlm`: masked characters of text8, the paper's third experiment.

mod text8;

pub use text8::{Text8, find as find_text8};

use super::Job;
use crate::Failure;
use crate::console::progress;
use crate::files::training_folder::TrainingFolder;
use crate::memory::Needs;
use crate::report::mlm::{MlmResults, Run};
use crate::report::{Provenance, Reported, publish};
use crate::training::place::Place;
use crate::training::{self, Running, Watch};
use clap::Args;
use drnn::Cpu;
use drnn::text::{counted, grouped};
use drnn_train::chars::paper::{ROWS, Row, Size};
use drnn_train::chars::{Masked, SHARE, WINDOW};
use drnn_train::{Dataset, Engine, Metric, Options, Reason, Schedule, Trainer, seed};
use std::path::PathBuf;
use std::time::SystemTime;

/// Masked characters of text8: LSTM, d-LSTMs and Bi-LSTMs
///
/// The text8 (Wikipedia, letters and spaces: http://mattmahoney.net/dc/text8.zip) must be downloaded first. The default
/// run trains small networks on its first 5 million characters, in about 7 minutes on 2 cores; that is too
/// short for delays above 5, which are learned slowly. If it was interrupted with Ctrl-C or killed, --resume
/// continues it.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The text8, plain or compressed, or a folder with it [default: environment variable DRNN_DATA]
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Networks by name: size-net, then -layers or, of a dlstm, -delay: small-dlstm-8,large-bilstm-2
    /// [default: quick-lstm, quick-dlstm-1, quick-dlstm-5, quick-bilstm; with --full all of the paper's]
    #[arg(long, value_name = "ROW,..", value_delimiter = ',', verbatim_doc_comment)]
    rows: Option<Vec<Row>>,
    /// The paper's protocol: the whole text, 20 epochs, batches of 128, learning rate 0.001, 5 repetitions
    #[arg(long)]
    full: bool,
    /// Train on the first N characters, and validate and test on a twentieth each [default: 5000000; with --full all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(4000..))]
    first: Option<u64>,
    /// Trainings of each network, from different seeds [default: 1; with --full 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    repeats: Option<u16>,
    /// Epochs [default: 8; with --full 20]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    epochs: Option<u32>,
    /// Windows per batch [default: 16; with --full 128]
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    batch: Option<u32>,
    /// Learning rate of the first epoch [default: 0.004, cosine schedule; with --full 0.001, constant]
    #[arg(long, value_name = "R", value_parser = training::rate)]
    rate: Option<f32>,
    /// Random seed of parameters, batch order and masks
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder for results, plots and checkpoints
    #[arg(long, value_name = "DIR", default_value = "out/mlm")]
    out: PathBuf,
    #[command(flatten)]
    running: Running,
    /// Print the contents of mlm.json instead of text
    #[arg(long)]
    json: bool,
}

/// The default networks.
const QUICK: [&str; 4] = ["quick-dlstm-5", "quick-dlstm-1", "quick-bilstm", "quick-lstm"];
/// The default number of training characters.
const FIRST: usize = 5_000_000;
/// The paper's repetitions.
const REPEATS: u16 = 5;

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let results = arguments.results(training::command())?;
    publish(&results, &arguments.out, arguments.json)?;
    let ran_away = results.runs.iter().filter(|run| run.ended == Reason::NotFinite);
    training::check_finite(ran_away.map(|run| run.row.as_str()))
}

/// A network and the number of its repetition.
type Which = (Row, usize);

impl Arguments {
    /// One training of each of these rows with `seed`, for a campaign: by the paper's protocol, or
    /// on `first` characters for a trial.
    pub fn for_campaign(rows: Vec<Row>, seed: u64, first: Option<u64>, job: Job) -> Arguments {
        Arguments {
            data: Some(job.data),
            rows: Some(rows),
            full: true,
            first,
            repeats: Some(1),
            epochs: first.map(|_| 1),
            batch: first.map(|_| 16),
            rate: None,
            seed,
            out: job.folder,
            running: job.running,
            json: false,
        }
    }

    /// Trains and tests all networks. Checkpoints are in the folder `out`.
    pub fn results(&self, command: String) -> Result<MlmResults, Failure> {
        let started = SystemTime::now();
        let cpu = training::cpu(self.running.threads)?; // before a folder is created
        let place = self.running.place.find()?;
        let (which, options) = (self.which()?, self.options());
        let text = Text8::open(self.data.as_deref(), self.first(), self.seed)?;
        self.check_memory(&which, &text, (&cpu, &place))?;
        let folder = self.running.folder(&self.out, &["mlm.json"], training::EARLIER)?;
        let earlier = training::logged_seconds(&self.out.join("log.jsonl"));
        self.announce(&which, &text, &cpu);
        let mut runs = Vec::new();
        // One training per thread at a time: large networks need much memory.
        for some in which.chunks(cpu.threads()) {
            runs.extend(self.train(some, options, &text, (&cpu, &place), (&folder, &command))?);
        }
        Ok(MlmResults {
            kind: MlmResults::KIND.into(),
            format: MlmResults::FORMAT,
            provenance: Provenance::new(command, self.seed, &cpu, &place, started, earlier),
            text: text.about.clone(),
            window: WINDOW,
            masked: SHARE,
            options,
            deviations: self.deviations(&text),
            runs,
        })
    }

    /// Checks that all concurrent trainings fit into memory, before a folder is created.
    fn check_memory(
        &self,
        which: &[Which],
        text: &Text8,
        (cpu, place): (&Cpu, &Place),
    ) -> Result<(), Failure> {
        let data = [&text.train, &text.valid, &text.test].map(|part| part as &dyn Dataset);
        for some in which.chunks(cpu.threads()) {
            let mut needs = Vec::new();
            for (row, _) in some {
                let threads = cpu.threads().div_ceil(some.len());
                needs.push(place.needs(&row.spec()?, &data, &self.options(), threads)?);
            }
            let needs = Needs::side_by_side(needs, some.len());
            needs.check_at(self.running.force, place, "a smaller --batch or fewer --threads")?;
        }
        Ok(())
    }

    /// Trains some networks in parallel, and tests them.
    fn train(
        &self,
        which: &[Which],
        options: Options,
        text: &Text8,
        (cpu, place): (&Cpu, &Place),
        (folder, command): (&TrainingFolder, &str),
    ) -> Result<Vec<Run>, Failure> {
        let Text8 { train, valid, test, about } = text;
        let one = cpu.with_threads(1);
        let (mut lanes, mut names) = (Vec::new(), Vec::new());
        for (row, repetition) in which {
            let seed = seed::of_repetition(self.seed, *repetition);
            let options = Options { seed, ..options };
            let name = format!("{row}-{repetition}");
            let what = format!("mlm seed {} of {:?} {name}", self.seed, about.used);
            let engine = place.network(&one, &row.spec()?, &options)?;
            let trainer =
                Trainer::with_engine(engine, options, &what, train as &dyn Dataset, valid)?;
            lanes.push(self.running.lane(trainer, folder, &name)?);
            names.push(name);
        }
        let watch = Watch::new(names, Metric::Bits, &self.out.join("log.jsonl"))?;
        self.running.run(cpu, place, &mut lanes, &watch, command, &|_, _| Ok(()))?;
        let mut runs = Vec::new();
        for (lane, (row, repetition)) in lanes.iter_mut().zip(which) {
            let progress = lane.trainer.progress().clone();
            let ended = progress.ended.unwrap_or(Reason::Epochs);
            let learner = lane.trainer.engine();
            learner.use_cpu(cpu);
            let mut bits = |data: &Masked| -> Result<Option<f64>, Failure> {
                if ended == Reason::NotFinite {
                    return Ok(None);
                }
                let found = learner.loss(data, 0, options.batch)?;
                Ok(Some(Metric::Bits.of(&found)))
            };
            let (valid_bpc, test_bpc) = (bits(valid)?, bits(test)?);
            runs.push(Run {
                row: row.to_string(),
                repetition: *repetition,
                parameters: learner.spec().parameters(),
                valid_bpc,
                test_bpc,
                epochs: progress.history.len(),
                ended,
                seconds: progress.seconds,
                history: progress.history,
            });
        }
        Ok(runs)
    }

    fn first(&self) -> Option<usize> {
        self.first.map(|n| n as usize).or((!self.full).then_some(FIRST))
    }

    fn repeats(&self) -> u16 {
        self.repeats.unwrap_or(if self.full { REPEATS } else { 1 })
    }

    fn which(&self) -> Result<Vec<Which>, Failure> {
        let rows: Vec<Row> = match &self.rows {
            Some(rows) => rows.clone(),
            None if self.full => ROWS.to_vec(),
            None => QUICK.iter().filter_map(|name| name.parse().ok()).collect(),
        };
        if let Some(twice) = (1..rows.len()).find(|&i| rows[..i].contains(&rows[i])) {
            return Err(Failure::Input(format!("--rows: {} is given twice", rows[twice])));
        }
        let each = |i: usize| rows.iter().map(move |&row| (row, i)).collect::<Vec<_>>();
        Ok((0..self.repeats().into()).flat_map(each).collect())
    }

    pub fn options(&self) -> Options {
        let (epochs, batch, rate, schedule) = match self.full {
            true => (20, 128, 1e-3, Schedule::Constant),
            false => (8, 16, 4e-3, Schedule::Cosine),
        };
        Options {
            epochs: self.epochs.map_or(epochs, |n| n as usize),
            batch: self.batch.map_or(batch, |n| n as usize),
            rate: self.rate.unwrap_or(rate),
            schedule,
            ..Options::default()
        }
    }

    fn deviations(&self, text: &Text8) -> Vec<String> {
        let mine = self.options();
        let mut found = text.deviations(self.first().is_some());
        if mine.epochs != 20 {
            found.push(format!("{} epochs instead of 20", mine.epochs));
        }
        if mine.batch != 128 {
            found.push(format!("batches of {} instead of 128", mine.batch));
        }
        if mine.rate != 1e-3 {
            found.push(format!("learning rate {} instead of 0.001", mine.rate));
        }
        if mine.schedule != Schedule::Constant {
            found.push("learning rate falls to zero along a cosine instead of staying".into());
        }
        if self.repeats() != REPEATS {
            found.push(format!(
                "{} instead of {REPEATS}",
                counted(self.repeats().into(), "repetition")
            ));
        }
        let quick = |(row, _): &Which| row.size == Size::Quick;
        if self.which().is_ok_and(|which| which.iter().any(quick)) {
            found.push(
                "quick networks have 75 thousand parameters; the paper's have 1.1 and 4.3 million"
                    .into(),
            );
        }
        found
    }

    fn announce(&self, which: &[Which], text: &Text8, cpu: &Cpu) {
        progress!(
            "{} trainings on {} characters of text8 ({}), {} epochs, {} threads",
            which.len(),
            grouped(text.about.used[0]),
            text.about.split,
            self.options().epochs,
            cpu.threads()
        );
        let deviations = self.deviations(text);
        if !deviations.is_empty() {
            progress!("differs from the paper (--full): {}", deviations.join("; "));
        }
    }
}
