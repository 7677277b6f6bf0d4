//! The recurrence: one direction of one layer, step by step. Its backward pass is in
//! [`crate::backward::recur`].
//!
//! ```text
//! gates_t = bias + x_t W_ih^T + h_{t-1} W_hh^T          then the cell's arithmetic -> h_t, c_t
//! ```
//!
//! A GRU with its reset gate before the product takes a step in two halves: r first, then the product of
//! `r h_{t-1}`, which is added to the candidate. Where an LSTM's h is projected, the cell writes what is not
//! yet projected, and the step ends with the product that makes h of it.
//!
//! Rows are independent of each other, so a thread takes some of them through all steps and never
//! waits. Where there are too few rows for that, all threads share the columns of each step instead
//! (a parallel region, two barriers a step). Either way every number comes out the same.

use crate::cpu::buffer::Shared;
use crate::cpu::team::{Member, share_vectors};
use crate::exec::schedule::Schedule;
use crate::exec::wavefront::Hold;
use crate::exec::weights::LayerWeights;
use crate::kernel::cells::CellForward;
use crate::kernel::dispatch::Kernels;
use crate::kernel::pack::panel_count;
use crate::kernel::product::{Init, Product, Term, Terms};
use crate::spec::Cell;
use crate::spec::wiring::{Candidate, Wiring, columns};
use core::ops::Range;

/// Packed rows whose x is multiplied at once where a step alone has too few rows to be efficient.
pub(crate) const HOIST: usize = 96;

/// Where a layer's input comes from, by packed row.
#[derive(Clone, Copy)]
pub(crate) enum Feed<'a> {
    /// `bias + x W_ih^T` was made beforehand, a row per symbol; the index names each row's symbol.
    Table { table: *const f32, index: &'a [u32] },
    /// x itself, in one part or two side by side.
    Rows(&'a [FeedPart]),
}

/// A part of x: rows of `width` floats, in packed order or through an index.
#[derive(Clone, Copy)]
pub(crate) struct FeedPart {
    pub x: *const f32,
    pub width: usize,
    /// Null: packed order.
    pub index: *const u32,
    /// `width` zeros, read where the index says so.
    pub zeros: *const f32,
}

impl FeedPart {
    /// A place to fill.
    pub const NONE: FeedPart = FeedPart {
        x: core::ptr::null(),
        width: 0,
        index: core::ptr::null(),
        zeros: core::ptr::null(),
    };

    /// `x W`, with W packed; null where only rows are requested.
    pub fn term(&self, w: *const f32) -> Term {
        let term = Term::rows(self.x, self.width, self.width, w);
        Term { index: self.index, zeros: self.zeros, ..term }
    }
}

/// What a recurrence works on. All memory is the caller's.
#[derive(Clone, Copy)]
pub(crate) struct Recurrence<'a> {
    pub kernels: &'static Kernels,
    pub cell: Cell,
    /// Units.
    pub n: usize,
    /// Width of h: n, or what it is projected to.
    pub hidden: usize,
    pub wiring: &'a Wiring,
    /// Where blocks of units begin and end one after another.
    pub hold: Option<Hold<'a>>,
    pub schedule: &'a Schedule,
    /// (B + N, hidden): the start states, then the states by packed row.
    pub h: Shared,
    /// Where h is projected: what it is made of, by packed row if `save`, (N, n); else (B, n).
    pub unprojected: Option<Shared>,
    /// (B + N, n) if `save`; else (B, n), replaced at every step. LSTM only.
    pub c: Shared,
    /// (N, columns) if `save`; else ([`Recurrence::scratch_rows`], columns).
    pub gates: Shared,
    /// Whether gates and cell states are saved for a backward pass.
    pub save: bool,
}

// SAFETY: the pointers inside are used on rows (or columns) that no other thread has.
unsafe impl Send for Recurrence<'_> {}
// SAFETY: as above.
unsafe impl Sync for Recurrence<'_> {}
// SAFETY: read only.
unsafe impl Send for Feed<'_> {}
// SAFETY: read only.
unsafe impl Sync for Feed<'_> {}

impl<'a> Recurrence<'a> {
    /// Rows of `gates` that a pass without `save` needs for `rows` sequences.
    pub fn scratch_rows(rows: usize) -> usize {
        rows + HOIST
    }

    pub fn columns(&self) -> usize {
        columns(self.cell, self.n)
    }

    /// Rows of `rows` that run at step t.
    pub fn running(&self, t: usize, rows: &Range<usize>) -> Range<usize> {
        let alive = self.schedule.alive.get(t).copied().unwrap_or(0);
        rows.start..rows.end.min(alive).max(rows.start)
    }

    /// Takes sorted rows `rows` through steps `steps`; those before are done.
    ///
    /// # Safety
    /// The memory is as the fields say, and nobody else uses these rows meanwhile.
    pub unsafe fn forward_rows(
        &self,
        weights: &LayerWeights,
        feed: Feed,
        rows: Range<usize>,
        steps: Range<usize>,
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.forward(weights, feed, rows, steps, None) }
    }

    /// All steps.
    pub fn steps(&self) -> Range<usize> {
        0..self.schedule.alive.len()
    }

    /// Takes all rows through all steps, together with the other members of a parallel region.
    ///
    /// # Safety
    /// The memory is as the fields say, and only its members use it meanwhile.
    pub unsafe fn forward_parallel(&self, weights: &LayerWeights, feed: Feed, member: &Member) {
        // SAFETY: the caller's promise.
        unsafe { self.forward(weights, feed, 0..self.schedule.rows(), self.steps(), Some(member)) }
    }

    unsafe fn forward(
        &self,
        weights: &LayerWeights,
        feed: Feed,
        rows: Range<usize>,
        steps: Range<usize>,
        member: Option<&Member>,
    ) {
        let s = self.schedule;
        // Only whole steps are neighbours in packed order. With one step at a time there is nothing to gain.
        let hoist = matches!(feed, Feed::Rows(_))
            && rows == (0..s.rows())
            && 2 * rows.len() <= HOIST
            && (rows.len() < self.kernels.rows || member.is_some());
        let mut t = steps.start;
        while t < steps.end && !self.running(t, &rows).is_empty() {
            let mut end = t + 1;
            if hoist {
                while end < steps.end && s.offsets[end + 1] - s.offsets[t] <= HOIST {
                    end += 1;
                }
            }
            // Packed row that the first row of the gates' memory stands for. Without `save` a step's
            // rows lie at their sorted numbers, so threads at different steps never meet.
            let base = if self.save { 0 } else { s.offsets[t] };
            // SAFETY: the caller's promise; barriers separate what members write from who reads it.
            unsafe {
                if hoist {
                    let packed = s.offsets[t]..s.offsets[end];
                    self.products(weights, feed, packed, base, Stage::Input, member);
                    wait(member);
                }
                for t in t..end {
                    let running = self.running(t, &rows);
                    let first = s.offsets[t] + running.start;
                    let packed = first..first + running.len();
                    let h = self.h.at(self.schedule.before(t, running.start) * self.hidden);
                    let stage = if hoist { Stage::Recurrent(t, h) } else { Stage::Both(t, h) };
                    self.products(weights, feed, packed.clone(), base, stage, member);
                    wait(member);
                    if !self.wiring.candidates.is_empty() {
                        self.reset(t, running.clone(), base, member);
                        wait(member);
                        self.candidates(weights, packed, base, t, member);
                        wait(member);
                    }
                    self.cell_step(t, running.clone(), base, member);
                    wait(member);
                    if self.unprojected.is_some() {
                        self.project(weights, t, running, member);
                        wait(member);
                    }
                }
            }
            t = end;
        }
    }

    /// `gates = init + x W_ih^T + h W_hh^T` for some packed rows, or one of the two halves.
    unsafe fn products(
        &self,
        weights: &LayerWeights,
        feed: Feed,
        packed: Range<usize>,
        base: usize,
        stage: Stage,
        member: Option<&Member>,
    ) {
        let (columns, width) = (self.columns(), self.kernels.width);
        let (from_x, recurrent) = match stage {
            Stage::Both(t, h) => (true, Some((t, h))),
            Stage::Input => (true, None),
            Stage::Recurrent(t, h) => (false, Some((t, h))),
        };
        for (number, group) in self.wiring.groups.iter().enumerate() {
            let h_term = recurrent.zip(group.h.as_ref());
            let due = match stage {
                Stage::Both(..) => true,
                Stage::Input => group.x.is_some(),
                // What x feeds and h does not is complete.
                Stage::Recurrent(..) => h_term.is_some() || group.x.is_none(),
            };
            if !due {
                continue;
            }
            let cols = group.columns.clone();
            // SAFETY: offsets stay within the rows and columns that the caller's memory has.
            unsafe {
                let c = self.gates.at((packed.start - base) * columns + cols.start);
                let mut terms = Terms::new();
                let init = match feed {
                    Feed::Table { table, index } => {
                        let from =
                            Init::Gather { from: table, stride: columns, index: index.as_ptr() };
                        from.at(packed.start, cols.start)
                    }
                    Feed::Rows(parts) => {
                        if let (true, Some(at)) = (from_x, group.x) {
                            for (part, w) in parts.iter().zip(weights.x(at)) {
                                terms.push(part.term(w.ptr()).at_row(packed.start));
                            }
                        }
                        if !from_x && group.x.is_some() {
                            Init::Rows { from: c, stride: columns }
                        } else {
                            Init::Rows { from: weights.bias.ptr().add(cols.start), stride: 0 }
                        }
                    }
                };
                if let Some(((_, h), rows)) = h_term {
                    let (h, w) = (h.add(rows.units.start), weights.h(rows.at));
                    terms.push(Term::rows(h, self.hidden, rows.units.len(), w.ptr()));
                }
                let panels = panel_count(cols.len(), width);
                self.kernels.product(&Product {
                    rows: packed.len(),
                    cols: cols.len(),
                    panels: member.map_or(0..panels, |m| m.share(panels, number)),
                    backwards: recurrent.is_some_and(|(t, _)| t % 2 == 1),
                    c,
                    c_stride: columns,
                    init,
                    format: weights.format,
                    terms: terms.as_slice(),
                });
            }
        }
    }

    /// `r h` of all units of some sorted rows, of those that do not run too: others may read them.
    unsafe fn reset(&self, t: usize, rows: Range<usize>, base: usize, member: Option<&Member>) {
        let own = own_units(self.n, self.kernels.width, member);
        // SAFETY: rows of this step and units of this member, which nobody else has.
        unsafe { (self.kernels.reset)(&self.cell_operands(t, rows, base, own)) }
    }

    /// Adds `r h W_hn^T` to the candidates of some packed rows.
    unsafe fn candidates(
        &self,
        weights: &LayerWeights,
        packed: Range<usize>,
        base: usize,
        t: usize,
        member: Option<&Member>,
    ) {
        let (n, columns, width) = (self.n, self.columns(), self.kernels.width);
        for (number, Candidate { columns: cols, h }) in self.wiring.candidates.iter().enumerate() {
            // SAFETY: offsets stay within the rows and columns that the caller's memory has.
            unsafe {
                let row = self.gates.at((packed.start - base) * columns);
                let c = row.add(cols.start);
                let gated = row.add(columns - n + h.units.start);
                let w = weights.h(h.at).ptr();
                let panels = panel_count(cols.len(), width);
                self.kernels.product(&Product {
                    rows: packed.len(),
                    cols: cols.len(),
                    panels: member.map_or(0..panels, |m| m.share(panels, number)),
                    backwards: t % 2 == 1,
                    c,
                    c_stride: columns,
                    init: Init::Rows { from: c, stride: columns },
                    format: weights.format,
                    terms: &[Term::rows(gated, columns, h.units.len(), w)],
                });
            }
        }
    }

    /// The cell's arithmetic for some sorted rows; units that do not run keep their state.
    unsafe fn cell_step(&self, t: usize, rows: Range<usize>, base: usize, member: Option<&Member>) {
        let own = own_units(self.n, self.kernels.width, member);
        // SAFETY: rows of this step and units of this member, which nobody else has.
        unsafe {
            self.each_live(t, rows, |rows, live| {
                let units = meet(&own, &live);
                self.cells(t, rows.clone(), base, units.clone());
                self.hold_state(t, rows.clone(), own.start..units.start.min(own.end));
                self.hold_state(t, rows, units.end.max(own.start)..own.end);
            });
        }
    }

    /// Calls `f` with stretches of rows and the units that run at step t in all of them.
    pub fn each_live(
        &self,
        t: usize,
        rows: Range<usize>,
        mut f: impl FnMut(Range<usize>, Range<usize>),
    ) {
        let Some(hold) = &self.hold else {
            return f(rows, 0..self.n);
        };
        let live = |row: usize| hold.live(t, Some(self.schedule.steps[row]));
        let mut first = rows.start;
        while first < rows.end {
            let units = live(first);
            let end = (first + 1..rows.end).find(|&row| live(row) != units).unwrap_or(rows.end);
            f(first..end, units);
            first = end;
        }
    }

    unsafe fn cells(&self, t: usize, rows: Range<usize>, base: usize, units: Range<usize>) {
        // SAFETY: rows of this step, which nobody else has; c is not touched without a cell state.
        unsafe { self.kernels.forward(self.cell)(&self.cell_operands(t, rows, base, units)) }
    }

    /// What a cell's arithmetic works on: some units of some sorted rows at step t.
    ///
    /// # Safety
    /// The rows run at step t, and `base` is where the memory of the gates begins.
    unsafe fn cell_operands(
        &self,
        t: usize,
        rows: Range<usize>,
        base: usize,
        units: Range<usize>,
    ) -> CellForward {
        let n = self.n;
        let gates = self.schedule.offsets[t] + rows.start - base;
        let (before, after) = self.schedule.around(t, rows.start);
        let (c_prev, c) = if self.save { (before, after) } else { (rows.start, rows.start) };
        let (h, h_row) = match self.unprojected {
            None => (self.h, after),
            Some(unprojected) => (unprojected, self.unprojected_row(t, rows.start)),
        };
        // SAFETY: within the memory of gates and states, by the caller's promise.
        unsafe {
            CellForward {
                rows: rows.len(),
                units: n,
                from: units.start,
                to: units.end,
                gates: self.gates.at(gates * self.columns()),
                save: self.save,
                h_prev: self.h.at(before * self.hidden),
                c_prev: self.c.0.wrapping_add(c_prev * n),
                c: self.c.0.wrapping_add(c * n),
                h: h.at(h_row * n),
            }
        }
    }

    /// Where the unprojected state of a sorted row lies at step t.
    pub fn unprojected_row(&self, t: usize, row: usize) -> usize {
        if self.save { self.schedule.offsets[t] + row } else { row }
    }

    /// `h = (o tanh(c)) W_hr^T` of some sorted rows.
    unsafe fn project(
        &self,
        weights: &LayerWeights,
        t: usize,
        rows: Range<usize>,
        member: Option<&Member>,
    ) {
        let Some(from) = self.unprojected else { return };
        let (n, hidden) = (self.n, self.hidden);
        let (_, after) = self.schedule.around(t, rows.start);
        let panels = panel_count(hidden, self.kernels.width);
        // SAFETY: rows of this step, which nobody else has, and columns of this member.
        unsafe {
            let from = from.at(self.unprojected_row(t, rows.start) * n);
            self.kernels.product(&Product {
                rows: rows.len(),
                cols: hidden,
                panels: member.map_or(0..panels, |m| m.share(panels, 0)),
                backwards: t % 2 == 1,
                c: self.h.at(after * hidden),
                c_stride: hidden,
                init: Init::Zero,
                format: weights.format,
                terms: &[Term::rows(from, n, n, weights.projection().ptr())],
            });
        }
    }

    /// Units that do not run at step t have the same state after it as before.
    unsafe fn hold_state(&self, t: usize, rows: Range<usize>, units: Range<usize>) {
        if units.is_empty() {
            return;
        }
        for row in rows {
            let (before, after) = self.schedule.around(t, row);
            let (from, to) = (before * self.n + units.start, after * self.n + units.start);
            // SAFETY: states of this row before and after, which are apart.
            unsafe {
                core::ptr::copy_nonoverlapping(self.h.at(from), self.h.at(to), units.len());
                if self.save && self.cell.has_cell_state() {
                    core::ptr::copy_nonoverlapping(self.c.at(from), self.c.at(to), units.len());
                }
            }
        }
    }
}

/// Which products of a step are due; where the recurrent one is, the step and the states before it.
#[derive(Clone, Copy)]
enum Stage {
    Both(usize, *const f32),
    Input,
    Recurrent(usize, *const f32),
}

/// The units of a layer that a member of a parallel region computes, whole vectors; all where there is none.
pub(crate) fn own_units(n: usize, width: usize, member: Option<&Member>) -> Range<usize> {
    member.map_or(0..n, |m| share_vectors(n, width, m.index, m.count))
}

/// The units of both; where there are none, an empty range within the first.
pub(crate) fn meet(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    let start = a.start.max(b.start).min(a.end);
    start..a.end.min(b.end).max(start)
}

pub(crate) fn wait(member: Option<&Member>) {
    if let Some(member) = member {
        member.wait();
    }
}
