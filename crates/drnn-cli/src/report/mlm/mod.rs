//! Results of `drnn reproduce mlm`: the file, and its report.

mod plots;
mod words;

pub use words::title;

use super::kinds::{Files, Reported};
use super::{Provenance, bitmap, check_runs, html, markdown};
use crate::plot::Picture;
use drnn_train::chars::paper::Row;
use drnn_train::chars::paper_bpc;
use drnn_train::{Epoch, Options, Reason};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The contents of mlm.json.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MlmResults {
    /// "mlm".
    pub kind: String,
    /// [`Reported::FORMAT`].
    pub format: u64,
    pub provenance: Provenance,
    pub text: Text,
    /// Characters per window, T.
    pub window: usize,
    /// Fraction that is masked.
    pub masked: f64,
    pub options: Options,
    /// Differences from the paper.
    pub deviations: Vec<String>,
    pub runs: Vec<Run>,
}

/// The text, and the parts that were used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// All characters.
    pub characters: usize,
    /// Describes how it was split.
    pub split: String,
    /// Characters used to train, to validate, to test.
    pub used: [usize; 3],
    /// The same in windows.
    pub windows: [usize; 3],
}

/// One network, trained once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// A name of [`Row`].
    pub row: String,
    pub repetition: usize,
    pub parameters: usize,
    /// Bits per masked target on the validation set; None if the training diverged.
    pub valid_bpc: Option<f64>,
    /// And on the test set.
    pub test_bpc: Option<f64>,
    pub epochs: usize,
    pub ended: Reason,
    pub seconds: f64,
    pub history: Vec<Epoch>,
}

impl Run {
    fn row(&self) -> Result<Row, String> {
        self.row.parse()
    }
}

/// Repetitions of one network.
struct Group<'a> {
    row: Row,
    runs: Vec<&'a Run>,
}

impl Group<'_> {
    fn each(&self, value: impl Fn(&Run) -> Option<f64>) -> Vec<f64> {
        self.runs.iter().map(|run| value(run).unwrap_or(f64::NAN)).collect()
    }
}

impl MlmResults {
    /// By size, kind and delay.
    fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group> = Vec::new();
        for run in &self.runs {
            let Ok(row) = run.row() else { continue };
            match groups.iter_mut().find(|group| group.row == row) {
                Some(group) => group.runs.push(run),
                None => groups.push(Group { row, runs: vec![run] }),
            }
        }
        groups.sort_by_key(|Group { row, .. }| (row.size, row.net as usize, row.layers, row.delay));
        groups
    }
}

impl Reported for MlmResults {
    const KIND: &'static str = "mlm";
    const FORMAT: u64 = 1;

    fn check(&self) -> Result<(), String> {
        check_runs(self.runs.len())?;
        if !(1..=1_000_000).contains(&self.window) {
            return Err(format!("windows of {} characters", self.window));
        }
        for (i, run) in self.runs.iter().enumerate() {
            let refuse = |why: String| Err(format!("runs[{i}], {:?}: {why}", run.row));
            if let Err(why) = run.row() {
                return refuse(why);
            }
            for (name, value) in [("valid_bpc", run.valid_bpc), ("test_bpc", run.test_bpc)] {
                match value {
                    None if run.ended == Reason::NotFinite => {}
                    Some(bits) if bits >= 0.0 && bits.is_finite() => {}
                    _ => return refuse(format!("{name} is {value:?}, expected 0 or more")),
                }
            }
            if !(run.seconds >= 0.0 && run.seconds.is_finite()) {
                return refuse(format!("{} seconds", run.seconds));
            }
        }
        Ok(())
    }

    /// index.html, report.md, mlm.csv, bpc.svg, bpc.png, losses.svg.
    fn files(&self) -> Result<Files, String> {
        self.check()?;
        let (mut page, plot) = (words::page(self), plots::bpc(self).svg());
        let picture = bitmap("bpc.png", &plot, &mut page);
        let mut files = vec![
            ("index.html", html::page(&page).into_bytes()),
            ("report.md", markdown::page(&page).into_bytes()),
            ("mlm.csv", csv(self).into_bytes()),
            ("bpc.svg", plot.into_bytes()),
        ];
        files.extend(picture);
        files.push(("losses.svg", plots::losses(self).svg().into_bytes()));
        Ok(files)
    }

    fn table(&self) -> String {
        format!("{}\n{}\n", words::results_table(self).text(), words::division(self))
    }
}

fn csv(results: &MlmResults) -> String {
    let mut out = String::from(
        "row,repetition,delay,parameters,valid_bpc,test_bpc,valid_paper_bpc,test_paper_bpc,epochs,seconds\n",
    );
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for run in &results.runs {
        let Ok(Row { delay, .. }) = run.row() else { continue };
        let printed = |bits: Option<f64>| bits.map(|bits| paper_bpc(bits, results.window, delay));
        let _ = writeln!(
            out,
            "{},{},{delay},{},{},{},{},{},{},{}",
            run.row,
            run.repetition,
            run.parameters,
            number(run.valid_bpc),
            number(run.test_bpc),
            number(printed(run.valid_bpc)),
            number(printed(run.test_bpc)),
            run.epochs,
            run.seconds
        );
    }
    out
}
