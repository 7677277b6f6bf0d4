//! A disk in memory whose calls can fail, and whose power can be lost at any of them.
//!
//! Contents that were not synced may be lost, in part or whole, and so may each change of a name
//! since its folder was synced, in any combination; a rename may even have given the new name
//! without taking the old one. Journaling file systems are kinder than that.

use super::disk::Disk;
use drnn::random::Rng;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What happens at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It fails so, and nothing is done.
    Fails(ErrorKind),
    /// So do all calls after it.
    AllFail(ErrorKind),
    /// A write takes half of what it is given; the next call fails, because the disk is full.
    Short,
    /// Power is lost before it.
    LostBefore,
    /// Power is lost when it is done.
    LostAfter,
}

/// A name given to a file or taken from it.
#[derive(Debug, Clone)]
enum Change {
    Given(PathBuf, usize),
    Taken(PathBuf, usize),
    Renamed { from: PathBuf, to: PathBuf, file: usize },
}

#[derive(Debug, Clone, Default)]
struct File {
    contents: Vec<u8>,
    /// What a loss of power cannot take.
    synced: Vec<u8>,
}

type Names = BTreeMap<PathBuf, usize>;

#[derive(Debug, Default)]
struct State {
    files: Vec<File>,
    names: Names,
    /// As they were when the folder was synced.
    synced: Names,
    /// What has changed since.
    changes: Vec<Change>,
    calls: usize,
    fault: Option<(usize, Fault)>,
    lost: bool,
}

/// The disk. Copies are the same disk.
#[derive(Debug, Clone, Default)]
pub struct SimulatedDisk(Rc<RefCell<State>>);

/// A file that is being written.
pub struct SimulatedFile(SimulatedDisk, usize);

fn take(names: &mut Names, name: &Path, file: usize) {
    if names.get(name) == Some(&file) {
        names.remove(name);
    }
}

/// Makes a change; of a rename, where it is only `half` done, no more than the new name.
fn apply(change: &Change, half: bool, names: &mut Names) {
    match change {
        Change::Given(name, file) => drop(names.insert(name.clone(), *file)),
        Change::Taken(name, file) => take(names, name, *file),
        Change::Renamed { from, to, file } => {
            names.insert(to.clone(), *file);
            if !half {
                take(names, from, *file);
            }
        }
    }
}

impl State {
    fn change(&mut self, change: Change) {
        apply(&change, false, &mut self.names);
        self.changes.push(change);
    }

    fn find(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or(ErrorKind::NotFound.into())
    }
}

impl SimulatedDisk {
    /// Calls made so far.
    pub fn calls(&self) -> usize {
        self.0.borrow().calls
    }

    /// Lets `fault` happen at call `at`, counted from 0.
    pub fn inject(&self, at: usize, fault: Fault) {
        let mut state = self.0.borrow_mut();
        (state.calls, state.fault) = (0, Some((at, fault)));
    }

    /// Whether power was lost.
    pub fn is_lost(&self) -> bool {
        self.0.borrow().lost
    }

    /// Changes a file durably, without a call of the program; None removes it.
    pub fn set(&self, path: &Path, contents: Option<Vec<u8>>) {
        let mut state = self.0.borrow_mut();
        state.names.remove(path);
        if let Some(contents) = contents {
            state.files.push(File { synced: contents.clone(), contents });
            let file = state.files.len() - 1;
            state.names.insert(path.into(), file);
        }
        (state.synced, state.changes) = (state.names.clone(), Vec::new());
    }

    /// Its files, by name: which file, and what is in it.
    pub fn files(&self) -> BTreeMap<PathBuf, (usize, Vec<u8>)> {
        let state = self.0.borrow();
        let file = |(name, file): (&PathBuf, &usize)| {
            (name.clone(), (*file, state.files[*file].contents.clone()))
        };
        state.names.iter().map(file).collect()
    }

    /// The disk as it may be found when power is back, no call failing any more.
    pub fn after_loss(&self, rng: &mut Rng) -> SimulatedDisk {
        let state = self.0.borrow();
        let mut names = state.synced.clone();
        for change in &state.changes {
            match rng.below(4) {
                0 => {}
                1 => apply(change, true, &mut names),
                _ => apply(change, false, &mut names),
            }
        }
        let file = |file: &File| {
            let contents = match rng.below(4) {
                _ if file.contents == file.synced => file.synced.clone(),
                0 => file.synced.clone(),
                1 => file.contents[..rng.below(file.contents.len() + 1)].to_vec(),
                2 => vec![0; file.contents.len()],
                _ => file.contents.clone(),
            };
            File { synced: contents.clone(), contents }
        };
        let files = state.files.iter().map(file).collect();
        let synced = names.clone();
        SimulatedDisk(Rc::new(RefCell::new(State { files, names, synced, ..State::default() })))
    }

    /// Makes a call, unless it is to fail. A `Short` one is for [`Write::write`] to see to.
    fn call<T>(&self, act: impl FnOnce(&mut State, bool) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.0.borrow_mut();
        let number = state.calls;
        state.calls += 1;
        let fault = state.fault.filter(|(at, _)| *at <= number);
        let first = fault.is_some_and(|(at, _)| at == number);
        if state.lost {
            return Err(io::Error::other("power was lost"));
        }
        match fault.map(|(_, fault)| fault) {
            Some(Fault::Fails(kind)) if first => Err(kind.into()),
            Some(Fault::AllFail(kind)) => Err(kind.into()),
            Some(Fault::Short) if fault.is_some_and(|(at, _)| at + 1 == number) => {
                Err(ErrorKind::StorageFull.into())
            }
            Some(Fault::LostBefore) if first => {
                state.lost = true;
                Err(io::Error::other("power was lost"))
            }
            Some(Fault::LostAfter) if first => {
                let _ = act(&mut state, false);
                state.lost = true;
                Err(io::Error::other("power was lost"))
            }
            other => act(&mut state, first && other == Some(Fault::Short)),
        }
    }
}

impl Write for SimulatedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.call(|state, short| {
            let len = if short { bytes.len() / 2 } else { bytes.len() };
            state.files[self.1].contents.extend_from_slice(&bytes[..len]);
            Ok(len)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Disk for SimulatedDisk {
    type File = SimulatedFile;

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.call(|state, _| Ok(state.files[state.find(path)?].contents.clone()))
    }

    fn create_new(&self, path: &Path) -> io::Result<SimulatedFile> {
        self.call(|state, _| {
            if state.names.contains_key(path) {
                return Err(ErrorKind::AlreadyExists.into());
            }
            state.files.push(File::default());
            let file = state.files.len() - 1;
            state.change(Change::Given(path.into(), file));
            Ok(SimulatedFile(self.clone(), file))
        })
    }

    fn sync(&self, file: &SimulatedFile) -> io::Result<()> {
        self.call(|state, _| {
            let file = &mut state.files[file.1];
            file.synced = file.contents.clone();
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(|state, _| {
            let file = state.find(from)?;
            if state.names.get(to) == Some(&file) {
                return Ok(()); // as POSIX has it: two names of one file stay
            }
            state.change(Change::Renamed { from: from.into(), to: to.into(), file });
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.call(|state, _| {
            let file = state.find(path)?;
            state.change(Change::Taken(path.into(), file));
            Ok(())
        })
    }

    fn sync_folder_of(&self, _: &Path) -> io::Result<()> {
        self.call(|state, _| {
            (state.synced, state.changes) = (state.names.clone(), Vec::new());
            Ok(())
        })
    }
}
