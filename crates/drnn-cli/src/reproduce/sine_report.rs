//! What `drnn reproduce sine` found: table, CSV, JSON and maps, from the results alone.
//!
//! Nothing here depends on the machine, on shards or on the order of work, so a merged campaign and a
//! straight one give the same files.

use super::Provenance;
use crate::plot::{HeatMap, HeatMaps};
use drnn::grouped;
use drnn_train::campaign::{Gamma, GridCell, Protocol};
use drnn_train::results::{Record, Records};
use drnn_train::{PaperNet, Schedule};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write as _};

/// What sine.json holds.
#[derive(Debug, Serialize)]
pub struct Report {
    #[serde(flatten)]
    provenance: Provenance,
    protocol: Protocol,
    /// Where this is not the paper's experiment.
    deviations: Vec<String>,
    trainings: usize,
    cells: Vec<Entry>,
    #[serde(skip)]
    axes: Axes,
}

/// All data sets of one net, gamma and a together.
#[derive(Debug, Serialize)]
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

/// What there is.
#[derive(Debug)]
struct Axes {
    gammas: Vec<Gamma>,
    aheads: Vec<usize>,
    nets: Vec<PaperNet>,
    sets: u64,
}

impl Axes {
    fn of<'a>(cells: impl Iterator<Item = &'a GridCell> + Clone) -> Axes {
        fn each<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
            values.collect::<BTreeSet<T>>().into_iter().collect()
        }
        Axes {
            gammas: each(cells.clone().map(|cell| cell.gamma)),
            aheads: each(cells.clone().map(|cell| cell.ahead)),
            nets: each(cells.clone().map(|cell| cell.net)),
            sets: cells.map(|cell| cell.set + 1).max().unwrap_or(0),
        }
    }
}

fn list<T: Display>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

/// Where these trainings are not the paper's, a phrase each.
pub fn deviations(protocol: &Protocol, cells: &[GridCell]) -> Vec<String> {
    let (paper, axes) = (Protocol::default(), Axes::of(cells.iter()));
    let mut found = Vec::new();
    let mut say = |differs: bool, here: String, there: &str| {
        if differs {
            found.push(format!("{here} (paper: {there})"));
        }
    };
    let [train, valid, test] = protocol.sequences.map(grouped);
    say(
        protocol.sequences != paper.sequences,
        format!("{train} + {valid} + {test} sequences"),
        "10,000 + 2,000 + 2,000",
    );
    let (here, there) = (&protocol.training, &paper.training);
    say(here.epochs != there.epochs, format!("{} epochs", grouped(here.epochs)), "1,000");
    say(here.batch != there.batch, format!("batches of {}", here.batch), "100");
    let along = if here.schedule == Schedule::Cosine { ", down along a cosine" } else { "" };
    say(
        here.rate != there.rate || here.schedule != there.schedule,
        format!("learning rate {}{along}", here.rate),
        "0.001 throughout",
    );
    say(axes.sets != 5, format!("{} data set(s) per cell", axes.sets), "5");
    let gammas = axes.gammas.len();
    say(gammas != 50, format!("{gammas} values of gamma"), "0.1 to 5.0, taken here as 50");
    let aheads = (0..=10).collect::<Vec<_>>();
    say(axes.aheads != aheads, format!("a = {}", list(&axes.aheads)), "0 to 10");
    found
}

impl Report {
    pub fn new(protocol: &Protocol, records: &Records) -> Report {
        let axes = Axes::of(records.keys());
        let mut groups: BTreeMap<(PaperNet, Gamma, usize), Vec<&Record>> = BTreeMap::new();
        for (cell, record) in records {
            groups.entry((cell.net, cell.gamma, cell.ahead)).or_default().push(record);
        }
        let cells: Vec<GridCell> = records.keys().copied().collect();
        Report {
            provenance: Provenance::new(command(protocol, &axes)),
            protocol: *protocol,
            deviations: deviations(protocol, &cells),
            trainings: records.len(),
            cells: groups.into_iter().map(|(cell, records)| entry(cell, &records)).collect(),
            axes,
        }
    }

    fn entry(&self, net: PaperNet, gamma: Gamma, ahead: usize) -> Option<&Entry> {
        self.cells.iter().find(|e| (e.net, e.gamma, e.ahead) == (net, gamma, ahead))
    }

    pub fn table(&self) -> String {
        let sets = match self.axes.sets {
            1 => "one data set".into(),
            sets => format!("mean of {sets} data sets"),
        };
        let mut out = format!("mean squared error on the test set, {sets}\n");
        for &net in &self.axes.nets {
            let _ = write!(out, "\n{net:10}");
            for ahead in &self.axes.aheads {
                let _ = write!(out, " {:>8}", format!("a = {ahead}"));
            }
            for &gamma in &self.axes.gammas {
                let _ = write!(out, "\ngamma {gamma:4}");
                for &ahead in &self.axes.aheads {
                    let text = match self.entry(net, gamma, ahead) {
                        None => ".".into(),
                        Some(entry) => {
                            entry.mean_mse.map_or("ran away".into(), |x| format!("{x:.1e}"))
                        }
                    };
                    let _ = write!(out, " {text:>8}");
                }
            }
            out.push('\n');
        }
        let steps = self.steps();
        if !steps.is_empty() {
            let _ = writeln!(out, "\nthe step behind a = d\n{}", steps.join("\n"));
        }
        for deviation in &self.deviations {
            let _ = write!(out, "\nnot the paper's: {deviation}");
        }
        out.push('\n');
        out
    }

    /// How much larger a delayed network's error is at the first a that it cannot see.
    fn steps(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for &net in &self.axes.nets {
            let PaperNet::DLstm(d) = net else { continue };
            let Some(&beyond) = self.axes.aheads.iter().find(|a| **a > d) else { continue };
            let ratio = |&gamma: &Gamma| {
                let at = |ahead| self.entry(net, gamma, ahead)?.mean_mse;
                Some(format!("{:.1} (gamma {gamma})", at(beyond)? / at(d)?))
            };
            let ratios: Vec<String> = self.axes.gammas.iter().filter_map(ratio).collect();
            if !ratios.is_empty() {
                let ratios = ratios.join(", ");
                lines.push(format!("{net}: error at a = {beyond} over that at a = {d}: {ratios}"));
            }
        }
        lines
    }

    pub fn csv(&self) -> String {
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

    /// Maps of the mean, a network each.
    pub fn mean_maps(&self) -> HeatMaps {
        self.maps("Test error over gamma and a", "mean squared error", |entry| entry.mean_mse)
    }

    /// Maps of the standard deviation between data sets, where there are several.
    pub fn sd_maps(&self) -> Option<HeatMaps> {
        let title = "Standard deviation of the test error between data sets";
        (self.axes.sets > 1).then(|| self.maps(title, "standard deviation", |entry| entry.sd_mse))
    }

    fn maps(&self, title: &str, scale: &str, value: fn(&Entry) -> Option<f64>) -> HeatMaps {
        let Axes { gammas, aheads, nets, .. } = &self.axes;
        let row = |net, gamma: &Gamma| {
            aheads.iter().map(|a| self.entry(net, *gamma, *a).and_then(value)).collect()
        };
        let map = |&net: &PaperNet| HeatMap {
            name: match net {
                PaperNet::Lstm => "LSTM".into(),
                PaperNet::BiLstm => "Bi-LSTM".into(),
                PaperNet::DLstm(d) => format!("d-LSTM, delay {d}"),
            },
            guide: match net {
                PaperNet::Lstm => aheads.iter().position(|a| *a > 0),
                PaperNet::BiLstm => None,
                PaperNet::DLstm(d) => aheads.iter().position(|a| *a > d),
            },
            values: gammas.iter().map(|gamma| row(net, gamma)).collect(),
        };
        HeatMaps {
            title: title.into(),
            x: "elements ahead, a".into(),
            y: "gamma".into(),
            scale: scale.into(),
            columns: aheads.iter().map(usize::to_string).collect(),
            rows: gammas.iter().map(Gamma::to_string).collect(),
            maps: nets.iter().map(map).collect(),
        }
    }
}

fn entry((net, gamma, ahead): (PaperNet, Gamma, usize), records: &[&Record]) -> Entry {
    let errors: Vec<f64> = records.iter().filter_map(|record| record.test_mse).collect();
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let mean_mse = (!errors.is_empty()).then(|| mean(&errors));
    let sd_mse = mean_mse.filter(|_| errors.len() > 1).map(|mean| {
        let squares: f64 = errors.iter().map(|x| (x - mean) * (x - mean)).sum();
        (squares / (errors.len() - 1) as f64).sqrt()
    });
    let epochs: Vec<f64> = records.iter().map(|record| record.epochs as f64).collect();
    let (sets, ran_away, mean_epochs) =
        (records.len(), records.len() - errors.len(), mean(&epochs));
    Entry { net, gamma, ahead, sets, ran_away, mean_mse, sd_mse, mean_epochs }
}

/// The command that gives these results, where none is missing.
fn command(protocol: &Protocol, axes: &Axes) -> String {
    let training = &protocol.training;
    let full = if training.schedule == Schedule::Constant { " --full" } else { "" };
    format!(
        "drnn reproduce sine{full} --gammas {} --aheads {} --nets {} --sets {} --epochs {} --rate {} \
         --batch {} --sequences {} --seed {}",
        list(&axes.gammas),
        list(&axes.aheads),
        list(&axes.nets),
        axes.sets,
        training.epochs,
        training.rate,
        training.batch,
        protocol.sequences[0],
        training.seed
    )
}
