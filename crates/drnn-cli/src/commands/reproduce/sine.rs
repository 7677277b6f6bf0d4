//! `drnn reproduce sine`: the paper's maps of errors over (gamma, a), as a campaign that can be killed,
//! resumed, split over machines and merged.
//!
//! [`drnn_train::sine`] defines the task, [`drnn_train::sine::results`] the file of results.

use super::{Job, check_unused};
use crate::Failure;
use crate::console::{self, note, progress, warning};
use crate::files::paths::make_folder;
use crate::files::paths::write_files;
use crate::files::training_folder::FolderLock;
use crate::memory::{Force, Needs};
use crate::report::Reported;
use crate::report::sine::{MAX_DELAY, NAMES, SineResults, deviations};
use crate::training::place::{Place, PlaceArguments};
use crate::training::stop::Stop;
use crate::training::{self, Running};
use clap::Args;
use drnn::NetSpec;
use drnn_cuda::{CudaGroup, Precision};
use drnn_train::lanes::Control;
use drnn_train::sine::campaign::{
    self, CellEngine, Checkpoints, Event, Gamma, GridCell, Pool, Protocol, Shard,
};
use drnn_train::sine::results::{self, Record, Results};
use drnn_train::sine::{Sine, SinePart};
use drnn_train::{Advance, Dataset, Estimate, Options, PaperNet, Schedule, checkpoint};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Errors over (gamma, a): the sine of a filtered sequence, where the filter looks a steps ahead
///
/// y_t = sin(gamma * sum_j w_{j+c} x_{t+j}), j from -c+1 to a, c = 20 - a. A network with delay d can
/// predict y_t exactly where a <= d: its error rises sharply after a = d. Without --full the grid is smaller
/// and training shorter than the paper's, about 15 minutes on 2 cores; differences are printed. Each result is
/// appended to results.jsonl as soon as it is known, and running trainings have checkpoints: however the
/// program ends, --resume continues from there. On an NVIDIA Hopper GPU all trainings of a network run at once.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The paper's protocol: 50 gammas, a from 0 to 10, 4 networks, 5 data sets, up to 1,000 epochs each
    #[arg(long)]
    full: bool,
    /// Frequencies, multiples of 0.1 [default: 0.5,1.0]
    #[arg(long, value_name = "G,..", value_delimiter = ',')]
    gammas: Option<Vec<Gamma>>,
    /// Numbers of taps that look ahead, a [default: 0,5,7,10]
    #[arg(long, value_name = "A,..", value_delimiter = ',', value_parser = clap::value_parser!(u8).range(0..=20))]
    aheads: Option<Vec<u8>>,
    /// Some pairs instead of --gammas and --aheads, as in 0.5:5,0.5:7
    #[arg(long, value_name = "G:A,..", value_delimiter = ',', conflicts_with_all = ["gammas", "aheads"])]
    cells: Option<Vec<Pair>>,
    /// Networks: lstm, bilstm, dlstm-D
    #[arg(
        long,
        value_name = "NET,..",
        value_delimiter = ',',
        default_values_t = NETS
    )]
    nets: Vec<PaperNet>,
    /// Data sets for each gamma and a, each with its own filter and sequences [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    sets: Option<u64>,
    /// Only these data sets, counted from 0, instead of --sets
    #[arg(long, value_name = "I,..", value_delimiter = ',', conflicts_with = "sets",
        value_parser = clap::value_parser!(u64).range(..1000))]
    only_sets: Option<Vec<u64>>,
    /// Maximum number of epochs [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    epochs: Option<u32>,
    /// Learning rate of the first epoch [default: 0.01]
    #[arg(long, value_name = "R", value_parser = rate)]
    rate: Option<f32>,
    /// Sequences per batch [default: 50]
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    batch: Option<u32>,
    /// Training sequences; validation and test set have a fifth as many each [default: 2000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sequences: Option<u32>,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Concurrent trainings on the CPU [default: one per processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Do only part I of N, to split the work over N machines
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
    /// Folder for results.jsonl and the report
    #[arg(long, value_name = "DIR", default_value = "out/sine")]
    out: PathBuf,
    /// Continue from the results in the folder
    #[arg(long)]
    resume: bool,
    /// Minutes between checkpoints of running trainings
    #[arg(long, value_name = "MINUTES", default_value_t = 2.0, value_parser = training::minutes)]
    checkpoint_every: f64,
    #[command(flatten)]
    place: PlaceArguments,
    #[command(flatten)]
    force: Force,
    /// Train nothing, but merge these results files of one campaign into the folder
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["full", "gammas", "aheads", "cells", "nets",
        "sets", "only_sets", "epochs", "rate", "batch", "sequences", "seed", "threads", "shard", "device", "precision"])]
    merge: Vec<PathBuf>,
    /// Print the contents of sine.json instead of text
    #[arg(long)]
    json: bool,
}

/// gamma and a.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pair(Gamma, u8);

impl FromStr for Pair {
    type Err = String;
    fn from_str(text: &str) -> Result<Pair, String> {
        let wrong = || format!("`{text}`: expected GAMMA:A with A from 0 to 20, as in 0.5:7");
        let (gamma, ahead) = text.split_once(':').ok_or_else(wrong)?;
        let ahead = ahead.parse().ok().filter(|a| *a <= 20).ok_or_else(wrong)?;
        Ok(Pair(gamma.parse()?, ahead))
    }
}

fn rate(text: &str) -> Result<f32, String> {
    let rate = text.parse().map_err(|e| format!("{e}"))?;
    if rate > 0.0 && rate <= 1.0 {
        Ok(rate)
    } else {
        Err("expected more than 0, at largest 1".into())
    }
}

const RESULTS: &str = "results.jsonl";

/// The paper's networks.
pub const NETS: [PaperNet; 4] =
    [PaperNet::Lstm, PaperNet::BiLstm, PaperNet::DLstm(5), PaperNet::DLstm(10)];

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let out = &arguments.out;
    if !arguments.resume {
        let results: Vec<&str> = [RESULTS].into_iter().chain(NAMES).collect();
        check_unused(out, &results, "continue it with --resume, or choose another --out")?;
    }
    let (_lock, results) =
        if arguments.merge.is_empty() { arguments.trained()? } else { arguments.join()? };
    let refuse = |why| Failure::Input(format!("{}: {why}", out.join(RESULTS).display()));
    let json = results.json().map_err(refuse)?;
    let mut files = results.files().map_err(refuse)?;
    files.insert(0, ("sine.json", json.clone().into_bytes()));
    write_files(out, &files)?;
    let text = if arguments.json { json } else { results.table() };
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

impl Arguments {
    pub fn protocol(&self) -> Result<Protocol, Failure> {
        let paper = Protocol::default();
        let mut protocol = paper;
        if !self.full {
            let (epochs, batch, rate, schedule) = (100, 50, 1e-2, Schedule::Cosine);
            protocol.training = Options { epochs, batch, rate, schedule, ..paper.training };
            protocol.sequences = [2000, 400, 400];
        }
        if let Some(n) = self.sequences {
            protocol.sequences = [n as usize, (n as usize / 5).max(1), (n as usize / 5).max(1)];
        }
        let training = &mut protocol.training;
        training.seed = self.seed;
        training.epochs = self.epochs.map_or(training.epochs, |n| n as usize);
        training.batch = self.batch.map_or(training.batch, |n| n as usize);
        training.rate = self.rate.unwrap_or(training.rate);
        if training.batch > protocol.sequences[0] {
            return Err(Failure::Input(format!(
                "batches of {} sequences, of {} in all: --batch must not be above --sequences",
                training.batch, protocol.sequences[0]
            )));
        }
        Ok(protocol)
    }

    /// All cells of the grid, in order.
    fn grid(&self) -> Result<Vec<GridCell>, Failure> {
        let tenths = if self.full { (1..=50).collect() } else { vec![5, 10] };
        let gammas = || tenths.into_iter().filter_map(Gamma::tenths).collect();
        let gammas: Vec<Gamma> = self.gammas.clone().unwrap_or_else(gammas);
        let aheads = || if self.full { (0..=10).collect() } else { vec![0, 5, 7, 10] };
        let aheads: Vec<u8> = self.aheads.clone().unwrap_or_else(aheads);
        let product = || gammas.iter().flat_map(|g| aheads.iter().map(|a| Pair(*g, *a))).collect();
        let pairs: Vec<Pair> = self.cells.clone().unwrap_or_else(product);
        let pairs: Vec<_> = pairs.into_iter().map(|Pair(gamma, a)| (gamma, a.into())).collect();
        for net in &self.nets {
            if let PaperNet::DLstm(delay) = net
                && !(1..=MAX_DELAY).contains(delay)
            {
                return Err(Failure::Input(format!(
                    "--nets: {net}: expected a delay from 1 to {MAX_DELAY}"
                )));
            }
        }
        let count = self.sets.unwrap_or(if self.full { 5 } else { 1 });
        let sets: Vec<u64> = self.only_sets.clone().unwrap_or_else(|| (0..count).collect());
        let cells = campaign::grid(&pairs, &self.nets, &sets);
        if cells.len() < pairs.len() * self.nets.len() * sets.len() {
            let names = "--gammas, --aheads, --cells, --nets or --only-sets";
            return Err(Failure::Input(format!("{names}: a value is given twice")));
        }
        Ok(cells)
    }

    fn trained(&self) -> Result<(FolderLock, SineResults), Failure> {
        let (lock, results) = self.train()?;
        Ok((lock, SineResults::new(results.protocol(), results.records())))
    }

    /// All networks for these frequencies and data sets, for a campaign: by the paper's protocol, or
    /// with few sequences and at most `epochs` epochs for a trial.
    pub fn for_campaign(
        gammas: Vec<Gamma>,
        aheads: Vec<u8>,
        set: u64,
        epochs: Option<u32>,
        job: Job,
    ) -> Arguments {
        let Running { threads, checkpoint_every, resume, place, force } = job.running;
        Arguments {
            full: true,
            gammas: Some(gammas),
            aheads: Some(aheads),
            cells: None,
            nets: NETS.to_vec(),
            sets: None,
            only_sets: Some(vec![set]),
            epochs,
            rate: None,
            batch: epochs.map(|_| 50),
            sequences: epochs.map(|_| 100),
            seed: 1,
            threads,
            shard: None,
            out: job.folder,
            resume,
            checkpoint_every,
            place,
            force,
            merge: Vec::new(),
            json: false,
        }
    }

    /// Trains and tests all networks. The results and checkpoints are in the folder `out`, which may
    /// have results of other cells.
    pub fn train(&self) -> Result<(FolderLock, Results), Failure> {
        let (protocol, mut cells) = (self.protocol()?, self.grid()?);
        if let Some(shard) = self.shard {
            let all = std::mem::take(&mut cells);
            cells = shard.of(&all);
            if cells.is_empty() {
                let Shard { index, count } = shard;
                let what =
                    format!("--shard {index}/{count}: there are only {} trainings", all.len());
                return Err(Failure::Input(what));
            }
        }
        let place = self.place.find()?;
        self.check_memory(&protocol, &cells, &place)?;
        let stop = Stop::on_ctrl_c()?; // before anything is written
        make_folder(&self.out)?;
        let lock = FolderLock::take(&self.out)?;
        let path = self.out.join(RESULTS);
        let mut results = Results::open(&path, &protocol)?;
        if results.was_torn() {
            warning!("{}: the last line is incomplete and is dropped", path.display());
        }
        let done = cells.iter().filter(|cell| results.records().contains_key(cell)).count();
        let left: Vec<GridCell> =
            cells.iter().filter(|cell| !results.records().contains_key(cell)).copied().collect();
        let pools = self.pools(&place, &left, &protocol.training)?;
        let (count, at_once) = (cells.len(), pools.iter().map(|pool| pool.at_once).sum::<usize>());
        progress!(
            "sine: {count} trainings, {done} of them done already; {at_once} at a time on {place}"
        );
        for deviation in deviations(&protocol, &cells) {
            progress!("differs from the paper: {deviation}");
        }
        let watch = Watch::new(count, done, protocol.training.epochs);
        let observe = |event: Event| {
            watch.see(&event);
            if stop.pressed() { Control::Stop } else { Control::Continue }
        };
        let folder = self.out.join("checkpoints");
        make_folder(&folder)?;
        checkpoint::remove_unfinished(&folder);
        let every = Duration::from_secs_f64(60.0 * self.checkpoint_every);
        let checkpoints = Checkpoints { folder: folder.clone(), every };
        let ended = campaign::run_pools(&pools, Some(&checkpoints), &mut results, &observe);
        watch.bar.finish_and_clear();
        let _ = std::fs::remove_dir(&folder); // only if it is empty
        if !ended? {
            let done = cells.iter().filter(|cell| results.records().contains_key(cell)).count();
            return Err(Failure::Interrupted(format!(
                "stopped: {done} of {count} trainings are done, in {}; continue with\n  {}",
                path.display(),
                training::command() + " --resume"
            )));
        }
        Ok((lock, results))
    }

    /// Checks that all concurrent trainings fit into memory, before a folder is created. GPU memory is
    /// not checked: if an allocation fails, nothing is lost.
    fn check_memory(
        &self,
        protocol: &Protocol,
        cells: &[GridCell],
        place: &Place,
    ) -> Result<(), Failure> {
        let threads = training::cpu(self.threads)?.threads();
        let at_once = cells.len().min(threads);
        let task = Sine::new(1.0, 0);
        let mut made = Vec::new();
        for (count, part) in
            protocol.sequences.into_iter().zip([SinePart::Train, SinePart::Valid, SinePart::Test])
        {
            made.push(task.generated(count, 0, part)?);
        }
        let data: Vec<&dyn Dataset> = made.iter().map(|made| made as &dyn Dataset).collect();
        let bytes = protocol.sequences.iter().sum::<usize>() * task.steps * 2 * size_of::<f32>();
        let mut largest = Needs::default();
        for net in cells.iter().map(|cell| cell.net).collect::<BTreeSet<_>>() {
            let estimate = Estimate::new(&net.spec(1, 1)?, &data, &protocol.training, 1);
            let needs = match place {
                Place::Cpu => Needs::from(estimate),
                Place::Cuda(..) => Needs::default(),
            };
            let needs = needs.and("data", bytes);
            largest = if needs.total() > largest.total() { needs } else { largest };
        }
        let less = "fewer --threads or --sequences, or a smaller --batch";
        largest.times(at_once).check(self.force, less)
    }

    /// The pools of trainings: on a GPU a group for each network, if its kernels support it.
    fn pools<'a>(
        &self,
        place: &'a Place,
        cells: &[GridCell],
        training: &Options,
    ) -> Result<Vec<Pool<'a>>, Failure> {
        let cpu = training::cpu(self.threads)?;
        let Place::Cuda(device, precision, _) = place else {
            return Ok(vec![Pool::on_cpu(cells, &cpu)]);
        };
        let nets: BTreeSet<PaperNet> = cells.iter().map(|cell| cell.net).collect();
        let pool = |net: PaperNet| {
            let cells: Vec<_> = cells.iter().filter(|cell| cell.net == net).copied().collect();
            let (spec, machine) = (net.spec(1, 1)?, place.to_string());
            let refused = match precision {
                Precision::F16 => CudaGroup::unsupported_reason(device, &spec),
                _ => Some(format!("groups compute in f16; {place}")),
            };
            let at_once = cells.len().min(device.multiprocessors());
            if let Some(why) = refused {
                progress!("{net}: one by one ({why})");
                let cpu = cpu.clone();
                let make = move |spec: &NetSpec, options: &Options| {
                    Ok(place.network(&cpu, spec, options)?.into_engine())
                };
                return Ok(Pool { cells, at_once, make: Box::new(make), machine });
            }
            let group = CudaGroup::new(device, &spec, training.adam, at_once);
            let group = group.map_err(drnn_train::Error::from)?;
            let make = move |_: &NetSpec, options: &Options| {
                Ok(Box::new(group.lane(options.seed)?) as CellEngine)
            };
            Ok(Pool { cells, at_once, make: Box::new(make), machine })
        };
        nets.into_iter().map(pool).collect()
    }

    fn join(&self) -> Result<(FolderLock, SineResults), Failure> {
        let path = self.out.join(RESULTS);
        let mut files = self.merge.clone();
        files.extend(Some(&path).filter(|path| self.resume && path.exists()).cloned());
        let (protocol, records) = results::merge(&files)?;
        make_folder(&self.out)?;
        let lock = FolderLock::take(&self.out)?;
        if path.exists() {
            drop(Results::open(&path, &protocol)?); // refused while a campaign is running
        }
        results::write(&path, &protocol, &records)?;
        progress!("{} trainings of {} files in {}", records.len(), files.len(), path.display());
        Ok((lock, SineResults::new(&protocol, &records)))
    }
}

/// Shows the progress of a campaign: a bar on a terminal, otherwise a line per training.
struct Watch {
    bar: ProgressBar,
    cells: usize,
    done: AtomicUsize,
    epochs: usize,
}

impl Watch {
    fn new(cells: usize, done: usize, epochs: usize) -> Watch {
        let bar = match console::draws_bars() {
            true => ProgressBar::new(((cells - done) * epochs) as u64),
            false => ProgressBar::hidden(),
        };
        let template = "{bar:24} {percent:>3}% {msg} [{elapsed}, {eta} left]";
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Watch { bar, cells, done: AtomicUsize::new(done), epochs }
    }

    fn see(&self, event: &Event) {
        match event {
            Event::Step(_, _, Advance::Epoch) => self.bar.inc(1),
            Event::Step(..) => {}
            Event::Note(note) => self.bar.suspend(|| note!("{note}")),
            Event::Done(record) => {
                // The epochs that early stopping saved.
                self.bar.inc(self.epochs.saturating_sub(record.epochs) as u64);
                let number = self.done.fetch_add(1, Ordering::Relaxed) + 1;
                let text = format!("training {number} of {}: {}", self.cells, line(record));
                match self.bar.is_hidden() {
                    true => progress!("{text}"),
                    false => self.bar.set_message(text),
                }
            }
        }
    }
}

fn line(record: &Record) -> String {
    let Record { cell, test_mse, valid_mse, epochs, seconds, .. } = record;
    match (test_mse, valid_mse) {
        (Some(test), Some(valid)) => {
            format!("{cell} test {test:.2e} valid {valid:.2e} epochs {epochs} {seconds:.1} s")
        }
        _ => format!("{cell} diverged: the loss became NaN after {epochs} epochs"),
    }
}
