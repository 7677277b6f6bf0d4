//! The memory of a network: as a model, streamed, run on whole sequences, and trained.

use super::free::free;
use super::shown;
use crate::Failure;
use crate::training;
use drnn::memory::{self, BatchSize};
use drnn::text::grouped;
use drnn::{Direction, NetSpec, WeightFormat};
use drnn_train::Estimate;
use serde::Serialize;

/// Bytes for each use of a network.
#[derive(Serialize)]
pub struct MemoryUse {
    /// Sequences per batch, and elements per sequence.
    batch: usize,
    steps: usize,
    /// Weights, and a copy in the kernels' layout.
    model: usize,
    /// The state of a live sequence; None for a bidirectional network.
    stream: Option<usize>,
    run: usize,
    /// Training on all cores: activations, gradients, optimiser and checkpoints.
    training: usize,
    /// GPU memory to train; None if there is no GPU engine for it.
    training_gpu: Option<usize>,
    /// Free memory of this machine, if known.
    free: Option<u64>,
}

impl MemoryUse {
    pub fn new(
        spec: &NetSpec,
        format: WeightFormat,
        size: BatchSize,
    ) -> Result<MemoryUse, Failure> {
        let streams = spec.direction() == Direction::Forward;
        Ok(MemoryUse {
            batch: size.rows,
            steps: size.steps,
            model: memory::model_as(spec, format),
            stream: streams.then(|| memory::stream(spec)),
            run: memory::run(spec, size),
            training: Estimate::of_batch(spec, size, training::cpu(None)?.threads()).total(),
            training_gpu: drnn_cuda::estimate(spec, size).ok(),
            free: free(),
        })
    }

    /// As lines of text.
    pub fn text(&self) -> String {
        let batch =
            format!("{} sequences of {} elements", grouped(self.batch), grouped(self.steps));
        let gpu = match self.training_gpu {
            Some(bytes) => format!("; on a GPU about {} of its memory", shown(bytes)),
            None => String::new(),
        };
        let copy = "weights, and a copy in the kernels' layout";
        let mut lines = vec![("model", self.model, copy.to_string())];
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
