use super::pack::{pack, packed_bytes};
use super::quantize::{quantize, quantize_row, row_scale, row_scales};
use super::{PortableInt8, SCRATCH};
use crate::kernel::dispatch::{Kernels, all_variants};
use crate::kernel::pack::panel_count;
use crate::kernel::product::{Init, NULL_ROW, Product, Term};
use crate::model::weight_format::WeightFormat;
use crate::random::Rng;
use core::mem::MaybeUninit;

/// One term: rows of A through an index, and a matrix of int8 weights (cols, k).
struct Operands {
    a: Vec<f32>,
    index: Vec<u32>,
    w: Vec<f32>,
    k: usize,
    zeros: Vec<f32>,
}

impl Operands {
    fn random(rng: &mut Rng, rows: usize, k: usize, cols: usize) -> Operands {
        let size = rng.symmetric(1.0).abs() * 10.0;
        let a = (0..rows * k).map(|_| rng.symmetric(size)).collect();
        let mut w: Vec<f32> = (0..cols * k).map(|_| rng.symmetric(0.5)).collect();
        WeightFormat::Int8.round("w", &mut w, k).unwrap();
        let mut row = || match rng.below(rows + 1) {
            r if r == rows => NULL_ROW,
            r => r as u32,
        };
        let index = (0..rows).map(|_| row()).collect();
        Operands { a, index, w, k, zeros: vec![0.0; k] }
    }

    fn row(&self, r: usize) -> &[f32] {
        match self.index[r] {
            NULL_ROW => &self.zeros,
            row => &self.a[row as usize * self.k..][..self.k],
        }
    }

    fn packed(&self, cols: usize, width: usize) -> Vec<u8> {
        let mut packed = vec![0xAA; packed_bytes(self.k, cols, width)];
        let scales = row_scales(&self.w, self.k);
        pack(&mut packed, &self.w, (self.k, 1), (cols, self.k), &scales, width);
        packed
    }
}

/// The formula, with sums of 64 bits.
fn reference(init: &[f32], terms: &[Operands], rows: usize, cols: usize) -> Vec<f32> {
    let mut c = init.to_vec();
    for term in terms {
        for r in 0..rows {
            let mut x = vec![MaybeUninit::new(0); term.k.next_multiple_of(4)];
            let scale = quantize_row::<PortableInt8>(term.row(r), &mut x);
            for j in 0..cols {
                let w = &term.w[j * term.k..][..term.k];
                let w_scale = row_scale(w);
                // SAFETY: `quantize_row` has written all of x.
                let x = x.iter().map(|x| i64::from(unsafe { x.assume_init() }.cast_signed()));
                let sum: i64 = x.zip(w).map(|(x, w)| x * i64::from(quantize(*w, w_scale))).sum();
                c[r * cols + j] += sum as f32 * (scale * w_scale);
            }
        }
    }
    c
}

/// The kernel, in four parts cut at a row and a panel.
fn product(
    kernels: &Kernels,
    init: &[f32],
    operands: &[Operands],
    (rows, cols): (usize, usize),
    (row_cut, panel_cut): (usize, usize),
) -> Vec<f32> {
    let packed: Vec<_> = operands.iter().map(|term| term.packed(cols, kernels.width)).collect();
    let panels = panel_count(cols, kernels.width);
    let mut c = init.to_vec();
    for rows in [0..row_cut, row_cut..rows] {
        let terms = operands.iter().zip(&packed).map(|(of, packed)| {
            let term = Term::rows(of.a.as_ptr(), of.k, of.k, packed.as_ptr().cast());
            let index = of.index[rows.start..].as_ptr();
            Term { index, zeros: of.zeros.as_ptr(), ..term }
        });
        let terms: Vec<_> = terms.collect();
        for panels in [0..panel_cut, panel_cut..panels] {
            // SAFETY: cuts lie within the shapes; C is its own start.
            unsafe {
                let to = c.as_mut_ptr().add(rows.start * cols);
                kernels.product(&Product {
                    rows: rows.len(),
                    cols,
                    panels,
                    backwards: row_cut % 2 == 1,
                    c: to,
                    c_stride: cols,
                    init: Init::Rows { from: to, stride: cols },
                    format: WeightFormat::Int8,
                    terms: &terms,
                });
            }
        }
    }
    c
}

#[test]
fn every_variant_gives_the_bits_of_the_formula_however_it_is_cut() {
    let mut rng = Rng::new(5);
    let mut shapes: Vec<_> =
        (0..60).map(|_| (1 + rng.below(80), 1 + rng.below(70), 1 + rng.below(150))).collect();
    shapes.push((3, SCRATCH + 5, 2)); // a row that does not fit on the stack
    shapes.push((40, 1500, 20)); // more rows than are quantised at once
    for (rows, k, cols) in shapes {
        let count = 1 + rng.below(3);
        let terms: Vec<_> =
            (0..count).map(|i| Operands::random(&mut rng, rows, k + i, cols)).collect();
        let init: Vec<f32> = (0..rows * cols).map(|_| rng.symmetric(1.0)).collect();
        let expected = reference(&init, &terms, rows, cols);
        for kernels in all_variants() {
            let panels = panel_count(cols, kernels.width);
            let cut = (rng.below(rows + 1), rng.below(panels + 1));
            let found = product(kernels, &init, &terms, (rows, cols), cut);
            assert_eq!(found, expected, "{} {rows} {k} {cols}", kernels.set);
        }
    }
}

#[test]
fn extreme_sums_do_not_overflow() {
    // All products have the largest magnitude, in rows as long as they may be.
    for k in [2, 4096, 1 << 17] {
        for sign in [1.0, -1.0] {
            let (w, a) = (vec![sign; k], vec![-1.0; k]);
            let terms = [Operands { zeros: vec![0.0; k], index: vec![0], w, a, k }];
            let expected = reference(&[0.0], &terms, 1, 1);
            assert!((expected[0] + sign * k as f32).abs() <= 1e-3 * k as f32);
            for kernels in all_variants() {
                assert_eq!(product(kernels, &[0.0], &terms, (1, 1), (0, 0)), expected);
            }
        }
    }
}

#[test]
fn what_is_not_finite_stays_so_and_zeros_stay_zeros() {
    for (x, expected) in [(f32::NAN, f32::NAN), (f32::INFINITY, f32::NAN), (1e-38, 0.5), (0.0, 0.5)]
    {
        for kernels in all_variants() {
            let term =
                Operands { a: vec![x, 0.0], index: vec![0], w: vec![1.0; 2], k: 2, zeros: vec![] };
            let found = product(kernels, &[0.5], &[term], (1, 1), (0, 0))[0];
            assert!(found == expected || found.is_nan() && expected.is_nan(), "{x} {found}");
        }
    }
}

#[test]
fn quantising_twice_changes_nothing() {
    let mut rng = Rng::new(6);
    for _ in 0..2_000 {
        let size = 10.0_f32.powi(rng.below(60) as i32 - 30);
        let mut row: Vec<f32> = (0..1 + rng.below(20)).map(|_| rng.symmetric(size)).collect();
        let before = row.clone();
        WeightFormat::Int8.round("w", &mut row, before.len()).unwrap();
        let (scale, once) = (row_scale(&row), row.clone());
        WeightFormat::Int8.round("w", &mut row, before.len()).unwrap();
        assert_eq!(row, once);
        for (before, after) in before.iter().zip(&once) {
            assert!((before - after).abs() <= 0.5001 * scale || size < 1e-29);
            assert_eq!(f32::from(quantize(*after, scale)) * scale, *after);
        }
    }
}
