//! Sine of a filtered sequence: the paper's maps of errors over gamma and a.

use super::Section;
use super::absent::task_cell;
use super::claims::{Claim, Verdict};
use crate::campaign::{Outcome, Plan, Protocol, TaskRecord};
use crate::report::page::{Figure, Part, Table};
use crate::report::sine::{SineResults, Step, mean_maps, sd_maps};
use drnn_train::PaperNet;
use drnn_train::sine::campaign::Gamma;
use drnn_train::sine::results::Records;
use std::collections::{BTreeMap, BTreeSet};

/// Errors below this are small in the maps; the variance of the target is about 0.5 where it is
/// strongly non-linear.
const SMALL: f64 = 0.01;
/// A switch in performance: an error several times larger.
const SWITCH: f64 = 3.0;
/// From here on the function is called strongly non-linear here.
const STRONG: f64 = 3.0;

/// All trainings of the maps.
pub struct Maps {
    results: Option<SineResults>,
    /// Data sets of each frequency.
    sets: BTreeMap<Gamma, BTreeSet<u64>>,
}

impl Maps {
    pub fn of(records: &[&TaskRecord]) -> Maps {
        let (mut all, mut sets) = (Records::new(), BTreeMap::<Gamma, BTreeSet<u64>>::new());
        let mut protocol = None;
        for record in records {
            let Outcome::Sine { protocol: of, records } = &record.outcome else { continue };
            protocol = Some(*of);
            for record in records {
                sets.entry(record.cell.gamma).or_default().insert(record.cell.set);
                all.insert(record.cell, record.clone());
            }
        }
        Maps { results: protocol.map(|protocol| SineResults::new(&protocol, &all)), sets }
    }

    /// Every frequency, a from 1, and the errors of Bi-LSTM and d-LSTM 10.
    fn acausal(&self) -> Vec<(Gamma, usize, f64, f64)> {
        let Some(results) = &self.results else { return Vec::new() };
        let cells = self.sets.keys().flat_map(|gamma| (1..=10).map(move |a| (*gamma, a)));
        let errors = |(gamma, a)| {
            let both = results.mse(PaperNet::BiLstm, gamma, a)?;
            Some((gamma, a, both, results.mse(PaperNet::DLstm(10), gamma, a)?))
        };
        cells.filter_map(errors).collect()
    }
}

pub fn section(maps: &Maps) -> Section {
    let mut parts = vec![
        Part::Code(
            "y_t = sin(gamma * sum_j w_(j+c) x_(t+j))\nj = -c+1 .. a,  c = 20 - a".into(),
        ),
        Part::Text(
            "The filter w has 20 taps, a of which look ahead; the larger gamma, the less linear the target. Up to 1,000 \
             epochs, until the validation error is below 1e-5. The paper draws gamma from 0.1 to 5 without its step; ours are \
             0.1, 0.5, 1.0, 1.5 .. 5.0."
                .into(),
        ),
    ];
    let Some(results) = &maps.results else {
        parts
            .push(Part::Text("Not trained yet: tasks sine, about 2.5 min each on an H200.".into()));
        return Section { heading: "Sine error maps: Figure sinus", parts };
    };
    parts.push(Part::Figure(Figure {
        name: "sine",
        picture: Box::new(mean_maps(results)),
        caption: "Mean test error, one scale of colours for all networks: dark is a small error; the scale is logarithmic. \
                  Right of the dashed line the target depends on numbers that the network has not read."
            .into(),
    }));
    match sd_maps(results) {
        Some(picture) => parts.push(Part::Figure(Figure {
            name: "sine-sd",
            picture: Box::new(picture),
            caption: "Standard deviation between data sets, the figure of the paper's supplement.".into(),
        })),
        None => parts.push(Part::Text(
            "The maps of standard deviations need a second data set, which is not trained yet: tasks sine/gamma-G/set-1 \
             to set-4."
                .into(),
        )),
    }
    parts.push(Part::Table(coverage(maps)));
    Section { heading: "Sine error maps: Figure sinus", parts }
}

/// Data sets of each frequency, and the step after a = 5.
fn coverage(maps: &Maps) -> Table {
    let steps = maps.results.as_ref().map(SineResults::steps).unwrap_or_default();
    let after_5 = steps.iter().find(|step| step.delay == 5);
    let planned = Plan::new(Protocol::Paper, 1);
    let gammas: BTreeSet<Gamma> = planned.tasks.iter().filter_map(|task| task.gamma()).collect();
    let row = |gamma: &Gamma| {
        let sets = maps.sets.get(gamma).map_or(0, BTreeSet::len);
        let ratio = after_5.and_then(|Step { ratios, .. }| ratios.get(gamma));
        let trained = match sets {
            0 => "not trained yet".into(),
            _ => format!("{sets} of 5"),
        };
        let ratio = ratio.map_or(String::new(), |ratio| format!("{ratio:.1}"));
        let task = planned.tasks.iter().find(|task| task.gamma() == Some(*gamma));
        let id = format!("sine/gamma-{gamma}");
        let id = task.map_or(id.clone(), |task| task_cell(id, task, sets > 0));
        vec![format!("gamma {gamma}"), trained, ratio, id]
    };
    Table {
        caption: "Data sets that are trained, each of 44 networks; and how many times larger the error of the d-LSTM 5 is at \
                  a = 6 than at a = 5."
            .into(),
        head: ["", "data sets", "d-LSTM 5: a = 6 over a = 5", "task"].map(String::from).into(),
        rows: gammas.iter().map(row).collect(),
    }
}

pub fn claims(maps: &Maps) -> Vec<Claim> {
    vec![switch(maps), delay_10(maps), bilstm_suffers(maps)]
}

fn switch(maps: &Maps) -> Claim {
    let claim = "The d-LSTM of delay 5 shows a clear switch in performance from a = 5 to a = 6";
    let steps = maps.results.as_ref().map(SineResults::steps).unwrap_or_default();
    let Some(step) = steps.iter().find(|step| step.delay == 5 && step.beyond == 6) else {
        return Claim::open(claim, "sine");
    };
    let (all, clear) = (step.ratios.len(), step.ratios.values().filter(|r| **r > SWITCH).count());
    let lowest = step.ratios.values().copied().fold(f64::INFINITY, f64::min);
    let highest = step.ratios.values().copied().fold(0.0, f64::max);
    let verdict = match clear {
        _ if clear == all => Verdict::Holds,
        0 => Verdict::DoesNot,
        _ => Verdict::InPart,
    };
    let evidence = format!(
        "The error grows {lowest:.1} to {highest:.0} times, in {clear} of {all} frequencies more than {SWITCH:.0} times."
    );
    Claim::new(claim, verdict, evidence)
}

fn delay_10(maps: &Maps) -> Claim {
    let claim = "The d-LSTM of delay 10 performs well for every a up to 10";
    let cells = maps.acausal();
    if cells.is_empty() {
        return Claim::open(claim, "sine");
    }
    let poor: Vec<_> = cells.iter().filter(|(.., delayed)| *delayed >= SMALL).collect();
    let verdict = match poor.len() {
        0 => Verdict::Holds,
        n if 2 * n < cells.len() => Verdict::InPart,
        _ => Verdict::DoesNot,
    };
    let lowest = poor.iter().map(|(gamma, ..)| *gamma).min();
    let above =
        lowest.map_or(String::new(), |gamma| format!("; all others have gamma {gamma} or more"));
    let evidence = format!(
        "The error is below {SMALL} in {} of {} cells with a from 1 to 10{above}.",
        cells.len() - poor.len(),
        cells.len()
    );
    Claim::new(claim, verdict, evidence)
}

fn bilstm_suffers(maps: &Maps) -> Claim {
    let claim = "As non-linearity increases the Bi-LSTM suffers, and the d-LSTM does better";
    let cells = maps.acausal();
    let strong: Vec<_> = cells.iter().filter(|(gamma, ..)| f64::from(*gamma) >= STRONG).collect();
    if strong.is_empty() {
        return Claim::open(claim, "sine");
    }
    let better = strong.iter().filter(|(_, _, both, delayed)| delayed < both).count();
    let verdict = match better {
        _ if better == strong.len() => Verdict::Holds,
        n if 2 * n > strong.len() => Verdict::InPart,
        _ => Verdict::DoesNot,
    };
    let logs = |values: Vec<f64>| {
        let sum: f64 = values.iter().map(|value| value.max(f64::MIN_POSITIVE).ln()).sum();
        (sum / values.len() as f64).exp()
    };
    let both = logs(strong.iter().map(|cell| cell.2).collect());
    let delayed = logs(strong.iter().map(|cell| cell.3).collect());
    let evidence = format!(
        "For gamma from {STRONG:.0} and a from 1 to 10, the d-LSTM of delay 10 has the smaller error in {better} of {} \
         cells; geometric means {delayed:.1e} and {both:.1e}.",
        strong.len()
    );
    Claim::new(claim, verdict, evidence)
}
