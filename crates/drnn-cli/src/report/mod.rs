//! Reports: pages made from results files.
//!
//! ```text
//! results.json -> Reported, checked -> Page -> index.html, report.md        with pictures and CSV
//! ```
//!
//! | file | what |
//! |---|---|
//! | `kinds` | the kinds of results files |
//! | `mlm`, `reversal`, `sine` | results of the `drnn reproduce` command of that name, and their reports |
//! | `paper` | the report on a campaign: the whole paper |
//! | `pos`, `sweep`, `training_run` | the same for `drnn reproduce pos`, `drnn sweep`, `drnn train` |
//! | `depth`, `runtime`, `theorem` | results of the commands of these names, which have tables but no report |
//! | `relax` | results of relaxing a stack, a task of the campaign |
//! | `training` | what reports on trainings share |
//! | `curves` | measure and losses of a training, epoch by epoch |
//! | `baselines` | what simple predictors achieve, compared with the network |
//! | `predictions` | pictures of a series model's predictions against the truth |
//! | `provenance` | the command, version and machine that made results |
//! | `page` | a page as headings, text, tables and pictures |
//! | `html`, `markdown` | the same page as one HTML file and as Markdown |
//!
//! A report is a function of its results file: `drnn report` writes the same report again.

pub mod baselines;
mod curves;
pub mod depth;
mod html;
mod kinds;
mod markdown;
pub mod mlm;
pub mod page;
pub mod paper;
pub mod pos;
pub mod predictions;
mod provenance;
pub mod relax;
pub mod reversal;
pub mod runtime;
pub mod sine;
pub mod sweep;
pub mod theorem;
mod training;
pub mod training_run;

pub use kinds::{Report, Reported, report};
pub use provenance::{Head, Origin, Provenance, commit, modified, version};

use crate::Failure;
use crate::console::warning;
use crate::files::paths::write_files;
use crate::plot::png::png;
use page::{Page, Part};
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// The maximum number of trainings in a report; a longer page would not be readable.
const MAX_RUNS: usize = 20_000;

/// Refuses results with no trainings, or too many for a report.
fn check_runs(runs: usize) -> Result<(), String> {
    match runs {
        0 => Err("contains no runs".into()),
        1..=MAX_RUNS => Ok(()),
        _ => Err(format!("contains {runs} runs; a report has at most {MAX_RUNS}")),
    }
}

/// A picture as PNG; if it cannot be drawn, a note on the page and a warning.
fn bitmap(name: &'static str, svg: &str, page: &mut Page) -> Option<(&'static str, Vec<u8>)> {
    match png(svg) {
        Ok(picture) => Some((name, picture)),
        Err(why) => {
            let note = format!("{name} is left out, it could not be drawn: {why}");
            warning!("{note}");
            page.parts.push(Part::Text(note));
            None
        }
    }
}

/// Writes results as `KIND.json` and their report to `folder`, and prints the table, or the JSON.
pub fn publish<R: Reported + Serialize>(
    results: &R,
    folder: &Path,
    as_json: bool,
) -> Result<(), Failure> {
    let json = serde_json::to_string(results).map_err(std::io::Error::from)? + "\n";
    // First of all: if the report fails, the results are on disk.
    write_files(folder, &[(&format!("{}.json", R::KIND), json.as_bytes())])?;
    match results.files() {
        Ok(report) => write_files(folder, &report)?,
        Err(why) => warning!("no report is written: {why}"),
    }
    let text = if as_json { json } else { results.table() };
    Ok(std::io::stdout().lock().write_all(text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

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
}
