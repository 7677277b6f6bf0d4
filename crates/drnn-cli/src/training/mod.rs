//! Trainings while they run: progress bars on a terminal, otherwise a line per epoch, and a log of
//! JSON lines; checkpoints, Ctrl-C and --resume.

mod best;
pub mod kept;
pub mod place;
pub mod placed;
pub mod shown;
pub mod start;
pub mod stop;
pub mod tagger;
pub mod treebank;

use crate::Failure;
use crate::console::{self, note, progress, warning};
use crate::files::training_folder::TrainingFolder;
use crate::memory::Force;
use crate::report::page::duration;
use crate::training::place::{Place, PlaceArguments};
use crate::training::shown::{logged, train_text, valid_text};
use crate::training::stop::Stop;
use clap::Args;
use drnn::Cpu;
use drnn_train::lanes::{self, Control, Lane};
use drnn_train::{Advance, Engine, Error, Metric, Reason, Resumed, Schedule, Trainer};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Arguments of all commands that train: threads, device, checkpoints.
#[derive(Debug, Clone, Args)]
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
                Ok(Resumed::Newest) => note_schedule(&trainer),
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
        lanes.iter().enumerate().for_each(|(i, lane)| watch.begin(i, &lane.trainer));
        let outcome = lanes::run(&cpu, lanes, every, &|lane, trainer, done| {
            if done == Advance::Epoch {
                after_epoch(lane, trainer)?;
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

/// Says so where a training goes on to more epochs, over which its learning rate falls once more.
fn note_schedule<E: Engine>(trainer: &Trainer<E>) {
    let Some(last) = trainer.progress().history.last() else { return };
    if trainer.options().schedule == Schedule::Cosine && trainer.rate() > last.rate {
        note!(
            "the cosine schedule spans {} epochs from now on: the learning rate goes on at {:.2e}, \
             after {:.2e}",
            trainer.options().epochs,
            trainer.rate(),
            last.rate
        );
    }
}

/// Message on a folder with results of another run.
pub const EARLIER: &str = "there are results of an earlier run";

/// Called with the number of a lane and its training, after each of its epochs.
pub type AfterEpoch<'o, 'a, E> =
    dyn Fn(usize, &mut Trainer<'a, E>) -> drnn_train::Result<()> + Sync + 'o;

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
    /// Batches of each lane that were done when it was resumed.
    done_before: Vec<AtomicU64>,
    log: Mutex<File>,
    stop: Stop,
    begun: Instant,
    /// Seconds that the same trainings took before they were resumed.
    earlier: f64,
}

/// Batches of a training: done, and in all.
fn batches<E: Engine>(trainer: &Trainer<E>) -> [u64; 2] {
    let (per_epoch, progress) = (trainer.batches_per_epoch() as u64, trainer.progress());
    let done = progress.history.len() as u64 * per_epoch + progress.batches as u64;
    [done, trainer.options().epochs as u64 * per_epoch]
}

/// Seconds left, at the pace since the training began or was resumed; None before the first batch.
fn time_left(done_before: u64, [done, all]: [u64; 2], seconds: f64) -> Option<f64> {
    let now = done.checked_sub(done_before).filter(|now| *now > 0)?;
    Some(seconds / now as f64 * all.saturating_sub(done) as f64)
}

/// The wall-clock time in the last line of a log; 0 if there is none.
pub fn logged_seconds(log: &Path) -> f64 {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let line = text.lines().next_back().unwrap_or_default();
    let value: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
    value["wall_seconds"].as_f64().filter(|seconds| *seconds >= 0.0).unwrap_or(0.0)
}

impl Watch {
    /// For lanes of these names; appends to the file `log`.
    pub fn new(names: Vec<String>, metric: Metric, log: &Path) -> Result<Watch, Failure> {
        let stop = Stop::on_ctrl_c()?;
        let earlier = logged_seconds(log);
        let file = File::options().create(true).append(true).open(log);
        let file =
            file.map_err(|e| Failure::Input(format!("{}: cannot be written: {e}", log.display())))?;
        let bars = console::draws_bars().then(|| {
            let all = MultiProgress::new();
            let width = names.iter().map(String::len).max().unwrap_or(0);
            let template = "{prefix} {bar:24} {percent:>3}% {msg}";
            let style = ProgressStyle::with_template(template)
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = |name: &String| {
                let bar = ProgressBar::new(1).with_style(style.clone());
                all.add(bar.with_prefix(format!("{name:width$}")))
            };
            let bars = names.iter().map(bar).collect();
            (all, bars)
        });
        let done_before = names.iter().map(|_| AtomicU64::new(0)).collect();
        let (log, begun) = (Mutex::new(file), Instant::now());
        Ok(Watch { metric, names, bars, done_before, log, stop, begun, earlier })
    }

    /// Seconds that the same trainings took before they were resumed.
    pub fn earlier(&self) -> f64 {
        self.earlier
    }

    /// Called before a lane's first step, which may be in the middle of its training.
    fn begin<E: Engine>(&self, lane: usize, trainer: &Trainer<E>) {
        self.done_before[lane].store(batches(trainer)[0], Ordering::Relaxed);
    }

    /// Called after each step of a lane.
    fn see<E: Engine>(&self, lane: usize, trainer: &Trainer<E>, done: Advance) -> Control {
        let progress = trainer.progress();
        if let Some((_, bars)) = &self.bars {
            let [at, all] = batches(trainer);
            bars[lane].set_length(all);
            bars[lane].set_position(at);
            let (before, seconds) = (
                self.done_before[lane].load(Ordering::Relaxed),
                self.begun.elapsed().as_secs_f64(),
            );
            let left = time_left(before, [at, all], seconds)
                .map_or(String::new(), |left| format!(", {} left", duration(left)));
            let elapsed = duration(self.earlier + seconds);
            bars[lane].set_message(format!("{} [{elapsed}{left}]", self.quality(trainer)));
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

    /// The watched measure on the validation set after the last epoch.
    fn quality<E: Engine>(&self, trainer: &Trainer<E>) -> String {
        let last = trainer.progress().history.last();
        last.map_or(String::new(), |epoch| valid_text(self.metric, trainer.measure(), epoch))
    }

    fn report_epoch<E: Engine>(&self, lane: usize, trainer: &Trainer<E>) {
        let (progress, name) = (trainer.progress(), &self.names[lane]);
        let Some(epoch) = progress.history.last() else { return };
        let rate = trainer.sequences() as f64 * progress.history.len() as f64 / progress.seconds;
        let measure = trainer.measure();
        let line = format!(
            "{name} epoch {} of {}: {} {} norm {:.3} rate {:.2e} {rate:.0} sequences/s",
            epoch.epoch,
            trainer.options().epochs,
            train_text(measure, epoch),
            self.quality(trainer),
            epoch.norm,
            epoch.rate,
        );
        if self.bars.is_none() {
            progress!("{line}");
        }
        let mut value = logged(measure, epoch);
        let more = json!({
            "lane": name, "epoch": epoch.epoch, "norm": epoch.norm, "rate": epoch.rate,
            "sequences_per_second": rate, "seconds": progress.seconds, "ended": progress.ended,
            "wall_seconds": self.earlier + self.begun.elapsed().as_secs_f64(),
            "memory_bytes": trainer.memory(),
        });
        if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
            value.extend(more);
        }
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
    let words = crate::ARGUMENTS.get().into_iter().flatten().skip(1);
    let words = words.map(|word| quoted(word.to_string_lossy().into_owned()));
    let words = words.filter(|word| !["--resume", "--quiet", "-q"].contains(&word.as_str()));
    ["drnn".to_string()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 450 of 500 batches were done before; since then 10, in 3 seconds.
    #[test]
    fn what_was_done_before_does_not_shorten_the_time_left() {
        assert_eq!(time_left(450, [460, 500], 3.0), Some(12.0));
        assert_eq!(time_left(0, [100, 500], 3.0), Some(12.0));
        assert_eq!(time_left(450, [450, 500], 3.0), None);
    }

    #[test]
    fn the_time_that_a_log_has_counted() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log.jsonl");
        assert_eq!(logged_seconds(&log), 0.0);
        std::fs::write(&log, "{\"wall_seconds\":1.5}\n{\"wall_seconds\":2.5}\n").unwrap();
        assert_eq!(logged_seconds(&log), 2.5);
        std::fs::write(&log, "{\"epoch\":1}\nhalf a li").unwrap();
        assert_eq!(logged_seconds(&log), 0.0);
    }
}
