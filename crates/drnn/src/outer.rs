//! Gradients of weights: one product over all steps.
//!
//! ```text
//! S = F^T G        F (N, features) = [h_{t-1} 1 x_t]     G (N, columns) = gradients of the gates
//! ```
//!
//! The features stand on the row side of the product, where any number is as good as another; the
//! columns stand on the vector side, where they fill whole vectors. N is cut into blocks that stay
//! in cache. An item has columns of its own, and the order of summation is that of packed rows:
//! neither depends on the number of threads.

use crate::buffer::{Buffer, Shared};
use crate::kernel::pack::{pack, packed_len, panels};
use crate::kernel::product::{Init, NULL_ROW, Term};
use crate::pass::{Lane, LaneWork, Net, share};
use crate::recur::{Feed, Part};
use crate::schedule::Schedule;
use crate::weights::Group;
use std::ops::Range;

/// Packed rows per block.
const BLOCK: usize = 256;
/// Floats per cache line.
const LINE: usize = 16;

/// Room for one item.
#[derive(Default)]
pub(crate) struct OuterWork {
    /// (BLOCK, features): a block of F
    features: Buffer,
    /// A panel of G, packed
    panel: Buffer,
    /// S of every group, one after another
    pub sums: Buffer,
}

impl OuterWork {
    pub fn bytes(&self) -> usize {
        self.features.bytes() + self.panel.bytes() + self.sums.bytes()
    }

    /// `S = F^T G` or `S += F^T G` for one block: `rows` rows of F, already filled in (from feature
    /// `first` on, `count` of them, rows `stride` apart), and as many rows of G.
    ///
    /// # Safety
    /// G has `rows` rows of `cols` floats, `g_stride` apart; `to` has `count` rows of `cols` floats,
    /// `to_stride` apart, and nobody else uses them.
    #[allow(clippy::too_many_arguments, reason = "two matrices and their strides")]
    unsafe fn add_block(
        net: &Net,
        panel: &mut Buffer,
        (features, stride, count): (*const f32, usize, usize),
        (g, g_stride, cols): (*const f32, usize, usize),
        rows: usize,
        (to, to_stride): (*mut f32, usize),
        first_block: bool,
    ) {
        let width = net.cpu.kernels.width;
        for (first, vectors) in panels(cols, width) {
            let from = first * width;
            let span = (vectors * width).min(cols - from);
            let len = packed_len(rows, span, width);
            panel.reserve(len);
            // SAFETY: the caller's shapes.
            unsafe {
                let g = std::slice::from_raw_parts(g.add(from), (rows - 1) * g_stride + span);
                pack(panel.slice_mut(len), g, (rows, g_stride), (span, 1), width);
                let to = to.add(from);
                let init = if first_block {
                    Init::Zero
                } else {
                    Init::Rows { from: to, stride: to_stride }
                };
                let (index, zeros) = (std::ptr::null(), std::ptr::null());
                let term = Term {
                    a: features,
                    row_stride: 1,
                    k_stride: stride,
                    index,
                    zeros,
                    w: panel.ptr(),
                    k: rows,
                };
                net.product(count, span, to, to_stride, init, &[term]);
            }
        }
    }
}

/// Rows of F apart, so that a column of it does not fall into one set of the cache.
fn feature_stride(features: usize) -> usize {
    features.next_multiple_of(LINE) + LINE
}

/// Columns of a group that item `part` of `parts` has, whole vectors.
fn own_columns(columns: usize, width: usize, part: usize, parts: usize) -> Range<usize> {
    let vectors = share(columns.div_ceil(width), part, parts);
    (vectors.start * width).min(columns)..(vectors.end * width).min(columns)
}

/// Where the layer's gradients go.
#[derive(Clone, Copy)]
pub(crate) struct Targets {
    /// The flat gradient.
    pub params: Shared,
    /// Gradient of the table of symbols, if that is what feeds the layer: (symbols + 1, columns).
    pub table: Shared,
}

/// Gradients of (layer, direction)'s weights and biases, for this part's columns. Of the table of
/// symbols, where there is one, instead of `weight_ih`.
///
/// # Safety
/// The gates hold their gradients; no other item has this part.
pub(crate) unsafe fn layer(
    net: &Net,
    lane: &Lane,
    work: &LaneWork,
    (layer, direction): (usize, usize),
    (part, parts): (usize, usize),
    targets: Targets,
    room: &mut OuterWork,
) {
    let (n, columns) = (net.spec.units()[layer], net.columns(layer));
    let width = net.cpu.kernels.width;
    let s = &work.schedule;
    let mut feed_parts = [Part::NONE; 2];
    let feed = work.feed(net, lane, layer, direction, &mut feed_parts);
    let q = match feed {
        Feed::Table { .. } => 0,
        Feed::Rows(parts) => parts.iter().map(|p| p.width).sum(),
    };
    let all = n + 1 + q; // [h 1 x]
    let stride = feature_stride(all);
    room.features.reserve(BLOCK * stride);
    let place = net.place(layer, direction);
    let gates = work.layers[place].gates.ptr();
    let h = work.layers[place].h.ptr();

    // Each group's columns, its features, and where its sums lie.
    let groups = Group::of(net.spec.cell());
    let plan = |room_from: usize, group: &Group| {
        let cols = own_columns(group.columns(n).len(), width, part, parts);
        let first = if group.h_rows(n).is_some() { 0 } else { n };
        let last = if group.x_rows(n).is_some() { all } else { n + 1 };
        let sums_stride = cols.len().next_multiple_of(width);
        (cols, first..last, sums_stride, room_from + all * sums_stride)
    };
    let room_needed = groups.iter().fold(0, |from, group| plan(from, group).3);
    room.sums.reserve(room_needed);

    if let Feed::Table { index, .. } = feed {
        for group in groups.iter().filter(|g| g.x_rows(n).is_some()) {
            let own = own_columns(group.columns(n).len(), width, part, parts);
            let cols = group.columns(n).start + own.start..group.columns(n).start + own.end;
            // SAFETY: these columns of the table's gradient are this item's.
            unsafe {
                scatter(gates, targets.table, columns, index, work.table.symbols.len() + 1, cols)
            }
        }
    }
    let total = s.total();
    for start in (0..total).step_by(BLOCK) {
        let rows = BLOCK.min(total - start);
        let block = room.features.slice_mut(rows * stride);
        // SAFETY: packed rows below N, in the layer's own arrays.
        unsafe { fill(block, stride, s, start, h, n, feed) };
        let mut from = 0;
        for group in groups {
            let (cols, features, sums_stride, next) = plan(from, group);
            if !cols.is_empty() {
                // SAFETY: shapes as laid out above.
                unsafe {
                    let a = room.features.ptr().add(features.start);
                    let g = gates.add(start * columns + group.columns(n).start + cols.start);
                    let to = room.sums.shared().0.add(from + features.start * sums_stride);
                    OuterWork::add_block(
                        net,
                        &mut room.panel,
                        (a, stride, features.len()),
                        (g, columns, cols.len()),
                        rows,
                        (to, sums_stride),
                        start == 0,
                    );
                }
            }
            from = next;
        }
    }

    let [w_ih, w_hh, b_ih, b_hh] = net.layout.layer(layer, direction);
    let mut from = 0;
    for group in groups {
        let (cols, _, sums_stride, next) = plan(from, group);
        let sums = &mut room.sums.slice_mut(next)[from..];
        if total == 0 {
            sums.fill(0.0);
        }
        let turn = |first: usize, count: usize, to: usize| {
            // SAFETY: rows of a weight, or entries of a bias, that belong to this item's columns.
            unsafe {
                transpose(
                    &sums[first * sums_stride..],
                    sums_stride,
                    (count, cols.len()),
                    targets.params.at(to),
                )
            }
        };
        if let Some(rows) = group.h_rows(n) {
            turn(0, n, w_hh.start + (rows.start + cols.start) * n);
            turn(n, 1, b_hh.start + rows.start + cols.start);
        }
        if let Some(rows) = group.x_rows(n) {
            if q > 0 {
                turn(n + 1, q, w_ih.start + (rows.start + cols.start) * q);
            }
            turn(n, 1, b_ih.start + rows.start + cols.start);
        }
        from = next;
    }
}

/// `to[c, f] = from[f, c]` for `features` by `cols`.
///
/// # Safety
/// `to` has room for all of it, and nobody else uses it.
unsafe fn transpose(from: &[f32], stride: usize, (features, cols): (usize, usize), to: *mut f32) {
    for start in (0..cols).step_by(LINE) {
        for f in 0..features {
            let row = &from[f * stride..][start..cols.min(start + LINE)];
            for (c, x) in row.iter().enumerate() {
                // SAFETY: start + c < cols and f < features.
                unsafe { *to.add((start + c) * features + f) = *x }
            }
        }
    }
}

/// `table[index[p], cols] = sum of gates[p, cols]` over packed rows p.
///
/// # Safety
/// `table` has `rows` rows and `gates` as many as `index`, of `columns` floats; these columns of
/// `table` are the caller's alone.
unsafe fn scatter(
    gates: *const f32,
    table: Shared,
    columns: usize,
    index: &[u32],
    rows: usize,
    cols: Range<usize>,
) {
    // SAFETY: the caller's shapes; every entry of `index` is below `rows`.
    unsafe {
        let row = |r: usize| {
            std::slice::from_raw_parts_mut(table.at(r * columns + cols.start), cols.len())
        };
        for r in 0..rows {
            row(r).fill(0.0);
        }
        for (p, &r) in index.iter().enumerate() {
            let from = std::slice::from_raw_parts(gates.add(p * columns + cols.start), cols.len());
            for (a, b) in row(r as usize).iter_mut().zip(from) {
                *a += b;
            }
        }
    }
}

/// A block of F: `[h_{t-1} 1 x_t]` of packed rows from `start` on.
///
/// # Safety
/// `h` and the feed's rows are as a recurrence has them.
unsafe fn fill(
    block: &mut [f32],
    stride: usize,
    s: &Schedule,
    start: usize,
    h: *const f32,
    n: usize,
    feed: Feed,
) {
    let mut t = s.offsets.partition_point(|&o| o <= start) - 1;
    for (i, to) in block.chunks_exact_mut(stride).enumerate() {
        let p = start + i;
        while s.offsets[t + 1] <= p {
            t += 1;
        }
        let r = p - s.offsets[t];
        let before = if t == 0 { r } else { s.rows() + s.offsets[t - 1] + r };
        // SAFETY: rows that exist, by the schedule.
        unsafe {
            to[..n].copy_from_slice(std::slice::from_raw_parts(h.add(before * n), n));
            to[n] = 1.0;
            let mut at = n + 1;
            if let Feed::Rows(parts) = feed {
                for part in parts {
                    let x = part.term(std::ptr::null()).row(p);
                    to[at..][..part.width]
                        .copy_from_slice(std::slice::from_raw_parts(x, part.width));
                    at += part.width;
                }
            }
        }
    }
}

/// Gradients of `output.weight` and `output.bias`, for this part's columns.
///
/// # Safety
/// No other item has this part.
pub(crate) unsafe fn output(
    net: &Net,
    work: &LaneWork,
    d_answers: &[f32],
    direction: usize,
    (part, parts): (usize, usize),
    params: Shared,
    room: &mut OuterWork,
) {
    let Some([weight, bias]) = net.layout.output() else { return };
    let (m, n) = (net.spec.answer_width(), net.spec.hidden_width() / net.directions());
    let s = &work.schedule;
    let (total, hidden) = (s.total(), net.spec.hidden_width());
    let cols = own_columns(n, net.cpu.kernels.width, part, parts);
    let stride = feature_stride(m);
    room.features.reserve(BLOCK * stride);
    // SAFETY: this item's columns of the weight; the bias is the first item's.
    unsafe {
        let to = params.at(weight.start + direction * n + cols.start);
        if total == 0 {
            for row in 0..m {
                std::slice::from_raw_parts_mut(to.add(row * hidden), cols.len()).fill(0.0);
            }
        }
        let first = part == 0 && direction == 0;
        let d_bias =
            std::slice::from_raw_parts_mut(params.at(bias.start), if first { m } else { 0 });
        d_bias.fill(0.0);
        for start in (0..total).step_by(BLOCK) {
            let rows = BLOCK.min(total - start);
            let block = room.features.slice_mut(rows * stride);
            for (row, &slot) in block.chunks_exact_mut(stride).zip(&s.answer[direction][start..]) {
                match slot {
                    NULL_ROW => row[..m].fill(0.0),
                    slot => row[..m].copy_from_slice(&d_answers[slot as usize * m..][..m]),
                }
                for (sum, x) in d_bias.iter_mut().zip(&row[..m]) {
                    *sum += x;
                }
            }
            if !cols.is_empty() {
                let h =
                    work.states(net, net.spec.layers() - 1, direction).add(start * n + cols.start);
                OuterWork::add_block(
                    net,
                    &mut room.panel,
                    (room.features.ptr(), stride, m),
                    (h, n, cols.len()),
                    rows,
                    (to, hidden),
                    start == 0,
                );
            }
        }
    }
}

/// Gradients of `weight_ih` of the first layer from that of the table of symbols:
/// `dW_ih = dtable^T E`.
///
/// # Safety
/// `table` is complete; nobody else uses this weight's gradient.
pub(crate) unsafe fn embedded_input(
    net: &Net,
    lane: &Lane,
    work: &LaneWork,
    direction: usize,
    table: &[f32],
    params: Shared,
    room: &mut OuterWork,
) {
    let (n, e, columns) = (net.spec.units()[0], net.spec.input().width(), net.columns(0));
    let width = net.cpu.kernels.width;
    let embedding = &lane.params[net.layout.embedding().unwrap_or_default()];
    let stride = feature_stride(e);
    let symbols = &work.table.symbols;
    room.features.reserve(BLOCK * stride);
    let weight = net.layout.layer(0, direction)[0].clone();
    for group in Group::of(net.spec.cell()) {
        let (cols, Some(rows)) = (group.columns(n), group.x_rows(n)) else { continue };
        let sums_stride = cols.len().next_multiple_of(width);
        room.sums.reserve(e * sums_stride);
        if symbols.is_empty() {
            room.sums.slice_mut(e * sums_stride).fill(0.0);
        }
        for (block, symbols) in symbols.chunks(BLOCK).enumerate() {
            let features = room.features.slice_mut(symbols.len() * stride);
            for (row, &symbol) in features.chunks_exact_mut(stride).zip(symbols) {
                row[..e].copy_from_slice(&embedding[symbol as usize * e..][..e]);
            }
            let g = table[block * BLOCK * columns + cols.start..].as_ptr();
            // SAFETY: rows of the table that exist, and room made above.
            unsafe {
                OuterWork::add_block(
                    net,
                    &mut room.panel,
                    (room.features.ptr(), stride, e),
                    (g, columns, cols.len()),
                    symbols.len(),
                    (room.sums.shared().0, sums_stride),
                    block == 0,
                );
            }
        }
        let sums = room.sums.slice(e * sums_stride);
        // SAFETY: this group's rows of the weight.
        unsafe {
            transpose(sums, sums_stride, (e, cols.len()), params.at(weight.start + rows.start * e))
        }
    }
}
