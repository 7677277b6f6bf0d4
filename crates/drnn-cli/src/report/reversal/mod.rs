//! Results of `drnn reproduce reversal`: the file, and its report.

mod plots;
mod words;

pub use plots::accuracy as accuracy_plot;

use super::kinds::{Files, Reported};
use super::page::moments;
use super::training::title;
use super::{Provenance, bitmap, check_runs, html, markdown};
use crate::plot::Picture;
use drnn_train::{Epoch, Options, PaperNet, Reason};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt::Write;

/// Maximum length of sequences in a report.
const MAX_STEPS: usize = 10_000;

/// The contents of reversal.json.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReversalResults {
    /// "reversal".
    pub kind: String,
    /// [`Reported::FORMAT`].
    pub format: u64,
    pub provenance: Provenance,
    pub task: ReversalTask,
    pub options: Options,
    /// Differences from the paper.
    pub deviations: Vec<String>,
    pub runs: Vec<Run>,
}

/// The task, and sequences of each set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReversalTask {
    /// Elements per sequence, T.
    pub steps: usize,
    /// Symbols, V.
    pub symbols: usize,
    pub train: usize,
    pub valid: usize,
    pub test: usize,
}

/// One network, trained once. If its loss became NaN, other values may be NaN too, null in JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub net: String,
    pub repetition: usize,
    /// None for a bidirectional network.
    pub delay: Option<usize>,
    pub parameters: usize,
    /// The best expected accuracy for what the network has read.
    pub bound: f64,
    /// Accuracy of predictions sampled from the softmax.
    #[serde(deserialize_with = "or_nan")]
    pub sampled: f64,
    /// Accuracy of the most likely predictions.
    #[serde(deserialize_with = "or_nan")]
    pub likeliest: f64,
    #[serde(deserialize_with = "or_nan")]
    pub test_loss: f64,
    pub epochs: usize,
    pub ended: Reason,
    pub seconds: f64,
    #[serde(deserialize_with = "epochs")]
    pub history: Vec<Epoch>,
}

fn or_nan<'a, D: Deserializer<'a>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

fn epochs<'a, D: Deserializer<'a>>(from: D) -> Result<Vec<Epoch>, D::Error> {
    #[derive(Deserialize)]
    struct Found {
        epoch: usize,
        #[serde(deserialize_with = "or_nan")]
        train_loss: f64,
        #[serde(deserialize_with = "or_nan")]
        valid_loss: f64,
        valid_accuracy: Option<f64>,
        #[serde(deserialize_with = "or_nan")]
        norm: f64,
        rate: f32,
    }
    let found: Vec<Found> = Vec::deserialize(from)?;
    let epoch = |Found { epoch, train_loss, valid_loss, valid_accuracy, norm, rate }| Epoch {
        epoch,
        train_loss,
        valid_loss,
        valid_accuracy,
        valid_score: None,
        norm,
        rate,
    };
    Ok(found.into_iter().map(epoch).collect())
}

impl Reported for ReversalResults {
    const KIND: &'static str = "reversal";
    const FORMAT: u64 = 1;

    fn check(&self) -> Result<(), String> {
        let ReversalTask { steps, symbols, .. } = self.task;
        if !(1..=MAX_STEPS).contains(&steps) || symbols == 0 {
            return Err(format!(
                "sequences of {steps} elements of {symbols} symbols; expected 1 to {MAX_STEPS} of at least 1"
            ));
        }
        check_runs(self.runs.len())?;
        self.runs.iter().enumerate().try_for_each(|(i, run)| {
            run.check().map_err(|why| format!("runs[{i}], {:?}: {why}", run.net))
        })
    }

    /// index.html, report.md, reversal.csv, accuracy.svg, accuracy.png, losses.svg.
    fn files(&self) -> Result<Files, String> {
        self.check()?;
        let (mut page, accuracy) = (words::page(self), plots::accuracy(self).svg());
        let picture = bitmap("accuracy.png", &accuracy, &mut page);
        let mut files = vec![
            ("index.html", html::page(&page).into_bytes()),
            ("report.md", markdown::page(&page).into_bytes()),
            ("reversal.csv", csv(self).into_bytes()),
            ("accuracy.svg", accuracy.into_bytes()),
        ];
        files.extend(picture);
        files.push(("losses.svg", plots::losses(self).svg().into_bytes()));
        Ok(files)
    }

    fn table(&self) -> String {
        words::results_table(self).text()
    }
}

impl Run {
    fn check(&self) -> Result<(), String> {
        let diverged = self.ended == Reason::NotFinite;
        let shares =
            [("bound", self.bound), ("sampled", self.sampled), ("likeliest", self.likeliest)];
        for (name, value) in shares {
            let missing = value.is_nan() && diverged && name != "bound";
            if !(missing || (0.0..=1.0).contains(&value)) {
                return Err(format!("{name} is {}, expected 0 to 1", shown(value)));
            }
        }
        let losses = self.history.iter().flat_map(|epoch| {
            [("train_loss", epoch.train_loss), ("valid_loss", epoch.valid_loss)]
                .map(|(name, value)| (format!("{name} of epoch {}", epoch.epoch), value))
        });
        for (name, value) in losses.chain([("test_loss".into(), self.test_loss)]) {
            if value < 0.0 {
                return Err(format!("{name} is {value}, below 0"));
            }
            if !value.is_finite() && !diverged {
                return Err(format!(
                    "{name} is {}, and the run did not end as not-finite",
                    shown(value)
                ));
            }
        }
        if !(self.seconds >= 0.0 && self.seconds.is_finite()) {
            return Err(format!("{} seconds", self.seconds));
        }
        Ok(())
    }

    /// As the paper writes it: `d-LSTM 5`.
    fn title(&self) -> String {
        self.net.parse().map_or_else(|_| self.net.clone(), title)
    }
}

fn shown(value: f64) -> String {
    if value.is_nan() { "null".into() } else { value.to_string() }
}

/// Repetitions of one network.
struct Group<'a> {
    runs: Vec<&'a Run>,
}

impl Group<'_> {
    fn each(&self, value: impl Fn(&Run) -> f64) -> Vec<f64> {
        self.runs.iter().map(|run| value(run)).collect()
    }

    fn sampled(&self) -> (f64, Option<f64>) {
        moments(&self.each(|run| run.sampled))
    }

    fn first(&self) -> &Run {
        self.runs[0]
    }

    /// Whether it is a point over its delay; otherwise it is a horizontal line.
    fn delayed(&self) -> bool {
        let Run { net, delay, .. } = self.first();
        delay.is_some_and(|d| d > 0) || matches!(net.parse(), Ok(PaperNet::DLstm(_)))
    }
}

/// In the order of the runs.
fn groups(results: &ReversalResults) -> Vec<Group<'_>> {
    let mut groups: Vec<Group> = Vec::new();
    for run in &results.runs {
        let same =
            |group: &&mut Group| (&group.first().net, group.first().delay) == (&run.net, run.delay);
        match groups.iter_mut().find(same) {
            Some(group) => group.runs.push(run),
            None => groups.push(Group { runs: vec![run] }),
        }
    }
    groups
}

fn csv(results: &ReversalResults) -> String {
    let mut out = String::from(
        "net,repetition,delay,parameters,bound,sampled,likeliest,test_loss,epochs,ended,seconds\n",
    );
    let number = |value: f64| if value.is_nan() { String::new() } else { value.to_string() };
    for run in &results.runs {
        let Run { repetition, parameters, bound, epochs, seconds, .. } = run;
        let net = run.net.replace('"', "\"\"");
        let delay = run.delay.map_or(String::new(), |d| d.to_string());
        let [sampled, likeliest, loss] = [run.sampled, run.likeliest, run.test_loss].map(number);
        let ended = match run.ended {
            Reason::Epochs => "epochs",
            Reason::Patience => "patience",
            Reason::Value => "value",
            Reason::NotFinite => "not-finite",
        };
        let _ = writeln!(
            out,
            "\"{net}\",{repetition},{delay},{parameters},{bound},{sampled},{likeliest},{loss},{epochs},{ended},{seconds}"
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_back_as_it_was() {
        let text = include_str!("../../../tests/data/reversal.json");
        let mut results: ReversalResults = serde_json::from_str(text).unwrap();
        let again = |results: &ReversalResults| -> ReversalResults {
            serde_json::from_str(&serde_json::to_string(results).unwrap()).unwrap()
        };
        assert_eq!(again(&results), results);
        let run = &mut results.runs[1];
        run.history[0].valid_loss = f64::NAN;
        run.sampled = f64::NAN;
        let found = again(&results);
        assert!(found.runs[1].sampled.is_nan() && found.runs[1].history[0].valid_loss.is_nan());
        assert!(found.check().unwrap_err().contains("sampled is null"));
        results.runs[1].ended = Reason::NotFinite;
        assert_eq!(again(&results).check(), Ok(()));
    }
}
