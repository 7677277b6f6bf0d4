//! What is seen of a training while it goes on: progress bars on a terminal, otherwise a line per epoch;
//! everything as JSON lines in a file.

use crate::Failure;
use crate::stop::Stop;
use drnn::Cpu;
use drnn_train::lanes::Control;
use drnn_train::{Advance, Fit, Reason};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::json;
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::Mutex;

/// What trainings run on: as the environment says, with `threads` where that is said.
pub fn cpu(threads: Option<u16>) -> Result<Cpu, Failure> {
    let cpu = Cpu::from_env()?;
    Ok(threads.map_or(cpu.clone(), |threads| cpu.with_threads(threads.into())))
}

/// Watches lanes.
pub struct Watch {
    names: Vec<String>,
    bars: Option<(MultiProgress, Vec<ProgressBar>)>,
    log: Mutex<File>,
    stop: Stop,
}

impl Watch {
    /// Lanes of these names; what there is to know goes to `log`, behind what it holds.
    pub fn new(names: Vec<String>, log: &Path, stop: Stop) -> Result<Watch, Failure> {
        let file = File::options().create(true).append(true).open(log);
        let file =
            file.map_err(|e| Failure::Input(format!("{}: cannot be written: {e}", log.display())))?;
        let bars = std::io::stderr().is_terminal().then(|| {
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
        Ok(Watch { names, bars, log: Mutex::new(file), stop })
    }

    /// Sees what a lane has done.
    pub fn see(&self, lane: usize, fit: &Fit, done: Advance) -> Control {
        let (progress, options) = (fit.progress(), fit.options());
        if let Some((_, bars)) = &self.bars {
            let per_epoch = fit.batches_per_epoch() as u64;
            let at = progress.history.len() as u64 * per_epoch + progress.batches as u64;
            bars[lane].set_length(options.epochs as u64 * per_epoch);
            bars[lane].set_position(at);
            if let Advance::Ended(_) = done {
                bars[lane].finish();
            }
        }
        if done == Advance::Epoch {
            self.tell_epoch(lane, fit);
        }
        if done == Advance::Ended(Reason::NotFinite) {
            let (name, epoch) = (&self.names[lane], progress.history.len() + 1);
            let say = format!(
                "{name} epoch {epoch}: the loss is no number any more; a lower learning rate may help. Its last \
                 good checkpoint stays, the others go on"
            );
            match &self.bars {
                Some((all, _)) => drop(all.println(say)),
                None => eprintln!("{say}"),
            }
        }
        if self.stop.pressed() { Control::Stop } else { Control::Continue }
    }

    fn tell_epoch(&self, lane: usize, fit: &Fit) {
        let (progress, name) = (fit.progress(), &self.names[lane]);
        let Some(epoch) = progress.history.last() else { return };
        let rate = fit.sequences() as f64 * progress.history.len() as f64 / progress.seconds;
        let line = format!(
            "{name} epoch {} of {}: train {:.4} valid {:.4} norm {:.3} rate {:.2e} {rate:.0} sequences/s",
            epoch.epoch,
            fit.options().epochs,
            epoch.train_loss,
            epoch.valid_loss,
            epoch.norm,
            epoch.rate,
        );
        match &self.bars {
            Some((_, bars)) => bars[lane].set_message(format!("valid {:.4}", epoch.valid_loss)),
            None => eprintln!("{line}"),
        }
        let value = json!({
            "lane": name, "epoch": epoch.epoch, "train_loss": epoch.train_loss,
            "valid_loss": epoch.valid_loss, "norm": epoch.norm, "rate": epoch.rate,
            "sequences_per_second": rate, "seconds": progress.seconds, "ended": progress.ended,
            "memory_bytes": fit.memory(),
        });
        // A log that cannot be written is no reason to stop a training.
        let mut log = self.log.lock().unwrap_or_else(|p| p.into_inner());
        let _ = log.write_all(format!("{value}\n").as_bytes());
    }

    /// Takes the bars away.
    pub fn finish(&self) {
        if let Some((all, _)) = &self.bars {
            let _ = all.clear();
        }
    }

    /// Whether Ctrl-C ended it.
    pub fn stopped(&self) -> bool {
        self.stop.pressed()
    }
}
