//! Int8 weights in the order in which the product reads them.
//!
//! A panel ([`crate::kernel::pack`]) begins with the scales of its columns (f32) and minus 128 times the
//! sums of their weights (i32). Then, for every four k, it holds four weights of each column side by side.

use super::quantize::quantize;
use crate::kernel::pack::panels;

/// Bytes of a panel's header, per column.
pub const HEADER: usize = 8;

/// Bytes that a packed `k` by `cols` matrix takes.
pub fn packed_bytes(k: usize, cols: usize, width: usize) -> usize {
    let column = k.checked_next_multiple_of(4).and_then(|k| k.checked_add(HEADER));
    column.unwrap_or(usize::MAX).saturating_mul(cols.next_multiple_of(width))
}

/// Packs `W[k, j] = w[k * k_stride + j * col_stride]`, whose column j has scale `scales[j]`, into `to` (of
/// [`packed_bytes`]).
pub fn pack(
    to: &mut [u8],
    w: &[f32],
    (k, k_stride): (usize, usize),
    (cols, col_stride): (usize, usize),
    scales: &[f32],
    width: usize,
) {
    let quads = k.div_ceil(4);
    for (first, vectors) in panels(cols, width) {
        let (from, span) = (first * width, vectors * width);
        let panel = &mut to[from * (HEADER + 4 * quads)..][..span * (HEADER + 4 * quads)];
        let (header, weights) = panel.split_at_mut(span * HEADER);
        let (headers, starts) = header.split_at_mut(span * 4);
        weights.fill(0);
        for j in 0..span {
            let scale = scales.get(from + j).copied().unwrap_or(0.0);
            let mut sum = 0_i32;
            if from + j < cols {
                for kk in 0..k {
                    let q = quantize(w[kk * k_stride + (from + j) * col_stride], scale);
                    weights[(kk / 4 * span + j) * 4 + kk % 4] = q.cast_unsigned();
                    sum = sum.wrapping_add(i32::from(q));
                }
            }
            headers[4 * j..][..4].copy_from_slice(&scale.to_ne_bytes());
            starts[4 * j..][..4].copy_from_slice(&sum.wrapping_mul(-128).to_ne_bytes());
        }
    }
}
