//! A whole network backward over lanes, to one flat gradient per lane.
//!
//! ```text
//! for each layer, the last first
//!     dgates          from above and from the next step            (recur)
//!     [dW_hh db dW_ih] = dgates^T [h_{t-1} 1 x_t]                  (layer_gradient)
//! dx = dgates W_ih                                                 where it is requested
//! ```
//!
//! The gradient that a layer hands down is never stored: the layer below multiplies the gates'
//! gradients by `W_ih` within its own steps. Items of a phase write disjoint rows or columns.

pub(crate) mod gradient;
pub(crate) mod layer_gradient;
pub(crate) mod outer;
pub(crate) mod recur;
pub(crate) mod tape;
pub(crate) mod work;

use crate::backward::gradient::Gradient;
use crate::backward::layer_gradient::{LayerGradient, Targets};
use crate::backward::outer::OuterWork;
use crate::backward::recur::{BackwardArgs, Upstream};
use crate::backward::work::BackWork;
use crate::cpu::buffer::Slots;
use crate::cpu::team::Member;
use crate::cpu::team::share;
use crate::exec::net::{Net, pieces};
use crate::exec::pass::{Lane, LaneWork, max_rows};
use crate::exec::weights::{Way, Weights};
use crate::prelude::*;
use crate::spec::mask::clear_outside;
use core::ops::Range;

/// Runs all lanes backward, after [`crate::exec::pass::forward`] with `save`. `weights` holds each lane's packed
/// weights; `outer` is memory for their gradients, grown to one per item.
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
    let items = lanes.len() * directions * net.parts(lanes.len() * directions);
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
        // SAFETY: each item has a lane of its own, and a workspace for each of its directions.
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
    let targets = Slots::new(gradients);
    let (weight_slots, back_slots) = (Slots::new(weights), Slots::new(back));
    net.each(lanes.len(), |i| {
        // SAFETY: the slices are as long as `lanes`, and each item has its own element.
        let (weights, back, gradient) =
            unsafe { (weight_slots.get(i), back_slots.get(i), targets.get(i)) };
        let input = net.layout.embedding().is_some() || gradient.input.is_some();
        weights.set(&net.cpu.team, Way::Backward, input, net.spec, net.layout, lanes[i].params);
        back.prepare(net, &lanes[i], &work[i], gradient);
    });
    let parts = net.parts(lanes.len() * net.directions());
    let workspace = Slots::new(outer);
    let phases = Phases { net, lanes, weights, work, back, gradients, workspace, parts };
    phases.output();
    phases.layers();
    phases.input();
    phases.embedding();
    for (lane, gradient) in gradients.iter_mut().enumerate() {
        if let Some(start) = &mut gradient.start {
            back[lane].start(net, &work[lane], start);
        }
        clear_outside(net.spec, net.layout, gradient.params);
    }
}

/// What the phases share. Most are cut into items: (lane, direction, part of rows or columns).
struct Phases<'a> {
    net: &'a Net<'a>,
    lanes: &'a [Lane<'a>],
    weights: &'a [Weights],
    work: &'a [LaneWork],
    back: &'a [BackWork],
    gradients: &'a [Gradient<'a>],
    /// One per item.
    workspace: Slots<OuterWork>,
    parts: usize,
}

/// What one thread does of a recurrence's backward pass: an item's rows, calling after each step, some steps of
/// all rows, or its part in a parallel region.
enum Share<'a> {
    Rows(&'a mut dyn FnMut(usize)),
    All(Range<usize>),
    Parallel(&'a Member<'a>),
}

impl Phases<'_> {
    fn items(&self) -> usize {
        self.lanes.len() * self.net.directions() * self.parts
    }

    /// Lane, direction and part of an item.
    fn item(&self, i: usize) -> (usize, usize, usize) {
        let (recurrence, part) = (i / self.parts, i % self.parts);
        let directions = self.net.directions();
        (recurrence / directions, recurrence % directions, part)
    }

    /// The output layer's own gradients.
    fn output(&self) {
        self.net.each(self.items(), |i| {
            let (lane, direction, part) = self.item(i);
            let (outputs, params) = (self.gradients[lane].outputs, self.back[lane].target.params);
            let columns = (part, self.parts);
            // SAFETY: items have separate columns and workspaces.
            unsafe {
                let workspace = self.workspace.get(i);
                outer::output(
                    self.net,
                    &self.work[lane],
                    outputs,
                    direction,
                    columns,
                    params,
                    workspace,
                );
            }
        });
    }

    /// Back through all layers, and the gradients of their weights.
    fn layers(&self) {
        let layers = self.net.spec.layers();
        if !self.net.in_waves(self.lanes.len(), max_rows(self.lanes)) || self.drops() {
            return (0..layers).rev().for_each(|layer| self.layer(layer));
        }
        // As forward, with layers and steps counted from the last.
        let all = self.work[0].schedule.alive.len();
        self.net.cpu.team.parallel_region(|_| {
            self.back[0].waves.run(|layer, steps| {
                let steps = all - steps.end..all - steps.start;
                self.recur(0, layers - 1 - layer, Share::All(steps));
            });
        });
        // SAFETY: items have columns of their own, and all rows are complete.
        let gradient = |i, layer| unsafe { self.layer_gradient(i, layer).finish() };
        (0..layers).for_each(|layer| self.net.each(self.items(), |i| gradient(i, layer)));
    }

    /// Whether the pass has dropout.
    fn drops(&self) -> bool {
        self.work.iter().any(|work| work.dropout.is_some())
    }

    /// With dropout: the gradient from above, whole and times the factors of the forward pass, in place
    /// of what the layer passed on, which nobody reads any more.
    fn drop_gradient(&self, layer: usize) {
        let (directions, pieces) = (self.net.directions(), pieces(self.parts));
        self.net.each(self.lanes.len() * directions * pieces, |i| {
            let (recurrence, piece) = (i / pieces, i % pieces);
            let (lane, direction) = (recurrence / directions, recurrence % directions);
            let (weights, work) = (&self.weights[lane], &self.work[lane]);
            let outputs = self.gradients[lane].outputs;
            let rows = share(work.schedule.total(), piece, pieces);
            // SAFETY: the layer above is done, and every row is in one piece only.
            unsafe {
                self.back[lane].drop_gradient(
                    self.net,
                    weights,
                    work,
                    outputs,
                    (layer, direction),
                    rows,
                );
            }
        });
    }

    /// Back through a layer's steps, and the gradients of its weights. A thread that has all rows of
    /// a recurrence adds each block of them while it is in cache; where rows are shared, columns are
    /// shared out anew when all are done.
    fn layer(&self, layer: usize) {
        if self.drops() {
            self.drop_gradient(layer);
        }
        if self.parts == 1 {
            self.net.each(self.items(), |i| {
                let (lane, ..) = self.item(i);
                let offsets = &self.work[lane].schedule.offsets;
                let mut gradient = self.layer_gradient(i, layer);
                // SAFETY: all columns are this item's, and rows from step t on are complete.
                let mut add = |t: usize| unsafe { gradient.down_to(offsets[t]) };
                self.recur(i, layer, Share::Rows(&mut add));
                // SAFETY: as above, for all rows.
                unsafe { gradient.finish() }
            });
        } else {
            if self.net.shares_columns(self.parts, max_rows(self.lanes), layer) {
                for i in (0..self.items()).step_by(self.parts) {
                    self.net
                        .cpu
                        .team
                        .parallel_region(|member| self.recur(i, layer, Share::Parallel(member)));
                }
            } else {
                self.net.each(self.items(), |i| self.recur(i, layer, Share::Rows(&mut |_| {})));
            }
            // SAFETY: items have columns of their own, and all rows are complete.
            self.net.each(self.items(), |i| unsafe { self.layer_gradient(i, layer).finish() });
        }
    }

    /// Back through the steps of an item's rows, or in a parallel region those of all rows.
    fn recur(&self, i: usize, layer: usize, share: Share) {
        let (lane, direction, part) = self.item(i);
        let (net, work, back) = (self.net, &self.work[lane], &self.back[lane]);
        let (weights, outputs) = (&self.weights[lane], self.gradients[lane].outputs);
        let place = net.place(layer, direction);
        let upstream = &match work.dropout {
            Some(_) => {
                Upstream::made(work.passed_on(net, layer, direction), net.spec.hidden(layer))
            }
            None => back.upstream(net, weights, work, outputs, layer, direction),
        };
        let ends = back.ends(net, place, back.target.start);
        let args = BackwardArgs { weights: &weights.layers[place], upstream, ends };
        let recurrence = work.recurrence(net, layer, direction);
        // SAFETY: items have rows of their own, a parallel region the recurrence; the layer above is done.
        unsafe {
            match share {
                Share::Rows(after_step) => {
                    let rows = work.schedule.split(part, self.parts);
                    recurrence.backward_rows(args, rows, recurrence.steps(), after_step);
                }
                Share::All(steps) => {
                    let rows = 0..work.schedule.rows();
                    recurrence.backward_rows(args, rows, steps, &mut |_| {});
                }
                Share::Parallel(member) => recurrence.backward_parallel(args, member),
            }
        }
    }

    fn layer_gradient(&self, i: usize, layer: usize) -> LayerGradient<'_> {
        let (lane, direction, part) = self.item(i);
        let back = &self.back[lane];
        let table = back.table[direction].shared();
        let d_hidden = back.d_hidden(self.net.place(layer, direction));
        let targets = Targets { params: back.target.params, table, d_hidden };
        // SAFETY: each item has its own workspace.
        let workspace = unsafe { self.workspace.get(i) };
        let (at, columns) = ((layer, direction), (part, self.parts));
        LayerGradient::new(
            self.net,
            &self.lanes[lane],
            &self.work[lane],
            at,
            columns,
            targets,
            workspace,
        )
    }

    /// Gradients of dense input, for the lanes that want them.
    fn input(&self) {
        let pieces = pieces(self.parts);
        self.net.each(self.lanes.len() * pieces, |i| {
            let (lane, piece) = (i / pieces, i % pieces);
            let back = &self.back[lane];
            if let Some(to) = back.target.input {
                let batch = &self.lanes[lane].batch;
                let slots = share(batch.steps() * batch.rows(), piece, pieces);
                // SAFETY: the first layer is done, and every slot is in one piece only.
                unsafe { back.input(self.net, &self.weights[lane], &self.work[lane], to, slots) }
            }
        });
    }

    /// Gradients of what token input is made of.
    fn embedding(&self) {
        if self.net.layout.embedding().is_none() {
            return;
        }
        self.net.each(self.lanes.len(), |lane| {
            let (weights, work) = (&self.weights[lane], &self.work[lane]);
            // SAFETY: one item per lane, and at least one workspace per lane.
            unsafe {
                let workspace = self.workspace.get(lane);
                self.back[lane].embedding(self.net, weights, &self.lanes[lane], work, workspace);
            }
        });
    }
}
