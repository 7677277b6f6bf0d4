//! The arithmetic of one step of live sequences: products, cells, outputs.

use crate::cpu::team::Member;
use crate::exec::net::Net;
use crate::exec::params::Params;
use crate::exec::recur::{meet, own_units, wait};
use crate::exec::wavefront::Hold;
use crate::kernel::cells::CellForward;
use crate::kernel::pack::panel_count;
use crate::kernel::product::{Init, Product, Term, Terms};
use crate::model::Model;
use crate::spec::InputSpec;
use crate::spec::wiring::Candidate;
use crate::stream::step::Steps;
use core::ops::Range;

impl Steps {
    /// # Safety
    /// Nobody else has these rows of the step, but for the other members of a parallel region, and no slot
    /// appears twice.
    pub(super) unsafe fn run_rows(
        &self,
        net: &Net,
        model: &Model,
        rows: Range<usize>,
        member: Option<&Member>,
    ) {
        for layer in 0..net.spec.layers() {
            // SAFETY: the caller's promise; barriers separate what members write from who reads it.
            unsafe {
                self.products(net, model, layer, &rows, member);
                wait(member);
                if !net.layout.wiring(layer).candidates.is_empty() {
                    self.reset_gates(net, layer, &rows, member);
                    wait(member);
                    self.candidates(net, model, layer, &rows, member);
                    wait(member);
                }
                self.cells(net, layer, &rows, member);
                wait(member);
                if net.spec.projection().is_some() {
                    self.project(net, model, layer, &rows, member);
                    wait(member);
                }
            }
        }
        // SAFETY: as above.
        unsafe { self.output(net, model, rows, member) }
    }

    /// `gates = bias + x W_ih^T + h W_hh^T` of one layer.
    ///
    /// # Safety
    /// As [`Steps::run_rows`].
    unsafe fn products(
        &self,
        net: &Net,
        model: &Model,
        layer: usize,
        rows: &Range<usize>,
        member: Option<&Member>,
    ) {
        let (spec, hidden, columns) = (net.spec, net.spec.hidden(layer), net.columns(layer));
        let active = self.active[rows.start..].as_ptr();
        let weights = &model.weights.layers[layer];
        for (number, group) in net.layout.wiring(layer).groups.iter().enumerate() {
            let cols = group.columns.clone();
            let mut terms = Terms::new();
            for w in group.x.map_or(&[][..], |at| weights.x(at)) {
                let mut term;
                match (layer, spec.input()) {
                    (0, InputSpec::Dense(q)) => {
                        let x = self.x.ptr().wrapping_add(rows.start * q);
                        term = Term::rows(x, q, q, w.ptr());
                    }
                    (0, InputSpec::Tokens { embedding, .. }) => {
                        let table = &model.params[net.layout.embedding().unwrap_or_default()];
                        term = Term::rows(table.as_ptr(), embedding, embedding, w.ptr());
                        term.index = self.tokens[rows.start..].as_ptr();
                        term.zeros = self.zeros.ptr();
                    }
                    _ => {
                        let below = spec.hidden(layer - 1);
                        term = Term::rows(self.h[layer - 1].ptr(), below, below, w.ptr());
                        term.index = active;
                    }
                }
                terms.push(term);
            }
            if let Some(from) = &group.h {
                let h = self.h[layer].ptr().wrapping_add(from.units.start);
                let mut term = Term::rows(h, hidden, from.units.len(), weights.h(from.at).ptr());
                term.index = active;
                terms.push(term);
            }
            let panels = panel_count(cols.len(), net.cpu.kernels.width);
            // SAFETY: rows of this part, and slots below `self.slots`; buffers hold that many.
            unsafe {
                net.cpu.kernels.product(&Product {
                    rows: rows.len(),
                    cols: cols.len(),
                    panels: member.map_or(0..panels, |m| m.share(panels, number)),
                    backwards: self.backwards,
                    c: self.gates.shared().at(rows.start * columns + cols.start),
                    c_stride: columns,
                    init: Init::Rows { from: weights.bias.ptr().add(cols.start), stride: 0 },
                    format: net.format,
                    terms: terms.as_slice(),
                });
            }
        }
    }

    /// `r h` of one layer, whose reset gate stands before the product.
    ///
    /// # Safety
    /// As [`Steps::run_rows`].
    unsafe fn reset_gates(
        &self,
        net: &Net,
        layer: usize,
        rows: &Range<usize>,
        member: Option<&Member>,
    ) {
        let units = own_units(net.spec.units()[layer], net.cpu.kernels.width, member);
        for row in rows.clone() {
            // SAFETY: this row's gates and this slot's states.
            unsafe { (net.cpu.kernels.reset)(&self.cell_operands(net, layer, row, units.clone())) }
        }
    }

    /// Adds `r h W_hn^T` to the candidates of one layer.
    ///
    /// # Safety
    /// As [`Steps::run_rows`].
    unsafe fn candidates(
        &self,
        net: &Net,
        model: &Model,
        layer: usize,
        rows: &Range<usize>,
        member: Option<&Member>,
    ) {
        let (n, columns) = (net.spec.units()[layer], net.columns(layer));
        let candidates = net.layout.wiring(layer).candidates.iter();
        for (number, Candidate { columns: cols, h }) in candidates.enumerate() {
            let panels = panel_count(cols.len(), net.cpu.kernels.width);
            // SAFETY: rows of this part; the buffer holds that many.
            unsafe {
                let row = self.gates.shared().at(rows.start * columns);
                let c = row.add(cols.start);
                let gated = row.add(columns - n + h.units.start);
                let w = model.weights.layers[layer].h(h.at).ptr();
                net.cpu.kernels.product(&Product {
                    rows: rows.len(),
                    cols: cols.len(),
                    panels: member.map_or(0..panels, |m| m.share(panels, number)),
                    backwards: self.backwards,
                    c,
                    c_stride: columns,
                    init: Init::Rows { from: c, stride: columns },
                    format: net.format,
                    terms: &[Term::rows(gated, columns, h.units.len(), w)],
                });
            }
        }
    }

    /// What a cell's arithmetic works on: some units of one row of the step.
    ///
    /// # Safety
    /// There is such a row.
    unsafe fn cell_operands(
        &self,
        net: &Net,
        layer: usize,
        row: usize,
        units: Range<usize>,
    ) -> CellForward {
        let (n, columns) = (net.spec.units()[layer], net.columns(layer));
        let (h, c) = (self.h[layer].shared().0, self.c[layer].shared().0);
        let slot = self.active[row] as usize;
        let h_slot = h.wrapping_add(slot * net.spec.hidden(layer));
        let c_slot = c.wrapping_add(slot * n);
        // SAFETY: rows of the step, and slots below `self.slots`.
        unsafe {
            CellForward {
                rows: 1,
                units: n,
                from: units.start,
                to: units.end,
                gates: self.gates.shared().at(row * columns),
                save: false,
                h_prev: h_slot,
                c_prev: c_slot,
                c: c_slot,
                h: match net.spec.projection() {
                    None => h_slot,
                    Some(_) => self.unprojected.shared().at(row * n),
                },
            }
        }
    }

    /// The cell's arithmetic of one layer, state after state in its slot.
    ///
    /// # Safety
    /// As [`Steps::run_rows`].
    unsafe fn cells(&self, net: &Net, layer: usize, rows: &Range<usize>, member: Option<&Member>) {
        let units = own_units(net.spec.units()[layer], net.cpu.kernels.width, member);
        let hold = Hold::of(net.spec);
        for row in rows.clone() {
            let slot = self.active[row] as usize;
            // Units that wait keep the state they have.
            let units = hold.map_or(units.clone(), |hold| {
                let number = |seen: u64| usize::try_from(seen).unwrap_or(usize::MAX);
                let (seen, end) = (number(self.seen[slot]), self.ends[slot].map(number));
                meet(&units, &hold.live(seen, end))
            });
            // SAFETY: this row's gates and this slot's states.
            unsafe {
                let operands = self.cell_operands(net, layer, row, units);
                net.cpu.kernels.forward(net.spec.cell())(&operands);
            }
        }
    }

    /// `h = (o tanh(c)) W_hr^T` of one layer, then to the slots. Too little to share: one member does it.
    ///
    /// # Safety
    /// As [`Steps::run_rows`].
    unsafe fn project(
        &self,
        net: &Net,
        model: &Model,
        layer: usize,
        rows: &Range<usize>,
        member: Option<&Member>,
    ) {
        if member.is_some_and(|m| m.index > 0) {
            return;
        }
        let (n, hidden) = (net.spec.units()[layer], net.spec.hidden(layer));
        let w = model.weights.layers[layer].projection().ptr();
        // SAFETY: rows of this part, and their slots.
        unsafe {
            let from = self.unprojected.ptr().add(rows.start * n);
            let to = self.projected.shared().at(rows.start * hidden);
            let term = Term::rows(from, n, n, w);
            net.product(rows.len(), hidden, to, hidden, Init::Zero, &[term]);
            for (i, &slot) in self.active[rows.clone()].iter().enumerate() {
                let h = self.h[layer].shared().at(slot as usize * hidden);
                core::ptr::copy_nonoverlapping(to.add(i * hidden), h, hidden);
            }
        }
    }

    /// # Safety
    /// As [`Steps::run_rows`].
    unsafe fn output(&self, net: &Net, model: &Model, rows: Range<usize>, member: Option<&Member>) {
        if member.is_some_and(|m| m.index > 0) {
            return; // too little to share
        }
        let (m, last) = (net.spec.output_width(), net.spec.layers() - 1);
        let (n, h) = (net.spec.hidden(last), self.h[last].ptr());
        let units = net.spec.output_units();
        // SAFETY: rows of this part.
        unsafe {
            let to = self.outputs.shared().at(rows.start * m);
            if net.spec.outputs().is_some() {
                let mut terms = Terms::new();
                let mut term = Term::rows(h.add(units.start), n, units.len(), core::ptr::null());
                term.index = self.active[rows.start..].as_ptr();
                terms.push(term);
                net.output(&model.weights, Params::from(&model.params), rows.len(), to, &mut terms);
            } else {
                for (i, &slot) in self.active[rows].iter().enumerate() {
                    let h = h.add(slot as usize * n + units.start);
                    core::ptr::copy_nonoverlapping(h, to.add(i * m), m);
                }
            }
        }
    }
}
