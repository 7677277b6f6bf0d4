//! Results of `drnn reproduce mlm`, `reversal`, `pos`, `sine` and `runtime` as records of tasks, where
//! they follow the paper's protocol. The provenance stays what the file says.

use super::record::{DataFile, Outcome, TaskProvenance, TaskRecord};
use super::task::{Device, Experiment, Protocol, Task, Vectors};
use crate::report::mlm::MlmResults;
use crate::report::pos::{Language, PosResults};
use crate::report::reversal::ReversalResults;
use crate::report::runtime::RuntimeResults;
use crate::report::{Provenance, Reported};
use drnn_train::sine::campaign::Gamma;
use drnn_train::sine::results::{Record, from_bytes, is_campaign};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Records, and a line on each training that is left out.
#[derive(Debug, Default)]
pub struct Imported {
    pub records: Vec<TaskRecord>,
    pub left_out: Vec<String>,
}

impl Imported {
    fn add(&mut self, record: TaskRecord) {
        match record.check() {
            Ok(_) => self.records.push(record),
            Err(why) => self.left_out.push(format!("{}: {why}", record.task)),
        }
    }

    /// A training with another seed than the task of its number has.
    fn is_repetition(&mut self, name: &str, repetition: usize) -> bool {
        if repetition > 0 {
            let why = "a later repetition, whose seed no task has";
            self.left_out.push(format!("{name}, repetition {repetition}: {why}"));
        }
        repetition > 0
    }
}

/// What is known of an imported run from elsewhere than its results file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known<'a> {
    /// Wall-clock time in seconds.
    pub took: Option<f64>,
    pub note: Option<&'a str>,
}

/// The name of an imported file, and what else is known of it.
type From<'a> = (&'a str, Known<'a>);

fn note((name, known): From) -> Option<String> {
    let more = known.note.map_or(String::new(), |note| format!("; {note}"));
    Some(format!("imported from {name}{more}"))
}

/// The records of a results file.
pub fn import(path: &Path, bytes: &[u8], known: Known) -> Result<Imported, String> {
    #[derive(Deserialize)]
    struct Head {
        kind: Option<String>,
    }
    // Its folder too, because many files are called mlm.json.
    let parts: Vec<_> = path.iter().rev().take(2).map(|part| part.to_string_lossy()).collect();
    let name = parts.into_iter().rev().collect::<Vec<_>>().join("/");
    let from = (name.as_str(), known);
    if is_campaign(bytes) {
        return sine(path, bytes, from);
    }
    let damaged = |e: serde_json::Error| format!("not a results file of drnn: {e}");
    let Head { kind } = serde_json::from_slice(bytes).map_err(damaged)?;
    match kind.as_deref() {
        Some(MlmResults::KIND) => Ok(mlm(&read(bytes)?, from)),
        Some(ReversalResults::KIND) => Ok(reversal(&read(bytes)?, from)),
        Some(PosResults::KIND) => pos(&read(bytes)?, from),
        Some(RuntimeResults::KIND) => runtime(bytes, from),
        kind => Err(format!(
            "results of kind {kind:?}; mlm, reversal, pos, runtime and the results.jsonl of sine can be \
             imported"
        )),
    }
}

fn read<R: Reported>(bytes: &[u8]) -> Result<R, String> {
    let results: R = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    results.check()?;
    Ok(results)
}

/// The provenance of one of `tasks` trainings, the longest of which took `longest` seconds.
fn provenance(of_run: &Provenance, from: From, tasks: usize, longest: f64) -> TaskProvenance {
    // A run that was resumed may have forgotten the time before.
    let seconds = from.1.took.unwrap_or(of_run.seconds.max(longest)) / tasks.max(1) as f64;
    TaskProvenance { seconds, note: note(from), ..TaskProvenance::of_run(of_run, tasks) }
}

/// Differences from the paper but for the number of repetitions, which a task does not have.
fn deviations(all: &[String]) -> Vec<String> {
    all.iter().filter(|text| !text.contains("repetition")).cloned().collect()
}

fn task(experiment: Experiment, seed: u64) -> Task {
    Task { protocol: Protocol::Paper, experiment, repetition: seed }
}

fn mlm(results: &MlmResults, from: From) -> Imported {
    let mut found = Imported::default();
    let longest = results.runs.iter().map(|run| run.seconds).fold(0.0, f64::max);
    for run in &results.runs {
        let Ok(row) = run.row.parse() else { continue };
        if found.is_repetition(&run.row, run.repetition) {
            continue;
        }
        let task = task(Experiment::Mlm(row), results.provenance.seed);
        let made = provenance(&results.provenance, from, results.runs.len(), longest);
        let (text, options) = (results.text.clone(), results.options);
        let bytes = text.characters as u64;
        let mut record =
            TaskRecord::new(&task, made, Outcome::Mlm { text, options, run: run.clone() });
        record.data = vec![DataFile { name: "text8".into(), bytes }];
        record.deviations = deviations(&results.deviations);
        found.add(record);
    }
    found
}

fn reversal(results: &ReversalResults, from: From) -> Imported {
    let mut found = Imported::default();
    let longest = results.runs.iter().map(|run| run.seconds).fold(0.0, f64::max);
    for run in &results.runs {
        let Ok(net) = run.net.parse() else { continue };
        if found.is_repetition(&run.net, run.repetition) {
            continue;
        }
        let task = task(Experiment::Reversal(net), results.provenance.seed);
        let made = provenance(&results.provenance, from, results.runs.len(), longest);
        let (setting, options) = (results.task, results.options);
        let outcome = Outcome::Reversal { setting, options, run: run.clone() };
        let mut record = TaskRecord::new(&task, made, outcome);
        record.deviations = deviations(&results.deviations);
        found.add(record);
    }
    found
}

fn pos(results: &PosResults, from: From) -> Result<Imported, String> {
    let mut found = Imported::default();
    let lang = Language::ALL.into_iter().find(|lang| lang.name() == results.lang);
    let lang = lang.ok_or_else(|| format!("language {:?}", results.lang))?;
    if results.provenance.command.contains("--vectors") {
        return Err("trained with vectors of a file, whose name the results do not have".into());
    }
    let longest = results.runs.iter().map(|run| run.seconds).fold(0.0, f64::max);
    for run in &results.runs {
        let pair = [run.chars, run.words];
        if found.is_repetition(&format!("{} / {}", run.chars, run.words), run.repetition) {
            continue;
        }
        let seed = results.provenance.seed;
        let task = task(Experiment::Pos(lang, pair, Vectors::Learned), seed);
        let made = provenance(&results.provenance, from, results.runs.len(), longest);
        let outcome = Outcome::Pos {
            lang,
            described: results.what.clone(),
            options: results.options,
            notes: results.notes.clone(),
            run: run.clone(),
        };
        let mut record = TaskRecord::new(&task, made, outcome);
        record.deviations = deviations(&results.deviations);
        found.add(record);
    }
    Ok(found)
}

/// Forward passes of all networks, perhaps next to those of other software.
fn runtime(bytes: &[u8], from: From) -> Result<Imported, String> {
    let results: RuntimeResults = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    let RuntimeResults { format, provenance: of_run, times, peer, .. } = results;
    if format != RuntimeResults::FORMAT {
        return Err(format!("results in format {format}, this program reads format 1"));
    }
    let mut found = Imported::default();
    let device = if of_run.gpu.is_some() { Device::Cuda } else { Device::Cpu };
    let made = provenance(&of_run, from, 1, 0.0);
    let outcome = Outcome::Runtime { times, peer };
    found.add(TaskRecord::new(&task(Experiment::Runtime(device), 1), made, outcome));
    Ok(found)
}

/// Frequencies and data sets of which every training is there.
fn sine(path: &Path, bytes: &[u8], from: From) -> Result<Imported, String> {
    let (protocol, records) = from_bytes(path, bytes).map_err(|e| e.to_string())?;
    let mut groups: BTreeMap<(u64, Gamma), Vec<Record>> = BTreeMap::new();
    for record in records.into_values() {
        groups.entry((record.cell.set, record.cell.gamma)).or_default().push(record);
    }
    let (mut found, tasks) = (Imported::default(), groups.len());
    for ((set, gamma), records) in groups {
        let machine = records.iter().find_map(|record| record.machine.clone());
        let threads: f64 = records.iter().map(|record| record.seconds).sum();
        let made = TaskProvenance {
            command: "drnn reproduce sine --full (results.jsonl)".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            commit: None,
            modified: None,
            seed: protocol.training.seed,
            // As a GPU is described: results.jsonl has no other trace of it.
            gpu: machine.as_ref().is_some_and(|name| name.contains("multiprocessors")),
            machine: machine.unwrap_or_else(|| "unknown".into()),
            threads: None,
            started: None,
            seconds: from.1.took.map_or(threads, |took| took / tasks as f64),
            concurrent: tasks,
            note: note(from),
        };
        let outcome = Outcome::Sine { protocol, records };
        found.add(TaskRecord::new(&task(Experiment::Sine(gamma), set), made, outcome));
    }
    Ok(found)
}
