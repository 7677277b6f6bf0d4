//! `drnn report`: pages for people, made from results files.
//!
//! ```text
//! results.json -> Results, checked -> Page -> index.html, report.md        and plots, CSV beside them
//! ```
//!
//! | file | what |
//! |---|---|
//! | `reversal` | results of `drnn reproduce reversal`, and what is shown of them |
//! | `page` | headings, text, tables and plots in their order |
//! | `html`, `markdown` | the same page as one HTML file and as Markdown |
//!
//! A report is a function of its results file: the command that made the results writes the same one.

pub mod facts;
mod html;
mod markdown;
pub mod page;
pub mod reversal;
pub mod sweep;

use crate::Failure;
use crate::paths::{check_not_read, same_file};
use crate::reproduce::write_files;
use clap::Args;
use drnn::Cpu;
use reversal::ReversalResults;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Make the report again from results files: HTML, Markdown, plots, CSV
///
/// The page index.html is one file: it can be sent, and read offline. The table is printed here too.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Results that `drnn reproduce` wrote, for example out/reversal/reversal.json
    #[arg(required = true)]
    results: Vec<PathBuf>,
    /// Folder for the report, made where there is none; of several results a folder in it for each
    /// [default: where the results lie]
    #[arg(long, value_name = "DIR", verbatim_doc_comment)]
    out: Option<PathBuf>,
}

/// Where results come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The command with everything that changes the result.
    pub command: String,
    pub version: String,
    pub commit: Option<String>,
    pub seed: u64,
    pub threads: usize,
    /// Instruction set of the kernels.
    pub isa: String,
    pub cpu: Option<String>,
    /// When, in UTC.
    pub started: String,
    /// How long, from beginning to end.
    pub seconds: f64,
}

impl Provenance {
    /// Of a run that began at `started` and ends now.
    pub fn new(command: String, seed: u64, cpu: &Cpu, started: SystemTime) -> Provenance {
        Provenance {
            command,
            version: env!("CARGO_PKG_VERSION").into(),
            commit: option_env!("DRNN_COMMIT").map(Into::into),
            seed,
            threads: cpu.threads(),
            isa: cpu.isa().into(),
            cpu: cpu_name(),
            started: humantime::format_rfc3339_seconds(started).to_string(),
            seconds: started.elapsed().map_or(0.0, |time| time.as_secs_f64()),
        }
    }
}

/// The processor's name, where the system tells.
fn cpu_name() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

/// Names and contents of files.
pub type Files = Vec<(&'static str, Vec<u8>)>;

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { results, out } = arguments;
    let folders = folders(results, out.as_deref())?;
    let mut reports = Vec::new();
    for (path, folder) in results.iter().zip(folders) {
        let refuse = |why| Failure::Input(format!("{}: {why}", path.display()));
        let bytes = std::fs::read(path).map_err(|e| refuse(format!("cannot be read: {e}")))?;
        let found = read(&bytes).map_err(refuse)?;
        let files = reversal::files(&found).map_err(refuse)?;
        for (name, _) in &files {
            check_not_read("--out", &folder.join(name), results.iter().map(PathBuf::as_path))?;
        }
        reports.push((folder, files, reversal::table(&found)));
    }
    for (folder, files, text) in reports {
        write_files(&folder, &files)?;
        std::io::stdout().lock().write_all(text.as_bytes())?;
    }
    Ok(())
}

/// The results in a file, if they are of a kind that we know and make sense.
fn read(bytes: &[u8]) -> Result<ReversalResults, String> {
    #[derive(Deserialize)]
    struct Kind {
        kind: Option<String>,
        format: Option<u64>,
    }
    let damaged = |e: serde_json::Error| format!("no results of drnn: {e}");
    let kind: Kind = serde_json::from_slice(bytes).map_err(damaged)?;
    match (kind.kind.as_deref(), kind.format) {
        (Some(reversal::KIND), Some(reversal::FORMAT)) => {
            let results: ReversalResults = serde_json::from_slice(bytes).map_err(damaged)?;
            results.check()?;
            Ok(results)
        }
        (Some(reversal::KIND), format) => Err(format!(
            "results in format {}, this program reads format {}",
            format.map_or("none".into(), |f| f.to_string()),
            reversal::FORMAT
        )),
        (Some(kind), _) => {
            Err(format!("results of kind {kind:?}; there are reports of \"reversal\""))
        }
        (None, _) => Err("says not what kind of results it holds (`kind`)".into()),
    }
}

/// A folder for the report of each of `results`.
fn folders(results: &[PathBuf], out: Option<&Path>) -> Result<Vec<PathBuf>, Failure> {
    let folder_of = |path: &Path| match path.parent() {
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
                "{a} and {b}: both reports would go to {to}; make one after the other, with --out"
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
