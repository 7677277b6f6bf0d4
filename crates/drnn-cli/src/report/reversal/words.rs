//! Text and table of the report.

use super::plots::{DELAYED, accuracy, losses};
use super::{ReversalResults, ReversalTask, Run, groups};
use crate::report::page::{Figure, Page, Part, Table, duration, mean_sd, moments, signed};
use crate::report::training::{deviations_part, provenance_parts, training_facts};
use drnn::text::grouped;
use drnn_train::Reason;
use std::fmt::Write;

pub fn page(results: &ReversalResults) -> Page {
    let ReversalResults { task, options, provenance, deviations, .. } = results;
    let ReversalTask { steps, symbols, train, valid, test } = *task;
    let [formula, more] = ["1/2 (1 + 1/V)", "+ floor((d + 1)/2) (1 \u{2212} 1/V)/T"].map(unbroken);
    let formula = format!("{formula} {more}");
    let mut parts = vec![
        Part::Text(format!(
            "The network reads a sequence of {steps} symbols from an alphabet of {symbols} and outputs it in reverse. \
             Without a delay it can predict only the second half. With a delay of d it has read d more symbols; with {} \
             it has read them all, like a bidirectional network.",
            steps - 1
        )),
        Part::Text(summary(results)),
        Part::Table(results_table(results)),
        Part::Figure(Figure {
            name: "accuracy",
            picture: Box::new(accuracy(results)),
            caption: format!(
                "Bound: the best expected accuracy given the symbols read so far, with the others guessed: \
                 {formula}, with T\u{a0}=\u{a0}{steps} and V\u{a0}=\u{a0}{symbols}. Sampled: predictions are drawn from the \
                 network's softmax, as the paper's authors do."
            ),
        }),
        Part::Heading("Training"),
        Part::Figure(Figure {
            name: "losses",
            picture: Box::new(losses(results)),
            caption: losses_caption(results),
        }),
        Part::Facts(training_facts([train, valid, test], options)),
        Part::Heading("Differences from the paper"),
        deviations_part(deviations),
    ];
    parts.extend(provenance_parts(provenance));
    Page { title: "Sequence reversal".into(), parts }
}

/// Text without line breaks.
fn unbroken(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

/// How close the delayed networks are to the bound.
fn summary(results: &ReversalResults) -> String {
    let groups = groups(results);
    let differences: Vec<f64> = groups
        .iter()
        .filter(|group| group.delayed())
        .map(|group| group.sampled().0 - group.first().bound)
        .collect();
    let mut out = match differences.iter().map(|d| d.abs()).reduce(f64::max) {
        Some(_) if differences.iter().any(|d| d.is_nan()) => {
            "Not all delayed networks could be trained.".to_string()
        }
        Some(most) => {
            let delays = if differences.len() == 1 { "the delay" } else { "all delays" };
            format!(
                "Sampled accuracy of the d-LSTM is within {most:.3} of the bound at {delays} shown."
            )
        }
        None => String::from("There are no delayed networks among these."),
    };
    for group in groups.iter().filter(|group| !group.delayed()) {
        let (title, (mean, _)) = (group.first().title(), group.sampled());
        if mean.is_finite() {
            let _ = write!(out, " {title}: {mean:.3}, bound {:.3}.", group.first().bound);
        }
    }
    let diverged = results.runs.iter().filter(|run| run.ended == Reason::NotFinite);
    for Run { net, repetition, epochs, .. } in diverged {
        let _ = write!(
            out,
            " {net}, repetition {repetition}: the loss became NaN after {epochs} epochs."
        );
    }
    out
}

pub fn results_table(results: &ReversalResults) -> Table {
    let groups = groups(results);
    let rows = groups.iter().map(|group| {
        let Run { delay, bound, parameters, .. } = *group.first();
        vec![
            group.first().title(),
            delay.map_or("all".into(), |d| d.to_string()),
            mean_sd(&group.each(|run| run.sampled), 3),
            mean_sd(&group.each(|run| run.likeliest), 3),
            format!("{bound:.3}"),
            signed(group.sampled().0 - bound, 3),
            grouped(parameters),
            match group.runs.len() {
                1 => group.first().epochs.to_string(),
                _ => mean_sd(&group.each(|run| run.epochs as f64), 0),
            },
            duration(moments(&group.each(|run| run.seconds)).0),
        ]
    });
    let mut caption = String::from(
        "Accuracy on the test set, of sampled predictions and of arg max. Difference: sampled minus bound. Delay `all`: \
         the network reads the whole sequence, in both directions, before its first output.",
    );
    let count = groups.iter().map(|group| group.runs.len()).max().unwrap_or(1);
    if count > 1 {
        let _ = write!(
            caption,
            " Mean ± standard deviation over up to {count} repetitions; time is the mean of one."
        );
    }
    Table {
        caption: caption.replace('`', ""),
        head: [
            "net",
            "delay",
            "sampled",
            "arg max",
            "bound",
            "difference",
            "parameters",
            "epochs",
            "time",
        ]
        .map(String::from)
        .to_vec(),
        rows: rows.collect(),
    }
}

fn losses_caption(results: &ReversalResults) -> String {
    let mut out = String::from(
        "Cross-entropy of the validation set after each epoch, every repetition a line.",
    );
    if groups(results).iter().filter(|group| group.delayed()).count() > DELAYED.len() {
        out.push_str(
            " The d-LSTMs are in the order of the table, with stronger colours for longer delays.",
        );
    }
    out
}
