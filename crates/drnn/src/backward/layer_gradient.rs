//! Gradients of one layer's weights and biases, block after block of packed rows.
//!
//! ```text
//! [dW_hh db dW_ih]^T = F^T G       F = [h_{t-1} 1 x_t]       G = gradients of the gates
//! ```
//!
//! F ends with `r h_{t-1}` where that is what a GRU's candidate reads. A projection has a product of its
//! own: `dW_hr^T = Y^T dH`, Y being what is projected.
//!
//! Blocks are taken from the last row to the first, as the backward pass finishes them: a thread that
//! has a recurrence to itself adds each block while it is still in cache.

use crate::backward::outer::{BLOCK, OuterWork, feature_stride, transpose};
use crate::cpu::buffer::Shared;
use crate::cpu::team::share_vectors;
use crate::exec::net::Net;
use crate::exec::pass::{Lane, LaneWork};
use crate::exec::recur::{Feed, FeedPart};
use crate::spec::wiring::{Candidate, Group, Rows, Wiring};
use core::ops::Range;

/// Where the gradients go.
#[derive(Clone, Copy)]
pub(crate) struct Targets {
    /// The flat gradient.
    pub params: Shared,
    /// Gradient of the table of symbols, if that is what feeds the layer: (symbols + 1, columns). It
    /// stands for `weight_ih`'s.
    pub table: Shared,
    /// Where h is projected: its gradient, (N, hidden).
    pub d_hidden: Shared,
}

/// What is summed for one group of gate columns.
#[derive(Clone, Default)]
pub(crate) struct Share {
    /// This item's columns among the gates', and where among the group's they begin.
    columns: Range<usize>,
    first: usize,
    /// Of F: the units of h that feed the group, and the rest; or those of r h.
    features: [Range<usize>; 2],
    /// Where the sums lie: (all features, columns)
    sums: usize,
    sums_stride: usize,
}

/// Features of a layer, the width of F: `[h 1 x]`, and `r h` where it is read.
pub(crate) fn features(wiring: &Wiring, n: usize, q: usize) -> usize {
    n + 1 + q + if wiring.candidates.is_empty() { 0 } else { n }
}

/// Where F has these units of `r h`.
fn gated(n: usize, q: usize, units: &Range<usize>) -> Range<usize> {
    let first = n + 1 + q;
    first + units.start..first + units.end
}

/// What is summed for a projection: `dW_hr`, for this item's columns of dH.
#[derive(Clone)]
struct Projection {
    columns: Range<usize>,
    /// Units, the width of Y.
    units: usize,
    /// Where the sums lie: (units, columns)
    sums: usize,
    sums_stride: usize,
}

/// Sums in progress for one item: some columns of (layer, direction).
pub(crate) struct LayerGradient<'a> {
    net: &'a Net<'a>,
    work: &'a LaneWork,
    layer: usize,
    direction: usize,
    parts: [FeedPart; 2],
    targets: Targets,
    workspace: &'a mut OuterWork,
    /// Width of h.
    n: usize,
    q: usize,
    projection: Option<Projection>,
    /// Packed rows from here on are summed.
    done: usize,
}

impl<'a> LayerGradient<'a> {
    /// Nothing summed yet. `part` of `parts` is this item's share of the columns.
    pub fn new(
        net: &'a Net<'a>,
        lane: &Lane,
        work: &'a LaneWork,
        (layer, direction): (usize, usize),
        (part, parts): (usize, usize),
        targets: Targets,
        workspace: &'a mut OuterWork,
    ) -> LayerGradient<'a> {
        let (n, width) = (net.spec.hidden(layer), net.cpu.kernels.width);
        let mut feed_parts = [FeedPart::NONE; 2];
        let q = match work.feed(net, lane, layer, direction, &mut feed_parts) {
            Feed::Table { .. } => 0,
            Feed::Rows(parts) => parts.iter().map(|p| p.width).sum(),
        };
        let wiring = net.layout.wiring(layer);
        let all = features(wiring, n, q);
        let mut sums = 0;
        workspace.shares.clear();
        let mut add = |columns: &Range<usize>, features: [Range<usize>; 2]| {
            let own = share_vectors(columns.len(), width, part, parts);
            let share = Share {
                first: own.start,
                features,
                sums,
                sums_stride: own.len().next_multiple_of(width),
                columns: columns.start + own.start..columns.start + own.end,
            };
            sums += all * share.sums_stride;
            workspace.shares.push(share);
        };
        for group in &wiring.groups {
            let h = group.h.as_ref().map_or(n..n, |h| h.units.clone());
            let rest = n..if group.x.is_some() { n + 1 + q } else { n + 1 };
            add(&group.columns, if h.end == n { [h.start..rest.end, 0..0] } else { [h, rest] });
        }
        for Candidate { columns, h } in &wiring.candidates {
            add(columns, [gated(n, q, &h.units), 0..0]);
        }
        let projection = net.spec.projection().map(|p| {
            let columns = share_vectors(p, width, part, parts);
            let sums_stride = columns.len().next_multiple_of(width);
            Projection { columns, units: net.spec.units()[layer], sums, sums_stride }
        });
        sums += projection.as_ref().map_or(0, |p| p.units * p.sums_stride);
        workspace.features.reserve(BLOCK * feature_stride(all));
        workspace.sums.reserve(sums);
        let done = work.schedule.total();
        if done == 0 {
            workspace.sums.slice_mut(sums).fill(0.0);
        }
        let parts = feed_parts;
        LayerGradient {
            net,
            work,
            layer,
            direction,
            parts,
            targets,
            workspace,
            n,
            q,
            projection,
            done,
        }
        .with_empty_table()
    }

    /// Number `i` of the groups, and what is summed for it.
    fn group(&self, i: usize) -> (&'a Group, Share) {
        (&self.net.layout.wiring(self.layer).groups[i], self.workspace.shares[i].clone())
    }

    fn groups(&self) -> Range<usize> {
        0..self.net.layout.wiring(self.layer).groups.len()
    }

    /// The index into the table of symbols, if that is what feeds the layer.
    fn table_index(&self) -> Option<&'a [u32]> {
        (self.q == 0).then(|| self.work.table.index[self.direction].as_slice())
    }

    /// This item's columns of a row of the table's gradient.
    ///
    /// # Safety
    /// Only the item that owns the columns calls this, for a row of the table.
    unsafe fn table_row(&self, row: usize, columns: &Range<usize>) -> &'a mut [f32] {
        let at = row * self.net.columns(self.layer) + columns.start;
        // SAFETY: within (symbols + 1, columns), by the caller's promise.
        unsafe { core::slice::from_raw_parts_mut(self.targets.table.at(at), columns.len()) }
    }

    fn with_empty_table(self) -> LayerGradient<'a> {
        if self.table_index().is_some() {
            let groups = self.groups().map(|i| self.group(i));
            for (_, share) in groups.filter(|(group, _)| group.x.is_some()) {
                for row in 0..self.work.table.symbols.len() + 1 {
                    // SAFETY: this item's columns.
                    unsafe { self.table_row(row, &share.columns) }.fill(0.0);
                }
            }
        }
        self
    }

    /// Adds packed rows from `row` on, as far as whole blocks go.
    ///
    /// # Safety
    /// Their gates hold gradients; no other item has these columns.
    pub unsafe fn down_to(&mut self, row: usize) {
        while self.done > 0 && (self.done - 1) / BLOCK * BLOCK >= row {
            let start = (self.done - 1) / BLOCK * BLOCK;
            // SAFETY: the caller's promise.
            unsafe { self.add(start..self.done) };
            self.done = start;
        }
    }

    unsafe fn add(&mut self, rows: Range<usize>) {
        let columns = self.net.columns(self.layer);
        let gates = self.work.layers[self.net.place(self.layer, self.direction)].gates.ptr();
        let stride = feature_stride(self.features());
        let last_block = rows.end == self.work.schedule.total();
        // SAFETY: packed rows, this item's columns, and memory reserved in `new`.
        unsafe {
            self.fill(&rows, stride);
            for i in 0..self.workspace.shares.len() {
                let share = self.workspace.shares[i].clone();
                if share.columns.is_empty() {
                    continue;
                }
                let g = gates.add(rows.start * columns + share.columns.start);
                for features in share.features.iter().filter(|f| !f.is_empty()) {
                    let to = share.sums + features.start * share.sums_stride;
                    let from = self.workspace.features.ptr().add(features.start);
                    OuterWork::add_block(
                        self.net,
                        &mut self.workspace.panel,
                        (from, stride, features.len()),
                        (g, columns, share.columns.len()),
                        rows.len(),
                        (self.workspace.sums.shared().at(to), share.sums_stride),
                        last_block,
                    );
                }
            }
            self.add_projection(&rows, last_block);
            let Some(index) = self.table_index() else { return };
            let groups = self.groups().map(|i| self.group(i));
            for (_, share) in groups.filter(|(group, _)| group.x.is_some()) {
                if !share.columns.is_empty() {
                    for p in rows.clone() {
                        let from = gates.add(p * columns + share.columns.start);
                        let from = core::slice::from_raw_parts(from, share.columns.len());
                        let to = self.table_row(index[p] as usize, &share.columns);
                        to.iter_mut().zip(from).for_each(|(a, b)| *a += b);
                    }
                }
            }
        }
    }

    /// Adds packed rows to the sums of the projection, if there is one.
    unsafe fn add_projection(&mut self, rows: &Range<usize>, last_block: bool) {
        let Some(Projection { columns, units, sums, sums_stride }) = self.projection.clone() else {
            return;
        };
        if columns.is_empty() {
            return;
        }
        let y = self.work.layers[self.net.place(self.layer, self.direction)].unprojected.ptr();
        // SAFETY: packed rows, this item's columns, and memory reserved in `new`.
        unsafe {
            OuterWork::add_block(
                self.net,
                &mut self.workspace.panel,
                (y.add(rows.start * units), units, units),
                (
                    self.targets.d_hidden.at(rows.start * self.n + columns.start),
                    self.n,
                    columns.len(),
                ),
                rows.len(),
                (self.workspace.sums.shared().at(sums), sums_stride),
                last_block,
            );
        }
    }

    /// Width of F.
    fn features(&self) -> usize {
        features(self.net.layout.wiring(self.layer), self.n, self.q)
    }

    /// A block of F: `[h_{t-1} 1 x_t]`, and `r h_{t-1}` where it is read.
    unsafe fn fill(&mut self, rows: &Range<usize>, stride: usize) {
        let (n, s) = (self.n, &self.work.schedule);
        let work = &self.work.layers[self.net.place(self.layer, self.direction)];
        let (h, columns) = (work.h.ptr(), self.net.columns(self.layer));
        let has_gated = self.features() > n + 1 + self.q;
        let block = self.workspace.features.slice_mut(rows.len() * stride);
        let mut t = s.offsets.partition_point(|&o| o <= rows.start) - 1;
        for (p, to) in rows.clone().zip(block.chunks_exact_mut(stride)) {
            while s.offsets[t + 1] <= p {
                t += 1;
            }
            let before = s.before(t, p - s.offsets[t]);
            // SAFETY: rows that exist, by the schedule.
            unsafe {
                to[..n].copy_from_slice(core::slice::from_raw_parts(h.add(before * n), n));
                to[n] = 1.0;
                let mut at = n + 1;
                for part in self.parts.iter().filter(|part| part.width > 0) {
                    let x = part.term(core::ptr::null()).row(p);
                    let x = core::slice::from_raw_parts(x, part.width);
                    to[at..][..part.width].copy_from_slice(x);
                    at += part.width;
                }
                if has_gated {
                    let gated = work.gates.ptr().add((p + 1) * columns - n);
                    to[at..][..n].copy_from_slice(core::slice::from_raw_parts(gated, n));
                }
            }
        }
    }

    /// Adds what is left and writes the gradients.
    ///
    /// # Safety
    /// As [`LayerGradient::down_to`], for all rows.
    pub unsafe fn finish(mut self) {
        // SAFETY: the caller's promise.
        unsafe { self.down_to(0) };
        let (n, q) = (self.n, self.q);
        let [w_ih, _, b_ih, b_hh] = self.net.layout.layer(self.layer, self.direction);
        let all = self.features();
        let turn = |share: &Share, features: Range<usize>, to: usize, row: usize| {
            let sums = self.workspace.sums.slice(share.sums + all * share.sums_stride);
            let from = &sums[share.sums + features.start * share.sums_stride..];
            // SAFETY: rows of a weight, or entries of a bias, that belong to this item's columns.
            unsafe {
                let (to, cols) = (self.targets.params.at(to), share.columns.len());
                transpose(self.net, from, share.sums_stride, (features.len(), cols), to, row);
            }
        };
        let recurrent = |share: &Share, h: &Rows, features: Range<usize>| {
            let w = self.net.layout.recurrent(h.matrix, self.layer, self.direction).start;
            turn(share, features, w + (h.rows.start + share.first) * n + h.units.start, n);
        };
        let w_hr = self.net.layout.projection(self.layer, self.direction);
        if let (Some(p), Some(w_hr)) = (&self.projection, w_hr) {
            let sums = &self.workspace.sums.slice(p.sums + p.units * p.sums_stride)[p.sums..];
            // SAFETY: rows of the weight that belong to this item's columns.
            unsafe {
                let to = self.targets.params.at(w_hr.start + p.columns.start * p.units);
                transpose(self.net, sums, p.sums_stride, (p.units, p.columns.len()), to, p.units);
            }
        }
        let candidates = &self.net.layout.wiring(self.layer).candidates;
        for (i, Candidate { h, .. }) in candidates.iter().enumerate() {
            let share = &self.workspace.shares[self.groups().end + i];
            recurrent(share, h, gated(n, q, &h.units));
        }
        for (group, share) in self.groups().map(|i| self.group(i)) {
            let turn = |features, to, row| turn(&share, features, to, row);
            if let Some(h) = &group.h {
                recurrent(&share, h, h.units.clone());
            }
            if let Some(rows) = &group.hh {
                turn(n..n + 1, b_hh.start + rows.start + share.first, 1);
            }
            if let Some(rows) = &group.ih {
                if q > 0 && group.x.is_some() {
                    turn(n + 1..n + 1 + q, w_ih.start + (rows.start + share.first) * q, q);
                }
                turn(n..n + 1, b_ih.start + rows.start + share.first, 1);
            }
        }
    }
}
