//! The results file of a campaign: a header line, then a line per cell.
//!
//! ```text
//! {"campaign":"drnn sine","format":1,"protocol":{..}}
//! {"set":0,"gamma":0.5,"ahead":5,"net":"dlstm-5","test_mse":..,..,"seconds":..}
//! ```
//!
//! Lines are only appended, each by one synced write, so a program that is killed can tear only the last
//! line. A torn line has no line end and is dropped when the file is read. Results of another protocol
//! are refused.
//!
//! Two results of one cell must agree in all but `seconds` and `machine`; then the quicker one is kept. So
//! [`merge`] does not depend on the order of its files.

use super::TAPS;
use super::campaign::{GridCell, Protocol};
use crate::error::{Error, Result};
use crate::optim::Reason;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// What is known of a cell once it has been trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Which.
    #[serde(flatten)]
    pub cell: GridCell,
    /// Mean squared error on the test set; None where the training ran away.
    pub test_mse: Option<f64>,
    /// And on the validation set, at the end.
    pub valid_mse: Option<f64>,
    /// Epochs trained.
    pub epochs: usize,
    /// Why it ended.
    pub reason: Reason,
    /// Of the network.
    pub parameters: usize,
    /// Of the filter and the sequences.
    pub set_seed: u64,
    /// Of the first parameters and the order of sequences.
    pub training_seed: u64,
    /// How long it took. This, and what follows, another run may find otherwise.
    pub seconds: f64,
    /// What it ran on, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
}

impl Record {
    /// Whether two runs found the same.
    pub fn agrees(&self, other: &Record) -> bool {
        let plain = |record: &Record| Record { seconds: 0.0, machine: None, ..record.clone() };
        plain(self) == plain(other)
    }

    /// Says what makes no sense.
    fn check(&self) -> std::result::Result<(), String> {
        let GridCell { ahead, .. } = self.cell;
        if ahead > TAPS {
            return Err(format!("ahead is {ahead}, expected 0 to {TAPS}"));
        }
        let errors = [("test_mse", self.test_mse), ("valid_mse", self.valid_mse)];
        for (name, value) in errors.into_iter().chain([("seconds", Some(self.seconds))]) {
            if let Some(value) = value.filter(|value| !(value.is_finite() && *value >= 0.0)) {
                return Err(format!("{name} is {value}"));
            }
        }
        Ok(())
    }
}

/// Results by cell, in the order of cells.
pub type Records = BTreeMap<GridCell, Record>;

/// The first line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Header {
    campaign: String,
    format: u32,
    protocol: Protocol,
}

impl Header {
    fn new(protocol: &Protocol) -> Header {
        Header { campaign: "drnn sine".into(), format: 1, protocol: *protocol }
    }
}

/// Whether a file that begins with `bytes` may be one of ours.
pub fn is_campaign(bytes: &[u8]) -> bool {
    bytes.starts_with(b"{\"campaign\":")
}

fn refuse(path: &Path, reason: impl ToString) -> Error {
    let (file, reason) = (path.display().to_string(), reason.to_string());
    Error::Results { file, reason, source: None }
}

fn unreadable(path: &Path, e: std::io::Error) -> Error {
    refuse(path, format!("cannot be read: {e}")).caused_by(e)
}

fn unwritable(path: &Path, e: std::io::Error) -> Error {
    refuse(path, format!("cannot be written: {e}")).caused_by(e)
}

fn line(value: &impl Serialize) -> std::io::Result<String> {
    Ok(serde_json::to_string(value)? + "\n")
}

/// Adds a record. Refused where it contradicts another one of its cell.
fn put(records: &mut Records, record: Record, path: &Path) -> Result<()> {
    match records.entry(record.cell) {
        Entry::Vacant(entry) => {
            entry.insert(record);
        }
        Entry::Occupied(mut entry) => {
            if !entry.get().agrees(&record) {
                return Err(refuse(
                    path,
                    format!(
                        "{} has two results that differ: test MSE {:?} and {:?}; leave one out",
                        record.cell,
                        entry.get().test_mse,
                        record.test_mse
                    ),
                ));
            }
            let rank = |r: &Record| (r.seconds, r.machine.clone());
            if rank(&record) < rank(entry.get()) {
                entry.insert(record);
            }
        }
    }
    Ok(())
}

/// What a file holds.
struct Contents {
    /// None where not even the first line is whole.
    protocol: Option<Protocol>,
    records: Records,
    /// Bytes up to the end of the last whole line.
    whole: usize,
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Contents> {
    let whole = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let mut contents = Contents { protocol: None, records: Records::new(), whole };
    for (number, line) in bytes[..whole].split_inclusive(|b| *b == b'\n').enumerate() {
        if number == 0 {
            let header: Header = serde_json::from_slice(line)
                .map_err(|_| refuse(path, "holds no results of a campaign"))?;
            let Header { campaign, format, protocol } = header;
            if campaign != "drnn sine" || format != 1 {
                let what = format!(
                    "holds results of `{campaign}` in format {format}; expected `drnn sine` in format 1"
                );
                return Err(refuse(path, what));
            }
            contents.protocol = Some(protocol);
            continue;
        }
        let damaged = |why: String| {
            let what = format!(
                "line {} is damaged ({why}); take it out, and its cell is trained again",
                number + 1
            );
            refuse(path, what)
        };
        let record: Record = serde_json::from_slice(line).map_err(|e| damaged(e.to_string()))?;
        record.check().map_err(damaged)?;
        put(&mut contents.records, record, path)?;
    }
    Ok(contents)
}

/// Bytes of a file of results; a campaign of the paper's size has a hundredth of it.
pub const MAX_RESULTS: u64 = 1 << 28;

/// Reads a file of results.
pub fn read(path: &Path) -> Result<(Protocol, Records)> {
    let bytes = drnn::io::read_file(path, MAX_RESULTS).map_err(|e| unreadable(path, e))?;
    from_bytes(path, &bytes)
}

/// What `bytes` of the file `path` hold.
pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<(Protocol, Records)> {
    let contents = parse(path, bytes)?;
    let protocol = contents.protocol.ok_or_else(|| refuse(path, "holds no results"))?;
    Ok((protocol, contents.records))
}

/// The results of several files of one campaign.
pub fn merge(paths: &[PathBuf]) -> Result<(Protocol, Records)> {
    let mut merged: Option<(Protocol, Records)> = None;
    for path in paths {
        let (protocol, records) = read(path)?;
        let (first, all) = merged.get_or_insert_with(|| (protocol, Records::new()));
        check_same(path, &protocol, first)?;
        for record in records.into_values() {
            put(all, record, path)?;
        }
    }
    merged.ok_or_else(|| Error::Options("no files to merge".into()))
}

fn check_same(path: &Path, there: &Protocol, here: &Protocol) -> Result<()> {
    if there == here {
        return Ok(());
    }
    let [there, here] = [there, here]
        .map(|protocol| serde_json::to_string(protocol).unwrap_or_else(|e| e.to_string()));
    let what = format!("holds results of another campaign:\n  there  {there}\n  here   {here}");
    Err(refuse(path, what))
}

/// Writes results in the order of cells, all at once.
pub fn write(path: &Path, protocol: &Protocol, records: &Records) -> Result<()> {
    let text = || -> std::io::Result<String> {
        let mut text = line(&Header::new(protocol))?;
        for record in records.values() {
            text += &line(record)?;
        }
        Ok(text)
    };
    text()
        .and_then(|text| drnn::io::write_atomically(path, |file| file.write_all(text.as_bytes())))
        .map_err(|e| unwritable(path, e))
}

/// A file of results that is being added to.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    file: File,
    protocol: Protocol,
    records: Records,
    torn: bool,
}

impl Results {
    /// Opens the results of a campaign, or begins them where there are none. The file is locked: two
    /// programs that add to one would train the same cells.
    pub fn open(path: &Path, protocol: &Protocol) -> Result<Results> {
        let fail = |e: std::io::Error| unwritable(path, e);
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(path).map_err(fail)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(refuse(path, "is being written by another program"));
            }
            // Where there are no locks it is for the user to take care.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        // Through this very handle: on some systems the lock keeps all others out.
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|e| unreadable(path, e))?;
        let Contents { protocol: found, records, whole } = parse(path, &bytes)?;
        let header = line(&Header::new(protocol)).map_err(fail)?;
        match found {
            Some(found) => check_same(path, &found, protocol)?,
            None if header.as_bytes().starts_with(&bytes) => {} // empty, or torn
            None => return Err(refuse(path, "holds no results of a campaign")),
        }
        file.set_len(whole as u64).map_err(fail)?;
        let (path, torn) = (path.to_path_buf(), whole < bytes.len());
        let mut results = Results { path, file, protocol: *protocol, records, torn };
        if found.is_none() {
            results.add(&header)?;
            let folder = results.path.parent().filter(|p| !p.as_os_str().is_empty());
            drnn::io::sync_folder(folder.unwrap_or(Path::new("."))).map_err(fail)?;
        }
        Ok(results)
    }

    /// Adds a result. A cell that is there already is left as it is.
    pub fn append(&mut self, record: Record) -> Result<()> {
        if self.records.contains_key(&record.cell) {
            return put(&mut self.records, record, &self.path);
        }
        let line = line(&record).map_err(|e| refuse(&self.path, e))?;
        self.add(&line)?;
        put(&mut self.records, record, &self.path)
    }

    /// One line, whole or not at all.
    fn add(&mut self, line: &str) -> Result<()> {
        let fail = |e: std::io::Error| unwritable(&self.path, e);
        let end = self.file.seek(SeekFrom::End(0)).map_err(fail)?;
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        if written.is_err() {
            let _ = self.file.set_len(end); // a disk that is full may have taken half of it
        }
        written.map_err(fail)
    }

    /// What all its results depend on.
    pub fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    /// What there is.
    pub fn records(&self) -> &Records {
        &self.records
    }

    /// Whether a last line was found torn, and dropped.
    pub fn was_torn(&self) -> bool {
        self.torn
    }
}
