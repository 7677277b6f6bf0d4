//! A vector of f32 and the dozen operations the kernels need of it.
//!
//! Each instruction set is one implementation of [`Simd`]; the kernels are generic over it and are
//! instantiated once per set in [`super::dispatch`]. Every function here is `#[inline(always)]`, so
//! that it melts into the `#[target_feature]` function that calls it.

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod neon;
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod portable;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
pub use neon::Neon;
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
pub use portable::Portable;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub use wasm::{Simd128, V as Simd128Vector};
#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

/// Vector operations of one instruction set.
///
/// # Safety
/// The caller must run on a processor that has the instruction set, and must hand in pointers that
/// are valid for the number of elements each operation names. Nothing needs to be aligned.
pub unsafe trait Simd: Copy {
    /// One vector register of f32.
    type V: Copy;
    /// Elements per vector.
    const WIDTH: usize;
    /// Rows of a product tile: as many as the register file holds next to a panel of four vectors.
    const ROWS: usize;

    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(p: *const f32) -> Self::V;
    unsafe fn store(p: *mut f32, v: Self::V);
    /// `WIDTH` numbers of IEEE 754 binary16, widened exactly.
    unsafe fn load_f16(p: *const u16) -> Self::V;
    /// `WIDTH` numbers of bfloat16, widened exactly.
    unsafe fn load_bf16(p: *const u16) -> Self::V;
    /// The first `count < WIDTH` elements; the others are zero.
    unsafe fn load_part(p: *const f32, count: usize) -> Self::V;
    /// Writes the first `count < WIDTH` elements and touches nothing after them.
    unsafe fn store_part(p: *mut f32, v: Self::V, count: usize);

    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// `1 / a` to a unit or two in the last place, for normal `a`.
    unsafe fn recip(a: Self::V) -> Self::V;
    /// `a * b + c`
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// Nearest whole number, halves to even.
    unsafe fn round(a: Self::V) -> Self::V;
    /// `2^a` for whole `a` in -126..=127.
    unsafe fn exp2_whole(a: Self::V) -> Self::V;
    /// `then` where `test > 0`, else zero.
    unsafe fn where_positive(test: Self::V, then: Self::V) -> Self::V;
    /// Sum of all elements.
    unsafe fn total(a: Self::V) -> f32;

    /// `to[c, r] = from[r, c]` for a square of `WIDTH` rows, which lie `stride` and `to_stride` apart.
    #[inline(always)]
    unsafe fn transpose(from: *const f32, stride: usize, to: *mut f32, to_stride: usize) {
        // By fours, which every compiler turns into vectors.
        for c in (0..Self::WIDTH).step_by(4) {
            for r in (0..Self::WIDTH).step_by(4) {
                // SAFETY: the caller's promise; every width is a multiple of four.
                unsafe {
                    let rows: [[f32; 4]; 4] = core::array::from_fn(|i| {
                        from.add((r + i) * stride + c).cast::<[f32; 4]>().read_unaligned()
                    });
                    let columns: [[f32; 4]; 4] =
                        core::array::from_fn(|j| core::array::from_fn(|i| rows[i][j]));
                    for (j, column) in columns.into_iter().enumerate() {
                        to.add((c + j) * to_stride + r).cast::<[f32; 4]>().write_unaligned(column);
                    }
                }
            }
        }
    }
}
