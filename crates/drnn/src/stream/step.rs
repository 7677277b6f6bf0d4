//! One step of several live sequences: what [`crate::Stream`] and [`crate::StreamBatch`] share.
//!
//! States lie in slots, one per live sequence; a step names the slots that have an element, and the
//! kernels follow that index. Order of arithmetic is that of a whole run, so outputs are the same to
//! the bit.

use crate::cpu::buffer::Buffer;
use crate::cpu::team::{Member, share};
use crate::error::{Error, Result, check_finite, check_shape};
use crate::exec::net::{MIN_ROWS, Net};
use crate::exec::recur::{meet, own_units, wait};
use crate::exec::wavefront::Hold;
use crate::kernel::cells::CellForward;
use crate::kernel::pack::panel_count;
use crate::kernel::product::{Init, NULL_ROW, Product, Term, Terms};
use crate::model::Model;
use crate::model::batch::state_width;
use crate::spec::wiring::Candidate;
use crate::spec::{Direction, InputSpec, NetSpec, Padding};
use std::ops::Range;
use std::time::{Duration, Instant};

/// One element of a sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Element<'a> {
    /// A vector of q floats.
    Dense(&'a [f32]),
    /// A token.
    Token(u32),
}

impl<'a> From<&'a [f32]> for Element<'a> {
    fn from(x: &'a [f32]) -> Element<'a> {
        Element::Dense(x)
    }
}

impl<'a, const N: usize> From<&'a [f32; N]> for Element<'a> {
    fn from(x: &'a [f32; N]) -> Element<'a> {
        Element::Dense(x)
    }
}

impl From<u32> for Element<'_> {
    fn from(token: u32) -> Self {
        Element::Token(token)
    }
}

impl Element<'_> {
    /// Everything that can be wrong with element `step` of sequence `row`.
    pub(crate) fn check(&self, spec: &NetSpec, step: u64, row: usize) -> Result<()> {
        match (self, spec.input()) {
            (Element::Dense(x), InputSpec::Dense(q)) => {
                check_shape("x", x.len(), &[q])?;
                check_finite("x", x)
            }
            (Element::Token(token), InputSpec::Tokens { symbols, .. }) => {
                if (*token as usize) < symbols {
                    return Ok(());
                }
                Err(Error::Token { token: *token, step: step as usize, row, symbols })
            }
            (Element::Dense(_), InputSpec::Tokens { symbols, .. }) => {
                let expected = format!("tokens below {symbols}");
                Err(Error::InputKind { found: "a vector", expected })
            }
            (Element::Token(_), InputSpec::Dense(q)) => {
                let expected = format!("vectors of {q} values");
                Err(Error::InputKind { found: "a token", expected })
            }
        }
    }
}

/// Refuses networks that need the whole sequence before their first output.
pub(crate) fn check_streams(spec: &NetSpec) -> Result<()> {
    if spec.direction() == Direction::Bidirectional {
        return Err(Error::Stream(
            "a bidirectional network answers only when the sequence has ended; \
             use a delayed one, or `run` on whole sequences"
                .into(),
        ));
    }
    Ok(())
}

/// States of live sequences by slot, and memory for one step of them.
#[derive(Default)]
pub(crate) struct Steps {
    /// Per layer: h (slots, n), and c the same (empty for cells without it).
    h: Vec<Buffer>,
    c: Vec<Buffer>,
    slots: usize,
    /// What a sequence starts from, h and c of every layer; empty where that is zeros.
    start: Vec<f32>,
    /// Elements pushed, per slot; padding counts too.
    seen: Vec<u64>,
    /// How many there will have been when the slot is drained, once that is known.
    ends: Vec<Option<u64>>,
    /// The step: slots that have an element, and the element (a row of `x`, a token, padding).
    active: Vec<u32>,
    tokens: Vec<u32>,
    x: Buffer,
    gates: Buffer,
    outputs: Buffer,
    zeros: Buffer,
    /// Turns round at each step, see [`Product::backwards`].
    backwards: bool,
    /// When the last step was taken, where threads are there to share the next.
    last: Option<Instant>,
}

/// Multiplications from which sharing a step pays: its rows among threads, or its columns.
const ROWS_WORK: usize = 1_000_000;
const COLUMNS_WORK: usize = 150_000;
/// Threads stay awake this long after a job. A stream that is slower than this is stepped by its
/// caller alone: waking another thread would take longer than the step.
const AWAKE: Duration = Duration::from_micros(200);

impl Steps {
    /// No slots yet. Refuses networks that cannot stream, or whose start cannot be solved.
    pub fn new(model: &Model) -> Result<Steps> {
        check_streams(model.spec())?;
        let start = model.solved_start(None, 1, |_| true)?.unwrap_or_default();
        Ok(Steps { start: [start.h, start.c].concat(), ..Steps::default() })
    }

    /// Reserves memory for `slots` sequences; states of the first ones are kept.
    pub fn grow(&mut self, net: &Net, slots: usize) {
        if slots <= self.slots {
            return;
        }
        let spec = net.spec;
        self.h.resize_with(spec.layers(), Default::default);
        self.c.resize_with(spec.layers(), Default::default);
        for (layer, &n) in spec.units().iter().enumerate() {
            let with_c = spec.cell().has_cell_state();
            for part in [Some(&mut self.h[layer]), with_c.then_some(&mut self.c[layer])] {
                let Some(part) = part else { continue };
                let mut larger = Buffer::default();
                larger.reserve(slots * n);
                larger.slice_mut(slots * n).fill(0.0);
                let saved = self.slots * n;
                larger.slice_mut(saved).copy_from_slice(part.slice(saved));
                *part = larger;
            }
        }
        let columns = (0..spec.layers()).map(|layer| net.columns(layer)).max().unwrap_or(0);
        self.x.reserve(slots * spec.input().width());
        self.gates.reserve(slots * columns);
        self.outputs.reserve(slots * spec.output_width());
        self.zeros.reserve(spec.input().width());
        self.seen.resize(slots, 0);
        self.ends.resize(slots, None);
        if !self.start.is_empty() {
            (self.slots..slots).for_each(|slot| self.reset(net, slot));
        }
        self.active.reserve(slots);
        self.tokens.reserve(slots);
        self.slots = slots;
    }

    /// The state that a sequence starts from, nothing seen.
    pub fn reset(&mut self, net: &Net, slot: usize) {
        let start = std::mem::take(&mut self.start);
        let mut from = start.as_slice();
        self.each_state(net, slot, |state| match from.split_at_checked(state.len()) {
            Some((first, rest)) if !start.is_empty() => {
                state.copy_from_slice(first);
                from = rest;
            }
            _ => state.fill(0.0),
        });
        self.start = start;
        self.set_seen(slot, 0);
    }

    /// Elements pushed into a slot.
    pub fn seen(&self, slot: usize) -> u64 {
        self.seen[slot]
    }

    pub fn set_seen(&mut self, slot: usize, seen: u64) {
        (self.seen[slot], self.ends[slot]) = (seen, None);
    }

    /// Visits h and c of every layer, in a fixed order.
    pub fn each_state(&mut self, net: &Net, slot: usize, mut visit: impl FnMut(&mut [f32])) {
        for (layer, &n) in net.spec.units().iter().enumerate() {
            visit(&mut self.h[layer].slice_mut((slot + 1) * n)[slot * n..]);
            if net.spec.cell().has_cell_state() {
                visit(&mut self.c[layer].slice_mut((slot + 1) * n)[slot * n..]);
            }
        }
    }

    /// Floats that [`Steps::each_state`] visits.
    pub fn state_len(spec: &NetSpec) -> usize {
        state_width(spec) * if spec.cell().has_cell_state() { 2 } else { 1 }
    }

    /// Begins a step.
    pub fn clear(&mut self) {
        self.active.clear();
        self.tokens.clear();
    }

    /// Adds a slot and its element, which was checked.
    pub fn add(&mut self, net: &Net, slot: usize, element: Element) {
        let (i, q) = (self.active.len(), net.spec.input().width());
        self.active.push(slot as u32);
        match element {
            Element::Dense(x) => self.x.slice_mut((i + 1) * q)[i * q..].copy_from_slice(x),
            Element::Token(token) => self.tokens.push(token),
        }
    }

    /// Adds a slot that reads the padding of its delay.
    pub fn add_padding(&mut self, net: &Net, slot: usize) {
        let (i, q) = (self.active.len(), net.spec.input().width());
        self.active.push(slot as u32);
        match (net.spec.input(), net.spec.padding()) {
            (InputSpec::Dense(_), _) => self.x.slice_mut((i + 1) * q)[i * q..].fill(0.0),
            (_, Padding::Symbol(id)) => self.tokens.push(id),
            _ => self.tokens.push(NULL_ROW),
        }
    }

    /// Takes the step.
    pub fn run(&mut self, net: &Net, model: &Model) {
        let rows = self.active.len();
        if rows == 0 {
            return;
        }
        let threads = net.cpu.threads();
        let work = rows * net.spec.parameters();
        self.backwards = !self.backwards;
        let mut awake = false;
        if threads > 1 {
            let now = Instant::now();
            awake = self.last.is_some_and(|last| now - last < AWAKE);
            self.last = Some(now);
        }
        let this = &*self;
        if rows >= threads * MIN_ROWS && work >= ROWS_WORK {
            net.cpu.team.each(threads, |part| {
                // SAFETY: each part has rows of its own, and slots appear once in a step.
                unsafe { this.run_rows(net, model, share(rows, part, threads), None) }
            });
        } else if awake && work >= COLUMNS_WORK {
            // SAFETY: the parallel region has all rows, and each member columns of its own.
            net.cpu.team.parallel_region(|member| unsafe {
                this.run_rows(net, model, 0..rows, Some(member))
            });
        } else {
            // SAFETY: all rows are ours.
            net.cpu.team.each(1, |_| unsafe { this.run_rows(net, model, 0..rows, None) });
        }
        for &slot in &self.active {
            let seen = &mut self.seen[slot as usize];
            *seen = seen.saturating_add(1);
        }
    }

    /// Reads padding until every output that `slots` still owe is out; they come in order. There are
    /// none where nothing was read, or for elements that were there only to be looked at.
    pub fn drain(
        &mut self,
        net: &Net,
        model: &Model,
        slots: impl Iterator<Item = usize> + Clone,
        mut output: impl FnMut(usize, &[f32]),
    ) {
        // What was there only to be looked at has been read.
        let steps = net.spec.delay() - net.spec.look_ahead();
        for slot in slots.clone() {
            self.ends[slot] = Some(self.seen[slot].saturating_add(steps as u64));
        }
        for _ in 0..steps {
            self.clear();
            for slot in slots.clone() {
                if self.seen[slot] > 0 {
                    self.add_padding(net, slot);
                }
            }
            self.run(net, model);
            self.outputs(net.spec).for_each(|(slot, row)| output(slot, row));
        }
    }

    /// # Safety
    /// Nobody else has these rows of the step, but for the other members of a parallel region, and no slot
    /// appears twice.
    unsafe fn run_rows(
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
        let (spec, n, columns) = (net.spec, net.spec.units()[layer], net.columns(layer));
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
                        let below = spec.units()[layer - 1];
                        term = Term::rows(self.h[layer - 1].ptr(), below, below, w.ptr());
                        term.index = active;
                    }
                }
                terms.push(term);
            }
            if let Some(from) = &group.h {
                let h = self.h[layer].ptr().wrapping_add(from.units.start);
                let mut term = Term::rows(h, n, from.units.len(), weights.h(from.at).ptr());
                term.index = active;
                terms.push(term);
            }
            let panels = panel_count(cols.len(), net.cpu.kernels.width);
            // SAFETY: rows of this part, and slots below `self.slots`; buffers hold that many.
            unsafe {
                (net.cpu.kernels.product)(&Product {
                    rows: rows.len(),
                    cols: cols.len(),
                    panels: member.map_or(0..panels, |m| m.share(panels, number)),
                    backwards: self.backwards,
                    c: self.gates.shared().at(rows.start * columns + cols.start),
                    c_stride: columns,
                    init: Init::Rows { from: weights.bias.ptr().add(cols.start), stride: 0 },
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
                (net.cpu.kernels.product)(&Product {
                    rows: rows.len(),
                    cols: cols.len(),
                    panels: member.map_or(0..panels, |m| m.share(panels, number)),
                    backwards: self.backwards,
                    c,
                    c_stride: columns,
                    init: Init::Rows { from: c, stride: columns },
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
        let at = self.active[row] as usize * n;
        // SAFETY: rows of the step, and slots below `self.slots`.
        unsafe {
            CellForward {
                rows: 1,
                units: n,
                from: units.start,
                to: units.end,
                gates: self.gates.shared().at(row * columns),
                save: false,
                h_prev: h.add(at),
                c_prev: c.wrapping_add(at),
                c: c.wrapping_add(at),
                h: h.add(at),
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

    /// # Safety
    /// As [`Steps::run_rows`].
    unsafe fn output(&self, net: &Net, model: &Model, rows: Range<usize>, member: Option<&Member>) {
        if member.is_some_and(|m| m.index > 0) {
            return; // too little to share
        }
        let (m, last) = (net.spec.output_width(), net.spec.layers() - 1);
        let (n, h) = (net.spec.units()[last], self.h[last].ptr());
        let units = net.spec.output_units();
        // SAFETY: rows of this part.
        unsafe {
            let to = self.outputs.shared().at(rows.start * m);
            if net.spec.outputs().is_some() {
                let mut terms = Terms::new();
                let mut term = Term::rows(h.add(units.start), n, units.len(), std::ptr::null());
                term.index = self.active[rows.start..].as_ptr();
                terms.push(term);
                net.output(&model.weights, &model.params, rows.len(), to, &mut terms);
            } else {
                for (i, &slot) in self.active[rows].iter().enumerate() {
                    let h = h.add(slot as usize * n + units.start);
                    std::ptr::copy_nonoverlapping(h, to.add(i * m), m);
                }
            }
        }
    }

    /// The slots of the last step and their outputs; none while a delay is still filling.
    pub fn outputs<'a>(&'a self, spec: &'a NetSpec) -> impl Iterator<Item = (usize, &'a [f32])> {
        let m = spec.output_width();
        let rows = self.outputs.slice(self.active.len() * m).chunks_exact(m);
        self.active.iter().zip(rows).filter_map(move |(&slot, row)| {
            let slot = slot as usize;
            (self.seen[slot] > spec.delay() as u64).then_some((slot, row))
        })
    }
}
