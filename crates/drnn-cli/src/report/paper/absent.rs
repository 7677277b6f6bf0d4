//! What has not been trained yet: which tasks, by which command, how long they are expected to take.

use super::Section;
use crate::campaign::{Plan, Protocol, Task, TaskRecord, minutes};
use crate::report::page::{Part, Table, duration};
use std::collections::BTreeMap;

/// Cores of the machine for which CPU times are forecast.
const CORES: usize = 16;

/// For a cell without a number. The row's task and its time are in the last column.
pub const ABSENT: &str = "not trained yet";

/// A task's id for the last column, with the minutes that it is expected to take where it is not done.
pub fn task_cell(id: String, task: &Task, is_done: bool) -> String {
    let minutes = minutes(task, !task.only_cpu(), CORES).max(1.0);
    if is_done { id } else { format!("{id} ({minutes:.0} min)") }
}

/// What the minutes in the last column mean.
pub const MINUTES: &str = "In brackets: minutes that it is expected to take on an H200.";

/// Tasks of the plan without a record, by experiment.
pub fn section(records: &[&TaskRecord], seeds: u64) -> Section {
    let plan = Plan::new(Protocol::Paper, seeds);
    let done = |task: &Task| records.iter().any(|record| record.task == task.to_string());
    let mut groups: BTreeMap<String, [Vec<&Task>; 2]> = BTreeMap::new();
    for task in &plan.tasks {
        let id = task.to_string();
        // Of taggers the treebank too.
        let parts: Vec<&str> = id.split('/').collect();
        let name = parts[..if parts[0] == "pos" { 2 } else { 1 }].join("/");
        groups.entry(name).or_default()[usize::from(done(task))].push(task);
    }
    let row = |(name, [missing, done]): (&String, &[Vec<&Task>; 2])| {
        let only_cpu = missing.first().is_some_and(|task| task.only_cpu());
        let left: f64 = missing.iter().map(|task| minutes(task, !only_cpu, CORES)).sum();
        let time = match missing.len() {
            0 => "nothing left".into(),
            _ if only_cpu => format!("{} of one core", duration(60.0 * left)),
            _ => format!("{} on an H200", duration(60.0 * left)),
        };
        let device = if only_cpu { "" } else { " --device cuda" };
        vec![
            name.clone(),
            format!("{} of {}", done.len(), done.len() + missing.len()),
            time,
            format!("drnn reproduce all --data DIR --out DIR --task {name}{device}"),
        ]
    };
    let table = Table {
        caption: format!(
            "Tasks of the campaign with {seeds} seeds for the character table and the taggers, 5 for reversal and 5 data \
             sets for sine. Forecasts are for tasks one after the other."
        ),
        head: ["tasks", "done", "still to train", "command"].map(String::from).into(),
        rows: groups.iter().map(row).collect(),
    };
    let text = "Cells without a number have not been trained yet; nothing was left out for its result. The commands \
                continue the campaign, on any machine; results of several are merged (docs/CAMPAIGN.md).";
    Section { heading: "What is missing", parts: vec![Part::Text(text.into()), Part::Table(table)] }
}
