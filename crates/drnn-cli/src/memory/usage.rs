//! What memory a network takes in all its uses: as a model, live, run and trained.

use super::free::free;
use super::shown;
use crate::Failure;
use crate::training;
use drnn::memory::{self, BatchSize};
use drnn::text::grouped;
use drnn::{Direction, NetSpec};
use drnn_train::Estimate;
use serde::Serialize;

/// Bytes that a network takes, for machines.
#[derive(Serialize)]
pub struct MemoryUse {
    /// Sequences of a batch, and elements of each.
    batch: usize,
    steps: usize,
    /// Weights, and a copy packed for the kernels.
    model: usize,
    /// The state of a live sequence, where it streams.
    stream: Option<usize>,
    run: usize,
    /// On all cores, with gradient, optimiser and checkpoints.
    training: usize,
    /// Of a GPU's memory, where it can be trained there.
    training_gpu: Option<usize>,
    /// What this machine has left, where the system tells.
    free: Option<u64>,
}

impl MemoryUse {
    pub fn new(spec: &NetSpec, size: BatchSize) -> Result<MemoryUse, Failure> {
        let streams = spec.direction() == Direction::Forward;
        Ok(MemoryUse {
            batch: size.rows,
            steps: size.steps,
            model: memory::model(spec),
            stream: streams.then(|| memory::stream(spec)),
            run: memory::run(spec, size),
            training: Estimate::of_batch(spec, size, training::cpu(None)?.threads()).total(),
            training_gpu: drnn_cuda::estimate(spec, size).ok(),
            free: free(),
        })
    }

    /// The same for people.
    pub fn text(&self) -> String {
        let batch =
            format!("{} sequences of {} elements", grouped(self.batch), grouped(self.steps));
        let gpu = match self.training_gpu {
            Some(bytes) => format!("; on a GPU about {} of its memory", shown(bytes)),
            None => String::new(),
        };
        let packed = "weights, and a copy packed for the kernels";
        let mut lines = vec![("model", self.model, packed.to_string())];
        lines.extend(self.stream.map(|bytes| ("stream", bytes, "each live sequence".into())));
        lines.push(("run", self.run, format!("over {batch}, besides the model")));
        lines.push(("training", self.training, format!("on such batches, with checkpoints{gpu}")));
        if let Some(free) = self.free {
            let free = usize::try_from(free).unwrap_or(usize::MAX);
            lines.push(("free", free, "on this machine now".into()));
        }
        let line = |(name, bytes, what): &(&str, usize, String)| {
            format!("memory, {name:9} {:>9}  {what}\n", shown(*bytes))
        };
        format!("\n{}", lines.iter().map(line).collect::<String>())
    }
}
