//! Data that lie in device memory, from which batches are taken by where their sequences lie.
//!
//! ```text
//! x (elements, q)   y (elements, m)          copied once per device, for all networks that train on them
//! parts (B, 4)                               sent for each batch
//! take_batch                                 writes the batch as if it had been staged
//! ```

use crate::error::{Error, Result as CudaResult};
use crate::kernels::params::{TakeBatch, ptr, size};
use crate::runtime::device::Device;
use crate::runtime::memory::Buffer;
use crate::step::pass::{Pass, THREADS};
use crate::step::plan::{HEADER, Plan, Shape, TargetType};
use crate::step::staging::{Step, misfit, write_header};
use drnn::{InputSpec, Padding};
use drnn_train::{IGNORE, Result, Stored, Targets};
use std::sync::Arc;

/// Words of a sequence in a batch: first element, elements that are read, elements whose targets
/// count, time steps.
const PART: usize = 4;

/// Words of a batch of `rows` sequences: a header and the parts.
pub(crate) fn words(rows: usize) -> usize {
    HEADER.saturating_add(PART.saturating_mul(rows))
}

/// Arrays in device memory.
#[derive(Debug)]
pub(crate) struct StoredData {
    pub key: u64,
    pub target_type: TargetType,
    x: Buffer<f32>,
    /// Classes, or the bits of values.
    y: Buffer<u32>,
    widths: [usize; 2],
    /// Targets that count among those of the first elements, 0 ..= elements.
    counts: Vec<u64>,
    /// The largest class; 0 for values.
    max_class: u32,
}

impl StoredData {
    /// Bytes that a copy takes in device memory.
    pub fn bytes_of(data: &dyn Stored) -> usize {
        let targets = match data.y() {
            Targets::Classes(classes) => classes.len(),
            Targets::Values(values) => values.len(),
        };
        size_of::<f32>() * (data.x().len() + targets)
    }

    /// The device's copy of the data, which all learners share. `None` if they do not fit next to a
    /// workspace of so many bytes, or for another reason that [`StoredData::new`] names.
    pub fn on(
        device: &Device,
        data: &dyn Stored,
        workspace: usize,
    ) -> CudaResult<Option<Arc<StoredData>>> {
        device.stored(data.key(), || {
            let bytes = StoredData::bytes_of(data).saturating_add(workspace);
            if bytes > device.free_memory()? / 10 * 9 {
                return Ok(None);
            }
            match StoredData::new(device, data) {
                Err(Error::OutOfMemory) => Ok(None), // someone else has taken it
                made => made,
            }
        })
    }

    /// A copy in device memory. `None` for what is better staged batch by batch: data that are not
    /// finite or whose lengths do not fit each other, which staging reports, and more elements than
    /// 32-bit numbers count.
    fn new(device: &Device, data: &dyn Stored) -> CudaResult<Option<StoredData>> {
        let ([q, m], x) = (data.widths(), data.x());
        let elements = x.len().checked_div(q).unwrap_or(0);
        let m = if matches!(data.y(), Targets::Classes(_)) { 1 } else { m };
        let targets = match data.y() {
            Targets::Classes(classes) => classes.len(),
            Targets::Values(values) => values.len(),
        };
        let lengths_fit = x.len() == elements * q && targets == elements * m;
        let countable = elements > 0 && m > 0 && u32::try_from(elements).is_ok();
        if !lengths_fit || !countable || !x.iter().all(|x| x.is_finite()) {
            return Ok(None);
        }
        let mut counts = Vec::with_capacity(elements + 1);
        counts.push(0);
        let mut count = |counting: usize| {
            counts.push(counts.last().copied().unwrap_or(0) + counting as u64);
        };
        let (target_type, words, max_class) = match data.y() {
            Targets::Classes(classes) => {
                classes.iter().for_each(|class| count(usize::from(*class != IGNORE)));
                let known = classes.iter().filter(|class| **class != IGNORE);
                (TargetType::Classes, classes.to_vec(), known.max().copied().unwrap_or(0))
            }
            Targets::Values(values) => {
                let counting = |of: &[f32]| of.iter().filter(|value| !value.is_nan()).count();
                values.chunks_exact(m).for_each(|of| count(counting(of)));
                (TargetType::Values, values.iter().map(|value| value.to_bits()).collect(), 0)
            }
        };
        Ok(Some(StoredData {
            key: data.key(),
            target_type,
            x: Buffer::from(device, x)?,
            y: Buffer::from(device, &words)?,
            widths: [q, m],
            counts,
            max_class,
        }))
    }

    /// Whether a network reads such vectors and answers such targets, each at its step.
    pub fn fits(&self, plan: &Plan) -> bool {
        let (spec, [q, m]) = (&plan.spec, self.widths);
        let outputs = spec.output_width();
        let inputs_fit = matches!(spec.input(), InputSpec::Dense(width) if width == q);
        let targets_fit = match self.target_type {
            TargetType::Classes => (self.max_class as usize) < outputs,
            TargetType::Values => m == outputs,
        };
        inputs_fit && targets_fit && spec.padding() != Padding::LookAhead
    }

    pub fn bytes(&self) -> usize {
        self.x.bytes() + self.y.bytes()
    }

    /// The sizes of the batch of sequences `chosen`.
    pub fn shape(plan: &Plan, data: &dyn Stored, chosen: &[u32]) -> Shape {
        let longest = chosen.iter().map(|&row| data.part(row as usize).read).max().unwrap_or(0);
        Shape::new(&plan.spec, longest, chosen.len())
    }

    /// Writes to `to` what the device needs to take the batch of sequences `chosen`; returns how
    /// many positions, or values, count in the loss.
    pub fn stage(
        &self,
        plan: &Plan,
        data: &dyn Stored,
        chosen: &[u32],
        step: Step,
        to: &mut [u32],
    ) -> Result<usize> {
        let (header, parts) = to.split_at_mut(HEADER);
        let mut count = 0;
        for (&row, to) in chosen.iter().zip(parts.chunks_exact_mut(PART)) {
            let part = data.part(row as usize);
            let predicted = part.predicted.min(part.read);
            let last = part.start.checked_add(part.read).filter(|last| *last < self.counts.len());
            if last.is_none() {
                return Err(misfit(plan));
            }
            let words = [part.start, part.read, predicted, Shape::run(&plan.spec, part.read)];
            to.copy_from_slice(&words.map(|word| word as u32));
            count += self.counts[part.start + predicted] - self.counts[part.start];
        }
        write_header(header, count as usize, self.target_type, step);
        Ok(count as usize)
    }

    /// Writes a pass's batch, whose header and parts begin at `staged`.
    pub fn take(&self, pass: &Pass, staged: u64) -> CudaResult<()> {
        let (to, shape, [q, m]) = (pass.staged(), pass.shape, self.widths);
        let params = TakeBatch {
            header: ptr(staged),
            parts: ptr(staged + (HEADER * size_of::<u32>()) as u64),
            x: ptr(self.x.at(0)),
            y: ptr(self.y.at(0)),
            to_header: ptr(pass.part(0)),
            to_run: ptr(pass.part(to.run)),
            to_x: ptr(pass.part(to.input)),
            to_y: ptr(pass.part(to.targets)),
            steps: size(shape.steps),
            outputs: size(shape.outputs),
            rows: size(shape.rows),
            q: size(q),
            m: size(m),
            absent: match self.target_type {
                TargetType::Classes => IGNORE,
                TargetType::Values => f32::NAN.to_bits(),
            },
        };
        let threads = (32 * shape.step_rows()).max(shape.rows).max(HEADER);
        let blocks = threads.div_ceil(THREADS);
        // SAFETY: `stage` has checked that the parts lie in the arrays; the workspace is large
        // enough for the shape.
        unsafe { pass.kernels.take_batch.launch(pass.stream, [blocks, 1], THREADS, &params) }
    }
}
