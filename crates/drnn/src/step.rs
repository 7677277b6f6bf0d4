//! One step of several live sequences: what [`crate::Stream`] and [`crate::StreamBatch`] share.
//!
//! States lie in slots, one per live sequence; a step names the slots that have an element, and the
//! kernels follow that index. Order of arithmetic is that of a whole run, so answers are the same to
//! the bit.

use crate::batch::state_width;
use crate::buffer::{Buffer, Shared};
use crate::error::{Error, Result, check_finite, check_shape};
use crate::kernel::cells::CellForward;
use crate::kernel::product::{Init, NULL_ROW};
use crate::model::Model;
use crate::pass::{Net, share};
use crate::recur::{Terms, rows_term};
use crate::spec::{Direction, InputSpec, NetSpec, Padding};
use crate::weights::Group;
use std::ops::Range;

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

/// Refuses networks that need the whole sequence before their first answer.
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

/// States of live sequences by slot, and room for one step of them.
#[derive(Default)]
pub(crate) struct Steps {
    /// Per layer: h (slots, n), and c the same or empty.
    h: Vec<Buffer>,
    c: Vec<Buffer>,
    slots: usize,
    /// Elements pushed, per slot; padding counts too.
    seen: Vec<u64>,
    /// The step: slots that have an element, and the element (a row of `x`, a token, padding).
    active: Vec<u32>,
    tokens: Vec<u32>,
    x: Buffer,
    gates: Buffer,
    answers: Buffer,
    zeros: Buffer,
}

/// Multiplications from which a second thread pays.
const TEAM_WORK: usize = 1_000_000;

impl Steps {
    /// Makes room for `slots` sequences; states of the first ones are kept.
    pub fn grow(&mut self, net: &Net, slots: usize) {
        if slots <= self.slots {
            return;
        }
        let spec = net.spec;
        self.h.resize_with(spec.layers(), Default::default);
        self.c.resize_with(spec.layers(), Default::default);
        for (layer, &n) in spec.units().iter().enumerate() {
            for part in [&mut self.h[layer], &mut self.c[layer]] {
                let mut larger = Buffer::default();
                larger.reserve(slots * n);
                larger.slice_mut(slots * n).fill(0.0);
                let kept = self.slots * n;
                larger.slice_mut(kept).copy_from_slice(part.slice(kept));
                *part = larger;
            }
        }
        let columns = (0..spec.layers()).map(|layer| net.columns(layer)).max().unwrap_or(0);
        self.x.reserve(slots * spec.input().width());
        self.gates.reserve(slots * columns);
        self.answers.reserve(slots * spec.answer_width());
        self.zeros.reserve(spec.input().width());
        self.seen.resize(slots, 0);
        self.active.reserve(slots);
        self.tokens.reserve(slots);
        self.slots = slots;
    }

    /// Zero states, nothing seen.
    pub fn reset(&mut self, net: &Net, slot: usize) {
        self.each_state(net, slot, |state| state.fill(0.0));
        self.seen[slot] = 0;
    }

    /// Elements pushed into a slot.
    pub fn seen(&self, slot: usize) -> u64 {
        self.seen[slot]
    }

    pub fn set_seen(&mut self, slot: usize, seen: u64) {
        self.seen[slot] = seen;
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
        let threads = net.cpu.threads().min(rows.div_ceil(net.cpu.kernels.rows));
        let parts = if rows * net.spec.parameters() < TEAM_WORK { 1 } else { threads };
        let this = &*self;
        net.cpu.team.each(parts, |part| {
            // SAFETY: each part has rows of its own, and slots appear once in a step.
            unsafe { this.run_rows(net, model, share(rows, part, parts)) }
        });
        for &slot in &self.active {
            self.seen[slot as usize] += 1;
        }
    }

    /// # Safety
    /// Nobody else has these rows of the step, and no slot appears twice.
    unsafe fn run_rows(&self, net: &Net, model: &Model, rows: Range<usize>) {
        let (spec, kernels) = (net.spec, net.cpu.kernels);
        let active = &self.active[rows.clone()];
        // SAFETY: rows of this part, and slots below `self.slots`; buffers were made for that many.
        unsafe {
            for (layer, &n) in spec.units().iter().enumerate() {
                let columns = net.columns(layer);
                let weights = &model.weights.layers[layer];
                let gates = self.gates.ptr().cast_mut().add(rows.start * columns);
                let h = Shared(self.h[layer].ptr().cast_mut());
                let c = Shared(self.c[layer].ptr().cast_mut());
                for (group, matrices) in Group::of(spec.cell()).iter().zip(&weights.groups) {
                    let cols = group.columns(n);
                    let mut terms = Terms::new();
                    for w in &matrices.x {
                        terms.push(match (layer, spec.input()) {
                            (0, InputSpec::Dense(q)) => {
                                rows_term(self.x.ptr(), q, q, w.ptr()).from_row(rows.start)
                            }
                            (0, InputSpec::Tokens { embedding: e, .. }) => {
                                let table = net.layout.embedding().unwrap_or_default();
                                let table = model.params[table].as_ptr();
                                let mut term = rows_term(table, e, e, w.ptr());
                                (term.index, term.zeros) = (self.tokens.as_ptr(), self.zeros.ptr());
                                term.from_row(rows.start)
                            }
                            (layer, _) => {
                                let below = spec.units()[layer - 1];
                                let h = self.h[layer - 1].ptr();
                                let mut term = rows_term(h, below, below, w.ptr());
                                term.index = active.as_ptr();
                                term
                            }
                        });
                    }
                    if let Some(w) = &matrices.h {
                        let mut term = rows_term(h.0, n, n, w.ptr());
                        term.index = active.as_ptr();
                        terms.push(term);
                    }
                    let bias = weights.bias.ptr().add(cols.start);
                    let init = Init::Rows { from: bias, stride: 0 };
                    let to = gates.add(cols.start);
                    net.product(rows.len(), cols.len(), to, columns, init, terms.as_slice());
                }
                for (i, &slot) in active.iter().enumerate() {
                    let at = slot as usize * n;
                    kernels.forward(spec.cell())(&CellForward {
                        rows: 1,
                        units: n,
                        from: 0,
                        to: n,
                        gates: gates.add(i * columns),
                        h_prev: h.at(at),
                        c_prev: c.at(at),
                        c: c.at(at),
                        h: h.at(at),
                    });
                }
            }
            self.answer(net, model, rows);
        }
    }

    /// # Safety
    /// As [`Steps::run_rows`].
    unsafe fn answer(&self, net: &Net, model: &Model, rows: Range<usize>) {
        let (m, last) = (net.spec.answer_width(), net.spec.layers() - 1);
        let (n, h) = (net.spec.units()[last], self.h[last].ptr());
        let to = self.answers.ptr().cast_mut();
        // SAFETY: rows of this part.
        unsafe {
            let to = to.add(rows.start * m);
            if let Some([_, bias]) = net.layout.output() {
                let mut term = rows_term(h, n, n, model.weights.output[0].ptr());
                term.index = self.active[rows.start..].as_ptr();
                let init = Init::Rows { from: model.params[bias].as_ptr(), stride: 0 };
                net.product(rows.len(), m, to, m, init, &[term]);
            } else {
                for (i, &slot) in self.active[rows].iter().enumerate() {
                    std::ptr::copy_nonoverlapping(h.add(slot as usize * n), to.add(i * m), m);
                }
            }
        }
    }

    /// The slots of the last step and their answers; none while a delay is still filling.
    pub fn answers<'a>(&'a self, spec: &'a NetSpec) -> impl Iterator<Item = (usize, &'a [f32])> {
        let m = spec.answer_width();
        let rows = self.answers.slice(self.active.len() * m).chunks_exact(m);
        self.active.iter().zip(rows).filter_map(move |(&slot, row)| {
            let slot = slot as usize;
            (self.seen[slot] > spec.delay() as u64).then_some((slot, row))
        })
    }
}
