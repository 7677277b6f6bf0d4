//! A trained stack, flattened and relaxed: the question that the paper's theorem leaves open.

use super::absent::{ABSENT, task_cell};
use super::statistics::{Paired, Scores, mean_and_sd, paired};
use crate::campaign::{Experiment, Outcome, Protocol, Task, TaskRecord};
use crate::report::page::{Part, Table, duration};
use crate::report::relax::{Arm, SMALL, Stack, Trained};
use drnn::text::grouped;
use std::collections::BTreeMap;

/// Test bits per masked target by seed.
struct Relaxed {
    stack: Stack,
    arms: BTreeMap<Arm, Scores>,
    parameters: BTreeMap<Arm, usize>,
    epochs: BTreeMap<Arm, usize>,
    /// Mean time of a seed.
    seconds: f64,
}

impl Relaxed {
    fn of(records: &[&TaskRecord], stack: Stack) -> Relaxed {
        let (arms, parameters, epochs) = Default::default();
        let mut found = Relaxed { stack, arms, parameters, epochs, seconds: 0.0 };
        let mut times = Vec::new();
        for record in records {
            let Outcome::Relax { run, .. } = &record.outcome else { continue };
            if run.stack != stack.to_string() {
                continue;
            }
            times.push(record.provenance.seconds);
            for Trained { arm, parameters, epochs, test_bpc, .. } in &run.arms {
                found.parameters.insert(*arm, *parameters);
                found.epochs.insert(*arm, *epochs);
                if let Some(bits) = test_bpc {
                    found.arms.entry(*arm).or_default().insert(record.provenance.seed, *bits);
                }
            }
        }
        found.seconds = times.iter().sum::<f64>() / times.len().max(1) as f64;
        found
    }

    fn scores(&self, arm: Arm) -> Scores {
        self.arms.get(&arm).cloned().unwrap_or_default()
    }

    /// The relaxed stack's bits minus another network's.
    fn gain(&self, over: Arm) -> Option<Paired> {
        paired(&self.scores(Arm::Relaxed), &self.scores(over))
    }
}

/// What a row of the table is, of `d` steps of delay.
fn name(arm: Arm, stack: Stack) -> String {
    let d = stack.layers - 1;
    match arm {
        Arm::Stack => "the stack".into(),
        Arm::Flattened => format!("flattened, delay {d}, not trained since"),
        Arm::Longer => "the stack, trained on".into(),
        Arm::Relaxed => "flattened and relaxed, trained on".into(),
        Arm::Delayed => {
            format!("a layer of {} units, delay {d}, from random", stack.layers * stack.units)
        }
        Arm::DelayedStack => format!("the stack with delay {d}, from random"),
    }
}

pub fn parts(records: &[&TaskRecord]) -> Vec<Part> {
    let mut parts = vec![Part::Text(
        "Relaxing a stack. A stack is trained on masked characters, flattened into one layer (Theorem 1), and trained on \
         with all connections between its blocks, as long again. Compared with it: the stack, trained on as it is; and, \
         because the flattened network may look one character ahead, which the stack cannot, two networks with that delay \
         that are trained from random weights for as many epochs. Each half has the same options, masks and order for all \
         networks of a seed, and begins with a new optimiser."
            .into(),
    )];
    for stack in Stack::ALL {
        let found = Relaxed::of(records, stack);
        parts.push(Part::Table(table(&found)));
        parts.extend(reading(&found).map(Part::Text));
    }
    parts
}

fn table(found: &Relaxed) -> Table {
    let stack = found.stack;
    let row = |&arm: &Arm| {
        let scores = found.scores(arm);
        let count = |of: &BTreeMap<Arm, usize>| of.get(&arm).map_or(String::new(), |n| grouped(*n));
        let bits = match mean_and_sd(&scores) {
            Some((mean, Some(sd))) => format!("{mean:.3} ± {sd:.3}"),
            Some((mean, None)) => format!("{mean:.3}"),
            None => ABSENT.into(),
        };
        let gain = found.gain(arm).filter(|_| arm != Arm::Relaxed);
        vec![
            name(arm, stack),
            bits,
            scores.len().to_string(),
            gain.map_or(String::new(), |gain| gain.text(3)),
            count(&found.epochs),
            count(&found.parameters),
        ]
    };
    let task =
        Task { protocol: Protocol::Paper, experiment: Experiment::Relax(stack), repetition: 1 };
    let is_done = !found.arms.is_empty();
    let task = task_cell(format!("relax/{stack}"), &task, is_done);
    let took = if is_done {
        format!(", {} for each seed", duration(found.seconds))
    } else {
        String::new()
    };
    let setting = match stack == SMALL {
        true => {
            "the first 2,000,000 characters of text8, 100,000 each to validate and to test, batches of 16, learning \
                 rate 0.004 with a cosine schedule; blocks start one after another, so the flattened network equals the \
                 stack to the bit"
        }
        false => {
            "the paper's small stack of two layers by the protocol of its table; all blocks start at once, as engines \
                  for GPUs need it, so the flattened network differs from the stack at the first characters of a window"
        }
    };
    Table {
        caption: format!(
            "A stack of {} LSTM layers of {} units: {setting}. BPC is test bits per masked target. Task {task}{took}.",
            stack.layers, stack.units
        ),
        head: ["network", "BPC", "seeds", "relaxed minus it", "epochs", "parameters"]
            .map(String::from)
            .into(),
        rows: Arm::ALL.iter().map(row).collect(),
    }
}

/// Whether relaxing gained, and against what.
fn reading(found: &Relaxed) -> Option<String> {
    let [longer, delayed, stack] = [Arm::Longer, Arm::Delayed, Arm::DelayedStack]
        .map(|arm| found.gain(arm).map(|gain| (verdict(&gain), gain)));
    let ((gained, a), (against, b), (ahead, c)) = (longer?, delayed?, stack?);
    Some(format!(
        "Against the stack that is trained on, the relaxed one {gained} ({}). Against a layer with the same look-ahead that \
         began at random it {against} ({}), against the delayed stack it {ahead} ({}).",
        a.text(3),
        b.text(3),
        c.text(3)
    ))
}

/// Without a spread of the paper, only a test over seeds decides.
fn verdict(gain: &Paired) -> &'static str {
    match (gain.is_decided(None), gain.mean < 0.0) {
        (true, true) => "has a lower BPC",
        (true, false) => "has a higher BPC",
        (false, _) => "is not distinguishable",
    }
}
