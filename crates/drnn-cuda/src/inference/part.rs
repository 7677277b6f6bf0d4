//! The sequences of a batch that run at once.

use super::arrays::Arrays;
use crate::error::Result;
use crate::runtime::memory::Buffer;
use crate::step::plan::{Plan, Shape};
use crate::step::staging::NONE;
use drnn::{Batch, Elements, NetSpec, States};
use std::ops::Range;

/// Consecutive rows of a batch.
pub(super) struct Part<'a> {
    batch: &'a Batch<'a>,
    pub rows: Range<usize>,
    /// Of these rows alone: steps and outputs of the longest one.
    pub shape: Shape,
    /// Whether sequences begin with given states.
    pub has_start: bool,
    /// Of its selected outputs: the place among all that are selected, the step and the row.
    pub selected: Option<Vec<[usize; 3]>>,
    /// Width of the input.
    width: usize,
}

/// What a batch results in.
pub(super) struct Results {
    pub values: Vec<f32>,
    pub last: States,
}

impl Results {
    /// Zeros, and the states that rows have which never run.
    pub fn new(spec: &NetSpec, batch: &Batch, start: Option<&States>) -> Results {
        let values = vec![0.0; batch.output_shape(spec).iter().product()];
        let last = start.cloned().unwrap_or_else(|| States::zeros(spec, batch.rows()));
        Results { values, last }
    }
}

impl<'a> Part<'a> {
    pub fn new(plan: &Plan, batch: &'a Batch<'a>, rows: Range<usize>) -> Part<'a> {
        let longest = rows.clone().map(|row| batch.length(row)).max().unwrap_or(0);
        let shape = Shape::new(&plan.spec, longest, rows.len());
        let place = |(place, slot): (usize, &u32)| {
            let (step, row) = (*slot as usize / batch.rows(), *slot as usize % batch.rows());
            rows.contains(&row).then(|| [place, step, row - rows.start])
        };
        let selected =
            batch.selected().map(|slots| slots.iter().enumerate().filter_map(place).collect());
        let width = plan.spec.input().width();
        Part { batch, rows, shape, has_start: false, selected, width }
    }

    /// The same, beginning with given states if there are any.
    pub fn starting(self, start: Option<&States>) -> Part<'a> {
        Part { has_start: start.is_some(), ..self }
    }

    /// Number of outputs that are computed.
    pub fn outputs(&self) -> usize {
        self.selected.as_ref().map_or(self.shape.positions(), Vec::len)
    }

    /// Values of h and of c of all layers and directions.
    pub fn state_lengths(&self, plan: &Plan) -> [usize; 2] {
        let h = self.states_before(plan, plan.layers.len());
        [h, if plan.cell.has_cell_state() { h } else { 0 }]
    }

    /// Values of h of the layers below `layer`.
    pub fn states_before(&self, plan: &Plan, layer: usize) -> usize {
        plan.layers[..layer].iter().map(|of| of[0].width).sum::<usize>() * self.rows.len()
    }

    /// Copies inputs, lengths and start states to the device.
    pub fn send(&self, plan: &Plan, start: Option<&States>, arrays: &Arrays) -> Result<()> {
        let lengths = self.rows.clone().map(|row| self.batch.length(row));
        let run: Vec<u32> = lengths.map(|length| Shape::run(&plan.spec, length) as u32).collect();
        arrays.run.set(&run)?;
        match self.batch.elements() {
            Elements::Tokens(tokens) => arrays.tokens.set(&self.tokens(plan, tokens, &run))?,
            Elements::Dense(x) => match self.is_whole() {
                true => arrays.x.set(x)?,
                false => arrays.x.set(&self.vectors(x))?,
            },
        }
        if let Some(selected) = self.selected.as_ref().filter(|selected| !selected.is_empty()) {
            let place = |[_, step, row]: &[usize; 3]| {
                ((step + plan.spec.delay()) * self.rows.len() + row) as u32
            };
            arrays.places.set(&selected.iter().map(place).collect::<Vec<_>>())?;
            arrays.exist.set(&vec![1; selected.len()])?;
        }
        let Some(start) = start else { return Ok(()) };
        for (all, to) in [&start.h, &start.c].into_iter().zip(&arrays.first) {
            if to.len() > 0 {
                let mut values = Vec::with_capacity(to.len());
                self.each_states(plan, |range, _| values.extend_from_slice(&all[range]));
                to.set(&values)?;
            }
        }
        Ok(())
    }

    /// Whether the caller's array is the part's, as it stands.
    fn is_whole(&self) -> bool {
        let steps = self.batch.steps();
        self.rows.len() == self.batch.rows()
            && self.shape.steps == steps
            && self.rows.clone().all(|row| self.batch.length(row) == steps)
    }

    /// Tokens (S, B): after a row's end the padding symbol, or none, which is read as zeros.
    fn tokens(&self, plan: &Plan, tokens: &[u32], run: &[u32]) -> Vec<u32> {
        let (count, padding) = (self.batch.rows(), plan.padding().unwrap_or(NONE));
        let mut to = vec![NONE; self.shape.step_rows()];
        for (step, to) in to.chunks_exact_mut(self.rows.len()).enumerate() {
            for ((row, to), run) in self.rows.clone().zip(to).zip(run) {
                if step < self.batch.length(row) && step < *run as usize {
                    *to = tokens[step * count + row];
                } else if step < *run as usize {
                    *to = padding;
                }
            }
        }
        to
    }

    /// Vectors (S, B, q), zeros after a row's end.
    fn vectors(&self, x: &[f32]) -> Vec<f32> {
        let (q, count) = (self.width, self.batch.rows());
        let mut to = vec![0.0; self.shape.step_rows() * q];
        for (step, to) in to.chunks_exact_mut((self.rows.len() * q).max(1)).enumerate() {
            for (row, to) in self.rows.clone().zip(to.chunks_exact_mut(q.max(1))) {
                if step < self.batch.length(row) {
                    to.copy_from_slice(&x[(step * count + row) * q..][..q]);
                }
            }
        }
        to
    }

    /// Calls `each` with where the part's states of a layer and direction lie among those of the
    /// batch, and in the part's own arrays.
    fn each_states(&self, plan: &Plan, mut each: impl FnMut(Range<usize>, Range<usize>)) {
        let (count, mut own) = (self.batch.rows(), 0);
        let mut first = 0;
        for r in plan.layers.iter().flatten() {
            let len = self.rows.len() * r.n;
            let begin = first + self.rows.start * r.n;
            each(begin..begin + len, own..own + len);
            first += count * r.n;
            own += len;
        }
    }

    /// Copies outputs and last states from the device.
    pub fn receive(&self, plan: &Plan, arrays: &Arrays, results: &mut Results) -> Result<()> {
        let m = plan.spec.output_width();
        let outputs = match self.outputs() {
            0 => Vec::new(),
            count => arrays.outputs.get(0, count * m)?,
        };
        match &self.selected {
            Some(selected) => {
                for ([place, ..], y) in selected.iter().zip(outputs.chunks_exact(m)) {
                    results.values[place * m..][..m].copy_from_slice(y);
                }
            }
            None => {
                let (rows, count) = (self.rows.len(), self.batch.rows());
                for (step, y) in outputs.chunks_exact(rows * m).enumerate() {
                    let to = (step * count + self.rows.start) * m;
                    results.values[to..][..rows * m].copy_from_slice(y);
                }
            }
        }
        let States { h, c } = &mut results.last;
        for (from, to) in arrays.last.iter().zip([h, c]) {
            self.receive_states(plan, from, to)?;
        }
        Ok(())
    }

    /// A row that is too short for an output keeps its states.
    fn receive_states(&self, plan: &Plan, from: &Buffer<f32>, to: &mut [f32]) -> Result<()> {
        if from.len() == 0 {
            return Ok(());
        }
        let values = from.get(0, from.len())?;
        self.each_states(plan, |all, own| {
            let n = own.len() / self.rows.len();
            let of_rows = to[all].chunks_exact_mut(n).zip(values[own].chunks_exact(n));
            for (row, (to, from)) in self.rows.clone().zip(of_rows) {
                if Shape::run(&plan.spec, self.batch.length(row)) > 0 {
                    to.copy_from_slice(from);
                }
            }
        });
        Ok(())
    }
}
