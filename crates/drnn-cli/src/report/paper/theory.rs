//! Theorem 1, Lemma 1, and the figure of non-linearities.

use super::Section;
use super::claims::{Claim, Verdict};
use crate::campaign::{Outcome, TaskRecord};
use crate::report::depth::plot;
use crate::report::page::{Figure, Part, Table};
use crate::report::theorem::{DRAWN, DRAWN_UNITS, Entry, Solved};

const THEOREM: &str = "Theorem 1: a stack of k layers is one layer with delay k \u{2212} 1";
const LEMMA: &str = "Lemma 1: an initial state of the flattened network always exists";
const DEPTH: &str =
    "A delay of d adds d non-linearities for every input, and d steps of the future (figure)";

fn theorem<'a>(records: &[&'a TaskRecord]) -> Option<(&'a [Entry], &'a [Solved])> {
    records.iter().find_map(|record| match &record.outcome {
        Outcome::Theorem { networks, solved } => Some((networks.as_slice(), solved.as_slice())),
        _ => None,
    })
}

pub fn section(records: &[&TaskRecord]) -> Section {
    let mut parts = Vec::new();
    match theorem(records) {
        Some((networks, solved)) => {
            parts.push(Part::Table(differences(networks)));
            parts.push(Part::Table(starts(solved)));
        }
        None => parts.push(Part::Text("Theorem: not computed yet; task theorem, seconds.".into())),
    }
    let depth = records.iter().find_map(|record| match &record.outcome {
        Outcome::Depth { offsets, nets, .. } => Some(plot(offsets, nets)),
        _ => None,
    });
    parts.push(match depth {
        Some(picture) => Part::Figure(Figure {
            name: "depth",
            picture: Box::new(picture),
            caption: "The paper's figure, counted in the unrolled networks and checked against their equations for every pair \
                      of input and output. Task depth."
                .into(),
        }),
        None => Part::Text("Depth: not computed yet; task depth, seconds.".into()),
    });
    parts.push(Part::Text(
        "The paper's figure of weight blocks is drawn by drnn inspect for any flattened model (docs/FLATTENING.md, \
         docs/blocks.svg)."
            .into(),
    ));
    Section { heading: "Theorem, Lemma and Figure of non-linearities", parts }
}

/// `1.1e-15`, or 0.
fn size(difference: f64) -> String {
    if difference == 0.0 { "0".into() } else { format!("{difference:.1e}") }
}

/// By cell, in the order of the networks.
fn differences(networks: &[Entry]) -> Table {
    let row = |some: &[Entry]| {
        let largest = |value: fn(&Entry) -> f64| some.iter().map(value).fold(0.0, f64::max);
        vec![
            some[0].cell.clone(),
            some.len().to_string(),
            some.iter().map(|entry| entry.layers).max().unwrap_or(0).to_string(),
            size(largest(|entry| entry.f32_answers.max(entry.f32_states))),
            size(largest(|entry| entry.f64_answers.max(entry.f64_states))),
        ]
    };
    Table {
        caption: "Theorem 1: the largest difference between stacks and their flattened forms, over outputs and all layers' \
                  states at their shift; random networks, sequences and initial states. Task theorem."
            .into(),
        head: ["cell", "networks", "layers up to", "single precision", "double precision"]
            .map(String::from)
            .into(),
        rows: networks.chunk_by(|a, b| a.cell == b.cell).map(row).collect(),
    }
}

fn starts(solved: &[Solved]) -> Table {
    let layers: Vec<usize> = {
        let mut all: Vec<usize> = solved.iter().map(|entry| entry.layers).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let row = |some: &[Solved]| {
        let cells = some.iter().map(|s| format!("{} / {}", s.from_zeros, s.from_states));
        [some[0].cell.clone()].into_iter().chain(cells).collect()
    };
    let head = layers.iter().map(|k| format!("k = {k}"));
    Table {
        caption: format!(
            "Lemma 1: how many of {DRAWN} random networks of {DRAWN_UNITS} units per layer have a start state, from zeros / \
             from states that the network has been in. A GRU never has one in closed form."
        ),
        head: ["cell".to_string()].into_iter().chain(head).collect(),
        rows: solved.chunk_by(|a, b| a.cell == b.cell).map(row).collect(),
    }
}

pub fn claims(records: &[&TaskRecord]) -> Vec<Claim> {
    let mut claims = match theorem(records) {
        None => vec![Claim::open(THEOREM, "theorem"), Claim::open(LEMMA, "theorem")],
        Some((networks, solved)) => vec![of_theorem(networks), of_lemma(solved)],
    };
    let depth = records.iter().find_map(|record| match &record.outcome {
        Outcome::Depth { pairs_checked, .. } => Some(*pairs_checked),
        _ => None,
    });
    claims.push(match depth {
        None => Claim::open(DEPTH, "depth"),
        Some(pairs) => Claim::new(
            DEPTH,
            Verdict::Holds,
            format!(
                "Counted in the unrolled networks; the counts agree with the equations for all {pairs} pairs of input and \
                 output, and derivatives are non-zero exactly where there is a path."
            ),
        ),
    });
    claims
}

fn of_theorem(networks: &[Entry]) -> Claim {
    let failed = networks.iter().filter(|entry| !entry.passes()).count();
    let largest = |value: fn(&Entry) -> f64| networks.iter().map(value).fold(0.0, f64::max);
    let evidence = format!(
        "{} random stacks of RNNs, LSTMs and GRUs, up to {} layers: largest difference {} in single and {} in double \
         precision. A GRU needs one more matrix than the paper's form.",
        networks.len(),
        networks.iter().map(|entry| entry.layers).max().unwrap_or(0),
        size(largest(|entry| entry.f32_answers.max(entry.f32_states))),
        size(largest(|entry| entry.f64_answers.max(entry.f64_states)))
    );
    Claim::new(THEOREM, Verdict::of(failed == 0), evidence)
}

fn of_lemma(solved: &[Solved]) -> Claim {
    let deep = solved.iter().filter(|entry| entry.layers >= 3);
    let (found, all) =
        deep.fold((0, 0), |(found, all), entry| (found + entry.from_zeros, all + entry.networks));
    let verdict = match solved.iter().all(|s| s.from_zeros.min(s.from_states) == s.networks) {
        true => Verdict::Holds,
        false => Verdict::DoesNot,
    };
    let evidence = format!(
        "From zero states, {found} of {all} random networks of three layers or more have one. The proof inverts the \
         activation outside of its range. Blocks that start one after the other (held starts) make the theorem exact."
    );
    Claim::new(LEMMA, verdict, evidence)
}
