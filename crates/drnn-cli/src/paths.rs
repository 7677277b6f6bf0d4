//! Paths that a command writes to.

use crate::Failure;
use std::path::Path;

/// Refuses to write `to`, said by option `name`, over something that the command reads.
pub fn check_not_read<'a>(
    name: &str,
    to: &Path,
    read: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Failure> {
    if read.into_iter().any(|path| same_file(path, to)) {
        let to = to.display();
        return Err(Failure::Input(format!("{to}: is read here; {name} needs another file")));
    }
    Ok(())
}

/// Whether two paths, that may not exist yet, are one file.
pub fn same_file(a: &Path, b: &Path) -> bool {
    let whole = |path: &Path| {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        path.canonicalize().or_else(|_| {
            Ok::<_, std::io::Error>(
                folder.canonicalize()?.join(path.file_name().unwrap_or_default()),
            )
        })
    };
    matches!((whole(a), whole(b)), (Ok(a), Ok(b)) if a == b)
}

/// Makes a folder where there is none.
pub fn make_folder(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|e| Failure::Input(format!("{}: cannot be made: {e}", folder.display())))
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
