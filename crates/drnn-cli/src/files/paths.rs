//! Output paths: checked against the inputs, created, written to.

use crate::Failure;
use crate::console::progress;
use std::io::Write;
use std::path::Path;

/// Refuses to write to `to`, the value of option `name`, if the command reads that file.
pub fn check_not_read<'a>(
    name: &str,
    to: &Path,
    read: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Failure> {
    if read.into_iter().any(|path| same_file(path, to)) {
        let to = to.display();
        return Err(Failure::Input(format!(
            "{to}: is an input of this command; {name} needs another file"
        )));
    }
    Ok(())
}

/// The folder that holds `path`.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether two paths name the same file, which need not exist yet.
pub fn same_file(a: &Path, b: &Path) -> bool {
    let whole = |path: &Path| {
        let folder = folder_of(path);
        path.canonicalize().or_else(|_| {
            Ok::<_, std::io::Error>(
                folder.canonicalize()?.join(path.file_name().unwrap_or_default()),
            )
        })
    };
    matches!((whole(a), whole(b)), (Ok(a), Ok(b)) if a == b)
}

/// Creates a folder if it does not exist, and syncs it to disk.
pub fn make_folder(folder: &Path) -> Result<(), Failure> {
    let is_missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
    let made: Vec<&Path> = folder.ancestors().take_while(is_missing).collect();
    let sync = |made: &&Path| drnn::io::sync_folder(folder_of(made));
    std::fs::create_dir_all(folder)
        .and_then(|()| made.iter().try_for_each(sync))
        .map_err(|e| Failure::Input(format!("{}: cannot be created: {e}", folder.display())))
}

/// Writes files of these names and contents to `folder`, which is created if needed.
pub fn write_files(folder: &Path, files: &[(&str, impl AsRef<[u8]>)]) -> Result<(), Failure> {
    let refuse = |path: &Path, what: &str, error: std::io::Error| {
        Failure::Input(format!("{}: cannot be {what}: {error}", path.display()))
    };
    make_folder(folder)?;
    for (name, contents) in files {
        let path = folder.join(name);
        drnn::io::write_atomically(&path, |file| file.write_all(contents.as_ref()))
            .map_err(|e| refuse(&path, "written", e))?;
    }
    let names: Vec<_> = files.iter().map(|(name, _)| *name).collect();
    progress!("wrote {} to {}", names.join(", "), folder.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_by_several_names() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("in")).unwrap();
        assert!(same_file(&at("x"), &at("in/../x"))); // neither exists
        std::fs::write(at("x"), "").unwrap();
        assert!(same_file(&at("x"), &at("in/../x")));
        assert!(!same_file(&at("x"), &at("y")));
    }
}
