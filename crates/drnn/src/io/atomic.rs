//! Files replaced as a whole, so that a crash or a loss of power leaves the old one or the new one.

use std::fs::File;
use std::io;
use std::path::Path;

/// Writes a file so that there is the old one or the new one, never half of one: in the same folder,
/// synced, then renamed, and the folder synced, so that it survives a loss of power. A link is
/// followed, permissions stay, and what is no plain file (a pipe, a device) is written to as it is.
pub fn write_atomically(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let old = std::fs::metadata(path).ok(); // of what a link points to
    if old.as_ref().is_some_and(|old| !old.is_file() && !old.is_dir()) {
        return write(&mut File::options().write(true).open(path)?);
    }
    let path = if old.is_some() { &path.canonicalize()? } else { path };
    // In the same folder, because a rename works within one file system only.
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = new_file(folder).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => {
            io::Error::new(e.kind(), format!("there is no folder {}", folder.display()))
        }
        kind => kind.into(), // without the temporary name, which means nothing
    })?;
    write(file.as_file_mut())?;
    if let Some(old) = old.filter(|old| old.is_file()) {
        file.as_file().set_permissions(old.permissions())?;
    }
    file.as_file().sync_all()?;
    file.persist(path).map_err(|e| e.error)?;
    sync_folder(folder)
}

/// Syncs a folder: files that were made, renamed or removed in it stay so after a loss of power.
/// File systems that cannot sync a folder are left to themselves, and so are folders that may not
/// be read.
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    if cfg!(not(unix)) {
        return Ok(());
    }
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(e) if [InvalidInput, PermissionDenied, Unsupported].contains(&e.kind()) => Ok(()),
        other => other,
    }
}

/// A file of no name yet, as readable as any new file: temporary ones are the owner's alone.
#[cfg(unix)]
fn new_file(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    let permissions = std::fs::Permissions::from_mode(0o666); // less the umask
    tempfile::Builder::new().permissions(permissions).tempfile_in(folder)
}

/// A file of no name yet.
#[cfg(not(unix))]
fn new_file(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    tempfile::Builder::new().tempfile_in(folder)
}
