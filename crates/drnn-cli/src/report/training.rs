//! What reports on trainings share: training options, provenance, differences from the paper.

use super::Provenance;
use super::page::{Part, duration};
use drnn::text::grouped;
use drnn_train::{Options, PaperNet, Schedule};

/// As the paper writes it: `d-LSTM 5`.
pub fn title(net: PaperNet) -> String {
    match net {
        PaperNet::Lstm => "LSTM".into(),
        PaperNet::BiLstm => "Bi-LSTM".into(),
        PaperNet::DLstm(delay) => format!("d-LSTM {delay}"),
    }
}

/// Names and values: sequences to train, validate and test, then all options but the seed.
pub fn training_facts(sequences: [usize; 3], options: &Options) -> Vec<(&'static str, String)> {
    let [train, valid, test] = sequences.map(grouped);
    let adam = options.adam;
    let decay = match adam.weight_decay {
        0.0 => String::new(),
        decay => format!(", weight decay {decay}"),
    };
    let dropout = (options.dropout > 0.0).then(|| ("Dropout", options.dropout.to_string()));
    let facts = vec![
        ("Sequences", format!("{train} to train, {valid} to validate, {test} to test")),
        ("Epochs", format!("at most {}", grouped(options.epochs))),
        ("Batch", grouped(options.batch)),
        ("Learning rate", format!("{}, {}", options.rate, schedule(options.schedule))),
        ("Optimiser", format!("Adam, {} {} {:e}{decay}", adam.beta1, adam.beta2, adam.eps)),
        (
            "Gradients",
            options.clip.map_or("not clipped".into(), |clip| format!("clipped at norm {clip}")),
        ),
        ("Stops early", stopping(options)),
    ];
    facts.into_iter().chain(dropout).collect()
}

/// Command and machine.
pub fn provenance_parts(provenance: &Provenance) -> [Part; 3] {
    let unknown = || "not known".to_string();
    let cpu = provenance.cpu.clone().unwrap_or_else(unknown);
    let machine = match &provenance.gpu {
        Some(gpu) => format!("{gpu}; {cpu}"),
        None => cpu,
    };
    [
        Part::Heading("Provenance"),
        Part::Code(provenance.command.clone()),
        Part::Facts(vec![
            ("Version", format!("drnn {}", provenance.version)),
            ("Commit", commit_text(provenance.commit.as_deref(), provenance.modified)),
            ("Seed", provenance.seed.to_string()),
            ("Machine", machine),
            ("Threads", format!("{}, {}", provenance.threads, provenance.isa)),
            ("Started", provenance.started.clone()),
            ("Took", duration(provenance.seconds)),
        ]),
    ]
}

/// A commit, and whether the sources differed from it.
pub fn commit_text(commit: Option<&str>, modified: Option<bool>) -> String {
    let commit = commit.unwrap_or("not known");
    if modified == Some(true) { format!("{commit}, modified") } else { commit.into() }
}

/// Differences from the paper.
pub fn deviations_part(deviations: &[String]) -> Part {
    match deviations {
        [] => Part::Text("None known.".into()),
        _ => Part::List(deviations.to_vec()),
    }
}

fn schedule(schedule: Schedule) -> String {
    match schedule {
        Schedule::Constant => "constant".into(),
        Schedule::Cosine => "cosine schedule".into(),
        Schedule::Plateau { factor, patience } => {
            format!("times {factor} after {patience} epochs without improvement")
        }
    }
}

fn stopping(options: &Options) -> String {
    let stopping = options.stopping;
    let patience = stopping.patience.map(|patience| {
        format!("after {patience} epochs without an improvement of {}", stopping.min_delta)
    });
    let value = stopping.at_value.map(|value| format!("at a loss below {value}"));
    let ways: Vec<String> = patience.into_iter().chain(value).collect();
    if ways.is_empty() { "no".into() } else { ways.join(", or ") }
}
