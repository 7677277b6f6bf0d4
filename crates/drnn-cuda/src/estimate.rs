//! Estimates the device memory that training needs, before anything is allocated.
//!
//! The sums follow [`crate::step::workspace`] and the recurrences' own workspaces line by line; a
//! test compares them with what is allocated on a recorder. They are f64, which no size overflows.

use crate::error::{Error, Result};
use crate::learner::CudaLearner;
use crate::persistent::{self, DeviceLimits, PersistentWorkspace};
use crate::runtime::device::Device;
use crate::runtime::gemm::{Precision, WORKSPACE};
use crate::step::plan::{Plan, Shape};
use crate::step::stored::{self, StoredData};
use crate::step::workspace::{CHUNKS, MAX_BATCHES_PER_GRAPH, MAX_WORDS_PER_GRAPH, STAGING_BUFFERS};
use drnn::memory::BatchSize;
use drnn::{Cell, InputSpec, NetSpec};
use drnn_train::Dataset;

/// Bytes of device memory that training takes with batches of up to `size`, for the kernels that
/// run on every GPU ([`Precision::F32`]). Large networks need less with [`Precision::F16`]. Needs
/// no GPU. Fails with [`Error::Unsupported`] if no kernels exist for the network, or if the batch
/// is too large for 32-bit indices.
pub fn estimate(spec: &NetSpec, size: BatchSize) -> Result<usize> {
    let plan = Plan::new(spec).map_err(Error::Unsupported)?;
    of_plan(&plan, size, None)
}

impl CudaLearner {
    /// Bytes of device memory that training takes on `device` at `precision`, with batches of up to
    /// `size`. Fails as [`estimate()`] does.
    pub fn estimate(
        device: &Device,
        precision: Precision,
        spec: &NetSpec,
        size: BatchSize,
    ) -> Result<usize> {
        let plan = Plan::new(spec).map_err(Error::Unsupported)?;
        let persistent = precision == Precision::F16 && persistent::supports(device, &plan)?;
        of_plan(&plan, size, persistent.then(|| device.limits()))
    }

    /// Bytes of device memory for the copy of a training set that all learners on a device share, as
    /// far as it is taken from a copy. [`Device::without_copies`] does without.
    pub fn copy_bytes(spec: &NetSpec, data: &dyn Dataset) -> usize {
        if let Some(recipe) = data.recipe() {
            // It need not be generated to be counted.
            let values = spec.input().width() + spec.output_width();
            let elements = recipe.count().saturating_mul(recipe.steps());
            return elements.saturating_mul(size_of::<f32>() * values);
        }
        data.stored().map_or(0, StoredData::bytes_of)
    }
}

/// The same for a plan, with persistent kernels on a device of these limits or with the others.
pub(crate) fn of_plan(
    plan: &Plan,
    size: BatchSize,
    persistent: Option<DeviceLimits>,
) -> Result<usize> {
    let spec = &plan.spec;
    let outputs = spec.output_steps(size.steps);
    let steps = if outputs == 0 { 0 } else { outputs.saturating_add(spec.delay()) };
    plan.check_batch(steps, size.rows)?;
    let shape = Shape { steps, outputs, rows: size.rows, selected: None };
    let recurrent = match persistent {
        Some(limits) => PersistentWorkspace::estimate(plan, shape, limits),
        None => plain(plan, shape),
    };
    let parameters = 4.0 * spec.parameters() as f64; // with gradient and Adam's two vectors
    Ok((4.0 * parameters + recurrent + shared_part(plan, shape) + WORKSPACE as f64) as usize)
}

/// Bytes of [`crate::step::workspace::Workspace`] without its recurrences.
fn shared_part(plan: &Plan, shape: Shape) -> f64 {
    let [step_rows, positions] = [shape.step_rows(), shape.positions()].map(|n| n as f64);
    let (spec, m) = (&plan.spec, plan.spec.output_width() as f64);
    let (input, embedded, targets) = match spec.input() {
        InputSpec::Dense(q) => (step_rows * q as f64, 0.0, positions * m),
        InputSpec::Tokens { symbols, embedding } => {
            (2.0 * step_rows + symbols as f64, step_rows * embedding as f64, positions)
        }
    };
    let batch = shape.rows as f64 + input + positions + targets;
    let batches =
        (MAX_WORDS_PER_GRAPH as f64 / batch).floor().clamp(1.0, MAX_BATCHES_PER_GRAPH as f64);
    let parts = MAX_BATCHES_PER_GRAPH as f64 * stored::words(shape.rows) as f64;
    let staged = (1 + STAGING_BUFFERS) as f64 * (batches * batch + parts);
    let max_units = spec.units().iter().max().copied().unwrap_or(0);
    let columns = (plan.cell.gates() * max_units).max(spec.output_width());
    let partial = (CHUNKS * columns) as f64;
    4.0 * (staged + embedded + 2.0 * positions * m + 2.0 * positions + partial)
}

/// Bytes of [`crate::plain::PlainWorkspace`].
fn plain(plan: &Plan, shape: Shape) -> f64 {
    let (step_rows, rows) = (shape.step_rows() as f64, shape.rows as f64);
    let padded_rows = (shape.steps + 2) as f64 * rows;
    let max_units = plan.spec.units().iter().max().copied().unwrap_or(0) as f64;
    let mut floats = 2.0 * step_rows * plan.widest() as f64 + 2.0 * rows * max_units;
    for layer in &plan.layers {
        floats += padded_rows * layer[0].width as f64;
        for recurrence in layer {
            let n = recurrence.n as f64;
            floats += step_rows * recurrence.gates as f64;
            floats += match plan.cell {
                Cell::Gru => step_rows * n,
                Cell::Lstm => padded_rows * n,
                Cell::RnnTanh | Cell::RnnRelu | Cell::GruResetBefore => 0.0,
            };
        }
    }
    4.0 * floats
}
