//! One lane's backward pass: its memory, and the gradients that enter and leave a layer.

use crate::backward::gradient::Gradient;
use crate::backward::outer::{self, OuterWork};
use crate::backward::recur::{Ends, Upstream};
use crate::cpu::buffer::{Buffer, Shared};
use crate::exec::net::Net;
use crate::exec::pass::{Lane, LaneWork};
use crate::exec::wavefront::Wavefront;
use crate::exec::weights::{LayerWeights, Weights};
use crate::kernel::product::{Init, NULL_ROW, Term, Terms};
use crate::model::batch::{Elements, States, cell_state_parts, state_parts};
use crate::prelude::*;
use core::ops::Range;

/// Gradients of the states at both ends of (layer, direction).
#[derive(Default)]
struct EndsWork {
    dh: Buffer,
    carry: Buffer,
    step: Buffer,
    /// Empty without a projection.
    unprojected: Buffer,
}

/// One lane's memory for the backward pass, reused from batch to batch.
pub(crate) struct BackWork {
    /// By layer, then direction.
    ends: Vec<EndsWork>,
    /// Gradient of the table of symbols, by direction: (symbols + 1, columns).
    pub table: [Buffer; 2],
    /// The caller's input slot -> packed row, by direction.
    packed_input: [Vec<u32>; 2],
    /// Where layers run side by side.
    pub waves: Wavefront,
    /// The caller's arrays, for the length of one call.
    pub target: Target,
}

/// Where a call reads and writes: pointers into its [`Gradient`].
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub params: Shared,
    pub input: Option<Shared>,
    pub start: bool,
}

impl Default for BackWork {
    fn default() -> BackWork {
        let target = Target { params: Shared(core::ptr::null_mut()), input: None, start: false };
        let (table, packed_input, waves) = Default::default();
        BackWork { ends: Vec::new(), table, packed_input, waves, target }
    }
}

impl BackWork {
    pub fn bytes(&self) -> usize {
        let ends = self.ends.iter().flat_map(|e| [&e.dh, &e.carry, &e.step, &e.unprojected]);
        let index = self.packed_input.iter().map(|v| v.capacity() * size_of::<u32>());
        ends.chain(&self.table).map(Buffer::bytes).sum::<usize>()
            + index.sum::<usize>()
            + self.waves.bytes()
    }

    pub fn prepare(&mut self, net: &Net, lane: &Lane, work: &LaneWork, gradient: &mut Gradient) {
        self.target = Target {
            params: Shared(gradient.params.as_mut_ptr()),
            input: gradient.input.as_mut().map(|x| Shared(x.as_mut_ptr())),
            start: gradient.start.is_some(),
        };
        let s = &work.schedule;
        let rows = s.rows();
        self.waves.set(net.spec.layers(), s.alive.len(), rows);
        self.ends.resize_with(work.layers.len(), Default::default);
        for (i, ends) in self.ends.iter_mut().enumerate() {
            let (layer, direction) = (i / net.directions(), i % net.directions());
            let (n, hidden) = (net.spec.units()[layer], net.spec.hidden(layer));
            ends.dh.reserve(rows * hidden);
            ends.carry.reserve(rows * n);
            match net.spec.projection() {
                None => ends.step.reserve(rows * hidden),
                Some(_) => {
                    ends.step.reserve(s.total() * hidden);
                    ends.unprojected.reserve(rows * n);
                }
            }
            for (offset, units) in state_parts(net.spec, layer, direction, rows) {
                let dh = gradient.last.map(|l| &l.h[offset..]);
                s.sort_rows(hidden, units, dh, ends.dh.slice_mut(rows * hidden));
            }
            ends.carry.slice_mut(rows * n).fill(0.0);
            for (offset, units) in cell_state_parts(net.spec, layer, direction, rows) {
                let dc = gradient.last.map(|l| &l.c[offset..]);
                s.sort_rows(n, units, dc, ends.carry.slice_mut(rows * n));
            }
        }
        match lane.batch.elements() {
            Elements::Tokens(_) => {
                for table in &mut self.table[..net.directions()] {
                    table.reserve((work.table.symbols.len() + 1) * net.columns(0));
                }
            }
            Elements::Dense(_) if gradient.input.is_some() => {
                for direction in 0..net.directions() {
                    let index = &mut self.packed_input[direction];
                    index.clear();
                    index.resize(lane.batch.steps() * rows, NULL_ROW);
                    for (p, &slot) in s.input[direction].iter().enumerate() {
                        if slot != NULL_ROW {
                            index[slot as usize] = p as u32;
                        }
                    }
                }
            }
            Elements::Dense(_) => {}
        }
    }

    /// The gradient that reaches the states of (layer, direction) from above.
    pub fn upstream<'a>(
        &self,
        net: &Net,
        weights: &'a Weights,
        work: &LaneWork,
        d_outputs: &[f32],
        layer: usize,
        direction: usize,
    ) -> Upstream<'a> {
        let s = &work.schedule;
        let mut terms = Terms::new();
        if layer + 1 < net.spec.layers() {
            for above in 0..net.directions() {
                let place = net.place(layer + 1, above);
                let (gates, weights) = (&work.layers[place].gates, &weights.layers[place]);
                let same = above == direction;
                let index = if same { core::ptr::null() } else { s.mirror.as_ptr() };
                for term in input_terms(net, layer + 1, gates, weights, direction) {
                    terms.push(Term { index, ..term });
                }
            }
            return Upstream::Whole { init: Init::Zero, terms };
        }
        let m = net.spec.output_width();
        let mut term = Term::rows(d_outputs.as_ptr(), m, m, core::ptr::null());
        (term.index, term.zeros) = (s.output[direction].as_ptr(), work.zeros.ptr());
        if net.spec.blocks().is_some() {
            let outputs = net.spec.output_units();
            return Upstream::ByGroup { d_outputs: term, output: &weights.output, outputs };
        }
        let mut init = Init::Zero;
        match weights.output.get(direction) {
            Some(w) => terms.push(Term { w: w.ptr(), ..term }),
            None => {
                let from = d_outputs.as_ptr().wrapping_add(direction * m / net.directions());
                init = Init::Gather { from, stride: m, index: term.index };
            }
        }
        Upstream::Whole { init, terms }
    }

    /// What [`BackWork::upstream`] says of some packed rows, times the factors of dropout, over what
    /// (layer, direction) passed on.
    ///
    /// # Safety
    /// The layer above is done with what was passed on, and nobody else uses these rows.
    pub unsafe fn drop_gradient(
        &self,
        net: &Net,
        weights: &Weights,
        work: &LaneWork,
        d_outputs: &[f32],
        (layer, direction): (usize, usize),
        rows: Range<usize>,
    ) {
        let upstream = self.upstream(net, weights, work, d_outputs, layer, direction);
        // Only networks with blocks have another one, and those have no dropout.
        let Upstream::Whole { init, terms: all } = upstream else { return };
        let n = net.spec.hidden(layer);
        let to = work.layers[net.place(layer, direction)].dropped.shared();
        let mut terms = Terms::new();
        // SAFETY: the caller's rows.
        unsafe {
            all.as_slice().iter().for_each(|term| terms.push(term.at_row(rows.start)));
            let (c, init) = (to.at(rows.start * n), init.at(rows.start, 0));
            net.product(rows.len(), n, c, n, init, terms.as_slice());
            work.apply_factors(net, layer, direction, rows);
        }
    }

    pub fn ends(&self, net: &Net, place: usize, start: bool) -> Ends {
        let ends = &self.ends[place];
        let (dh, carry, step) = (ends.dh.shared(), ends.carry.shared(), ends.step.shared());
        let unprojected = net.spec.projection().map(|_| ends.unprojected.shared());
        Ends { dh, carry, step, unprojected, start }
    }

    /// Where h is projected: the gradient of h of (layer, direction) at every step, by packed row.
    pub fn d_hidden(&self, place: usize) -> Shared {
        self.ends[place].step.shared()
    }

    /// Gradient of some slots of dense input.
    ///
    /// # Safety
    /// The first layer's gates hold their gradients, and nobody else writes these slots.
    pub unsafe fn input(
        &self,
        net: &Net,
        weights: &Weights,
        work: &LaneWork,
        to: Shared,
        slots: Range<usize>,
    ) {
        let q = net.spec.input().width();
        let mut terms = Terms::new();
        for direction in 0..net.directions() {
            let (gates, weights) = (&work.layers[direction].gates, &weights.layers[direction]);
            let index = self.packed_input[direction][slots.start..].as_ptr();
            for term in input_terms(net, 0, gates, weights, 0) {
                terms.push(Term { index, zeros: work.zeros.ptr(), ..term });
            }
        }
        // SAFETY: the caller's promise.
        unsafe {
            net.product(slots.len(), q, to.at(slots.start * q), q, Init::Zero, terms.as_slice())
        }
    }

    /// Gradients of what made the table of symbols: `dW_ih = dtable^T E`, `dE = dtable W_ih`.
    ///
    /// # Safety
    /// The table's gradient is complete, and nobody else uses these two.
    pub unsafe fn embedding(
        &self,
        net: &Net,
        weights: &Weights,
        lane: &Lane,
        work: &LaneWork,
        workspace: &mut OuterWork,
    ) {
        let symbols = &work.table.symbols;
        let (e, columns) = (net.spec.input().width(), net.columns(0));
        let mut terms = Terms::new();
        for direction in 0..net.directions() {
            let table = self.table[direction].slice(symbols.len() * columns);
            // SAFETY: the caller's promise.
            unsafe {
                outer::embedded_input(
                    net,
                    lane,
                    work,
                    direction,
                    table,
                    self.target.params,
                    workspace,
                );
            }
            let weights = &weights.layers[direction];
            for term in input_terms(net, 0, &self.table[direction], weights, 0) {
                terms.push(term);
            }
        }
        let range = net.layout.embedding().unwrap_or_default();
        workspace.sums.reserve(symbols.len() * e);
        let rows = workspace.sums.slice_mut(symbols.len() * e);
        // SAFETY: the embedding's part of the flat gradient; `symbols` rows of every table.
        unsafe {
            net.product(symbols.len(), e, rows.as_mut_ptr(), e, Init::Zero, terms.as_slice());
            let to =
                core::slice::from_raw_parts_mut(self.target.params.at(range.start), range.len());
            to.fill(0.0);
            for (row, &symbol) in rows.chunks_exact(e).zip(symbols) {
                to[symbol as usize * e..][..e].copy_from_slice(row);
            }
        }
    }

    /// Gradient of the start states, in the caller's order.
    pub fn start(&self, net: &Net, work: &LaneWork, to: &mut States) {
        let s = &work.schedule;
        for (i, ends) in self.ends.iter().enumerate() {
            let (layer, direction) = (i / net.directions(), i % net.directions());
            let parts = state_parts(net.spec, layer, direction, s.rows());
            s.unsort_rows(parts, net.spec.hidden(layer), |r| r, &ends.dh, &mut to.h);
            let parts = cell_state_parts(net.spec, layer, direction, s.rows());
            s.unsort_rows(parts, net.spec.units()[layer], |r| r, &ends.carry, &mut to.c);
        }
    }
}

/// Terms `G W_ih` of a layer for one part of its input: G are gradients of its gates, (.., columns).
fn input_terms(
    net: &Net,
    layer: usize,
    g: &Buffer,
    weights: &LayerWeights,
    part: usize,
) -> impl Iterator<Item = Term> {
    let (columns, g) = (net.columns(layer), g.ptr());
    let backward_groups = net.layout.wiring(layer).input_backward_groups.iter().enumerate();
    backward_groups.filter_map(move |(at, group)| {
        let w = weights.x(at).get(part)?;
        let g = g.wrapping_add(group.columns.start);
        Some(Term::rows(g, columns, group.columns.len(), w.ptr()))
    })
}
