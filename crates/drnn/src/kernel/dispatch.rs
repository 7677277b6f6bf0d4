//! The one place where the instruction set is chosen, once, at run time.

use super::cells::{
    self, CellBackward, CellForward, Gru, GruResetBefore, Lstm, Reset, RnnRelu, RnnTanh,
};
use super::dots::{self, Dots};
use super::int8;
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
use super::int8::PortableInt8;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use super::int8::Simd128Int8;
#[cfg(target_arch = "x86_64")]
use super::int8::{Avx2Int8, Avx2Vnni, Avx512Int8, Avx512Vnni};
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
use super::int8::{NeonDotprod, NeonInt8};
use super::product::{self, Product};
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
use super::simd::Neon;
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
use super::simd::Portable;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use super::simd::Simd128;
#[cfg(target_arch = "x86_64")]
use super::simd::{Avx2, Avx512};
use super::transpose::{self, Transpose};
use crate::cpu::InstructionSet;
use crate::model::weight_format::WeightFormat;
use crate::prelude::*;
use crate::spec::Cell;

/// The kernels, compiled for one instruction set.
///
/// # Safety
/// Every function has the contract of its generic namesake; that the processor has the instruction
/// set is ensured by [`all_kernels`], which hands out nothing else.
pub struct Kernels {
    pub set: InstructionSet,
    /// Floats per vector.
    pub width: usize,
    /// Rows of a tile.
    pub rows: usize,
    /// Products of weights in floating point. That of int8 weights, with its memory on the stack, is a
    /// function of its own.
    product: unsafe fn(&Product),
    product_int8: unsafe fn(&Product),
    pub dots: unsafe fn(&Dots),
    pub transpose: unsafe fn(&Transpose),
    forward: [unsafe fn(&CellForward); 5],
    backward: [unsafe fn(&CellBackward); 5],
    /// The reset gate of a GRU that has it before the product, and its backward pass.
    pub reset: unsafe fn(&CellForward),
    pub reset_back: unsafe fn(&CellBackward),
    /// `iterations` rounds of independent fused multiply-adds on registers; returns (work in FLOP, a
    /// value that depends on all of them).
    #[cfg(feature = "std")]
    pub fma_loop: unsafe fn(iterations: usize) -> (f64, f32),
}

impl Kernels {
    /// The product, with weights of any format.
    ///
    /// # Safety
    /// As [`product::product`].
    #[inline(always)]
    pub unsafe fn product(&self, p: &Product) {
        let product = match p.format {
            WeightFormat::Int8 => self.product_int8,
            _ => self.product,
        };
        // SAFETY: the caller's promise.
        unsafe { product(p) }
    }

    /// Gate arithmetic of `cell`.
    pub fn forward(&self, cell: Cell) -> unsafe fn(&CellForward) {
        self.forward[index(cell)]
    }

    /// Its backward pass.
    pub fn backward(&self, cell: Cell) -> unsafe fn(&CellBackward) {
        self.backward[index(cell)]
    }
}

fn index(cell: Cell) -> usize {
    match cell {
        Cell::RnnTanh => 0,
        Cell::RnnRelu => 1,
        Cell::Lstm => 2,
        Cell::Gru => 3,
        Cell::GruResetBefore => 4,
    }
}

/// One instantiation of all kernels: a module of `#[target_feature]` functions and their table.
macro_rules! instantiate {
    ($module:ident, $simd:ty, $int8:ty, $set:ident $(, $features:literal)?) => {
        mod $module {
            use super::*;

            $(#[target_feature(enable = $features)])?
            unsafe fn product(p: &Product) {
                unsafe { product::product::<$simd>(p) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn product_int8(p: &Product) {
                unsafe { int8::product::<$int8>(p) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn dots(p: &Dots) {
                unsafe { dots::dots::<$simd>(p) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn transpose(p: &Transpose) {
                unsafe { transpose::transpose::<$simd>(p) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn rnn_tanh(p: &CellForward) {
                unsafe { cells::forward::<RnnTanh, $simd>(p) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn rnn_relu(p: &CellForward) {
                unsafe { cells::forward::<RnnRelu, $simd>(p) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn lstm(p: &CellForward) {
                unsafe { cells::forward::<Lstm, $simd>(p) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn gru(p: &CellForward) {
                unsafe { cells::forward::<Gru, $simd>(p) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn gru_reset_before(p: &CellForward) {
                unsafe { cells::forward::<GruResetBefore, $simd>(p) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn reset(p: &CellForward) {
                unsafe { cells::forward::<Reset, $simd>(p) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn rnn_tanh_back(p: &CellBackward) {
                unsafe { cells::backward::<RnnTanh, $simd>(p) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn rnn_relu_back(p: &CellBackward) {
                unsafe { cells::backward::<RnnRelu, $simd>(p) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn lstm_back(p: &CellBackward) {
                unsafe { cells::backward::<Lstm, $simd>(p) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn gru_back(p: &CellBackward) {
                unsafe { cells::backward::<Gru, $simd>(p) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn gru_reset_before_back(p: &CellBackward) {
                unsafe { cells::backward::<GruResetBefore, $simd>(p) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn reset_back(p: &CellBackward) {
                unsafe { cells::backward::<Reset, $simd>(p) }
            }
            #[cfg(feature = "std")]
            $(#[target_feature(enable = $features)])?
            unsafe fn fma_loop(iterations: usize) -> (f64, f32) {
                unsafe { super::fma_loop::<$simd>(iterations) }
            }

            pub const TABLE: Kernels = Kernels {
                set: InstructionSet::$set,
                width: <$simd as super::Simd>::WIDTH,
                rows: <$simd as super::Simd>::ROWS,
                product,
                product_int8,
                dots,
                transpose,
                forward: [rnn_tanh, rnn_relu, lstm, gru, gru_reset_before],
                backward: [
                    rnn_tanh_back,
                    rnn_relu_back,
                    lstm_back,
                    gru_back,
                    gru_reset_before_back,
                ],
                reset,
                reset_back,
                #[cfg(feature = "std")]
                fma_loop,
            };
            pub static KERNELS: Kernels = TABLE;
        }
    };
}

/// The kernels of another module with an int8 product of its own: an instruction set that has more
/// instructions for it.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
macro_rules! instantiate_int8 {
    ($module:ident, $base:ident, $int8:ty, $features:literal) => {
        mod $module {
            use super::*;

            #[target_feature(enable = $features)]
            unsafe fn product_int8(p: &Product) {
                unsafe { int8::product::<$int8>(p) }
            }

            pub static KERNELS: Kernels = Kernels { product_int8, ..super::$base::TABLE };
        }
    };
}

use super::simd::Simd;

// A module with simd128 runs nowhere else, and need not have all kernels twice.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
instantiate!(portable, Portable, PortableInt8, Portable);
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
instantiate!(simd128, Simd128, Simd128Int8, Simd128);
#[cfg(target_arch = "x86_64")]
instantiate!(avx2, Avx2, Avx2Int8, Avx2, "avx2,fma,f16c");
#[cfg(target_arch = "x86_64")]
instantiate_int8!(avx2_vnni, avx2, Avx2Vnni, "avx2,fma,f16c,avxvnni");
#[cfg(target_arch = "x86_64")]
instantiate!(
    avx512,
    Avx512,
    Avx512Int8,
    Avx512,
    "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c"
);
#[cfg(target_arch = "x86_64")]
instantiate_int8!(
    avx512_vnni,
    avx512,
    Avx512Vnni,
    "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma,f16c"
);

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
instantiate!(neon, Neon, NeonInt8, Neon, "neon");
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
instantiate_int8!(neon_dotprod, neon, NeonDotprod, "neon,dotprod");

/// Whether the processor has all of these features: detected at run time, which takes std, or known to
/// the compiler.
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_feature = "neon")))]
macro_rules! has {
    ($($feature:tt),*) => {{
        #[cfg(all(feature = "std", target_arch = "x86_64"))]
        let all = [$(std::is_x86_feature_detected!($feature)),*];
        #[cfg(all(feature = "std", target_arch = "aarch64"))]
        let all = [$(std::arch::is_aarch64_feature_detected!($feature)),*];
        #[cfg(not(feature = "std"))]
        let all = [$(cfg!(target_feature = $feature)),*];
        all.iter().all(|&has| has)
    }};
}

/// Every set that this processor can run, the fastest first; of each, the variant with the most
/// instructions for int8.
pub fn all_kernels() -> Vec<&'static Kernels> {
    let mut all: Vec<&'static Kernels> = Vec::new();
    for kernels in all_variants() {
        if all.iter().all(|other| other.set != kernels.set) {
            all.push(kernels);
        }
    }
    all
}

/// The same with all variants, which differ in the product of int8 weights alone, and not in its bits.
#[allow(clippy::vec_init_then_push, reason = "what is pushed depends on the target")]
pub fn all_variants() -> Vec<&'static Kernels> {
    let mut all: Vec<&'static Kernels> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = has!("avx2", "fma", "f16c");
        if avx2 && has!("avx512f", "avx512vl", "avx512dq", "avx512bw") {
            if has!("avx512vnni") {
                all.push(&avx512_vnni::KERNELS);
            }
            all.push(&avx512::KERNELS);
        }
        if avx2 {
            if has!("avxvnni") {
                all.push(&avx2_vnni::KERNELS);
            }
            all.push(&avx2::KERNELS);
        }
    }
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    {
        if has!("dotprod") {
            all.push(&neon_dotprod::KERNELS);
        }
        all.push(&neon::KERNELS);
    }
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    all.push(&simd128::KERNELS);
    #[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
    all.push(&portable::KERNELS);
    all
}

#[cfg(feature = "std")]
#[inline(always)]
unsafe fn fma_loop<S: Simd>(iterations: usize) -> (f64, f32) {
    const CHAINS: usize = 12;
    // SAFETY: register arithmetic only.
    unsafe {
        let mut acc = [S::splat(core::hint::black_box(0.5)); CHAINS];
        let (a, b) =
            (S::splat(core::hint::black_box(0.999)), S::splat(core::hint::black_box(1e-3)));
        for _ in 0..iterations {
            for x in &mut acc {
                *x = S::fma(*x, a, b);
            }
        }
        let mut sum = acc[0];
        for x in &acc[1..] {
            sum = S::add(sum, *x);
        }
        let mut out = [0.0f32; 16];
        S::store(out.as_mut_ptr(), sum);
        ((2 * CHAINS * S::WIDTH * iterations) as f64, out[0])
    }
}
