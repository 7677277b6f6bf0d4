//! Results of `drnn reproduce sine`: the file, and its report.
//!
//! sine.json follows from the trainings alone, not from machines, shards or the order of work: a merged
//! campaign and a straight one give the same file. Times and machines are in the campaign's results.jsonl,
//! and in reports made from it.

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
pub use grid::{Step, deviations};
pub use maps::{mean as mean_maps, sd as sd_maps};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// All files that a report may have, the results' own among them.
pub const NAMES: [&str; 7] =
    ["sine.json", "index.html", "report.md", "sine.csv", "sine.svg", "sine-sd.svg", "sine.png"];
/// The maximum delay: with it the last element is read before the first output.
pub const MAX_DELAY: usize = STEPS - 1;

/// The contents of sine.json.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SineResults {
    /// "sine".
    kind: String,
    /// [`Reported::FORMAT`].
    format: u64,
    provenance: Origin,
    protocol: Protocol,
    /// Differences from the paper.
    deviations: Vec<String>,
    trainings: usize,
    cells: Vec<Entry>,
    /// Known if the report is made from the campaign's results.jsonl.
    #[serde(skip)]
    effort: Option<Effort>,
}

/// All data sets of one net, gamma and a together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    net: PaperNet,
    gamma: Gamma,
    ahead: usize,
    /// Data sets, and those whose training diverged, which no mean includes.
    sets: usize,
    ran_away: usize,
    mean_mse: Option<f64>,
    /// Between data sets; None for fewer than two.
    sd_mse: Option<f64>,
    mean_epochs: f64,
}

/// Time and machines of the trainings.
#[derive(Debug, Clone, PartialEq)]
struct Effort {
    /// Thread time.
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

    /// The mean test error of a cell.
    pub fn mse(&self, net: PaperNet, gamma: Gamma, ahead: usize) -> Option<f64> {
        let at = |entry: &&Entry| (entry.net, entry.gamma, entry.ahead) == (net, gamma, ahead);
        self.cells.iter().find(at)?.mean_mse
    }

    /// The step in the error of each delayed network after a = d.
    pub fn steps(&self) -> Vec<Step> {
        grid::Grid::of(self).steps()
    }

    /// The maximum number of data sets of a cell.
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
            && !(1..=MAX_DELAY).contains(&delay)
        {
            return Err(format!("a delay of {delay}, expected 1 to {MAX_DELAY}"));
        }
        if ahead > TAPS {
            return Err(format!("ahead is {ahead}, expected 0 to {TAPS}"));
        }
        if sets == 0 || ran_away > sets {
            return Err(format!("{sets} data sets, {ran_away} of them diverged"));
        }
        let finite = sets - ran_away;
        for (name, value, min) in [("mean_mse", mean_mse, 1), ("sd_mse", sd_mse, 2)] {
            match value {
                Some(value) if !(value.is_finite() && value >= 0.0) => {
                    return Err(format!("{name} is {value}, expected 0 or more"));
                }
                _ if value.is_some() == (finite >= min) => {}
                Some(value) => return Err(format!("{name} is {value}, of {finite} data sets")),
                None => return Err(format!("no {name}, of {finite} data sets")),
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
            return Err("contains no trainings".into());
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
                return Err(refuse("is given twice".into()));
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

/// The report on a campaign's results.jsonl, and its sine.json.
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
