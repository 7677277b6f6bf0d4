//! The sequences of a call, as the kernels read them.

use super::ReadF32;
use drnn::{Batch, NetSpec, Rows, Steps};
use numpy::PyUntypedArrayMethods;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError};
use pyo3::prelude::*;
use std::mem;

/// Input of all lanes. Lanes have batches of one shape, and their own elements or the same.
#[derive(Default)]
pub(super) struct Sequences {
    steps: usize,
    rows: usize,
    lanes: usize,
    /// Whether all lanes read the same elements.
    shared: bool,
    /// Of packed batches.
    packed: Option<PackedBatch>,
}

/// torch's `PackedSequence`: rows by length, the longest first, step after step.
#[derive(Default)]
struct PackedBatch {
    sizes: Vec<usize>,
    lengths: Vec<usize>,
    /// Outputs in packed order.
    slots: Vec<u32>,
    /// (T, B, q) after (T, B, q), one for each lane with elements of its own; what follows a
    /// sequence's end is never read.
    x: Vec<f32>,
}

impl PackedBatch {
    /// `x` holds (N, q) of one lane after another; it is checked, and not copied yet.
    fn new(spec: &NetSpec, sizes: &[i64], x: &[f32], lanes: usize) -> PyResult<PackedBatch> {
        let wrong = |why: &str| PyRuntimeError::new_err(format!("batch_sizes {why}"));
        let q = spec.input().width();
        let decreasing = sizes.windows(2).all(|pair| pair[0] >= pair[1]);
        if sizes.is_empty() || !decreasing || sizes.iter().any(|&size| size < 1) {
            return Err(wrong("must be positive and never increase"));
        }
        let sizes: Vec<usize> = sizes.iter().map(|&size| size as usize).collect();
        let total = sizes.iter().try_fold(0usize, |sum, &size| sum.checked_add(size));
        let per_lane = total.and_then(|total| total.checked_mul(q));
        if per_lane.and_then(|per_lane| per_lane.checked_mul(lanes)) != Some(x.len()) {
            return Err(wrong("must add up to the number of elements"));
        }
        let (steps, rows, ahead) = (sizes.len(), sizes[0], spec.look_ahead());
        if sizes.get(ahead) != Some(&rows) {
            return Err(PyRuntimeError::new_err(format!(
                "every sequence needs more than {ahead} elements: the last {ahead} are only looked \
                 at"
            )));
        }
        if steps.checked_mul(rows).is_none_or(|slots| slots >= u32::MAX as usize) {
            return Err(PyMemoryError::new_err(format!("{rows} sequences of {steps} steps")));
        }
        let (mut lengths, mut slots) = (vec![0; rows], Vec::new());
        for (t, &size) in sizes.iter().enumerate() {
            lengths[..size].fill(t + 1);
            if t >= ahead {
                let first = (t - ahead) * rows;
                slots.extend((first..first + size).map(|slot| slot as u32));
            }
        }
        Ok(PackedBatch { sizes, lengths, slots, x: Vec::new() })
    }

    /// Where the elements of each step begin in (T, B, q), and how many numbers they are.
    fn places(&self, q: usize) -> impl Iterator<Item = (usize, usize)> + '_ {
        let rows = self.lengths.len();
        self.sizes.iter().enumerate().map(move |(t, &size)| (t * rows * q, size * q))
    }

    /// Copies input in packed order to its place in (T, B, q) of each lane, in `memory`.
    fn unpack(&mut self, q: usize, x: &[f32], mut memory: Vec<f32>) {
        let lane: usize = self.sizes.len() * self.lengths.len() * q;
        let packed: usize = self.sizes.iter().sum::<usize>() * q;
        memory.resize(lane * (x.len() / packed), 0.0);
        for (padded, packed) in memory.chunks_exact_mut(lane).zip(x.chunks_exact(packed)) {
            let mut from = packed;
            for (place, len) in self.places(q) {
                let (step, rest) = from.split_at(len);
                padded[place..][..len].copy_from_slice(step);
                from = rest;
            }
        }
        self.x = memory;
    }

    /// Adds a gradient (T, B, q) to one in packed order, (N, q).
    fn add_packed(&self, q: usize, padded: &[f32], packed: &mut [f32]) {
        let mut to = packed;
        for (place, len) in self.places(q) {
            let (step, rest) = mem::take(&mut to).split_at_mut(len);
            add(step, &padded[place..][..len]);
            to = rest;
        }
    }
}

fn add(to: &mut [f32], from: &[f32]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += from);
}

impl Sequences {
    /// `x` is (T, B, q), or packed (N, q), with an axis of lanes in front where each has its own.
    pub(super) fn new(
        spec: &NetSpec,
        x: &ReadF32,
        sizes: Option<&[i64]>,
        lanes: usize,
    ) -> PyResult<Sequences> {
        let (values, shape) = (x.as_slice()?, x.shape());
        let axes = if sizes.is_some() { 2 } else { 3 };
        let (shared, own) = match shape.len().checked_sub(axes) {
            Some(0) => (true, shape),
            Some(1) if shape[0] == lanes => (false, &shape[1..]),
            _ => {
                return Err(PyRuntimeError::new_err(format!(
                    "x has shape (T, B, q), or packed (N, q), for all of {lanes} lanes or for each"
                )));
            }
        };
        let distinct = if shared { 1 } else { lanes };
        match (sizes, own) {
            (Some(sizes), _) => {
                let packed = PackedBatch::new(spec, sizes, values, distinct)?;
                let (steps, rows) = (packed.sizes.len(), packed.lengths.len());
                Ok(Sequences { steps, rows, lanes, shared, packed: Some(packed) })
            }
            (None, &[steps, rows, _]) if steps > spec.look_ahead() => {
                Ok(Sequences { steps, rows, lanes, shared, packed: None })
            }
            (None, _) => Err(PyRuntimeError::new_err(format!(
                "{} elements, expected more than {}: the last are only looked at",
                own[0],
                spec.look_ahead()
            ))),
        }
    }

    /// Puts packed input in its place, in `memory`; other input is read where it lies.
    pub(super) fn unpack(&mut self, q: usize, x: &[f32], memory: Vec<f32>) {
        if let Some(packed) = &mut self.packed {
            packed.unpack(q, x, memory);
        }
    }

    /// Memory for the next packed input.
    pub(super) fn into_memory(self) -> Vec<f32> {
        self.packed.map_or(Vec::new(), |packed| packed.x)
    }

    pub(super) fn lanes(&self) -> usize {
        self.lanes
    }

    /// The sequences of one lane. `x` is what [`Sequences::new`] was given.
    pub(super) fn batch<'a>(&'a self, x: &'a [f32], lane: usize) -> Batch<'a> {
        let (steps, rows) = (Steps(self.steps), Rows(self.rows));
        let own = |all: &'a [f32]| match self.shared {
            true => all,
            false => &all[lane * (all.len() / self.lanes)..][..all.len() / self.lanes],
        };
        match &self.packed {
            None => Batch::dense(own(x), steps, rows),
            Some(packed) => {
                let batch = Batch::dense(own(&packed.x), steps, rows).lengths(&packed.lengths);
                batch.select_outputs(&packed.slots)
            }
        }
    }

    /// How many numbers the input of one lane has, (T, B, q).
    pub(super) fn padded_len(&self, q: usize) -> usize {
        self.steps * self.rows * q
    }

    /// Whether gradients of the input are made lane after lane in the form of the input itself.
    pub(super) fn own_input_layout(&self) -> bool {
        self.packed.is_none() && (!self.shared || self.lanes == 1)
    }

    /// Writes gradients (T, B, q) of all lanes in the form of the input: packed, if it is; summed
    /// over the lanes, if they share it.
    pub(super) fn collect_input_gradients(&self, q: usize, padded: &[f32], d_x: &mut [f32]) {
        d_x.fill(0.0);
        let own = if self.shared { d_x.len() } else { d_x.len() / self.lanes };
        for (lane, padded) in padded.chunks_exact(self.padded_len(q)).enumerate() {
            let to = &mut d_x[if self.shared { 0 } else { lane * own }..][..own];
            match &self.packed {
                Some(packed) => packed.add_packed(q, padded, to),
                None => add(to, padded),
            }
        }
    }
}
