//! A whole network forward over lanes: schedule, tables, layer after layer, answers.
//!
//! [`LaneWork`] is one lane's memory. Each phase is shared out over the team in items that write
//! disjoint rows: (lane, direction, some sorted rows) for a recurrence, (lane, some answer slots) for
//! the output layer.

use crate::batch::{Batch, Elements, States, state_offset};
use crate::buffer::Buffer;
use crate::cpu::Cpu;
use crate::error::{Result, check_finite, check_shape};
use crate::kernel::dots::{Dots, NARROW};
use crate::kernel::pack::panel_count;
use crate::kernel::product::{Init, NULL_ROW, Product, Term};
use crate::params::Layout;
use crate::recur::{Feed, Part, Recurrence, Terms, rows_term};
use crate::schedule::Schedule;
use crate::spec::{InputSpec, NetSpec, Padding};
use crate::team::Member;
use crate::weights::{Group, Weights, columns};
use std::ops::Range;

/// A network and what it runs on: what every phase needs to know.
#[derive(Clone, Copy)]
pub(crate) struct Net<'a> {
    pub cpu: &'a Cpu,
    pub spec: &'a NetSpec,
    pub layout: &'a Layout,
    /// Threads that a phase is shared among: the team's, or one where lanes run side by side.
    pub threads: usize,
}

impl<'a> Net<'a> {
    pub fn new(cpu: &'a Cpu, spec: &'a NetSpec, layout: &'a Layout) -> Net<'a> {
        Net { cpu, spec, layout, threads: cpu.threads() }
    }

    /// The same, for a lane that has one thread to itself.
    pub fn alone(self) -> Net<'a> {
        Net { threads: 1, ..self }
    }

    /// Whether `lanes` are enough to keep every thread busy with lanes of its own. A lane then runs
    /// through all phases at once, while its data is in cache.
    pub fn lanes_alone(&self, lanes: usize) -> bool {
        lanes > 1 && (lanes.is_multiple_of(self.threads) || lanes >= 4 * self.threads)
    }

    /// Calls `f(i)` for each i in 0..items.
    pub fn each(&self, items: usize, f: impl Fn(usize) + Sync) {
        match self.threads {
            1 => (0..items).for_each(f),
            _ => self.cpu.team.each(items, f),
        }
    }

    pub fn directions(&self) -> usize {
        self.spec.direction().count()
    }

    /// Gate columns of a layer.
    pub fn columns(&self, layer: usize) -> usize {
        columns(self.spec.cell(), self.spec.units()[layer])
    }

    /// Place of (layer, direction) in vectors that hold one thing for each.
    pub fn place(&self, layer: usize, direction: usize) -> usize {
        layer * self.directions() + direction
    }

    /// A product over all columns.
    ///
    /// # Safety
    /// As [`crate::kernel::product::product`].
    pub unsafe fn product(
        &self,
        rows: usize,
        cols: usize,
        c: *mut f32,
        c_stride: usize,
        init: Init,
        terms: &[Term],
    ) {
        let panels = 0..panel_count(cols, self.cpu.kernels.width);
        // SAFETY: the caller's promise.
        unsafe {
            (self.cpu.kernels.product)(&Product {
                rows,
                cols,
                panels,
                backwards: false,
                c,
                c_stride,
                init,
                terms,
            })
        }
    }
}

impl Net<'_> {
    /// `to = b + sum h W_out^T`, one term per direction, whose `w` is filled in here; nothing without
    /// an output layer.
    ///
    /// # Safety
    /// As [`crate::kernel::product::product`].
    pub unsafe fn output(
        &self,
        weights: &Weights,
        params: &[f32],
        rows: usize,
        to: *mut f32,
        terms: &mut Terms,
    ) {
        let (Some([weight, bias]), Some(m)) = (self.layout.output(), self.spec.outputs()) else {
            return;
        };
        let (bias, w_stride) = (params[bias].as_ptr(), self.spec.hidden_width());
        let n = w_stride / self.directions();
        for (direction, term) in terms.as_mut_slice().iter_mut().enumerate() {
            term.w = match m <= NARROW {
                true => params[weight.clone()][direction * n..].as_ptr(),
                false => weights.output[direction].ptr(),
            };
        }
        let terms = terms.as_slice();
        // SAFETY: the caller's promise.
        unsafe {
            if m <= NARROW {
                let dots = Dots { rows, cols: m, c: to, c_stride: m, bias, w_stride, terms };
                (self.cpu.kernels.dots)(&dots);
            } else {
                let init = Init::Rows { from: bias, stride: 0 };
                self.product(rows, m, to, m, init, terms);
            }
        }
    }
}

/// A model and its data, one of several that run side by side.
#[derive(Debug, Clone, Copy)]
pub struct Lane<'a> {
    /// The model's parameters, flat.
    pub params: &'a [f32],
    /// Its sequences.
    pub batch: Batch<'a>,
    /// Their states before the first step; zeros if None.
    pub start: Option<&'a States>,
}

impl Lane<'_> {
    pub(crate) fn check(&self, spec: &NetSpec, layout: &Layout) -> Result<()> {
        check_params(layout, self.params)?;
        self.batch.check(spec)?;
        if let Some(start) = self.start {
            start.check("start", spec, self.batch.rows())?;
        }
        Ok(())
    }
}

/// Right length, and every value finite; the error names the tensor.
pub(crate) fn check_params(layout: &Layout, params: &[f32]) -> Result<()> {
    check_shape("params", params.len(), &[layout.len()])?;
    if check_finite("params", params).is_ok() {
        return Ok(());
    }
    for tensor in layout.tensors() {
        check_finite(&tensor.name, &params[tensor.range.clone()])?;
    }
    Ok(())
}

/// One direction of one layer.
#[derive(Default)]
pub(crate) struct LayerWork {
    /// (B + N, n)
    pub h: Buffer,
    /// (B + N, n), or (B, n) where nothing is kept
    pub c: Buffer,
    /// (N, columns), or a step's worth
    pub gates: Buffer,
}

/// The distinct symbols of a batch and their rows in the table of `bias + E W_ih^T`.
#[derive(Default)]
pub(crate) struct Table {
    /// Symbol of each table row; one more row, for the zero vector, follows.
    pub symbols: Vec<u32>,
    /// Symbol -> table row; [`NULL_ROW`] while it has none.
    row_of: Vec<u32>,
    /// Packed row -> table row, by direction.
    pub index: [Vec<u32>; 2],
    /// (symbols + 1, columns), by direction.
    pub rows: [Buffer; 2],
}

/// One lane's memory, reused from batch to batch.
#[derive(Default)]
pub(crate) struct LaneWork {
    pub schedule: Schedule,
    pub table: Table,
    /// By layer, then direction.
    pub layers: Vec<LayerWork>,
    /// (answer steps, B, m)
    pub answers: Buffer,
    /// As many as any row of x, or state, or answer, is wide.
    pub zeros: Buffer,
    pub keep: bool,
}

impl LaneWork {
    /// Everything before the first step: packed order, start states, table of symbols.
    fn prepare(&mut self, net: &Net, weights: &Weights, lane: &Lane, keep: bool) {
        let spec = net.spec;
        self.keep = keep;
        self.schedule.set(spec, &lane.batch);
        let (rows, total) = (self.schedule.rows(), self.schedule.total());
        let most = spec.units().iter().max().copied().unwrap_or(0);
        let most = columns(spec.cell(), most).max(spec.input().width()).max(spec.answer_width());
        self.zeros.reserve(most); // never written, so still zero

        self.layers.resize_with(spec.layers() * net.directions(), Default::default);
        for (i, work) in self.layers.iter_mut().enumerate() {
            let (layer, direction) = (i / net.directions(), i % net.directions());
            let n = spec.units()[layer];
            work.h.reserve((rows + total) * n);
            let gates = if keep { total } else { Recurrence::scratch_rows(rows) };
            work.gates.reserve(gates * net.columns(layer));
            let offset = state_offset(spec, layer, direction, rows);
            let start = lane.start.map(|s| &s.h[offset..]);
            self.schedule.sort_rows(n, start, work.h.slice_mut(rows * n));
            if spec.cell().has_cell_state() {
                work.c.reserve(if keep { (rows + total) * n } else { rows * n });
                let start = lane.start.map(|s| &s.c[offset..]);
                self.schedule.sort_rows(n, start, work.c.slice_mut(rows * n));
            }
        }
        if let Elements::Tokens(tokens) = lane.batch.elements() {
            self.table.index_symbols(net, &self.schedule, tokens);
            self.table.fill(net, weights, lane.params);
        }
        self.answers.reserve(self.schedule.answer_steps * rows * spec.answer_width());
    }

    /// States of (layer, direction) by packed row.
    pub fn states(&self, net: &Net, layer: usize, direction: usize) -> *const f32 {
        let n = net.spec.units()[layer];
        // SAFETY: the buffer begins with the B start states.
        unsafe { self.layers[net.place(layer, direction)].h.ptr().add(self.schedule.rows() * n) }
    }

    /// Where (layer, direction) reads; `parts` is room for the answer.
    pub fn feed<'a>(
        &'a self,
        net: &Net,
        lane: &Lane,
        layer: usize,
        direction: usize,
        parts: &'a mut [Part; 2],
    ) -> Feed<'a> {
        let (s, zeros) = (&self.schedule, self.zeros.ptr());
        if layer > 0 {
            for (below, part) in parts.iter_mut().enumerate().take(net.directions()) {
                let x = self.states(net, layer - 1, below);
                let same = below == direction;
                let index = if same { std::ptr::null() } else { s.mirror.as_ptr() };
                *part = Part { x, width: net.spec.units()[layer - 1], index, zeros };
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
                parts[0] = Part { x: x.as_ptr(), width: net.spec.input().width(), index, zeros };
                Feed::Rows(&parts[..1])
            }
        }
    }

    /// The recurrence of (layer, direction), on this lane's memory.
    pub fn recurrence(&self, net: &Net, layer: usize, direction: usize) -> Recurrence<'_> {
        let work = &self.layers[net.place(layer, direction)];
        Recurrence {
            kernels: net.cpu.kernels,
            cell: net.spec.cell(),
            n: net.spec.units()[layer],
            schedule: &self.schedule,
            h: work.h.shared(),
            c: work.c.shared(),
            gates: work.gates.shared(),
            keep: self.keep,
        }
    }

    /// Answers of some slots: the output layer, or the states themselves; zeros where there is none.
    ///
    /// # Safety
    /// The recurrences are done, and nobody else writes these slots.
    unsafe fn answer(&self, net: &Net, weights: &Weights, params: &[f32], slots: Range<usize>) {
        let (m, last) = (net.spec.answer_width(), net.spec.layers() - 1);
        let n = net.spec.units()[last];
        let to = self.answers.shared();
        // SAFETY: slots are rows of `answers`, and the packed rows they name are rows of `h`.
        unsafe {
            let mut terms = Terms::new();
            for direction in 0..net.directions() {
                let h = self.states(net, last, direction);
                let mut term = rows_term(h, n, n, std::ptr::null());
                term.index = self.schedule.packed[direction].as_ptr();
                term.zeros = self.zeros.ptr();
                terms.push(term.at_row(slots.start));
            }
            net.output(weights, params, slots.len(), to.at(slots.start * m), &mut terms);
            for slot in slots {
                for direction in 0..net.directions() {
                    let to = std::slice::from_raw_parts_mut(to.at(slot * m), m);
                    match self.schedule.packed[direction][slot] {
                        NULL_ROW => to.fill(0.0),
                        p if net.spec.outputs().is_none() => {
                            let h = self.states(net, last, direction).add(p as usize * n);
                            to[direction * n..][..n]
                                .copy_from_slice(std::slice::from_raw_parts(h, n));
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// Bytes of what a backward pass needs (gates, cell states, states), and of all that is held.
    pub fn bytes(&self) -> (usize, usize) {
        let kept = self.layers.iter().map(|l| l.h.bytes() + l.c.bytes() + l.gates.bytes()).sum();
        let rest = self.answers.bytes() + self.zeros.bytes() + self.table.bytes();
        (kept, kept + rest + self.schedule.bytes())
    }

    /// States after the last step, in the caller's order.
    pub fn last(&self, net: &Net) -> States {
        let spec = net.spec;
        let s = &self.schedule;
        let (rows, directions) = (s.rows(), spec.direction().count());
        let mut last = States::zeros(spec, rows);
        for (i, work) in self.layers.iter().enumerate() {
            let (layer, direction) = (i / directions, i % directions);
            let n = spec.units()[layer];
            let offset = state_offset(spec, layer, direction, rows);
            for (r, &row) in s.order.iter().enumerate() {
                let row_after = match s.steps[r] {
                    0 => r,
                    steps => rows + s.offsets[steps - 1] + r,
                };
                let to = offset + row as usize * n;
                let h = work.h.slice((rows + s.total()) * n);
                last.h[to..][..n].copy_from_slice(&h[row_after * n..][..n]);
                if spec.cell().has_cell_state() {
                    let at = if self.keep { row_after } else { r };
                    let c = work.c.slice((at + 1) * n);
                    last.c[to..][..n].copy_from_slice(&c[at * n..]);
                }
            }
        }
        last
    }
}

impl Table {
    /// Numbers the distinct symbols in the order of their appearance.
    fn index_symbols(&mut self, net: &Net, schedule: &Schedule, tokens: &[u32]) {
        let padding = match net.spec.padding() {
            Padding::Symbol(id) => Some(id),
            _ => None,
        };
        for &symbol in &self.symbols {
            self.row_of[symbol as usize] = NULL_ROW;
        }
        self.symbols.clear();
        if let InputSpec::Tokens { symbols, .. } = net.spec.input() {
            self.row_of.resize(symbols, NULL_ROW);
        }
        for direction in 0..net.directions() {
            let index = &mut self.index[direction];
            index.clear();
            index.extend(schedule.input[direction].iter().map(|&slot| {
                let symbol = match slot {
                    NULL_ROW => padding,
                    slot => Some(tokens[slot as usize]),
                };
                let Some(symbol) = symbol else {
                    return NULL_ROW;
                };
                let row = &mut self.row_of[symbol as usize];
                if *row == NULL_ROW {
                    *row = self.symbols.len() as u32;
                    self.symbols.push(symbol);
                }
                *row
            }));
        }
        let zero_vector = self.symbols.len() as u32;
        for row in self.index.iter_mut().flatten().filter(|row| **row == NULL_ROW) {
            *row = zero_vector;
        }
    }

    /// `rows[s] = bias + E[symbols[s]] W_ih^T`, and the bias alone for the zero vector.
    fn fill(&mut self, net: &Net, weights: &Weights, params: &[f32]) {
        let (n, count, columns) = (net.spec.units()[0], self.symbols.len(), net.columns(0));
        let width = net.spec.input().width();
        let e = &params[net.layout.embedding().unwrap_or_default()];
        for (direction, layer) in weights.layers.iter().enumerate().take(net.directions()) {
            self.rows[direction].reserve((count + 1) * columns);
            let rows = self.rows[direction].slice_mut((count + 1) * columns);
            for row in rows.chunks_exact_mut(columns) {
                row.copy_from_slice(layer.bias.slice(columns));
            }
            for (group, matrices) in Group::of(net.spec.cell()).iter().zip(&layer.groups) {
                let cols = group.columns(n);
                for w in &matrices.x {
                    let mut term = rows_term(e.as_ptr(), width, width, w.ptr());
                    term.index = self.symbols.as_ptr();
                    let c = rows[cols.start..].as_mut_ptr();
                    let init = Init::Rows { from: c, stride: columns };
                    // SAFETY: `count` rows of `columns` floats; every symbol is a row of E.
                    unsafe { net.product(count, cols.len(), c, columns, init, &[term]) }
                }
            }
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let words = self.index.iter().chain([&self.symbols, &self.row_of]);
        words.map(|v| v.capacity() * size_of::<u32>()).sum::<usize>()
            + self.rows.iter().map(Buffer::bytes).sum::<usize>()
    }
}

/// One element of a slice for each item of a job.
pub(crate) struct Slots<T>(*mut T);

// SAFETY: elements go to one item each, and T may be sent there.
unsafe impl<T: Send> Send for Slots<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Slots<T> {}

impl<T> Slots<T> {
    pub fn new(items: &mut [T]) -> Slots<T> {
        Slots(items.as_mut_ptr())
    }

    /// # Safety
    /// `i` is below the slice's length, the slice is still borrowed, and only one item takes it.
    #[allow(clippy::mut_from_ref, reason = "each element is taken once")]
    pub unsafe fn get(&self, i: usize) -> &mut T {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.0.add(i) }
    }

    /// # Safety
    /// As [`Slots::get`], for all of `first..first + count`.
    #[allow(clippy::mut_from_ref, reason = "each element is taken once")]
    pub unsafe fn some(&self, first: usize, count: usize) -> &mut [T] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(first), count) }
    }
}

/// Part `part` of `parts` of 0..n.
pub(crate) fn share(n: usize, part: usize, parts: usize) -> Range<usize> {
    n * part / parts..n * (part + 1) / parts
}

/// What one thread does of a recurrence.
enum Share<'a> {
    Rows(Range<usize>),
    Gang(&'a Member<'a>),
}

/// Fewer rows than this per thread, and threads share columns instead.
pub(crate) const LEAST_ROWS: usize = 4;
/// Multiplications in a row's step from which sharing columns pays for its barriers.
const GANG_WORK: usize = 100_000;

/// How many pieces row-wise work of a lane is cut into: more than parts, so that threads end together.
pub(crate) fn pieces(parts: usize) -> usize {
    if parts == 1 { 1 } else { 4 * parts }
}

/// How many parts each of `recurrences` is cut into, to occupy every thread.
pub(crate) fn parts(net: &Net, recurrences: usize) -> usize {
    net.threads.div_ceil(recurrences.max(1))
}

/// Runs all lanes forward. `weights` gives each lane's, packed forward.
pub(crate) fn forward<'w>(
    net: &Net,
    weights: &(dyn Fn(usize) -> &'w Weights + Sync),
    lanes: &[Lane],
    work: &mut [LaneWork],
    keep: bool,
) {
    if !net.lanes_alone(lanes.len()) {
        return phases(net, weights, lanes, work, keep);
    }
    let slots = Slots::new(work);
    net.cpu.team.each(lanes.len(), |i| {
        // SAFETY: `work` is as long as `lanes`, and each item has its own.
        let work = unsafe { std::slice::from_mut(slots.get(i)) };
        phases(&net.alone(), &|_| weights(i), &lanes[i..=i], work, keep);
    });
}

/// All phases of a forward pass, one after another.
fn phases<'w>(
    net: &Net,
    weights: &(dyn Fn(usize) -> &'w Weights + Sync),
    lanes: &[Lane],
    work: &mut [LaneWork],
    keep: bool,
) {
    let slots = Slots::new(work);
    net.each(lanes.len(), |i| {
        // SAFETY: `work` is as long as `lanes`, and each item has its own.
        unsafe { slots.get(i) }.prepare(net, weights(i), &lanes[i], keep);
    });
    let work = &*work;
    let directions = net.directions();
    let recurrences = lanes.len() * directions;
    let parts = parts(net, recurrences);
    let most_rows = lanes.iter().map(|lane| lane.batch.rows()).max().unwrap_or(0);
    for layer in 0..net.spec.layers() {
        let run = |recurrence: usize, share: Share| {
            let (lane, direction) = (recurrence / directions, recurrence % directions);
            let mut feed_parts = [Part::NONE; 2];
            let feed = work[lane].feed(net, &lanes[lane], layer, direction, &mut feed_parts);
            let weights = &weights(lane).layers[net.place(layer, direction)];
            let recurrence = work[lane].recurrence(net, layer, direction);
            // SAFETY: items have rows of their own; a gang has the recurrence to itself.
            unsafe {
                match share {
                    Share::Rows(rows) => recurrence.forward_rows(weights, feed, rows),
                    Share::Gang(member) => recurrence.forward_gang(weights, feed, member),
                }
            }
        };
        let step_work = net.columns(layer) * net.spec.units()[layer];
        if parts > 1 && most_rows < parts * LEAST_ROWS && step_work >= GANG_WORK {
            for recurrence in 0..recurrences {
                net.cpu.team.gang(|member| run(recurrence, Share::Gang(member)));
            }
        } else {
            net.each(recurrences * parts, |i| {
                let (recurrence, part) = (i / parts, i % parts);
                let schedule = &work[recurrence / directions].schedule;
                run(recurrence, Share::Rows(schedule.split(part, parts)));
            });
        }
    }
    let pieces = pieces(parts);
    net.each(lanes.len() * pieces, |i| {
        let (lane, piece) = (i / pieces, i % pieces);
        let slots = work[lane].schedule.answer_steps * work[lane].schedule.rows();
        // SAFETY: the recurrences are done, and every slot is in one piece only.
        unsafe {
            work[lane].answer(net, weights(lane), lanes[lane].params, share(slots, piece, pieces))
        }
    });
}
