//! What every report of trainings says: how they were trained, and where results come from.

use super::Provenance;
use super::page::{Part, duration};
use drnn::grouped;
use drnn_train::{Options, Schedule};

/// How networks were trained.
pub fn training(options: &Options) -> Vec<(&'static str, String)> {
    let adam = options.adam;
    vec![
        ("Epochs", format!("at most {}", grouped(options.epochs))),
        ("Batch", grouped(options.batch)),
        ("Learning rate", format!("{}, {}", options.rate, schedule(options.schedule))),
        ("Optimiser", format!("Adam, {} {} {:e}", adam.beta1, adam.beta2, adam.eps)),
        (
            "Gradients",
            options.clip.map_or("not clipped".into(), |clip| format!("clipped at norm {clip}")),
        ),
        ("Stops early", stopping(options)),
    ]
}

/// How many sequences of each set.
pub fn sequences([train, valid, test]: [usize; 3]) -> String {
    let [train, valid, test] = [train, valid, test].map(grouped);
    format!("{train} to train, {valid} to validate, {test} to test")
}

/// Command and machine.
pub fn provenance(provenance: &Provenance) -> [Part; 3] {
    let unknown = || "not known".to_string();
    [
        Part::Heading("Where this comes from"),
        Part::Code(provenance.command.clone()),
        Part::Facts(vec![
            ("Version", format!("drnn {}", provenance.version)),
            ("Commit", provenance.commit.clone().unwrap_or_else(unknown)),
            ("Seed", provenance.seed.to_string()),
            ("Machine", provenance.cpu.clone().unwrap_or_else(unknown)),
            ("Threads", format!("{}, {}", provenance.threads, provenance.isa)),
            ("Started", provenance.started.clone()),
            ("Took", duration(provenance.seconds)),
        ]),
    ]
}

fn schedule(schedule: Schedule) -> String {
    match schedule {
        Schedule::Constant => "constant".into(),
        Schedule::Cosine => "down along a cosine".into(),
        Schedule::Plateau { factor, patience } => {
            format!("times {factor} after {patience} epochs that are no better")
        }
    }
}

fn stopping(options: &Options) -> String {
    let stopping = options.stopping;
    let patience = stopping
        .patience
        .map(|patience| format!("after {patience} epochs not better by {}", stopping.min_delta));
    let value = stopping.at_value.map(|value| format!("at a loss below {value}"));
    let ways: Vec<String> = patience.into_iter().chain(value).collect();
    if ways.is_empty() { "no".into() } else { ways.join(", or ") }
}
