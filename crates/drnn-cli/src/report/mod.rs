//! `drnn report`: pages for people, made from results files.
//!
//! ```text
//! results.json -> Reported, checked -> Page -> index.html, report.md        and pictures, CSV beside them
//! ```
//!
//! | file | what |
//! |---|---|
//! | `kinds` | which kinds of results there are; what each must be able to do |
//! | `mlm`, `reversal`, `sine` | results of `drnn reproduce` of that name, and what is shown of them |
//! | `training` | what reports on trainings share |
//! | `page` | headings, text, tables and pictures in their order |
//! | `html`, `markdown` | the same page as one HTML file and as Markdown |
//!
//! A report is a function of its results file: the command that made the results writes the same one.

mod html;
mod kinds;
mod markdown;
pub mod mlm;
pub mod page;
pub mod pos;
pub mod reversal;
pub mod sine;
pub mod sweep;
mod training;
pub mod training_run;

pub use kinds::Reported;

use crate::Failure;
use crate::paths::{check_not_read, same_file};
use crate::place::Place;
use crate::plot::png::png;
use crate::reproduce::write_files;
use clap::Args;
use drnn::Cpu;
use drnn_train::cpu_name;
use drnn_train::results::MAX_RESULTS;
use kinds::Report;
use page::{Page, Part};
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
    /// Results that `drnn reproduce` wrote: reversal.json, sine.json; or a campaign's results.jsonl, finished or not
    #[arg(required = true)]
    results: Vec<PathBuf>,
    /// Folder for the report, made where there is none; of several results a folder in it for each
    /// [default: where the results lie]
    #[arg(long, value_name = "DIR", verbatim_doc_comment)]
    out: Option<PathBuf>,
}

/// What made results: nothing of the machine, so the same command gives the same file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The command with everything that changes the result.
    pub command: String,
    pub version: String,
    /// Only where the build was told: `DRNN_COMMIT=$(git rev-parse HEAD) cargo build`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

impl Origin {
    pub fn new(command: String) -> Origin {
        let version = env!("CARGO_PKG_VERSION").into();
        Origin { command, version, commit: option_env!("DRNN_COMMIT").map(Into::into) }
    }
}

/// Where the results of one run come from: how, when, on what.
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
    /// The GPU that trained, and what factors were rounded to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// When, in UTC.
    pub started: String,
    /// How long, from beginning to end.
    pub seconds: f64,
}

impl Provenance {
    /// Of a run that began at `started` and ends now.
    pub fn new(
        command: String,
        seed: u64,
        cpu: &Cpu,
        place: &Place,
        started: SystemTime,
    ) -> Provenance {
        Provenance {
            command,
            version: env!("CARGO_PKG_VERSION").into(),
            commit: option_env!("DRNN_COMMIT").map(Into::into),
            seed,
            threads: cpu.threads(),
            isa: cpu.isa().into(),
            cpu: cpu_name(),
            gpu: matches!(place, Place::Cuda(..)).then(|| place.to_string()),
            started: humantime::format_rfc3339_seconds(started).to_string(),
            seconds: started.elapsed().map_or(0.0, |time| time.as_secs_f64()),
        }
    }
}

/// Trainings of a results file that a report is made of: more make no page that anybody reads.
const MAX_RUNS: usize = 20_000;

/// Refuses results of no trainings, or of too many for a report.
fn check_runs(runs: usize) -> Result<(), String> {
    match runs {
        0 => Err("holds no runs".into()),
        1..=MAX_RUNS => Ok(()),
        _ => Err(format!("holds {runs} runs; reports are made of at most {MAX_RUNS}")),
    }
}

/// A picture as a bitmap; where it cannot be drawn, a note on the page and here.
fn bitmap(name: &'static str, svg: &str, page: &mut Page) -> Option<(&'static str, Vec<u8>)> {
    match png(svg) {
        Ok(picture) => Some((name, picture)),
        Err(why) => {
            let note = format!("{name} is left out, it could not be drawn: {why}");
            eprintln!("note: {note}");
            page.parts.push(Part::Text(note));
            None
        }
    }
}

/// Writes results as `KIND.json` and their report to `folder`, and tells them: as a table, or as that JSON.
pub fn publish<R: Reported + Serialize>(
    results: &R,
    folder: &Path,
    as_json: bool,
) -> Result<(), Failure> {
    let json = serde_json::to_string(results).map_err(std::io::Error::from)? + "\n";
    // Before anything is drawn of them: whatever becomes of the report, the results are there.
    write_files(folder, &[(&format!("{}.json", R::KIND), json.as_bytes())])?;
    match results.files() {
        Ok(report) => write_files(folder, &report)?,
        Err(why) => eprintln!("note: there is no report, it could not be drawn: {why}"),
    }
    let text = if as_json { json } else { results.table() };
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { results, out } = arguments;
    let folders = folders(results, out.as_deref())?;
    let mut reports = Vec::new();
    for (path, folder) in results.iter().zip(folders) {
        let refuse = |why| Failure::Input(format!("{}: {why}", path.display()));
        let bytes = drnn::read_file(path, MAX_RESULTS)
            .map_err(|e| refuse(format!("cannot be read: {e}")))?;
        let report = kinds::report(path, &bytes).map_err(refuse)?;
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

    /// Results of which no report can be made.
    #[derive(Serialize, Deserialize)]
    struct Undrawable(u32);

    impl Reported for Undrawable {
        const KIND: &'static str = "undrawable";
        const FORMAT: u64 = 1;

        fn check(&self) -> Result<(), String> {
            Ok(())
        }

        fn files(&self) -> Result<kinds::Files, String> {
            Err("there is no paper".into())
        }

        fn table(&self) -> String {
            String::new()
        }
    }

    #[test]
    fn results_are_there_whatever_becomes_of_the_report() {
        let folder = tempfile::tempdir().unwrap();
        publish(&Undrawable(7), folder.path(), false).unwrap();
        let json = std::fs::read_to_string(folder.path().join("undrawable.json")).unwrap();
        assert_eq!(json, "7\n");
    }

    #[test]
    fn a_picture_that_cannot_be_drawn_is_a_note() {
        let mut page = Page { title: "T".into(), parts: Vec::new() };
        assert!(bitmap("a.png", "<svg", &mut page).is_none());
        assert!(
            matches!(&page.parts[..], [Part::Text(note)] if note.starts_with("a.png is left out"))
        );
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
