//! Text and tables of the report.

use super::{Group, MlmResults, plots};
use crate::report::page::{Figure, Page, Part, Table, duration, mean_sd, moments};
use crate::report::training::{deviations_part, provenance_parts, training_facts};
use drnn::text::grouped;
use drnn_train::Reason;
use drnn_train::chars::paper::{Architecture, Printed, Row, Size};
use drnn_train::chars::{corrected_bpc, paper_bpc};
use std::fmt::Write;

/// Whether the paper has a number for one of the networks.
fn in_paper(results: &MlmResults) -> bool {
    results.groups().iter().any(|group| group.row.printed.is_some())
}

/// Why there are two numbers for BPC.
pub fn division(results: &MlmResults) -> String {
    let theirs = match in_paper(results) {
        true => "; `paper, per target` is its number divided by targets",
        false => "",
    };
    format!(
        "BPC is bits per masked target. The paper divides the bits of the T targets by the masks \
         among all T + d characters that are read, so what it prints for a delay of d is T/(T + d) \
         of that: paper_bpc is ours divided its way{theirs}."
    )
}

/// As the paper writes it: `d-LSTM 8`, `Bi-LSTM, 2 layers`; and how large.
pub fn title(row: &Row) -> String {
    let net = match row.net {
        Architecture::Lstm => "LSTM".to_string(),
        Architecture::BiLstm => "Bi-LSTM".into(),
        Architecture::DLstm => format!("d-LSTM {}", row.delay),
        Architecture::DGru => format!("d-GRU {}", row.delay),
        Architecture::DRnn => format!("d-RNN {}", row.delay),
    };
    let layers = match row.layers {
        1 => String::new(),
        k => format!(", {k} layers"),
    };
    let size = match row.size {
        Size::Quick => "quick",
        Size::Small => "small",
        Size::Large => "large",
    };
    format!("{net}{layers}, {size}")
}

pub fn results_table(results: &MlmResults) -> Table {
    let (window, in_paper) = (results.window, in_paper(results));
    let rows = results.groups().into_iter().map(|group| {
        let Group { row, runs } = &group;
        let number = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.3}"));
        let paper = row.printed.map(|Printed { test, .. }| test[0]);
        let test = group.each(|run| run.test_bpc);
        let by_all: Vec<f64> = test.iter().map(|x| paper_bpc(*x, window, row.delay)).collect();
        let mut cells = vec![title(row)];
        if in_paper {
            let per_target = paper.map(|bits| corrected_bpc(bits, window, row.delay));
            cells.extend([number(paper), number(per_target)]);
        }
        cells.extend([
            mean_sd(&test, 3),
            mean_sd(&by_all, 3),
            mean_sd(&group.each(|run| run.valid_bpc), 3),
            grouped(runs[0].parameters),
            mean_sd(&group.each(|run| Some(run.epochs as f64)), 0),
            duration(moments(&group.each(|run| Some(run.seconds))).0),
        ]);
        cells
    });
    let paper: &[&str] = if in_paper { &["paper", "paper, per target"] } else { &[] };
    let head = [&["net"], paper, &["BPC", "paper_bpc", "valid", "parameters", "epochs", "time"]];
    Table {
        caption:
            "Bits per character on the test set, lower is better; valid: on the validation set."
                .into(),
        head: head.concat().into_iter().map(String::from).collect(),
        rows: rows.collect(),
    }
}

pub fn page(results: &MlmResults) -> Page {
    let MlmResults { text, window, masked, options, deviations, .. } = results;
    let mut parts = vec![
        Part::Text(format!(
            "A fraction of {masked} of the characters of a text is masked, and the network predicts them. It reads windows of \
             {window} characters; a d-LSTM predicts d characters late, and reads the d characters that follow the window."
        )),
        Part::Text(summary(results)),
        Part::Table(results_table(results)),
        Part::Text(division(results).replace('`', "")),
        Part::Figure(Figure {
            name: "bpc",
            picture: Box::new(plots::bpc(results)),
            caption: format!(
                "Bits per masked target of the test set over the delay; an LSTM is a d-LSTM of delay \
                 0.{}",
                if in_paper(results) {
                    " The paper's numbers are divided by targets here, as ours are."
                } else {
                    ""
                }
            ),
        }),
        Part::Heading("Training"),
        Part::Figure(Figure {
            name: "losses",
            picture: Box::new(plots::losses(results)),
            caption: "Bits of the validation set after each epoch, every repetition a line.".into(),
        }),
        Part::Facts(facts(results)),
        Part::Facts(training_facts(text.windows, options)),
        Part::Heading("Differences from the paper"),
        deviations_part(deviations),
    ];
    parts.extend(provenance_parts(&results.provenance));
    Page { title: "Masked characters".into(), parts }
}

fn facts(results: &MlmResults) -> Vec<(&'static str, String)> {
    let [train, valid, test] = results.text.used.map(grouped);
    vec![
        ("Text", format!("text8, {} characters", grouped(results.text.characters))),
        ("Split", results.text.split.clone()),
        ("Used", format!("{train} characters to train, {valid} to validate, {test} to test")),
    ]
}

/// How much a delay improves BPC.
fn summary(results: &MlmResults) -> String {
    let mut out = String::new();
    for size in [Size::Quick, Size::Small, Size::Large] {
        let groups = results.groups();
        let of_size = || groups.iter().filter(|group| group.row.size == size);
        let test = |group: &&Group| moments(&group.each(|run| run.test_bpc)).0;
        let delayed = of_size().filter(|group| group.row.net == Architecture::DLstm);
        let best = delayed
            .filter(|group| test(group).is_finite())
            .min_by(|a, b| test(a).total_cmp(&test(b)));
        let Some(best) = best else { continue };
        let _ =
            write!(out, "{} has the lowest BPC of its kind, {:.3}.", title(&best.row), test(&best));
        for other in of_size().filter(|group| group.row.net != Architecture::DLstm) {
            let _ = write!(out, " {}: {:.3}.", title(&other.row), test(&other));
        }
        out.push(' ');
    }
    let away = results.runs.iter().filter(|run| run.ended == Reason::NotFinite);
    for run in away {
        let _ = write!(out, "{}, repetition {}: the loss became NaN. ", run.row, run.repetition);
    }
    if out.is_empty() { "No delayed network is among these.".into() } else { out.trim_end().into() }
}
