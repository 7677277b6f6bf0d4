//! Results of `drnn reproduce sine`: the file, and what is shown of it.
//!
//! sine.json follows from the trainings alone, not from machines, shards or the order of work: a merged
//! campaign and a straight one give the same file. What the trainings took, and on what, is in the campaign's
//! own results.jsonl, and in reports made of that.

mod grid;
mod maps;
mod words;

use super::kinds::{Files, Report, Reported};
use super::page::moments;
use super::{Origin, bitmap, html, markdown};
use crate::plot::Picture;
use drnn_train::PaperNet;
use drnn_train::sine::campaign::{Gamma, GridCell, Protocol};
use drnn_train::sine::results::{Record, Records, from_bytes};
use drnn_train::sine::{STEPS, TAPS};
pub use grid::deviations;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// All files that a report may have, the results' own among them.
pub const NAMES: [&str; 7] =
    ["sine.json", "index.html", "report.md", "sine.csv", "sine.svg", "sine-sd.svg", "sine.png"];
/// The longest delay that makes sense: later than a sequence's last element there is nothing to wait for.
pub const MOST_DELAY: usize = STEPS - 1;

/// What sine.json holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SineResults {
    /// "sine".
    kind: String,
    /// [`Reported::FORMAT`].
    format: u64,
    provenance: Origin,
    protocol: Protocol,
    /// What is not as in the paper.
    deviations: Vec<String>,
    trainings: usize,
    cells: Vec<Entry>,
    /// Where the campaign's own file is at hand.
    #[serde(skip)]
    effort: Option<Effort>,
}

/// All data sets of one net, gamma and a together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    net: PaperNet,
    gamma: Gamma,
    ahead: usize,
    /// Data sets, and those where the training ran away: these are in no mean.
    sets: usize,
    ran_away: usize,
    mean_mse: Option<f64>,
    /// Between data sets, from two on.
    sd_mse: Option<f64>,
    mean_epochs: f64,
}

/// What the trainings took.
#[derive(Debug, Clone, PartialEq)]
struct Effort {
    /// Of one thread.
    seconds: f64,
    machines: BTreeSet<String>,
}

impl SineResults {
    pub fn new(protocol: &Protocol, records: &Records) -> SineResults {
        let mut groups: BTreeMap<(PaperNet, Gamma, usize), Vec<&Record>> = BTreeMap::new();
        for (cell, record) in records {
            groups.entry((cell.net, cell.gamma, cell.ahead)).or_default().push(record);
        }
        let cells: Vec<GridCell> = records.keys().copied().collect();
        SineResults {
            kind: SineResults::KIND.into(),
            format: SineResults::FORMAT,
            provenance: Origin::new(grid::command(protocol, &cells)),
            protocol: *protocol,
            deviations: deviations(protocol, &cells),
            trainings: records.len(),
            cells: groups.into_iter().map(|(cell, records)| Entry::new(cell, &records)).collect(),
            effort: Some(Effort {
                seconds: records.values().map(|record| record.seconds).sum(),
                machines: records.values().filter_map(|record| record.machine.clone()).collect(),
            }),
        }
    }

    /// The contents of sine.json.
    pub fn json(&self) -> Result<String, String> {
        Ok(serde_json::to_string(self).map_err(|e| format!("sine.json: {e}"))? + "\n")
    }

    /// Most data sets of a cell.
    fn sets(&self) -> usize {
        self.cells.iter().map(|entry| entry.sets).max().unwrap_or(0)
    }

    fn csv(&self) -> String {
        let mut out = String::from("net,gamma,ahead,sets,ran_away,mean_mse,sd_mse,mean_epochs\n");
        let number = |x: Option<f64>| x.map_or(String::new(), |x| x.to_string());
        for entry in &self.cells {
            let Entry { net, gamma, ahead, sets, ran_away, mean_epochs, .. } = entry;
            let (mean, sd) = (number(entry.mean_mse), number(entry.sd_mse));
            let _ =
                writeln!(out, "{net},{gamma},{ahead},{sets},{ran_away},{mean},{sd},{mean_epochs}");
        }
        out
    }
}

impl Entry {
    fn new((net, gamma, ahead): (PaperNet, Gamma, usize), records: &[&Record]) -> Entry {
        let errors: Vec<f64> = records.iter().filter_map(|record| record.test_mse).collect();
        let epochs: Vec<f64> = records.iter().map(|record| record.epochs as f64).collect();
        let (mean, sd_mse) = moments(&errors);
        let (sets, ran_away) = (records.len(), records.len() - errors.len());
        let mean_mse = (!errors.is_empty()).then_some(mean);
        let mean_epochs = moments(&epochs).0;
        Entry { net, gamma, ahead, sets, ran_away, mean_mse, sd_mse, mean_epochs }
    }

    fn check(&self) -> Result<(), String> {
        let Entry { net, ahead, sets, ran_away, mean_mse, sd_mse, mean_epochs, .. } = *self;
        if let PaperNet::DLstm(delay) = net
            && !(1..=MOST_DELAY).contains(&delay)
        {
            return Err(format!("a delay of {delay}, expected 1 to {MOST_DELAY}"));
        }
        if ahead > TAPS {
            return Err(format!("ahead is {ahead}, expected 0 to {TAPS}"));
        }
        if sets == 0 || ran_away > sets {
            return Err(format!("{sets} data sets, {ran_away} of them ran away"));
        }
        let told = sets - ran_away;
        for (name, value, least) in [("mean_mse", mean_mse, 1), ("sd_mse", sd_mse, 2)] {
            match value {
                Some(value) if !(value.is_finite() && value >= 0.0) => {
                    return Err(format!("{name} is {value}, expected 0 or more"));
                }
                _ if value.is_some() == (told >= least) => {}
                Some(value) => return Err(format!("{name} is {value}, of {told} data sets")),
                None => return Err(format!("no {name}, of {told} data sets")),
            }
        }
        if !(mean_epochs.is_finite() && mean_epochs >= 0.0) {
            return Err(format!("mean_epochs is {mean_epochs}, expected 0 or more"));
        }
        Ok(())
    }
}

impl Reported for SineResults {
    const KIND: &'static str = "sine";
    const FORMAT: u64 = 1;

    fn check(&self) -> Result<(), String> {
        if self.cells.is_empty() {
            return Err("holds no trainings".into());
        }
        let rate = self.protocol.training.rate;
        if !(rate.is_finite() && rate > 0.0) {
            return Err(format!("a learning rate of {rate}"));
        }
        let mut seen = BTreeSet::new();
        for (i, entry) in self.cells.iter().enumerate() {
            let Entry { net, gamma, ahead, .. } = entry;
            let refuse = |why| format!("cells[{i}], {net} gamma {gamma} a {ahead}: {why}");
            entry.check().map_err(refuse)?;
            if !seen.insert((net, gamma, ahead)) {
                return Err(refuse("is there twice".into()));
            }
        }
        let sum = self.cells.iter().try_fold(0usize, |sum, entry| sum.checked_add(entry.sets));
        if sum != Some(self.trainings) {
            return Err(format!("{} trainings, and cells of another number", self.trainings));
        }
        Ok(())
    }

    /// All of [`NAMES`] but sine.json; sine-sd.svg where there are several data sets.
    fn files(&self) -> Result<Files, String> {
        self.check()?;
        let (mut page, mean) = (words::page(self), maps::mean(self).svg());
        let picture = bitmap("sine.png", &mean, &mut page);
        let mut files = vec![
            ("index.html", html::page(&page).into_bytes()),
            ("report.md", markdown::page(&page).into_bytes()),
            ("sine.csv", self.csv().into_bytes()),
            ("sine.svg", mean.into_bytes()),
        ];
        files.extend(picture);
        files.extend(maps::sd(self).map(|maps| ("sine-sd.svg", maps.svg().into_bytes())));
        Ok(files)
    }

    fn table(&self) -> String {
        words::text(self)
    }
}

/// The report on a campaign's own file, and sine.json with it.
pub fn report_on_campaign(path: &Path, bytes: &[u8]) -> Result<Report, String> {
    let (protocol, records) = from_bytes(path, bytes).map_err(|error| match error {
        drnn_train::Error::Results { reason, .. } => reason,
        other => other.to_string(),
    })?;
    let results = SineResults::new(&protocol, &records);
    let mut files = results.files()?;
    files.insert(0, ("sine.json", results.json()?.into_bytes()));
    Ok(Report { files, table: results.table() })
}
