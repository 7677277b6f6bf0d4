//! The plan as a table or as JSON.

use crate::Failure;
use crate::campaign::{Task, minutes};
use crate::report::page::{Table, duration};
use drnn::text::counted;
use std::fmt::Write as _;

/// A task of the list.
pub struct Listed {
    /// In the plan, from 1; 0 where the task is of a plan with more seeds.
    pub number: usize,
    pub task: Task,
    pub done: bool,
    pub command: String,
}

/// Where the tasks are to be run.
#[derive(Debug, Clone, Copy)]
pub struct Machine {
    pub gpu: bool,
    pub cores: usize,
}

impl Machine {
    fn device(self, task: &Task) -> &'static str {
        if task.only_gpu() || self.gpu && !task.only_cpu() { "cuda" } else { "cpu" }
    }

    fn minutes(self, task: &Task) -> f64 {
        minutes(task, self.gpu, self.cores)
    }
}

/// A JSON object for each task, one per line.
pub fn json(listed: &[Listed], machine: Machine) -> Result<String, Failure> {
    let mut out = String::new();
    for Listed { number, task, done, command } in listed {
        let line = serde_json::json!({
            "number": number, "task": task.to_string(), "device": machine.device(task),
            "minutes": (10.0 * machine.minutes(task)).round() / 10.0, "done": done,
            "command": command,
        });
        let _ = writeln!(out, "{line}");
    }
    Ok(out)
}

/// A table for people, and the time that is left.
pub fn table(listed: &[Listed], machine: Machine) -> String {
    let row = |Listed { number, task, done, .. }: &Listed| {
        vec![
            task.to_string(),
            number.to_string(),
            machine.device(task).into(),
            format!("{:.1}", machine.minutes(task)),
            if *done { "done".into() } else { String::new() },
        ]
    };
    let head = ["task", "number", "device", "minutes", ""].map(String::from).into();
    let table = Table { caption: String::new(), head, rows: listed.iter().map(row).collect() };
    let mut out = table.text();
    let done = listed.iter().filter(|listed| listed.done).count();
    let _ = write!(out, "\n{}, {done} done", counted(listed.len(), "task"));
    for device in ["cuda", "cpu"] {
        let left = listed.iter().filter(|l| !l.done && machine.device(&l.task) == device);
        let left: Vec<&Listed> = left.collect();
        if !left.is_empty() {
            let minutes: f64 = left.iter().map(|l| machine.minutes(&l.task)).sum();
            let tasks = counted(left.len(), "task");
            let _ = write!(
                out,
                "; on {device} {tasks} to do, expected to take {} one after the other",
                duration(60.0 * minutes)
            );
        }
    }
    out + "\n"
}
