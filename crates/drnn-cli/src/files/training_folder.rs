//! The output folder of a training, locked against other trainings.

use crate::Failure;
use crate::console::{note, warning};
use crate::files::paths::make_folder;
use drnn_train::checkpoint;
use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// The lock file. It contains the process id, and stays when the training has ended.
const LOCK: &str = ".drnn.lock";

/// Locks a folder until it is dropped. The system releases the lock however the program ends.
pub struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Refused while another program holds the lock.
    pub fn take(folder: &Path) -> Result<FolderLock, Failure> {
        let path = folder.join(LOCK);
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let mut file = options
            .open(&path)
            .map_err(|e| Failure::Input(format!("{}: cannot be written: {e}", path.display())))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(folder, &mut file)),
            Err(TryLockError::Error(e)) => warning!(
                "{}: cannot be locked ({e}); start no other training in this folder",
                path.display()
            ),
        }
        // For error messages only; the lock decides.
        let _ = file.set_len(0);
        let _ = file.write_all(format!("{}\n", std::process::id()).as_bytes());
        Ok(FolderLock { _file: file })
    }
}

fn in_use(folder: &Path, lock: &mut File) -> Failure {
    let mut text = String::new();
    let _ = lock.take(20).read_to_string(&mut text);
    let process = text.trim().parse::<u32>().map(|id| format!(" (process {id})"));
    Failure::Input(format!(
        "{}: is in use by another drnn training{}; wait until it ends, or choose another --out",
        folder.display(),
        process.unwrap_or_default()
    ))
}

/// A locked output folder with its folder for checkpoints.
pub struct TrainingFolder {
    checkpoints: PathBuf,
    is_new: bool,
    _lock: FolderLock,
}

impl TrainingFolder {
    /// Creates `out` and its folder for checkpoints if needed. An earlier training is never
    /// overwritten: if `out` has checkpoints or any of `results`, it is refused with the message
    /// `found`, unless `resume`.
    pub fn open(
        out: &Path,
        results: &[&str],
        found: &str,
        resume: bool,
    ) -> Result<TrainingFolder, Failure> {
        let checkpoints = out.join("checkpoints");
        let check = || {
            let used = checkpoints.exists() || results.iter().any(|name| out.join(name).exists());
            match used && !resume {
                false => Ok(()),
                true => Err(Failure::Input(format!(
                    "{}: {found}; continue it with --resume, or choose another --out",
                    out.display()
                ))),
            }
        };
        check()?; // before anything is written
        make_folder(out)?;
        let lock = FolderLock::take(out)?;
        check()?; // another program may have written in the meantime
        make_folder(&checkpoints)?;
        checkpoint::remove_unfinished(&checkpoints);
        let is_new = std::fs::read_dir(&checkpoints).is_ok_and(|mut files| files.next().is_none());
        if resume && is_new {
            let folder = checkpoints.display();
            note!("{folder}: has no checkpoints; starting from the beginning");
        }
        Ok(TrainingFolder { checkpoints, is_new, _lock: lock })
    }

    /// The folder for checkpoints.
    pub fn checkpoints(&self) -> &Path {
        &self.checkpoints
    }

    /// Whether it had no checkpoints.
    pub fn is_new(&self) -> bool {
        self.is_new
    }
}
