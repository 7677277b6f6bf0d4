//! A task of the campaign, and its id.
//!
//! ```text
//! theorem                               depth
//! runtime/cpu                           runtime/cuda
//! reversal/dlstm-5/seed-3               sine/gamma-0.5/set-2
//! mlm/small-dlstm-8/seed-1              pos/en/bilstm_dlstm-1/seed-2
//! pos/en-glove/bilstm_dlstm-1/seed-2    relax/lstm-2x64/seed-1
//! quick/mlm/quick-lstm/seed-1
//! ```
//!
//! Ids are names of results files, and they never change their meaning. Tasks of the shrunken campaign
//! begin with `quick/`, so they cannot be mistaken for the paper's.
//!
//! A task is one training, except where trainings belong together: the 44 sine trainings of a frequency
//! and data set (4 networks, 11 values of a) fill a third of an H200, take about as long as the
//! slowest of them, and are a row of every map.

use crate::report::pos::Language;
use crate::report::relax::Stack;
use drnn::StartState;
use drnn_train::PaperNet;
use drnn_train::chars::paper::Row;
use drnn_train::sine::campaign::Gamma;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A part of the campaign that runs on one machine and has a results file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Task {
    pub protocol: Protocol,
    pub experiment: Experiment,
    /// The random seed; of sine the data set, counted from 0; 1 where nothing is
    /// repeated.
    pub repetition: u64,
}

/// How much is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// As in the paper.
    Paper,
    /// Shrunken, to try out a campaign: seconds per task.
    Quick,
}

/// What is repeated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Experiment {
    Theorem,
    Depth,
    /// Forward passes of the character table's networks.
    Runtime(Device),
    Reversal(PaperNet),
    /// The paper's four networks for every a.
    Sine(Gamma),
    Mlm(Row),
    /// Networks over characters and over words.
    Pos(Language, [PaperNet; 2], Vectors),
    /// A stack that is trained, flattened, and trained on with all connections between its blocks.
    Relax(Stack),
}

/// What runtimes are measured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    Cpu,
    Cuda,
}

/// Word vectors of a tagger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vectors {
    /// Learned from the training words.
    Learned,
    /// GloVe's, not trained.
    Glove,
}

impl Task {
    /// The frequency of a sine task.
    pub fn gamma(&self) -> Option<Gamma> {
        match self.experiment {
            Experiment::Sine(gamma) => Some(gamma),
            _ => None,
        }
    }

    /// Whether it can only be run on the CPU.
    pub fn only_cpu(&self) -> bool {
        match self.experiment {
            Experiment::Theorem | Experiment::Depth => true,
            Experiment::Runtime(device) => device == Device::Cpu,
            // Engines for GPUs have no blocks that start one after another.
            Experiment::Relax(stack) => stack.start() != StartState::Free,
            Experiment::Reversal(_)
            | Experiment::Sine(_)
            | Experiment::Mlm(_)
            | Experiment::Pos(..) => false,
        }
    }

    /// Whether it can only be run on a GPU.
    pub fn only_gpu(&self) -> bool {
        self.experiment == Experiment::Runtime(Device::Cuda)
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.protocol == Protocol::Quick {
            f.write_str("quick/")?;
        }
        let n = self.repetition;
        match self.experiment {
            Experiment::Theorem => f.write_str("theorem"),
            Experiment::Depth => f.write_str("depth"),
            Experiment::Runtime(Device::Cpu) => f.write_str("runtime/cpu"),
            Experiment::Runtime(Device::Cuda) => f.write_str("runtime/cuda"),
            Experiment::Reversal(net) => write!(f, "reversal/{net}/seed-{n}"),
            Experiment::Sine(gamma) => write!(f, "sine/gamma-{gamma}/set-{n}"),
            Experiment::Mlm(row) => write!(f, "mlm/{row}/seed-{n}"),
            Experiment::Pos(lang, [chars, words], vectors) => {
                let glove = if vectors == Vectors::Glove { "-glove" } else { "" };
                write!(f, "pos/{}{glove}/{chars}_{words}/seed-{n}", lang.name())
            }
            Experiment::Relax(stack) => write!(f, "relax/{stack}/seed-{n}"),
        }
    }
}

impl FromStr for Task {
    type Err = String;

    fn from_str(id: &str) -> Result<Task, String> {
        let (protocol, rest) = match id.strip_prefix("quick/") {
            Some(rest) => (Protocol::Quick, rest),
            None => (Protocol::Paper, id),
        };
        let task =
            parse(rest).map(|(experiment, repetition)| Task { protocol, experiment, repetition });
        // One id for a task: `seed-01` is none.
        task.filter(|task| task.to_string() == id)
            .ok_or_else(|| format!("`{id}`: not the id of a task; --list prints them"))
    }
}

fn parse(id: &str) -> Option<(Experiment, u64)> {
    let parts: Vec<&str> = id.split('/').collect();
    let seed = |text: &str| text.strip_prefix("seed-")?.parse().ok();
    match parts.as_slice() {
        ["theorem"] => Some((Experiment::Theorem, 1)),
        ["depth"] => Some((Experiment::Depth, 1)),
        ["runtime", "cpu"] => Some((Experiment::Runtime(Device::Cpu), 1)),
        ["runtime", "cuda"] => Some((Experiment::Runtime(Device::Cuda), 1)),
        ["reversal", net, n] => Some((Experiment::Reversal(net.parse().ok()?), seed(n)?)),
        ["sine", gamma, set] => {
            let gamma = gamma.strip_prefix("gamma-")?.parse().ok()?;
            Some((Experiment::Sine(gamma), set.strip_prefix("set-")?.parse().ok()?))
        }
        ["mlm", row, n] => Some((Experiment::Mlm(row.parse().ok()?), seed(n)?)),
        ["pos", bank, pair, n] => {
            let (lang, vectors) = match bank.strip_suffix("-glove") {
                Some(lang) => (lang, Vectors::Glove),
                None => (*bank, Vectors::Learned),
            };
            let lang = Language::ALL.into_iter().find(|other| other.name() == lang)?;
            let (chars, words) = pair.split_once('_')?;
            let pair = [chars.parse().ok()?, words.parse().ok()?];
            Some((Experiment::Pos(lang, pair, vectors), seed(n)?))
        }
        ["relax", stack, n] => Some((Experiment::Relax(stack.parse().ok()?), seed(n)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_one_task() {
        for id in [
            "theorem",
            "depth",
            "runtime/cuda",
            "reversal/bilstm/seed-5",
            "sine/gamma-0.5/set-2",
            "mlm/small-dlstm-8/seed-1",
            "mlm/small-dlstm-8-2/seed-1",
            "pos/fr/lstm_dlstm-4/seed-3",
            "pos/en-glove/bilstm_bilstm/seed-1",
            "relax/lstm-2x64/seed-3",
            "quick/mlm/quick-lstm/seed-1",
        ] {
            assert_eq!(id.parse::<Task>().unwrap().to_string(), id);
        }
        for id in [
            "",
            "mlm",
            "mlm/small-dlstm-8",
            "mlm/small-dlstm-4/seed-1",
            "mlm/small-dlstm-8/seed-01",
            "mlm/small-dlstm-8/seed-1/",
            "sine/gamma-0.50/set-0",
            "sine/gamma-0.25/set-0",
            "pos/it/lstm_lstm/seed-1",
            "relax/lstm-2x65/seed-1",
            "quick/quick/depth",
            "../depth",
        ] {
            assert!(id.parse::<Task>().unwrap_err().contains("--list"), "{id}");
        }
    }
}
