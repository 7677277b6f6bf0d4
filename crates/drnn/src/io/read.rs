//! Files read within limits.
//!
//! | what a path names | what is read |
//! |---|---|
//! | a regular file | what it holds when it is opened, not what is added meanwhile |
//! | a pipe, a terminal, a socket, a file of no known length | all of it, up to a limit |
//! | a folder, a device (`/dev/zero` has no end) | nothing: an error |

use crate::error::Result;
use crate::io::file::{in_file, refuse_because};
use crate::io::format::{START, sniff};
use crate::io::limits::MAX_STREAM;
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Read};
use std::path::Path;

/// Opens a file to be read: the file, and its length where it is a regular one.
pub fn open_file(path: &Path) -> io::Result<(File, Option<u64>)> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::Error::new(ErrorKind::IsADirectory, "it is a folder, not a file"));
    }
    if is_device(&metadata) && !file.is_terminal() {
        let why = "it is a device, which may have no end; expected a file or a pipe";
        return Err(io::Error::new(ErrorKind::InvalidInput, why));
    }
    // Some files of the system, as in /proc, say that they are empty and are not.
    let len = Some(metadata.len()).filter(|len| metadata.is_file() && *len > 0);
    Ok((file, len))
}

#[cfg(unix)]
fn is_device(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_char_device() || metadata.file_type().is_block_device()
}

#[cfg(not(unix))]
fn is_device(_: &std::fs::Metadata) -> bool {
    false
}

/// Reads all of a file that has at most `max` bytes.
pub fn read_file(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let (mut file, len) = open_file(path)?;
    let mut bytes = Vec::new();
    read_rest(&mut file, len, max, &mut bytes)?;
    Ok(bytes)
}

fn read_rest(file: &mut File, len: Option<u64>, max: u64, bytes: &mut Vec<u8>) -> io::Result<()> {
    let too_long = || {
        let why = format!("it has more than {max} bytes, the most that are read here");
        Err(io::Error::new(ErrorKind::FileTooLarge, why))
    };
    if len.is_some_and(|len| len > max) {
        return too_long();
    }
    let before = bytes.len() as u64;
    // One byte more shows whether a stream ends here or goes on.
    let limit = len.unwrap_or(max.saturating_add(1));
    file.take(limit.saturating_sub(before)).read_to_end(bytes)?;
    if bytes.len() as u64 > max { too_long() } else { Ok(()) }
}

/// Reads a model file of any [`Format`](crate::io::Format). What does not begin like one is refused,
/// by what it is, before the rest of it is read.
pub fn read_model_file(path: &Path) -> Result<Vec<u8>> {
    let cannot = |e: io::Error| in_file(refuse_because(format!("cannot be read: {e}"), e), path);
    let (mut file, len) = open_file(path).map_err(cannot)?;
    let mut bytes = Vec::new();
    file.by_ref().take(START as u64).read_to_end(&mut bytes).map_err(cannot)?;
    sniff(&bytes).map_err(|e| in_file(e, path))?;
    read_rest(&mut file, len, len.unwrap_or(MAX_STREAM), &mut bytes).map_err(cannot)?;
    Ok(bytes)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_refused_or_bounded() {
        let message = |path: &str| read_model_file(Path::new(path)).unwrap_err().to_string();
        assert!(message("/dev/zero").contains("it is a device"), "{}", message("/dev/zero"));
        assert!(message("/").contains("it is a folder"), "{}", message("/"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, [b'x'; 100]).unwrap();
        assert!(message(path.to_str().unwrap()).contains("is not a whole safetensors file"));
        assert_eq!(read_file(&path, 100).unwrap().len(), 100);
        let error = read_file(&path, 99).unwrap_err().to_string();
        assert!(error.contains("more than 99 bytes"), "{error}");
        // A file that says it is empty, and is not.
        assert!(!read_file(Path::new("/proc/self/status"), 1 << 20).unwrap().is_empty());
        assert!(read_file(Path::new("/proc/self/status"), 10).is_err());
        let link = folder.path().join("loop");
        std::os::unix::fs::symlink(&link, &link).unwrap();
        assert!(read_file(&link, 10).is_err());
    }

    #[test]
    fn a_pipe_is_read_to_its_end_or_its_limit() {
        use std::io::Write;
        let write = |len: usize, max: u64| {
            let (reader, mut writer) = io::pipe().unwrap();
            let thread = std::thread::spawn(move || drop(writer.write_all(&vec![b'x'; len])));
            let fd = std::os::fd::AsRawFd::as_raw_fd(&reader);
            let found = read_file(Path::new(&format!("/proc/self/fd/{fd}")), max);
            drop(reader);
            thread.join().unwrap();
            found
        };
        assert_eq!(write(200_000, 200_000).unwrap().len(), 200_000);
        assert!(write(200_001, 200_000).is_err());
    }
}
