//! One step of several live sequences: what [`crate::Stream`] and [`crate::StreamBatch`] share.
//!
//! States lie in slots, one per live sequence; a step names the slots that have an element, and the
//! kernels follow that index. Order of arithmetic is that of a whole run, so outputs are the same to
//! the bit.

use crate::cpu::buffer::Buffer;
use crate::cpu::team::share;
use crate::error::{Error, Result, check_finite, check_shape};
use crate::exec::net::{MIN_ROWS, Net};
use crate::kernel::product::NULL_ROW;
use crate::model::Model;
use crate::model::batch::{cell_state_width, state_width};
use crate::prelude::*;
use crate::spec::{Direction, InputSpec, NetSpec, Padding};
#[cfg(feature = "std")]
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
    /// Per layer: h (slots, hidden), and c (slots, n; empty for cells without it).
    pub(super) h: Vec<Buffer>,
    pub(super) c: Vec<Buffer>,
    slots: usize,
    /// What a sequence starts from, h and c of every layer; empty where that is zeros.
    start: Vec<f32>,
    /// Elements pushed, per slot; padding counts too.
    pub(super) seen: Vec<u64>,
    /// How many there will have been when the slot is drained, once that is known.
    pub(super) ends: Vec<Option<u64>>,
    /// The step: slots that have an element, and the element (a row of `x`, a token, padding).
    pub(super) active: Vec<u32>,
    pub(super) tokens: Vec<u32>,
    pub(super) x: Buffer,
    pub(super) gates: Buffer,
    /// Where h is projected: what it is made of, and h before it goes to its slot; a row per active slot.
    pub(super) unprojected: Buffer,
    pub(super) projected: Buffer,
    pub(super) outputs: Buffer,
    pub(super) zeros: Buffer,
    /// Turns round at each step, see [`crate::kernel::product::Product::backwards`].
    pub(super) backwards: bool,
    /// When the last step was taken, where threads are there to share the next.
    #[cfg(feature = "std")]
    last: Option<Instant>,
}

/// Multiplications from which sharing a step pays: its rows among threads, or its columns.
const ROWS_WORK: usize = 1_000_000;
const COLUMNS_WORK: usize = 150_000;
/// Threads stay awake this long after a job. A stream that is slower than this is stepped by its
/// caller alone: waking another thread would take longer than the step.
#[cfg(feature = "std")]
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
            let h = Some((&mut self.h[layer], spec.hidden(layer)));
            let parts = [h, with_c.then_some((&mut self.c[layer], n))];
            for (part, n) in parts.into_iter().flatten() {
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
        if let Some(p) = spec.projection() {
            let widest = spec.units().iter().max().copied().unwrap_or(0);
            self.unprojected.reserve(slots * widest);
            self.projected.reserve(slots * p);
        }
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
        let start = core::mem::take(&mut self.start);
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
            let hidden = net.spec.hidden(layer);
            visit(&mut self.h[layer].slice_mut((slot + 1) * hidden)[slot * hidden..]);
            if net.spec.cell().has_cell_state() {
                visit(&mut self.c[layer].slice_mut((slot + 1) * n)[slot * n..]);
            }
        }
    }

    /// Floats that [`Steps::each_state`] visits.
    pub fn state_len(spec: &NetSpec) -> usize {
        state_width(spec) + cell_state_width(spec)
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
        let awake = threads > 1 && self.awake();
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

    /// Whether other threads are still awake from the last step. They look at a clock, so this is not
    /// for a team of one: wasm32-unknown-unknown has none.
    #[cfg(feature = "std")]
    fn awake(&mut self) -> bool {
        let now = Instant::now();
        self.last.replace(now).is_some_and(|last| now - last < AWAKE)
    }

    /// There are no other threads.
    #[cfg(not(feature = "std"))]
    fn awake(&mut self) -> bool {
        false
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
