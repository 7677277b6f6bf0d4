//! Results of `drnn train`: the file, and its report.

use super::baselines::{baseline_table, with_standard_error};
use super::kinds::{Files, Reported};
use super::page::{Figure, Page, Part, Table, duration};
use super::predictions::{Horizons, Stretch, svg_name};
use super::training::{provenance_parts, training_facts};
use super::{Provenance, html, markdown};
use crate::plot::Confusion;
use crate::training::shown::shown;
use drnn::text::grouped;
use drnn_train::baseline::Baseline;
use drnn_train::{ConfusionMatrix, Epoch, Measure, Metric, Options, Reason};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The contents of training.json.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainingResults {
    /// `training`.
    pub kind: String,
    /// 1.
    pub format: u64,
    pub provenance: Provenance,
    /// Its name.
    pub task: String,
    /// Describes the data.
    pub what: String,
    /// Describes the network.
    pub net: String,
    /// The delay in steps; None for a bidirectional network.
    pub latency: Option<usize>,
    pub parameters: usize,
    pub metric: Metric,
    /// The metric and what it is of; None in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<Measure>,
    /// Of training, validation and test set.
    pub sequences: [usize; 3],
    pub options: Options,
    pub ended: Reason,
    /// The epoch of the model, from 1.
    pub kept_epoch: usize,
    #[serde(deserialize_with = "number_or_null")]
    pub valid: f64,
    pub test: Option<f64>,
    pub seconds: f64,
    pub history: Vec<Epoch>,
    /// Further evaluation.
    #[serde(default)]
    pub judged: Vec<Judged>,
    /// Remarks.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What simple predictors achieve on the same rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baselines: Vec<Baseline>,
    /// Says so if the network is no better than one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Predictions that the accuracy is computed from, on the validation and on the test set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scored: Option<[usize; 2]>,
}

/// JSON has null for NaN.
fn number_or_null<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
}

/// A result of the evaluation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judged {
    /// Numbers in rows: the first column names the row.
    Table { caption: String, head: Vec<String>, rows: Vec<Vec<String>> },
    /// Confusion matrix: how often a class (row) was predicted as another (column).
    Confusion {
        classes: Vec<String>,
        counts: Vec<Vec<u64>>,
        /// Classes that share the last row and column.
        #[serde(default, skip_serializing_if = "is_zero")]
        others: usize,
    },
    /// Predictions of a target against the truth.
    Stretch(Stretch),
    /// Errors of a target by how far ahead it is predicted.
    Horizons(Horizons),
}

/// Tables and notes for a terminal; pictures are left out.
pub fn judged_text(judged: &[Judged], notes: &[String]) -> String {
    let mut out = String::new();
    for judged in judged {
        if let Judged::Table { caption, head, rows } = judged {
            let table = Table { caption: String::new(), head: head.clone(), rows: rows.clone() };
            let _ = write!(out, "\n{caption}\n{}", table.text());
        }
    }
    notes.iter().for_each(|note| {
        let _ = writeln!(out, "{note}");
    });
    out
}

/// Maximum classes in the picture of a confusion matrix.
const MAX_SHOWN_CLASSES: usize = 60;
/// Maximum rows of a table of classes.
const MAX_CLASS_ROWS: usize = 500;

impl Judged {
    /// The confusion matrix. Of many classes the most frequent, and the others together.
    pub fn confusion(names: &[String], confusion: &drnn_train::Confusion) -> Judged {
        let ConfusionMatrix { classes, others, counts } = confusion.matrix(MAX_SHOWN_CLASSES);
        let mut classes: Vec<String> = classes.into_iter().map(|i| names[i].clone()).collect();
        if others > 0 {
            classes.push(format!("{others} others"));
        }
        Judged::Confusion { classes, counts, others }
    }
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

/// The classes that a table shows, in order, and a phrase for its caption if these are not all.
pub fn most_frequent(confusion: &drnn_train::Confusion) -> (Vec<usize>, String) {
    let (mut shown, all) = (confusion.by_frequency(), confusion.classes());
    shown.truncate(MAX_CLASS_ROWS);
    shown.sort_unstable();
    let which = match all > shown.len() {
        true => format!(", the {MAX_CLASS_ROWS} most frequent of {}", grouped(all)),
        false => String::new(),
    };
    (shown, which)
}

impl TrainingResults {
    fn shown(&self, value: f64) -> String {
        shown(self.metric, value)
    }

    /// The measure in words.
    pub fn measured(&self) -> String {
        self.measure.as_ref().map_or_else(|| self.metric.to_string(), Measure::to_string)
    }

    /// The measure on the validation set (0) or test set (1); an accuracy with its standard error.
    fn measured_on(&self, set: usize, value: f64) -> String {
        match self.scored {
            Some(scored) if self.metric == Metric::Accuracy && value.is_finite() => {
                with_standard_error(value, scored[set])
            }
            _ => self.shown(value),
        }
    }

    fn summary(&self) -> String {
        let mut out = format!(
            "{}: {} on the validation set",
            self.measured(),
            self.measured_on(0, self.valid)
        );
        if let Some(test) = self.test {
            let _ = write!(out, ", {} on the test set", self.measured_on(1, test));
        }
        let epochs = self.history.len();
        let _ = write!(out, ". The model is that of epoch {} of {epochs}", self.kept_epoch);
        out += match self.ended {
            Reason::Epochs => ".",
            Reason::Patience => "; after it the validation set showed no improvement.",
            Reason::Value => ", when it was good enough.",
            Reason::NotFinite => "; then the loss became NaN: a lower learning rate may help.",
        };
        let late = match self.latency {
            None => " Outputs need the whole sequence.".into(),
            Some(0) => " Outputs have no delay.".into(),
            Some(1) => " Outputs are 1 step late.".into(),
            Some(d) => format!(" Outputs are {d} steps late."),
        };
        out + &late
    }

    fn results_table(&self) -> Table {
        let row = vec![
            self.task.clone(),
            self.latency.map_or("all".into(), |d| d.to_string()),
            self.measured_on(0, self.valid),
            self.test.map_or("none".into(), |test| self.measured_on(1, test)),
            grouped(self.parameters),
            format!("{} of {}", self.kept_epoch, self.history.len()),
            duration(self.seconds),
        ];
        Table {
            caption: format!(
                "{} of the saved model{}. Delay all: it needs the whole sequence.",
                self.measured(),
                match self.scored {
                    Some(_) if self.metric == Metric::Accuracy => {
                        " ± its standard error, sqrt(p (1 - p) / n)"
                    }
                    _ => "",
                }
            ),
            head: ["task", "delay", "valid", "test", "parameters", "epoch", "time"]
                .map(String::from)
                .into(),
            rows: vec![row],
        }
    }

    fn page(&self) -> Page {
        let mut parts: Vec<Part> = self.warning.iter().cloned().map(Part::Alarm).collect();
        parts.extend([
            Part::Text(self.summary()),
            Part::List(
                self.net
                    .lines()
                    .map(String::from)
                    .chain([format!("data: {}", self.what)])
                    .collect(),
            ),
            Part::Table(self.results_table()),
        ]);
        parts.extend(self.curves().into_iter().map(Part::Figure));
        parts.extend(self.baseline_table().map(Part::Table));
        for judged in &self.judged {
            if let Judged::Table { caption, head, rows } = judged {
                let (caption, head, rows) = (caption.clone(), head.clone(), rows.clone());
                parts.push(Part::Table(Table { caption, head, rows }));
            }
        }
        parts.extend(self.pictures().into_iter().map(Part::Figure));
        if !self.notes.is_empty() {
            parts.push(Part::List(self.notes.clone()));
        }
        parts.push(Part::Heading("Training"));
        parts.push(Part::Facts(training_facts(self.sequences, &self.options)));
        parts.extend(provenance_parts(&self.provenance));
        Page { title: format!("Training: {}", self.task), parts }
    }
}

impl TrainingResults {
    /// The network among the baselines; None where there are none.
    fn baseline_table(&self) -> Option<Table> {
        let network = [("network".to_string(), self.valid, self.test)];
        (!self.baselines.is_empty()).then(|| baseline_table(self.metric, &network, &self.baselines))
    }

    /// Pictures of the evaluation.
    fn pictures(&self) -> Vec<Figure> {
        let (mut figures, mut stretches, mut horizons) = (Vec::new(), 0, 0);
        for judged in &self.judged {
            match judged {
                Judged::Table { .. } => {}
                Judged::Confusion { classes, counts, others } => {
                    figures.push(confusion(classes, counts, *others));
                }
                Judged::Stretch(stretch) => {
                    figures.extend(stretch.figures(stretches));
                    stretches += 1;
                }
                Judged::Horizons(errors) => {
                    figures.extend(errors.figure(horizons));
                    horizons += 1;
                }
            }
        }
        figures
    }
}

/// The picture of a confusion matrix; of many classes, the most frequent.
fn confusion(classes: &[String], counts: &[Vec<u64>], others: usize) -> Figure {
    let title = "Confusion matrix".into();
    if classes.len() > MAX_SHOWN_CLASSES {
        let mut all = drnn_train::Confusion::new(classes.len());
        for (truth, row) in counts.iter().enumerate() {
            let counted = row.iter().enumerate().filter(|(_, count)| **count > 0);
            counted.for_each(|(answer, &count)| all.add(truth, answer, count));
        }
        if let Judged::Confusion { classes, counts, others } = Judged::confusion(classes, &all) {
            return confusion(&classes, &counts, others);
        }
    }
    let mut caption = String::from(
        "Rows: true class; columns: predicted class, in per cent of the row. Correct predictions are green.",
    );
    if others > 0 {
        let shown = classes.len().saturating_sub(1);
        let _ = write!(
            caption,
            " These are the {shown} most frequent classes; the last row and column are the {others} others."
        );
    }
    let picture = Confusion { title, classes: classes.to_vec(), counts: counts.to_vec() };
    Figure { name: "confusion", picture: Box::new(picture), caption }
}

impl Reported for TrainingResults {
    const KIND: &'static str = "training";
    const FORMAT: u64 = 1;

    fn check(&self) -> Result<(), String> {
        if self.history.is_empty() || !(1..=self.history.len()).contains(&self.kept_epoch) {
            return Err(format!(
                "the model is of epoch {}, of {}",
                self.kept_epoch,
                self.history.len()
            ));
        }
        let values =
            [("valid", Some(self.valid)), ("test", self.test), ("seconds", Some(self.seconds))];
        for (name, value) in values {
            // NaN, which is null in the file, is shown as such.
            if value.is_some_and(|x| x < 0.0) {
                return Err(format!("{name} is {value:?}, expected 0 or more"));
            }
        }
        for judged in &self.judged {
            match judged {
                Judged::Table { head, rows, .. } => {
                    if rows.iter().any(|row| row.len() != head.len()) {
                        return Err("a table has rows of another length than its head".into());
                    }
                }
                Judged::Confusion { classes, counts, .. } => {
                    let square = counts.len() == classes.len()
                        && counts.iter().all(|row| row.len() == classes.len());
                    if !square {
                        return Err(format!(
                            "confusion of {} classes, expected a square of counts",
                            classes.len()
                        ));
                    }
                }
                Judged::Stretch(stretch) => stretch.check()?,
                Judged::Horizons(errors) => errors.check()?,
            }
        }
        Ok(())
    }

    /// index.html, report.md, training.csv and the plots.
    fn files(&self) -> Result<Files, String> {
        self.check()?;
        let page = self.page();
        let mut files = vec![
            ("index.html", html::page(&page).into_bytes()),
            ("report.md", markdown::page(&page).into_bytes()),
            ("training.csv", csv(&self.history).into_bytes()),
        ];
        for Figure { name, picture, .. } in self.curves() {
            let file = if name == "validation" { "validation.svg" } else { "losses.svg" };
            files.push((file, picture.svg().into_bytes()));
        }
        for Figure { name, picture, .. } in self.pictures() {
            files.push((svg_name(name), picture.svg().into_bytes()));
        }
        Ok(files)
    }

    fn table(&self) -> String {
        let mut out = format!("{}\n{}\n", self.results_table().text(), self.summary());
        if let Some(table) = self.baseline_table() {
            let _ = write!(out, "\n{}\n{}", table.caption, table.text());
        }
        out += &judged_text(&self.judged, &self.notes);
        if let Some(warning) = &self.warning {
            let _ = write!(out, "\n{warning}\n");
        }
        out
    }
}

fn csv(history: &[Epoch]) -> String {
    let mut out =
        String::from("epoch,train_loss,valid_loss,valid_accuracy,valid_score,norm,rate\n");
    for e in history {
        let text = |value: Option<f64>| value.map_or(String::new(), |x| x.to_string());
        let (accuracy, score) = (text(e.valid_accuracy), text(e.valid_score));
        let _ = writeln!(
            out,
            "{},{},{},{accuracy},{score},{},{}",
            e.epoch, e.train_loss, e.valid_loss, e.norm, e.rate
        );
    }
    out
}
