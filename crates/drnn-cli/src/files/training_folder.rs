//! The folder that trainings write to, which no other program trains in meanwhile.

use crate::Failure;
use crate::console::{note, warning};
use crate::files::paths::make_folder;
use drnn_train::checkpoint;
use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Its process number is in this file, which stays when the training has ended.
const LOCK: &str = ".drnn.lock";

/// Keeps other trainings out of a folder while it lives. The system lets go of it whatever ends the
/// program.
pub struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Refused while another program has it.
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
        // Only for people: what counts is the lock.
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

/// Where a training writes its checkpoints, locked.
pub struct TrainingFolder {
    checkpoints: PathBuf,
    is_new: bool,
    _lock: FolderLock,
}

impl TrainingFolder {
    /// Makes `out`, and a folder for checkpoints in it, where there is none. What is there already
    /// is never overwritten by something else: refused with `found` where `out` has checkpoints, or
    /// any of `results`, unless the training is to `resume`.
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
                    "{}: {found}; go on with --resume, or choose another --out",
                    out.display()
                ))),
            }
        };
        check()?; // before anything is written
        make_folder(out)?;
        let lock = FolderLock::take(out)?;
        check()?; // another program may have been quicker
        make_folder(&checkpoints)?;
        checkpoint::remove_unfinished(&checkpoints);
        let is_new = std::fs::read_dir(&checkpoints).is_ok_and(|mut files| files.next().is_none());
        if resume && is_new {
            let folder = checkpoints.display();
            note!("{folder}: holds no checkpoints; starting from the beginning");
        }
        Ok(TrainingFolder { checkpoints, is_new, _lock: lock })
    }

    /// The folder for checkpoints.
    pub fn checkpoints(&self) -> &Path {
        &self.checkpoints
    }

    /// Whether it held none.
    pub fn is_new(&self) -> bool {
        self.is_new
    }
}
