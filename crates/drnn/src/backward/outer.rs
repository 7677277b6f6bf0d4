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
use crate::kernel::transpose::Transpose;
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

/// `to[c, f] = from[f, c]` for `features` by `cols`; rows of `to` lie `row` apart.
///
/// # Safety
/// `to` has space for all of it, and nobody else uses it.
pub(crate) unsafe fn transpose(
    net: &Net,
    from: &[f32],
    stride: usize,
    (features, cols): (usize, usize),
    to: *mut f32,
    row: usize,
) {
    assert!(features == 0 || from.len() >= (features - 1) * stride + cols, "rows of that length");
    let (from, rows) = (from.as_ptr(), features);
    let transpose = Transpose { from, stride, rows, cols, to, to_stride: row };
    // SAFETY: `from` was just checked, `to` is the caller's promise.
    unsafe { (net.cpu.kernels.transpose)(&transpose) }
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
    let embedding = lane.params.get(net.layout.embedding().unwrap_or_default());
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
            transpose(net, sums, sums_stride, (e, cols.len()), to, e)
        }
    }
}
