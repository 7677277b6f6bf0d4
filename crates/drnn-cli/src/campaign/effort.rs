//! The minutes that a task is expected to take.
//!
//! ```text
//! GPU    one NVIDIA H200 in f16, a network alone: characters and sine as measured (results/paper),
//!        taggers by an epoch of English (results/tagger-gpu.json); reversal, d-GRU and d-RNN are estimates
//! CPU    multiply-adds / 45e9 per second and core with AVX-512, as reversal and masked characters reach
//! ```
//!
//! A forecast for planning: trainings that stop early take less.

use super::plan::SINE_AHEADS;
use super::task::{Device, Experiment, Protocol, Task};
use crate::report::pos::Language;
use drnn_train::PaperNet;
use drnn_train::chars::paper::{Architecture, ROWS, Row, Size};

/// Multiply-adds per second of one core, in f32.
const CORE: f64 = 45e9;
/// Forward pass, and twice as much backward.
const PASSES: f64 = 3.0;
/// Epochs that a reversal network is expected to train before it stops early.
const REVERSAL_EPOCHS: f64 = 200.0;
/// Halves of trainings when a stack is relaxed.
const RELAX_HALVES: f64 = 7.0;
/// Epochs of a sine network: the mean of 308 trainings.
const SINE_EPOCHS: f64 = 870.0;

/// Cores that train a tagger as fast as a GPU, whose epochs of English take 3.7 s on an H200
/// (results/tagger-gpu.json). Several side by side take less each.
const TAGGER_CORES: f64 = 2.7;

/// Minutes on a GPU, or on this many cores.
pub fn minutes(task: &Task, gpu: bool, cores: usize) -> f64 {
    if task.protocol == Protocol::Quick {
        return 0.1;
    }
    let gpu = gpu && !task.only_cpu();
    let on_cores = |work: f64, cores: usize| work / CORE / cores.max(1) as f64 / 60.0;
    match task.experiment {
        Experiment::Depth => 0.1,
        Experiment::Theorem => 0.7 / cores.max(1) as f64,
        Experiment::Runtime(Device::Cuda) => 1.0,
        Experiment::Runtime(Device::Cpu) => {
            let passes = ROWS.iter().filter_map(|row| row.spec().ok());
            let parameters: f64 = passes.map(|spec| spec.parameters() as f64).sum();
            on_cores(parameters * 128.0 * 180.0 * 11.0, cores)
        }
        Experiment::Reversal(_) if gpu => 1.0,
        Experiment::Reversal(net) => {
            on_cores(recurrence(net) * 20.0 * 10_000.0 * REVERSAL_EPOCHS * PASSES, 1)
        }
        Experiment::Sine(_) if gpu => 2.5,
        Experiment::Sine(_) => {
            let nets = [PaperNet::Lstm, PaperNet::BiLstm, PaperNet::DLstm(5), PaperNet::DLstm(10)];
            let parameters: f64 = nets.into_iter().map(recurrence).sum();
            let trainings = parameters * SINE_AHEADS.len() as f64;
            on_cores(trainings * 50.0 * 10_000.0 * SINE_EPOCHS * PASSES, cores)
        }
        Experiment::Mlm(row) if gpu => gpu_minutes(&row),
        Experiment::Mlm(row) => {
            let parameters = row.spec().map_or(0, |spec| spec.parameters()) as f64;
            on_cores(parameters * 64e6 * 20.0 * PASSES, cores)
        }
        Experiment::Pos(lang, ..) => {
            // One core, 20 epochs of about 10 seconds for English as measured, by the number of lines.
            let on_core = match lang {
                Language::En => 3.4,
                Language::Fr => 6.0,
                Language::De => 4.0,
            };
            if gpu { on_core / TAGGER_CORES } else { on_core }
        }
        Experiment::Relax(_) if gpu => RELAX_HALVES * 1.2,
        Experiment::Relax(stack) => {
            let parameters = stack.delayed().map_or(0, |spec| spec.parameters()) as f64;
            let characters = stack.first().unwrap_or(64_081_952) as f64;
            let epochs = stack.options().epochs as f64;
            let cores = cores.min(4); // as many trainings as there are side by side
            on_cores(parameters * characters * epochs * PASSES * RELAX_HALVES, cores)
        }
    }
}

/// Parameters of a network of about 41,000.
fn recurrence(net: PaperNet) -> f64 {
    net.spec(4, 4).map_or(0, |spec| spec.parameters()) as f64
}

fn gpu_minutes(row: &Row) -> f64 {
    let one_layer = match row.size {
        Size::Quick => 0.5,
        Size::Small => 1.1,
        Size::Large => 2.1,
    };
    // Stacks run layer after layer; GRUs and RNNs have no fused kernel.
    let layers = 1.0 + 0.2 * (row.layers - 1) as f64;
    let cell = match row.net {
        Architecture::DGru | Architecture::DRnn => 8.0,
        Architecture::BiLstm => 1.1,
        Architecture::Lstm | Architecture::DLstm => 1.0,
    };
    one_layer * layers * cell
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forecasts_are_near_what_was_measured() {
        let gpu = |id: &str| minutes(&id.parse().unwrap(), true, 16);
        // 66 s, 233 s: results/paper.
        assert!((gpu("mlm/small-dlstm-8/seed-1") - 1.1).abs() < 0.1);
        assert!((gpu("mlm/large-bilstm-5/seed-1") - 3.9).abs() < 0.5);
        // 190 s next to another training: results/paper.
        let tagger = minutes(&"pos/en/bilstm_bilstm/seed-3".parse().unwrap(), false, 16);
        assert!((tagger - 190.0 / 60.0).abs() < 0.5, "{tagger}");
    }

    #[test]
    fn a_gpu_is_faster_where_there_is_one() {
        for id in [
            "mlm/small-lstm/seed-1",
            "sine/gamma-1.0/set-0",
            "reversal/dlstm-9/seed-1",
            "pos/de/lstm_lstm/seed-1",
        ] {
            let task = id.parse().unwrap();
            assert!(minutes(&task, true, 2) < minutes(&task, false, 2), "{id}");
        }
    }
}
