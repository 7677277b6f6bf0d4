//! All tasks of the campaign, in the order in which they are run and numbered.
//!
//! First what takes seconds, then the tables and figures of the paper with one repetition after the
//! other, so that a campaign that ends early has every row once; last what goes beyond the paper.

use super::task::{Device, Experiment, Protocol, Task, Vectors};
use crate::report::pos::{Language, paper_pairs};
use crate::report::relax::{SMALL, Stack};
use drnn_train::PaperNet;
use drnn_train::chars::paper::{BEYOND, ROWS, Row};
use drnn_train::sine::campaign::Gamma;

/// Repetitions of the paper; those of reversal, and data sets of sine, here too.
pub const PAPER_REPETITIONS: u64 = 5;

/// Numbers of taps that look ahead, a.
pub const SINE_AHEADS: [u8; 11] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];

/// The frequencies of the sine maps. The paper does not print its step.
pub fn gammas() -> Vec<Gamma> {
    let tenths = [1, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50];
    tenths.into_iter().filter_map(Gamma::tenths).collect()
}

/// The tasks of a campaign. Tasks are numbered from 1, for task arrays.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub tasks: Vec<Task>,
}

impl Plan {
    /// With this many trainings of each network of the character table and of the taggers.
    pub fn new(protocol: Protocol, seeds: u64) -> Plan {
        let mut tasks = Vec::new();
        let mut add = |experiment, repetition| {
            tasks.push(Task { protocol, experiment, repetition });
        };
        add(Experiment::Depth, 1);
        add(Experiment::Theorem, 1);
        add(Experiment::Runtime(Device::Cpu), 1);
        if protocol == Protocol::Paper {
            add(Experiment::Runtime(Device::Cuda), 1);
        }
        let all = match protocol {
            Protocol::Paper => Scope::paper(),
            Protocol::Quick => Scope::quick(),
        };
        for seed in 1..=seeds {
            all.rows.iter().for_each(|row| add(Experiment::Mlm(*row), seed));
        }
        for set in 0..all.sets {
            all.gammas.iter().for_each(|gamma| add(Experiment::Sine(*gamma), set));
        }
        for seed in 1..=all.sets {
            all.reversal.iter().for_each(|net| add(Experiment::Reversal(*net), seed));
        }
        let mut pos = |vectors, languages: &[Language]| {
            for (seed, &lang) in (1..=seeds).flat_map(|n| languages.iter().map(move |l| (n, l))) {
                let pairs = all.pairs.clone().unwrap_or_else(|| paper_pairs(lang.name()));
                pairs.into_iter().for_each(|pair| add(Experiment::Pos(lang, pair, vectors), seed));
            }
        };
        pos(Vectors::Learned, &all.languages);
        pos(Vectors::Glove, &all.with_glove);
        for seed in 1..=seeds {
            all.beyond.iter().for_each(|row| add(Experiment::Mlm(*row), seed));
        }
        for seed in 1..=seeds {
            all.stacks.iter().for_each(|stack| add(Experiment::Relax(*stack), seed));
        }
        Plan { tasks }
    }

    /// The number of a task, counted from 1.
    pub fn number(&self, task: &Task) -> Option<usize> {
        self.tasks.iter().position(|other| other == task).map(|i| i + 1)
    }
}

/// What is trained.
struct Scope {
    rows: Vec<Row>,
    gammas: Vec<Gamma>,
    /// Data sets of sine, repetitions of reversal.
    sets: u64,
    reversal: Vec<PaperNet>,
    languages: Vec<Language>,
    with_glove: Vec<Language>,
    /// None for all of the paper's.
    pairs: Option<Vec<[PaperNet; 2]>>,
    beyond: Vec<Row>,
    /// To be relaxed.
    stacks: Vec<Stack>,
}

impl Scope {
    fn paper() -> Scope {
        let mut reversal = vec![PaperNet::Lstm];
        reversal.extend((1..20).map(PaperNet::DLstm));
        reversal.push(PaperNet::BiLstm);
        Scope {
            rows: ROWS.to_vec(),
            gammas: gammas(),
            sets: PAPER_REPETITIONS,
            reversal,
            languages: Language::ALL.to_vec(),
            with_glove: vec![Language::En],
            pairs: None,
            beyond: BEYOND.to_vec(),
            stacks: Stack::ALL.to_vec(),
        }
    }

    fn quick() -> Scope {
        let rows = ["quick-lstm", "quick-dlstm-5", "quick-bilstm"];
        Scope {
            rows: rows.iter().filter_map(|name| name.parse().ok()).collect(),
            gammas: [5, 10].into_iter().filter_map(Gamma::tenths).collect(),
            sets: 2,
            reversal: vec![PaperNet::Lstm, PaperNet::DLstm(5), PaperNet::BiLstm],
            languages: vec![Language::En],
            with_glove: Vec::new(),
            pairs: Some(vec![[PaperNet::Lstm; 2], [PaperNet::BiLstm; 2]]),
            beyond: Vec::new(),
            stacks: vec![SMALL],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_papers_campaign() {
        let plan = Plan::new(Protocol::Paper, 3);
        let ids: BTreeSet<String> = plan.tasks.iter().map(Task::to_string).collect();
        assert_eq!(ids.len(), plan.tasks.len());
        let count = |prefix: &str| ids.iter().filter(|id| id.starts_with(prefix)).count();
        assert_eq!(count("mlm/"), 3 * (23 + 6));
        assert_eq!(count("sine/"), 11 * 5); // of 44 trainings each: 2,420
        assert_eq!(count("reversal/"), 21 * 5);
        assert_eq!([count("pos/en/"), count("pos/fr/"), count("pos/de/")], [3 * 31; 3]);
        assert_eq!(count("pos/en-glove/"), 3 * 31);
        assert_eq!(count("relax/"), 3 * 2);
        assert_eq!((count("theorem"), count("depth"), count("runtime/")), (1, 1, 2));
        assert_eq!(count("quick"), 0);
        assert_eq!(plan.number(&plan.tasks[7]), Some(8));
        // More seeds add tasks and keep the others.
        let more = Plan::new(Protocol::Paper, 5);
        assert!(plan.tasks.iter().all(|task| more.number(task).is_some()));
    }

    #[test]
    fn a_shrunken_campaign_shares_no_task() {
        let quick = Plan::new(Protocol::Quick, 1);
        assert!(quick.tasks.iter().all(|task| task.to_string().starts_with("quick/")));
        assert!(quick.tasks.len() < 30);
    }
}
