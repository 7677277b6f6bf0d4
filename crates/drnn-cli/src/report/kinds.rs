//! Kinds of results: how a file says what it holds, and what is made of it.

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

/// All kinds of which there are reports. Another one is a line here.
const KINDS: [Kind; 6] = [
    Kind::of::<MlmResults>(),
    Kind::of::<PosResults>(),
    Kind::of::<ReversalResults>(),
    Kind::of::<SineResults>(),
    Kind::of::<SweepResults>(),
    Kind::of::<TrainingResults>(),
];

/// Names and contents of files.
pub type Files = Vec<(&'static str, Vec<u8>)>;

/// Results that a report is made of: a JSON object with `kind` and `format`.
pub trait Reported: DeserializeOwned {
    /// What `kind` says.
    const KIND: &'static str;
    /// What `format` says.
    const FORMAT: u64;

    /// Says what makes no sense.
    fn check(&self) -> Result<(), String>;

    /// The report. The results' own file is not among them.
    fn files(&self) -> Result<Files, String>;

    /// The table for a terminal.
    fn table(&self) -> String;
}

/// What is made of a results file.
pub struct Report {
    pub files: Files,
    pub table: String,
}

struct Kind {
    name: &'static str,
    format: u64,
    report: fn(&[u8]) -> Result<Report, String>,
}

impl Kind {
    const fn of<R: Reported>() -> Kind {
        Kind { name: R::KIND, format: R::FORMAT, report: report_on::<R> }
    }
}

fn report_on<R: Reported>(bytes: &[u8]) -> Result<Report, String> {
    let results: R = serde_json::from_slice(bytes).map_err(damaged)?;
    results.check()?;
    Ok(Report { files: results.files()?, table: results.table() })
}

fn damaged(error: serde_json::Error) -> String {
    format!("no results of drnn: {error}")
}

/// The report on a file, if its results are of a kind that we know and make sense.
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
    let kind = kind.ok_or("says not what kind of results it holds (`kind`)")?;
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
