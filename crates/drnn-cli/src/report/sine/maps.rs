//! Errors over gamma and a: the paper's figures.

use super::grid::{Axes, Grid};
use super::{Entry, SineResults};
use crate::plot::{HeatMap, HeatMaps};
use crate::report::training::title;
use drnn_train::PaperNet;
use drnn_train::sine::campaign::Gamma;

/// Maps of the mean, a network each.
pub fn mean(results: &SineResults) -> HeatMaps {
    maps(results, "Test error over gamma and a", "mean squared error", |entry| entry.mean_mse)
}

/// Maps of the standard deviation between data sets, where there are several.
pub fn sd(results: &SineResults) -> Option<HeatMaps> {
    let title = "Test error: deviation between data sets";
    (results.sets() > 1).then(|| maps(results, title, "standard deviation", |entry| entry.sd_mse))
}

fn maps(
    results: &SineResults,
    name: &str,
    scale: &str,
    value: fn(&Entry) -> Option<f64>,
) -> HeatMaps {
    let grid = Grid::of(results);
    let Axes { gammas, aheads, nets } = &grid.axes;
    let row = |net, gamma| aheads.iter().map(|a| grid.at(net, gamma, *a).and_then(value)).collect();
    let map = |&net: &PaperNet| HeatMap {
        name: title(net),
        guide: match net {
            PaperNet::Lstm => aheads.iter().position(|a| *a > 0),
            PaperNet::BiLstm => None,
            PaperNet::DLstm(delay) => aheads.iter().position(|a| *a > delay),
        },
        values: gammas.iter().map(|gamma| row(net, *gamma)).collect(),
    };
    HeatMaps {
        title: name.into(),
        x: "elements ahead, a".into(),
        y: "gamma".into(),
        scale: scale.into(),
        columns: aheads.iter().map(usize::to_string).collect(),
        rows: gammas.iter().map(Gamma::to_string).collect(),
        maps: nets.iter().map(map).collect(),
    }
}
