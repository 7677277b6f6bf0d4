//! The tasks to run: by id, by the number that a task array gives, or all.

use super::MAX_SEEDS;
use crate::Failure;
use crate::campaign::{Plan, Protocol, Task};
use crate::console::progress;

/// Variables with a task's number; HyperQueue's workers may run inside a job of Slurm.
const ARRAYS: [&str; 2] = ["HQ_TASK_ID", "SLURM_ARRAY_TASK_ID"];

/// The selected tasks, in the order of the plan.
pub fn tasks(plan: &Plan, protocol: Protocol, ids: &[String]) -> Result<Vec<Task>, Failure> {
    let number = ARRAYS.iter().find_map(|name| Some((*name, std::env::var(name).ok()?)));
    match number {
        Some((name, value)) if ids.is_empty() => {
            let task = by_number(plan, name, &value).map_err(Failure::Input)?;
            progress!("{name}={value}: task {task}");
            Ok(vec![task])
        }
        _ => by_id(plan, protocol, ids),
    }
}

fn by_number(plan: &Plan, name: &str, value: &str) -> Result<Task, String> {
    let count = plan.tasks.len();
    let number = value.trim().parse().ok().filter(|number| (1..=count).contains(number));
    number.map(|number: usize| plan.tasks[number - 1]).ok_or_else(|| {
        format!(
            "{name}={value}: tasks are numbered from 1 to {count} (--list); submit an array of these \
             numbers, name tasks with --task, or unset {name} to run them all"
        )
    })
}

/// Tasks whose ids are given, or begin with what is given; all where nothing is.
pub fn by_id(plan: &Plan, protocol: Protocol, ids: &[String]) -> Result<Vec<Task>, Failure> {
    if ids.is_empty() {
        return Ok(plan.tasks.clone());
    }
    let mut selected: Vec<Task> = Vec::new();
    for id in ids {
        let wanted = id.trim_end_matches('/');
        let begins = |task: &&Task| {
            let full = task.to_string();
            let short = full.strip_prefix("quick/").unwrap_or(&full);
            [full.as_str(), short].iter().any(|id| {
                id.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        let mut found: Vec<Task> = plan.tasks.iter().filter(begins).copied().collect();
        if found.is_empty() {
            found.push(beyond_the_plan(id, protocol)?);
        }
        found.retain(|task| !selected.contains(task));
        selected.extend(found);
    }
    selected.sort_by_key(|task| plan.number(task).unwrap_or(usize::MAX));
    Ok(selected)
}

/// A task of a plan with more seeds.
fn beyond_the_plan(id: &str, protocol: Protocol) -> Result<Task, Failure> {
    let task: Task = id.parse().map_err(|why| Failure::Input(format!("--task {why}")))?;
    let is_quick = |protocol| if protocol == Protocol::Quick { "with" } else { "without" };
    if task.protocol != protocol {
        let how = is_quick(task.protocol);
        return Err(Failure::Input(format!("--task {id}: is a task {how} --quick")));
    }
    match Plan::new(protocol, MAX_SEEDS).number(&task) {
        Some(_) => Ok(task),
        None => Err(Failure::Input(format!("--task {id}: is not in the plan; --list prints it"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(ids: &[&str]) -> Result<Vec<String>, Failure> {
        let ids: Vec<String> = ids.iter().map(|id| id.to_string()).collect();
        let tasks = by_id(&Plan::new(Protocol::Paper, 2), Protocol::Paper, &ids)?;
        Ok(tasks.iter().map(Task::to_string).collect())
    }

    #[test]
    fn ids_and_what_they_begin_with() {
        assert_eq!(selected(&["theorem", "depth", "theorem"]).unwrap(), ["depth", "theorem"]);
        let both = ["mlm/small-dlstm-8/seed-1", "mlm/small-dlstm-8/seed-2"];
        assert_eq!(selected(&["mlm/small-dlstm-8"]).unwrap(), both);
        assert_eq!(selected(&["mlm/small-dlstm-8/", both[0]]).unwrap(), both);
        // Not small-dlstm-10 and -15 too.
        assert_eq!(selected(&["mlm/small-dlstm-1"]).unwrap().len(), 2);
        assert_eq!(selected(&["mlm/small-lstm/seed-7"]).unwrap(), ["mlm/small-lstm/seed-7"]);
        for bad in ["mlm/small", "mlm/small-lstm/seed-700", "quick/depth", "reversal/dlstm-25"] {
            assert!(matches!(selected(&[bad]), Err(Failure::Input(_))), "{bad}");
        }
    }

    #[test]
    fn numbers_of_arrays() {
        let plan = Plan::new(Protocol::Quick, 1);
        let last = plan.tasks.len().to_string();
        assert_eq!(by_number(&plan, "HQ_TASK_ID", "1"), Ok(plan.tasks[0]));
        assert_eq!(by_number(&plan, "HQ_TASK_ID", &last).ok(), plan.tasks.last().copied());
        for bad in ["0", "-1", "x", "", "100000"] {
            let said = by_number(&plan, "HQ_TASK_ID", bad).unwrap_err();
            assert!(said.contains("numbered from 1 to"), "{said}");
        }
    }
}
