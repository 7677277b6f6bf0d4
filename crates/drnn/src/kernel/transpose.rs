//! Transposition: weights into the order of a product, gradients out of it.
//!
//! ```text
//! to[c, r] = from[r, c]
//! ```
//!
//! By squares of a cache line, so that each line is read and written once, however far apart rows are.

use super::simd::Simd;

/// Floats per cache line.
const LINE: usize = 16;

/// Operands.
#[derive(Clone, Copy)]
pub struct Transpose {
    pub from: *const f32,
    /// From one row of `from` to the next.
    pub stride: usize,
    /// Of `from`.
    pub rows: usize,
    pub cols: usize,
    pub to: *mut f32,
    /// From one row of `to` to the next.
    pub to_stride: usize,
}

/// # Safety
/// The processor has `S`; `from` and `to` are valid for the shape and apart, and nobody else uses `to`.
#[inline(always)]
pub unsafe fn transpose<S: Simd>(p: &Transpose) {
    // Rows and columns that fill squares.
    let (rows, cols) = (p.rows - p.rows % LINE, p.cols - p.cols % LINE);
    // SAFETY: within the caller's matrices; LINE is a multiple of every width.
    unsafe {
        for col in (0..cols).step_by(LINE) {
            for row in (0..rows).step_by(LINE) {
                for c in (col..col + LINE).step_by(S::WIDTH) {
                    for r in (row..row + LINE).step_by(S::WIDTH) {
                        let from = p.from.add(r * p.stride + c);
                        S::transpose(from, p.stride, p.to.add(c * p.to_stride + r), p.to_stride);
                    }
                }
            }
        }
        for row in 0..p.rows {
            let first = if row < rows { cols } else { 0 };
            for col in first..p.cols {
                *p.to.add(col * p.to_stride + row) = *p.from.add(row * p.stride + col);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::dispatch::all_variants;
    use super::*;

    #[test]
    fn every_value_goes_to_its_place_and_nothing_else_is_written() {
        for kernels in all_variants() {
            for (rows, cols) in [(1, 1), (16, 16), (17, 15), (5, 40), (70, 33), (64, 48), (0, 3)] {
                let (stride, to_stride) = (cols + 3, rows + 2);
                let from: Vec<f32> = (0..rows * stride).map(|i| i as f32).collect();
                let mut to = vec![-1.0; cols * to_stride];
                let p = Transpose {
                    from: from.as_ptr(),
                    stride,
                    rows,
                    cols,
                    to: to.as_mut_ptr(),
                    to_stride,
                };
                // SAFETY: `cols` rows of `to_stride` floats, of which `rows` are written.
                unsafe { (kernels.transpose)(&p) };
                for (col, line) in to.chunks(to_stride).enumerate() {
                    for (row, x) in line.iter().enumerate() {
                        let expected = if row < rows { from[row * stride + col] } else { -1.0 };
                        assert_eq!(*x, expected, "{} {rows} by {cols}: {row}, {col}", kernels.set);
                    }
                }
            }
        }
    }
}
