//! A whole network backward over lanes, to one flat gradient per lane.
//!
//! ```text
//! for each layer, the last first
//!     dgates          from above and from the next step            (recur)
//!     [dW_hh db dW_ih] = dgates^T [h_{t-1} 1 x_t]                  (layer_gradient)
//! dx = dgates W_ih                                                 where it is asked for
//! ```
//!
//! The gradient that a layer hands down is never stored: the layer below multiplies the gates'
//! gradients by `W_ih` within its own steps. Items of a phase write disjoint rows or columns.

use crate::batch::{Elements, States, state_offset};
use crate::buffer::Slots;
use crate::buffer::{Buffer, Shared};
use crate::error::{Result, check_finite, check_shape};
use crate::kernel::product::{Init, NULL_ROW};
use crate::layer_gradient::{LayerGradient, Targets};
use crate::net::{Net, parts, pieces, share};
use crate::outer::{self, OuterWork};
use crate::pass::{Lane, LaneWork};
use crate::recur::{Ends, Terms, Upstream, rows_term};
use crate::spec::Cell;
use crate::weights::{Group, Way, Weights};
use std::ops::Range;

/// What a loss says about a lane's answers, and where its gradient goes.
#[derive(Debug)]
pub struct Gradient<'a> {
    /// In: gradient of the answers, (answer steps, B, m). What stands behind a sequence's end is not
    /// read.
    pub answers: &'a [f32],
    /// In: gradient of the last states; zeros if None.
    pub last: Option<&'a States>,
    /// Out: gradient of the parameters; overwritten.
    pub params: &'a mut [f32],
    /// Out, if wanted: gradient of dense input, (T, B, q); overwritten.
    pub input: Option<&'a mut [f32]>,
    /// Out, if wanted: gradient of the start states; overwritten.
    pub start: Option<&'a mut States>,
}

impl Gradient<'_> {
    pub(crate) fn check(&self, net: &Net, lane: &Lane) -> Result<()> {
        let (spec, rows) = (net.spec, lane.batch.rows());
        let steps = spec.answers_to(lane.batch.steps());
        let m = spec.answer_width();
        check_shape("gradient of answers", self.answers.len(), &[steps, rows, m])?;
        for (slot, answer) in self.answers.chunks_exact(m).enumerate() {
            if slot / rows < spec.answers_to(lane.batch.length(slot % rows)) {
                check_finite("gradient of answers", answer)?;
            }
        }
        check_shape("gradient of params", self.params.len(), &[net.layout.len()])?;
        if let Some(last) = self.last {
            last.check("gradient of last", spec, rows)?;
        }
        if let Some(start) = &self.start {
            start.check("gradient of start", spec, rows)?;
        }
        if let Some(input) = &self.input {
            let Elements::Dense(x) = lane.batch.elements() else {
                let found = "a request for the input's gradient";
                return Err(crate::Error::InputKind { found, expected: "tokens".into() });
            };
            check_shape("gradient of input", input.len(), &[x.len()])?;
        }
        Ok(())
    }
}

/// Gradients of the states at both ends of (layer, direction).
#[derive(Default)]
struct EndsWork {
    dh: Buffer,
    carry: Buffer,
    step: Buffer,
}

/// One lane's memory for the way back, reused from batch to batch.
pub(crate) struct BackWork {
    /// By layer, then direction.
    ends: Vec<EndsWork>,
    /// Gradient of the table of symbols, by direction: (symbols + 1, columns).
    pub table: [Buffer; 2],
    /// The caller's input slot -> packed row, by direction.
    packed_input: [Vec<u32>; 2],
    /// The caller's arrays, for the length of one call.
    target: Target,
}

/// Where a call reads and writes: pointers into its [`Gradient`].
#[derive(Clone, Copy)]
struct Target {
    params: Shared,
    input: Option<Shared>,
    start: bool,
}

impl Default for BackWork {
    fn default() -> BackWork {
        let target = Target { params: Shared(std::ptr::null_mut()), input: None, start: false };
        let (table, packed_input) = Default::default();
        BackWork { ends: Vec::new(), table, packed_input, target }
    }
}

impl BackWork {
    pub fn bytes(&self) -> usize {
        let ends = self.ends.iter().flat_map(|e| [&e.dh, &e.carry, &e.step]);
        let index = self.packed_input.iter().map(|v| v.capacity() * size_of::<u32>());
        ends.chain(&self.table).map(Buffer::bytes).sum::<usize>() + index.sum::<usize>()
    }

    fn prepare(&mut self, net: &Net, lane: &Lane, work: &LaneWork, gradient: &mut Gradient) {
        self.target = Target {
            params: Shared(gradient.params.as_mut_ptr()),
            input: gradient.input.as_mut().map(|x| Shared(x.as_mut_ptr())),
            start: gradient.start.is_some(),
        };
        let s = &work.schedule;
        let rows = s.rows();
        self.ends.resize_with(work.layers.len(), Default::default);
        for (i, ends) in self.ends.iter_mut().enumerate() {
            let (layer, direction) = (i / net.directions(), i % net.directions());
            let n = net.spec.units()[layer];
            let offset = state_offset(net.spec, layer, direction, rows);
            for buffer in [&mut ends.dh, &mut ends.carry, &mut ends.step] {
                buffer.reserve(rows * n);
            }
            s.sort_rows(n, gradient.last.map(|l| &l.h[offset..]), ends.dh.slice_mut(rows * n));
            let dc =
                gradient.last.filter(|_| net.spec.cell() == Cell::Lstm).map(|l| &l.c[offset..]);
            s.sort_rows(n, dc, ends.carry.slice_mut(rows * n));
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
    fn upstream(
        &self,
        net: &Net,
        weights: &Weights,
        work: &LaneWork,
        d_answers: &[f32],
        layer: usize,
        direction: usize,
    ) -> Upstream {
        let s = &work.schedule;
        let mut upstream = Upstream { init: Init::Zero, terms: Terms::new() };
        if layer + 1 < net.spec.layers() {
            let (n, columns) = (net.spec.units()[layer + 1], net.columns(layer + 1));
            for above in 0..net.directions() {
                let place = net.place(layer + 1, above);
                let gates = work.layers[place].gates.ptr();
                let matrices = &weights.layers[place].groups;
                for (group, matrices) in Group::of(net.spec.cell()).iter().zip(matrices) {
                    let Some(w) = matrices.x.get(direction) else { continue };
                    let cols = group.columns(n);
                    // SAFETY: a column of the gates.
                    let a = unsafe { gates.add(cols.start) };
                    let mut term = rows_term(a, columns, cols.len(), w.ptr());
                    if above != direction {
                        term.index = s.mirror.as_ptr();
                    }
                    upstream.terms.push(term);
                }
            }
            return upstream;
        }
        let m = net.spec.answer_width();
        let index = s.answer[direction].as_ptr();
        match weights.output.get(direction) {
            Some(w) => {
                let mut term = rows_term(d_answers.as_ptr(), m, m, w.ptr());
                (term.index, term.zeros) = (index, work.zeros.ptr());
                upstream.terms.push(term);
            }
            None => {
                let n = m / net.directions();
                let from = d_answers.as_ptr().wrapping_add(direction * n);
                upstream.init = Init::Gather { from, stride: m, index };
            }
        }
        upstream
    }

    fn ends(&self, place: usize, start: bool) -> Ends {
        let ends = &self.ends[place];
        let shared = |buffer: &Buffer| buffer.shared();
        Ends { dh: shared(&ends.dh), carry: shared(&ends.carry), step: shared(&ends.step), start }
    }

    /// Gradient of some slots of dense input.
    ///
    /// # Safety
    /// The first layer's gates hold their gradients, and nobody else writes these slots.
    unsafe fn input(
        &self,
        net: &Net,
        weights: &Weights,
        work: &LaneWork,
        to: Shared,
        slots: Range<usize>,
    ) {
        let (n, q, columns) = (net.spec.units()[0], net.spec.input().width(), net.columns(0));
        let mut terms = Terms::new();
        for direction in 0..net.directions() {
            let gates = work.layers[direction].gates.ptr();
            let matrices = &weights.layers[direction].groups;
            for (group, matrices) in Group::of(net.spec.cell()).iter().zip(matrices) {
                for w in &matrices.x {
                    let cols = group.columns(n);
                    // SAFETY: a column of the gates; slots are entries of the index.
                    let mut term =
                        unsafe { rows_term(gates.add(cols.start), columns, cols.len(), w.ptr()) };
                    term.index = self.packed_input[direction][slots.start..].as_ptr();
                    term.zeros = work.zeros.ptr();
                    terms.push(term);
                }
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
    unsafe fn embedding(
        &self,
        net: &Net,
        weights: &Weights,
        lane: &Lane,
        work: &LaneWork,
        room: &mut OuterWork,
    ) {
        let symbols = &work.table.symbols;
        let (n, e, columns) = (net.spec.units()[0], net.spec.input().width(), net.columns(0));
        let mut terms = Terms::new();
        for direction in 0..net.directions() {
            let table = self.table[direction].slice(symbols.len() * columns);
            // SAFETY: the caller's promise.
            unsafe {
                outer::embedded_input(net, lane, work, direction, table, self.target.params, room);
            }
            let matrices = &weights.layers[direction].groups;
            for (group, matrices) in Group::of(net.spec.cell()).iter().zip(matrices) {
                for w in &matrices.x {
                    let cols = group.columns(n);
                    let a = self.table[direction].ptr().wrapping_add(cols.start);
                    terms.push(rows_term(a, columns, cols.len(), w.ptr()));
                }
            }
        }
        let range = net.layout.embedding().unwrap_or_default();
        room.sums.reserve(symbols.len() * e);
        let rows = room.sums.slice_mut(symbols.len() * e);
        // SAFETY: the embedding's part of the flat gradient; `symbols` rows of every table.
        unsafe {
            net.product(symbols.len(), e, rows.as_mut_ptr(), e, Init::Zero, terms.as_slice());
            let to =
                std::slice::from_raw_parts_mut(self.target.params.at(range.start), range.len());
            to.fill(0.0);
            for (row, &symbol) in rows.chunks_exact(e).zip(symbols) {
                to[symbol as usize * e..][..e].copy_from_slice(row);
            }
        }
    }

    /// Gradient of the start states, in the caller's order.
    fn start(&self, net: &Net, work: &LaneWork, to: &mut States) {
        let s = &work.schedule;
        for (i, ends) in self.ends.iter().enumerate() {
            let (layer, direction) = (i / net.directions(), i % net.directions());
            let n = net.spec.units()[layer];
            let offset = state_offset(net.spec, layer, direction, s.rows());
            for (r, &row) in s.order.iter().enumerate() {
                let at = offset + row as usize * n;
                to.h[at..][..n].copy_from_slice(&ends.dh.slice((r + 1) * n)[r * n..]);
                if net.spec.cell().has_cell_state() {
                    to.c[at..][..n].copy_from_slice(&ends.carry.slice((r + 1) * n)[r * n..]);
                }
            }
        }
    }
}

/// Runs all lanes backward, after [`crate::pass::forward`] with `keep`. `weights` is each lane's room
/// for them, `outer` room for the
/// the weight products, grown to one per item.
pub(crate) fn backward(
    net: &Net,
    lanes: &[Lane],
    weights: &mut [Weights],
    work: &[LaneWork],
    back: &mut [BackWork],
    outer: &mut Vec<OuterWork>,
    gradients: &mut [Gradient],
) {
    let directions = net.directions();
    let items = lanes.len() * directions * parts(net, lanes.len() * directions);
    if outer.len() < items {
        outer.resize_with(items, Default::default);
    }
    if !net.lanes_alone(lanes.len()) {
        return phases(net, lanes, weights, work, back, outer, gradients);
    }
    let (outer, back, gradients) = (Slots::new(outer), Slots::new(back), Slots::new(gradients));
    let weights = Slots::new(weights);
    net.cpu.team.each(lanes.len(), |i| {
        // The lanes that went forward last are in cache still.
        let i = lanes.len() - 1 - i;
        // SAFETY: each item has a lane of its own, and as many rooms as directions.
        unsafe {
            let (back, gradient) = (back.some(i, 1), gradients.some(i, 1));
            let weights = weights.some(i, 1);
            let outer = outer.some(i * directions, directions);
            phases(&net.alone(), &lanes[i..=i], weights, &work[i..=i], back, outer, gradient);
        }
    });
}

/// All phases of a backward pass, one after another.
fn phases(
    net: &Net,
    lanes: &[Lane],
    weights: &mut [Weights],
    work: &[LaneWork],
    back: &mut [BackWork],
    outer: &mut [OuterWork],
    gradients: &mut [Gradient],
) {
    let directions = net.directions();
    let parts = parts(net, lanes.len() * directions);
    let items = lanes.len() * directions * parts;
    let (outer, back_slots, targets) = (Slots::new(outer), Slots::new(back), Slots::new(gradients));
    let weight_slots = Slots::new(weights);
    net.each(lanes.len(), |i| {
        // SAFETY: the slices are as long as `lanes`, and each item has its own element.
        let (weights, back, gradient) =
            unsafe { (weight_slots.get(i), back_slots.get(i), targets.get(i)) };
        let input = net.layout.embedding().is_some() || gradient.input.is_some();
        weights.set(Way::Backward, input, net.spec, net.layout, lanes[i].params);
        back.prepare(net, &lanes[i], &work[i], gradient);
    });
    let (back, weights) = (&*back, &*weights);
    let answers = |lane: usize| gradients[lane].answers;
    let split = |i: usize| {
        let (recurrence, part) = (i / parts, i % parts);
        (recurrence / directions, recurrence % directions, part)
    };

    net.each(items, |i| {
        let (lane, direction, part) = split(i);
        let params = back[lane].target.params;
        // SAFETY: items have columns of their own.
        unsafe {
            outer::output(
                net,
                &work[lane],
                answers(lane),
                direction,
                (part, parts),
                params,
                outer.get(i),
            )
        }
    });
    for layer in (0..net.spec.layers()).rev() {
        let recur = |i: usize, after_step: &mut dyn FnMut(usize)| {
            let (lane, direction, part) = split(i);
            let (work, back) = (&work[lane], &back[lane]);
            let place = net.place(layer, direction);
            let upstream =
                back.upstream(net, &weights[lane], work, answers(lane), layer, direction);
            let rows = work.schedule.split(part, parts);
            let ends = back.ends(place, back.target.start);
            let recurrence = work.recurrence(net, layer, direction);
            let weights = &weights[lane].layers[place];
            // SAFETY: items have rows of their own, and the layer above is done.
            unsafe { recurrence.backward_rows(weights, &upstream, ends, rows, after_step) }
        };
        let gradient = |i: usize| {
            let (lane, direction, part) = split(i);
            let targets = Targets {
                params: back[lane].target.params,
                table: back[lane].table[direction].shared(),
            };
            // SAFETY: each item has its own room.
            let room = unsafe { outer.get(i) };
            let at = (layer, direction);
            LayerGradient::new(net, &lanes[lane], &work[lane], at, (part, parts), targets, room)
        };
        // SAFETY, below: items have columns of their own, and add rows whose gradients are complete.
        if parts == 1 {
            net.each(items, |i| {
                let mut gradient = gradient(i);
                let offsets = &work[split(i).0].schedule.offsets;
                // SAFETY: as above.
                recur(i, &mut |t| unsafe { gradient.down_to(offsets[t]) });
                // SAFETY: as above.
                unsafe { gradient.finish() }
            });
        } else {
            net.each(items, |i| recur(i, &mut |_| {}));
            // SAFETY: as above.
            net.each(items, |i| unsafe { gradient(i).finish() });
        }
    }
    let pieces = pieces(parts);
    net.each(lanes.len() * pieces, |i| {
        let (lane, piece) = (i / pieces, i % pieces);
        if let Some(to) = back[lane].target.input {
            let slots = lanes[lane].batch.steps() * lanes[lane].batch.rows();
            // SAFETY: the first layer is done, and every slot is in one piece only.
            unsafe {
                back[lane].input(net, &weights[lane], &work[lane], to, share(slots, piece, pieces))
            }
        }
    });
    net.each(lanes.len(), |lane| {
        if net.layout.embedding().is_some() {
            // SAFETY: one item per lane, and item `lane` of `outer` exists.
            unsafe {
                back[lane].embedding(
                    net,
                    &weights[lane],
                    &lanes[lane],
                    &work[lane],
                    outer.get(lane),
                )
            }
        }
    });
    for (lane, gradient) in gradients.iter_mut().enumerate() {
        if let Some(start) = &mut gradient.start {
            back[lane].start(net, &work[lane], start);
        }
    }
}
