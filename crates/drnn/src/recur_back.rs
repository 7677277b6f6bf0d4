//! A recurrence's way back, step by step.
//!
//! ```text
//! dh_t = upstream_t + dgates_{t+1} W_hh                 then the cell's arithmetic -> dgates_t
//! ```
//!
//! Threads share rows, or the columns of each step, just as on the way forward.

use crate::buffer::Shared;
use crate::kernel::cells::CellBackward;
use crate::kernel::pack::panel_count;
use crate::kernel::product::{Init, Product, Term, Terms};
use crate::recur::{Recurrence, own_units, wait};
use crate::spec::Cell;
use crate::team::Member;
use crate::weights::{Group, LayerWeights};
use std::ops::Range;

/// The gradient that reaches a layer's states from above, by packed row.
pub(crate) struct Upstream {
    pub init: Init,
    pub terms: Terms,
}

// SAFETY: read only.
unsafe impl Send for Upstream {}
// SAFETY: as above.
unsafe impl Sync for Upstream {}

/// Gradients of the states at both ends, by sorted row, and room to work. Each (B, n).
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    /// In: gradient of the last h. Out: of the start h.
    pub dh: Shared,
    /// In: gradient of the last c (LSTM), zeros (GRU). Out: of the start c (LSTM).
    pub carry: Shared,
    /// Room for the gradient of h at the current step.
    pub step: Shared,
    /// Whether the gradient of the start state is wanted.
    pub start: bool,
}

/// What the way back reads beside the recurrence's own memory.
#[derive(Clone, Copy)]
pub(crate) struct WayBack<'a> {
    /// Packed [`crate::weights::Way::Backward`].
    pub weights: &'a LayerWeights,
    pub upstream: &'a Upstream,
    pub ends: Ends,
}

impl Recurrence<'_> {
    /// Takes sorted rows back through all steps and leaves gradients of the pre-activations in
    /// `gates`, telling `after_step` which step is done.
    ///
    /// # Safety
    /// As [`Recurrence::forward_rows`], after a forward pass with `keep`.
    pub unsafe fn backward_rows(
        &self,
        way: WayBack,
        rows: Range<usize>,
        after_step: &mut dyn FnMut(usize),
    ) {
        // SAFETY: the caller's promise.
        unsafe { self.backward(way, rows, None, after_step) }
    }

    /// Takes all rows back, together with the other members of a gang.
    ///
    /// # Safety
    /// As [`Recurrence::forward_gang`], after a forward pass with `keep`.
    pub unsafe fn backward_gang(&self, way: WayBack, member: &Member) {
        // SAFETY: the caller's promise.
        unsafe { self.backward(way, 0..self.schedule.rows(), Some(member), &mut |_| {}) }
    }

    unsafe fn backward(
        &self,
        way: WayBack,
        rows: Range<usize>,
        member: Option<&Member>,
        after_step: &mut dyn FnMut(usize),
    ) {
        let (n, ends) = (self.n, way.ends);
        let units = own_units(n, self.kernels.width, member);
        for t in (0..self.schedule.alive.len()).rev() {
            let running = self.running(t, &rows);
            if running.is_empty() {
                continue;
            }
            let going_on = self.running(t + 1, &rows);
            let ending = going_on.end..running.end;
            let (before, after) = self.schedule.around(t, running.start);
            let gates = self.schedule.offsets[t] + running.start;
            // SAFETY: rows of this step, which nobody else has; barriers separate what members write
            // from who reads it.
            unsafe {
                self.state_gradient(way, t + 1, ends.step, going_on, member);
                self.state_gradient(way, t + 1, ends.step, ending.clone(), member);
                wait(member);
                add(ends.step, ends.dh, ending, units.clone(), n);
                self.kernels.backward(self.cell)(&CellBackward {
                    rows: running.len(),
                    units: n,
                    from: units.start,
                    to: units.end,
                    gates: self.gates.at(gates * self.columns()),
                    h_prev: self.h.at(before * n),
                    h: self.h.at(after * n),
                    c_prev: self.c.0.wrapping_add(before * n),
                    c: self.c.0.wrapping_add(after * n),
                    dh: ends.step.at(running.start * n),
                    carry: ends.carry.at(running.start * n),
                });
                wait(member);
            }
            after_step(t);
        }
        let started = self.running(0, &rows);
        if ends.start && !started.is_empty() {
            // SAFETY: as above.
            unsafe {
                self.state_gradient(way, 0, ends.dh, started.clone(), member);
                wait(member);
                if self.cell == Cell::Gru {
                    add(ends.dh, ends.carry, started, units, n);
                }
            }
        }
    }

    /// `to = upstream_t + dgates_{t+1} W_hh` for sorted rows, t + 1 being `next`: the first summand
    /// where there is such a step t, the second for rows that run at the next.
    unsafe fn state_gradient(
        &self,
        way: WayBack,
        next: usize,
        to: Shared,
        rows: Range<usize>,
        member: Option<&Member>,
    ) {
        if rows.is_empty() {
            return;
        }
        let (n, columns) = (self.n, self.columns());
        // SAFETY: the caller's rows; gates of step `next` are done.
        unsafe {
            let (mut terms, mut init) = (Terms::new(), Init::Zero);
            if next > 0 {
                let packed = self.schedule.offsets[next - 1] + rows.start;
                init = way.upstream.init.at(packed, 0);
                for term in way.upstream.terms.as_slice() {
                    terms.push(term.at_row(packed));
                }
            }
            if !self.running(next, &rows).is_empty() {
                let row = self.schedule.offsets[next] + rows.start;
                for (group, matrices) in Group::of(self.cell).iter().zip(&way.weights.groups) {
                    if let Some(w) = &matrices.h {
                        let cols = group.columns(n);
                        let a = self.gates.at(row * columns + cols.start);
                        terms.push(Term::rows(a, columns, cols.len(), w.ptr()));
                    }
                }
            }
            let panels = panel_count(n, self.kernels.width);
            (self.kernels.product)(&Product {
                rows: rows.len(),
                cols: n,
                panels: member.map_or(0..panels, |m| m.share(panels)),
                backwards: next % 2 == 1,
                c: to.at(rows.start * n),
                c_stride: n,
                init,
                terms: terms.as_slice(),
            });
        }
    }
}

/// `to += from` for some units of some rows of n floats.
///
/// # Safety
/// Both have these rows, and nobody else uses these units of them.
unsafe fn add(to: Shared, from: Shared, rows: Range<usize>, units: Range<usize>, n: usize) {
    for row in rows {
        for i in row * n + units.start..row * n + units.end {
            // SAFETY: the caller's promise.
            unsafe { *to.at(i) += *from.at(i) }
        }
    }
}
