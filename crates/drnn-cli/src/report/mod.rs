//! Reports: pages made from results files.
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
//! | `provenance` | the command, version and machine that made results |
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
mod provenance;
pub mod reversal;
pub mod sine;
pub mod sweep;
mod training;
pub mod training_run;

pub use kinds::{Report, Reported, report};
pub use provenance::{Origin, Provenance};

use crate::Failure;
use crate::console::warning;
use crate::files::paths::write_files;
use crate::plot::png::png;
use page::{Page, Part};
use serde::Serialize;
use std::io::Write;
use std::path::Path;

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
            warning!("{note}");
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
        Err(why) => warning!("there is no report, it could not be drawn: {why}"),
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
