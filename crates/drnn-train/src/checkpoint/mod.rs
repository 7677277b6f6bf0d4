//! Checkpoints: a training as a file, of which a good one is there at any moment.
//!
//! ```text
//! NAME             the newest
//! NAME.previous    the one before
//! NAME.new         one that is being written
//! ```
//!
//! A checkpoint is written to `NAME.new` and synced. Only then is `NAME`, if it is whole, renamed
//! to `NAME.previous`, and `NAME.new` to `NAME`; last the folder is synced. So whichever of these
//! calls fails, or is the last before power is lost, what was good before is good still, under
//! `NAME` or under `NAME.previous`. One that is damaged never takes the place of a good one, and no
//! two names are one file.
//!
//! | file | what |
//! |---|---|
//! | `format` | a checkpoint as bytes |
//! | `identity` | what it is of, and how that differs from the training that would continue it |
//! | `disk` | the calls of a file system that are made here |
//! | `simulated`, `faults` | tests: a disk whose calls fail and whose power is lost; what is left on it |

mod disk;
#[cfg(test)]
mod faults;
mod format;
mod identity;
#[cfg(test)]
mod simulated;

use crate::error::{Error, Result};
pub(crate) use disk::{Disk, RealDisk};
pub use format::Checkpoint;
pub(crate) use identity::Identity;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The newest good checkpoint of a training.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedCheckpoint {
    /// What it holds.
    pub checkpoint: Checkpoint,
    /// Where it is the previous one: what is wrong with the newest, and what is used instead.
    pub note: Option<String>,
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn previous(path: &Path) -> PathBuf {
    with_ending(path, ".previous")
}

/// Writes a checkpoint, keeping the one before. Where that fails the good ones stay.
pub(crate) fn write(disk: &impl Disk, path: &Path, checkpoint: &Checkpoint) -> Result<()> {
    // Before its bytes are made, so that there are not two in memory.
    let keep = disk.read(path).is_ok_and(|bytes| format::is_whole(&bytes));
    let bytes = checkpoint.to_bytes()?;
    let new = with_ending(path, ".new");
    let put = || -> io::Result<()> {
        // Never written over: after a loss of power it may be another name of a checkpoint.
        match disk.remove(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = disk.create_new(&new)?;
        file.write_all(&bytes)?;
        disk.sync(&file)?;
        drop(file);
        if keep {
            disk.rename(path, &previous(path))?;
        }
        disk.rename(&new, path)?;
        disk.sync_folder_of(path)
    };
    put().map_err(|e| {
        let _ = disk.remove(&new);
        let reason = match (e.kind(), path.parent()) {
            (io::ErrorKind::NotFound, Some(folder)) => {
                format!("there is no folder {}", folder.display())
            }
            _ => e.to_string(),
        };
        Error::checkpoint(path, format!("cannot be written: {reason}")).caused_by(e)
    })
}

/// Removes a checkpoint, and the one before: of a training that is done.
pub(crate) fn remove(path: &Path) {
    let _ = std::fs::remove_file(previous(path));
    let _ = std::fs::remove_file(path);
}

/// Removes what writes that were cut short have left in a folder of checkpoints. Only for who alone
/// writes there.
pub fn remove_unfinished(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // Before there were fixed names: `.tmp` and six letters or digits.
        let random = name.strip_prefix(".tmp");
        let random = random.is_some_and(|x| x.len() == 6 && x.chars().all(char::is_alphanumeric));
        if name.ends_with(".new") || random {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The newest good checkpoint; None where there is none at all. Refused where there are only
/// damaged ones, or where it is of another training than `training`.
pub(crate) fn read(
    disk: &impl Disk,
    path: &Path,
    training: &Identity,
) -> Result<Option<LoadedCheckpoint>> {
    let newest = match read_one(disk, path) {
        Ok(Some(checkpoint)) => {
            check_training(path, &checkpoint, training)?;
            return Ok(Some(LoadedCheckpoint { checkpoint, note: None }));
        }
        other => other.map(drop),
    };
    let older = previous(path);
    let is_missing = |path: &Path| Error::checkpoint(path, "is missing");
    match (newest, read_one(disk, &older)) {
        (Ok(()), Ok(None)) => Ok(None),
        (newest, Ok(Some(checkpoint))) => {
            check_training(&older, &checkpoint, training)?;
            let wrong = newest.err().unwrap_or_else(|| is_missing(path));
            let (older, progress) = (older.display(), &checkpoint.progress);
            let (epochs, batches) = (progress.history.len(), progress.batches);
            let note = format!(
                "{wrong}; {older} is used instead, written after {epochs} epochs and {batches} batches"
            );
            Ok(Some(LoadedCheckpoint { checkpoint, note: Some(note) }))
        }
        (newest, found) => Err(Error::NoGoodCheckpoint {
            newest: newest.err().unwrap_or_else(|| is_missing(path)).to_string(),
            previous: found.err().unwrap_or_else(|| is_missing(&older)).to_string(),
        }),
    }
}

/// The checkpoint of this very name; None where there is no such file.
fn read_one(disk: &impl Disk, path: &Path) -> Result<Option<Checkpoint>> {
    match disk.read(path) {
        Ok(bytes) => Checkpoint::from_bytes(path, &bytes).map(Some),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::checkpoint(path, format!("cannot be read: {e}")).caused_by(e)),
    }
}

fn check_training(path: &Path, checkpoint: &Checkpoint, training: &Identity) -> Result<()> {
    match training.difference(&checkpoint.training) {
        None => Ok(()),
        Some(difference) => {
            Err(Error::checkpoint(path, format!("is of another training: {difference}")))
        }
    }
}
