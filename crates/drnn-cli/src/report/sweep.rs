//! Results of `drnn sweep`: the file, and its report.

use super::baselines::{alarm, baseline_table};
use super::kinds::{Files, Reported};
use super::page::{Figure, Page, Part, Table, duration, mean_sd, moments, number};
use super::training::{provenance_parts, training_facts};
use super::{Provenance, bitmap, check_runs, html, markdown};
use crate::plot::{Line, Picture, Plot, Scale, Style};
use drnn::text::{grouped, shortened};
use drnn_train::baseline::Baseline;
use drnn_train::{Metric, Options, Reason, recommended_delay};
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
    /// How far from the best is good enough.
    pub tolerance: f64,
    pub options: Options,
    pub runs: Vec<Run>,
    /// What simple predictors achieve on the same rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baselines: Vec<Baseline>,
    /// Says so if the recommended network is no better than one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// One network, trained once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub net: String,
    pub repetition: usize,
    /// None for a bidirectional network.
    pub delay: Option<usize>,
    /// Whether it is a baseline, which is not recommended.
    pub compared: bool,
    pub parameters: usize,
    /// The metric on the validation set; None if the training diverged.
    pub valid: Option<f64>,
    /// The metric on the test set.
    pub test: Option<f64>,
    pub epochs: usize,
    pub ended: Reason,
    pub seconds: f64,
}

/// At most this many baselines are named in the summary.
const MAX_COMPARED: usize = 20;

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

    /// The delayed network with the smallest delay among those within the tolerance.
    fn recommended_delay(&self) -> Option<String> {
        let groups = self.groups();
        let delayed: Vec<&Group> = groups.iter().filter(|group| !group.runs[0].compared).collect();
        let found: Vec<(usize, f64)> =
            delayed.iter().map(|group| (group.runs[0].delay.unwrap_or(0), group.valid())).collect();
        let delay = recommended_delay(self.metric, self.tolerance, &found)?;
        let better = |a: f64, b: f64| if self.metric.higher_is_better() { a > b } else { a < b };
        let same =
            delayed.iter().zip(&found).filter(|(_, (d, valid))| *d == delay && valid.is_finite());
        let best = same.reduce(|a, b| if better(b.1.1, a.1.1) { b } else { a })?;
        Some(best.0.runs[0].net.clone())
    }

    /// The recommended network, with its mean measures on the validation and the test set.
    fn recommended_scores(&self) -> Option<(String, f64, Option<f64>)> {
        let net = self.recommended_delay()?;
        let groups = self.groups();
        let group = groups.iter().find(|group| group.runs[0].net == net)?;
        let test = moments(&group.each(|run| run.test)).0;
        Some((net, group.valid(), test.is_finite().then_some(test)))
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

    fn shown(&self, value: f64) -> String {
        if self.metric == Metric::SquaredError { number(value) } else { format!("{value:.4}") }
    }

    fn worth(&self, values: &[f64]) -> String {
        match moments(values) {
            (mean, _) if !mean.is_finite() => "not finite".into(),
            (mean, Some(sd)) => format!("{} ± {}", self.shown(mean), self.shown(sd)),
            (mean, None) => self.shown(mean),
        }
    }

    /// The recommendation and its reason.
    fn summary(&self) -> String {
        let groups = self.groups();
        let value =
            |net: &str| groups.iter().find(|group| group.runs[0].net == net).map(Group::valid);
        let Some(net) = self.recommended_delay() else {
            return "No delayed network could be trained.".into();
        };
        let delay = self.runs.iter().find(|run| run.net == net).and_then(|run| run.delay);
        let (delay, worth) = (delay.unwrap_or(0), value(&net).unwrap_or(f64::NAN));
        let close = match self.metric.higher_is_better() {
            true => format!("within {} of the best", self.tolerance),
            false => format!("within {:.0} % of the lowest", self.tolerance * 100.0),
        };
        let mut out = format!(
            "Recommended: {}, with a delay of {delay} steps: the shortest delay whose {} on the validation set, {}, is {close}.",
            shortened(&net, 60),
            self.metric,
            self.shown(worth)
        );
        let compared = |group: &&Group| group.runs[0].compared && group.valid().is_finite();
        for group in groups.iter().filter(compared).take(MAX_COMPARED) {
            let wait = group.runs[0].delay.map_or("needs the whole sequence".into(), |d| match d {
                0 => "has no delay".to_string(),
                d => format!("has a delay of {d} steps"),
            });
            let _ = write!(
                out,
                " {}, which {wait}: {}.",
                shortened(&group.runs[0].net, 60),
                self.shown(group.valid())
            );
        }
        out
    }

    fn results_table(&self) -> Table {
        let recommended = self.recommended_delay();
        let rows = self.groups().into_iter().map(|group| {
            let run = group.runs[0];
            let mark = if recommended.as_ref() == Some(&run.net) { " *" } else { "" };
            vec![
                format!("{}{mark}", run.net),
                run.delay.map_or("all".into(), |d| d.to_string()),
                self.worth(&group.each(|run| run.valid)),
                self.worth(&group.each(|run| run.test)),
                grouped(run.parameters),
                mean_sd(&group.each(|run| Some(run.epochs as f64)), 0),
                duration(moments(&group.each(|run| Some(run.seconds))).0),
            ]
        });
        Table {
            caption: format!(
                "{}, {}. Delay: steps between input and output; all: the whole sequence. *: recommended.",
                self.metric,
                if self.metric.higher_is_better() { "higher is better" } else { "lower is better" }
            ),
            head: ["net", "delay", "valid", "test", "parameters", "epochs", "time"]
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
        let recommended = self.recommended_delay();
        let at = self.runs.iter().find(|run| Some(&run.net) == recommended.as_ref());
        Plot {
            title: format!("Quality against latency: {}", self.task),
            x: "delay d, in steps".into(),
            y: format!("{}, validation{}", self.metric, if log { ", logarithmic" } else { "" }),
            scale: if log { Scale::Log } else { Scale::Around },
            guide: at.and_then(|run| run.delay).map(|d| d as f64),
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
                caption: "A network with delay d reads d more elements before each output. The vertical line is the recommended delay."
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
    let mut out = String::from("net,repetition,delay,parameters,valid,test,epochs,seconds\n");
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    for run in &results.runs {
        let delay = run.delay.map_or(String::new(), |d| d.to_string());
        let net = run.net.replace('"', "\"\"");
        let _ = writeln!(
            out,
            "\"{net}\",{},{delay},{},{},{},{},{}",
            run.repetition,
            run.parameters,
            number(run.valid),
            number(run.test),
            run.epochs,
            run.seconds
        );
    }
    out
}
