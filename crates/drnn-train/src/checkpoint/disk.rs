//! The few calls that checkpoints make of a file system. In tests a simulated disk takes its place,
//! whose calls fail and whose power is lost.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// A file system.
pub(crate) trait Disk {
    /// A file that is being written.
    type File: Write;

    /// All of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Makes a file; an error where there is one of this name.
    fn create_new(&self, path: &Path) -> io::Result<Self::File>;

    /// Returns when what was written will survive a loss of power, though perhaps not the file's
    /// name.
    fn sync(&self, file: &Self::File) -> io::Result<()>;

    /// Gives a file another name, taking that from the file that has it, in one step.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns when all names of the folder that holds `path` will survive a loss of power.
    fn sync_folder_of(&self, path: &Path) -> io::Result<()>;
}

/// The file system of this machine.
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    type File = File;

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn create_new(&self, path: &Path) -> io::Result<File> {
        File::create_new(path)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_folder_of(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
        drnn::io::sync_folder(folder.unwrap_or(Path::new(".")))
    }
}
