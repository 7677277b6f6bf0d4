//! Text and tables of the report.

use super::grid::{Grid, Step};
use super::{SineResults, maps};
use crate::report::page::{Figure, Page, Part, Table, duration};
use crate::report::training::{deviations_part, title, training_facts};
use drnn::text::grouped;
use drnn_train::PaperNet;
use drnn_train::sine::campaign::Gamma;
use drnn_train::sine::{STEPS, TAPS};
use std::collections::BTreeSet;
use std::fmt::Write;

/// At most this many machines are named.
const MAX_MACHINES: usize = 8;

pub fn page(results: &SineResults) -> Page {
    let SineResults { protocol, provenance, deviations, trainings, .. } = results;
    let grid = Grid::of(results);
    let mut parts = vec![
        Part::Text(format!(
            "The network reads {STEPS} numbers x, drawn between 0 and 1, and predicts the sine of \
             a filtered sequence:"
        )),
        Part::Code(format!(
            "y_t = sin(gamma * sum_j w_(j+c) x_(t+j))\nj = -c+1 .. a,  c = {TAPS} - a"
        )),
        Part::Text(format!(
            "The filter w has {TAPS} taps, also drawn between 0 and 1; a of them look ahead, at numbers that follow \
             x_t. The larger gamma, the more non-linear is the task. A network with delay d can predict y_t exactly \
             where a is at most d; beyond that, y_t depends on numbers that it has not read. A bidirectional network \
             reads them all."
        )),
        Part::Text(summary(results, &grid)),
        Part::Figure(Figure {
            name: "sine",
            picture: Box::new(maps::mean(results)),
            caption: "A map for each network, one scale of colours for all: dark is a small error; \
                      the scale is logarithmic. Right of the dashed line the target depends on numbers that the \
                      network has not read. Cells without colour were not trained, or every training diverged."
                .into(),
        }),
    ];
    parts.extend(maps::sd(results).map(|maps| {
        Part::Figure(Figure {
            name: "sine-sd",
            picture: Box::new(maps),
            caption:
                "The standard deviation between data sets, each with its own filter and sequences."
                    .into(),
        })
    }));
    parts.push(Part::Heading("Errors"));
    parts.extend(error_tables(results, &grid).into_iter().map(Part::Table));
    let steps = grid.steps();
    if !steps.is_empty() {
        parts.extend([
            Part::Heading("The step after a = d"),
            Part::Table(step_table(&grid.axes.gammas, &steps)),
        ]);
    }
    let unknown = || "not known".to_string();
    let mut facts = vec![
        ("Written by", format!("drnn {}", provenance.version)),
        ("Its commit", provenance.commit.clone().unwrap_or_else(unknown)),
        ("Seed", protocol.training.seed.to_string()),
        ("Trainings", grouped(*trainings)),
    ];
    match &results.effort {
        Some(effort) => facts.extend([
            ("Machine", machines(&effort.machines).unwrap_or_else(unknown)),
            ("Took", format!("{} of one thread, all together", duration(effort.seconds))),
        ]),
        None => facts.push(("Machine and time", "not in sine.json but in results.jsonl".into())),
    }
    parts.extend([
        Part::Heading("Training"),
        Part::Facts(training_facts(protocol.sequences, &protocol.training)),
        Part::Heading("Differences from the paper"),
        deviations_part(deviations),
        Part::Heading("Provenance"),
        Part::Code(provenance.command.clone()),
        Part::Facts(facts),
    ]);
    Page { title: "Sine of a filtered sequence".into(), parts }
}

/// As text for a terminal.
pub fn text(results: &SineResults) -> String {
    let grid = Grid::of(results);
    let mut out = format!("mean squared error on the test set, {}\n", of_sets(results));
    for table in error_tables(results, &grid) {
        let _ = write!(out, "\n{}", table.text());
    }
    let steps = grid.steps();
    if !steps.is_empty() {
        let table = step_table(&grid.axes.gammas, &steps);
        let _ = write!(out, "\nthe step after a = d\n{}", table.text());
    }
    out.push('\n');
    for deviation in &results.deviations {
        let _ = writeln!(
            out,
            "differs from the paper: {}",
            deviation.replace(char::is_control, "\u{fffd}")
        );
    }
    out
}

fn of_sets(results: &SineResults) -> String {
    match results.sets() {
        1 => "one data set".into(),
        sets => format!("mean of {sets} data sets"),
    }
}

/// The size of the steps, and the trainings left out.
fn summary(results: &SineResults, grid: &Grid) -> String {
    let mut out = String::new();
    for Step { net, delay, beyond, ratios } in grid.steps() {
        let low = ratios.values().copied().fold(f64::INFINITY, f64::min);
        let high = ratios.values().copied().fold(0.0, f64::max);
        let range = match ratios.len() {
            1 => format!("{high:.1}"),
            _ => format!("{low:.1} to {high:.1}"),
        };
        let _ = write!(
            out,
            "The error of the {} at a\u{a0}=\u{a0}{beyond} is {range} times that at a\u{a0}=\u{a0}{delay}. ",
            title(net)
        );
    }
    if out.is_empty() {
        out.push_str("No delayed network was trained on both sides of a\u{a0}=\u{a0}d. ");
    }
    let ran_away: usize = results.cells.iter().map(|entry| entry.ran_away).sum();
    if ran_away > 0 {
        let all = grouped(results.trainings);
        let _ = write!(
            out,
            "{} of {all} trainings diverged: their loss became NaN, and no mean includes them.",
            grouped(ran_away)
        );
    }
    out.trim_end().into()
}

/// A table for each network.
fn error_tables(results: &SineResults, grid: &Grid) -> Vec<Table> {
    let axes = &grid.axes;
    let number = |net, gamma, ahead| match grid.at(net, gamma, ahead) {
        None => ".".into(),
        Some(entry) => entry.mean_mse.map_or("diverged".into(), |mse| format!("{mse:.1e}")),
    };
    let row = |net, gamma: Gamma| {
        let numbers = axes.aheads.iter().map(|ahead| number(net, gamma, *ahead));
        [format!("gamma {gamma}")].into_iter().chain(numbers).collect()
    };
    let columns = || axes.aheads.iter().map(|ahead| format!("a = {ahead}"));
    let table = |&net: &PaperNet| Table {
        caption: format!(
            "{}: mean squared error on the test set, {}.",
            title(net),
            of_sets(results)
        ),
        head: [title(net)].into_iter().chain(columns()).collect(),
        rows: axes.gammas.iter().map(|gamma| row(net, *gamma)).collect(),
    };
    axes.nets.iter().map(table).collect()
}

fn step_table(gammas: &[Gamma], steps: &[Step]) -> Table {
    let ratio = |step: &Step, gamma: &Gamma| match step.ratios.get(gamma) {
        Some(ratio) => format!("{ratio:.1}"),
        None => ".".into(),
    };
    let row = |gamma: &Gamma| {
        let ratios = steps.iter().map(|step| ratio(step, gamma));
        [format!("gamma {gamma}")].into_iter().chain(ratios).collect()
    };
    let column = |Step { net, delay, beyond, .. }: &Step| {
        format!("{}: a = {beyond} over a = {delay}", title(*net))
    };
    Table {
        caption: "How many times larger the error is at the first a beyond the network's delay than at a = d."
            .into(),
        head: [String::new()].into_iter().chain(steps.iter().map(column)).collect(),
        rows: gammas.iter().map(row).collect(),
    }
}

/// None if no machine is known.
fn machines(machines: &BTreeSet<String>) -> Option<String> {
    let named: Vec<&str> = machines.iter().take(MAX_MACHINES).map(String::as_str).collect();
    let more = match machines.len() - named.len() {
        0 => String::new(),
        more => format!("; and {} more", grouped(more)),
    };
    (!named.is_empty()).then(|| named.join("; ") + &more)
}
