//! Weights in the order in which a product reads them.
//!
//! The columns of `W` are cut into vectors, the vectors into panels of at most four, as even as
//! possible. A panel holds, for each k, its vectors side by side; columns past the end are zero.

use super::dispatch::Kernels;
use super::transpose::Transpose;
use core::ops::Range;

/// At most this many vectors side by side in a panel.
pub const PANEL: usize = 4;

/// Panel `i` of `cols` columns: (number of its first vector, vectors).
#[inline(always)]
pub fn panel(cols: usize, width: usize, i: usize) -> (usize, usize) {
    let vectors = cols.div_ceil(width);
    let count = vectors.div_ceil(PANEL);
    let first = i * vectors / count;
    (first, (i + 1) * vectors / count - first)
}

/// All of them, in order.
pub fn panels(cols: usize, width: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..panel_count(cols, width)).map(move |i| panel(cols, width, i))
}

/// How many panels `cols` columns make.
pub fn panel_count(cols: usize, width: usize) -> usize {
    cols.div_ceil(width).div_ceil(PANEL)
}

/// Numbers that a packed `k` by `cols` matrix takes.
pub fn packed_len(k: usize, cols: usize, width: usize) -> usize {
    k.saturating_mul(cols.next_multiple_of(width))
}

/// Packs `W[k, j] = convert(w[k * k_stride + j * col_stride])` into `to` (of [`packed_len`] numbers).
pub fn pack<T: Copy + Default>(
    to: &mut [T],
    w: &[f32],
    k: (usize, usize),
    cols: (usize, usize),
    width: usize,
    convert: impl Fn(f32) -> T,
) {
    for item in 0..items(k.0, cols, width) {
        for piece in pieces(k.0, cols, width, item) {
            piece.pack(&mut to[piece.place()], w, k, cols, &convert);
        }
    }
}

/// [`pack`] of f32 as they are.
pub fn pack_f32(
    kernels: &Kernels,
    to: &mut [f32],
    w: &[f32],
    k: (usize, usize),
    cols: (usize, usize),
) {
    for item in 0..items(k.0, cols, kernels.width) {
        for piece in pieces(k.0, cols, kernels.width, item) {
            piece.pack_f32(kernels, &mut to[piece.place()], w, k, cols);
        }
    }
}

/// Some k of one panel.
pub struct Piece {
    /// First column of the panel, and how many it has, those past the end included.
    from: usize,
    span: usize,
    /// Where the panel begins among the packed numbers.
    panel: usize,
    k: Range<usize>,
}

/// Into how many items packing is cut, which may be done at the same time.
pub fn items(k: usize, cols: (usize, usize), width: usize) -> usize {
    if cols.1 == 1 { k.div_ceil(BLOCK) } else { panel_count(cols.0, width) }
}

/// The pieces of one item. Where rows of `w` are rows of the panels, an item is a block of them in all panels,
/// else a panel: either way it reads `w` by neighbouring pages.
pub fn pieces(
    k: usize,
    cols: (usize, usize),
    width: usize,
    item: usize,
) -> impl Iterator<Item = Piece> {
    let (panels, k_range) = match cols.1 {
        1 => (0..panel_count(cols.0, width), item * BLOCK..k.min((item + 1) * BLOCK)),
        _ => (item..item + 1, 0..k),
    };
    panels.map(move |i| {
        let (first, vectors) = panel(cols.0, width, i);
        let (from, span) = (first * width, vectors * width);
        Piece { from, span, panel: from * k, k: k_range.clone() }
    })
}

impl Piece {
    /// Where it lies among the packed numbers.
    pub fn place(&self) -> Range<usize> {
        self.panel + self.k.start * self.span..self.panel + self.k.end * self.span
    }

    /// [`Piece::pack`] of f32 as they are.
    pub fn pack_f32(
        &self,
        kernels: &Kernels,
        to: &mut [f32],
        w: &[f32],
        k: (usize, usize),
        cols: (usize, usize),
    ) {
        if k.1 != 1 || cols.1 == 1 {
            return self.pack(to, w, k, cols, &|x| x);
        }
        if self.k.is_empty() {
            return;
        }
        let real = self.span.min(cols.0 - self.from);
        let from = &w[self.from * cols.1 + self.k.start..];
        assert!(from.len() > (real - 1) * cols.1 + self.k.len() - 1, "a matrix of that shape");
        assert!(to.len() >= self.k.len() * self.span, "space for it");
        let transpose = Transpose {
            from: from.as_ptr(),
            stride: cols.1,
            rows: real,
            cols: self.k.len(),
            to: to.as_mut_ptr(),
            to_stride: self.span,
        };
        // SAFETY: both were just checked to be as large, and are borrowed apart.
        unsafe { (kernels.transpose)(&transpose) }
        if real < self.span {
            to.chunks_exact_mut(self.span).for_each(|row| row[real..].fill(0.0));
        }
    }

    /// Packs it; `to` is its place.
    pub fn pack<T: Copy + Default>(
        &self,
        to: &mut [T],
        w: &[f32],
        (_, k_stride): (usize, usize),
        (cols, col_stride): (usize, usize),
        convert: &impl Fn(f32) -> T,
    ) {
        let (from, span) = (self.from, self.span);
        let real = span.min(cols - from);
        if col_stride == 1 {
            for (kk, row) in self.k.clone().zip(to.chunks_exact_mut(span)) {
                for (to, x) in row.iter_mut().zip(&w[kk * k_stride + from..][..real]) {
                    *to = convert(*x);
                }
                row[real..].fill(T::default());
            }
            return;
        }
        // A transposition: by blocks of a cache line along k, so that each line of `w` is read once.
        for (block, rows) in to.chunks_mut(span * LINE).enumerate() {
            let first = (self.k.start + block * LINE) * k_stride;
            for j in 0..real {
                let source = &w[first + (from + j) * col_stride..];
                for (kk, row) in rows.chunks_exact_mut(span).enumerate() {
                    row[j] = convert(source[kk * k_stride]);
                }
            }
            for row in rows.chunks_exact_mut(span) {
                row[real..].fill(T::default());
            }
        }
    }
}

/// Rows of `w` that are packed at once.
const BLOCK: usize = 64;
/// Floats per cache line.
const LINE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_cover_all_columns_once_and_evenly() {
        for cols in 1..300 {
            let all: Vec<_> = panels(cols, 8).collect();
            assert_eq!(all.len(), panel_count(cols, 8));
            let mut next = 0;
            for &(first, vectors) in &all {
                assert_eq!(first, next);
                assert!((1..=PANEL).contains(&vectors));
                next = first + vectors;
            }
            assert_eq!(next, cols.div_ceil(8));
            let sizes = all.iter().map(|p| p.1);
            assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
        }
    }

    #[test]
    fn both_orders_pack_alike() {
        for (k, cols) in [(1, 1), (5, 3), (16, 9), (40, 130), (150, 37)] {
            let rows: Vec<f32> = (0..k * cols).map(|i| i as f32).collect();
            let mut turned = vec![0.0; k * cols];
            for kk in 0..k {
                for j in 0..cols {
                    turned[j * k + kk] = rows[kk * cols + j];
                }
            }
            let len = packed_len(k, cols, 8);
            let (mut a, mut b) = (vec![f32::NAN; len], vec![f32::NAN; len]);
            pack(&mut a, &rows, (k, cols), (cols, 1), 8, |x| x);
            pack(&mut b, &turned, (k, 1), (cols, k), 8, |x| x);
            assert_eq!(a, b);
            for (first, vectors) in panels(cols, 8) {
                let span = vectors * 8;
                for kk in 0..k {
                    for j in 0..span {
                        let col = first * 8 + j;
                        let expected = if col < cols { rows[kk * cols + col] } else { 0.0 };
                        assert_eq!(a[first * 8 * k + kk * span + j], expected);
                    }
                }
            }
        }
    }
}
