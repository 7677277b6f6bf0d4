//! The kinds of results files, and the report on each.

use super::mlm::MlmResults;
use super::pos::PosResults;
use super::reversal::ReversalResults;
use super::sine::{self, SineResults};
use super::sweep::SweepResults;
use super::training_run::TrainingResults;
use drnn_train::sine::results::is_campaign;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::Path;

/// All kinds of results.
const KINDS: [ResultsKind; 6] = [
    ResultsKind::of::<MlmResults>(),
    ResultsKind::of::<PosResults>(),
    ResultsKind::of::<ReversalResults>(),
    ResultsKind::of::<SineResults>(),
    ResultsKind::of::<SweepResults>(),
    ResultsKind::of::<TrainingResults>(),
];

/// Names and contents of files.
pub type Files = Vec<(&'static str, Vec<u8>)>;

/// Results that a report is made of: a JSON object with `kind` and `format`.
pub trait Reported: DeserializeOwned {
    /// The value of `kind`.
    const KIND: &'static str;
    /// The value of `format`.
    const FORMAT: u64;

    /// Checks that the values make sense.
    fn check(&self) -> Result<(), String>;

    /// The files of the report, without the results file itself.
    fn files(&self) -> Result<Files, String>;

    /// The table for a terminal.
    fn table(&self) -> String;
}

/// The report on a results file.
pub struct Report {
    pub files: Files,
    pub table: String,
}

struct ResultsKind {
    name: &'static str,
    format: u64,
    report: fn(&[u8]) -> Result<Report, String>,
}

impl ResultsKind {
    const fn of<R: Reported>() -> ResultsKind {
        ResultsKind { name: R::KIND, format: R::FORMAT, report: report_on::<R> }
    }
}

fn report_on<R: Reported>(bytes: &[u8]) -> Result<Report, String> {
    let results: R = serde_json::from_slice(bytes).map_err(damaged)?;
    results.check()?;
    Ok(Report { files: results.files()?, table: results.table() })
}

fn damaged(error: serde_json::Error) -> String {
    format!("not a results file of drnn: {error}")
}

/// The report on a results file, if its kind is known and its values make sense.
pub fn report(path: &Path, bytes: &[u8]) -> Result<Report, String> {
    #[derive(Deserialize)]
    struct Head {
        kind: Option<String>,
        format: Option<u64>,
    }
    if is_campaign(bytes) {
        return sine::report_on_campaign(path, bytes);
    }
    let Head { kind, format } = serde_json::from_slice(bytes).map_err(damaged)?;
    let kind = kind.ok_or("does not say what kind of results it contains (`kind`)")?;
    let Some(known) = KINDS.iter().find(|known| known.name == kind) else {
        let names = KINDS.map(|known| format!("{:?}", known.name)).join(", ");
        return Err(format!("results of kind {kind:?}; there are reports of {names}"));
    };
    if format != Some(known.format) {
        let found = format.map_or("none".into(), |f| f.to_string());
        let expected = known.format;
        return Err(format!("results in format {found}, this program reads format {expected}"));
    }
    (known.report)(bytes)
}
