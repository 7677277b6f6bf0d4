//! `drnn report`: makes the reports on results files again.

use crate::Failure;
use crate::campaign::Campaign;
use crate::files::paths::{check_not_read, same_file, write_files};
use crate::report::{Report, paper, report};
use clap::Args;
use drnn_train::sine::results::MAX_RESULTS;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Make the report again from results files: HTML, Markdown, plots, CSV
///
/// The page index.html is self-contained and can be read offline. The table is also printed.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Results files of `drnn reproduce`, `drnn sweep` or `drnn train`: reversal.json, sweep.json, ...; or a campaign's
    /// results.jsonl, finished or not; or the folder of `drnn reproduce all`: the whole paper
    #[arg(required = true)]
    results: Vec<PathBuf>,
    /// Folder for the report; with several results files, a folder in it for each
    /// [default: the folder of the results]
    #[arg(long, value_name = "DIR", verbatim_doc_comment)]
    out: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { results, out } = arguments;
    let folders = folders(results, out.as_deref())?;
    let mut reports = Vec::new();
    for (path, folder) in results.iter().zip(folders) {
        let refuse = |why| Failure::Input(format!("{}: {why}", path.display()));
        if path.join("tasks").is_dir() {
            let campaign = Campaign::open(path, None)?;
            let records: Vec<_> = campaign.records.values().collect();
            reports.push((folder, paper::report(&records).map_err(refuse)?));
            continue;
        }
        let bytes = drnn::io::read_file(path, MAX_RESULTS)
            .map_err(|e| refuse(format!("cannot be read: {e}")))?;
        let report = report(path, &bytes).map_err(refuse)?;
        for (name, _) in &report.files {
            check_not_read("--out", &folder.join(name), results.iter().map(PathBuf::as_path))?;
        }
        reports.push((folder, report));
    }
    for (folder, Report { files, table }) in reports {
        write_files(&folder, &files)?;
        std::io::stdout().lock().write_all(table.as_bytes())?;
    }
    Ok(())
}

/// The folder of each report.
fn folders(results: &[PathBuf], out: Option<&Path>) -> Result<Vec<PathBuf>, Failure> {
    let folder_of = |path: &Path| match path.parent() {
        _ if path.is_dir() => path.to_path_buf(),
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    };
    let stem = |path: &Path| path.file_stem().unwrap_or_default().to_os_string();
    let folders: Vec<PathBuf> = match (out, results) {
        (None, _) => results.iter().map(|path| folder_of(path)).collect(),
        (Some(out), [_]) => vec![out.to_path_buf()],
        (Some(out), _) => {
            let alone =
                |path: &Path| results.iter().filter(|other| stem(other) == stem(path)).count() == 1;
            let name = |path: &PathBuf| match folder_of(path).file_name() {
                Some(folder) if !alone(path) => folder.to_os_string(),
                _ => stem(path),
            };
            results.iter().map(|path| out.join(name(path))).collect()
        }
    };
    for (i, folder) in folders.iter().enumerate() {
        if let Some(j) = folders[..i].iter().position(|f| f == folder || same_file(f, folder)) {
            let (a, b) = (results[j].display(), results[i].display());
            let to = folder.display();
            return Err(Failure::Input(format!(
                "{a} and {b}: both reports would go to {to}; make them one at a time, with --out"
            )));
        }
    }
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(results: &[&str], out: Option<&str>) -> Result<String, Failure> {
        let results: Vec<PathBuf> = results.iter().map(PathBuf::from).collect();
        let folders = folders(&results, out.map(Path::new))?;
        let text = |folder: &PathBuf| folder.to_str().unwrap().replace('\\', "/");
        Ok(folders.iter().map(text).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn each_report_has_a_folder() {
        assert_eq!(places(&["a/x.json", "y.json"], None).unwrap(), "a .");
        assert_eq!(places(&["a/x.json"], Some("o")).unwrap(), "o");
        assert_eq!(places(&["a/x.json", "y.json"], Some("o")).unwrap(), "o/x o/y");
        assert_eq!(places(&["a/x.json", "b/x.json"], Some("o")).unwrap(), "o/a o/b");
        assert!(places(&["a/x.json", "a/y.json"], None).is_err());
        assert!(places(&["a/x.json", "a/x.json"], Some("o")).is_err());
    }
}
