//! A whole network forward over lanes: schedule, tables, layer after layer, outputs.
//!
//! [`LaneWork`] is one lane's memory. Each phase is shared out over the team in items that write
//! disjoint rows: (lane, direction, some sorted rows) for a recurrence, (lane, some rows of the outputs)
//! for the output layer.

use crate::cpu::buffer::{Buffer, Shared, Slots};
use crate::cpu::team::{Member, share};
use crate::error::Result;
use crate::exec::dropout::Dropout;
use crate::exec::net::{Net, pieces};
use crate::exec::params::Params;
use crate::exec::recur::{Feed, FeedPart, Recurrence};
use crate::exec::schedule::Schedule;
use crate::exec::table::Table;
use crate::exec::wavefront::{Hold, Wavefront};
use crate::exec::weights::Weights;
use crate::kernel::product::{NULL_ROW, Term, Terms};
use crate::model::batch::{Batch, Elements, States, cell_state_parts, state_parts};
use crate::prelude::*;
use crate::spec::NetSpec;
use crate::spec::params::Layout;
use crate::spec::wiring::columns;
use core::ops::Range;

/// A model and its data, one of several that run side by side.
#[derive(Debug, Clone, Copy)]
pub struct Lane<'a> {
    /// The model's parameters.
    pub params: Params<'a>,
    /// Its sequences.
    pub batch: Batch<'a>,
    /// Their states before the first step; zeros if None.
    pub start: Option<&'a States>,
}

impl Lane<'_> {
    pub(crate) fn check(&self, spec: &NetSpec, layout: &Layout) -> Result<()> {
        self.params.check(spec, layout)?;
        self.check_again(spec, layout)
    }

    /// The same for parameters that were checked when the pass went forward, but for their lengths.
    pub(crate) fn check_again(&self, spec: &NetSpec, layout: &Layout) -> Result<()> {
        self.params.check_lengths(layout)?;
        self.batch.check(spec)?;
        if let Some(start) = self.start {
            start.check("start", spec, self.batch.rows())?;
        }
        Ok(())
    }
}

/// One direction of one layer.
#[derive(Default)]
pub(crate) struct LayerWork {
    /// (B + N, hidden)
    pub h: Buffer,
    /// Where h is projected, what it is made of: (N, n), or (B, n) where nothing is kept
    pub unprojected: Buffer,
    /// (B + N, n), or (B, n) where nothing is kept
    pub c: Buffer,
    /// (N, columns), or a step's worth
    pub gates: Buffer,
    /// With dropout, (N, hidden): h times its factors. In the backward pass, once the layer above is done:
    /// the gradient of h from above.
    pub dropped: Buffer,
}

/// One lane's memory, reused from batch to batch.
#[derive(Default)]
pub(crate) struct LaneWork {
    pub schedule: Schedule,
    pub table: Table,
    /// By layer, then direction.
    pub layers: Vec<LayerWork>,
    /// (output steps, B, m), or (selected slots, m); unused where `target` is set
    pub outputs: Buffer,
    /// The caller's memory for the outputs of this pass, in their place.
    pub target: Option<Shared>,
    /// As many as any row of x, or state, or output, is wide.
    pub zeros: Buffer,
    pub save: bool,
    /// Of this pass, if it has any.
    pub dropout: Option<Dropout>,
    /// Where layers run side by side.
    pub waves: Wavefront,
}

impl LaneWork {
    /// Everything before the first step: packed order, start states, table of symbols.
    fn prepare(&mut self, net: &Net, weights: &Weights, lane: &Lane, save: bool) {
        let spec = net.spec;
        self.save = save;
        self.schedule.set(spec, &lane.batch);
        let (rows, total) = (self.schedule.rows(), self.schedule.total());
        let max = spec.units().iter().max().copied().unwrap_or(0);
        let max = columns(spec.cell(), max).max(spec.input().width()).max(spec.output_width());
        self.zeros.reserve(max); // never written, so still zero

        self.layers.resize_with(spec.layers() * net.directions(), Default::default);
        for (i, work) in self.layers.iter_mut().enumerate() {
            let (layer, direction) = (i / net.directions(), i % net.directions());
            let (n, hidden) = (spec.units()[layer], spec.hidden(layer));
            work.h.reserve((rows + total) * hidden);
            let gates = if save { total } else { Recurrence::scratch_rows(rows) };
            work.gates.reserve(gates * net.columns(layer));
            if self.dropout.is_some() {
                work.dropped.reserve(total * hidden);
            }
            if spec.projection().is_some() {
                work.unprojected.reserve(if save { total * n } else { rows * n });
            }
            if spec.cell().has_cell_state() {
                work.c.reserve(if save { (rows + total) * n } else { rows * n });
            }
            for (offset, units) in state_parts(spec, layer, direction, rows) {
                let h = lane.start.map(|s| &s.h[offset..]);
                self.schedule.sort_rows(hidden, units, h, work.h.slice_mut(rows * hidden));
            }
            for (offset, units) in cell_state_parts(spec, layer, direction, rows) {
                let c = lane.start.map(|s| &s.c[offset..]);
                self.schedule.sort_rows(n, units, c, work.c.slice_mut(rows * n));
            }
        }
        if let Elements::Tokens(tokens) = lane.batch.elements() {
            self.table.index_symbols(net, &self.schedule, tokens);
            self.table.fill(net, weights, lane.params);
        }
        if self.target.is_none() {
            self.outputs.reserve(self.schedule.outputs * spec.output_width());
        }
        self.waves.set(spec.layers(), self.schedule.alive.len(), rows);
    }

    /// States of (layer, direction) by packed row.
    pub fn states(&self, net: &Net, layer: usize, direction: usize) -> *const f32 {
        let first = self.schedule.rows() * net.spec.hidden(layer);
        // SAFETY: the buffer begins with the B start states.
        unsafe { self.layers[net.place(layer, direction)].h.ptr().add(first) }
    }

    /// What (layer, direction) passes on, by packed row: its states, or those after dropout.
    pub fn passed_on(&self, net: &Net, layer: usize, direction: usize) -> *const f32 {
        match self.dropout {
            Some(_) => self.layers[net.place(layer, direction)].dropped.ptr(),
            None => self.states(net, layer, direction),
        }
    }

    /// Where (layer, direction) reads; `parts` is memory for the output.
    pub fn feed<'a>(
        &'a self,
        net: &Net,
        lane: &Lane,
        layer: usize,
        direction: usize,
        parts: &'a mut [FeedPart; 2],
    ) -> Feed<'a> {
        let (s, zeros) = (&self.schedule, self.zeros.ptr());
        if layer > 0 {
            for (below, part) in parts.iter_mut().enumerate().take(net.directions()) {
                let x = self.passed_on(net, layer - 1, below);
                let same = below == direction;
                let index = if same { core::ptr::null() } else { s.mirror.as_ptr() };
                *part = FeedPart { x, width: net.spec.hidden(layer - 1), index, zeros };
            }
            return Feed::Rows(&parts[..net.directions()]);
        }
        match lane.batch.elements() {
            Elements::Tokens(_) => {
                let table = self.table.rows[direction].ptr();
                Feed::Table { table, index: &self.table.index[direction] }
            }
            Elements::Dense(x) => {
                let index = s.input[direction].as_ptr();
                parts[0] =
                    FeedPart { x: x.as_ptr(), width: net.spec.input().width(), index, zeros };
                Feed::Rows(&parts[..1])
            }
        }
    }

    /// The recurrence of (layer, direction), on this lane's memory.
    pub fn recurrence<'a>(
        &'a self,
        net: &Net<'a>,
        layer: usize,
        direction: usize,
    ) -> Recurrence<'a> {
        let work = &self.layers[net.place(layer, direction)];
        Recurrence {
            kernels: net.cpu.kernels,
            cell: net.spec.cell(),
            n: net.spec.units()[layer],
            hidden: net.spec.hidden(layer),
            wiring: net.layout.wiring(layer),
            hold: Hold::of(net.spec),
            schedule: &self.schedule,
            h: work.h.shared(),
            unprojected: net.spec.projection().map(|_| work.unprojected.shared()),
            c: work.c.shared(),
            gates: work.gates.shared(),
            save: self.save,
        }
    }

    /// Some rows of the outputs: the output layer, or the states themselves; zeros where there is none.
    ///
    /// # Safety
    /// The recurrences are done, and nobody else writes these rows.
    unsafe fn output(&self, net: &Net, weights: &Weights, params: Params, rows: Range<usize>) {
        let (m, last) = (net.spec.output_width(), net.spec.layers() - 1);
        let (n, units) = (net.spec.hidden(last), net.spec.output_units());
        let to = self.target.unwrap_or_else(|| self.outputs.shared());
        // SAFETY: rows of the outputs, and the packed rows they name are rows of `h`.
        unsafe {
            let mut terms = Terms::new();
            for direction in 0..net.directions() {
                let h = self.passed_on(net, last, direction);
                let mut term = Term::rows(h.add(units.start), n, units.len(), core::ptr::null());
                term.index = self.schedule.packed[direction].as_ptr();
                term.zeros = self.zeros.ptr();
                terms.push(term.at_row(rows.start));
            }
            net.output(weights, params, rows.len(), to.at(rows.start * m), &mut terms);
            for row in rows {
                for direction in 0..net.directions() {
                    let to = core::slice::from_raw_parts_mut(to.at(row * m), m);
                    match self.schedule.packed[direction][row] {
                        NULL_ROW => to.fill(0.0),
                        p if net.spec.outputs().is_none() => {
                            let h = self.passed_on(net, last, direction).add(p as usize * n);
                            let h = &core::slice::from_raw_parts(h, n)[units.clone()];
                            to[direction * units.len()..][..units.len()].copy_from_slice(h);
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// Bytes of what a backward pass needs (gates, cell states, states), and of all that is held.
    pub fn bytes(&self) -> (usize, usize) {
        let layers = self.layers.iter();
        let buffers = layers.flat_map(|l| [&l.h, &l.c, &l.gates, &l.dropped, &l.unprojected]);
        let saved = buffers.map(Buffer::bytes).sum();
        let rest = self.outputs.bytes() + self.zeros.bytes() + self.table.bytes();
        (saved, saved + rest + self.schedule.bytes() + self.waves.bytes())
    }

    /// States after the last step, in the caller's order, written over `last`.
    pub fn last_into(&self, net: &Net, last: &mut States) {
        let spec = net.spec;
        let s = &self.schedule;
        let (rows, directions) = (s.rows(), spec.direction().count());
        last.resize(spec, rows);
        for (i, work) in self.layers.iter().enumerate() {
            let (layer, direction) = (i / directions, i % directions);
            let after = |r: usize| s.before(s.steps[r], r);
            let parts = state_parts(spec, layer, direction, rows);
            s.unsort_rows(parts, spec.hidden(layer), after, &work.h, &mut last.h);
            let after = |r: usize| if self.save { after(r) } else { r };
            let parts = cell_state_parts(spec, layer, direction, rows);
            s.unsort_rows(parts, spec.units()[layer], after, &work.c, &mut last.c);
        }
    }

    /// The same in memory of their own.
    pub fn last(&self, net: &Net) -> States {
        let mut last = States::default();
        self.last_into(net, &mut last);
        last
    }
}

/// Floats that the output layer reads from which threads share it: fewer take less time than waking a thread.
const FEW_OUTPUTS: usize = 1 << 12;

/// Sequences of the lane with the most of them.
pub(crate) fn max_rows(lanes: &[Lane]) -> usize {
    lanes.iter().map(|lane| lane.batch.rows()).max().unwrap_or(0)
}

/// What one thread does of a recurrence: some rows and steps, or its part in a parallel region.
enum Share<'a> {
    Rows(Range<usize>, Range<usize>),
    Parallel(&'a Member<'a>),
}

/// Runs all lanes forward. `weights` gives each lane's, packed forward.
pub(crate) fn forward<'w>(
    net: &Net,
    weights: &(dyn Fn(usize) -> &'w Weights + Sync),
    lanes: &[Lane],
    work: &mut [LaneWork],
    save: bool,
) {
    if !net.lanes_alone(lanes.len()) {
        return phases(net, weights, lanes, work, save);
    }
    let slots = Slots::new(work);
    net.cpu.team.each(lanes.len(), |i| {
        // SAFETY: `work` is as long as `lanes`, and each item has its own.
        let work = unsafe { core::slice::from_mut(slots.get(i)) };
        phases(&net.alone(), &|_| weights(i), &lanes[i..=i], work, save);
    });
}

/// All phases of a forward pass, one after another.
fn phases<'w>(
    net: &Net,
    weights: &(dyn Fn(usize) -> &'w Weights + Sync),
    lanes: &[Lane],
    work: &mut [LaneWork],
    save: bool,
) {
    let slots = Slots::new(work);
    net.each(lanes.len(), |i| {
        // SAFETY: `work` is as long as `lanes`, and each item has its own.
        unsafe { slots.get(i) }.prepare(net, weights(i), &lanes[i], save);
    });
    let work = &*work;
    let directions = net.directions();
    let recurrences = lanes.len() * directions;
    let parts = net.parts(recurrences);
    let max_rows = max_rows(lanes);
    let run = |recurrence: usize, layer: usize, share: Share| {
        let (lane, direction) = (recurrence / directions, recurrence % directions);
        let mut feed_parts = [FeedPart::NONE; 2];
        let feed = work[lane].feed(net, &lanes[lane], layer, direction, &mut feed_parts);
        let weights = &weights(lane).layers[net.place(layer, direction)];
        let recurrence = work[lane].recurrence(net, layer, direction);
        // SAFETY: items have rows of their own, or steps whose predecessors are done; a parallel region has the
        // recurrence to itself.
        unsafe {
            match share {
                Share::Rows(rows, steps) => recurrence.forward_rows(weights, feed, rows, steps),
                Share::Parallel(member) => recurrence.forward_parallel(weights, feed, member),
            }
        }
    };
    let drops = work.iter().any(|work| work.dropout.is_some());
    let pieces = pieces(parts);
    if net.in_waves(lanes.len(), max_rows) && !drops {
        let rows = 0..work[0].schedule.rows();
        net.cpu.team.parallel_region(|_| {
            work[0].waves.run(|layer, steps| run(0, layer, Share::Rows(rows.clone(), steps)))
        });
    } else {
        for layer in 0..net.spec.layers() {
            if net.shares_columns(parts, max_rows, layer) {
                for recurrence in 0..recurrences {
                    net.cpu
                        .team
                        .parallel_region(|member| run(recurrence, layer, Share::Parallel(member)));
                }
            } else {
                // A tile of one row takes as long as one of two, and parts lose hoisting.
                let parts = parts.min((max_rows / 2).max(1));
                net.each(recurrences * parts, |i| {
                    let (recurrence, part) = (i / parts, i % parts);
                    let schedule = &work[recurrence / directions].schedule;
                    let (rows, steps) = (schedule.split(part, parts), 0..schedule.alive.len());
                    run(recurrence, layer, Share::Rows(rows, steps));
                });
            }
            if drops {
                net.each(recurrences * pieces, |i| {
                    let (recurrence, piece) = (i / pieces, i % pieces);
                    let (lane, direction) = (recurrence / directions, recurrence % directions);
                    let rows = share(work[lane].schedule.total(), piece, pieces);
                    // SAFETY: the recurrence is done, and every row is in one piece only.
                    unsafe { work[lane].drop_states(net, layer, direction, rows) }
                });
            }
        }
    }
    let outputs = work.iter().map(|work| work.schedule.outputs).max().unwrap_or(0);
    let pieces = if outputs * net.spec.hidden_width() < FEW_OUTPUTS { 1 } else { pieces };
    net.each(lanes.len() * pieces, |i| {
        let (lane, piece) = (i / pieces, i % pieces);
        let rows = share(work[lane].schedule.outputs, piece, pieces);
        // SAFETY: the recurrences are done, and every row is in one piece only.
        unsafe { work[lane].output(net, weights(lane), lanes[lane].params, rows) }
    });
}
