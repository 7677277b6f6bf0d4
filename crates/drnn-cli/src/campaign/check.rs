//! Whether a record is what its id says, by the protocol that it names. Records may come from other
//! machines, older programs and text editors.

use super::plan::SINE_AHEADS;
use super::record::{Outcome, TaskRecord, mlm_results, pos_results, reversal_results};
use super::task::{Device, Experiment, Protocol, Task, Vectors};
use crate::report::Reported;
use crate::report::runtime;
use crate::report::sine::SineResults;
use drnn_train::chars::paper::{ROWS, Size};
use drnn_train::sine::campaign::Protocol as SineProtocol;
use drnn_train::sine::results::Records;
use drnn_train::{Options, Stopping};

/// Characters of the validation and of the test set of text8, as the paper splits it.
const HELD: usize = 5_000_000;

/// The paper's options of each experiment; the seed is another one in each task.
pub fn paper_options(experiment: &Experiment) -> Options {
    let plain = Options { stopping: Stopping::default(), ..Options::default() };
    match experiment {
        Experiment::Mlm(_) => Options { epochs: 20, batch: 128, ..plain },
        Experiment::Pos(..) => Options { epochs: 20, batch: 32, ..plain },
        Experiment::Reversal(_) => {
            let stopping = Stopping { patience: Some(10), min_delta: 1e-3, at_value: None };
            Options { stopping, ..plain }
        }
        Experiment::Sine(_) => SineProtocol::default().training,
        Experiment::Relax(stack) => stack.options(),
        Experiment::Theorem | Experiment::Depth | Experiment::Runtime(_) => plain,
    }
}

impl TaskRecord {
    /// The task of the record, where everything agrees with it.
    pub fn check(&self) -> Result<Task, String> {
        if self.kind != TaskRecord::KIND {
            return Err(format!(
                "results of kind {:?}; expected {:?}",
                self.kind,
                TaskRecord::KIND
            ));
        }
        if self.format != TaskRecord::FORMAT {
            let (found, known) = (self.format, TaskRecord::FORMAT);
            return Err(format!("results in format {found}, this program reads format {known}"));
        }
        let task: Task = self.task.parse()?;
        if self.protocol != task.protocol {
            return Err(format!("protocol {:?} in task {task}", self.protocol));
        }
        let seconds = self.provenance.seconds;
        if !(seconds.is_finite() && seconds >= 0.0) {
            return Err(format!("{seconds} seconds"));
        }
        self.check_outcome(&task)?;
        if task.protocol == Protocol::Paper {
            self.check_protocol(&task)?;
        }
        Ok(task)
    }

    /// Whether the outcome is that of the task, with sensible values.
    fn check_outcome(&self, task: &Task) -> Result<(), String> {
        let other = || Err(format!("the outcome is not that of task {task}"));
        let seed = self.provenance.seed;
        if seed != task.repetition && !matches!(task.experiment, Experiment::Sine(_)) {
            return Err(format!("seed {seed} in task {task}"));
        }
        let records = [self];
        match (&task.experiment, &self.outcome) {
            (Experiment::Theorem, Outcome::Theorem { networks, .. }) if !networks.is_empty() => {
                Ok(())
            }
            (Experiment::Depth, Outcome::Depth { offsets, nets, .. }) => {
                let whole = |numbers: &[Option<usize>]| numbers.len() == offsets.len();
                match nets.iter().all(|net| whole(&net.longest) && whole(&net.shortest)) {
                    true if !nets.is_empty() => Ok(()),
                    _ => other(),
                }
            }
            (Experiment::Runtime(device), Outcome::Runtime { times, peer }) => {
                if times.is_empty() || self.provenance.gpu != (*device == Device::Cuda) {
                    return other();
                }
                runtime::check(times, peer.as_ref())
            }
            (Experiment::Reversal(net), Outcome::Reversal { run, .. }) => {
                match run.net == net.to_string() {
                    true => reversal_results(&records).map_or(Ok(()), |results| results.check()),
                    false => other(),
                }
            }
            (Experiment::Mlm(row), Outcome::Mlm { run, .. }) => match run.row == row.to_string() {
                true => mlm_results(&records).map_or(Ok(()), |results| results.check()),
                false => other(),
            },
            (Experiment::Pos(lang, pair, _), Outcome::Pos { lang: of, run, .. }) => {
                match lang == of && [run.chars, run.words] == *pair {
                    true => pos_results(&records).map_or(Ok(()), |results| results.check()),
                    false => other(),
                }
            }
            (Experiment::Sine(_), Outcome::Sine { .. }) => self.check_sine(task),
            (Experiment::Relax(stack), Outcome::Relax { run, .. }) => {
                match run.check()? == *stack {
                    true => Ok(()),
                    false => other(),
                }
            }
            _ => other(),
        }
    }

    fn check_sine(&self, task: &Task) -> Result<(), String> {
        let (Experiment::Sine(gamma), Outcome::Sine { protocol, records }) =
            (task.experiment, &self.outcome)
        else {
            return Ok(());
        };
        let cells: Records = records.iter().map(|record| (record.cell, record.clone())).collect();
        if cells.len() != records.len() {
            return Err("a training is given twice".into());
        }
        let elsewhere = |cell: &drnn_train::sine::campaign::GridCell| {
            cell.gamma != gamma || cell.set != task.repetition
        };
        if let Some(cell) = cells.keys().find(|cell| elsewhere(cell)) {
            return Err(format!("{cell} is not of task {task}"));
        }
        SineResults::new(protocol, &cells).check()
    }

    /// Whether it was made by the paper's protocol.
    fn check_protocol(&self, task: &Task) -> Result<(), String> {
        let (options, complete) = match &self.outcome {
            Outcome::Mlm { text, options, .. } => {
                let quick =
                    matches!(task.experiment, Experiment::Mlm(row) if row.size == Size::Quick);
                let held = text.used[1..] == [HELD; 2];
                (options, held && text.characters == text.used.iter().sum::<usize>() && !quick)
            }
            Outcome::Reversal { setting, options, .. } => {
                (options, [setting.train, setting.valid, setting.test] == [10_000, 2_000, 2_000])
            }
            Outcome::Sine { protocol, records } => {
                let trainings = 4 * SINE_AHEADS.len();
                let whole = records.len() == trainings
                    && protocol.sequences == SineProtocol::default().sequences;
                (&protocol.training, whole)
            }
            Outcome::Relax { text, options, run } => (options, run.check()?.is_whole(text, HELD)),
            Outcome::Pos { options, .. } => {
                let glove = self.data.iter().any(|file| file.name.starts_with("glove"));
                let expected = matches!(task.experiment, Experiment::Pos(.., Vectors::Glove));
                (options, glove == expected)
            }
            Outcome::Runtime { times, .. } => {
                let all =
                    ROWS.iter().all(|row| times.iter().any(|time| time.row == row.to_string()));
                return if all { Ok(()) } else { Err("not all networks of the table".into()) };
            }
            Outcome::Theorem { .. } | Outcome::Depth { .. } => return Ok(()),
        };
        let paper = Options { seed: options.seed, ..paper_options(&task.experiment) };
        if *options != paper {
            let text = |options: &Options| serde_json::to_string(options).unwrap_or_default();
            return Err(format!(
                "not the paper's options: {} instead of {}",
                text(options),
                text(&paper)
            ));
        }
        if !complete {
            return Err("not the paper's data, or not all of it".into());
        }
        Ok(())
    }
}
