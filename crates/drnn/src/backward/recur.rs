//! A recurrence's backward pass, step by step.
//!
//! ```text
//! dh_t = upstream_t + dgates_{t+1} W_hh                 then the cell's arithmetic -> dgates_t
//! ```
//!
//! Threads share rows, or the columns of each step, just as in the forward pass. Where a GRU's reset gate
//! stands before the product, a step has two halves here too: `d(r h) = dn W_hn`, then the gate. Where h is
//! projected, the cell's arithmetic begins with `dh_t W_hr`.

use crate::cpu::buffer::Shared;
use crate::cpu::team::Member;
use crate::exec::recur::{Recurrence, meet, own_units, wait};
use crate::exec::weights::{LayerWeights, Packed};
use crate::kernel::cells::CellBackward;
use crate::kernel::pack::panel_count;
use crate::kernel::product::{Init, Product, Term, Terms};
use crate::model::weight_format::WeightFormat;
use crate::spec::Cell;
use crate::spec::wiring::BackwardGroup;
use core::ops::Range;

/// The gradient that reaches a layer's states from above, by packed row.
#[allow(clippy::large_enum_variant, reason = "made once per recurrence, on the stack")]
pub(crate) enum Upstream<'a> {
    /// All units alike: from the layer above, or from the outputs.
    Whole { init: Init, terms: Terms },
    /// Group by group, from the outputs' gradients (.., m): through the output layer, whose matrices are
    /// packed so, or to the units that are the outputs.
    ByGroup { d_outputs: Term, output: &'a [Packed], outputs: Range<usize> },
}

impl Upstream<'_> {
    /// From above, computed beforehand: rows of n floats by packed row.
    pub fn made(from: *const f32, n: usize) -> Upstream<'static> {
        Upstream::Whole { init: Init::Rows { from, stride: n }, terms: Terms::new() }
    }

    /// What reaches the units of a group, from packed row `row` on.
    ///
    /// # Safety
    /// There are such rows.
    unsafe fn to(&self, number: usize, group: &BackwardGroup, row: usize) -> (Init, Terms) {
        let mut to = Terms::new();
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Upstream::Whole { init, terms } => {
                    terms.as_slice().iter().for_each(|term| to.push(term.at_row(row)));
                    (init.at(row, 0), to)
                }
                Upstream::ByGroup { outputs, .. } if meet(&group.units, outputs).is_empty() => {
                    (Init::Zero, to)
                }
                Upstream::ByGroup { d_outputs, output: [], .. } => {
                    let (from, stride) = (d_outputs.a, d_outputs.row_stride);
                    (Init::Gather { from, stride, index: d_outputs.index.add(row) }, to)
                }
                Upstream::ByGroup { d_outputs, output, .. } => {
                    to.push(Term { w: output[number].ptr(), ..d_outputs.at_row(row) });
                    (Init::Zero, to)
                }
            }
        }
    }
}

// SAFETY: read only.
unsafe impl Send for Upstream<'_> {}
// SAFETY: as above.
unsafe impl Sync for Upstream<'_> {}

/// Gradients of the states at both ends, by sorted row, and a workspace. Of h each is (B, hidden), of c
/// (B, n).
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    /// In: gradient of the last h. Out: of the start h. Between: what waits for units that do not run.
    pub dh: Shared,
    /// In: gradient of the last c (LSTM), zeros (GRU). Out: of the start c (LSTM).
    pub carry: Shared,
    /// Memory for the gradient of h at the current step; where h is projected, at every step, by packed row
    /// (N, hidden).
    pub step: Shared,
    /// Where h is projected: the gradient of what it is made of, (B, n).
    pub unprojected: Option<Shared>,
    /// Whether the gradient of the start state is wanted.
    pub start: bool,
}

/// What the backward pass reads in addition to the recurrence's own memory.
#[derive(Clone, Copy)]
pub(crate) struct BackwardArgs<'a> {
    /// Packed [`crate::exec::weights::Way::Backward`].
    pub weights: &'a LayerWeights,
    pub upstream: &'a Upstream<'a>,
    pub ends: Ends,
}

impl Recurrence<'_> {
    /// Takes sorted rows back through steps `steps`, those after being done, and leaves gradients of the
    /// pre-activations in `gates`, and calls `after_step` with each completed step.
    ///
    /// # Safety
    /// As [`Recurrence::forward_rows`], after a forward pass with `save`.
    pub unsafe fn backward_rows(
        &self,
        args: BackwardArgs,
        rows: Range<usize>,
        steps: Range<usize>,
        after_step: &mut dyn FnMut(usize),
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.backward(args, rows, steps, None, after_step) }
    }

    /// Takes all rows back, together with the other members of a parallel region.
    ///
    /// # Safety
    /// As [`Recurrence::forward_parallel`], after a forward pass with `save`.
    pub unsafe fn backward_parallel(&self, args: BackwardArgs, member: &Member) {
        let (rows, steps) = (0..self.schedule.rows(), self.steps());
        // SAFETY: the caller's promise.
        unsafe { self.backward(args, rows, steps, Some(member), &mut |_| {}) }
    }

    unsafe fn backward(
        &self,
        args: BackwardArgs,
        rows: Range<usize>,
        steps: Range<usize>,
        member: Option<&Member>,
        after_step: &mut dyn FnMut(usize),
    ) {
        let (hidden, ends) = (self.hidden, args.ends);
        let units = own_units(self.n, self.kernels.width, member);
        let hidden_units = own_units(hidden, self.kernels.width, member);
        for t in steps.clone().rev() {
            let running = self.running(t, &rows);
            if running.is_empty() {
                continue;
            }
            let going_on = self.running(t + 1, &rows);
            let ending = going_on.end..running.end;
            // SAFETY: rows of this step, which nobody else has; barriers separate what members write
            // from who reads it.
            unsafe {
                let step = match ends.unprojected {
                    None => ends.step,
                    Some(_) => Shared(ends.step.at(self.schedule.offsets[t] * hidden)),
                };
                self.state_gradient(args, t + 1, step, going_on, member);
                self.state_gradient(args, t + 1, step, ending.clone(), member);
                wait(member);
                if self.hold.is_none() {
                    move_all(ends.dh, step, ending, hidden_units.clone(), hidden);
                }
                let dh = match ends.unprojected {
                    None => step,
                    Some(to) => {
                        wait(member);
                        self.unproject(args.weights, step, to, running.clone(), member);
                        wait(member);
                        to
                    }
                };
                self.each_live(t, running.clone(), |rows, live| {
                    let live = meet(&units, &live);
                    if self.hold.is_some() {
                        move_all(ends.dh, step, rows.clone(), live.clone(), hidden);
                        for held in [units.start..live.start, live.end..units.end] {
                            move_all(step, ends.dh, rows.clone(), held.clone(), hidden);
                            self.clear_gates(t, rows.clone(), held);
                        }
                    }
                    let operands = self.operands_back(t, rows, live, dh, ends.carry);
                    self.kernels.backward(self.cell)(&operands);
                });
                wait(member);
                if !self.wiring.candidates.is_empty() {
                    self.gated_state_gradient(args, t, running.clone(), member);
                    wait(member);
                    let operands = self.operands_back(t, running, units.clone(), dh, ends.carry);
                    (self.kernels.reset_back)(&operands);
                    wait(member);
                }
            }
            after_step(t);
        }
        let started = self.running(0, &rows);
        if steps.start == 0 && ends.start && !started.is_empty() {
            // SAFETY: as above.
            unsafe {
                self.state_gradient(args, 0, ends.dh, started.clone(), member);
                wait(member);
                if self.cell.is_gru() {
                    move_all(ends.carry, ends.dh, started, units, hidden);
                }
            }
        }
    }

    /// What a cell's backward arithmetic works on: some units of some sorted rows at step t.
    unsafe fn operands_back(
        &self,
        t: usize,
        rows: Range<usize>,
        units: Range<usize>,
        dh: Shared,
        carry: Shared,
    ) -> CellBackward {
        let n = self.n;
        let (before, after) = self.schedule.around(t, rows.start);
        let gates = self.schedule.offsets[t] + rows.start;
        // SAFETY: the caller's rows and units.
        unsafe {
            CellBackward {
                rows: rows.len(),
                units: n,
                from: units.start,
                to: units.end,
                gates: self.gates.at(gates * self.columns()),
                h_prev: self.h.at(before * self.hidden),
                h: self.h.at(after * self.hidden),
                c_prev: self.c.0.wrapping_add(before * n),
                c: self.c.0.wrapping_add(after * n),
                dh: dh.at(rows.start * n),
                carry: carry.at(rows.start * n),
            }
        }
    }

    /// `to = dh W_hr` for sorted rows.
    unsafe fn unproject(
        &self,
        weights: &LayerWeights,
        dh: Shared,
        to: Shared,
        rows: Range<usize>,
        member: Option<&Member>,
    ) {
        let (n, hidden) = (self.n, self.hidden);
        let panels = panel_count(n, self.kernels.width);
        // SAFETY: the caller's rows.
        unsafe {
            let dh = dh.at(rows.start * hidden);
            self.kernels.product(&Product {
                rows: rows.len(),
                cols: n,
                panels: member.map_or(0..panels, |m| m.share(panels, 0)),
                backwards: false,
                c: to.at(rows.start * n),
                c_stride: n,
                init: Init::Zero,
                format: WeightFormat::F32,
                terms: &[Term::rows(dh, hidden, hidden, weights.projection().ptr())],
            });
        }
    }

    /// `d(r h) = dn W_hn` for sorted rows at step t, in the memory of the gradient of h, which is used up.
    unsafe fn gated_state_gradient(
        &self,
        args: BackwardArgs,
        t: usize,
        rows: Range<usize>,
        member: Option<&Member>,
    ) {
        let (n, columns) = (self.n, self.columns());
        let row = self.schedule.offsets[t] + rows.start;
        for (number, group) in self.wiring.candidate_backward_groups.iter().enumerate() {
            let mut terms = Terms::new();
            let panels = panel_count(group.units.len(), self.kernels.width);
            // SAFETY: the caller's rows; gates of the candidates hold their gradients.
            unsafe {
                for (cols, from) in &group.from {
                    let a = self.gates.at(row * columns + cols.start);
                    terms.push(Term::rows(a, columns, cols.len(), args.weights.h(from.at).ptr()));
                }
                self.kernels.product(&Product {
                    rows: rows.len(),
                    cols: group.units.len(),
                    panels: member.map_or(0..panels, |m| m.share(panels, number)),
                    backwards: t % 2 == 1,
                    c: args.ends.step.at(rows.start * n + group.units.start),
                    c_stride: n,
                    init: Init::Zero,
                    format: WeightFormat::F32,
                    terms: terms.as_slice(),
                });
            }
        }
    }

    /// Gates of units that did not run have no gradient; but where r has multiplied h before the product,
    /// units that did run may have read it.
    unsafe fn clear_gates(&self, t: usize, rows: Range<usize>, units: Range<usize>) {
        let columns = self.columns();
        let cleared = match self.cell {
            Cell::GruResetBefore => self.n..3 * self.n,
            _ => 0..columns,
        };
        for row in rows {
            for gate in cleared.clone().step_by(self.n) {
                let at = (self.schedule.offsets[t] + row) * columns + gate + units.start;
                // SAFETY: the caller's rows and units.
                unsafe { core::slice::from_raw_parts_mut(self.gates.at(at), units.len()).fill(0.0) }
            }
        }
    }

    /// `to = upstream_t + dgates_{t+1} W_hh` for sorted rows, t + 1 being `next`: the second summand for
    /// rows that run at the next step, and in place of the first, before the first step, `to` itself.
    unsafe fn state_gradient(
        &self,
        args: BackwardArgs,
        next: usize,
        to: Shared,
        rows: Range<usize>,
        member: Option<&Member>,
    ) {
        if rows.is_empty() {
            return;
        }
        let (n, columns) = (self.hidden, self.columns());
        let runs_on = !self.running(next, &rows).is_empty();
        for (number, group) in self.wiring.backward_groups.iter().enumerate() {
            // SAFETY: the caller's rows; gates of step `next` are done.
            unsafe {
                let c = to.at(rows.start * n + group.units.start);
                let (init, mut terms) = match next {
                    0 => (Init::Rows { from: c, stride: n }, Terms::new()),
                    _ => {
                        let packed = self.schedule.offsets[next - 1] + rows.start;
                        args.upstream.to(number, group, packed)
                    }
                };
                if runs_on {
                    let row = self.schedule.offsets[next] + rows.start;
                    for (cols, from) in &group.from {
                        let a = self.gates.at(row * columns + cols.start);
                        let w = args.weights.h(from.at).ptr();
                        terms.push(Term::rows(a, columns, cols.len(), w));
                    }
                }
                let panels = panel_count(group.units.len(), self.kernels.width);
                self.kernels.product(&Product {
                    rows: rows.len(),
                    cols: group.units.len(),
                    panels: member.map_or(0..panels, |m| m.share(panels, number)),
                    backwards: next % 2 == 1,
                    c,
                    c_stride: n,
                    init,
                    format: WeightFormat::F32,
                    terms: terms.as_slice(),
                });
            }
        }
    }
}

/// `to += from`, `from = 0` for some units of some rows of n floats.
///
/// # Safety
/// Both have these rows, and nobody else uses these units of them.
unsafe fn move_all(from: Shared, to: Shared, rows: Range<usize>, units: Range<usize>, n: usize) {
    for row in rows {
        for i in row * n + units.start..row * n + units.end {
            // SAFETY: the caller's promise.
            unsafe { *to.at(i) += core::mem::take(&mut *from.at(i)) }
        }
    }
}
