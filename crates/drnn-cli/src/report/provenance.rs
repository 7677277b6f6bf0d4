//! Where results come from: the command, the version and the machine that made them.

use crate::training::place::Place;
use drnn::Cpu;
use drnn_train::cpu_name;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;
use std::time::SystemTime;

/// The commit that the program was built from, where `build.rs` could find it.
pub fn commit() -> Option<String> {
    option_env!("DRNN_COMMIT").map(Into::into)
}

/// Whether its sources differed from that commit; None if that is unknown.
pub fn modified() -> Option<bool> {
    option_env!("DRNN_MODIFIED").map(|modified| modified == "true")
}

/// The version for people: `0.1.0, commit 1a2b3c4, modified`.
pub fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let commit = commit().map_or(String::new(), |commit| format!(", commit {commit}"));
        let modified = if modified() == Some(true) { ", modified" } else { "" };
        format!("{}{commit}{modified}", env!("CARGO_PKG_VERSION"))
    })
}

/// The origin of results without the machine, so that the same command gives the same file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The command line, with every option that changes the result.
    pub command: String,
    pub version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Whether the sources differed from that commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<bool>,
}

impl Origin {
    pub fn new(command: String) -> Origin {
        let version = env!("CARGO_PKG_VERSION").into();
        Origin { command, version, commit: commit(), modified: modified() }
    }
}

/// The head of a results file without a report: its kind and origin.
#[derive(Debug, Serialize)]
pub struct Head {
    kind: &'static str,
    format: u64,
    #[serde(flatten)]
    origin: Origin,
}

impl Head {
    pub fn new(kind: &'static str, command: String) -> Head {
        Head { kind, format: 1, origin: Origin::new(command) }
    }
}

/// The origin of results with time and machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// The command line, with every option that changes the result.
    pub command: String,
    pub version: String,
    pub commit: Option<String>,
    /// Whether the sources differed from that commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<bool>,
    pub seed: u64,
    pub threads: usize,
    /// Instruction set of the kernels.
    pub isa: String,
    pub cpu: Option<String>,
    /// The GPU, and the precision of its matrix products.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<String>,
    /// Start time in UTC.
    pub started: String,
    /// Wall-clock time, with that before the run was resumed.
    pub seconds: f64,
}

impl Provenance {
    /// For a run that started at `started` and ends now; it took `earlier` seconds before it was
    /// resumed.
    pub fn new(
        command: String,
        seed: u64,
        cpu: &Cpu,
        place: &Place,
        started: SystemTime,
        earlier: f64,
    ) -> Provenance {
        Provenance {
            command,
            version: env!("CARGO_PKG_VERSION").into(),
            commit: commit(),
            modified: modified(),
            seed,
            threads: cpu.threads(),
            isa: cpu.instruction_set().name().into(),
            cpu: cpu_name(),
            gpu: matches!(place, Place::Cuda(..)).then(|| place.to_string()),
            started: humantime::format_rfc3339_seconds(started).to_string(),
            seconds: earlier + started.elapsed().map_or(0.0, |time| time.as_secs_f64()),
        }
    }
}
