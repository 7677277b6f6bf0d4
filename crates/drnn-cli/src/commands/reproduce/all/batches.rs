//! Tasks that run side by side, in one process: they share data, and small networks alone would leave
//! most of a GPU or of a CPU's cores idle.
//!
//! ```text
//! reversal   all networks of a seed: one data set, lanes of one run
//! sine       three frequencies of a data set on a GPU: 132 trainings, one for each multiprocessor of
//!            an H200; one on a CPU, whose 44 trainings occupy every core
//! pos        all pairs of a treebank and seed on a GPU that has the memory; else as many as there are
//!            cores, each trained by one
//! mlm        one: it occupies the GPU or all cores, and its time is that of the network alone
//! ```

use crate::campaign::{Experiment, Task, minutes};
use std::fmt;

/// Tasks of one batch have the same experiment and repetition.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    pub tasks: Vec<Task>,
}

/// Frequencies that fill a GPU.
const SINE_ON_GPU: usize = 3;

/// Taggers that a GPU trains in the time of one: each leaves most of it idle. An estimate.
const TAGGERS_AT_A_TIME: f64 = 3.0;

/// Bytes of GPU memory of a tagger in training: up to 2.4 GB are estimated for the French pairs.
const TAGGER_BYTES: usize = 2_500_000_000;

/// How many taggers a GPU with so much free memory trains side by side.
pub fn taggers_on_gpu(free: usize) -> usize {
    (free / TAGGER_BYTES).max(1)
}

/// Batches of these tasks, in their order; with at most `taggers` taggers each.
pub fn of(tasks: &[Task], gpu: bool, taggers: usize) -> Vec<Batch> {
    let mut batches: Vec<Batch> = Vec::new();
    for task in tasks {
        let limit = match task.experiment {
            Experiment::Reversal(_) => usize::MAX,
            Experiment::Sine(_) if gpu => SINE_ON_GPU,
            Experiment::Pos(..) => taggers.max(1),
            _ => 1,
        };
        match batches.last_mut() {
            Some(batch) if batch.tasks.len() < limit && shared(&batch.tasks[0]) == shared(task) => {
                batch.tasks.push(*task);
            }
            _ => batches.push(Batch { tasks: vec![*task] }),
        }
    }
    batches
}

/// What all tasks of a batch have in common, which also names their folder.
fn shared(task: &Task) -> String {
    let n = task.repetition;
    match task.experiment {
        Experiment::Reversal(_) => format!("reversal/seed-{n}"),
        Experiment::Sine(_) => format!("sine/set-{n}"),
        Experiment::Pos(lang, _, vectors) => format!("pos/{}-{vectors:?}/seed-{n}", lang.name()),
        Experiment::Theorem
        | Experiment::Depth
        | Experiment::Runtime(_)
        | Experiment::Mlm(_)
        | Experiment::Relax(_) => task.to_string(),
    }
}

impl Batch {
    /// The folder for checkpoints. That of a single task is its own, so that the tasks of an array do
    /// not meet.
    pub fn folder(&self) -> String {
        match self.tasks.as_slice() {
            [task] => task.to_string(),
            tasks => format!("together/{}", shared(&tasks[0])),
        }
    }

    /// The batch without tasks that are done.
    pub fn without(self, done: impl Fn(&Task) -> bool) -> Batch {
        Batch { tasks: self.tasks.into_iter().filter(|task| !done(task)).collect() }
    }

    /// Expected time: of the longest task, or of all that a GPU trains in turns.
    pub fn minutes(&self, gpu: bool, cores: usize) -> f64 {
        let each = || self.tasks.iter().map(|task| minutes(task, gpu, cores));
        let longest = each().fold(0.0, f64::max);
        match self.tasks.first().map(|task| task.experiment) {
            Some(Experiment::Pos(..)) if gpu => {
                longest.max(each().sum::<f64>() / TAGGERS_AT_A_TIME)
            }
            _ => longest,
        }
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.tasks.as_slice() {
            [] => f.write_str("nothing"),
            [task] => write!(f, "{task}"),
            [first, .., last] => {
                write!(f, "{} tasks side by side, {first} to {last}", self.tasks.len())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::{Plan, Protocol};

    #[test]
    fn every_task_is_in_one_batch() {
        let plan = Plan::new(Protocol::Paper, 2);
        assert_eq!([0, 40_000_000_000, 140_000_000_000].map(taggers_on_gpu), [1, 16, 56]);
        for (gpu, taggers) in [(true, 56), (false, 2)] {
            let batches = of(&plan.tasks, gpu, taggers);
            let all: Vec<Task> = batches.iter().flat_map(|batch| batch.tasks.clone()).collect();
            assert_eq!(all, plan.tasks);
            for batch in &batches {
                assert!(batch.tasks.iter().all(|task| shared(task) == shared(&batch.tasks[0])));
            }
            let reversal =
                |batch: &&Batch| matches!(batch.tasks[0].experiment, Experiment::Reversal(_));
            assert_eq!(batches.iter().filter(reversal).count(), 5);
            let sine = |batch: &&Batch| matches!(batch.tasks[0].experiment, Experiment::Sine(_));
            assert_eq!(batches.iter().filter(sine).count(), if gpu { 5 * 4 } else { 55 });
            let pos = |batch: &&Batch| matches!(batch.tasks[0].experiment, Experiment::Pos(..));
            // Three treebanks and one with GloVe's vectors, 31 pairs each, 2 seeds.
            assert_eq!(batches.iter().filter(pos).count(), if gpu { 4 * 2 } else { 4 * 2 * 16 });
        }
    }

    #[test]
    fn a_single_task_has_its_own_folder() {
        let tasks: Vec<Task> = ["reversal/lstm/seed-1", "reversal/bilstm/seed-1"]
            .map(|id| id.parse().unwrap())
            .to_vec();
        assert_eq!(of(&tasks, false, 2)[0].folder(), "together/reversal/seed-1");
        let one = of(&tasks, false, 2).remove(0).without(|task| *task == tasks[0]);
        assert_eq!(one.folder(), "reversal/bilstm/seed-1");
    }
}
