//! Sequences of different lengths, packed so that every step is a dense block of rows.
//!
//! ```text
//! sequences   a a a a       sorted   b b b b b b      packed   b a c | b a c | b a | b a | b | b
//! by length   b b b b b b   a a a a                   steps       0      1      2     3    4   5
//!             c c           c c
//! ```
//!
//! Rows are sorted by length, the longest first; at step t the first `alive[t]` rows still run, and
//! row r of step t is packed row `offsets[t] + r`. A sequence with `L > 0` outputs takes `L + d` steps.
//! The index vectors say, for each packed row, which of the caller's rows it reads and outputs, and
//! the other way round; kernels follow them, so nothing is ever copied into order.

use crate::cpu::buffer::Buffer;
use crate::kernel::product::NULL_ROW;
use crate::model::batch::Batch;
use crate::prelude::*;
use crate::spec::{Direction, NetSpec};
use core::ops::Range;

/// The packed order of one batch. Reused: a batch no larger than before allocates nothing.
#[derive(Default, PartialEq)]
pub(crate) struct Schedule {
    /// The caller's row of each sorted row, longest first.
    pub order: Vec<u32>,
    /// Steps of each sorted row, d included; 0 where there are no outputs.
    pub steps: Vec<usize>,
    /// Rows that run at step t.
    pub alive: Vec<usize>,
    /// First packed row of step t, and the total at the end.
    pub offsets: Vec<usize>,
    /// Rows of the outputs' array: one for each slot, or for each selected slot.
    pub outputs: usize,

    /// Packed row -> the caller's input slot (step * B + row), or [`NULL_ROW`] for padding; for the
    /// forward and, where there is one, the reverse direction.
    pub input: [Vec<u32>; 2],
    /// Packed row -> row of the outputs, or [`NULL_ROW`] for the first d steps and for outputs that
    /// are not selected; by direction.
    pub output: [Vec<u32>; 2],
    /// Row of the outputs -> packed row, or [`NULL_ROW`] after a sequence's end; by direction.
    pub packed: [Vec<u32>; 2],
    /// Packed row of the forward direction -> packed row of the reverse one that stands at the same
    /// element, and the other way round. Empty for forward networks.
    pub mirror: Vec<u32>,
}

impl Schedule {
    /// Packs `batch`, which fits `spec`.
    pub fn set(&mut self, spec: &NetSpec, batch: &Batch) {
        let (rows, delay) = (batch.rows(), spec.delay());
        let outputs = |row: usize| spec.output_steps(batch.length(row));
        self.order.clear();
        self.order.extend(0..rows as u32);
        // Unstable sorting allocates nothing; the row number makes the order unique.
        self.order.sort_unstable_by_key(|&row| (usize::MAX - outputs(row as usize), row));
        self.steps.clear();
        self.steps.extend(self.order.iter().map(|&row| match outputs(row as usize) {
            0 => 0,
            l => l + delay,
        }));
        self.outputs = spec.output_steps(batch.steps()) * rows;

        let max = self.steps.first().copied().unwrap_or(0);
        self.alive.clear();
        self.offsets.clear();
        self.offsets.push(0);
        let (mut alive, mut total) = (rows, 0);
        for t in 0..max {
            while self.steps[alive - 1] <= t {
                alive -= 1;
            }
            self.alive.push(alive);
            total += alive;
            self.offsets.push(total);
        }
        self.set_indices(spec, batch);
        if let Some(slots) = batch.selected() {
            self.retain_selected(slots);
        }
    }

    fn set_indices(&mut self, spec: &NetSpec, batch: &Batch) {
        let (rows, delay, total) = (batch.rows(), spec.delay(), self.total());
        let both = spec.direction() == Direction::Bidirectional;
        let clear = |v: &mut Vec<u32>, len: usize| {
            v.clear();
            v.resize(len, NULL_ROW);
        };
        for direction in 0..2 {
            let used = direction == 0 || both;
            clear(&mut self.input[direction], if used { total } else { 0 });
            clear(&mut self.output[direction], if used { total } else { 0 });
            clear(&mut self.packed[direction], if used { self.outputs } else { 0 });
        }
        clear(&mut self.mirror, if both { total } else { 0 });
        for t in 0..self.alive.len() {
            for r in 0..self.alive[t] {
                let (p, row) = (self.offsets[t] + r, self.order[r] as usize);
                if t < batch.length(row) {
                    self.input[0][p] = (t * rows + row) as u32;
                }
                if t >= delay {
                    let slot = (t - delay) * rows + row;
                    self.output[0][p] = slot as u32;
                    self.packed[0][slot] = p as u32;
                }
                if both {
                    let back = self.steps[r] - 1 - t;
                    let slot = back * rows + row;
                    self.input[1][p] = slot as u32;
                    self.output[1][p] = slot as u32;
                    self.packed[1][slot] = p as u32;
                    self.mirror[p] = (self.offsets[back] + r) as u32;
                }
            }
        }
    }

    /// From rows of the outputs for all slots to rows for these.
    fn retain_selected(&mut self, slots: &[u32]) {
        self.outputs = slots.len();
        let directions = self.output.iter_mut().zip(&mut self.packed);
        for (output, packed) in directions.filter(|(_, packed)| !packed.is_empty()) {
            output.fill(NULL_ROW);
            for (i, &slot) in slots.iter().enumerate() {
                // Slots increase, so i <= slot: nothing is overwritten before it is read.
                packed[i] = packed[slot as usize];
                output[packed[i] as usize] = i as u32;
            }
            packed.truncate(slots.len());
        }
    }

    /// Packed rows in all, N.
    pub fn total(&self) -> usize {
        self.offsets.last().copied().unwrap_or(0)
    }

    /// Sequences, B.
    pub fn rows(&self) -> usize {
        self.order.len()
    }

    /// Where the state before step t of sorted row r lies among the B start states and the states by
    /// packed row that follow them.
    pub fn before(&self, t: usize, r: usize) -> usize {
        match t {
            0 => r,
            t => self.rows() + self.offsets[t - 1] + r,
        }
    }

    /// The same before and after step t.
    pub fn around(&self, t: usize, r: usize) -> (usize, usize) {
        (self.before(t, r), self.before(t + 1, r))
    }

    /// Copies the caller's states of some units (or zeros) into sorted rows of n floats.
    pub fn sort_rows(&self, n: usize, units: Range<usize>, from: Option<&[f32]>, to: &mut [f32]) {
        for (to, &row) in to.chunks_exact_mut(n).zip(&self.order) {
            let to = &mut to[units.clone()];
            match from {
                Some(from) => {
                    to.copy_from_slice(&from[row as usize * units.len()..][..units.len()])
                }
                None => to.fill(0.0),
            }
        }
    }

    /// The other way round: copies some units of rows of n floats to the caller's states. `parts` says
    /// where each part begins there and which units it holds, `at` which row of `from` a sorted row is.
    pub fn unsort_rows(
        &self,
        parts: impl Iterator<Item = (usize, Range<usize>)>,
        n: usize,
        at: impl Fn(usize) -> usize,
        from: &Buffer,
        to: &mut [f32],
    ) {
        for (offset, units) in parts {
            for (r, &row) in self.order.iter().enumerate() {
                let from = &from.slice((at(r) + 1) * n)[at(r) * n..];
                let to = &mut to[offset + row as usize * units.len()..][..units.len()];
                to.copy_from_slice(&from[units.clone()]);
            }
        }
    }

    /// Part `part` of `parts` of the sorted rows, of about equal work. Long rows come first, so the
    /// first parts have fewer.
    pub fn split(&self, part: usize, parts: usize) -> Range<usize> {
        let goal = |part: usize| self.total() * part / parts;
        let (mut start, mut end, mut done) = (0, 0, 0);
        for &steps in &self.steps {
            if done < goal(part) {
                start += 1;
            }
            if done < goal(part + 1) || part + 1 == parts {
                end += 1;
            }
            done += steps;
        }
        start..end.max(start)
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let indices = self.input.iter().chain(&self.output).chain(&self.packed);
        let words: usize = indices.chain([&self.order, &self.mirror]).map(Vec::capacity).sum();
        let sizes = self.steps.capacity() + self.alive.capacity() + self.offsets.capacity();
        words * size_of::<u32>() + sizes * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::batch::{Rows, Steps};
    use crate::spec::{Cell, Padding};

    fn spec(delay: usize, padding: Padding) -> NetSpec {
        NetSpec::builder(Cell::Lstm).dense(1).units([2]).delay(delay, padding).build().unwrap()
    }

    #[test]
    fn the_picture_above() {
        let x = [0.0; 18];
        let mut s = Schedule::default();
        s.set(&spec(0, Padding::Null), &Batch::dense(&x, Steps(6), Rows(3)).lengths(&[4, 6, 2]));
        assert_eq!(s.order, [1, 0, 2]);
        assert_eq!(s.alive, [3, 3, 2, 2, 1, 1]);
        assert_eq!(s.offsets, [0, 3, 6, 8, 10, 11, 12]);
        assert_eq!(s.input[0][..4], [1, 0, 2, 4]);
        assert_eq!([s.split(0, 2), s.split(1, 2)], [0..1, 1..3]);
        assert_eq!(s.split(0, 1), 0..3);
    }

    #[test]
    fn delay_empty_rows_and_look_ahead() {
        let x = [0.0; 6];
        let mut s = Schedule::default();
        s.set(&spec(2, Padding::Null), &Batch::dense(&x, Steps(3), Rows(2)).lengths(&[0, 1]));
        assert_eq!(
            (s.order.as_slice(), s.steps.as_slice()),
            ([1, 0].as_slice(), [3, 0].as_slice())
        );
        assert_eq!(s.input[0], [1, NULL_ROW, NULL_ROW]);
        assert_eq!(s.output[0], [NULL_ROW, NULL_ROW, 1]);
        assert_eq!(s.packed[0], [NULL_ROW, 2, NULL_ROW, NULL_ROW, NULL_ROW, NULL_ROW]);
        assert_eq!((0..3).map(|i| s.split(i, 3).len()).sum::<usize>(), 2);

        s.set(&spec(2, Padding::LookAhead), &Batch::dense(&x, Steps(3), Rows(2)).lengths(&[2, 3]));
        assert_eq!(
            (s.order.as_slice(), s.steps.as_slice()),
            ([1, 0].as_slice(), [3, 0].as_slice())
        );
        assert_eq!(s.outputs, 2);
        assert_eq!(s.output[0], [NULL_ROW, NULL_ROW, 1]);
    }

    #[test]
    fn only_selected_outputs() {
        let x = [0.0; 6];
        let batch = Batch::dense(&x, Steps(3), Rows(2)).lengths(&[1, 3]);
        let mut s = Schedule::default();
        s.set(&spec(0, Padding::Null), &batch.select_outputs(&[0, 5])); // packed: b a | b | b
        assert_eq!(s.outputs, 2);
        assert_eq!(s.packed[0], [1, 3]);
        assert_eq!(s.output[0], [NULL_ROW, 0, NULL_ROW, 1]);
        s.set(&spec(0, Padding::Null), &batch.select_outputs(&[]));
        assert!(s.packed[0].is_empty());
        assert_eq!(s.output[0], [NULL_ROW; 4]);
    }
}
