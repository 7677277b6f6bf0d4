//! A campaign's folder.
//!
//! ```text
//! DIR/tasks/ID.json    a record for each task that is done, written at once
//! DIR/work/..          checkpoints of tasks in progress
//! ```
//!
//! A record is written by one rename, so several programs may work in one folder.

use super::record::TaskRecord;
use super::task::{Protocol, Task};
use crate::Failure;
use crate::files::paths::make_folder;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Bytes of a record; the longest, of a theorem, has about 50,000.
const MAX_RECORD: u64 = 1 << 24;
/// Levels of folders below `tasks`: `quick/pos/en/NETS/seed-1.json`.
const MAX_DEPTH: usize = 6;

/// The tasks that are done, by id.
pub struct Campaign {
    folder: PathBuf,
    pub records: BTreeMap<String, TaskRecord>,
}

/// What merging did.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Merged {
    pub added: usize,
    /// Tasks that both have with the same outcome.
    pub same: usize,
    /// Tasks that both have with different outcomes: a line on each.
    pub conflicts: Vec<String>,
}

impl Campaign {
    /// The records in a folder, which need not exist. Refused where one is damaged, or of another
    /// protocol than `protocol`.
    pub fn open(folder: &Path, protocol: Option<Protocol>) -> Result<Campaign, Failure> {
        let records = read_records(folder)?;
        if let Some(protocol) = protocol {
            check_protocol(folder, records.values(), protocol)?;
        }
        Ok(Campaign { folder: folder.to_path_buf(), records })
    }

    pub fn is_done(&self, task: &Task) -> bool {
        self.records.contains_key(&task.to_string())
    }

    /// Whether the task is done by now, perhaps by another program.
    pub fn is_done_now(&self, task: &Task) -> bool {
        self.is_done(task) || self.path(&task.to_string()).is_file()
    }

    /// The folder for a task in progress, or for several that run side by side.
    pub fn work(&self, name: &str) -> PathBuf {
        self.folder.join("work").join(name)
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.join("tasks").join(format!("{id}.json"))
    }

    /// Writes a record, whole or not at all.
    pub fn add(&mut self, record: TaskRecord) -> Result<(), Failure> {
        let path = self.path(&record.task);
        let refuse = |why: String| Failure::Input(format!("{}: {why}", path.display()));
        record.check().map_err(refuse)?;
        let text = serde_json::to_string(&record).map_err(std::io::Error::from)? + "\n";
        if let Some(folder) = path.parent() {
            make_folder(folder)?;
        }
        drnn::io::write_atomically(&path, |file| file.write_all(text.as_bytes()))
            .map_err(|e| Failure::Input(format!("{}: cannot be written: {e}", path.display())))?;
        self.records.insert(record.task.clone(), record);
        Ok(())
    }

    /// Adds the records that are not here yet.
    pub fn merge(&mut self, records: Vec<TaskRecord>) -> Result<Merged, Failure> {
        let mut merged = Merged::default();
        for record in records {
            match self.records.get(&record.task) {
                None => {
                    self.add(record)?;
                    merged.added += 1;
                }
                Some(mine) if record.replaces(mine) => {
                    self.add(record)?;
                    merged.added += 1;
                }
                Some(mine) if mine.agrees(&record) => merged.same += 1,
                Some(mine) => merged.conflicts.push(format!(
                    "{}: different outcomes, on {} ({}) and on {} ({}); the first is kept",
                    record.task,
                    mine.provenance.machine,
                    mine.provenance.started.as_deref().unwrap_or("time unknown"),
                    record.provenance.machine,
                    record.provenance.started.as_deref().unwrap_or("time unknown"),
                )),
            }
        }
        Ok(merged)
    }
}

/// Refuses records of another protocol: results of a trial are never mixed with the paper's.
fn check_protocol<'a>(
    folder: &Path,
    mut records: impl Iterator<Item = &'a TaskRecord>,
    protocol: Protocol,
) -> Result<(), Failure> {
    match records.find(|record| record.protocol != protocol) {
        None => Ok(()),
        Some(record) => {
            let (kind, expected) = match protocol {
                Protocol::Paper => ("a shrunken campaign (--quick)", "the paper's"),
                Protocol::Quick => ("the paper's campaign", "a shrunken one (--quick)"),
            };
            Err(Failure::Input(format!(
                "{}: has {}, which is of {kind}; {expected} needs a folder of its own",
                folder.display(),
                record.task
            )))
        }
    }
}

/// All records of a campaign's folder by their ids; none where there is no folder.
fn read_records(folder: &Path) -> Result<BTreeMap<String, TaskRecord>, Failure> {
    let tasks = folder.join("tasks");
    let mut paths = Vec::new();
    if tasks.is_dir() {
        collect(&tasks, MAX_DEPTH, &mut paths)?;
    }
    let mut records = BTreeMap::new();
    for path in paths {
        let refuse = |why: String| {
            let path = path.display();
            Failure::Input(format!("{path}: {why}; without this file the task is run again"))
        };
        let bytes = drnn::io::read_file(&path, MAX_RECORD)
            .map_err(|e| refuse(format!("cannot be read: {e}")))?;
        let record: TaskRecord = serde_json::from_slice(&bytes)
            .map_err(|e| refuse(format!("not a results file of a task: {e}")))?;
        let task = record.check().map_err(refuse)?;
        let expected = tasks.join(format!("{task}.json"));
        if expected != path {
            return Err(refuse(format!("contains task {task}, whose file has another name")));
        }
        records.insert(record.task.clone(), record);
    }
    Ok(records)
}

/// All JSON files in a folder and its folders.
fn collect(folder: &Path, depth: usize, to: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let refuse =
        |e: std::io::Error| Failure::Input(format!("{}: cannot be read: {e}", folder.display()));
    for entry in std::fs::read_dir(folder).map_err(refuse)? {
        let path = entry.map_err(refuse)?.path();
        if path.is_dir() {
            if depth > 1 {
                collect(&path, depth - 1, to)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "json") {
            to.push(path);
        }
    }
    Ok(())
}
