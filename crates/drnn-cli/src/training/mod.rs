//! Trainings while they run: progress bars on a terminal, otherwise a line per epoch, and a log of
//! JSON lines; checkpoints, Ctrl-C and --resume.

pub mod place;
pub mod stop;
pub mod treebank;

use crate::Failure;
use crate::console::{self, progress, warning};
use crate::files::training_folder::TrainingFolder;
use crate::memory::Force;
use crate::training::place::{Place, PlaceArguments};
use crate::training::stop::Stop;
use clap::Args;
use drnn::Cpu;
use drnn_train::lanes::{self, Control, Lane};
use drnn_train::{Advance, Engine, Error, Metric, Reason, Resumed, Trainer};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// Arguments of all commands that train: threads, device, checkpoints.
#[derive(Debug, Args)]
pub struct Running {
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Minutes between checkpoints within an epoch; there is always one at its end
    #[arg(long, value_name = "MINUTES", default_value_t = 2.0, value_parser = minutes)]
    pub checkpoint_every: f64,
    /// Continue from the checkpoints in the output folder
    #[arg(long)]
    pub resume: bool,
    #[command(flatten)]
    pub place: PlaceArguments,
    #[command(flatten)]
    pub force: Force,
}

/// Options that reduce the memory of a training.
pub const LESS: &str = "fewer --units or a smaller --batch";

/// Parses a time in minutes.
pub fn minutes(text: &str) -> Result<f64, String> {
    let minutes: f64 = text.parse().map_err(|e| format!("{e}"))?;
    match (0.0..=1e6).contains(&minutes) {
        true => Ok(minutes),
        false => Err("expected minutes, at most 1e6".into()),
    }
}

/// Parses a learning rate. One that is too high shows in the training.
pub fn rate(text: &str) -> Result<f32, String> {
    let rate: f32 = text.parse().map_err(|e| format!("{e}"))?;
    if rate > 0.0 && rate.is_finite() { Ok(rate) } else { Err("expected a number above 0".into()) }
}

/// The CPU as the environment configures it, with `threads` threads if given.
pub fn cpu(threads: Option<u16>) -> Result<Cpu, Failure> {
    let cpu = Cpu::from_env()?;
    Ok(threads.map_or(cpu.clone(), |threads| cpu.with_threads(threads.into())))
}

impl Running {
    /// Locks the folder `out`. If it has checkpoints or any of `results`, it is refused with the
    /// message `found`, unless `--resume` was given.
    pub fn folder(
        &self,
        out: &Path,
        results: &[&str],
        found: &str,
    ) -> Result<TrainingFolder, Failure> {
        TrainingFolder::open(out, results, found, self.resume)
    }

    /// A training as a lane, resumed from its checkpoint in `folder` with `--resume`.
    pub fn lane<'a, E: Engine>(
        &self,
        mut trainer: Trainer<'a, E>,
        folder: &TrainingFolder,
        name: &str,
    ) -> Result<Lane<'a, E>, Failure> {
        let path = folder.checkpoints().join(name);
        if self.resume {
            match trainer.resume(&path) {
                Ok(Resumed::Newest) => {}
                Ok(Resumed::Previous(note)) => warning!("{note}"),
                Ok(Resumed::NoCheckpoint) if folder.is_new() => {}
                Ok(Resumed::NoCheckpoint) => warning!(
                    "{}: is missing; this training starts from the beginning",
                    path.display()
                ),
                Err(error @ Error::NoGoodCheckpoint { .. }) => {
                    return Err(Failure::Input(format!("{error}, or choose another --out")));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Lane { trainer, checkpoint: Some(path) })
    }

    /// Trains all lanes to their ends. `again` is the command to resume with; `after_epoch` is called
    /// after each epoch of a lane.
    pub fn run<'a, E: Engine>(
        &self,
        cpu: &Cpu,
        place: &Place,
        lanes: &mut [Lane<'a, E>],
        watch: &Watch,
        again: &str,
        after_epoch: &AfterEpoch<'_, 'a, E>,
    ) -> Result<(), Failure> {
        let every = Duration::from_secs_f64(self.checkpoint_every * 60.0);
        let cpu = cpu.with_threads(place.threads(cpu, lanes.len()));
        let outcome = lanes::run(&cpu, lanes, every, &|lane, trainer, done| {
            if done == Advance::Epoch {
                after_epoch(trainer)?;
            }
            Ok(watch.see(lane, trainer, done))
        });
        watch.finish();
        outcome.map_err(|error| match error {
            Error::Checkpoint { .. } => Failure::Input(format!(
                "{error}\nearlier checkpoints are intact; to continue: {again} --resume"
            )),
            other => other.into(),
        })?;
        match watch.stop.pressed() {
            true => Err(Failure::Interrupted(format!("stopped; to continue: {again} --resume"))),
            false => Ok(()),
        }
    }
}

/// Message on a folder with results of another run.
pub const EARLIER: &str = "there are results of an earlier run";

/// Called after each epoch of a training.
pub type AfterEpoch<'o, 'a, E> = dyn Fn(&mut Trainer<'a, E>) -> drnn_train::Result<()> + Sync + 'o;

/// Fails with the names of the lanes whose loss became NaN, if there are any.
pub fn check_finite<'a>(diverged: impl Iterator<Item = &'a str>) -> Result<(), Failure> {
    match diverged.collect::<Vec<_>>().as_slice() {
        [] => Ok(()),
        names => Err(Failure::Check(format!("the loss became NaN in {}", names.join(", ")))),
    }
}

/// Shows the progress of lanes and writes their log.
pub struct Watch {
    metric: Metric,
    names: Vec<String>,
    bars: Option<(MultiProgress, Vec<ProgressBar>)>,
    log: Mutex<File>,
    stop: Stop,
}

impl Watch {
    /// For lanes of these names; appends to the file `log`.
    pub fn new(names: Vec<String>, metric: Metric, log: &Path) -> Result<Watch, Failure> {
        let stop = Stop::on_ctrl_c()?;
        let file = File::options().create(true).append(true).open(log);
        let file =
            file.map_err(|e| Failure::Input(format!("{}: cannot be written: {e}", log.display())))?;
        let bars = console::draws_bars().then(|| {
            let all = MultiProgress::new();
            let width = names.iter().map(String::len).max().unwrap_or(0);
            let template = "{prefix} {bar:24} {percent:>3}% {msg} [{elapsed}, {eta} left]";
            let style = ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = |name: &String| {
                let bar = ProgressBar::new(1).with_style(style.clone());
                all.add(bar.with_prefix(format!("{name:width$}")))
            };
            let bars = names.iter().map(bar).collect();
            (all, bars)
        });
        Ok(Watch { metric, names, bars, log: Mutex::new(file), stop })
    }

    /// Called after each step of a lane.
    fn see<E: Engine>(&self, lane: usize, trainer: &Trainer<E>, done: Advance) -> Control {
        let (progress, options) = (trainer.progress(), trainer.options());
        if let Some((_, bars)) = &self.bars {
            let per_epoch = trainer.batches_per_epoch() as u64;
            let at = progress.history.len() as u64 * per_epoch + progress.batches as u64;
            bars[lane].set_length(options.epochs as u64 * per_epoch);
            bars[lane].set_position(at);
            if let Advance::Ended(_) = done {
                bars[lane].finish();
            }
        }
        if done == Advance::Epoch {
            self.report_epoch(lane, trainer);
        }
        if done == Advance::Ended(Reason::NotFinite) {
            let (name, epoch) = (&self.names[lane], progress.history.len() + 1);
            let text = format!(
                "warning: {name} epoch {epoch}: the loss became NaN; a lower --rate may help. Its last good \
                 checkpoint stays, other trainings continue"
            );
            match &self.bars {
                Some((all, _)) => drop(all.println(text)),
                None => eprintln!("{text}"),
            }
        }
        if self.stop.pressed() { Control::Stop } else { Control::Continue }
    }

    fn report_epoch<E: Engine>(&self, lane: usize, trainer: &Trainer<E>) {
        let (progress, name) = (trainer.progress(), &self.names[lane]);
        let Some(epoch) = progress.history.last() else { return };
        let rate = trainer.sequences() as f64 * progress.history.len() as f64 / progress.seconds;
        let quality = match (self.metric, epoch.valid_accuracy) {
            (Metric::Accuracy, Some(accuracy)) => format!(" accuracy {accuracy:.4}"),
            (Metric::Bits, _) => format!(" bits {:.4}", epoch.valid_loss / std::f64::consts::LN_2),
            _ => String::new(),
        };
        let line = format!(
            "{name} epoch {} of {}: train {:.4} valid {:.4}{quality} norm {:.3} rate {:.2e} {rate:.0} sequences/s",
            epoch.epoch,
            trainer.options().epochs,
            epoch.train_loss,
            epoch.valid_loss,
            epoch.norm,
            epoch.rate,
        );
        match &self.bars {
            Some((_, bars)) => {
                bars[lane].set_message(format!("valid {:.4}{quality}", epoch.valid_loss));
            }
            None => progress!("{line}"),
        }
        let value = json!({
            "lane": name, "epoch": epoch.epoch, "train_loss": epoch.train_loss,
            "valid_loss": epoch.valid_loss, "valid_accuracy": epoch.valid_accuracy, "norm": epoch.norm, "rate": epoch.rate,
            "sequences_per_second": rate, "seconds": progress.seconds, "ended": progress.ended,
            "memory_bytes": trainer.memory(),
        });
        // A log that cannot be written does not stop a training.
        let mut log = self.log.lock().unwrap_or_else(|p| p.into_inner());
        let _ = log.write_all(format!("{value}\n").as_bytes());
    }

    /// Removes the bars.
    fn finish(&self) {
        if let Some((all, _)) = &self.bars {
            let _ = all.clear();
        }
    }
}

/// The command line, without options that do not change the result.
pub fn command() -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=".contains(c);
    let quoted = |word: String| match word.chars().all(plain) && !word.is_empty() {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    let words = std::env::args_os().skip(1).map(|word| quoted(word.to_string_lossy().into_owned()));
    let words = words.filter(|word| !["--resume", "--quiet", "-q"].contains(&word.as_str()));
    ["drnn".to_string()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}
