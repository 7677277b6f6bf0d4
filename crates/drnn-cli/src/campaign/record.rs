//! The results file of a task: what was found, by which command, on which data and machine.

use super::task::{Protocol, Task};
use crate::report::depth::CountedNetwork;
use crate::report::mlm::{self, MlmResults, Text};
use crate::report::pos::{self, Language, PosResults};
use crate::report::relax;
use crate::report::reversal::{self, ReversalResults, ReversalTask};
use crate::report::runtime::{ForwardTime, Peer};
use crate::report::theorem::{Entry, Solved};
use crate::report::{Provenance, Reported};
use drnn_train::Options;
use drnn_train::chars::{SHARE, WINDOW};
use drnn_train::sine::campaign::Protocol as SineProtocol;
use drnn_train::sine::results::Record as SineRecord;
use serde::{Deserialize, Serialize};

/// The contents of tasks/ID.json.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord {
    /// [`TaskRecord::KIND`].
    pub kind: String,
    /// [`TaskRecord::FORMAT`].
    pub format: u64,
    /// The id of the task.
    pub task: String,
    pub protocol: Protocol,
    /// Files that were read; none where data are generated.
    pub data: Vec<DataFile>,
    /// Differences from the paper, apart from the number of repetitions.
    pub deviations: Vec<String>,
    pub provenance: TaskProvenance,
    pub outcome: Outcome,
}

/// A file of a data set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataFile {
    pub name: String,
    pub bytes: u64,
}

/// How a record was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskProvenance {
    /// The command that makes it.
    pub command: String,
    pub version: String,
    /// None where the build did not know it.
    pub commit: Option<String>,
    /// Whether the sources differed from that commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<bool>,
    pub seed: u64,
    /// GPU and precision; or processor and instruction set.
    pub machine: String,
    /// Whether that is a GPU.
    pub gpu: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    /// Start time in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// The task's share of the wall-clock time: that of the run, divided by its tasks.
    pub seconds: f64,
    /// Tasks that ran side by side, this one included.
    pub concurrent: usize,
    /// Where the record was imported from, and what is known only from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "experiment", rename_all = "lowercase")]
pub enum Outcome {
    Theorem {
        networks: Vec<Entry>,
        solved: Vec<Solved>,
    },
    Depth {
        pairs_checked: usize,
        offsets: Vec<i16>,
        nets: Vec<CountedNetwork>,
    },
    Runtime {
        times: Vec<ForwardTime>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peer: Option<Peer>,
    },
    Reversal {
        setting: ReversalTask,
        options: Options,
        run: reversal::Run,
    },
    Sine {
        protocol: SineProtocol,
        records: Vec<SineRecord>,
    },
    Mlm {
        text: Text,
        options: Options,
        run: mlm::Run,
    },
    Pos {
        lang: Language,
        described: String,
        options: Options,
        notes: Vec<String>,
        run: pos::Run,
    },
    Relax {
        text: Text,
        options: Options,
        run: relax::Run,
    },
}

impl TaskRecord {
    pub const KIND: &'static str = "paper-task";
    pub const FORMAT: u64 = 1;

    pub fn new(task: &Task, provenance: TaskProvenance, outcome: Outcome) -> TaskRecord {
        TaskRecord {
            kind: TaskRecord::KIND.into(),
            format: TaskRecord::FORMAT,
            task: task.to_string(),
            protocol: task.protocol,
            data: Vec::new(),
            deviations: Vec::new(),
            provenance,
            outcome,
        }
    }

    /// Whether two runs of a task found the same; times and machines may differ.
    pub fn agrees(&self, other: &TaskRecord) -> bool {
        // As text, because NaN is not equal to itself.
        let plain = |record: &TaskRecord| serde_json::to_string(&record.outcome.without_times());
        self.task == other.task && matches!((plain(self), plain(other)), (Ok(a), Ok(b)) if a == b)
    }

    /// Whether it has all that another one of the task has, and times of other software too.
    pub fn replaces(&self, other: &TaskRecord) -> bool {
        let has_peer =
            |record: &TaskRecord| matches!(&record.outcome, Outcome::Runtime { peer: Some(_), .. });
        self.agrees(other) && has_peer(self) && !has_peer(other)
    }
}

impl TaskProvenance {
    /// From that of a run of several tasks.
    pub fn of_run(provenance: &Provenance, tasks: usize) -> TaskProvenance {
        let cpu = provenance.cpu.clone().unwrap_or_else(|| "unknown processor".into());
        TaskProvenance {
            command: provenance.command.clone(),
            version: provenance.version.clone(),
            commit: provenance.commit.clone(),
            modified: provenance.modified,
            seed: provenance.seed,
            gpu: provenance.gpu.is_some(),
            machine: provenance.gpu.clone().unwrap_or_else(|| format!("{cpu}, {}", provenance.isa)),
            threads: Some(provenance.threads),
            started: Some(provenance.started.clone()),
            seconds: provenance.seconds / tasks.max(1) as f64,
            concurrent: tasks,
            note: None,
        }
    }

    /// As that of a run, for the checks and reports of single experiments.
    fn of_record(&self) -> Provenance {
        Provenance {
            command: self.command.clone(),
            version: self.version.clone(),
            commit: self.commit.clone(),
            modified: self.modified,
            seed: self.seed,
            threads: self.threads.unwrap_or(0),
            isa: String::new(),
            cpu: (!self.gpu).then(|| self.machine.clone()),
            gpu: self.gpu.then(|| self.machine.clone()),
            started: self.started.clone().unwrap_or_default(),
            seconds: self.seconds,
        }
    }
}

impl Outcome {
    fn without_times(&self) -> Outcome {
        let mut outcome = self.clone();
        match &mut outcome {
            Outcome::Reversal { run, .. } => run.seconds = 0.0,
            Outcome::Mlm { run, .. } => run.seconds = 0.0,
            Outcome::Pos { run, .. } => run.seconds = 0.0,
            Outcome::Relax { run, .. } => run.arms.iter_mut().for_each(|arm| arm.seconds = 0.0),
            Outcome::Sine { records, .. } => records.iter_mut().for_each(|record| {
                (record.seconds, record.machine) = (0.0, None);
            }),
            // Another run measures other times, which contradict nothing.
            Outcome::Runtime { times, peer } => {
                times.iter_mut().for_each(|time| time.seconds.clear());
                *peer = None;
            }
            Outcome::Theorem { .. } | Outcome::Depth { .. } => {}
        }
        outcome
    }
}

/// The results of an experiment from records of it, in their order; None without records of it.
/// Runs have the seed as their repetition.
pub fn mlm_results(records: &[&TaskRecord]) -> Option<MlmResults> {
    let mut all: Option<MlmResults> = None;
    for record in records {
        let Outcome::Mlm { text, options, run } = &record.outcome else { continue };
        let results = all.get_or_insert_with(|| MlmResults {
            kind: MlmResults::KIND.into(),
            format: MlmResults::FORMAT,
            provenance: record.provenance.of_record(),
            text: text.clone(),
            window: WINDOW,
            masked: SHARE,
            options: *options,
            deviations: record.deviations.clone(),
            runs: Vec::new(),
        });
        let repetition = record.provenance.seed as usize;
        results.runs.push(mlm::Run { repetition, ..run.clone() });
    }
    all
}

/// The same for reversal.
pub fn reversal_results(records: &[&TaskRecord]) -> Option<ReversalResults> {
    let mut all: Option<ReversalResults> = None;
    for record in records {
        let Outcome::Reversal { setting, options, run } = &record.outcome else { continue };
        let results = all.get_or_insert_with(|| ReversalResults {
            kind: ReversalResults::KIND.into(),
            format: ReversalResults::FORMAT,
            provenance: record.provenance.of_record(),
            task: *setting,
            options: *options,
            deviations: record.deviations.clone(),
            runs: Vec::new(),
        });
        let repetition = record.provenance.seed as usize;
        results.runs.push(reversal::Run { repetition, ..run.clone() });
    }
    all
}

/// The same for taggers.
pub fn pos_results(records: &[&TaskRecord]) -> Option<PosResults> {
    let mut all: Option<PosResults> = None;
    for record in records {
        let Outcome::Pos { lang, described, options, notes, run } = &record.outcome else {
            continue;
        };
        let results = all.get_or_insert_with(|| PosResults {
            kind: PosResults::KIND.into(),
            format: PosResults::FORMAT,
            provenance: record.provenance.of_record(),
            lang: lang.name().into(),
            what: described.clone(),
            options: *options,
            deviations: record.deviations.clone(),
            notes: notes.clone(),
            runs: Vec::new(),
        });
        let repetition = record.provenance.seed as usize;
        results.runs.push(pos::Run { repetition, ..run.clone() });
    }
    all
}
