//! Products over all steps, for gradients of weights.
//!
//! ```text
//! S = F^T G        F (N, features), G (N, columns)
//! ```
//!
//! The features stand on the row side of the product, where any number is as good as another; the
//! columns stand on the vector side, where they fill whole vectors. N is cut into blocks that stay
//! in cache. An item has columns of its own, and the order of summation is fixed: neither depends
//! on the number of threads. A layer's own weights are the business of [`crate::backward::layer_gradient`].

use crate::backward::layer_gradient::Share;
use crate::cpu::buffer::{Buffer, Shared};
use crate::cpu::team::share_vectors;
use crate::exec::net::Net;
use crate::exec::pass::{Lane, LaneWork};
use crate::kernel::pack::{pack, packed_len, panels};
use crate::kernel::product::{Init, NULL_ROW, Term};
use crate::prelude::*;
use crate::spec::wiring::InputBackwardGroup;

/// Packed rows per block.
pub(crate) const BLOCK: usize = 256;
/// Floats per cache line.
const LINE: usize = 16;

/// Memory for one item.
#[derive(Default)]
pub(crate) struct OuterWork {
    /// (BLOCK, features): a block of F
    pub features: Buffer,
    /// A panel of G, packed
    pub panel: Buffer,
    /// S of every group, one after another
    pub sums: Buffer,
    /// What is summed for each group of gate columns
    pub shares: Vec<Share>,
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
    pub unsafe fn add_block(
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
                let g = core::slice::from_raw_parts(g.add(from), (rows - 1) * g_stride + span);
                pack(panel.slice_mut(len), g, (rows, g_stride), (span, 1), width, |x| x);
                let to = to.add(from);
                let init = if first_block {
                    Init::Zero
                } else {
                    Init::Rows { from: to, stride: to_stride }
                };
                let term = Term { k_stride: stride, ..Term::rows(features, 1, rows, panel.ptr()) };
                net.product(count, span, to, to_stride, init, &[term]);
            }
        }
    }
}

/// Rows of F apart, so that a column of it does not fall into one set of the cache.
pub(crate) fn feature_stride(features: usize) -> usize {
    features.next_multiple_of(LINE) + LINE
}

/// `to[c, f] = from[f, c]` for `features` by `cols`; rows of `to` lie `row` apart. By squares of a cache line,
/// so that each line is read and written once, however far apart rows are.
///
/// # Safety
/// `to` has space for all of it, and nobody else uses it.
pub(crate) unsafe fn transpose(
    from: &[f32],
    stride: usize,
    (features, cols): (usize, usize),
    to: *mut f32,
    row: usize,
) {
    for start in (0..cols).step_by(LINE) {
        for first in (0..features).step_by(LINE) {
            let (height, width) = (LINE.min(features - first), LINE.min(cols - start));
            let line = |f: usize| &from[(first + f) * stride + start..][..width];
            // SAFETY: start + width <= cols and first + height <= features.
            unsafe {
                let to = to.add(start * row + first);
                if height == LINE && width == LINE {
                    let mut square = [[0.0; LINE]; LINE];
                    for (f, to) in square.iter_mut().enumerate() {
                        to.copy_from_slice(&line(f)[..LINE]);
                    }
                    transpose_square(&square, to, row);
                    continue;
                }
                for f in 0..height {
                    for (c, x) in line(f).iter().enumerate() {
                        *to.add(c * row + f) = *x;
                    }
                }
            }
        }
    }
}

/// A square of [`transpose`], by fours.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn transpose_square(square: &[[f32; LINE]; LINE], to: *mut f32, row: usize) {
    for c in (0..LINE).step_by(4) {
        for f in (0..LINE).step_by(4) {
            let lines: [[f32; 4]; 4] =
                core::array::from_fn(|j| core::array::from_fn(|i| square[f + i][c + j]));
            for (j, line) in lines.into_iter().enumerate() {
                // SAFETY: the caller's promise.
                unsafe { to.add((c + j) * row + f).cast::<[f32; 4]>().write_unaligned(line) }
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
    d_outputs: &[f32],
    direction: usize,
    (part, parts): (usize, usize),
    params: Shared,
    workspace: &mut OuterWork,
) {
    let Some([weight, bias]) = net.layout.output() else { return };
    let (m, n) = (net.spec.output_width(), net.spec.hidden_width() / net.directions());
    let s = &work.schedule;
    let (total, hidden) = (s.total(), net.spec.hidden_width());
    let cols = share_vectors(n, net.cpu.kernels.width, part, parts);
    let stride = feature_stride(m);
    workspace.features.reserve(BLOCK * stride);
    // SAFETY: this item's columns of the weight; the bias is the first item's.
    unsafe {
        let to = params.at(weight.start + direction * n + cols.start);
        if total == 0 {
            for row in 0..m {
                core::slice::from_raw_parts_mut(to.add(row * hidden), cols.len()).fill(0.0);
            }
        }
        let first = part == 0 && direction == 0;
        let d_bias =
            core::slice::from_raw_parts_mut(params.at(bias.start), if first { m } else { 0 });
        d_bias.fill(0.0);
        for start in (0..total).step_by(BLOCK) {
            let rows = BLOCK.min(total - start);
            let block = workspace.features.slice_mut(rows * stride);
            for (row, &slot) in block.chunks_exact_mut(stride).zip(&s.output[direction][start..]) {
                match slot {
                    NULL_ROW => row[..m].fill(0.0),
                    slot => row[..m].copy_from_slice(&d_outputs[slot as usize * m..][..m]),
                }
                for (sum, x) in d_bias.iter_mut().zip(&row[..m]) {
                    *sum += x;
                }
            }
            if !cols.is_empty() {
                let h = work
                    .passed_on(net, net.spec.layers() - 1, direction)
                    .add(start * n + cols.start);
                OuterWork::add_block(
                    net,
                    &mut workspace.panel,
                    (workspace.features.ptr(), stride, m),
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
    workspace: &mut OuterWork,
) {
    let (e, columns) = (net.spec.input().width(), net.columns(0));
    let width = net.cpu.kernels.width;
    let embedding = &lane.params[net.layout.embedding().unwrap_or_default()];
    let stride = feature_stride(e);
    let symbols = &work.table.symbols;
    workspace.features.reserve(BLOCK * stride);
    let weight = net.layout.layer(0, direction)[0].clone();
    for InputBackwardGroup { columns: cols, rows } in &net.layout.wiring(0).input_backward_groups {
        let sums_stride = cols.len().next_multiple_of(width);
        workspace.sums.reserve(e * sums_stride);
        if symbols.is_empty() {
            workspace.sums.slice_mut(e * sums_stride).fill(0.0);
        }
        for (block, symbols) in symbols.chunks(BLOCK).enumerate() {
            let features = workspace.features.slice_mut(symbols.len() * stride);
            for (row, &symbol) in features.chunks_exact_mut(stride).zip(symbols) {
                row[..e].copy_from_slice(&embedding[symbol as usize * e..][..e]);
            }
            let g = table[block * BLOCK * columns + cols.start..].as_ptr();
            // SAFETY: rows of the table that exist, and memory reserved above.
            unsafe {
                OuterWork::add_block(
                    net,
                    &mut workspace.panel,
                    (workspace.features.ptr(), stride, e),
                    (g, columns, cols.len()),
                    symbols.len(),
                    (workspace.sums.shared().0, sums_stride),
                    block == 0,
                );
            }
        }
        let sums = workspace.sums.slice(e * sums_stride);
        // SAFETY: this group's rows of the weight.
        unsafe {
            let to = params.at(weight.start + rows.start * e);
            transpose(sums, sums_stride, (e, cols.len()), to, e)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposes_whole_squares_and_edges() {
        for (features, cols) in [(1, 1), (16, 16), (17, 15), (5, 40), (70, 33)] {
            let (stride, row) = (cols + 3, features + 2);
            let from: Vec<f32> = (0..features * stride).map(|i| i as f32).collect();
            let mut to = vec![-1.0; cols * row];
            // SAFETY: `cols` rows of `row` floats, of which `features` are written.
            unsafe { transpose(&from, stride, (features, cols), to.as_mut_ptr(), row) };
            for (c, line) in to.chunks(row).enumerate() {
                for (f, x) in line.iter().enumerate() {
                    let expected = if f < features { from[f * stride + c] } else { -1.0 };
                    assert_eq!(*x, expected, "{features} by {cols}: {f}, {c}");
                }
            }
        }
    }
}
