//! The cells of a campaign as a grid, and its differences from the paper.

use super::{Entry, SineResults};
use drnn::text::grouped;
use drnn_train::sine::campaign::{Gamma, GridCell, Protocol};
use drnn_train::{PaperNet, Schedule};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// A cell without its data set.
type Place = (PaperNet, Gamma, usize);

/// The values of each axis, sorted.
pub struct Axes {
    pub gammas: Vec<Gamma>,
    pub aheads: Vec<usize>,
    pub nets: Vec<PaperNet>,
}

impl Axes {
    fn of(places: impl Iterator<Item = Place> + Clone) -> Axes {
        fn each<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
            values.collect::<BTreeSet<T>>().into_iter().collect()
        }
        Axes {
            gammas: each(places.clone().map(|(_, gamma, _)| gamma)),
            aheads: each(places.clone().map(|(_, _, ahead)| ahead)),
            nets: each(places.map(|(net, _, _)| net)),
        }
    }

    fn of_cells(cells: &[GridCell]) -> Axes {
        Axes::of(cells.iter().map(|cell| (cell.net, cell.gamma, cell.ahead)))
    }
}

/// Results by position in the grid.
pub struct Grid<'a> {
    pub axes: Axes,
    entries: BTreeMap<Place, &'a Entry>,
}

impl Grid<'_> {
    pub fn of(results: &SineResults) -> Grid<'_> {
        let place = |entry: &Entry| (entry.net, entry.gamma, entry.ahead);
        Grid {
            axes: Axes::of(results.cells.iter().map(place)),
            entries: results.cells.iter().map(|entry| (place(entry), entry)).collect(),
        }
    }

    pub fn at(&self, net: PaperNet, gamma: Gamma, ahead: usize) -> Option<&Entry> {
        self.entries.get(&(net, gamma, ahead)).copied()
    }

    /// The step in the error of each delayed network.
    pub fn steps(&self) -> Vec<Step> {
        let Axes { gammas, aheads, nets } = &self.axes;
        let step = |&net: &PaperNet| {
            let PaperNet::DLstm(delay) = net else { return None };
            let beyond = *aheads.iter().find(|ahead| **ahead > delay)?;
            let ratio = |gamma: Gamma| {
                let at = |ahead| self.at(net, gamma, ahead)?.mean_mse;
                Some(at(beyond)? / at(delay)?).filter(|ratio| ratio.is_finite())
            };
            let ratios: BTreeMap<Gamma, f64> =
                gammas.iter().filter_map(|gamma| Some((*gamma, ratio(*gamma)?))).collect();
            (!ratios.is_empty()).then_some(Step { net, delay, beyond, ratios })
        };
        nets.iter().filter_map(step).collect()
    }
}

/// The ratio of a delayed network's errors at a = `beyond`, the first a beyond its delay, and a = d.
pub struct Step {
    pub net: PaperNet,
    pub delay: usize,
    pub beyond: usize,
    pub ratios: BTreeMap<Gamma, f64>,
}

fn list<T: Display>(values: &[T]) -> String {
    values.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

/// The maximum number of data sets of a cell.
fn sets(cells: &[GridCell]) -> u64 {
    cells.iter().map(|cell| cell.set.saturating_add(1)).max().unwrap_or(0)
}

/// Differences from the paper, a phrase each.
pub fn deviations(protocol: &Protocol, cells: &[GridCell]) -> Vec<String> {
    let (paper, axes, sets) = (Protocol::default(), Axes::of_cells(cells), sets(cells));
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
    say(sets != 5, format!("{sets} data set(s) per cell"), "5");
    let gammas = axes.gammas.len();
    say(gammas != 50, format!("{gammas} values of gamma"), "0.1 to 5.0, taken here as 50");
    let aheads = (0..=10).collect::<Vec<_>>();
    say(axes.aheads != aheads, format!("a = {}", list(&axes.aheads)), "0 to 10");
    found
}

/// The command that gives these results, if they are complete.
pub fn command(protocol: &Protocol, cells: &[GridCell]) -> String {
    let (axes, training) = (Axes::of_cells(cells), &protocol.training);
    let full = if training.schedule == Schedule::Constant { " --full" } else { "" };
    format!(
        "drnn reproduce sine{full} --gammas {} --aheads {} --nets {} --sets {} --epochs {} --rate {} \
         --batch {} --sequences {} --seed {}",
        list(&axes.gammas),
        list(&axes.aheads),
        list(&axes.nets),
        sets(cells),
        training.epochs,
        training.rate,
        training.batch,
        protocol.sequences[0],
        training.seed
    )
}
