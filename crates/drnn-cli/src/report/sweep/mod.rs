//! Results of `drnn sweep`: the file, and its report. The recommended delay is in `recommendation`.

mod recommendation;

use super::baselines::{alarm, baseline_table};
use super::kinds::{Files, Reported};
use super::page::{Figure, Page, Part, Table, duration, moments};
use super::training::{provenance_parts, training_facts};
use super::{Provenance, bitmap, check_runs, html, markdown};
use crate::plot::{Line, Picture, Plot, Scale, Style};
use crate::training::shown::mean_and_sd;
use drnn::text::{counted, grouped, shortened};
use drnn_train::baseline::Baseline;
use drnn_train::{Measure, Metric, Options, Reason};
use recommendation::{Compared, compared_networks};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt::Write;

/// The contents of sweep.json.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepResults {
    /// `sweep`.
    pub kind: String,
    /// 1.
    pub format: u64,
    pub provenance: Provenance,
    /// Its name.
    pub task: String,
    /// Describes task and data.
    pub what: String,
    /// Of training, validation and test set.
    pub sequences: [usize; 3],
    pub metric: Metric,
    /// The metric and what it is of; None in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<Measure>,
    /// How far from the best is good enough.
    pub tolerance: f64,
    /// The longest delay that makes sense for the data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub useful_delay: Option<usize>,
    pub options: Options,
    pub runs: Vec<Run>,
    /// The training whose model was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<SavedModel>,
    /// What simple predictors achieve on the same rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baselines: Vec<Baseline>,
    /// Says so if the recommended network is no better than one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// Which training a saved model is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedModel {
    pub net: String,
    pub repetition: usize,
}

impl SavedModel {
    /// `dlstm-5, the best of its 3 trainings on the validation set`.
    pub fn describe(&self, repeats: usize) -> String {
        let net = shortened(&self.net, 60);
        match repeats {
            1 => net,
            n => format!("{net}, the best of its {n} trainings on the validation set"),
        }
    }
}

/// One network, trained once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub net: String,
    pub repetition: usize,
    /// Seed of its parameters and of the order of batches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// None for a bidirectional network.
    pub delay: Option<usize>,
    /// Whether it is a baseline, which is not recommended.
    pub compared: bool,
    pub parameters: usize,
    /// The metric on the validation set; None if the training diverged in its first epoch.
    pub valid: Option<f64>,
    /// The metric on the test set; None if there is none, too.
    pub test: Option<f64>,
    pub epochs: usize,
    /// The epoch of the model, from 1; None in files of earlier versions: the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_epoch: Option<usize>,
    /// How much the metric improved in the last quarter of the epochs; None if it ended early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_improvement: Option<f64>,
    pub ended: Reason,
    pub seconds: f64,
}

/// Repetitions of one network.
struct Group<'a> {
    runs: Vec<&'a Run>,
}

impl Group<'_> {
    fn each(&self, value: impl Fn(&Run) -> Option<f64>) -> Vec<f64> {
        self.runs.iter().map(|run| value(run).unwrap_or(f64::NAN)).collect()
    }

    fn valid(&self) -> f64 {
        moments(&self.each(|run| run.valid)).0
    }

    /// The epoch of the model of all epochs; means over several trainings.
    fn epochs(&self) -> String {
        let mean =
            |epochs: &dyn Fn(&Run) -> usize| moments(&self.each(|run| Some(epochs(run) as f64))).0;
        let kept = mean(&|run| run.kept_epoch.unwrap_or(run.epochs));
        format!("{kept:.0} of {:.0}", mean(&|run| run.epochs))
    }

    /// `dlstm` of `dlstm-5`.
    fn family(&self) -> &str {
        let net = self.runs[0].net.as_str();
        net.split_once('-').map_or(net, |(family, _)| family)
    }
}

impl SweepResults {
    /// By net and delay, with baselines at the end.
    fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for run in &self.runs {
            let place = *places.entry(&run.net).or_insert(groups.len());
            match groups.get_mut(place) {
                Some(group) => group.runs.push(run),
                None => groups.push(Group { runs: vec![run] }),
            }
        }
        groups.sort_by_key(|group| {
            let run = group.runs[0];
            (run.compared, group.family().to_string(), run.delay.unwrap_or(usize::MAX))
        });
        groups
    }

    /// The recommended network, with its mean measures on the validation and the test set.
    fn recommended_scores(&self) -> Option<(String, f64, Option<f64>)> {
        let compared = Compared::of(self)?;
        let group = compared.recommended();
        let test = moments(&group.each(|run| run.test)).0;
        Some((group.net().into(), group.valid(), test.is_finite().then_some(test)))
    }

    /// The best training of the recommended network, as a place in `runs`.
    pub fn best_training(&self) -> Option<usize> {
        let compared = Compared::of(self)?;
        let net = compared.recommended().net();
        let runs = self.runs.iter().enumerate().filter(|(_, run)| run.net == net);
        let scores = runs.filter_map(|(at, run)| Some((at, run.valid?)));
        let better = |a: (usize, f64), b: (usize, f64)| match self.metric.is_better(b.1, a.1) {
            true => b,
            false => a,
        };
        scores.reduce(better).map(|(at, _)| at)
    }

    /// A loud sentence, if it is no better than a baseline.
    pub fn no_better_than_a_baseline(&self) -> Option<String> {
        let (net, valid, test) = self.recommended_scores()?;
        alarm(self.metric, &shortened(&net, 60), valid, test, &self.baselines)
    }

    /// The recommended network among the baselines; None where there are none.
    fn baseline_table(&self) -> Option<Table> {
        let network: Vec<_> = self.recommended_scores().into_iter().collect();
        (!self.baselines.is_empty()).then(|| baseline_table(self.metric, &network, &self.baselines))
    }

    /// Mean and standard deviation.
    fn worth(&self, values: &[f64]) -> String {
        mean_and_sd(self.metric, values)
    }

    /// The recommendation and its reason.
    fn summary(&self) -> String {
        let compared = Compared::of(self);
        let reason = compared.map(|compared| compared.summary());
        let reason = reason.unwrap_or("No delayed network could be trained.".into());
        let mut out = format!("{reason}{}", compared_networks(self));
        if let Some(model) = &self.model {
            let repeats = self.runs.iter().filter(|run| run.net == model.net).count();
            let _ = write!(out, " The model in model.safetensors is {}.", model.describe(repeats));
        }
        out
    }

    /// The measure and what it is of.
    fn measured(&self) -> String {
        self.measure.as_ref().map_or_else(|| self.metric.to_string(), Measure::to_string)
    }

    fn results_table(&self) -> Table {
        let compared = Compared::of(self);
        let compared = compared.as_ref();
        let rows = self.groups().into_iter().map(|group| {
            let run = group.runs[0];
            let recommended = compared.is_some_and(|c| c.recommended().net() == run.net);
            let mark = if recommended { " *" } else { "" };
            vec![
                format!("{}{mark}", run.net),
                run.delay.map_or("all".into(), |d| d.to_string()),
                self.worth(&group.each(|run| run.valid)),
                match self.sequences[2] {
                    0 => "none".into(),
                    _ => self.worth(&group.each(|run| run.test)),
                },
                compared.map_or("", |compared| compared.verdict(&run.net)).into(),
                grouped(run.parameters),
                group.epochs(),
                duration(moments(&group.each(|run| Some(run.seconds))).0),
            ]
        });
        Table {
            caption: format!(
                "{}, {}{}. Delay: steps between input and output; all: the whole sequence. Against the \
                 best: on the validation set. Epoch: that of the model. *: recommended.",
                self.measured(),
                if self.metric.higher_is_better() { "higher is better" } else { "lower is better" },
                match self.runs.iter().map(|run| run.repetition + 1).max().unwrap_or(1) {
                    1 => String::new(),
                    n => format!("; mean ± standard deviation of {}", counted(n, "training")),
                }
            ),
            head: [
                "net",
                "delay",
                "valid",
                "test",
                "against the best",
                "parameters",
                "epoch",
                "time",
            ]
            .map(String::from)
            .into(),
            rows: rows.collect(),
        }
    }

    fn plot(&self) -> Plot {
        let groups = self.groups();
        let end = groups.iter().filter_map(|group| group.runs[0].delay).max().unwrap_or(0).max(1);
        let mut lines: Vec<Line> = Vec::new();
        for group in &groups {
            let (valid, sd) = moments(&group.each(|run| run.valid));
            let run = group.runs[0];
            if run.compared {
                lines.push(Line {
                    name: run.net.clone(),
                    style: Style::Dotted,
                    colour: lines.len(),
                    strength: 1.0,
                    points: vec![(0.0, valid), (end as f64, valid)],
                    bars: Vec::new(),
                });
                continue;
            }
            let family = group.family();
            if lines.last().is_none_or(|line| line.name != family) {
                lines.push(Line {
                    name: family.into(),
                    style: Style::Solid,
                    colour: lines.len(),
                    strength: 1.0,
                    points: Vec::new(),
                    bars: Vec::new(),
                });
            }
            if let Some(line) = lines.last_mut() {
                line.points.push((run.delay.unwrap_or(0) as f64, valid));
                line.bars.push(sd.unwrap_or(0.0));
            }
        }
        let values = || lines.iter().flat_map(|line| &line.points).map(|p| p.1);
        let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
        let log = !self.metric.higher_is_better() && least > 0.0 && most >= 10.0 * least;
        Plot {
            title: format!("Quality against latency: {}", self.task),
            x: "delay d, in steps".into(),
            y: format!("{}, validation{}", self.measured(), if log { ", logarithmic" } else { "" }),
            scale: if log { Scale::Log } else { Scale::Around },
            guide: Compared::of(self).map(|compared| compared.recommended().delay() as f64),
            lines,
        }
    }

    fn page(&self) -> Page {
        let mut parts: Vec<Part> = self.warning.iter().cloned().map(Part::Alarm).collect();
        parts.extend([
            Part::Text(self.summary()),
            Part::Figure(Figure {
                name: "sweep",
                picture: Box::new(self.plot()),
                caption:
                    "A network with delay d reads d more elements before each output. Bars are \
                          standard deviations of repeated trainings. The vertical line is the \
                          recommended delay."
                        .into(),
            }),
            Part::Table(self.results_table()),
        ]);
        parts.extend(self.baseline_table().map(Part::Table));
        parts.extend([
            Part::Heading("Training"),
            Part::Text(format!("{}.", self.what)),
            Part::Facts(training_facts(self.sequences, &self.options)),
        ]);
        parts.extend(provenance_parts(&self.provenance));
        Page { title: format!("Delay against quality: {}", self.task), parts }
    }
}

impl Reported for SweepResults {
    const KIND: &'static str = "sweep";
    const FORMAT: u64 = 1;

    fn check(&self) -> Result<(), String> {
        check_runs(self.runs.len())?;
        if !(self.tolerance >= 0.0 && self.tolerance.is_finite()) {
            return Err(format!("tolerance is {}", self.tolerance));
        }
        for (i, run) in self.runs.iter().enumerate() {
            let refuse =
                |why: String| Err(format!("runs[{i}], {:?}: {why}", shortened(&run.net, 60)));
            for (name, value) in [("valid", run.valid), ("test", run.test)] {
                match value {
                    None if run.ended == Reason::NotFinite => {}
                    None if name == "test" && self.sequences[2] == 0 => {}
                    None => {
                        return refuse(format!(
                            "{name} is null, and the run did not end as not-finite"
                        ));
                    }
                    Some(x)
                        if !(x >= 0.0 && x.is_finite())
                            || (self.metric.higher_is_better() && x > 1.0) =>
                    {
                        return refuse(format!(
                            "{name} is {x}, which is not a valid {}",
                            self.metric
                        ));
                    }
                    Some(_) => {}
                }
            }
            if !(run.seconds >= 0.0 && run.seconds.is_finite()) {
                return refuse(format!("{} seconds", run.seconds));
            }
        }
        Ok(())
    }

    /// index.html, report.md, sweep.csv, sweep.svg, sweep.png.
    fn files(&self) -> Result<Files, String> {
        self.check()?;
        let (mut page, plot) = (self.page(), self.plot().svg());
        let picture = bitmap("sweep.png", &plot, &mut page);
        let mut files = vec![
            ("index.html", html::page(&page).into_bytes()),
            ("report.md", markdown::page(&page).into_bytes()),
            ("sweep.csv", csv(self).into_bytes()),
            ("sweep.svg", plot.into_bytes()),
        ];
        files.extend(picture);
        Ok(files)
    }

    /// With the recommendation.
    fn table(&self) -> String {
        let mut out = format!("{}\n{}\n", self.results_table().text(), self.summary());
        if let Some(table) = self.baseline_table() {
            let _ = write!(out, "\n{}\n{}", table.caption, table.text());
        }
        if let Some(warning) = &self.warning {
            let _ = write!(out, "\n{warning}\n");
        }
        out
    }
}

fn csv(results: &SweepResults) -> String {
    let mut out =
        String::from("net,repetition,seed,delay,parameters,valid,test,kept_epoch,epochs,seconds\n");
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for run in &results.runs {
        let delay = run.delay.map_or(String::new(), |d| d.to_string());
        let net = run.net.replace('"', "\"\"");
        let _ = writeln!(
            out,
            "\"{net}\",{},{},{delay},{},{},{},{},{},{}",
            run.repetition,
            run.seed.map_or(String::new(), |seed| seed.to_string()),
            run.parameters,
            number(run.valid),
            number(run.test),
            run.kept_epoch.unwrap_or(run.epochs),
            run.epochs,
            run.seconds
        );
    }
    out
}
