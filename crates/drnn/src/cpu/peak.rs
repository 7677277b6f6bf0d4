//! The highest rate of arithmetic that this machine reaches, as the scale for benchmarks.

use crate::cpu::Cpu;
use crate::cpu::buffer::{Buffer, Shared};
use crate::cpu::team::share;
use crate::kernel::pack::{packed_len, panel_count};
use crate::kernel::product::{Init, Product, Term};
use crate::model::weight_format::WeightFormat;
use std::time::Instant;

/// GFLOP/s of all threads together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak {
    /// Fused multiply-adds on registers alone: the limit of the arithmetic.
    pub fma: f64,
    /// A product of large matrices: the limit where memory is read too.
    pub product: f64,
}

/// Tries of each, of which the best counts: a limit is what was ever reached.
const TRIES: usize = 5;

impl Peak {
    /// Measures `cpu`, in about a second. Needs a clock, which wasm32-unknown-unknown lacks.
    pub fn measure(cpu: &Cpu) -> Peak {
        let threads = cpu.threads();
        let iterations = 40_000_000 / cpu.kernels.width;
        let fma = best(|| {
            let start = Instant::now();
            cpu.team.each(threads, |_| {
                // SAFETY: registers only, and `kernels` are of this processor.
                core::hint::black_box(unsafe { (cpu.kernels.fma_loop)(iterations) });
            });
            // SAFETY: as above; one iteration, to learn what it is worth.
            let flop = unsafe { (cpu.kernels.fma_loop)(1) }.0 * iterations as f64;
            flop * threads as f64 / start.elapsed().as_secs_f64()
        });

        let (rows, k, cols, times) = (192 * threads, 512, 2048, 4);
        let width = cpu.kernels.width;
        let mut buffers: [Buffer; 3] = Default::default();
        let lengths = [rows * k, packed_len(k, cols, width), rows * cols];
        for (buffer, len) in buffers.iter_mut().zip(lengths) {
            buffer.reserve(len);
            buffer.slice_mut(len).fill(0.01);
        }
        let c = Shared(buffers[2].shared().0);
        let (a, w) = (Shared(buffers[0].shared().0), Shared(buffers[1].shared().0));
        let product = best(|| {
            let start = Instant::now();
            cpu.team.each(threads, |part| {
                let rows = share(rows, part, threads);
                // SAFETY: parts have rows of their own, within the lengths above.
                unsafe {
                    let term = Term::rows(a.at(rows.start * k), k, k, w.at(0));
                    for _ in 0..times {
                        cpu.kernels.product(&Product {
                            rows: rows.len(),
                            cols,
                            panels: 0..panel_count(cols, width),
                            backwards: false,
                            c: c.at(rows.start * cols),
                            c_stride: cols,
                            init: Init::Zero,
                            format: WeightFormat::F32,
                            terms: &[term],
                        });
                    }
                }
            });
            (2 * rows * k * cols * times) as f64 / start.elapsed().as_secs_f64()
        });
        Peak { fma: fma / 1e9, product: product / 1e9 }
    }
}

fn best(mut measure: impl FnMut() -> f64) -> f64 {
    (0..TRIES).map(|_| measure()).fold(0.0, f64::max)
}
